"""The turn of one run to begin: a claim that it writes before its ``init``, which would fence a run that is live.

A claim is a record of its own, written without a transaction: the log orders the claims of all runs. A run that finds
the lock free writes its claim and reads the records again. It begins if its claim is the first one. Otherwise it
removes its claim and waits, so that of several runs that find the lock free at the same time one begins and fences no
run. The first commit of a run replaces its claim by the lock.

The claim or lock of a killed run ends like each other: it is over when it has not changed for its lease by the clock of
the run that waits.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from topiarist.adapters.kafka_admin.records import codec, constants
from topiarist.adapters.kafka_admin.records.constants import Clock
from topiarist.adapters.kafka_admin.records.transactions import Fenced
from topiarist.adapters.kafka_admin.records.values import Claim, Lock, Records
from topiarist.adapters.own_values import encode_value
from topiarist.errors import Reason, TopiaristError

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
        clock: Clock,
    ) -> None:
        self._claim = Claim(run, owner, socket.gethostname(), round(constants.LEASE_S * 1000), 0)
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
        if self._is_claimed and self._age >= constants.LEASE_S / 3:
            self._put_claim()

    def require_time(self) -> None:
        """Renew the claim in time. Raises ``Fenced`` if other runs may take this one for killed. Then send at once."""
        limit = constants.LEASE_S - constants.MARGIN_S
        if self._age < limit:
            self.keep()
        if self._age >= limit:
            raise Fenced("this run stood still while it began")

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
                self._clock.sleep(self._clock.random() * constants.MAX_LOCK_PAUSE_S)
            elif stop() or self._clock.now() >= deadline:
                raise _locked(holder)
            else:
                has_waited, has_paused = True, False
                self._clock.sleep(constants.LOCK_POLL_INTERVAL_S)
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
