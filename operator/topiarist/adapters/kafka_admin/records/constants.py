"""The times of the protocol of the records, with the clock that tests replace."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import NamedTuple

LEASE_S = 30.0
"""Seconds that the lock of a chunk holds; a chunk of 500 topics takes 1 to 3 s, a failover of the controller 3 s."""

MARGIN_S = 10.0
"""Seconds before the end of the lease after which nothing is sent."""

PATIENCE_S = 60.0
"""Seconds to repeat a request that the brokers answer with "again"; 15 were measured after a loss of brokers."""

BLOCKED_PATIENCE_S = 30.0
"""Seconds to wait for the open transaction of another client on the topic."""

LATE_WRITE_S = 70.0
"""Seconds until no Admin request of a dead run can be carried out: 60 in the forwarding broker, and a sync."""

MAX_CONTROLLER_ANSWER_S = 1.0
"""Seconds within which a controller answers that has no requests of dead runs waiting."""

FREEZE_COMMIT_S = 1.0
"""Seconds that a fenced run waits for the freeze that may have fenced it, to name the cause."""

TRANSACTION_TIMEOUT_MS = 10_000
PRODUCE_TIMEOUT_MS = 10_000
MAX_PRODUCE_S = 7.0
"""Seconds in a transaction until its records are written; after its timeout the coordinator would fence the run."""

LOCK_POLL_INTERVAL_S = 0.25
MAX_LOCK_PAUSE_S = 0.6
FENCED_PAUSE_S = 0.5
MAX_FENCED_PAUSE_S = 4.0
RETRY_INTERVAL_S = 0.05

FETCH_BYTES = 4 << 20
MAX_BATCH_BYTES = 512 << 10
"""Maximum size of one batch; the default of ``max.message.bytes`` is 1 MiB."""

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(NamedTuple):
    """Time in seconds that also counts while the machine sleeps, pauses, and random numbers from 0 to 1."""

    now: Callable[[], float] = lambda: time.clock_gettime(_CLOCK)
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random


SYSTEM_CLOCK = Clock()
