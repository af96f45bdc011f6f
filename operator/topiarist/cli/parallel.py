"""The same work for many clusters at once, in threads that never keep the process from ending.

Not ``concurrent.futures``: at its end Python waits for those threads, and whoever presses Ctrl-C while a server does
not answer would wait for it too. Used by ``fleet``.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeVar

from topiarist.errors import TopiaristError

T = TypeVar("T")


def for_each(
    names: Iterable[str], work: Callable[[str], T], most: int
) -> tuple[dict[str, T], dict[str, TopiaristError]]:
    """What ``work`` gives for each name, and the errors of those for which it fails, both in order of name.

    ``most`` are worked on at a time. What it raises beside ``TopiaristError`` is raised here, as is Ctrl-C: then
    nothing more is begun, and what is under way is not waited for.
    """
    waiting = deque(names)
    started = len(waiting)
    ended: SimpleQueue[tuple[str, Callable[[], T]]] = SimpleQueue()

    def run() -> None:
        with suppress(IndexError):
            while True:
                name = waiting.popleft()
                ended.put((name, _outcome(work, name)))

    for _ in range(min(most, started)):
        threading.Thread(target=run, name="cluster", daemon=True).start()
    found: dict[str, T] = {}
    failed: dict[str, TopiaristError] = {}
    try:
        for name, outcome in (ended.get() for _ in range(started)):
            try:
                found[name] = outcome()
            except TopiaristError as error:
                failed[name] = error
    finally:
        waiting.clear()
    return dict(sorted(found.items())), dict(sorted(failed.items()))


def _outcome(work: Callable[[str], T], name: str) -> Callable[[], T]:
    """Do the work; gives a function that returns what it gave, or raises what it raised."""
    try:
        result = work(name)
    except BaseException as error:
        raised = error

        def fail() -> T:
            raise raised

        return fail
    return lambda: result


def at_once(works: Iterable[Callable[[], object]], patience: float) -> None:
    """Do all of these at the same time, and wait for them no longer than ``patience`` seconds."""
    threads = [threading.Thread(target=work, name="closing", daemon=True) for work in works]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + patience
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
