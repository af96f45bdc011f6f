"""F32: outages of the API server and of ZooKeeper, and a restart of the API server.

No change is lost, and the operator recovers. Most of the time is waiting for a request or session timeout, so all three
outages run at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

import pytest

from kubernetes.fixtures.fault_fixture import FaultFixture, assert_healthy, cluster_condition, counted_topics
from kubernetes.fixtures.operator_fixture import OPERATOR_TIMEOUT_S, OperatorFixture
from kubernetes.fixtures.resources import cluster, resource_path
from support.kubernetes.api_client import ApiClient, ApiEndpoint
from support.kubernetes.forked_operators import ForkedOperator
from support.kubernetes.server import ApiServer, install_definitions
from support.network.switchable_relay import SwitchableRelay
from support.waiting import wait_until
from support.zookeeper.proxy import CutTiming, Proxy
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.codec.topics import encode_config

LONG = 60.0
"""Minimum seconds of an outage of the API server or ZooKeeper: longer than any single request timeout."""

CATCH_UP = 15.0
"""Seconds after an outage within which a deletion during the outage is noticed."""

UNPOSTED = "failed; will retry: POST"
"""kopf's log message about an Event that it could not post."""


class Cut(NamedTuple):
    """A fixture with an operator that has lost its connection to the API server."""

    scene: OperatorFixture
    gate: SwitchableRelay
    operator: ForkedOperator

    def settle(self) -> None:
        """Create topics, one of them with ``deletionPolicy: Delete``."""
        self.scene.declare_cluster(allowDeletion=True, driftPolicy="Correct")
        self.scene.declare_topic("orders", config={"flush.ms": 7})
        self.scene.declare_topic("leave", deletionPolicy="Delete")
        self.scene.wait_until_ready("orders", "leave")
        wait_until(
            lambda: "finalizers" in self.scene.get_topic("leave")["metadata"], "a finalizer", timeout=OPERATOR_TIMEOUT_S
        )

    def meanwhile(self) -> None:
        """Change resources and the topic during the outage."""
        self.scene.declare_topic("later")
        self.scene.delete_topic("leave")
        self.scene.client.set("/config/topics/orders", encode_config({"flush.ms": "9"}))

    def goes_on(self) -> None:
        """Assert that the operator continues the known work, logs that it cannot write, and does not end."""
        mended = lambda: self.scene.topic_config("orders")["flush.ms"] == "7"  # noqa: E731
        wait_until(mended, "the value is back", timeout=OPERATOR_TIMEOUT_S)
        wait_until(lambda: UNPOSTED in self.operator.log, "its request has been given up", timeout=OPERATOR_TIMEOUT_S)
        assert self.scene.partition_count("later") == 0
        assert self.scene.partition_count("leave") == 3
        # One line for each informer: Clusters, Policies, Topics, and the definition of each of them.
        assert len(self.operator.log_entries("the API server cannot be watched")) <= 6
        assert_healthy(self.operator)

    def catches_up(self) -> None:
        """Assert that the operator recovers without intervention."""
        self.scene.wait_until_ready("orders", "later")
        wait_until(lambda: not self.scene.get_topic("leave"), "the resource has gone", timeout=OPERATOR_TIMEOUT_S)
        assert self.scene.partition_count("leave") == 0
        assert_healthy(self.operator)


def lasted(begun: float) -> None:
    """Wait until an outage has lasted ``LONG`` seconds."""
    wait_until(lambda: time.monotonic() - begun >= LONG, "the outage is over", timeout=2 * LONG, interval=0.1)


def by(stage: FaultFixture, gate: SwitchableRelay, token: str, namespace: str) -> ApiClient:
    """Return a client of the API server that connects through a relay."""
    site = ApiEndpoint(f"https://127.0.0.1:{gate.port}", stage.server.ca, stage.server.folder / "bin" / "kubectl")
    return ApiClient(site, token, stage.folder / f"kubeconfig-{namespace}", namespace)


def api_server_is_away(stage: FaultFixture, namespace: str) -> None:
    """Run two operators: connections of the first are refused, requests of the second get no answer."""
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
    until_caught_up(lambda: not any(cut.scene.get_topic("leave") for cut in cuts), "both deletions are done")
    for cut in cuts:
        cut.catches_up()


def zookeeper_is_away(stage: FaultFixture, namespace: str) -> None:
    """Cut ZooKeeper off: cluster ``idle`` without pending work, cluster ``busy`` in the middle of an apply.

    ``other`` stays connected.
    """
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
    """Wait until the condition ``Ready`` of a Cluster has this status and reason."""
    wait_until(lambda: cluster_condition(scene, name) == wanted, f"{name}: {wanted}", timeout=OPERATOR_TIMEOUT_S)


def until_caught_up(condition: Callable[[], bool], what: str) -> None:
    """Wait for a result that must follow an outage of any length within ``CATCH_UP`` seconds."""
    wait_until(condition, what, timeout=CATCH_UP, interval=0.1)


def history_is_lost(stage: FaultFixture, namespace: str) -> None:
    """Delete resources while the operator is disconnected, and restart the API server, which loses its event history.

    Its watches then answer 410 Gone. A Cluster is deleted as well, and kopf never receives that deletion.
    """
    with ApiServer(stage.folder / "kube") as own:
        install_definitions(own.admin)
        here = stage._replace(server=own)
        scene = here.make_fixture(namespace)
        gate = stage.stack.enter_context(SwitchableRelay(("127.0.0.1", int(own.url.rpartition(":")[2]))))
        operator = here.start_operator(namespace, "--period", "600", through=partial(by, here, gate))
        scene.declare_cluster(allowDeletion=True)
        scene.apply(cluster("other", zookeeper={"connect": f"{stage.zookeeper.connect}/none"}, kafkaVersion="3.9"))
        for name, policy in (("gone", "Retain"), ("leave", "Delete"), ("stays", "Retain")):
            scene.declare_topic(name, deletionPolicy=policy, clusters=["prod"])
        scene.declare_topic("moved", clusters=["other"])
        scene.wait_until_ready("gone", "leave", "stays")
        scene.wait_for_conditions("moved", Ready=("False", "NotAKafkaCluster"))
        wait_until(
            lambda: "finalizers" in scene.get_topic("leave")["metadata"], "a finalizer", timeout=OPERATOR_TIMEOUT_S
        )
        wait_until(lambda: counted_topics(scene) == 3, "all are counted", timeout=OPERATOR_TIMEOUT_S)
        gate.refuse_connections()
        scene.delete_topic("gone")
        scene.delete_topic("leave")
        assert scene.api.call("DELETE", resource_path(namespace, cluster("other"), "other")).status == 200
        own.restart()
        gate.restore()
        until_caught_up(lambda: not scene.get_topic("leave"), "the deletion is done")
        until_caught_up(lambda: counted_topics(scene) == 1, "both are missed")
        until_caught_up(
            lambda: scene.topic_conditions("moved").get("Ready") == ("False", "UnknownCluster"),
            "the deletion of the Cluster is told",
        )
        scene.declare_topic("after", clusters=["prod"])
        scene.wait_until_ready("stays", "after")
        counts = {name: scene.partition_count(name) for name in ("gone", "leave", "stays", "after")}
        assert counts == {"gone": 3, "leave": 0, "stays": 3, "after": 3}
        assert_healthy(operator)
        operator.terminate()


Story = Callable[[FaultFixture, str], None]

STORIES: Mapping[str, Story] = {"api": api_server_is_away, "zookeeper": zookeeper_is_away, "history": history_is_lost}


@pytest.fixture(scope="module")
def told(
    server: ApiServer, zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Future[None]]]:
    """Start the three outages concurrently; yield their futures."""

    def tell(story: Story, name: str) -> None:
        with ExitStack() as stack:
            story(FaultFixture(server, zookeeper, stack, tmp_path_factory.mktemp(name)), f"outage-{name}")

    with ThreadPoolExecutor(len(STORIES)) as pool:
        yield {name: pool.submit(tell, story, name) for name, story in STORIES.items()}


def test_f32_the_api_server_is_away(told: Mapping[str, Future[None]]) -> None:
    """No API server, once refusing connections and once silent, for longer than any request timeout (30 s): requests
    time out, known work is still done, and afterwards everything is reconciled.
    """
    told["api"].result()


def test_f32_zookeeper_is_away(told: Mapping[str, Future[None]]) -> None:
    """No ZooKeeper, without pending work and during an apply: statuses stay, new declarations wait and say so, the
    Cluster reports it once, and another Cluster continues.
    """
    told["zookeeper"].result()


def test_f32_a_restarted_api_server_has_forgotten_what_happened(told: Mapping[str, Future[None]]) -> None:
    """A watch has a gap that the server cannot fill (410 Gone): deletions in it are noticed within 15 seconds."""
    told["history"].result()
