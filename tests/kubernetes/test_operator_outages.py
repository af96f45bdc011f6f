"""F32: the API server is away, ZooKeeper is away, a watch has a gap: nothing is lost, and all is caught up with.

Most of that is to wait until a request or a session is given up: all three happen at the same time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

import pytest

from kubernetes.resources import cluster
from kubernetes.scene import PATIENCE, Scene
from kubernetes.stage import Stage, condition, total, well
from support.gate import Gate
from support.kube import ApiServer
from support.kubeapi import Api, Site
from support.kuberelay import ApiRelay, Event
from support.operatorforks import ForkedOperator
from support.proxy import Proxy, When
from support.waiting import wait_until
from topiarist.adapters import znodes
from topiarist.adapters.embedded import EmbeddedZooKeeper

LONG = 60.0
"""Seconds that the API server, or ZooKeeper, is away at least: longer than what any single request waits."""

UNWRITTEN = "could not be written: no answer from the API server"


class Cut(NamedTuple):
    """A scene whose operator has lost the API server."""

    scene: Scene
    gate: Gate
    operator: ForkedOperator

    def settle(self) -> None:
        """Make topics, one of which goes with its resource."""
        self.scene.cluster(allowDeletion=True, driftPolicy="Correct")
        self.scene.topic("orders", config={"flush.ms": 7})
        self.scene.topic("leave", deletionPolicy="Delete")
        self.scene.until_ready("orders", "leave")
        wait_until(lambda: "finalizers" in self.scene.found("leave")["metadata"], "a finalizer", patience=PATIENCE)

    def meanwhile(self) -> None:
        """What happens while it is away, on both sides."""
        self.scene.topic("later")
        self.scene.delete("leave")
        self.scene.client.set("/config/topics/orders", znodes.encode_config({"flush.ms": "9"}))

    def goes_on(self) -> None:
        """What the operator knows it still does; that it cannot tell is said, and no reason to end."""
        mended = lambda: self.scene.config("orders")["flush.ms"] == "7"  # noqa: E731
        wait_until(mended, "the value is back", patience=PATIENCE)
        wait_until(lambda: UNWRITTEN in self.operator.log, "its request has been given up", patience=PATIENCE)
        assert self.scene.partitions("later") == 0
        assert self.scene.partitions("leave") == 3
        assert "Request attempt" not in self.operator.log
        assert len(self.operator.heard("the API server cannot be watched: this is tried again until it can")) <= 2
        well(self.operator)

    def catches_up(self) -> None:
        """By itself."""
        self.scene.until_ready("orders", "later")
        wait_until(lambda: not self.scene.found("leave"), "the resource has gone", patience=PATIENCE)
        assert self.scene.partitions("leave") == 0
        well(self.operator)


def lasted(begun: float) -> None:
    """Return once an outage has been as long as it is to be."""
    wait_until(lambda: time.monotonic() - begun >= LONG, "the outage is over", patience=2 * LONG, pause=0.1)


def by(stage: Stage, gate: Gate, token: str, namespace: str) -> Api:
    """A client of the API server whose way leads through a gate."""
    site = Site(f"https://127.0.0.1:{gate.port}", stage.server.ca, stage.server.folder / "bin" / "kubectl")
    return Api(site, token, stage.folder / f"kubeconfig-{namespace}", namespace)


def api_server_is_away(stage: Stage, namespace: str) -> None:
    """Two operators, of which one is refused and the other is not answered."""
    cuts = []
    for way in ("bang", "silence"):
        gate = stage.stack.enter_context(Gate(("127.0.0.1", int(stage.server.url.rpartition(":")[2]))))
        scene = stage.scene(f"{namespace}-{way}")
        cuts.append(Cut(scene, gate, stage.operator(scene.namespace, through=partial(by, stage, gate))))
    for cut in cuts:
        cut.settle()
    begun = time.monotonic()
    cuts[0].gate.shut()
    cuts[1].gate.hush()
    for cut in cuts:
        cut.meanwhile()
    for cut in reversed(cuts):
        cut.goes_on()
    lasted(begun)
    for cut in cuts:
        cut.gate.open()
    for cut in cuts:
        cut.catches_up()


def zookeeper_is_away(stage: Stage, namespace: str) -> None:
    """Of three clusters: ``idle`` has nothing to do when it goes, ``busy`` goes in the middle of an apply."""
    scenes = {name: stage.scene(namespace, f"{namespace}-{name}") for name in ("idle", "busy", "other")}
    proxies = {name: stage.stack.enter_context(Proxy(stage.zookeeper.connect)) for name in scenes}
    scene, busy = scenes["idle"], scenes["busy"]
    for name, each in scenes.items():
        connect = proxies[name].through(each.kafka.connect)
        scene.apply(cluster(name, zookeeper={"connect": connect}, kafkaVersion="3.9"))
    operator = stage.operator(namespace)
    topics = {"orders": "idle", "clicks": "idle", "views": "busy"}
    for name, where in topics.items():
        scene.topic(name, clusters=[where])
    scene.until_ready(*topics)
    proxies["busy"].reset()
    versions = [scene.found(name)["metadata"]["resourceVersion"] for name in ("orders", "views")]
    proxies["busy"].cut(2, When.AFTER, refuse=True)  # the lock, then the transaction
    scene.topic("late", clusters=["busy"])
    wait_until(proxies["busy"].fired.is_set, "an apply is broken", patience=PATIENCE)
    begun = time.monotonic()
    proxies["idle"].refusing = True
    proxies["idle"].drop()
    for name in ("idle", "busy"):
        until_cluster(scene, name, "False", "Unreachable")
    scene.topic("clicks", clusters=["idle"], config={"flush.ms": 7})
    scene.topic("latest", clusters=["busy"])
    for name in ("clicks", "latest"):
        scene.until(name, Reconciling=("True", "Unreachable"))
    scene.topic("others", clusters=["other"])
    scene.until_ready("others")
    until_cluster(scene, "other", "True", "Reachable")
    assert [scene.events(name) for name in ("idle", "busy", "other")] == [["ZooKeeperUnavailable"]] * 2 + [[]]
    well(operator)
    lasted(begun)
    for name in ("idle", "busy"):
        proxies[name].reset()
    scene.until_ready(*topics, "late", "latest")
    for name in ("idle", "busy"):
        until_cluster(scene, name, "True", "Reachable")
        wait_until(lambda: len(scene.events(name)) == 2, f"{name}: an Event", patience=PATIENCE)  # noqa: B023
        assert scene.events(name) == ["ZooKeeperUnavailable", "Reachable"]
    assert [scene.found(name)["metadata"]["resourceVersion"] for name in ("orders", "views")] == versions
    for name in ("late", "latest"):
        assert busy.client.get(f"/topiarist/topics/{name}")[1].version == 0
    well(operator)


def until_cluster(scene: Scene, name: str, *wanted: str) -> None:
    """Wait until a Cluster is ready, or not, for this reason."""
    wait_until(lambda: condition(scene, name) == wanted, f"{name}: {wanted}", patience=PATIENCE)


def watch_misses_something(stage: Stage, namespace: str) -> None:
    """Two deletions, and then another, of which a change is told when it has gone already."""
    relay = stage.stack.enter_context(ApiRelay(stage.server))
    scene = stage.scene(namespace)
    operator = stage.operator(namespace, "--relist", "2", through=relay.api)
    scene.cluster(allowDeletion=True)
    for name, policy in (("gone", "Retain"), ("leave", "Delete"), ("late", "Retain")):
        scene.topic(name, deletionPolicy=policy)
    scene.until_ready("gone", "leave", "late")
    wait_until(lambda: "finalizers" in scene.found("leave")["metadata"], "a finalizer", patience=PATIENCE)
    wait_until(lambda: total(scene) == 3, "all are counted", patience=PATIENCE)
    held, release = threading.Event(), threading.Event()
    relay.watched = gap(held, release)
    scene.delete("gone")
    scene.delete("leave")
    wait_until(lambda: not scene.found("leave"), "a finalizer has gone", patience=PATIENCE)
    wait_until(lambda: total(scene) == 1, "both are missed", patience=PATIENCE)
    scene.topic("late", config={"flush.ms": 9})
    wait_until(held.is_set, "an event is held up", patience=PATIENCE)
    scene.delete("late")
    wait_until(lambda: total(scene) == 0, "it is missed", patience=PATIENCE)
    before = len(relay.writes)
    release.set()
    scene.topic("after")  # its event comes after the late one
    scene.until_ready("after")
    wait_until(lambda: total(scene) == 1, "it is counted", patience=PATIENCE)
    assert not [asked for asked in relay.writes[before:] if "/topics/late/" in asked.path]
    assert {name: scene.partitions(name) for name in ("gone", "leave", "late")} == {"gone": 3, "leave": 0, "late": 3}
    well(operator)


def gap(held: threading.Event, release: threading.Event) -> Callable[[Event], bool]:
    """Lose all events about Topics of these names, but for one, which comes late."""

    def watched(event: Event) -> bool:
        metadata = event["object"]["metadata"]
        if metadata.get("name") == "late" and event["type"] == "MODIFIED" and metadata["generation"] == 2:
            held.set()
            return release.wait(PATIENCE)
        return metadata.get("name") not in ("gone", "leave", "late")

    return watched


Story = Callable[[Stage, str], None]

STORIES: Mapping[str, Story] = {
    "api": api_server_is_away,
    "zookeeper": zookeeper_is_away,
    "watch": watch_misses_something,
}


@pytest.fixture(scope="module")
def told(
    server: ApiServer, zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Future[None]]]:
    """How each of the three ended."""

    def tell(story: Story, name: str) -> None:
        with ExitStack() as stack:
            story(Stage(server, zookeeper, stack, tmp_path_factory.mktemp(name)), f"outage-{name}")

    with ThreadPoolExecutor(len(STORIES)) as pool:
        yield {name: pool.submit(tell, story, name) for name, story in STORIES.items()}


def test_f32_the_api_server_is_away(told: Mapping[str, Future[None]]) -> None:
    """No API server, once with a bang, once in silence, for longer than any request waits (30 s): it is given up, not
    waited for, and what is known is still done; afterwards all is caught up with.
    """
    told["api"].result()


def test_f32_zookeeper_is_away(told: Mapping[str, Future[None]]) -> None:
    """No ZooKeeper, while there is nothing to do and in the middle of an apply: what is known stays, what is asked for
    waits and says so, a cluster says it once, and another cluster goes on.
    """
    told["zookeeper"].result()


def test_f32_a_watch_misses_something(told: Mapping[str, Future[None]]) -> None:
    """A watch has gaps: a deletion of which no event comes is seen by listing; an event that comes late brings nothing
    back.
    """
    told["watch"].result()
