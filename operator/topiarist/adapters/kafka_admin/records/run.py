"""One run over the records: lock, fence, whole read, commits.

``init`` of the transactional id, the whole read and the commit are a compare-and-set over all records. The lock only
keeps two runs from writing configs of one chunk; it lives from the intents of a chunk to its final records. From the
``init`` to the first commit a claim keeps other runs from fencing this one (``log.Turn``). Before each
Admin request a run asks the coordinator whether it is still the newest, and then its own clock: the first finds
takeovers, the second stops of the process. A stop between that check and the request is not found.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import NamedTuple

from msgspec.structs import replace

from topiarist.adapters.kafka_admin.connection.connection import Disconnected
from topiarist.adapters.kafka_admin.records import codec, transactions
from topiarist.adapters.kafka_admin.records.log import RecordsLog, Turn, find_holders
from topiarist.adapters.kafka_admin.records.topic import (
    HINT_NO_RECORDS,
    FoundTopic,
    build_meta,
    create_topic,
    delete_topic,
    find_topic,
    is_compacted,
    lost_topic,
    require_compaction,
    require_only,
    require_own,
)
from topiarist.adapters.own_values import encode_batch, encode_freeze, encode_value
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import DEFAULT_RECORDS_TOPIC, RecordsTopic
from topiarist.model.moves import BatchRecord
from topiarist.model.outcome import FreezeResult, Result
from topiarist.model.state import Freeze, LeftRecords, WriteBlock, find_records_block
from topiarist.ports import drop_notice

# Find out whether ZooKeeper still holds records that a run through the brokers must not ignore.
#
# In ZooKeeper mode the answer is needed: without it nothing is written. In KRaft mode ZooKeeper may have ended long
# ago, so it is asked only if the records were not moved, and a ZooKeeper that does not answer blocks nothing.

WARNING_ZOOKEEPER_ENDED = "ZooKeeper does not answer for this cluster, which is in KRaft mode: remove spec.zookeeper"


class LeftRecordsCheck(NamedTuple):
    """The write block by what ZooKeeper holds of topiarist, and a warning if that is not known (may be empty)."""

    block: WriteBlock = WriteBlock()
    warning: str = ""


def check_left_records(
    read: Callable[[], LeftRecords] | None,
    read_cluster_id: Callable[[], str],
    *,
    are_taken: bool,
    is_zookeeper_mode: bool,
) -> LeftRecordsCheck:
    """Return whether runs through the brokers may write.

    ``read`` asks ZooKeeper, None if its address is not known; ``are_taken`` is true if the topic of records has the
    note of a move. The cluster id is that of the brokers.
    """
    if read is None or (are_taken and not is_zookeeper_mode):
        return LeftRecordsCheck()
    try:
        left = read()
        other_cluster = left.cluster_id != read_cluster_id()
    except TopiaristError as error:
        if not is_zookeeper_mode:
            return LeftRecordsCheck(warning=WARNING_ZOOKEEPER_ENDED)
        if are_taken:
            return LeftRecordsCheck(warning=f"runs through ZooKeeper would not be noticed: {error.message}")
        return _block(f"cannot check whether ZooKeeper has records that were not moved to Kafka: {error.message}")
    if not other_cluster:
        return LeftRecordsCheck(find_records_block(left, are_taken=are_taken))
    if not is_zookeeper_mode:
        return LeftRecordsCheck(warning=WARNING_ZOOKEEPER_ENDED)
    return _block(f"spec.zookeeper leads to another cluster ({left.cluster_id}), spec.kafka to {read_cluster_id()}")


def _block(message: str) -> LeftRecordsCheck:
    return LeftRecordsCheck(WriteBlock(Reason.RECORDS_NOT_MOVED, message))


HINT_RUN_AGAIN = "run again: finished changes are recognized"


class ClusterView(NamedTuple):
    """The questions of a run over the records to its cluster, and its notices.

    ``look`` reads topics after a sync, to resolve intents. ``leader_epoch`` reads the epoch of the controller, None if
    it does not answer at once. ``require_moved`` raises ``TopiaristError`` if records are left in ZooKeeper.
    ``on_notice`` receives what is otherwise than wanted of a topic of records that the run makes.
    ``find_records_topics`` reads which topics of the cluster hold records.
    """

    look: Callable[[Collection[str]], codec.PresentTopics]
    leader_epoch: Callable[[], int | None] = lambda: None
    require_moved: Callable[[codec.Records], None] = lambda records: None
    on_notice: Callable[[str], None] = drop_notice
    find_records_topics: Callable[[], Collection[str]] = tuple


class RecordsRun:
    """The records as one run sees and writes them. After a failed commit, or a takeover, every call raises the error.

    ``acquire`` and each commit that holds the lock let the run go on; after one that does not, it has to acquire the
    records again, since other runs may have written.

    Its public methods are the port through which topics and moves are written. ``lock_timeout`` is in seconds.

    The id of the topic is compared after each commit: by ``note_look``, for a caller that reads topics anyway, else
    before the next Admin request or commit, and at once if the lock is given up.
    """

    def __init__(
        self,
        session: transactions.RecordsSession,
        owner: str,
        cluster: ClusterView,
        *,
        topic: RecordsTopic = DEFAULT_RECORDS_TOPIC,
        clock: transactions.Clock = transactions.SYSTEM_CLOCK,
        lock_timeout: float = 600.0,
    ) -> None:
        self.run = f"{owner}-{uuid.uuid4().hex[:12]}"
        self._session = session
        self._owner = owner
        self._cluster = cluster
        self._lock_timeout = lock_timeout
        self._topic = topic
        self._expected_topic_id = topic.known_id
        self._clock = clock
        self._log = RecordsLog(session, topic.name, clock)
        self._producer = transactions.Producer(session, topic.name, topic.transactional_id, clock)
        self._before: tuple[FoundTopic, codec.Records] | None = None
        self._old: codec.Records | None = None
        self._is_compaction_known = False
        self._known_epoch: int | None = None
        self._found: FoundTopic | None = None
        self._created_id = ""  # of a topic that this run has made, until its first commit
        self._is_seen = False
        self._records = codec.Records()
        self._send_until: float | None = None
        self._renew_at = 0.0
        self._failure: TopiaristError | None = _not_acquired()
        self._turn = Turn(
            self.run,
            owner,
            write=self._append,
            read=lambda whole, end: self._read_claims(end) if whole else self._read_old(),
            find_end=lambda: self._log.find_end(),
            clock=clock,
        )

    def read(self, *, checks_config: bool = True) -> codec.Records:
        """Return all records that were committed before the call, without a fence; no topic: no records.

        Without ``checks_config`` the caller calls ``check_config``. An ``acquire`` within some seconds goes on from it.
        A commit is answered before its records can be read, so this waits until all transactions before the end of the
        topic have ended. Raises ``RecordsBlocked`` if one does not end, and ``RecordsLost``.
        """
        found = self.find()
        if found is None:
            return codec.Records()
        records = self._decode(self._log.read(whole=True))
        require_own(records, found, self._topic)
        if checks_config:
            self._require_compaction()
        self._before = found, records
        return records

    def find(self) -> FoundTopic | None:
        """Return the topic of records. Raises ``RecordsLost`` if it is not the one that was there before."""
        found = find_topic(self._session, self._topic)
        self._require_expected(found)
        return found

    def check_config(self, config: Mapping[str, str] | None) -> None:
        """Raise ``RecordsLost`` if Kafka deletes old records; ``config`` are overrides that were read, if they were."""
        self._is_compaction_known = config is not None and is_compacted(config)
        self._require_compaction()

    def assume_controller(self, leader_epoch: int | None) -> None:
        """Take an epoch of the controller that was read before for that of now.

        If it is over by now, and this run is killed, the next run waits for a request that may be carried out late.
        """
        self._known_epoch = leader_epoch

    @property
    def topic_name(self) -> str:
        """Return the name of the topic of records."""
        return self._topic.name

    @property
    def number(self) -> int:
        """Return the number of the last commit that this run has read or made."""
        return self._records.number

    def topic_ids(self) -> Mapping[str, str]:
        """Return the id that the topic of records must have, by its name."""
        return {self._topic.name: self._found.topic_id} if self._found else {}

    def note_look(self, config: Mapping[str, str] | None, leader_epoch: int | None) -> None:
        """Take note that the topic has its id after the last commit, of its overrides, and of the controller's epoch.

        Without ``config`` they were not read.
        """
        self._is_seen, self._known_epoch = True, leader_epoch
        if config is not None:
            self._is_compaction_known = is_compacted(config)

    def acquire(self, stop: Callable[[], bool] = lambda: False, *, ignore_freeze: bool = False) -> codec.Records:
        """Wait for the lock, fence all earlier runs, and return all records, with foreign intents resolved.

        ``ignore_freeze`` is for writes of records alone, which change no topic, such as those that take the records of
        ZooKeeper.

        Raises ``TopiaristError``: ``Locked`` after ``lock_timeout`` or if ``stop()`` is true, ``Frozen``,
        ``RecordsBlocked``, ``RecordsLost``, ``Unreachable``, and what ``require_moved`` raises.
        """
        try:
            self._take(stop)
            if not ignore_freeze:
                if self._records.gate is not None:
                    raise _frozen(self._records.gate)
                self._cluster.require_moved(self._records)
            self._resolve_intents(stop)
        except Exception as error:
            with suppress(TopiaristError, transactions.Fenced, transactions.OutcomeUnknown, Disconnected):
                self.release()
            if isinstance(error, TopiaristError):
                self._failure = self._undo_creation(error)
                raise self._failure from error.__cause__
            raise
        return self._records

    def commit(self, changes: Mapping[str, codec.TopicRecord | None], *, hold: bool) -> None:
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

    def commit_batch(self, batch: BatchRecord | None, *, hold: bool) -> None:
        """Write the record of the moves in flight (None: delete it), and hold the lock or give it up."""
        self._write({codec.MOVES: batch and encode_batch(batch)}, hold=hold)

    def commit_moved(self, topics: Mapping[str, codec.TopicRecord], moved: codec.Moved, gate: Freeze | None) -> None:
        """Write the records that came from ZooKeeper in one transaction, with the freeze that was there."""
        values: dict[str, bytes | None] = {
            f"{codec.TOPIC_PREFIX}{name}": codec.encode_topic(record) for name, record in topics.items()
        }
        self._write({**values, codec.MOVED: encode_value(moved), codec.GATE: encode_freeze(gate)}, hold=False)

    def require_fence(self) -> None:
        """Return if this run is the newest, holds the lock, and its lease has time left. Then send at once.

        Raises ``SessionLost`` if another run has taken over or the time is over, and ``Frozen`` after a freeze.
        """
        self._require_usable()
        if self._send_until is None:
            raise self._fail("the lock is not held")
        try:
            self._require_seen()
            self._require_compaction()
            self._producer.require_fence()
        except (transactions.Fenced, transactions.OutcomeUnknown, Disconnected) as error:
            raise self._taken_over(error) from error
        except TopiaristError as error:
            self._failure = error
            raise
        # After the check, which may have waited. Records may still be written: the coordinator fences those.
        if self._clock.now() >= self._send_until:
            message = (
                f"a chunk took longer than {transactions.LEASE_S - transactions.MARGIN_S:g} s, so nothing more is sent"
            )
            raise TopiaristError(Reason.SESSION_LOST, message, HINT_RUN_AGAIN)

    def keep(self) -> None:
        """Renew the claim or the lock after a third of its lease, so that no other run takes this one for killed."""
        self._turn.keep()
        if self._send_until is not None and self._clock.now() >= self._renew_at:
            self._write({}, hold=True)

    def release(self) -> None:
        """Give up the lock, if it is held and the run has not failed, or the claim: other runs may begin."""
        if self._failure is None and self._send_until is not None:
            self.commit({}, hold=False)
        else:
            self._failure = self._failure or _not_acquired()
            self._turn.give_up()

    def set_freeze(self, freeze: Freeze | None, *, by: str, force: bool) -> FreezeResult:
        """Freeze the cluster, or unfreeze it if ``freeze`` is None; this fences a run that is writing, at once.

        A freeze of a user other than ``by`` is changed only with ``force``. The lock stays with its holder: requests
        that it has sent may still be carried out.
        """
        if freeze is None and self.read().gate is None:
            return FreezeResult(Result.UNCHANGED, None)  # a run that is writing is not fenced
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
                lock = replace(self._records.lock, number=self._records.number + 1)
                self._send({codec.GATE: encode_freeze(freeze)}, lock)
                return FreezeResult(Result.DONE, current)
            except (transactions.Fenced, transactions.OutcomeUnknown):
                self._pause(attempt)
            except TopiaristError as error:
                raise self._undo_creation(error) from error.__cause__
        raise TopiaristError(Reason.STATE_CONFLICT, "other runs took the records ten times in a row", "run again")

    def _take(self, stop: Callable[[], bool]) -> None:
        """Steps 1 to 4: wait for the lock, claim it, init, read whole."""
        deadline, attempt = self._clock.now() + self._lock_timeout, 0
        before, self._before = self._before, None
        if before and before[1].meta is None:
            before = None
        self._old = before[1] if before and not find_holders(before[1]) else None
        while True:
            found = before[0] if before else self._find_or_create()
            before = None
            waited_for = self._turn.take(stop, deadline)
            try:
                self._begin(self._turn.require_time, found)
            except (transactions.Fenced, transactions.OutcomeUnknown, Disconnected) as error:
                attempt += 1
                if stop() or self._clock.now() >= deadline:
                    raise _not_begun(error) from error
                self._pause(attempt)
                continue
            if not self._records.lock.run or self._records.lock == waited_for:
                return
            # Taken since the wait: one of both has stood still. The other run can commit no more, but what it has sent
            # may be carried out. Its lock is waited for as any other.

    def _begin(self, check: Callable[[], None] = lambda: None, found: FoundTopic | None = None) -> None:
        """Fence all earlier runs and read everything. Raises ``Fenced``, ``OutcomeUnknown`` and ``TopiaristError``.

        ``check`` is called directly before earlier runs are fenced, and may raise. ``found`` is the topic of records.
        """
        self._found = found or self._find_or_create()
        self._require_compaction()
        self._producer.init(check)
        self._records = self._decode(self._log.read(whole=True))
        if self._records.meta is None:
            self._require_same_topic()  # records name the topic in which they were written
        self._is_seen = True
        require_own(self._records, self._found, self._topic)
        self._expected_topic_id = self._found.topic_id
        self._send_until, self._failure = None, None

    def _find_or_create(self) -> FoundTopic:
        """Return the topic; without one, make it once the brokers have answered that they carry out transactions.

        Raises ``RecordsLost`` if it has no records, and others exist: before a claim, or the fence of their run.
        """
        found = self.find()
        if found:
            self._old = self._decode(self._log.read(whole=False))
            if self._old.meta:
                return found
        require_only(self._topic, self._cluster.find_records_topics())
        if found:
            return found
        try:
            self._producer.init(self._require_absent)
        except transactions.Fenced:
            pass  # transactions are carried out, or another run has made the topic: its run is not fenced
        except (transactions.OutcomeUnknown, Disconnected) as error:
            raise _not_begun(error) from error
        except TopiaristError as error:
            raise _with_remedy(error) from error
        try:
            created = create_topic(self._session, self._topic, self._clock)
        except TopiaristError as error:
            raise _with_remedy(error) from error
        self._created_id = created.own_id
        for notice in created.notices:
            self._cluster.on_notice(notice)
        return created.found

    def _require_absent(self) -> None:
        """Raise ``Fenced`` if the topic exists by now: then its runs must not be fenced without a claim."""
        if self.find():
            raise transactions.Fenced("another run has made the topic")

    def _undo_creation(self, error: TopiaristError) -> TopiaristError:
        """Delete the topic if this run has made it for a commit that fails for good; return the error, with that."""
        error = _with_remedy(error)
        created, name = self._created_id, self._topic.name
        if not created or error.reason.retryable:
            return error
        self._created_id, is_deleted = "", False
        with suppress(TopiaristError, transactions.Fenced, transactions.OutcomeUnknown, Disconnected):
            self._turn.give_up()
            if self._log.read(whole=True):  # else an open transaction of this run hides the end of its claim
                return error  # another run uses it already
            is_deleted = delete_topic(self._session, created)
        left = "was deleted again" if is_deleted else "stays empty: it does no harm, and may be deleted"
        return TopiaristError(error.reason, f"{error.message}; the topic {name}, made for it, {left}", error.hint)

    def _require_compaction(self) -> None:
        if not self._is_compaction_known:
            require_compaction(self._session, self._topic)
            self._is_compaction_known = True

    def _decode(self, values: Mapping[bytes, bytes]) -> codec.Records:
        """Return the records with these values. Raises ``Unreadable``."""
        answers = self._session.answers
        if answers is None:
            return codec.decode_records(values)
        return answers.decode("records", [*values.items()], lambda: codec.decode_records(values))

    def _read_old(self) -> codec.Records:
        """Return all records, which may be old, for the wait for other runs."""
        if self._old is not None:
            old, self._old = self._old, None
            return old
        return self._decode(self._log.read(whole=False))

    def _append(self, key: bytes, value: bytes | None) -> int | None:
        """Write one record without a transaction; return the offset after it."""
        end = self._producer.write(key, value)
        self._log.take_written(key, value, end)
        return end

    def _read_claims(self, end: int | None) -> codec.Records:
        """Return all records before an offset; the topic was checked before, and is checked with the fence."""
        return self._decode(self._log.read(whole=True, end=end))

    def _resolve_intents(self, stop: Callable[[], bool]) -> None:
        """Replace all intents by what their topics show, in one commit: the next run does not wait for them again."""
        pending = {name: record for name, record in self._records.topics.items() if record.intent}
        if not pending:
            return
        present = self._cluster.look(pending)
        is_late = any(codec.has_late_write(record, present.get(name)) for name, record in pending.items())
        has_waited = is_late and not self._has_same_controller(self._records.lock.leader_epoch)
        if has_waited:
            self._wait_for_late_writes(stop)
            present = self._cluster.look(pending)
        resolved = {
            name: codec.resolve(record, present.get(name), has_waited=has_waited) for name, record in pending.items()
        }
        changes = {name: record for name, record in resolved.items() if record != pending[name]}
        if changes:
            self.commit(changes, hold=True)
        # A creation that was given up stays: if it is carried out after all, the next run finds it by this record.
        known = {
            name: record
            if record.intent and record.intent.kind is codec.IntentKind.GONE
            else codec.forget_intent(record)
            for name, record in {**self._records.topics, **resolved}.items()
            if record
        }
        self._records = self._records._replace(topics={name: each for name, each in known.items() if each})

    def _has_same_controller(self, epoch: int | None) -> bool:
        """Return whether the controller of the intents answers at once: then no request waits for a controller."""
        began = self._clock.now()
        is_same = epoch is not None and self._cluster.leader_epoch() == epoch
        return is_same and self._clock.now() - began <= transactions.MAX_CONTROLLER_ANSWER_S

    def _write(self, values: Mapping[str, bytes | None], *, hold: bool) -> None:
        """Write values and the lock in one transaction; the lease begins before the transaction is sent."""
        self._require_usable()
        lock = codec.Lock(number=self._records.number + 1)
        if hold:
            host = socket.gethostname()
            epoch = self._cluster.leader_epoch() if self._known_epoch is None else self._known_epoch
            lock = codec.Lock(self.run, self._owner, host, round(transactions.LEASE_S * 1000), lock.number, epoch)
        began = self._clock.now()
        try:
            began = self._send({**self._turn.replacements(), **values}, lock)
        except transactions.Fenced as error:
            raise self._taken_over(error) from error
        except transactions.OutcomeUnknown as error:
            self._find_commit(lock, error)
        except TopiaristError as error:
            self._failure = self._undo_creation(error)
            raise self._failure from error.__cause__
        self._turn.end()
        self._send_until = began + transactions.LEASE_S - transactions.MARGIN_S if hold else None
        self._renew_at = began + transactions.LEASE_S / 3
        if not hold:
            self._failure = _not_acquired()

    def _send(self, values: Mapping[str, bytes | None], lock: codec.Lock) -> float:
        """Write values and the lock; return a time before their transaction."""
        self._require_seen()
        assert self._found is not None
        batch: dict[str, bytes | None] = {codec.LOCK: encode_value(lock), **values}
        meta = build_meta(self._found, self._topic)
        if self._records.meta is None:
            batch = {codec.META: encode_value(meta), **batch}
        began = self._producer.commit({key.encode(): value for key, value in batch.items()})
        self._is_seen, self._created_id = False, ""
        if not lock.run:
            self._require_same_topic()
        self._records = self._records._replace(lock=lock, meta=meta)
        return began

    def _find_commit(self, lock: codec.Lock, cause: transactions.OutcomeUnknown) -> None:
        """Return if a commit with an unknown outcome was made: its number tells."""
        try:
            self._producer.require_fence()
            found = self._decode(self._log.read(whole=True))
            self._require_same_topic()
        except (transactions.Fenced, transactions.OutcomeUnknown) as error:
            raise self._fail(f"another run has taken over, or the brokers do not answer ({error})") from error
        except TopiaristError as error:
            self._failure = error
            raise
        if found.lock != lock:
            self._failure = TopiaristError(Reason.UNREACHABLE, f"the records were not written: {cause}", HINT_RUN_AGAIN)
            raise self._failure
        self._records = self._records._replace(lock=lock, meta=found.meta)

    def _require_seen(self) -> None:
        """Compare the id of the topic, unless that was done since the last commit."""
        if not self._is_seen:
            self._require_same_topic()
            self._is_seen = True

    def _require_same_topic(self) -> None:
        wanted = self._found.topic_id if self._found else ""
        try:
            found = find_topic(self._session, self._topic)
        except Disconnected as error:
            raise transactions.OutcomeUnknown(str(error)) from error
        if found is None or found.topic_id != wanted:
            self._failure = lost_topic(self._topic.name, wanted, found)
            raise self._failure

    def _require_expected(self, found: FoundTopic | None) -> None:
        if self._expected_topic_id and (found is None or found.topic_id != self._expected_topic_id):
            raise lost_topic(self._topic.name, self._expected_topic_id, found)

    def _require_usable(self) -> None:
        if self._failure:
            raise self._failure

    def _taken_over(self, cause: transactions.Fenced | transactions.OutcomeUnknown | Disconnected) -> TopiaristError:
        """Return the error of a fenced run: a freeze fences too, and is committed a moment later."""
        until = self._clock.now() + transactions.FREEZE_COMMIT_S
        while True:
            found = None
            with suppress(TopiaristError, Disconnected):
                found = self.read()
            if found and found.gate is not None:
                self._failure = _frozen(found.gate)
                return self._failure
            if self._clock.now() >= until:
                return self._fail(f"{self._name_newer_run(found)} ({cause})")
            self._clock.sleep(transactions.LOCK_POLL_INTERVAL_S)

    def _name_newer_run(self, found: codec.Records | None) -> str:
        """Return what has fenced this run, by the records that were read afterwards (None: they could not be read)."""
        holders = find_holders(found) if found else ()
        if other := next((each for each in holders if each.run != self.run), None):
            return f"another run has taken over: {other.owner} on {other.host} ({other.run})"
        if found and found.number > self._records.number:
            return "another run has taken over, and ended"
        seconds = transactions.TRANSACTION_TIMEOUT_MS / 1000
        return f"the brokers ended its transaction after {seconds:g} s, or another run has taken over"

    def _fail(self, why: str) -> TopiaristError:
        self._failure = TopiaristError(Reason.SESSION_LOST, f"this run has lost the records: {why}", HINT_RUN_AGAIN)
        return self._failure

    def _pause(self, attempt: int) -> None:
        longest = min(transactions.FENCED_PAUSE_S * attempt, transactions.MAX_FENCED_PAUSE_S)
        self._clock.sleep(self._clock.random() * longest)

    def _wait_for_late_writes(self, stop: Callable[[], bool]) -> None:
        """Wait until no request of a run that ended can be carried out any more, and keep other runs waiting."""
        until = self._clock.now() + transactions.LATE_WRITE_S
        while (remaining := until - self._clock.now()) > 0:
            if stop():
                raise TopiaristError(Reason.LOCKED, "stopped while another run's requests may be carried out")
            self.keep()
            self._clock.sleep(min(remaining, transactions.LOCK_POLL_INTERVAL_S))


def _not_acquired() -> TopiaristError:
    return TopiaristError(Reason.SESSION_LOST, "the records were not acquired", HINT_RUN_AGAIN)


def _with_remedy(error: TopiaristError) -> TopiaristError:
    """Return the error with the way out of brokers that refuse records for good, if it has none of its own."""
    if error.hint or error.reason not in (Reason.RECORDS_REFUSED, Reason.PREREQUISITE_MISSING):
        return error
    return TopiaristError(error.reason, error.message, HINT_NO_RECORDS)


def _not_begun(error: transactions.Fenced | transactions.OutcomeUnknown | Disconnected) -> TopiaristError:
    if isinstance(error, transactions.Fenced):
        return TopiaristError(Reason.LOCKED, f"other runs took the records: {error}", "run again")
    return TopiaristError(Reason.UNREACHABLE, f"the records cannot be acquired: {error}", "run again")


def _frozen(gate: Freeze) -> TopiaristError:
    return TopiaristError(Reason.FROZEN, f"the cluster is {gate}", "topiarist unfreeze ends the freeze")
