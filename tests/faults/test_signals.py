"""F30: SIGINT and SIGTERM at every write, and a second one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path
from threading import Event

import pytest

from faults.conftest import Tally
from integration.scene import FIRST, MANY, WISHES, by_result, locks, locks_of, mixed, opened, witnessed
from integration.test_terminal import ORDERS, words
from support import checker, forks, plenty
from support.forks import Forks
from support.plenty import Mould
from support.proxy import Proxy
from support.waiting import wait_until
from support.wishes import planned, results, wish
from topiarist.adapters.playground import Playground
from topiarist.reconcile import Outcome, Result

pytestmark = pytest.mark.timeout(300)

RUN = ("--yes", "--adopt=*", "--allow-risk", "DataLoss", "--lock-timeout", "30")
WRITES = len(plenty.NAMES) + 2
"""The lock, a transaction for each topic, the lock again."""

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


def converges(connect: str, before: checker.Tree) -> None:
    """The next run does the rest, and after it there is nothing left to do."""
    with opened(connect, lock_timeout=30) as port:
        assert set(results(port, planned(port, *plenty.wishes())).values()) <= {Result.DONE}
        assert not planned(port, *plenty.wishes()).pending
    assert list(plenty.harm(before, checker.look(connect))) == []


def send(running: list[forks.BaseProcess], number: signal.Signals, said: Path) -> None:
    """Send it to the run, and wait until it has heard of it."""
    wait_until(lambda: running, "the process")
    os.kill(forks.pid(running[0]), number)
    wait_until(lambda: "nothing more is sent" in said.read_text(), "word of the signal")


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_f30_at_every_write(  # noqa: PLR0913
    mould: Mould, proxy: Proxy, processes: Forks, tmp_path: Path, number: signal.Signals, code: int, tally: Tally
) -> None:
    """A whole run gets the signal just before each of its writes: the lock is given up, the summary has every topic,
    the code is that of the signal, and the next run does the rest.
    """
    for write in range(1, WRITES + 1):
        connect = mould.cast()
        before = checker.look(connect)
        running = list[forks.BaseProcess]()

        proxy.reset()
        proxy.hold(write, lambda running=running: send(running, number, tmp_path / "said"))  # type: ignore[misc]
        folder = plenty.folder(tmp_path / "manifests", proxy.through(connect))
        running.append(processes.start("apply", folder, *RUN, said=tmp_path / "said"))
        assert forks.ended(running[0]) == code
        said = (tmp_path / "said").read_text()
        counts = re.search(r"Applied: (?:(\d+) done)?(?:, )?(?:(\d+) not sent)?", said)
        assert counts, said
        assert sum(int(count or 0) for count in counts.groups()) == len(plenty.NAMES)
        assert locks_of(connect) == []
        converges(connect, before)
    tally.cases(WRITES)


def test_f30_nothing_more_is_sent_after_the_signal(cluster: Playground, proxy: Proxy) -> None:
    """In the middle of many topics that were read together: what is under way is finished, the others are not begun."""
    stopped = Event()
    with opened(proxy.through(cluster.connect)) as port:
        plan = planned(port, *MANY)
        proxy.hold(FIRST + 10, stopped.set)
        found = by_result(list(port.apply(plan, stopped.is_set)))
    assert sorted(checker.topics(checker.look(cluster.connect))) == found[Result.DONE]
    assert len(found[Result.DONE]) == proxy.requests["multi"]
    assert len(found[Result.DONE]) + len(found[Result.NOT_SENT]) == len(MANY)


def test_f30_a_second_signal_ends_at_once(mould: Mould, proxy: Proxy, processes: Forks, tmp_path: Path) -> None:
    """While the first one is being heard out, with a write that is not answered: the process is gone at once, and the
    next run does the rest when the session is over.
    """
    ended = []
    for write, (number, code) in zip((1, 2, 11, WRITES), SIGNALS * 2, strict=True):
        connect = mould.cast()
        before, running = checker.look(connect), list[forks.BaseProcess]()

        def twice(running: list[forks.BaseProcess] = running, number: signal.Signals = number) -> None:
            send(running, number, tmp_path / "said")
            os.kill(forks.pid(running[0]), number)
            forks.gone(running[0])

        proxy.reset()
        proxy.hold(write, twice)
        folder = plenty.folder(tmp_path / "manifests", proxy.through(connect))
        running.append(processes.start("apply", folder, *RUN, said=tmp_path / "said"))
        assert forks.ended(running[0]) == code
        assert "Applied" not in (tmp_path / "said").read_text()
        assert proxy.fired.wait(30)
        ended.append((connect, before))
    for connect, before in ended:
        converges(connect, before)


def test_f30_what_is_under_way_is_finished(cluster: Playground) -> None:
    """After the first outcome nothing more is sent; the lock is free and the next run does the rest."""
    specs = [*WISHES, *(wish(f"more-{number:03}") for number in range(300))]
    mixed(cluster)
    seen: list[Outcome] = []
    with witnessed(cluster.connect, *(spec.topic for spec in specs)), opened(cluster.connect) as port:
        plan = planned(port, *specs)
        for outcome in port.apply(plan, lambda: bool(seen)):
            seen.append(outcome)
        assert len(seen) == len(specs)
        by_result = {result: [o for o in seen if o.result is result] for result in Result}
        assert by_result[Result.DONE]
        assert by_result[Result.NOT_SENT]
        assert locks(cluster) == []
        assert set(results(port, planned(port, *specs)).values()) == {Result.DONE}
        assert not planned(port, *specs).pending


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_f30_in_the_middle_of_many_topics(
    cluster: Playground, proxy: Proxy, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """Ctrl-C in the middle of apply: what was sent is finished and counted, the lock is free, a re-run converges."""
    for index in range(600):
        text = ORDERS.format(retention=86_400_000).replace("name: orders", f"name: orders-{index:03}")
        (tmp_path / f"{index:03}.yaml").write_text(text)
    command = words(cluster, tmp_path, "--yes")
    command[command.index(cluster.connect)] = proxy.through(cluster.connect)
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    proxy.hold(100, lambda: child.send_signal(number))
    out, err = child.communicate(timeout=60)
    assert child.returncode == code
    assert "what is under way is finished" in err
    done = re.search(r"Applied: (\d+) done, (\d+) not sent", out)
    assert done is not None
    assert int(done[1]) + int(done[2]) == 600
    tree = checker.look(cluster.connect)
    assert len(checker.topics(tree)) == int(done[1])
    assert not [path for path in tree if path.startswith("/topiarist/lock/")]
    again = subprocess.run(words(cluster, tmp_path, "--yes"), capture_output=True, text=True, check=False)
    assert again.returncode == 0
    assert len(checker.topics(checker.look(cluster.connect))) == 600
