"""The folder of a report: written beside its place and then put there as a whole, or not at all.

What stood there must be an earlier report, or nothing. Between the two renames that take the place of an earlier one
there is, for an instant, none; never half of one.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Any, BinaryIO, NoReturn, Self

from topiarist.adapters.saved_plans.encode import dumps
from topiarist.adapters.snapshots.lenient_reader import InvalidRow
from topiarist.drift.history import FINDINGS_FILE, NOT_EVALUATED_FILE, SUMMARY_FILE
from topiarist.drift.outputs import html, markdown, prometheus
from topiarist.drift.rows import FindingRow
from topiarist.errors import Reason, TopiaristError
from topiarist.text import printable

INVALID_ROWS_FILE, HTML_FILE = "broken.jsonl", "report.html"

WORK_FOLDER = "work"
"""What lies there while a report is made is no part of it."""

_SUMMARY_FORMATTERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    SUMMARY_FILE: dumps,
    "summary.md": markdown.format_summary,
    "metrics.prom": prometheus.format_metrics,
}
"""The files that are made of the summary alone."""

_encode_json = json.JSONEncoder(separators=(",", ":")).encode


class ReportFolder:
    """A report in the making; use as a context manager. Without ``commit`` nothing is left of it.

    Raises ``TopiaristError`` (Unwritable) from each of its methods.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._final_steps: list[Callable[[Path], None]] = []
        if self._path.exists() and not _is_replaceable(self._path):
            raise_not_replaceable(path)
        try:
            target = self._path.resolve()
            target.parent.mkdir(parents=True, exist_ok=True)
            self._staging = target.with_name(f".topiarist-{token_hex(8)}")
            self._staging.mkdir()
            self._findings_file = (self._staging / FINDINGS_FILE).open("wb")
        except OSError as error:
            _raise_unwritable(path, error.strerror or str(error))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._findings_file.close()
        shutil.rmtree(self._staging, ignore_errors=True)

    @property
    def staging_path(self) -> str:
        """Where the report is made: a path or an address at which Spark may add to it, wherever it runs."""
        return str(self._staging)

    def share_file(self, file: Path) -> str:
        """Where Spark finds a file of the report, wherever it runs."""
        return str(file)

    def add_rows(self, rows: Iterable[FindingRow]) -> None:
        """Write findings."""
        self._translate_errors(lambda: self._findings_file.writelines(map(_encode_line, rows)))

    def add_final_step(self, work: Callable[[Path], None]) -> None:
        """Have ``work`` done in the folder, with its path, once all findings are in it, and before it is put there."""
        self._final_steps.append(work)

    def commit(
        self, summary: Mapping[str, Any], not_evaluated: Iterable[FindingRow], invalid_rows: Iterable[InvalidRow]
    ) -> None:
        """Write the rest, bring all of it to the disk, and put it in its place."""

        def finish() -> None:
            _sync_to_disk(self._findings_file)
            for work in self._final_steps:
                work(self._staging)
            self._write_file(NOT_EVALUATED_FILE, map(_encode_line, not_evaluated))
            self._write_file(INVALID_ROWS_FILE, (_encode_line(one._asdict()) for one in invalid_rows))
            for name, text in _SUMMARY_FORMATTERS.items():
                self._write_file(name, [text(summary).encode()])
            self._write_file(HTML_FILE, html.render_chunks(summary, self._staging / FINDINGS_FILE))
            shutil.rmtree(self._staging / WORK_FOLDER, ignore_errors=True)
            self._publish()

        self._translate_errors(finish)

    def _write_file(self, name: str, chunks: Iterable[bytes]) -> None:
        with (self._staging / name).open("wb") as file:
            file.writelines(chunks)
            _sync_to_disk(file)

    def _publish(self) -> None:
        target = self._path.resolve()
        if not target.exists():
            self._staging.rename(target)
            return
        earlier = target.with_name(f".topiarist-{token_hex(8)}")
        target.rename(earlier)
        try:
            self._staging.rename(target)
        except BaseException:
            with suppress(OSError):
                earlier.rename(target)
            raise
        shutil.rmtree(earlier, ignore_errors=True)

    def _translate_errors(self, work: Callable[[], object]) -> None:
        try:
            work()
        except OSError as error:
            _raise_unwritable(str(self._path), error.strerror or str(error))


def raise_not_replaceable(path: str) -> NoReturn:
    """Raise ``Unwritable``: what is at this path is not for us to replace."""
    _raise_unwritable(path, "there is something else than a drift report; name a folder that is new or empty")


def _is_replaceable(path: Path) -> bool:
    """Whether there is an earlier report, or an empty folder, which a report may take the place of."""
    return path.is_dir() and ((path / SUMMARY_FILE).is_file() or not any(path.iterdir()))


def _sync_to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _encode_line(row: Mapping[str, Any]) -> bytes:
    return _encode_json(row).encode() + b"\n"


def _raise_unwritable(path: str, message: str) -> NoReturn:
    raise TopiaristError(Reason.UNWRITABLE, f"{printable(path, 4096)}: cannot be written: {message}")
