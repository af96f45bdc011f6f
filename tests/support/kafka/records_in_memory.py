"""The records of topiarist in memory: the port that writes of topics and moves use, without brokers below it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from topiarist.adapters.kafka_admin.records.codec import Records, TopicRecord, resolve
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import BatchRecord
from topiarist.model.state import ReadError, TopicState

FENCED = TopiaristError(Reason.SESSION_LOST, "another run took over", "run again")


class RecordsInMemory:
    """Records that outlive a run as the topic of records does: a test ends a run, and begins another.

    ``commits`` has each commit of topics: its changes, and whether the lock is held. ``batches`` are the records of
    moves in the order of their commits. A run that has given up the lock must acquire the records before it commits
    again. ``stop`` is that of the last acquisition.
    """

    def __init__(self, read_topic: Callable[[str], TopicState | None] = lambda name: None) -> None:
        self.read_topic = read_topic
        self.topics: dict[str, TopicRecord] = {}
        self.batch: BatchRecord | None = None
        self.commits: list[tuple[Mapping[str, TopicRecord | None], bool]] = []
        self.batches: list[BatchRecord | None] = []
        self.errors: dict[str, ReadError] = {}
        self.is_held = self.is_acquired = False
        self.acquisitions = 0
        self.stop: Callable[[], bool] = lambda: False
        self.is_fenced = False
        self.fence_checks = 0
        self.before_fence: Callable[[int], None] = lambda number: None
        self.before_commit: Callable[[int], None] = lambda number: None

    def read(self) -> Records:
        """Return the records."""
        return Records(dict(self.topics), moves=self.batch, errors=self.errors)

    def acquire(self, stop: Callable[[], bool]) -> Records:
        """Resolve the intents of the run before, and return the records."""
        assert not self.is_held, "the lock is taken twice"
        self.is_fenced, self.is_acquired, self.stop = False, True, stop
        self.acquisitions += 1
        intents = {name: each for name, each in self.topics.items() if each.intent}
        found = {name: resolve(each, self.read_topic(name), has_waited=True) for name, each in intents.items()}
        if found:
            self.commit(found, hold=True)
        return self.read()

    def commit(self, changes: Mapping[str, TopicRecord | None], *, hold: bool) -> None:
        """Apply the changes, unless the run is fenced."""
        self.before_commit(len(self.commits) + 1)
        self._require_acquired()
        self.commits.append((dict(changes), hold))
        for name, record in changes.items():
            if record is None:
                self.topics.pop(name, None)
            else:
                self.topics[name] = record
        self.is_held = self.is_acquired = hold

    def commit_batch(self, batch: BatchRecord | None, *, hold: bool) -> None:
        """Keep the record of the moves, unless the run is fenced."""
        self._require_acquired()
        self.batch = batch
        self.batches.append(batch)
        self.is_held = self.is_acquired = hold

    def keep(self) -> None:
        """Do nothing: no time passes."""

    def release(self) -> None:
        """Let other runs begin."""
        self.is_held = self.is_acquired = False

    def require_fence(self) -> None:
        """Raise if the run is fenced, or holds no lock."""
        self.fence_checks += 1
        self.before_fence(self.fence_checks)
        if self.is_fenced:
            raise FENCED
        assert self.is_held, "an Admin request without the lock"

    def _require_acquired(self) -> None:
        if self.is_fenced:
            raise FENCED
        assert self.is_acquired, "a commit of a run that other runs need not wait for"

    @property
    def intents(self) -> list[str]:
        """Return the topics with an intent."""
        return sorted(name for name, each in self.topics.items() if each.intent)
