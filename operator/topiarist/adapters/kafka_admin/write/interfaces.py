"""The parts of reading and of the records that the writer uses, so that tests can replace them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from topiarist.adapters.kafka_admin.read.topic_reader import Look
from topiarist.adapters.kafka_admin.records.values import Records, TopicRecord


class Reader(Protocol):
    """A reader of single topics, for the comparison directly before and after a chunk."""

    def look(self, names: Collection[str]) -> Look:
        """Return these topics as they are now, without their records. Raises ``TopiaristError``."""

    def look_first(self, names: Collection[str]) -> Look:
        """Return the same, or topics as they were some seconds ago, before any other run has written something."""

    def look_again(self, ids: Mapping[str, str | None], *, is_result: bool = False) -> Look:
        """Return the same of topics that had these ids before (None: that did not exist).

        Those of a result may lack their reassignments.
        """


class RecordsRun(Protocol):
    """One run over the records of topiarist. Each method raises ``TopiaristError``, retryable if another run took over.

    After such an error every further call raises it too. After a commit that does not hold the lock, the run has to
    acquire the records again.
    """

    def acquire(self, stop: Callable[[], bool]) -> Records:
        """Wait for other runs, fence the one before, read all records, check the freeze, resolve intents."""

    def commit(self, changes: Mapping[str, TopicRecord | None], *, hold: bool) -> None:
        """Write records in one transaction (None: delete); the lock is held afterwards if ``hold`` is true."""

    def keep(self) -> None:
        """Renew the time for which other runs wait, if a third of it is over."""

    def release(self) -> None:
        """Let other runs begin, if this one has acquired the records."""

    def require_fence(self) -> None:
        """Return if this run holds the lock, its lease has time left, and no other run has taken over."""
