"""Read the whole topic of records: every committed value up to the high watermark.

Reading "to the end of what is committed" loses records while any other client has a transaction open on the topic:
that end stands still without an error. So a run that writes waits until everything before the high watermark is
decided. That high watermark is the answer to ListOffsets: a leader that was just elected refuses it until it knows the
right one, and answers Fetch with an old one. After one such answer, Fetch has the right one too: over the same
connection, which no restart outlives, and with the epoch of that answer, which the leader compares with its own. A read
begins at offset 0, since a tombstone that compaction has removed cannot be seen by a later read; it goes on from one
that began some seconds before, in which nothing is removed.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import Connection, Disconnected, Message
from topiarist.adapters.kafka_admin.protocol.batches import read_batches
from topiarist.adapters.kafka_admin.protocol.messages import FetchRequest, ListOffsetsRequest, MalformedMessage
from topiarist.adapters.kafka_admin.records import codec, transactions
from topiarist.adapters.kafka_admin.records.codec import Claim, Lock, Records
from topiarist.adapters.own_values import encode_value
from topiarist.errors import Reason, TopiaristError

_COMMITTED, _UNCOMMITTED = 1, 0
_LATEST = _NO_EPOCH = -1
_OFFSET_OUT_OF_RANGE = 1
_LIST_VERSION, _FETCH_VERSION = 5, 11
_EPOCH_VERSION = 9  # the first Fetch with the epoch of the leader
_RETRY_CODES = transactions.AGAIN_CODES | {-1, 7, 9, 13, 56, 72, 74, 75, 76, 78}  # reading may always be repeated

TAIL_AGE_S = 5.0
"""Seconds after a read within which the next one goes on from it; a tombstone is not removed before 15 of them."""


class RecordsLog:
    """A reader of partition 0 of the topic."""

    def __init__(self, session: transactions.RecordsSession, topic: str, clock: transactions.Clock) -> None:
        self._session = session
        self._topic = topic
        self._clock = clock
        self._repeater = transactions.Repeater(session, clock, lambda code: f"Read on the topic {topic}")
        self._position = 0
        self._values: dict[bytes, bytes] = {}
        self._read_at = float("-inf")

    def read(self, *, whole: bool, end: int | None = None) -> dict[bytes, bytes]:
        """Return the last value of each key, without deleted keys, in the order of the first value since a deletion.

        With ``whole``, waits until nothing before the high watermark, or before ``end``, is undecided; the caller has
        fenced all earlier runs. Without it, the values may be old. Raises ``RecordsBlocked``, ``RecordsLost`` and
        ``Unreachable``.
        """
        began, first = self._clock.now(), None
        if began >= self._read_at + TAIL_AGE_S:
            self._position, self._values = 0, {}
        if whole and end is None:
            first = None if self._position else self._fetch_in_known_epoch()
            end = first.high_watermark if first else self._end_offset(_UNCOMMITTED)
        waiting_since = began
        while end is None or self._position < end:
            part, before = first or self._fetch(self._position), self._position
            end, first = part.last_stable_offset if end is None else end, None
            for key, value, next_offset in self._decode(part, before):
                self._take(key, value, next_offset)
            if self._position > before:
                waiting_since = self._clock.now()
            elif part.records:
                raise _unreadable(before, "an answer without a whole batch")
            elif part.last_stable_offset >= end:
                break  # compaction has removed all offsets up to the end
            else:
                self._wait(part, end, self._clock.now() - waiting_since)
        self._read_at = began
        return dict(self._values)

    def _decode(self, part: Message, position: int) -> Iterable[tuple[bytes | None, bytes | None, int]]:
        answers = self._session.answers
        if answers is None or part.aborted_transactions:
            return committed_records(part, position)
        data = bytes(part.records or b"")
        return answers.decode(("Fetch", position), data, lambda: [*committed_records(part, position)])

    def take_written(self, key: bytes, value: bytes | None, end: int | None) -> None:
        """Take note of a record that was written without a transaction and ends at ``end`` (None: not known).

        If it directly follows what was read, a read up to ``end`` has nothing else to read.
        """
        if end == self._position + 1:
            self._take(key, value, end)

    def find_end(self) -> int:
        """Return the offset up to which all transactions have ended; without the topic, -1 or an error."""
        return self._end_offset(_COMMITTED)

    def _take(self, key: bytes | None, value: bytes | None, next_offset: int) -> None:
        self._position = max(self._position, next_offset)
        if key is not None and value is not None:
            self._values[key] = value
        elif key is not None:
            self._values.pop(key, None)

    def _wait(self, part: Message, end: int, waited: float) -> None:
        """Wait for the records up to ``end``, which ``part`` does not have yet; raise an error after some time."""
        if part.high_watermark >= end and waited >= transactions.BLOCKED_PATIENCE_S:
            raise TopiaristError(
                Reason.RECORDS_BLOCKED,
                f"a transaction is open on {self._topic} since offset {part.last_stable_offset:,} (end: {end:,}): of"
                " another client, or of a run that was killed",
                f"run again when it has ended; only topiarist needs Write on {self._topic}",
            )
        if waited >= transactions.PATIENCE_S:
            message = f"the records could not be read beyond offset {self._position:,} of {end:,}"
            raise TopiaristError(Reason.UNREACHABLE, message, "run again when all brokers are back")
        self._clock.sleep(transactions.RETRY_INTERVAL_S)

    def _end_offset(self, isolation: int) -> int:
        def send(connection: Connection) -> tuple[int, Message]:
            topic = ListOffsetsRequest.ListOffsetsTopic
            partition = topic.ListOffsetsPartition(timestamp=_LATEST)
            request = ListOffsetsRequest(
                replica_id=-1, isolation_level=isolation, topics=[topic(name=self._topic, partitions=[partition])]
            )
            answer = connection.call(request, version=connection.version_of(request, _LIST_VERSION))
            found = [each for result in answer.topics for each in result.partitions]
            if len(found) != 1:
                return -1, None
            if found[0].error_code == error_codes.NONE and found[0].leader_epoch >= 0:
                connection.leader_epochs[self._topic] = found[0].leader_epoch
            return found[0].error_code, found[0]

        return int(self._repeat(send).offset)

    def _fetch(self, position: int) -> Message:
        return self._repeat(lambda connection: self._send_fetch(connection, position, _NO_EPOCH))

    def _fetch_in_known_epoch(self) -> Message | None:
        """Return the first records from a leader that has told its end in this epoch before; None without one."""
        connection = self._session.leader(self._topic)
        epoch = connection.leader_epochs.get(self._topic)
        if epoch is None or connection.version_of(FetchRequest, _FETCH_VERSION) < _EPOCH_VERSION:
            return None
        with suppress(Disconnected):
            code, part = self._send_fetch(connection, 0, epoch)
            if code == error_codes.NONE:
                return part
        return None

    def _send_fetch(self, connection: Connection, position: int, epoch: int) -> tuple[int, Message]:
        topic = FetchRequest.FetchTopic
        partition = topic.FetchPartition(
            current_leader_epoch=epoch,
            fetch_offset=position,
            partition_max_bytes=transactions.FETCH_BYTES,
        )
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=transactions.FETCH_BYTES,
            isolation_level=_COMMITTED,
            topics=[topic(topic=self._topic, partitions=[partition])],
        )
        answer = connection.call(request, version=connection.version_of(request, _FETCH_VERSION))
        found = [each for result in answer.responses for each in result.partitions]
        if answer.error_code or len(found) != 1:  # a throttled answer has no partition
            return answer.error_code or -1, None
        if found[0].error_code == _OFFSET_OUT_OF_RANGE:
            message = f"the records of {self._topic} before offset {position + 1:,} were deleted"
            raise TopiaristError(Reason.RECORDS_LOST, message)
        return found[0].error_code, found[0]

    def _repeat(self, send: Callable[[Connection], tuple[int, Message]]) -> Message:
        what = f"cannot read the records in {self._topic}"
        return self._repeater.send(what, lambda: self._session.leader(self._topic), send, _RETRY_CODES)


def committed_records(part: Message, position: int) -> Iterator[tuple[bytes | None, bytes | None, int]]:
    """Yield key, value and next offset of each record from ``position`` on, and a None key for offsets without one.

    ``part`` is the answer for one partition. Raises ``Unreadable`` if its batches cannot be decoded.
    """
    aborted = sorted((each.first_offset, each.producer_id) for each in part.aborted_transactions or ())
    aborted_ids: set[int] = set()
    try:
        for batch in read_batches(bytes(part.records or b"")):
            while aborted and aborted[0][0] <= batch.base_offset:
                aborted_ids.add(aborted.pop(0)[1])
            if batch.is_abort:
                aborted_ids.discard(batch.producer_id)
            elif not batch.is_control and not (batch.is_transactional and batch.producer_id in aborted_ids):
                for record in batch.records:
                    if record.offset >= position and record.key is not None:
                        yield record.key, record.value, record.offset + 1
            yield None, None, batch.next_offset
    except MalformedMessage as error:
        raise _unreadable(position, str(error)) from error


def _unreadable(position: int, why: str) -> TopiaristError:
    return TopiaristError(Reason.UNREADABLE, f"the records from offset {position:,} on cannot be read: {why}")


# The turn of one run to begin: a claim that it writes before its ``init``, which would fence a run that is live.
#
# A claim is a record of its own, written without a transaction: the log orders the claims of all runs. A run that finds
# the lock free writes its claim and reads the records again. It begins if its claim is the first one. Otherwise it
# removes its claim and waits, so that of several runs that find the lock free at the same time one begins and fences no
# run. The first commit of a run replaces its claim by the lock.
#
# The claim or lock of a killed run ends like each other: it is over when it has not changed for its lease by the clock
# of the run that waits.

Holder = Lock | Claim

_NEVER = float("-inf")


class Turn:
    """The turn of one run. ``write`` appends one record without a transaction, and returns the offset after it.

    ``read`` returns the records. With True they have all that was written before an offset, or before the call if it is
    None. ``find_end`` returns the end of the topic.
    """

    def __init__(
        self,
        run: str,
        owner: str,
        *,
        write: Callable[[bytes, bytes | None], int | None],
        read: Callable[[bool, int | None], Records],
        find_end: Callable[[], int],
        clock: transactions.Clock,
    ) -> None:
        self._claim = Claim(run, owner, socket.gethostname(), round(transactions.LEASE_S * 1000), 0)
        self._write = write
        self._read = read
        self._find_end = find_end
        self._clock = clock
        self._since: dict[Holder, float] = {}
        self._claimed_at = _NEVER
        self._expired: tuple[Claim, ...] = ()

    def take(self, stop: Callable[[], bool], deadline: float) -> Lock:
        """Wait for other runs, and claim the lock; return the lock that was found, of a run that ended if it is held.

        Raises ``TopiaristError``: ``Locked`` at ``deadline`` or if ``stop()`` is true, and the errors of reading.
        """
        while True:
            self.give_up()
            self._wait(stop, deadline)
            lock = self._begin_claim()
            if lock is not None:
                return lock

    def keep(self) -> None:
        """Renew the claim, if there is one, after a third of its lease; it keeps its place."""
        if self._is_claimed and self._age >= transactions.LEASE_S / 3:
            self._put_claim()

    def require_time(self) -> None:
        """Renew the claim in time. Raises ``Fenced`` if other runs may take this one for killed. Then send at once."""
        limit = transactions.LEASE_S - transactions.MARGIN_S
        if self._age < limit:
            self.keep()
        if self._age >= limit:
            raise transactions.Fenced("this run stood still while it began")

    def replacements(self) -> Mapping[str, None]:
        """Return what the next commit removes: the claim, and those of runs that ended."""
        own = (self._claim,) if self._is_claimed else ()
        return {codec.claim_key(each.run): None for each in (*own, *self._expired)}

    def end(self) -> None:
        """Take note that ``replacements`` were committed."""
        self._claimed_at, self._expired = _NEVER, ()

    def give_up(self) -> None:
        """Remove the claim, if there is one."""
        if self._is_claimed:
            self.end()
            self._write(codec.claim_key(self._claim.run).encode(), None)

    @property
    def _is_claimed(self) -> bool:
        return self._claimed_at > _NEVER

    @property
    def _age(self) -> float:
        return self._clock.now() - self._claimed_at

    def _put_claim(self) -> int | None:
        # The time before the claim is sent: others wait for longer.
        self._claimed_at = self._clock.now()
        self._claim = replace(self._claim, attempt=self._claim.attempt + 1)
        return self._write(codec.claim_key(self._claim.run).encode(), encode_value(self._claim))

    def _wait(self, stop: Callable[[], bool], deadline: float) -> None:
        """Wait until no other run holds or claims the lock, or has not changed for its lease by the own clock."""
        # An open transaction of a run that ended would only delay this read.
        end, records = -1, self._read(False, None)
        has_waited = has_paused = False
        while True:
            holder = self._find_holder([each for each in find_holders(records) if each != self._claim])
            if holder is None:
                if has_paused or not has_waited:
                    return
                has_paused = True  # several runs may wait: not all at once
                self._clock.sleep(self._clock.random() * transactions.MAX_LOCK_PAUSE_S)
            elif stop() or self._clock.now() >= deadline:
                raise _locked(holder)
            else:
                has_waited, has_paused = True, False
                self._clock.sleep(transactions.LOCK_POLL_INTERVAL_S)
            if (found := self._find_end()) != end:
                end, records = found, self._read(False, None)

    def _begin_claim(self) -> Lock | None:
        """Write the claim; return the lock if no run is before this one, else None."""
        records = self._read(True, self._put_claim())
        if self._claim not in records.claims:
            return None  # this run stood still, and another one has removed its claim
        before = records.claims[: records.claims.index(self._claim)]
        if self._find_holder(find_holders(records._replace(claims=before))) is not None:
            return None
        self._expired = before
        return records.lock

    def _find_holder(self, holders: Sequence[Holder]) -> Holder | None:
        """Return the first of ``holders`` that may be live; all others are as they were for their lease."""
        now = self._clock.now()
        # Those that are no longer there stay: a run that ended is not waited for twice.
        self._since = {**dict.fromkeys(holders, now), **self._since}
        return next((each for each in holders if now - self._since[each] < each.lease_ms / 1000), None)


def find_holders(records: Records) -> tuple[Holder, ...]:
    """Return the lock, if it is held, and all claims in their order."""
    return (*([records.lock] if records.lock.run else []), *records.claims)


def _locked(holder: Holder) -> TopiaristError:
    state = "is writing" if isinstance(holder, Lock) else "is about to write"
    return TopiaristError(
        Reason.LOCKED,
        f"another run {state}: {holder.owner} on {holder.host} ({holder.run})",
        f"wait for it; if it was killed, its lock can be taken after a wait of {holder.lease_ms / 1000:g} s",
    )
