"""Run a command line of topiarist several times in one process, and print the seconds of each run.

Usage: ``python -m benchmarks.kafka.again TIMES WORD...``. The output of the command is discarded.
"""

from __future__ import annotations

import gc
import io
import sys
import time
from contextlib import redirect_stderr, redirect_stdout

from topiarist.cli.main import run


def main(times: int, words: list[str]) -> None:
    """Run the command and print the seconds; end with its exit code if it fails."""
    for _ in range(times):
        gc.collect()
        gc.disable()  # as in a process of its own
        start = time.perf_counter()
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as errors:
            code = run(words)
        seconds = time.perf_counter() - start
        gc.enable()
        if code:
            sys.exit(errors.getvalue())
        print(seconds, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
