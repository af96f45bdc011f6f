"""The folder of a drift report: written to a staging folder and then renamed, completely or not at all.

``drift.report`` adds lines and commits; ``RemoteReportFolder`` does the same for remote URIs. The target
must be an earlier report, an empty folder, or nothing. Replacing an earlier report takes two renames; for an instant
between them no report exists, but never a partial one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Any, BinaryIO, NoReturn, Self

from topiarist.adapters.saved_plans.encode import dumps
from topiarist.drift.compare import LINE_FILES
from topiarist.drift.history.runs import ACCEPTED_FILE, FINDINGS_FILE, SUMMARY_FILE
from topiarist.drift.outputs import html, markdown, prometheus
from topiarist.errors import Reason, TopiaristError
from topiarist.text import printable

HTML_FILE = "report.html"

WORK_FOLDER = "work"
"""Name of a folder for temporary files in the staging folder; it is removed before the report is published."""

_SUMMARY_FORMATTERS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    SUMMARY_FILE: dumps,
    "summary.md": markdown.format_summary,
    "metrics.prom": prometheus.format_metrics,
}
"""Files that are rendered from the summary alone, with their formatters."""


class ReportFolder:
    """A drift report in the staging folder; use it as a context manager. Without ``commit`` it leaves nothing.

    Raises ``TopiaristError`` (Unwritable) from each of its methods.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._final_steps: list[Callable[[Path], None]] = []
        is_replaceable = not self._path.exists() or (self._path / SUMMARY_FILE).is_file()
        if not is_replaceable and not (self._path.is_dir() and not any(self._path.iterdir())):
            raise_not_replaceable(path)
        with self.translate_errors():
            target = self._path.resolve()
            target.parent.mkdir(parents=True, exist_ok=True)
            self._staging = target.with_name(f".topiarist-{token_hex(8)}")
            self._staging.mkdir()
            self._line_files = {name: (self._staging / name).open("wb") for name in LINE_FILES}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._line_files.values():
            file.close()
        shutil.rmtree(self._staging, ignore_errors=True)

    @property
    def staging_path(self) -> str:
        """Return the path or URI of the staging folder, where Spark may add files from any machine."""
        return str(self._staging)

    @property
    def local_path(self) -> Path:
        """Return the staging folder on this machine."""
        return self._staging

    def make_work_folder(self) -> Path:
        """Create a folder on this machine for files that the report does not have."""
        with self.translate_errors():
            folder = self._staging / WORK_FOLDER
            folder.mkdir(exist_ok=True)
            return folder

    def share_file(self, file: Path) -> str:
        """Return the path or URI where Spark can read a file of the report from any machine."""
        return str(file)

    def add_lines(self, lines: Mapping[str, Iterable[bytes]]) -> None:
        """Append lines to the files of these names."""
        with self.translate_errors():
            for name, some in lines.items():
                self._line_files[name].writelines(some)

    def add_final_step(self, work: Callable[[Path], None]) -> None:
        """Call ``work`` with the staging folder after all findings are written and before the report is published."""
        self._final_steps.append(work)

    def commit(self, summary: Mapping[str, Any]) -> None:
        """Write the remaining files, sync all files to disk, and rename the staging folder to the target."""
        with self.translate_errors():
            for file in self._line_files.values():
                _sync_to_disk(file)
            for work in self._final_steps:
                work(self._staging)
            for name, text in _SUMMARY_FORMATTERS.items():
                self._write_file(name, [text(summary).encode()])
            self._write_file(
                HTML_FILE, html.render_chunks(summary, self._staging / FINDINGS_FILE, self._staging / ACCEPTED_FILE)
            )
            shutil.rmtree(self._staging / WORK_FOLDER, ignore_errors=True)
            self._publish()

    def _write_file(self, name: str, chunks: Iterable[bytes]) -> None:
        with (self._staging / name).open("wb") as file:
            file.writelines(chunks)
            _sync_to_disk(file)

    def _publish(self) -> None:
        target = self._path.resolve()
        if not target.exists():
            self._staging.rename(target)
            return
        # A rename cannot replace a folder with content, so that the earlier report is renamed first.
        backup = target.with_name(f".topiarist-{token_hex(8)}")
        target.rename(backup)
        try:
            self._staging.rename(target)
        except BaseException:
            with suppress(OSError):
                backup.rename(target)
            raise
        shutil.rmtree(backup, ignore_errors=True)

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Translate each ``OSError``: what is written for the report cannot be written."""
        try:
            yield
        except OSError as error:
            _raise_unwritable(str(self._path), error.strerror or str(error))


def raise_not_replaceable(path: str) -> NoReturn:
    """Raise ``Unwritable`` because the path holds something other than a drift report."""
    _raise_unwritable(path, "it is not empty and not a drift report; use a new or an empty folder")


def _sync_to_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _raise_unwritable(path: str, message: str) -> NoReturn:
    raise TopiaristError(Reason.UNWRITABLE, f"{printable(path, 4096)}: cannot be written: {message}")
