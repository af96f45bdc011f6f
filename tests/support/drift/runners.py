"""One drift report by several runners: their files, messages and exit codes, to be compared."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import redirect_stderr
from pathlib import Path
from typing import NamedTuple

from topiarist.cli.main import run


class RunnerReport(NamedTuple):
    """The exit code and the messages of a run, and the files of its report by name; without Parquet."""

    code: int
    messages: tuple[str, ...]
    files: Mapping[str, bytes]


def run_each(
    manifests: Path, snapshots: str | Path, out: Path, runners: Mapping[str, tuple[str, ...]], *words: str | Path
) -> dict[str, RunnerReport]:
    """Return the report of each runner, which is left in a folder of its name in ``out``.

    ``runners`` are the options of each. The message that names the runner and the path of the report are left out.
    """
    return {name: run_one(manifests, snapshots, out / name, *given, *words) for name, given in runners.items()}


def run_one(manifests: Path, snapshots: str | Path, report: Path, *words: str | Path) -> RunnerReport:
    """Return the report of one run."""
    stderr = io.StringIO()
    command = ["drift", str(manifests), "--snapshots", str(snapshots), "--out", str(report), *map(str, words)]
    with redirect_stderr(stderr):
        code = run(command)
    lines = stderr.getvalue().replace(str(report), "REPORT").splitlines()
    messages = tuple(line for line in lines if not line.startswith("comparing in "))
    assert len(messages) == len(lines) - 1, lines
    assert report.exists(), lines
    files = {path.name: path.read_bytes() for path in report.iterdir() if path.is_file()}
    return RunnerReport(code, messages, files)
