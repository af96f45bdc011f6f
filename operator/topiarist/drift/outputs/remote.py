"""Drift reports at URIs: published so that a run that dies leaves the earlier report or the new one, and no mixture.

``drift.report`` uses it. No object store renames a folder. Therefore a report is first written beside its target,
``summary.json`` last, and is complete from then on. Its files are then copied to the target, by the store itself. A run
that dies before the copy is complete leaves the complete report, which readers prefer and the next run publishes. Of
two runs for one target at the same time, the one that began first ends with an error.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from types import TracebackType

from topiarist.drift import history
from topiarist.drift.history import (
    ACCEPTED_FILE,
    FINDINGS_FILE,
    NOT_EVALUATED_FILE,
    SUMMARY_FILE,
    PreviousReport,
    name_pending,
)
from topiarist.drift.outputs.folder import WORK_FOLDER, ReportFolder, raise_not_replaceable, raise_unwritable
from topiarist.drift.storage import Storage
from topiarist.errors import Reason, TopiaristError

_MARK = "_run-"
"""Begin of the name of a file in a pending report: each run that writes one there has a name of its own."""


def _pending_address(address: str) -> str:
    parent, _, name = address.rstrip("/").rpartition("/")
    return f"{parent}/{name_pending(name)}"


def _find_report(address: str) -> str:
    """Return the address of the newest complete report in or for a folder."""
    pending = _pending_address(address)
    return pending if SUMMARY_FILE in (Storage().list_names(pending) or ()) else address.rstrip("/")


def exists(address: str) -> bool:
    """Return whether a URI is a file or a folder, or has a report that is still to be published."""
    return bool(Storage().list_names(_find_report(address)))


def load_previous(address: str) -> PreviousReport:
    """Read the report at a URI; raises the errors of ``history.load_previous``."""
    place = _find_report(address)
    with TemporaryDirectory(prefix="topiarist-drift-") as here:
        for name in (SUMMARY_FILE, NOT_EVALUATED_FILE, FINDINGS_FILE, ACCEPTED_FILE):
            Storage().download(f"{place}/{name}", Path(here, name))
        try:
            return history.load_previous(here)
        except TopiaristError as error:
            raise TopiaristError(error.reason, error.message.replace(here, place), error.hint) from error


class RemoteReportFolder(ReportFolder):
    """A ``ReportFolder`` at a URI: files are written locally and uploaded, without those in ``remote_names``."""

    def __init__(self, address: str) -> None:
        self._storage = Storage(Reason.UNWRITABLE)
        self._uri = address.rstrip("/")
        self._pending_uri = _pending_address(address)
        self._mark = f"{_MARK}{token_hex(8)}"
        if _find_report(address) == self._pending_uri:
            self._write_mark()
            self._copy_to_target()
            self._remove_pending()
        names = self._storage.list_names(self._uri)
        if names and SUMMARY_FILE not in names:
            raise_not_replaceable(address)
        self._storage.remove(self._pending_uri)
        self._write_mark()  # before the work: nothing may be writable here
        self._local_folder = TemporaryDirectory(prefix="topiarist-drift-")
        super().__init__(f"{self._local_folder.name}/report")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._local_folder.cleanup()
        if kind is not None:
            marks = [self._mark]
            with suppress(TopiaristError):  # an error of the cleanup must not hide the first error
                marks = self._list_marks()
                if {*marks} <= {self._mark} and _find_report(self._uri) == self._uri:  # else it is complete
                    self._remove_pending()
            if isinstance(error, TopiaristError):
                self._require_alone(marks)

    @property
    def staging_path(self) -> str:
        """Return the URI of the staging folder. Raises ``Unwritable`` if another run has begun to write there."""
        self._require_alone(self._list_marks())
        return self._pending_uri

    def _write_mark(self) -> None:
        self._storage.write_file(f"{self._pending_uri}/{self._mark}", [])

    def _list_marks(self) -> list[str]:
        return [name for name in self._storage.list_names(self._pending_uri) or () if name.startswith(_MARK)]

    def _require_alone(self, marks: list[str]) -> None:
        """Raise ``Unwritable`` if another run has begun to write the report: it has removed the files of this run."""
        if marks != [self._mark]:
            raise_unwritable(self._uri, "another run has begun to write this report; give each run a folder of its own")

    def _publish(self) -> None:
        self._storage.remove(f"{self.staging_path}/{WORK_FOLDER}")
        files = [file for file in sorted(self._staging.rglob("*")) if file.is_file()]
        names = [str(file.relative_to(self._staging)) for file in files]
        for name in sorted(names, key=lambda name: name == SUMMARY_FILE):  # which makes the report complete
            if name == SUMMARY_FILE:
                self._require_alone(self._list_marks())
            if name not in self.remote_names:
                self._storage.upload(self._staging / name, f"{self._pending_uri}/{name}")
        self._copy_to_target()
        if self._list_marks() == [self._mark]:  # else the other run removes what it is reading
            self._remove_pending()

    def _copy_to_target(self) -> None:
        """Replace the target by the complete report beside it; the summary is the last file of both."""
        files = self._storage.list_files(self._pending_uri)
        self._storage.remove(self._uri)
        for file in sorted(files, key=lambda file: file == f"{self._pending_uri}/{SUMMARY_FILE}"):
            self._storage.copy(file, self._uri + file.removeprefix(self._pending_uri))

    def _remove_pending(self) -> None:
        # Without its summary it is no report, whatever else is left of it.
        self._storage.remove(f"{self._pending_uri}/{SUMMARY_FILE}")
        self._storage.remove(self._pending_uri)
