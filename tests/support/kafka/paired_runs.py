"""Pairs of the command ``topiarist apply`` on one cluster, each with topics of its own: one of a pair must wait.

    python -m support.kafka.paired_runs 200             # on a cluster of its own, then again beside two busy processes
    python -m support.kafka.paired_runs 200 --busy 0    # only on the quiet machine

The second command of a pair begins up to half a second after the first one. Two processes run the commands of all
pairs, so that a pair does not wait for the start of Python. Prints the counts as JSON, and ends with 1 if a run of a
pair failed: no process is killed, so no run may be taken over.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple, Self

from support.kafka.kraft import KraftCluster
from support.kafka.releases import NEWEST
from topiarist.cli.main import run

MAX_DELAY_S = 0.5
"""Seconds from the first start to the second: each pair has another part of it."""

TAKEN_OVER = "another run has taken over"
_CLUSTER = """apiVersion: topiarist.dev/v1
kind: Cluster
metadata: {{name: demo}}
spec:
  kafka: {{bootstrapServers: "{bootstrap}"}}
"""
_TOPIC = """---
apiVersion: topiarist.dev/v1
kind: Topic
metadata: {{name: {name}}}
spec: {{clusters: [demo], partitions: 1, replicationFactor: 1, config: {{retention.ms: {retention}}}}}
"""


class Ended(NamedTuple):
    """One command of a pair: its exit code, all that it printed, and the seconds that it took."""

    code: int
    text: str
    seconds: float

    @property
    def is_taken_over(self) -> bool:
        """Return whether another run has fenced this one."""
        return TAKEN_OVER in self.text


class Pairs:
    """Two folders of manifests with ``topics`` topics each, which two processes apply. Use it with ``with``."""

    def __init__(self, bootstrap: str, folder: Path, topics: int = 15) -> None:
        self._folders = [folder / owner for owner in ("one", "two")]
        self._topics = topics
        self._round = 0
        for each in self._folders:
            each.mkdir()
            (each / "cluster.yaml").write_text(_CLUSTER.format(bootstrap=bootstrap), encoding="utf-8")
        self._workers = [_start(each) for each in self._folders]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for each in self._workers:
            each.kill()
            each.communicate()

    def run(self, delay: float) -> Sequence[Ended]:
        """Give all topics another value, begin both commands, the second one ``delay`` seconds later; wait for both."""
        self._round += 1
        for folder in self._folders:
            names = [f"pairs-{folder.name}-{number}" for number in range(self._topics)]
            texts = [_TOPIC.format(name=name, retention=1_000_000 + self._round) for name in names]
            (folder / "topics.yaml").write_text("".join(texts), encoding="utf-8")
        first, second = self._workers
        _send(first)
        time.sleep(delay)  # the schedule that is tried
        _send(second)
        return [_receive(each) for each in self._workers]


def _start(folder: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", __spec__.name, "--worker", str(folder)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def _send(worker: subprocess.Popen[str]) -> None:
    assert worker.stdin
    worker.stdin.write("\n")
    worker.stdin.flush()


def _receive(worker: subprocess.Popen[str]) -> Ended:
    assert worker.stdout
    return Ended(*json.loads(worker.stdout.readline()))


def work(folder: str) -> None:
    """Apply a folder for each line of the input, and print the exit code, the text and the seconds."""
    for _ in sys.stdin:
        text, began = io.StringIO(), time.monotonic()
        with redirect_stdout(text), redirect_stderr(text):
            code = run(["apply", folder, "--yes", "--owner", Path(folder).name])
        print(json.dumps([code, text.getvalue(), time.monotonic() - began]), flush=True)


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep processors busy with this many processes."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run_pairs(pairs: Pairs, count: int) -> Mapping[str, object]:
    """Run pairs with all delays; return how many ended how, the longest one, and the ends of up to three texts."""
    counts: Counter[str] = Counter(pairs=0, fenced=0, unknown=0, failed=0)
    longest, texts = 0.0, []
    for number in range(count):
        ended = pairs.run(MAX_DELAY_S * number / max(1, count - 1))
        failed = [each for each in ended if each.code]
        counts["pairs"] += 1
        counts["fenced"] += any(each.is_taken_over for each in ended)
        counts["unknown"] += any("OutcomeUnknown" in each.text for each in ended)
        counts["failed"] += bool(failed)
        longest = max(longest, *(each.seconds for each in ended))
        texts += [each.text[-500:] for each in failed]
        if (number + 1) % 10 == 0:
            print(json.dumps(counts), file=sys.stderr, flush=True)
    return {**counts, "longest_s": round(longest, 1), "texts": texts[:3]}


def main(arguments: Sequence[str]) -> int:
    """Run pairs on a cluster of their own; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?")
    parser.add_argument("--worker", metavar="FOLDER")
    parser.add_argument("--busy", type=int, nargs="*", default=[0, 2])
    parser.add_argument("--topics", type=int, default=15)
    options = parser.parse_args(arguments)
    if options.worker:
        work(options.worker)
        return 0
    results = {}
    with (
        tempfile.TemporaryDirectory() as name,
        KraftCluster(NEWEST, {1: "a", 2: "b", 3: "c"}) as kafka,
        Pairs(kafka.bootstrap, Path(name), options.topics) as pairs,
    ):
        created = pairs.run(MAX_DELAY_S)
        if any(each.code for each in created):
            raise SystemExit(f"the topics cannot be created: {created}")
        for busy in options.busy:
            with busy_processes(busy):
                results[f"{busy} busy processes"] = run_pairs(pairs, options.count)
    print(json.dumps(results, indent=1))
    return int(any(result["failed"] for result in results.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
