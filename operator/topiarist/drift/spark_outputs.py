"""Reports at addresses that only Spark reaches: made beside their place, and given its name as a whole.

Not every store can give a folder another name at once. So ``summary.json`` gets its name last of all, by itself, which
every store does at once: a folder without it is no report yet, whatever else is there.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from types import TracebackType

from topiarist.drift import history
from topiarist.drift.hadoop import Storage
from topiarist.drift.history import FINDINGS, SUMMARY, UNSEEN, Previous
from topiarist.drift.outputs import WORK, Folder, not_ours
from topiarist.errors import TopiaristError

_LAST = f"{SUMMARY}.last"


class StoredFolder(Folder):
    """As ``Folder``, at an address: its files are written here, and sent when all are whole."""

    def __init__(self, storage: Storage, address: str) -> None:
        self._storage = storage
        self._address = address.rstrip("/")
        self._above = self._address.rpartition("/")[0]
        self._there = storage.names(self._address)
        if self._there is not None and not _ours(self._there):
            not_ours(address)
        self._stage = f"{self._above}/.topiarist-{token_hex(8)}"
        storage.make(self._stage, address)
        self._sent: set[Path] = set()
        self._here = TemporaryDirectory(prefix="topiarist-drift-")
        super().__init__(f"{self._here.name}/report")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._here.cleanup()
        with suppress(TopiaristError):  # what went wrong first is what there is to say
            self._storage.remove(self._stage)

    @property
    def place(self) -> str:
        """The address at which the report is made."""
        return self._stage

    def shared(self, file: Path) -> str:
        """The address of a file of the report, which is sent there."""
        address = f"{self._stage}/{file.relative_to(self._aside)}"
        self._storage.put(file, address)
        self._sent.add(file)
        return address

    def _replace(self) -> None:
        self._storage.remove(f"{self._stage}/{WORK}")
        for file in sorted({*self._aside.iterdir()} - self._sent):
            name = _LAST if file.name == SUMMARY else file.name
            self._storage.put(file, f"{self._stage}/{name}")
        earlier = f"{self._above}/.topiarist-{token_hex(8)}"
        if self._there is not None:
            self._storage.move(self._address, earlier)
        try:
            self._storage.move(self._stage, self._address)
            self._storage.move(f"{self._address}/{_LAST}", f"{self._address}/{SUMMARY}")
        except BaseException:
            if self._there is not None:
                with suppress(TopiaristError):
                    self._storage.remove(self._address)
                    self._storage.move(earlier, self._address)
            raise
        self._storage.remove(earlier)


def previous(storage: Storage, address: str) -> Previous:
    """The report at an address; raises what ``history.load`` raises."""
    address = address.rstrip("/")
    with TemporaryDirectory(prefix="topiarist-drift-") as here:
        for name in (SUMMARY, UNSEEN, FINDINGS):
            storage.get(f"{address}/{name}", Path(here, name))
        try:
            return history.load(here)
        except TopiaristError as error:
            raise TopiaristError(error.reason, str(error.args[0]).replace(here, address), error.hint) from error


def _ours(names: list[str]) -> bool:
    """Whether these are those of an earlier report, of one that was not finished, or none at all."""
    return SUMMARY in names or _LAST in names or not names
