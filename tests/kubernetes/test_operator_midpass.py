"""F32: what happens in the middle of a pass: a resource goes, or the operator is asked to end."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import NamedTuple

from integration.scene import Meddler, locks_of
from kubernetes.scene import PATIENCE, Scene
from kubernetes.stage import Stage, total, well
from support import forks
from support.kuberelay import ApiRelay, Asked, Event
from support.waiting import wait_until

NAMES = ("a", "b", "c", "d", "e")


class Witness:
    """Hears which Topics' deletion the operator has been told of, and does something once, in the middle of a pass."""

    def __init__(self) -> None:
        self.deleted: set[str] = set()
        self._script: Callable[[], None] | None = None

    def watched(self, event: Event) -> bool:
        """Every event goes on."""
        if event["type"] == "DELETED":
            self.deleted.add(event["object"]["metadata"]["uid"])
        return True

    def next(self, script: Callable[[], None]) -> None:
        """What is to be done, once."""
        self._script = script

    @property
    def waits(self) -> bool:
        """Whether it has not been done yet."""
        return self._script is not None

    def act(self) -> bool:
        """Do it, if it was not done; everything goes on."""
        script, self._script = self._script, None
        if script:
            script()
        return True


class Struck(NamedTuple):
    """Two ways to meet a pass in its middle."""

    scene: Scene
    witness: Witness

    def gone(self, name: str) -> None:
        """Delete a Topic, and wait until the operator has been told."""
        uid = self.scene.found(name)["metadata"]["uid"]
        self.scene.delete(name)
        wait_until(lambda: uid in self.witness.deleted, f"{name}: its deletion is told", patience=PATIENCE)

    def declare(self, name: str, again: bool = False) -> None:
        """Declare a Topic that is deleted in the middle of the pass that makes its topic."""

        def script() -> None:
            self.gone(name)
            if again:
                self.scene.topic(name)

        self.witness.next(script)
        self.scene.topic(name)
        wait_until(lambda: not self.witness.waits, f"{name} is met in mid-pass", patience=PATIENCE)


def test_f32_a_resource_goes_in_mid_pass(stage: Stage, namespace: str) -> None:
    """A Topic goes between reading and applying; before its status is written, also if another of its name comes; and
    before the answer comes back: its topic is made once and stays, nobody hears of an error, and the resource stays
    away.
    """
    relay, proxy = stage.stack.enter_context(ApiRelay(stage.server)), Meddler(stage.zookeeper.connect)
    stage.stack.enter_context(proxy)
    scene, witness = stage.scene(namespace), Witness()
    struck = Struck(scene, witness)
    relay.watched = witness.watched
    scene.cluster(zookeeper={"connect": proxy.through(scene.kafka.connect)})
    operator = stage.operator(namespace, through=relay.api)

    def status(_number: int, asked: Asked) -> bool:
        return asked.kind != "topics/status" or witness.act()

    proxy.before = lambda kind: kind != "multi" or witness.act()
    struck.declare("a")
    proxy.before = lambda kind: True
    relay.before(status)
    struck.declare("b")
    struck.declare("c", again=True)
    scene.until_ready("c")
    relay.before(lambda number, asked: True)
    relay.after(status)
    struck.declare("d")
    scene.topic("e")
    scene.until_ready("c", "e")
    wait_until(lambda: total(scene) == 2, "only these are counted", patience=PATIENCE)
    assert [scene.partitions(name) for name in NAMES] == [3] * len(NAMES)
    assert {scene.client.get(f"/topiarist/topics/{name}")[1].version for name in NAMES} == {0}
    assert "could not be written" not in operator.log
    well(operator)


def test_f32_asked_to_end_in_mid_pass(stage: Stage, namespace: str) -> None:
    """Asked to end in the middle of a pass: what is under way is finished, and told; the next one does the rest."""
    proxy = stage.stack.enter_context(Meddler(stage.zookeeper.connect))
    scene, witness = stage.scene(namespace), Witness()
    scene.cluster(zookeeper={"connect": proxy.through(scene.kafka.connect)})
    operator = stage.operator(namespace)
    witness.next(lambda: operator.send(signal.SIGTERM))
    proxy.before = lambda kind: kind != "multi" or witness.act()
    for name in NAMES:
        scene.topic(name)
    assert forks.ended(operator.process) == 0, operator.log
    assert "Traceback" not in operator.log, operator.log
    assert not witness.waits
    done = [name for name in NAMES if scene.partitions(name)]
    assert done
    states = [on["state"] for name in done for on in scene.found(name)["status"]["clusters"]]
    assert {*states} <= {"Changed", "InStep"}
    assert locks_of(scene.kafka.connect) == []
    operator.start()
    scene.until_ready(*NAMES)
    assert {scene.client.get(f"/topiarist/topics/{name}")[1].version for name in NAMES} == {0}
    well(operator)


def test_a_deletion_is_seen_through(stage: Stage, namespace: str) -> None:
    """The resource goes as soon as its topic has gone: nobody waits for the next pass that comes by itself."""
    scene = stage.scene(namespace)
    scene.cluster(allowDeletion=True)
    operator = stage.operator(namespace, "--period", str(10 * PATIENCE))
    scene.topic("orders", deletionPolicy="Delete")
    scene.until_ready("orders")
    wait_until(lambda: "finalizers" in scene.found("orders")["metadata"], "a finalizer", patience=PATIENCE)
    with scene.kafka.held():
        scene.delete("orders")
        wait_until(lambda: scene.client.exists("/admin/delete_topics/orders"), "the mark", patience=PATIENCE)
        scene.until("orders", Reconciling=("True", "Waiting"))
    wait_until(lambda: not scene.found("orders"), "the resource has gone", patience=PATIENCE)
    assert scene.partitions("orders") == 0
    well(operator)
