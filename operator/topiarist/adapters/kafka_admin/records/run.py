"""One run over the records: lock, fence, whole read, commits.

``init`` of the transactional id, the whole read and the commit are a compare-and-set over all records. The lock only
keeps two runs from writing configs of one chunk; it lives from the intents of a chunk to its final records. Before each
Admin request a run asks the coordinator whether it is still the newest, and then its own clock: the first finds
takeovers, the second stops of the process. A stop between that check and the request is not found.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from topiarist.adapters.kafka_admin.connection.connection import Disconnected
from topiarist.adapters.kafka_admin.records import codec, constants
from topiarist.adapters.kafka_admin.records.constants import SYSTEM_CLOCK, Clock
from topiarist.adapters.kafka_admin.records.intents import PresentTopics, forget_intent, has_late_write, resolve
from topiarist.adapters.kafka_admin.records.log import RecordsLog
from topiarist.adapters.kafka_admin.records.topic import (
    FoundTopic,
    create_topic,
    find_topic,
    lost_topic,
    require_compaction,
    require_own,
)
from topiarist.adapters.kafka_admin.records.transactions import Fenced, OutcomeUnknown, Producer, RecordsSession
from topiarist.adapters.kafka_admin.records.values import IntentKind, Lock, Meta, Moved, Records, TopicRecord
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import DEFAULT_RECORDS_TOPIC, RecordsTopic
from topiarist.model.moves import BatchRecord
from topiarist.model.outcome import FreezeResult, Result
from topiarist.model.state import Freeze

TRANSACTIONAL_ID = "topiarist"

HINT_RUN_AGAIN = "run again: changes that were made are recognized"


class RecordsRun:
    """The records as one run sees and writes them. After a failed commit, or a takeover, every call raises the error.

    ``look`` reads topics after a sync, to resolve intents. ``leader_epoch`` reads the epoch of the controller, None if
    it does not answer at once.
    """

    def __init__(
        self,
        session: RecordsSession,
        owner: str,
        *,
        look: Callable[[Collection[str]], PresentTopics],
        leader_epoch: Callable[[], int | None] = lambda: None,
        topic: RecordsTopic = DEFAULT_RECORDS_TOPIC,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.run = f"{owner}-{uuid.uuid4().hex[:12]}"
        self._session = session
        self._owner = owner
        self._look = look
        self._leader_epoch = leader_epoch
        self._topic = topic
        self._expected_topic_id = topic.known_id
        self._clock = clock
        self._log = RecordsLog(session, topic.name, clock)
        self._producer = Producer(session, topic.name, TRANSACTIONAL_ID, clock)
        self._found: FoundTopic | None = None
        self._records = Records()
        self._send_until: float | None = None
        self._failure: TopiaristError | None = TopiaristError(Reason.SESSION_LOST, "the records were not acquired")

    def read(self) -> Records:
        """Return all records that were committed before the call, without a fence; no topic: no records.

        A commit is answered before its records can be read, so this waits until all transactions before the end of the
        topic have ended. Raises ``RecordsBlocked`` if one does not end, and ``RecordsLost``.
        """
        return self._read(whole=True)

    def acquire(
        self, stop: Callable[[], bool] = lambda: False, timeout: float = 600.0, *, ignore_freeze: bool = False
    ) -> Records:
        """Wait for the lock, fence all earlier runs, and return all records, with foreign intents resolved.

        ``ignore_freeze`` is for writes of records alone, which change no topic.

        Raises ``TopiaristError``: ``Locked`` after ``timeout`` seconds or if ``stop()`` is true, ``Frozen``,
        ``RecordsBlocked``, ``RecordsLost``, ``Unreachable``.
        """
        self._take(stop, timeout)
        if self._records.gate is not None and not ignore_freeze:
            self._failure = _frozen(self._records.gate)
            raise self._failure
        self._resolve_intents(stop)
        return self._records

    def commit(self, changes: Mapping[str, TopicRecord | None], *, hold: bool) -> None:
        """Write records (None: delete) in one transaction, and hold the lock afterwards if ``hold`` is true."""
        unreadable = sorted(changes.keys() & self._records.errors.keys())
        if unreadable:
            raise TopiaristError(
                Reason.UNREADABLE, f"the record of {unreadable[0]} cannot be read, so it is not replaced"
            )
        self._write(
            {f"{codec.TOPIC_PREFIX}{name}": record and codec.encode_topic(record) for name, record in changes.items()},
            hold=hold,
        )
        kept = {name: record for name, record in {**self._records.topics, **changes}.items() if record is not None}
        self._records = self._records._replace(topics=kept)

    def commit_batch(self, batch: BatchRecord | None, *, hold: bool) -> None:
        """Write the record of the moves in flight (None: delete it), and hold the lock or give it up."""
        self._write({codec.MOVES: batch and codec.encode_batch(batch)}, hold=hold)
        self._records = self._records._replace(moves=batch)

    def commit_moved(self, topics: Mapping[str, TopicRecord], moved: Moved, gate: Freeze | None) -> None:
        """Write the records that came from ZooKeeper in one transaction, with the freeze that was there."""
        values: dict[str, bytes | None] = {
            f"{codec.TOPIC_PREFIX}{name}": codec.encode_topic(record) for name, record in topics.items()
        }
        self._write({**values, codec.MOVED: codec.encode_moved(moved), codec.GATE: codec.encode_gate(gate)}, hold=False)
        self._records = self._records._replace(topics={**self._records.topics, **topics}, moved=moved, gate=gate)

    def require_fence(self) -> None:
        """Return if this run is the newest, holds the lock, and its lease has time left. Then send at once.

        Raises ``SessionLost`` if another run has taken over or the time is over, and ``Frozen`` after a freeze.
        """
        self._require_usable()
        if self._send_until is None:
            raise self._fail("the lock is not held")
        try:
            self._producer.require_fence()
        except (Fenced, OutcomeUnknown) as error:
            raise self._taken_over(error) from error
        except TopiaristError as error:
            self._failure = error
            raise
        # After the check, which may have waited. Records may still be written: the coordinator fences those.
        if self._clock.now() >= self._send_until:
            message = f"a chunk took longer than {constants.LEASE_S - constants.MARGIN_S:g} s, so nothing more is sent"
            raise TopiaristError(Reason.SESSION_LOST, message, HINT_RUN_AGAIN)

    def release(self) -> None:
        """Give up the lock, if it is held and the run has not failed."""
        if self._failure is None and self._send_until is not None:
            self.commit({}, hold=False)

    def set_freeze(self, freeze: Freeze | None, *, by: str, force: bool) -> FreezeResult:
        """Freeze the cluster, or unfreeze it if ``freeze`` is None; this fences a run that is writing, at once.

        A freeze of a user other than ``by`` is changed only with ``force``. The lock stays with its holder: requests
        that it has sent may still be carried out.
        """
        for attempt in range(1, 10):
            try:
                self._begin()
                current = self._records.gate
                if current == freeze:
                    return FreezeResult(Result.UNCHANGED, current)
                if current and freeze and (current.by, current.reason) == (freeze.by, freeze.reason):
                    return FreezeResult(Result.UNCHANGED, current)
                if current and current.by != by and not force:
                    return FreezeResult(Result.REFUSED, current)
                lock = self._records.lock._replace(number=self._records.number + 1)
                self._send({codec.GATE: codec.encode_gate(freeze)}, lock)
                return FreezeResult(Result.DONE, current)
            except (Fenced, OutcomeUnknown):
                self._pause(attempt)
        raise TopiaristError(Reason.STATE_CONFLICT, "other runs took the records ten times in a row", "run again")

    def _read(self, *, whole: bool) -> Records:
        found = find_topic(self._session, self._topic)
        self._require_expected(found)
        if found is None:
            return Records()
        require_compaction(self._session, self._topic)
        records = codec.decode_records(self._log.read(whole=whole))
        require_own(records, found, self._topic.name)
        return records

    def _take(self, stop: Callable[[], bool], timeout: float) -> None:
        """Steps 1 to 4: wait for the lock, init, read whole."""
        deadline, attempt = self._clock.now() + timeout, 0
        while True:
            waited_for = self._wait_for_lock(stop, deadline)
            try:
                self._begin()
            except (Fenced, OutcomeUnknown, Disconnected) as error:
                attempt += 1
                if stop() or self._clock.now() >= deadline:
                    raise TopiaristError(Reason.LOCKED, f"other runs took the records: {error}") from error
                self._pause(attempt)
                continue
            lock = self._records.lock
            if lock.run and lock != waited_for:
                # Taken since the wait. Its run can commit no more, but what it has sent may be carried out.
                self._sleep(lock.lease, stop)
            return

    def _begin(self) -> None:
        """Fence all earlier runs and read everything. Raises ``Fenced``, ``OutcomeUnknown`` and ``TopiaristError``."""
        found = find_topic(self._session, self._topic)
        self._require_expected(found)
        self._found = found or create_topic(self._session, self._topic, self._clock)
        require_compaction(self._session, self._topic)
        self._producer.init()
        self._records = codec.decode_records(self._log.read(whole=True))
        self._require_same_topic()
        require_own(self._records, self._found, self._topic.name)
        self._expected_topic_id = self._found.topic_id
        self._send_until, self._failure = None, None

    def _wait_for_lock(self, stop: Callable[[], bool], deadline: float) -> Lock | None:
        """Return the lock that did not change for its lease by the own clock; None if it is free."""
        current, end = self._read_lock()
        since, has_waited, has_paused = self._clock.now(), False, False
        while True:
            now = self._clock.now()
            if not current.run or now - since >= current.lease:
                if has_paused or not has_waited:
                    return current if current.run else None
                has_paused = True  # several runs may wait: not all at once
                self._clock.sleep(self._clock.random() * constants.MAX_LOCK_PAUSE_S)
            elif stop() or now >= deadline:
                raise TopiaristError(
                    Reason.LOCKED,
                    f"another run is writing: {current.owner} on {current.host} ({current.run})",
                    f"wait for it; if it was killed, its lock can be taken after a wait of {current.lease:g} s",
                )
            else:
                has_waited = True
                self._clock.sleep(constants.LOCK_POLL_INTERVAL_S)
            if self._log.find_end() != end:
                lock, end = self._read_lock()
                if lock != current:
                    current, since, has_paused = lock, self._clock.now(), False

    def _read_lock(self) -> tuple[Lock, int]:
        """Return the lock, and an end of the topic that it is not older than."""
        if find_topic(self._session, self._topic) is None:
            self._require_expected(None)
            return Lock(), -1
        end = self._log.find_end()
        # An open transaction of a dead run would delay only this read.
        return self._read(whole=False).lock, end

    def _resolve_intents(self, stop: Callable[[], bool]) -> None:
        """Replace all intents by what their topics show, in one commit: the next run does not wait for them again."""
        pending = {name: record for name, record in self._records.topics.items() if record.intent}
        if not pending:
            return
        present = self._look(pending)
        is_late = any(has_late_write(record, present.get(name)) for name, record in pending.items())
        has_waited = is_late and not self._has_same_controller(self._records.lock.leader_epoch)
        if has_waited:
            self._sleep(constants.LATE_WRITE_S, stop)
            present = self._look(pending)
        resolved = {name: resolve(record, present.get(name), has_waited=has_waited) for name, record in pending.items()}
        changes = {name: record for name, record in resolved.items() if record != pending[name]}
        if changes:
            self.commit(changes, hold=False)
        # A creation that was given up stays: if it is carried out after all, the next run finds it by this record.
        known = {
            name: record if record.intent and record.intent.kind is IntentKind.GONE else forget_intent(record)
            for name, record in self._records.topics.items()
        }
        self._records = self._records._replace(topics={name: each for name, each in known.items() if each})

    def _has_same_controller(self, epoch: int | None) -> bool:
        """Return whether the controller of the intents answers at once: then no request waits for a controller."""
        began = self._clock.now()
        is_same = epoch is not None and self._leader_epoch() == epoch
        return is_same and self._clock.now() - began <= constants.MAX_CONTROLLER_ANSWER_S

    def _write(self, values: Mapping[str, bytes | None], *, hold: bool) -> None:
        """Write values and the lock in one transaction; the lease begins before the transaction is sent."""
        self._require_usable()
        now, number = self._clock.now(), self._records.number + 1
        lock = Lock(number=number)
        if hold:
            host = socket.gethostname()
            lock = Lock(self.run, self._owner, host, constants.LEASE_S, number, self._leader_epoch())
            now = self._clock.now()
        try:
            self._send(values, lock)
        except Fenced as error:
            raise self._taken_over(error) from error
        except OutcomeUnknown as error:
            self._find_commit(lock, error)
        except TopiaristError as error:
            self._failure = error
            raise
        self._send_until = now + constants.LEASE_S - constants.MARGIN_S if hold else None

    def _send(self, values: Mapping[str, bytes | None], lock: Lock) -> None:
        self._require_same_topic()
        assert self._found is not None
        batch: dict[str, bytes | None] = {codec.LOCK: codec.encode_lock(lock), **values}
        meta = Meta(self._found.cluster_id, self._found.topic_id)
        if self._records.meta is None:
            batch = {codec.META: codec.encode_meta(meta), **batch}
        self._producer.commit({key.encode(): value for key, value in batch.items()})
        self._require_same_topic()
        self._records = self._records._replace(lock=lock, meta=meta)

    def _find_commit(self, lock: Lock, cause: OutcomeUnknown) -> None:
        """Return if a commit with an unknown outcome was made: its number tells."""
        try:
            self._producer.require_fence()
            found = codec.decode_records(self._log.read(whole=True))
            self._require_same_topic()
        except (Fenced, OutcomeUnknown) as error:
            raise self._fail(f"another run has taken over, or the brokers do not answer ({error})") from error
        except TopiaristError as error:
            self._failure = error
            raise
        if found.lock != lock:
            self._failure = TopiaristError(Reason.UNREACHABLE, f"the records were not written: {cause}", HINT_RUN_AGAIN)
            raise self._failure
        self._records = self._records._replace(lock=lock, meta=found.meta)

    def _require_same_topic(self) -> None:
        wanted = self._found.topic_id if self._found else ""
        try:
            found = find_topic(self._session, self._topic)
        except Disconnected as error:
            raise OutcomeUnknown(str(error)) from error
        if found is None or found.topic_id != wanted:
            self._failure = lost_topic(self._topic.name, wanted, found)
            raise self._failure

    def _require_expected(self, found: FoundTopic | None) -> None:
        if self._expected_topic_id and (found is None or found.topic_id != self._expected_topic_id):
            raise lost_topic(self._topic.name, self._expected_topic_id, found)

    def _require_usable(self) -> None:
        if self._failure:
            raise self._failure

    def _taken_over(self, cause: Fenced | OutcomeUnknown) -> TopiaristError:
        """Return the error of a fenced run: a freeze fences too, and is committed a moment later."""
        until = self._clock.now() + constants.FREEZE_COMMIT_S
        while True:
            gate = None
            with suppress(TopiaristError, Disconnected):
                gate = self.read().gate
            if gate is not None:
                self._failure = _frozen(gate)
                return self._failure
            if self._clock.now() >= until:
                return self._fail(f"another run has taken over ({cause})")
            self._clock.sleep(constants.LOCK_POLL_INTERVAL_S)

    def _fail(self, why: str) -> TopiaristError:
        self._failure = TopiaristError(Reason.SESSION_LOST, f"this run has lost the records: {why}", HINT_RUN_AGAIN)
        return self._failure

    def _pause(self, attempt: int) -> None:
        longest = min(constants.FENCED_PAUSE_S * attempt, constants.MAX_FENCED_PAUSE_S)
        self._clock.sleep(self._clock.random() * longest)

    def _sleep(self, seconds: float, stop: Callable[[], bool]) -> None:
        until = self._clock.now() + seconds
        while (remaining := until - self._clock.now()) > 0:
            if stop():
                raise TopiaristError(Reason.LOCKED, "stopped while another run's requests may be carried out")
            self._clock.sleep(min(remaining, constants.LOCK_POLL_INTERVAL_S))


def _frozen(gate: Freeze) -> TopiaristError:
    return TopiaristError(Reason.FROZEN, f"the cluster is {gate}", "topiarist unfreeze ends the freeze")
