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

from kubernetes.fixtures.fault_fixture import FaultFixture, assert_healthy, cluster_condition, counted_topics
from kubernetes.fixtures.operator_fixture import OPERATOR_TIMEOUT_S, OperatorFixture
from kubernetes.fixtures.resources import cluster
from support.kubernetes.api_client import ApiClient, ApiEndpoint
from support.kubernetes.forked_operators import ForkedOperator
from support.kubernetes.relay import ApiRelay, Event
from support.kubernetes.server import ApiServer
from support.network.switchable_relay import SwitchableRelay
from support.waiting import wait_until
from support.zookeeper.proxy import CutTiming, Proxy
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.codec import configs

LONG = 60.0
"""Seconds that the API server, or ZooKeeper, is away at least: longer than what any single request waits."""

UNWRITTEN = "could not be written: no answer from the API server"


class Cut(NamedTuple):
    """A scene whose operator has lost the API server."""

    scene: OperatorFixture
    gate: SwitchableRelay
    operator: ForkedOperator

    def settle(self) -> None:
        """Make topics, one of which goes with its resource."""
        self.scene.declare_cluster(allowDeletion=True, driftPolicy="Correct")
        self.scene.declare_topic("orders", config={"flush.ms": 7})
        self.scene.declare_topic("leave", deletionPolicy="Delete")
        self.scene.wait_until_ready("orders", "leave")
        wait_until(
            lambda: "finalizers" in self.scene.get_topic("leave")["metadata"], "a finalizer", timeout=OPERATOR_TIMEOUT_S
        )

    def meanwhile(self) -> None:
        """What happens while it is away, on both sides."""
        self.scene.declare_topic("later")
        self.scene.delete_topic("leave")
        self.scene.client.set("/config/topics/orders", configs.encode_config({"flush.ms": "9"}))

    def goes_on(self) -> None:
        """What the operator knows it still does; that it cannot tell is said, and no reason to end."""
        mended = lambda: self.scene.topic_config("orders")["flush.ms"] == "7"  # noqa: E731
        wait_until(mended, "the value is back", timeout=OPERATOR_TIMEOUT_S)
        wait_until(lambda: UNWRITTEN in self.operator.log, "its request has been given up", timeout=OPERATOR_TIMEOUT_S)
        assert self.scene.partition_count("later") == 0
        assert self.scene.partition_count("leave") == 3
        assert "Request attempt" not in self.operator.log
        assert len(self.operator.log_entries("the API server cannot be watched: this is tried again until it can")) <= 2
        assert_healthy(self.operator)

    def catches_up(self) -> None:
        """By itself."""
        self.scene.wait_until_ready("orders", "later")
        wait_until(lambda: not self.scene.get_topic("leave"), "the resource has gone", timeout=OPERATOR_TIMEOUT_S)
        assert self.scene.partition_count("leave") == 0
        assert_healthy(self.operator)


def lasted(begun: float) -> None:
    """Return once an outage has been as long as it is to be."""
    wait_until(lambda: time.monotonic() - begun >= LONG, "the outage is over", timeout=2 * LONG, interval=0.1)


def by(stage: FaultFixture, gate: SwitchableRelay, token: str, namespace: str) -> ApiClient:
    """A client of the API server whose way leads through a gate."""
    site = ApiEndpoint(f"https://127.0.0.1:{gate.port}", stage.server.ca, stage.server.folder / "bin" / "kubectl")
    return ApiClient(site, token, stage.folder / f"kubeconfig-{namespace}", namespace)


def api_server_is_away(stage: FaultFixture, namespace: str) -> None:
    """Two operators, of which one is refused and the other is not answered."""
    cuts = []
    for way in ("bang", "silence"):
        gate = stage.stack.enter_context(SwitchableRelay(("127.0.0.1", int(stage.server.url.rpartition(":")[2]))))
        scene = stage.make_fixture(f"{namespace}-{way}")
        cuts.append(Cut(scene, gate, stage.start_operator(scene.namespace, through=partial(by, stage, gate))))
    for cut in cuts:
        cut.settle()
    begun = time.monotonic()
    cuts[0].gate.refuse_connections()
    cuts[1].gate.blackhole()
    for cut in cuts:
        cut.meanwhile()
    for cut in reversed(cuts):
        cut.goes_on()
    lasted(begun)
    for cut in cuts:
        cut.gate.restore()
    for cut in cuts:
        cut.catches_up()


def zookeeper_is_away(stage: FaultFixture, namespace: str) -> None:
    """Of three clusters: ``idle`` has nothing to do when it goes, ``busy`` goes in the middle of an apply."""
    scenes = {name: stage.make_fixture(namespace, f"{namespace}-{name}") for name in ("idle", "busy", "other")}
    proxies = {name: stage.stack.enter_context(Proxy(stage.zookeeper.connect)) for name in scenes}
    scene, busy = scenes["idle"], scenes["busy"]
    for name, each in scenes.items():
        connect = proxies[name].through(each.kafka.connect)
        scene.apply(cluster(name, zookeeper={"connect": connect}, kafkaVersion="3.9"))
    operator = stage.start_operator(namespace)
    topics = {"orders": "idle", "clicks": "idle", "views": "busy"}
    for name, where in topics.items():
        scene.declare_topic(name, clusters=[where])
    scene.wait_until_ready(*topics)
    proxies["busy"].reset()
    versions = [scene.get_topic(name)["metadata"]["resourceVersion"] for name in ("orders", "views")]
    proxies["busy"].cut(2, CutTiming.AFTER, refuse=True)  # the lock, then the transaction
    scene.declare_topic("late", clusters=["busy"])
    wait_until(proxies["busy"].triggered.is_set, "an apply is broken", timeout=OPERATOR_TIMEOUT_S)
    begun = time.monotonic()
    proxies["idle"].is_refusing = True
    proxies["idle"].drop()
    for name in ("idle", "busy"):
        until_cluster(scene, name, "False", "Unreachable")
    scene.declare_topic("clicks", clusters=["idle"], config={"flush.ms": 7})
    scene.declare_topic("latest", clusters=["busy"])
    for name in ("clicks", "latest"):
        scene.wait_for_conditions(name, Reconciling=("True", "Unreachable"))
    scene.declare_topic("others", clusters=["other"])
    scene.wait_until_ready("others")
    until_cluster(scene, "other", "True", "Reachable")
    assert [scene.event_reasons(name) for name in ("idle", "busy", "other")] == [["ClusterUnavailable"]] * 2 + [[]]
    assert_healthy(operator)
    lasted(begun)
    for name in ("idle", "busy"):
        proxies[name].reset()
    scene.wait_until_ready(*topics, "late", "latest")
    for name in ("idle", "busy"):
        until_cluster(scene, name, "True", "Reachable")
        wait_until(lambda: len(scene.event_reasons(name)) == 2, f"{name}: an Event", timeout=OPERATOR_TIMEOUT_S)  # noqa: B023
        assert scene.event_reasons(name) == ["ClusterUnavailable", "Reachable"]
    assert [scene.get_topic(name)["metadata"]["resourceVersion"] for name in ("orders", "views")] == versions
    for name in ("late", "latest"):
        assert busy.client.get(f"/topiarist/topics/{name}")[1].version == 0
    assert_healthy(operator)


def until_cluster(scene: OperatorFixture, name: str, *wanted: str) -> None:
    """Wait until a Cluster is ready, or not, for this reason."""
    wait_until(lambda: cluster_condition(scene, name) == wanted, f"{name}: {wanted}", timeout=OPERATOR_TIMEOUT_S)


def watch_misses_something(stage: FaultFixture, namespace: str) -> None:
    """Two deletions, and then another, of which a change is told when it has gone already."""
    relay = stage.stack.enter_context(ApiRelay(stage.server))
    scene = stage.make_fixture(namespace)
    operator = stage.start_operator(namespace, "--relist", "2", through=relay.api)
    scene.declare_cluster(allowDeletion=True)
    for name, policy in (("gone", "Retain"), ("leave", "Delete"), ("late", "Retain")):
        scene.declare_topic(name, deletionPolicy=policy)
    scene.wait_until_ready("gone", "leave", "late")
    wait_until(lambda: "finalizers" in scene.get_topic("leave")["metadata"], "a finalizer", timeout=OPERATOR_TIMEOUT_S)
    wait_until(lambda: counted_topics(scene) == 3, "all are counted", timeout=OPERATOR_TIMEOUT_S)
    held, release = threading.Event(), threading.Event()
    relay.on_watch_event = gap(held, release)
    scene.delete_topic("gone")
    scene.delete_topic("leave")
    wait_until(lambda: not scene.get_topic("leave"), "a finalizer has gone", timeout=OPERATOR_TIMEOUT_S)
    wait_until(lambda: counted_topics(scene) == 1, "both are missed", timeout=OPERATOR_TIMEOUT_S)
    scene.declare_topic("late", config={"flush.ms": 9})
    wait_until(held.is_set, "an event is held up", timeout=OPERATOR_TIMEOUT_S)
    scene.delete_topic("late")
    wait_until(lambda: counted_topics(scene) == 0, "it is missed", timeout=OPERATOR_TIMEOUT_S)
    before = len(relay.writes)
    release.set()
    scene.declare_topic("after")  # its event comes after the late one
    scene.wait_until_ready("after")
    wait_until(lambda: counted_topics(scene) == 1, "it is counted", timeout=OPERATOR_TIMEOUT_S)
    assert not [asked for asked in relay.writes[before:] if "/topics/late/" in asked.path]
    assert {name: scene.partition_count(name) for name in ("gone", "leave", "late")} == {
        "gone": 3,
        "leave": 0,
        "late": 3,
    }
    assert_healthy(operator)


def gap(held: threading.Event, release: threading.Event) -> Callable[[Event], bool]:
    """Lose all events about Topics of these names, but for one, which comes late."""

    def watched(event: Event) -> bool:
        metadata = event["object"]["metadata"]
        if metadata.get("name") == "late" and event["type"] == "MODIFIED" and metadata["generation"] == 2:
            held.set()
            return release.wait(OPERATOR_TIMEOUT_S)
        return metadata.get("name") not in ("gone", "leave", "late")

    return watched


Story = Callable[[FaultFixture, str], None]

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
            story(FaultFixture(server, zookeeper, stack, tmp_path_factory.mktemp(name)), f"outage-{name}")

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
