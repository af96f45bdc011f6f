"""Reads of the topic of records: the request for its end, and the codes after which a read is repeated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from support.kafka.memory_records import Fault, MemoryBroker
from support.kafka.requests import Epoch, build_batch
from topiarist.adapters.kafka_admin.protocol.messages import FetchRequest, ListOffsetsRequest
from topiarist.adapters.kafka_admin.records import codec, transactions
from topiarist.adapters.kafka_admin.records.codec import Claim, Lock, Records
from topiarist.adapters.kafka_admin.records.log import TAIL_AGE_S, RecordsLog, Turn, committed_records, find_holders
from topiarist.adapters.kafka_admin.records.transactions import Clock, Fenced, OutcomeUnknown
from topiarist.errors import Reason, TopiaristError
from unit.adapters.kafka_admin.scripted_session import FakeTime, ScriptedSession, reply

TOPIC = "__topiarist"
BUSY = {3, 5, 6, 14, 15, 16, 51}
"""Codes of a cluster that changes its leaders, after which writes are repeated too."""

READ_AGAIN = BUSY | {-1, 7, 9, 13, 56, 72, 74, 75, 76, 78}
"""A server error, a late or broken connection, a disk, a listener, an epoch, a codec or an offset that is not known."""

FENCED, DENIED = {47, 49, 90}, {29, 30, 31, 53, 65}


def end(code: int = 0, count: int = 1) -> Any:
    """Return an answer to ListOffsets."""
    return reply(topics=[reply(partitions=[reply(error_code=code, offset=7)] * count)])


def log_over(*ends: Any, **script: Any) -> tuple[RecordsLog, ScriptedSession, FakeTime]:
    """Return a reader over answers to ListOffsets, or to other requests, in virtual time."""
    clock, session = FakeTime(), ScriptedSession({"ListOffsets": list(ends), **script})
    return RecordsLog(session, TOPIC, Clock(clock.now, clock.sleep, clock.random)), session, clock


def fetched(records: bytes | None = None, end: int = 5) -> Any:
    """Return an answer to Fetch."""
    offsets = {"high_watermark": end, "last_stable_offset": end}
    partition = reply(error_code=0, aborted_transactions=None, records=records, **offsets)
    return reply(error_code=0, responses=[reply(topic=TOPIC, partitions=[partition])])


def test_records_that_cannot_be_decoded() -> None:
    """The error has the offset from which they were read, and what is wrong."""
    batch = bytearray(build_batch(Epoch(), 0, [(b"key", b"value")]))
    batch[16] = 1
    part = reply(records=bytes(batch), aborted_transactions=None)
    with pytest.raises(TopiaristError) as caught:
        list(committed_records(part, 1234))
    assert caught.value.reason is Reason.UNREADABLE
    assert caught.value.message.startswith("the records from offset 1,234 on cannot be read: ")
    assert "of an old format" in caught.value.message


def test_a_batch_is_read_from_the_position_on() -> None:
    """A fetch from within a batch has the whole batch; the records before the position were read already."""
    batch = build_batch(Epoch(), -1, [(b"a", b"1"), (None, b"2"), (b"b", None)])
    part = reply(records=batch, aborted_transactions=None)
    for position, read in ((0, [b"a", b"b", None]), (1, [b"b", None]), (2, [b"b", None]), (3, [None])):
        assert [key for key, _, _ in committed_records(part, position)] == read


def test_the_end_of_what_is_committed() -> None:
    """The request asks the leader for the latest offset of partition 0 that has no open transaction before it."""
    log, session, _ = log_over(end())
    assert log.find_end() == 7
    (sent,) = session.sent
    assert (sent.version, sent.request.replica_id, sent.request.isolation_level) == (5, -1, 1)
    topic = ListOffsetsRequest.ListOffsetsTopic
    partition = topic.ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=-1)
    assert sent.request == ListOffsetsRequest(
        replica_id=-1, isolation_level=1, topics=[topic(name=TOPIC, partitions=[partition])]
    )


def test_the_request_of_a_fetch() -> None:
    """It waits a tenth of a second for a byte at least, and for committed records alone, without a session."""
    log, session, _ = log_over(Fetch=fetched(end=0))
    assert log.read(whole=False) == {}
    (sent,) = session.sent
    topic = FetchRequest.FetchTopic
    wanted = topic.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=4 << 20, current_leader_epoch=-1)
    assert (sent.version, sent.request) == (
        11,
        FetchRequest(
            replica_id=-1,
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=4 << 20,
            isolation_level=1,
            session_epoch=-1,
            topics=[topic(topic=TOPIC, partitions=[wanted])],
        ),
    )


def test_an_answer_with_a_part_of_a_batch() -> None:
    """No batch is larger than a fetch: it is no answer of brokers that keep the limit."""
    log, _, _ = log_over(Fetch=fetched(b"x" * 20))
    with pytest.raises(TopiaristError) as caught:
        log.read(whole=True, end=7)
    assert (caught.value.reason, caught.value.message) == (
        Reason.UNREADABLE,
        "the records from offset 0 on cannot be read: an answer without a whole batch",
    )


def test_records_that_are_not_there_in_time() -> None:
    """After a minute the read ends, with the place that it has reached; no client is blamed."""
    log, _, clock = log_over(Fetch=fetched())
    with pytest.raises(TopiaristError) as caught:
        log.read(whole=True, end=7)
    assert (caught.value.reason, caught.value.message, caught.value.hint) == (
        Reason.UNREACHABLE,
        "the records could not be read beyond offset 0 of 7",
        "run again when all brokers are back",
    )
    assert sum(clock.slept) == pytest.approx(transactions.PATIENCE_S, abs=0.06)


def test_each_code_of_a_read() -> None:
    """A code that another answer can follow is repeated; a missing right is named, and any other code ends the read."""
    for code in range(-1, 110):
        log, session, clock = log_over(end(code), end())
        if code == 0 or code in READ_AGAIN:
            assert log.find_end() == 7, code
            assert clock.slept == ([transactions.RETRY_INTERVAL_S] if code else []), code
            continue
        with pytest.raises((Fenced, OutcomeUnknown, TopiaristError)) as caught:
            log.find_end()
        assert isinstance(caught.value, Fenced) is (code in FENCED), code
        is_denied = isinstance(caught.value, TopiaristError) and caught.value.reason is Reason.NO_PERMISSION
        assert is_denied is (code in DENIED), code
        assert len(session.sent) == 1, code


@pytest.mark.parametrize("count", [0, 2])
def test_an_answer_for_other_partitions_is_asked_for_again(count: int) -> None:
    """An answer without exactly the one partition has no end."""
    log, session, _ = log_over(end(count=count), end())
    assert log.find_end() == 7
    assert len(session.sent) == 2


class Brokers:
    """Brokers with a topic of records, and a reader of it; ``positions`` has the offsets of all fetches."""

    def __init__(self) -> None:
        self.broker = MemoryBroker()
        self.broker.create_topic()
        self.log = RecordsLog(self.broker, TOPIC, self.broker.clock)
        self.positions: list[int] = []
        fetch = self.broker.records_log.fetch

        def note(position: int, max_bytes: int, *, is_committed: bool) -> Any:
            self.positions.append(position)
            return fetch(position, max_bytes, is_committed=is_committed)

        self.broker.records_log.fetch = note  # type: ignore[method-assign]

    def write(self, *pairs: tuple[bytes, bytes | None]) -> None:
        """Append a batch without a transaction."""
        code, _ = self.broker.records_log.append(build_batch(Epoch(), -1, pairs), max_bytes=1 << 20, needs_keys=True)
        assert code == 0


@pytest.fixture
def brokers() -> Brokers:
    """Return brokers with two values."""
    brokers = Brokers()
    brokers.write((b"a", b"1"), (b"b", b"2"))
    return brokers


@pytest.mark.parametrize(
    ("age", "wanted"),
    [(0.0, [2]), (TAIL_AGE_S - 0.1, [2]), (TAIL_AGE_S, [0]), (2 * TAIL_AGE_S, [0])],
)
def test_a_read_goes_on_from_one_of_the_last_seconds(brokers: Brokers, age: float, wanted: list[int]) -> None:
    """A later read begins at offset 0, since compaction may have removed a tombstone meanwhile."""
    assert brokers.log.read(whole=True) == {b"a": b"1", b"b": b"2"}
    brokers.write((b"a", None), (b"c", b"3"))
    brokers.positions.clear()
    brokers.broker.now += age
    assert brokers.log.read(whole=True) == {b"b": b"2", b"c": b"3"}
    assert brokers.positions == wanted


def test_a_tombstone_that_compaction_removed_is_not_missed(brokers: Brokers) -> None:
    """A reader with an old last read does not return the value of a key that was deleted since."""
    brokers.write((b"c", b"3"))
    assert b"c" in brokers.log.read(whole=True)
    brokers.write((b"c", None))
    brokers.write((b"d", b"4"))
    brokers.broker.records_log.compact()
    brokers.broker.now += TAIL_AGE_S
    assert brokers.log.read(whole=True) == {b"a": b"1", b"b": b"2", b"d": b"4"}


def test_the_age_of_a_read_is_that_of_its_begin(brokers: Brokers) -> None:
    """A tombstone that was written while a slow read was under way is as old as the begin of that read."""
    brokers.broker.before = lambda name, number: setattr(brokers.broker, "now", brokers.broker.now + TAIL_AGE_S / 2)
    brokers.log.read(whole=True)
    brokers.positions.clear()
    brokers.log.read(whole=True)
    assert brokers.positions == [0]


def test_a_caller_may_change_what_it_has_read(brokers: Brokers) -> None:
    """The next read does not depend on it."""
    brokers.log.read(whole=True).clear()
    assert brokers.log.read(whole=True) == {b"a": b"1", b"b": b"2"}


def test_a_value_after_a_deletion_is_the_last_in_the_order(brokers: Brokers) -> None:
    """The order of claims is that of the first values since a deletion, over all reads; a new value keeps its place."""
    brokers.log.read(whole=True)
    brokers.write((b"a", None), (b"b", b"3"), (b"a", b"4"))
    assert list(brokers.log.read(whole=True).items()) == [(b"b", b"3"), (b"a", b"4")]
    brokers.write((b"b", b"5"))
    assert list(brokers.log.read(whole=True).items()) == [(b"b", b"5"), (b"a", b"4")]


def test_a_read_up_to_an_offset_does_not_ask_for_the_end(brokers: Brokers) -> None:
    """The caller knows the offset; one that does not need all records asks for no end either."""
    brokers.broker.calls.clear()
    assert brokers.log.read(whole=True, end=2) == {b"a": b"1", b"b": b"2"}
    assert brokers.log.read(whole=False) == {b"a": b"1", b"b": b"2"}
    assert set(brokers.broker.calls) == {"Fetch"}


def test_a_record_of_this_run_that_follows_what_was_read(brokers: Brokers) -> None:
    """Nothing was written before it, so that a read up to it asks for nothing; a deletion is one too."""
    brokers.log.read(whole=True)
    brokers.broker.calls.clear()
    for value, wanted in ((b"3", {b"a": b"1", b"b": b"2", b"c": b"3"}), (None, {b"a": b"1", b"b": b"2"})):
        brokers.write((b"c", value))
        end = brokers.broker.records_log.end
        brokers.log.take_written(b"c", value, end)
        assert brokers.log.read(whole=True, end=end) == wanted
    assert brokers.broker.calls == []
    assert brokers.log.read(whole=True) == {b"a": b"1", b"b": b"2"}
    assert brokers.broker.calls == ["ListOffsets"]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_record_of_this_run_after_those_of_others(brokers: Brokers, is_known: bool) -> None:
    """They are read, and so they are if the offset of the own record is not known."""
    brokers.log.read(whole=True)
    brokers.write((b"claim/other", b"1"))
    brokers.write((b"claim/own", b"2"))
    brokers.log.take_written(b"claim/own", b"2", 4 if is_known else None)
    found = brokers.log.read(whole=True, end=4)
    assert [*found][-2:] == [b"claim/other", b"claim/own"]


def test_a_record_of_this_run_after_some_seconds(brokers: Brokers) -> None:
    """Compaction may have removed a tombstone meanwhile: everything is read anew."""
    brokers.log.read(whole=True)
    brokers.broker.now += TAIL_AGE_S
    brokers.write((b"c", b"3"))
    brokers.log.take_written(b"c", b"3", 3)
    brokers.positions.clear()
    assert brokers.log.read(whole=True, end=3) == {b"a": b"1", b"b": b"2", b"c": b"3"}
    assert brokers.positions == [0]


def later_reader(brokers: Brokers) -> RecordsLog:
    """Return a reader of the same connection, as the next pass has one."""
    return RecordsLog(brokers.broker, TOPIC, brokers.broker.clock)


def test_a_leader_that_has_told_its_end_is_not_asked_for_it_again(brokers: Brokers) -> None:
    """The first fetch over the same connection has the end, also while a transaction is open."""
    later_reader(brokers).read(whole=True)
    brokers.write((b"c", b"3"))
    brokers.broker.calls.clear()
    assert later_reader(brokers).read(whole=True) == {b"a": b"1", b"b": b"2", b"c": b"3"}
    assert brokers.broker.calls == ["Fetch"]
    brokers.broker.abandon()
    with pytest.raises(TopiaristError) as caught:
        later_reader(brokers).read(whole=True)
    assert caught.value.reason is Reason.RECORDS_BLOCKED


@pytest.mark.parametrize("is_same_broker", [False, True])
def test_a_new_leader_is_asked_for_its_end(brokers: Brokers, is_same_broker: bool) -> None:
    """It answers a fetch with an old one: another epoch, or another connection, needs the other request."""
    later_reader(brokers).read(whole=True)
    brokers.write((b"c", b"3"))
    brokers.broker.records_log.elect(known_end=2)
    if is_same_broker:
        brokers.broker.records_log.leader_epoch -= 1  # it was restarted before the controller noticed
        brokers.broker.leader_epochs.clear()  # with another connection
    brokers.broker.calls.clear()
    assert later_reader(brokers).read(whole=True) == {b"a": b"1", b"b": b"2", b"c": b"3"}
    assert brokers.broker.calls == [*([] if is_same_broker else ["Fetch"]), "ListOffsets", "ListOffsets", "Fetch"]


def test_a_connection_that_breaks_in_a_fetch_of_a_known_epoch(brokers: Brokers) -> None:
    """The read goes on as one of a new leader."""
    later_reader(brokers).read(whole=True)
    brokers.broker.calls.clear()
    brokers.broker.faults["Fetch", 2] = Fault()
    assert later_reader(brokers).read(whole=True) == {b"a": b"1", b"b": b"2"}
    assert brokers.broker.calls == ["Fetch", "ListOffsets", "Fetch"]


@pytest.mark.parametrize(("epoch", "version"), [(-1, 11), (0, 8)])
def test_a_leader_that_compares_no_epoch(brokers: Brokers, epoch: int, version: int) -> None:
    """It is asked for its end in each read: one that does not tell its epoch, or is not told one before version 9."""
    brokers.broker.records_log.leader_epoch = epoch
    brokers.broker.versions = {**brokers.broker.versions, FetchRequest.API_KEY: (4, version)}
    later_reader(brokers).read(whole=True)
    brokers.broker.calls.clear()
    later_reader(brokers).read(whole=True)
    assert brokers.broker.calls == ["ListOffsets", "Fetch"]


@pytest.mark.parametrize(("whole", "is_blocked"), [(False, False), (True, True)])
def test_a_transaction_of_another_client(brokers: Brokers, whole: bool, is_blocked: bool) -> None:
    """A read of all records waits for its end for half a minute; one that may be old returns what is decided."""
    brokers.broker.abandon()
    brokers.write((b"c", b"3"))
    if not is_blocked:
        assert brokers.log.read(whole=whole) == {b"a": b"1", b"b": b"2"}
        assert brokers.broker.now == 0
        return
    with pytest.raises(TopiaristError) as caught:
        brokers.log.read(whole=whole)
    assert (caught.value.reason, caught.value.message, caught.value.hint) == (
        Reason.RECORDS_BLOCKED,
        "a transaction is open on __topiarist since offset 2 (end: 4): of another client, or of a run that was killed",
        "run again when it has ended; only topiarist needs Write on __topiarist",
    )
    waited = brokers.broker.now
    assert (
        transactions.BLOCKED_PATIENCE_S <= waited <= transactions.BLOCKED_PATIENCE_S + 2 * transactions.RETRY_INTERVAL_S
    )


def test_a_transaction_that_ends_while_the_read_waits(brokers: Brokers) -> None:
    """Values of an aborted transaction are left out, and those after it are returned."""
    stranger = brokers.broker.abandon()
    brokers.write((b"c", b"3"))

    def end(_name: str, _number: int) -> None:
        if brokers.broker.now >= 10:
            brokers.broker.before = lambda name, number: None
            stranger.end(commit=False)

    brokers.broker.before = end
    assert brokers.log.read(whole=True) == {b"a": b"1", b"b": b"2", b"c": b"3"}
    assert 10 <= brokers.broker.now < 11


def test_records_that_were_deleted(brokers: Brokers) -> None:
    """A topic that is shorter than it was has lost records."""
    brokers.log.read(whole=True)
    brokers.broker.records_log.end = 1
    with pytest.raises(TopiaristError, match="before offset 3 were deleted") as caught:
        brokers.log.read(whole=True, end=5)
    assert caught.value.reason is Reason.RECORDS_LOST


# The turn of one run to begin, over a log in memory: which runs it waits for, and when its own claim is over.

LEASE = transactions.LEASE_S
LIMIT = LEASE - transactions.MARGIN_S
PAUSE = transactions.MAX_LOCK_PAUSE_S / 2
"""The pause after a wait: the clock of these tests gives the middle of each range."""

OTHER = Claim("other", "them", "there", round(LEASE * 1000), 1)
HELD = Lock("holder", "them", "there", round(LEASE * 1000), 5)
FREE = Lock(number=5)


class Log:
    """The lock, and claims in the order in which their runs wrote them first; ``reads`` has the arguments of reads.

    ``before_claim``, ``after_claim`` and ``before_whole_read`` are called for what other runs do then.
    """

    def __init__(self, *claims: Claim, lock: Lock = FREE) -> None:
        self.lock = lock
        self.claims = {codec.claim_key(each.run): each for each in claims}
        self.end = 0
        self.reads: list[tuple[bool, int | None]] = []
        self.written: list[tuple[str, bool]] = []
        self.time = FakeTime()
        self.before_claim: Callable[[], None] = lambda: None
        self.after_claim: Callable[[], None] = lambda: None
        self.before_whole_read: Callable[[], None] = lambda: None
        self.turn = Turn(
            "me",
            "team",
            write=self._write,
            read=self._read,
            find_end=lambda: self.end,
            clock=Clock(self.time.now, self.time.sleep, self.time.random),
        )

    def take(self, *, timeout: float = 1000.0, stop: bool = False) -> Lock:
        """Take the turn."""
        return self.turn.take(lambda: stop, self.time.current + timeout)

    def _write(self, key: bytes, value: bytes | None) -> int:
        name = key.decode()
        self.written.append((name, value is not None))
        self.end += 1
        if value is None:
            self.claims.pop(name, None)
        else:
            self.before_claim()
            self.claims[name] = codec.decode_records({key: value}).claims[0]
            self.after_claim()
        return self.end

    def add(self, claim: Claim) -> None:
        """Add the claim of another run, if it is not there."""
        self.claims.setdefault(codec.claim_key(claim.run), claim)

    def _read(self, whole: bool, end: int | None) -> Records:
        self.reads.append((whole, end))
        if whole:
            self.before_whole_read()
        return Records(lock=self.lock, claims=tuple(self.claims.values()))


OWN = codec.claim_key("me")


def test_a_free_lock_is_claimed_at_once() -> None:
    """Without other runs nothing is waited for; all records up to the claim are read, and the lock is returned."""
    log = Log()
    assert log.take() == FREE
    assert (log.time.slept, log.written, log.reads) == ([], [(OWN, True)], [(False, None), (True, 1)])
    (claim,) = log.claims.values()
    assert (claim.run, claim.owner, claim.lease_ms, claim.attempt) == ("me", "team", LEASE * 1000, 1)
    assert log.turn.replacements() == {OWN: None}


@pytest.mark.parametrize("holder", [OTHER, HELD])
def test_a_run_that_was_killed_is_waited_for_until_its_lease_is_over(holder: Lock | Claim) -> None:
    """It is over when it has not changed for its lease; then the next commit removes its claim, if it has one."""
    log = Log(holder) if isinstance(holder, Claim) else Log(lock=holder)
    began = log.time.current
    assert log.take() == log.lock
    assert LEASE <= log.time.current - began <= LEASE + transactions.LOCK_POLL_INTERVAL_S + PAUSE
    assert log.time.slept[-1] == PAUSE
    assert set(log.time.slept[:-1]) == {transactions.LOCK_POLL_INTERVAL_S}
    expired = {codec.claim_key(OTHER.run): None} if holder is OTHER else {}
    assert log.turn.replacements() == {OWN: None, **expired}
    assert [whole for whole, _ in log.reads] == [False, False, True]


def test_a_lease_is_in_milliseconds() -> None:
    """A run is waited for as long as one of them is left."""
    poll = transactions.LOCK_POLL_INTERVAL_S
    for lease_ms, waits in ((1000, 4), (1001, 5)):
        log = Log(replace(OTHER, lease_ms=lease_ms))
        log.take()
        assert log.time.slept == [*[poll] * waits, PAUSE]


@pytest.mark.parametrize(("timeout", "stop", "waited"), [(5.0, False, 5.0), (0.0, False, 0.0), (1000.0, True, 0.0)])
@pytest.mark.parametrize(("holder", "state"), [(OTHER, "is about to write"), (HELD, "is writing")])
def test_the_wait_ends_at_its_limit_and_if_it_is_stopped(
    holder: Lock | Claim, state: str, timeout: float, stop: bool, waited: float
) -> None:
    """The error names the run, its host, and the time after which its lock can be taken; nothing is claimed."""
    log = Log(holder) if isinstance(holder, Claim) else Log(lock=holder)
    began = log.time.current
    with pytest.raises(TopiaristError) as caught:
        log.take(timeout=timeout, stop=stop)
    assert (caught.value.reason, log.time.current - began, log.written) == (Reason.LOCKED, waited, [])
    assert caught.value.message == f"another run {state}: them on there ({holder.run})"
    assert caught.value.hint == "wait for it; if it was killed, its lock can be taken after a wait of 30 s"


def test_of_two_claims_the_first_begins() -> None:
    """A run that finds another claim before its own removes its own, and waits for the other one."""
    log = Log()
    log.before_claim = lambda: log.add(OTHER)
    assert log.take() == FREE
    assert log.written == [(OWN, True), (OWN, False), (OWN, True)]
    assert log.claims[OWN].attempt == 2
    assert log.time.current >= 1_000_000 + LEASE
    assert log.turn.replacements() == {OWN: None, codec.claim_key(OTHER.run): None}


def test_a_later_claim_of_another_run_is_no_reason_to_wait() -> None:
    """The claims of all runs have one order, that of the log: the other run waits for this one."""
    log = Log()
    log.after_claim = lambda: log.add(OTHER)
    assert log.take() == FREE
    assert log.time.slept == []
    assert log.turn.replacements() == {OWN: None}


def test_a_claim_that_another_run_has_removed_is_written_anew() -> None:
    """A run that stood still until another one took it for killed does not begin on its old claim."""
    log = Log()

    def remove_the_first() -> None:
        if len(log.written) == 1:
            log.claims.clear()

    log.before_whole_read = remove_the_first
    assert log.take() == FREE
    assert [is_claim for _, is_claim in log.written] == [True, False, True]


@pytest.mark.parametrize(
    ("age", "is_renewed", "is_fenced"),
    [
        (0, False, False),
        (LEASE / 3 - 1, False, False),
        (LEASE / 3, True, False),
        (LIMIT - 1, True, False),
        (LIMIT, False, True),
        (LEASE, False, True),
    ],
)
def test_a_claim_is_renewed_in_time_or_not_used(age: float, is_renewed: bool, is_fenced: bool) -> None:
    """After a third of its lease it is renewed, and keeps its place; near its end other runs may take it for over."""
    log = Log()
    log.take()
    log.time.current += age
    if is_fenced:
        with pytest.raises(Fenced):
            log.turn.require_time()
    else:
        log.turn.require_time()
    assert log.written == [(OWN, True)] * (1 + is_renewed)
    assert log.claims[OWN].attempt == 1 + is_renewed


def test_a_renewal_that_takes_too_long_ends_the_run() -> None:
    """The age is that of the moment before the claim was sent: the write may have been slow."""
    log = Log()
    log.take()
    log.time.current += LEASE / 3

    def answer_slowly() -> None:
        log.time.current += LIMIT

    log.after_claim = answer_slowly
    with pytest.raises(Fenced):
        log.turn.require_time()


@pytest.mark.parametrize(("leave", "removes"), [(Turn.end, False), (Turn.give_up, True)])
def test_a_turn_that_has_ended(leave: Callable[[Turn], None], removes: bool) -> None:
    """Nothing is left to renew or to replace; only a claim that was given up is removed by a write of its own."""
    log = Log(OTHER)
    log.take()
    log.written.clear()
    leave(log.turn)
    log.time.current += LEASE
    log.turn.keep()
    log.turn.give_up()
    assert (log.written, log.turn.replacements()) == ([(OWN, False)] if removes else [], {})


def test_the_holders() -> None:
    """The lock first, if a run holds it, then all claims in their order."""
    second = replace(OTHER, run="second")
    assert find_holders(Records(lock=HELD, claims=(OTHER, second))) == (HELD, OTHER, second)
    assert find_holders(Records(lock=FREE, claims=(second, OTHER))) == (second, OTHER)
    assert find_holders(Records()) == ()
