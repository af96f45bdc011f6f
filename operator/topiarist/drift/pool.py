"""A runner in forked processes: uses the cores of one machine, without Java and without sending the job.

``drift.engine`` calls it for large fleets. Forked processes share the memory of the manifests. A process gets the next
part when it has finished one, the largest snapshot first, so that none ends long after the others. Of many parts it has
one more waiting, so that it never waits for the parent. Results come in the
order of the parts: each process writes its results to a file of its own, and sends only their places. A process that
dies ends the run with an error that names its clusters.
"""

from __future__ import annotations

import gc
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import NamedTuple, NoReturn

from topiarist.drift.live import MAX_PARALLEL_CLUSTERS
from topiarist.drift.results import ClusterResult
from topiarist.drift.task import Caches, Part, Shipped, work
from topiarist.errors import Reason, TopiaristError
from topiarist.text import printable


class _Failure(NamedTuple):
    """The error of a process: the fields of a ``TopiaristError``, or the traceback of an unexpected exception."""

    reason: Reason | None
    message: str
    hint: str = ""

    def raise_again(self) -> NoReturn:
        """Raise the error in this process."""
        if self.reason is None:
            raise RuntimeError(self.message)
        raise TopiaristError(self.reason, self.message, self.hint)


_MANY_PARTS = 32
"""The number of parts for each process from which on one waits in its pipe: each is a small share of the whole then."""

_Server = Callable[[Connection, Sequence[Connection], Path], None]


class _Process:
    """A forked process with its pipe, its file of results, and the numbers of its parts that are not finished.

    It works on the first ``parallel`` of them.
    """

    def __init__(self, serve: _Server, file: Path, pipes: list[Connection], parallel: int) -> None:
        context = get_context("fork")
        self.connection, child_end = context.Pipe()
        pipes.append(self.connection)
        self._process = context.Process(target=serve, args=(child_end, pipes, file), daemon=True)
        self._process.start()
        child_end.close()
        self._results = file.open("rb")
        self._parallel = parallel
        self.numbers: list[int] = []

    def send(self, number: int | None) -> None:
        """Send the number of a part, or None after the last; a process that has ended is noticed by ``receive``."""
        if number is not None:
            self.numbers.append(number)
        with suppress(OSError):
            self.connection.send(number)

    def receive(self, parts: Sequence[Part]) -> tuple[int, int]:
        """Return the number of a finished part and the place of its result. Raises the error of the process."""
        try:
            found = self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            names = [parts[number].cluster for number in self.numbers[: self._parallel]]
            raise _dead_process_error(names, self._process.exitcode) from None
        if isinstance(found, _Failure):
            found.raise_again()
        number, place = found
        self.numbers.remove(number)
        return number, place

    def read_result(self, place: int) -> ClusterResult:
        """Return the result at a place of the file."""
        self._results.seek(place)
        result: ClusterResult = pickle.load(self._results)  # written by a process of this run
        return result

    def close(self) -> None:
        """End the process, and wait for its end."""
        self._process.terminate()
        self._process.join()
        self._process.close()
        self.connection.close()
        self._results.close()


def _dead_process_error(clusters: Sequence[str], exit_code: int | None) -> TopiaristError:
    names = ", ".join(map(printable, clusters)) or "no cluster"
    ending = f"was ended by {signal.Signals(-exit_code).name}" if exit_code and exit_code < 0 else "has ended"
    return TopiaristError(
        Reason.INCOMPLETE,
        f"the process that compared {names} {ending}",
        "if the machine has too little memory, use fewer processes: --jobs 1",
    )


def _serve(
    parts: Sequence[Part],
    shipped: Shipped,
    parallel: int,
    connection: Connection,
    pipes: Sequence[Connection],
    file: Path,
) -> None:
    """Compare the parts with the received numbers, until None is received or the parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for pipe in pipes:  # otherwise the pipes of other processes would stay open after the parent has ended
        pipe.close()
    numbers: list[int] = []

    def received() -> Iterator[Part]:
        while (number := connection.recv()) is not None:
            numbers.append(number)
            yield parts[number]

    try:
        with file.open("ab") as output:
            for result in work(received(), shipped, Caches(shipped), parallel):
                place = output.tell()
                pickle.dump(result, output, pickle.HIGHEST_PROTOCOL)
                output.flush()
                connection.send((numbers.pop(0), place))
    except TopiaristError as error:
        connection.send(_Failure(error.reason, str(error.args[0]), error.hint))
    except (EOFError, ConnectionError):  # the parent has ended
        pass
    except OSError as error:
        connection.send(_Failure(Reason.UNWRITABLE, f"{printable(str(file), 4096)}: {error.strerror or error}"))
    except Exception:
        names = ", ".join(parts[number].cluster for number in numbers)
        connection.send(_Failure(None, f"{names}: {traceback.format_exc()}"))


def run_in_processes(parts: Sequence[Part], shipped: Shipped, jobs: int, folder: Path) -> Iterator[ClusterResult]:
    """Yield the result of each part, in order; ``folder`` is an existing folder for the results.

    Raises ``TopiaristError`` (Incomplete) if a process dies, and the errors of ``work``.
    """
    waiting = sorted(range(len(parts)), key=lambda number: (parts[number].row_count, -number))
    is_live = any(part.is_live for part in parts)
    parallel = max(MAX_PARALLEL_CLUSTERS // jobs, 1) if is_live else 1
    found: dict[int, tuple[_Process, int]] = {}
    with ExitStack() as stack:
        processes: list[_Process] = []
        pipes: list[Connection] = []
        gc.freeze()  # a collection in a forked process would copy the memory that it shares
        stack.callback(gc.unfreeze)
        for number in range(jobs):
            file = folder / f"results-{number}"
            file.touch()
            processes.append(_Process(partial(_serve, parts, shipped, parallel), file, pipes, parallel))
            stack.callback(processes[-1].close)
        is_many = len(parts) >= _MANY_PARTS * jobs and not is_live
        for process in processes * (parallel + 1 if is_many else parallel):
            process.send(waiting.pop() if waiting else None)
        next_number = 0
        while next_number < len(parts):
            if next_number in found:
                process, place = found.pop(next_number)
                next_number += 1
                yield process.read_result(place)
                continue
            for process in _wait_ready(processes):
                number, place = process.receive(parts)
                found[number] = process, place
                process.send(waiting.pop() if waiting else None)


def _wait_ready(processes: Sequence[_Process]) -> list[_Process]:
    """Wait until processes that work on parts have sent something, or have died; return them."""
    ready = wait([each.connection for each in processes if each.numbers])
    return [each for each in processes if each.connection in ready]
