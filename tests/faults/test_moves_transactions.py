"""M1 and M2: a batch as one transaction, each operation of it in turn, and a throttle that is replaced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from msgspec.structs import replace

from faults.conftest import FaultStatistics
from integration.write_fixtures import InterceptingProxy
from support.zookeeper import moves as scene
from support.zookeeper.moves import MovingCluster, moving_cluster
from support.zookeeper.proxy import CutTiming, Proxy
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.moves import batch_writer
from topiarist.adapters.zookeeper.moves.batch_writer import build_batch_operations
from topiarist.adapters.zookeeper.write.transaction import Operation, OperationType
from topiarist.errors import Reason
from topiarist.model.moves import MoveProgress
from topiarist.model.outcome import Result

pytestmark = [pytest.mark.core, pytest.mark.timeout(300)]

DRAINED = Topic("orders", ((6, 1), (2, 6)), {"retention.ms": "7"})
SPEC = scene.topic(partitions=2, replicationFactor=2)
STILL = replace(scene.DRAINING, drain_brokers=frozenset())


@contextmanager
def sabotage(kafka: MovingCluster, operation: Operation) -> Iterator[None]:
    """Make one operation of a transaction fail, while the controller does nothing; undo it at the end."""
    client, path = kafka.client, operation.path
    with kafka.kafka.pause_controller():
        if operation.sequential:
            parent = path.rpartition("/")[0]
            client.delete(parent, recursive=True)
            yield
            client.create(parent, None)
        elif operation.type is OperationType.CREATE:
            client.create(path, b'{"version":1,"config":{}}' if path.startswith("/config/") else operation.data)
            yield
            client.delete(path)
        elif operation.version == -1:
            data, stat = client.get(path)
            client.delete(path)
            yield
            if "/lock/" not in path:
                client.create(path, data, ephemeral=bool(stat.ephemeralOwner))
        else:
            client.set(path, client.get(path)[0])
            yield


class Saboteur:
    """Makes one operation of the first batch fail; ``left`` is what the transaction left behind.

    ``operations`` are those of the batch that was built last.
    """

    def __init__(self, kafka: MovingCluster, index: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
        self.operations: list[Operation] = []
        self.left: list[str] | None = None
        self._kafka = kafka
        self._index = index
        self._undo: ExitStack | None = None
        monkeypatch.setattr(batch_writer, "build_batch_operations", self._build)

    def _build(self, *arguments: object) -> list[Operation]:
        self.operations = build_batch_operations(*arguments)  # type: ignore[arg-type]
        return list(self.operations)

    def may_forward(self, kind: str) -> bool:
        """Act before the first batch is forwarded, and before the request after it."""
        # The first multi of the run adopts the topic, before a batch is built.
        if kind == "multi" and self.operations and self._index is not None and self._undo is None:
            self._undo = ExitStack()
            self._undo.enter_context(sabotage(self._kafka, self.operations[self._index]))
        elif kind != "multi" and self._undo and self.left is None:
            self.left = [path for path in self._kafka.leftovers() if path not in self._own_paths()]
            self._undo.close()
        return True

    def _own_paths(self) -> set[str]:
        """Return the paths of the sabotage and of the lock of the run."""
        assert self._index is not None
        return {self.operations[self._index].path, self.operations[0].path}


def test_m01_each_operation_of_a_batch_fails(
    zookeeper: EmbeddedZooKeeper, meddler: InterceptingProxy, monkeypatch: pytest.MonkeyPatch, tally: FaultStatistics
) -> None:
    """Nothing of the transaction is there: no request, no record, no throttle; the run reads again and ends normally.

    Each znode that the transaction checks, sets or creates is changed, deleted or created directly before.
    """

    def run(index: int | None) -> Saboteur:
        with moving_cluster(zookeeper.connect, DRAINED) as kafka:
            saboteur = Saboteur(kafka, index, monkeypatch)
            kafka.set_config("brokers/1", {"log.cleaner.threads": "2"})
            plan = kafka.plan(SPEC)
            meddler.may_forward = saboteur.may_forward
            report = kafka.apply(plan, connect=meddler.through(kafka.kafka.connect))
            meddler.may_forward = lambda kind: True
            assert (report.error, scene.outcome_of(report).result) == (None, Result.DONE), (index, report)
            assert kafka.problems(plan) == []
            assert kafka.read("/config/brokers/1")["config"] == {"log.cleaner.threads": "2"}
            return saboteur

    operations = run(None).operations
    # The deletion of a znode that the same transaction created cannot fail.
    fallible = [index for index, each in enumerate(operations) if each.type is not OperationType.DELETE]
    assert len(operations) - len(fallible) == 1
    for index in fallible:
        assert run(index).left == [], operations[index]
    tally.set_cases(len(fallible))


@pytest.mark.parametrize("timing", list(CutTiming), ids=lambda timing: timing.value)
def test_m02_cut_at_another_throttle(zookeeper: EmbeddedZooKeeper, proxy: Proxy, timing: CutTiming) -> None:
    """The transaction that gives a batch under way another rate is applied once, and its values are put back."""
    with moving_cluster(zookeeper.connect, DRAINED) as kafka:
        plan = kafka.plan(SPEC)
        kafka.lag()
        assert kafka.apply(plan, wait=False).error is None
        proxy.reset()
        proxy.cut(2, timing)  # the first write is that of the lock
        faster = replace(scene.SETTINGS, throttle=5_000_000)
        seen: set[str] = set()

        def on_progress(_: MoveProgress) -> None:
            seen.update(*(config.values() for config in kafka.throttles().values()))
            kafka.catch_up()

        connect = proxy.through(kafka.kafka.connect)
        report = kafka.apply(plan, settings=faster, connect=connect, on_progress=on_progress)
        assert proxy.triggered.is_set()
        assert report.error is None
        assert "5000000" in seen
        assert kafka.problems(plan) == []


@pytest.mark.parametrize("timing", list(CutTiming), ids=lambda timing: timing.value)
@pytest.mark.parametrize("write", [2, 5], ids=["batch", "end"])
def test_m02_cut_at_the_batch_and_at_the_end(
    zookeeper: EmbeddedZooKeeper, proxy: Proxy, write: int, timing: CutTiming
) -> None:
    """The writes of a run with one batch are lock, batch, lock, lock, end, lock: each transaction is applied once."""
    with moving_cluster(zookeeper.connect, DRAINED) as kafka:
        adopt(kafka)
        plan = kafka.plan(SPEC)
        proxy.reset()
        proxy.cut(write, timing)
        report = kafka.apply(plan, connect=proxy.through(kafka.kafka.connect))
        assert proxy.triggered.is_set()
        assert (report.error, scene.outcome_of(report).result) == (None, Result.DONE)
        assert kafka.problems(plan) == []


@pytest.mark.parametrize("other", [False, True], ids=["equal", "other"])
def test_m02_an_earlier_record_is_no_reply(zookeeper: EmbeddedZooKeeper, proxy: Proxy, other: bool) -> None:
    """The record of a batch that was dropped has the same bytes, and another client's record the same version: neither
    shows that the batch was applied, and it is sent again.
    """
    with moving_cluster(zookeeper.connect, DRAINED) as kafka:
        adopt(kafka)
        plan = kafka.plan(SPEC)
        kafka.kafka.moves_replicas = False
        assert kafka.apply(plan, wait=False).error is None
        kafka.client.delete(scene.REQUEST)
        kafka.kafka.moves_replicas = True
        kafka.kafka.wait_idle()

        def write_record() -> None:
            if other:
                kafka.change(scene.RECORD, owner="other")

        proxy.reset()
        proxy.cut(2, CutTiming.BEFORE, action=write_record)
        report = kafka.apply(plan, connect=proxy.through(kafka.kafka.connect))
        assert proxy.triggered.is_set()
        assert (report.error, scene.outcome_of(report).result) == (None, Result.DONE)
        assert kafka.problems(plan) == []


def adopt(kafka: MovingCluster) -> None:
    """Give the topic its ownership record, so that the next run begins with a batch."""
    assert kafka.apply(kafka.plan(scene.topic(partitions=2, replicationFactor=2, on=STILL), on=STILL)).error is None


@pytest.mark.parametrize("timing", list(CutTiming), ids=lambda timing: timing.value)
def test_m02_the_session_ends_before_the_reply(zookeeper: EmbeddedZooKeeper, proxy: Proxy, timing: CutTiming) -> None:
    """The outcome is unknown, and named so; the next run finds out, and copies each replica once."""
    with moving_cluster(zookeeper.connect, DRAINED) as kafka:
        adopt(kafka)
        plan = kafka.plan(SPEC)
        proxy.reset()
        proxy.cut(2, timing, refuse=True)  # the first write is that of the lock
        report = kafka.apply(plan, connect=proxy.through(kafka.kafka.connect))
        assert report.error is not None
        assert report.error.reason is Reason.SESSION_LOST
        assert scene.outcome_of(report).result is Result.UNKNOWN
        proxy.reset()
        assert scene.outcome_of(kafka.apply(plan)).result in (Result.DONE, Result.UNCHANGED)
        assert kafka.problems(plan) == []
