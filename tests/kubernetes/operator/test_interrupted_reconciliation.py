"""F32: interruptions in the middle of a pass: deletion of a resource, and a request to the operator to end."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import NamedTuple

from integration.write_fixtures import InterceptingProxy, lock_nodes_at
from kubernetes.fixtures.fault_fixture import FaultFixture, assert_healthy, counted_topics
from kubernetes.fixtures.operator_fixture import OPERATOR_TIMEOUT_S, OperatorFixture
from support.cli import forked_runs
from support.kubernetes.relay import ApiRelay, Event, WriteRequest
from support.waiting import wait_until

NAMES = ("a", "b", "c", "d", "e")


class Witness:
    """A recorder of deletions that the operator has received, which runs one script in the middle of a pass."""

    def __init__(self) -> None:
        self.deleted: set[str] = set()
        self.name = ""
        self._script: Callable[[], None] | None = None

    def watched(self, event: Event) -> bool:
        """Record a deletion; forward every event."""
        if event["type"] == "DELETED":
            self.deleted.add(event["object"]["metadata"]["uid"])
        return True

    def next(self, script: Callable[[], None], name: str = "") -> None:
        """Set the script to run once: in the pass of the Topic of this name."""
        self._script, self.name = script, name

    @property
    def waits(self) -> bool:
        """Return True if the script has not run yet."""
        return self._script is not None

    def act(self) -> bool:
        """Run the script if it has not run; return True, so that the request is forwarded."""
        script, self._script = self._script, None
        if script:
            script()
        return True


class Struck(NamedTuple):
    """A fixture that deletes Topics in the middle of a pass."""

    scene: OperatorFixture
    witness: Witness

    def gone(self, name: str) -> None:
        """Delete a Topic, and wait until the operator has received the deletion."""
        uid = self.scene.get_topic(name)["metadata"]["uid"]
        self.scene.delete_topic(name)
        wait_until(lambda: uid in self.witness.deleted, f"{name}: its deletion is told", timeout=OPERATOR_TIMEOUT_S)

    def declare(self, name: str, again: bool = False) -> None:
        """Declare a Topic that is deleted in the middle of the pass that creates its topic."""

        def script() -> None:
            self.gone(name)
            if again:
                self.scene.declare_topic(name)

        self.witness.next(script, name)
        self.scene.declare_topic(name)
        wait_until(lambda: not self.witness.waits, f"{name} is met in mid-pass", timeout=OPERATOR_TIMEOUT_S)


def test_f32_a_resource_goes_in_mid_pass(stage: FaultFixture, namespace: str) -> None:
    """A Topic is deleted between reading and applying, before its status is written (also if another of its name is
    created), and before the answer arrives: its topic is created once and stays, no error is reported, and the resource
    stays deleted.
    """
    relay, proxy = stage.stack.enter_context(ApiRelay(stage.server)), InterceptingProxy(stage.zookeeper.connect)
    stage.stack.enter_context(proxy)
    scene, witness = stage.make_fixture(namespace), Witness()
    struck = Struck(scene, witness)
    relay.on_watch_event = witness.watched
    scene.declare_cluster(zookeeper={"connect": proxy.through(scene.kafka.connect)})
    operator = stage.start_operator(namespace, through=relay.api)

    def status(_number: int, asked: WriteRequest) -> bool:
        return not asked.path.endswith(f"/topics/{witness.name}/status") or witness.act()

    proxy.may_forward = lambda kind: kind != "multi" or witness.act()
    struck.declare("a")
    proxy.may_forward = lambda kind: True
    relay.before_write(status)
    struck.declare("b")
    struck.declare("c", again=True)
    scene.wait_until_ready("c")
    relay.before_write(lambda number, asked: True)
    relay.after_write(status)
    struck.declare("d")
    scene.declare_topic("e")
    scene.wait_until_ready("c", "e")
    wait_until(lambda: counted_topics(scene) == 2, "only these are counted", timeout=OPERATOR_TIMEOUT_S)
    assert [scene.partition_count(name) for name in NAMES] == [3] * len(NAMES)
    assert {scene.client.get(f"/topiarist/topics/{name}")[1].version for name in NAMES} == {0}
    assert "could not be written" not in operator.log
    assert_healthy(operator)


def test_f32_asked_to_end_in_mid_pass(stage: FaultFixture, namespace: str) -> None:
    """SIGTERM during a pass: transactions in flight finish and are reported; the next operator does the rest."""
    proxy = stage.stack.enter_context(InterceptingProxy(stage.zookeeper.connect))
    scene, witness = stage.make_fixture(namespace), Witness()
    scene.declare_cluster(zookeeper={"connect": proxy.through(scene.kafka.connect)})
    operator = stage.start_operator(namespace)
    witness.next(lambda: operator.send(signal.SIGTERM))
    proxy.may_forward = lambda kind: kind != "multi" or witness.act()
    for name in NAMES:
        scene.declare_topic(name)
    assert forked_runs.wait_for_exit_code(operator.process) == 0, operator.log
    assert "Traceback" not in operator.log, operator.log
    assert not witness.waits
    done = [name for name in NAMES if scene.partition_count(name)]
    assert done
    states = [on["state"] for name in done for on in scene.get_topic(name)["status"]["clusters"]]
    assert {*states} <= {"Changed", "Synced"}
    assert lock_nodes_at(scene.kafka.connect) == []
    operator.start()
    scene.wait_until_ready(*NAMES)
    assert {scene.client.get(f"/topiarist/topics/{name}")[1].version for name in NAMES} == {0}
    assert_healthy(operator)


def test_a_deletion_is_seen_through(stage: FaultFixture, namespace: str) -> None:
    """The operator removes the finalizer as soon as Kafka has deleted the topic, without waiting for the next periodic
    pass.
    """
    scene = stage.make_fixture(namespace)
    scene.declare_cluster(allowDeletion=True)
    operator = stage.start_operator(namespace, "--period", str(10 * OPERATOR_TIMEOUT_S))
    scene.declare_topic("orders", deletionPolicy="Delete")
    scene.wait_until_ready("orders")
    wait_until(lambda: "finalizers" in scene.get_topic("orders")["metadata"], "a finalizer", timeout=OPERATOR_TIMEOUT_S)
    with scene.kafka.pause_controller():
        scene.delete_topic("orders")
        wait_until(lambda: scene.client.exists("/admin/delete_topics/orders"), "the mark", timeout=OPERATOR_TIMEOUT_S)
        scene.wait_for_conditions("orders", Reconciling=("True", "Waiting"))
    wait_until(lambda: not scene.get_topic("orders"), "the resource has gone", timeout=OPERATOR_TIMEOUT_S)
    assert scene.partition_count("orders") == 0
    assert_healthy(operator)
