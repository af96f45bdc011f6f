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

from topiarist.adapters.snapshot import Broken
from topiarist.core.values import shown
from topiarist.drift import markdown, page, prometheus
from topiarist.drift.findings import Row
from topiarist.drift.history import FINDINGS, SUMMARY, UNSEEN
from topiarist.errors import Reason, TopiaristError
from topiarist.render.document import dumps

BROKEN, PAGE = "broken.jsonl", "report.html"

WORK = "work"
"""What lies there while a report is made is no part of it."""

_WRITERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    SUMMARY: dumps,
    "summary.md": markdown.summary,
    "metrics.prom": prometheus.metrics,
}
"""The files that are made of the summary alone."""

_as_json = json.JSONEncoder(separators=(",", ":")).encode


class Folder:
    """A report in the making; use as a context manager. Without ``commit`` nothing is left of it.

    Raises ``TopiaristError`` (Unwritable) from each of its methods.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._last: list[Callable[[Path], None]] = []
        if self._path.exists() and not _ours(self._path):
            not_ours(path)
        try:
            target = self._path.resolve()
            target.parent.mkdir(parents=True, exist_ok=True)
            self._aside = target.with_name(f".topiarist-{token_hex(8)}")
            self._aside.mkdir()
            self._findings = (self._aside / FINDINGS).open("wb")
        except OSError as error:
            _unwritable(path, error.strerror or str(error))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._findings.close()
        shutil.rmtree(self._aside, ignore_errors=True)

    @property
    def place(self) -> str:
        """Where the report is made: a path or an address at which Spark may add to it, wherever it runs."""
        return str(self._aside)

    def shared(self, file: Path) -> str:
        """Where Spark finds a file of the report, wherever it runs."""
        return str(file)

    def add(self, rows: Iterable[Row]) -> None:
        """Write findings."""
        self._guarded(lambda: self._findings.writelines(map(_line, rows)))

    def at_end(self, work: Callable[[Path], None]) -> None:
        """Have ``work`` done in the folder, with its path, once all findings are in it, and before it is put there."""
        self._last.append(work)

    def commit(self, summary: Mapping[str, Any], unseen: Iterable[Row], broken: Iterable[Broken]) -> None:
        """Write the rest, bring all of it to the disk, and put it in its place."""

        def finish() -> None:
            _synced(self._findings)
            for work in self._last:
                work(self._aside)
            self._write(UNSEEN, map(_line, unseen))
            self._write(BROKEN, (_line(one._asdict()) for one in broken))
            for name, text in _WRITERS.items():
                self._write(name, [text(summary).encode()])
            self._write(PAGE, page.chunks(summary, self._aside / FINDINGS))
            shutil.rmtree(self._aside / WORK, ignore_errors=True)
            self._replace()

        self._guarded(finish)

    def _write(self, name: str, chunks: Iterable[bytes]) -> None:
        with (self._aside / name).open("wb") as file:
            file.writelines(chunks)
            _synced(file)

    def _replace(self) -> None:
        target = self._path.resolve()
        if not target.exists():
            self._aside.rename(target)
            return
        earlier = target.with_name(f".topiarist-{token_hex(8)}")
        target.rename(earlier)
        try:
            self._aside.rename(target)
        except BaseException:
            with suppress(OSError):
                earlier.rename(target)
            raise
        shutil.rmtree(earlier, ignore_errors=True)

    def _guarded(self, work: Callable[[], object]) -> None:
        try:
            work()
        except OSError as error:
            _unwritable(str(self._path), error.strerror or str(error))


def not_ours(path: str) -> NoReturn:
    """Raise ``Unwritable``: what is at this path is not for us to replace."""
    _unwritable(path, "there is something else than a drift report; name a folder that is new or empty")


def _ours(path: Path) -> bool:
    """Whether there is an earlier report, or an empty folder, which a report may take the place of."""
    return path.is_dir() and ((path / SUMMARY).is_file() or not any(path.iterdir()))


def _synced(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _line(row: Mapping[str, Any]) -> bytes:
    return _as_json(row).encode() + b"\n"


def _unwritable(path: str, words: str) -> NoReturn:
    raise TopiaristError(Reason.UNWRITABLE, f"{shown(path, 4096)}: cannot be written: {words}")
