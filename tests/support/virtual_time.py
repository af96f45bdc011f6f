"""An event loop with virtual time, which advances only when all tasks wait: tests read pauses without waiting."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock that starts at 0 and jumps to the next scheduled event."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        """Return the seconds since the creation of the loop."""
        return self.now

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Wait for the threads of the executor without a timeout, which would be over at once."""
        await super().shutdown_default_executor()

    def _run_once(self) -> None:
        ready, due = (vars(self)[name] for name in ("_ready", "_scheduled"))
        waiting = [handle.when() for handle in due if not handle.cancelled()]
        if not ready and waiting:
            self.now = max(self.now, min(waiting))
        super()._run_once()  # type: ignore[misc]


def run_in_virtual_time(work: Callable[[], Awaitable[Any]]) -> Any:
    """Run ``work`` in such a loop and return its result."""

    async def main() -> Any:
        return await work()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main())


CoroutineTest = Callable[..., Coroutine[Any, Any, None]]


def virtual_time(test: CoroutineTest) -> Callable[..., None]:
    """Make a test of a coroutine function, which runs in such a loop; parameters and fixtures stay the same."""
    return _as_test(test, run_in_virtual_time)


def real_time(test: CoroutineTest) -> Callable[..., None]:
    """Make a test of a coroutine function, which runs in a loop with the real time."""
    return _as_test(test, lambda work: asyncio.run(work()))


def _as_test(test: CoroutineTest, run: Callable[[Callable[[], Coroutine[Any, Any, None]]], Any]) -> Callable[..., None]:
    @functools.wraps(test)
    def run_test(*args: Any, **kwargs: Any) -> None:
        run(lambda: test(*args, **kwargs))

    return run_test


def loop_time() -> float:
    """Return the time of the running loop."""
    return asyncio.get_running_loop().time()
