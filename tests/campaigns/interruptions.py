"""Numbers the writes of an operator, and stops the operator or loses an answer at one of them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import Enum


class OperatorKilled(BaseException):
    """The end of an operator process in the middle of a reconciliation; no handler of errors catches it."""


class Fault(Enum):
    """An interruption at a write: the process is killed after it, or its answer is lost."""

    KILL = "killed after the write"
    LOST_ANSWER = "the answer is lost"


@dataclass
class Interruptions:
    """The writes of all operators of one run, and the one at which ``fault`` is injected; 0 injects none.

    Writes are numbered from 1. ``killed`` is set when an operator was killed; its later requests never return.
    """

    position: int = 0
    fault: Fault = Fault.KILL
    writes: list[str] = field(default_factory=list)
    killed: asyncio.Event = field(default_factory=asyncio.Event)
    injected: str = ""
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    def kill_from_thread(self) -> None:
        """Set ``killed`` from the thread of a cluster."""
        self.loop.call_soon_threadsafe(self.killed.set)

    def record(self, what: str) -> Fault | None:
        """Record a completed write and return the fault to inject, None for no fault."""
        self.writes.append(what)
        if len(self.writes) != self.position:
            return None
        self.injected = what
        return self.fault
