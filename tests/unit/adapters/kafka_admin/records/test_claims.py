"""The turn of one run to begin, over a log in memory: which runs it waits for, and when its own claim is over."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from topiarist.adapters.kafka_admin.records import codec, transactions
from topiarist.adapters.kafka_admin.records.codec import Claim, Lock, Records
from topiarist.adapters.kafka_admin.records.log import Turn, find_holders
from topiarist.adapters.kafka_admin.records.transactions import Clock, Fenced
from topiarist.errors import Reason, TopiaristError
from unit.adapters.kafka_admin.scripted_session import FakeTime

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
    assert f"another run {state}: them on there ({holder.run})" in caught.value.args[0]
    assert "30 s" in str(caught.value.hint)


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
