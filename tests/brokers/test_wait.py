"""``apply --wait`` with real controllers: its end, messages and exceptions, and its limit on replicas in flight."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import count

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from support.cli.runs import RunResult, start_topiarist, without_notice
from support.kafka.jars import NEWEST
from support.kafka.kafka_fixture import KafkaFixture, KafkaFixtureFactory
from topiarist.errors import Exit

LIMIT = 300
"""Seconds for one run, which takes only a few."""

LONG_SESSIONS = {"zookeeper.session.timeout.ms": 60_000}
"""A session timeout longer than the test, so that suspended brokers stay registered."""

AHEAD = 60
"""Replicas per broker that may be in flight in the test of the limit."""

NUMBER = count()


def applied(bed: KafkaFixture, *words: str) -> RunResult:
    """Run ``apply --wait`` and return its result."""
    return told(begun(bed, *words))


def begun(bed: KafkaFixture, *words: str) -> subprocess.Popen[str]:
    """Start ``apply --wait``."""
    return start_topiarist("apply", bed.folder / "manifests", "--yes", "--wait", *words)


def told(running: subprocess.Popen[str]) -> RunResult:
    """Return the result of a run, with its output on one line."""
    out, err = running.communicate(timeout=LIMIT)
    return RunResult(running.returncode, " ".join(out.split()), without_notice(err))


def partitions(client: KazooClient, topic: str) -> dict[int, list[int]]:
    """Return the replica lists of a topic, by partition."""
    found = json.loads(client.get(f"/brokers/topics/{topic}")[0])["partitions"]
    return {int(number): replicas for number, replicas in found.items()}


def taken(client: KazooClient, topic: str) -> set[int]:
    """Return the initialized partitions, by their partition states."""
    where = f"/brokers/topics/{topic}/partitions"
    try:
        begun = client.get_children(where)
    except NoNodeError:
        return set()
    return {int(number) for number in begun if client.exists(f"{where}/{number}/state")}


def new_names(kind: str, number: int) -> list[str]:
    """Return names that no other test of the same cluster uses."""
    mine = next(NUMBER)
    return [f"waited-{mine}-{kind}-{one:03}" for one in range(number)]


def grown_later(bed: KafkaFixture, names: Collection[str], size: int) -> None:
    """Create topics of ``size`` partitions that grow later."""
    bed.declare({name: {"partitions": size, "replicationFactor": 3} for name in names})
    bed.apply("--wait")


def test_it_ends_when_every_partition_is_taken_over_and_still_there(bare: KafkaFixture) -> None:
    """At the end of a run each created or added partition has its state and is part of the topic, and the brokers then
    host all of them.

    The run reports the topics initialized by the controller, and does not call them usable.
    """
    grow, new = new_names("grow", 20), new_names("new", 40)
    grown_later(bare, grow, 2)
    bare.declare(
        {name: {"partitions": 6, "replicationFactor": 3} for name in grow}
        | {name: {"partitions": 12, "replicationFactor": 3} for name in new}
    )
    client = bare.kafka.client
    said = applied(bare)
    wanted = {name: set(range(6)) for name in grow} | {name: set(range(12)) for name in new}
    assert {name: taken(client, name) for name in wanted} == wanted
    assert {name: set(partitions(client, name)) for name in wanted} == wanted
    assert (said.code, said.err.splitlines()[-1]) == (Exit.DONE, "60 topics initialized by the controller")
    assert "Applied: 60 done." in said.out
    assert "usable" not in said.out + said.err
    found = bare.describe_in_sync(wanted)
    assert {name: {one.id for one in topic.partitions} for name, topic in found.items()} == wanted


def test_it_ends_in_time_when_the_controller_does_nothing(fresh: KafkaFixtureFactory) -> None:
    """With a suspended or missing controller the run ends as pending.

    It reports the number of uninitialized partitions and a missing controller. Once a controller works again it
    initializes the partitions, and a second run has nothing to do.
    """
    with fresh(NEWEST, {1: None, 2: None, 3: None}, properties=LONG_SESSIONS) as bed:
        grown_later(bed, ["grow"], 2)
        bed.declare({name: {"partitions": 5, "replicationFactor": 3} for name in ("grow", "new")})
        for broker in bed.kafka.racks:
            bed.kafka.pause(broker)
        said = applied(bed, "--wait-timeout", "2")
        assert (said.code, said.err) == (Exit.ERROR, waiting_for(2, 2))
        assert "Applied: 2 pending." in said.out
        for new in (3, 5):
            words = f"pending: the controller has not initialized {new} of {new} new partitions"
            assert words in said.out
            assert f"{words}; the cluster has no controller" not in said.out
        bed.declare({"late": {"partitions": 1, "replicationFactor": 3}})
        running = begun(bed, "--wait-timeout", "2")
        assert running.stderr is not None
        assert running.stderr.readline() == waiting_for(1, 2)
        bed.kafka.client.delete("/controller")
        said = told(running)
        assert said.code == Exit.ERROR
        assert "the controller has not initialized 1 of 1 new partition; the cluster has no controller" in said.out
        for broker in bed.kafka.racks:
            bed.kafka.resume(broker)
        wanted = {"grow": 5, "new": 5, "late": 1}
        assert {name: len(topic.partitions) for name, topic in bed.describe_grown(wanted).items()} == wanted
        bed.describe_in_sync(wanted)
        said = applied(bed)
        assert (said.code, said.err) == (Exit.DONE, "")


def waiting_for(topics: int, seconds: int) -> str:
    """Return the message of a run that begins to wait."""
    what = "1 topic" if topics == 1 else f"{topics} topics"
    return f"waiting for the controller to initialize {what}, at most {seconds} s without progress\n"


def test_what_only_dead_brokers_have_is_not_waited_for(bare: KafkaFixture) -> None:
    """The run does not wait for a partition on an offline broker and names it; the other partitions are initialized.

    The controller initializes the partition once the broker is back, and not before.
    """
    bed = bare
    client = bed.kafka.client
    controller = bed.kafka.controller()
    away = min(set(bed.kafka.racks) - {controller})
    bed.kafka.stop(away)
    bed.kafka.wait(lambda: away not in bed.kafka.registered(), "ZooKeeper to forget the broker")
    assert bed.kafka.controller() == controller
    bed.declare({"half": {"replicaAssignment": [[controller], [away], [controller]]}})
    said = applied(bed, "--allow-unknown-brokers")
    assert (said.code, taken(client, "half")) == (Exit.DONE, {0, 2}), said
    assert f"partition 1: not waited for, since broker {away} is not registered" in said.out
    bed.kafka.start(away)
    bed.kafka.wait(lambda: taken(client, "half") == {0, 1, 2}, "the controller to take the partition over")
    bed.describe_in_sync(["half"])


class Observer:
    """An observer with its own session, which counts the replicas in flight and never overestimates them.

    It reads topics before their states, so that partitions initialized in between do not count. ``most`` has, for each
    reading, the largest number of replicas in flight on any broker.
    """

    def __init__(self, connect: str, prefix: str) -> None:
        self.most: list[int] = []
        self._client = KazooClient(connect)
        self._prefix = prefix
        self._taken: set[tuple[str, str]] = set()

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Count repeatedly until the block ends."""
        over = threading.Event()
        failed: list[Exception] = []

        def look_on() -> None:
            try:
                while not over.is_set():
                    self.most.append(max(self.ahead().values(), default=0))
            except Exception as error:
                failed.append(error)

        self._client.start()
        thread = threading.Thread(target=look_on)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self._client.stop()
            self._client.close()
        assert not failed

    def ahead(self) -> Mapping[int, int]:
        """Return the replicas per broker of partitions without a state."""
        topics = [name for name in self._client.get_children("/brokers/topics") if name.startswith(self._prefix)]
        answers = [(name, self._client.get_async(f"/brokers/topics/{name}")) for name in topics]
        left = {
            (name, number): replicas
            for name, answer in answers
            for number, replicas in json.loads(answer.get()[0])["partitions"].items()
            if (name, number) not in self._taken
        }
        states = {
            (name, number): self._client.exists_async(f"/brokers/topics/{name}/partitions/{number}/state")
            for name, number in left
        }
        self._taken.update(partition for partition, state in states.items() if state.get())
        return Counter(broker for each, replicas in left.items() if each not in self._taken for broker in replicas)


def test_never_more_is_ahead_of_the_controller_than_was_said(bare: KafkaFixture) -> None:
    """Creation and growth of ten times the limit never exceed ``--max-inflight-replicas``.

    An independent observer counts; at the end no replica is in flight.
    """
    prefix = f"waited-{next(NUMBER)}"
    grow = [f"{prefix}-grow-{number:03}" for number in range(50)]
    new = [f"{prefix}-new-{number:03}" for number in range(110)]
    grown_later(bare, grow, 1)
    bare.declare({name: {"partitions": 5, "replicationFactor": 3} for name in [*grow, *new]})
    observer = Observer(bare.kafka.connect, prefix)
    with observer.looking():
        said = applied(bare, "--max-inflight-replicas", str(AHEAD))
        left = observer.ahead()
    assert said.code == Exit.DONE
    held = (
        f"throttled: the controller has to initialize earlier partitions first, {AHEAD} replicas per broker at a time\n"
    )
    assert said.err.startswith(held)
    assert said.err.endswith("160 topics initialized by the controller\n")
    assert 0 < max(observer.most) <= AHEAD
    assert not left
