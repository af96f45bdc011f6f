"""The KRaft fixture itself: nodes can be killed, suspended and restarted, and properties reach their nodes."""

from __future__ import annotations

import pytest

from support.kafka.kraft import CONTROLLER
from support.kafka.kraft_fixture import KraftFixture


@pytest.mark.core
def test_clients_use_the_shared_cluster(kraft: KraftFixture) -> None:
    """Three brokers are registered with their racks, and a topic with replica lists is there with an id."""
    assert kraft.clients.racks() == {1: "a", 2: "b", 3: "c"}
    lists = ((1, 2), (3, 1))
    assert kraft.clients.create({"fixture": lists}) == {}
    kraft.kafka.wait(lambda: kraft.clients.describe(["fixture"])["fixture"], "the topic")
    topic = kraft.clients.describe(["fixture"])["fixture"]
    assert topic is not None
    assert topic.replicas == lists
    assert topic.id
    listed = kraft.kafka.tool("kafka-topics", "--bootstrap-server", kraft.kafka.bootstrap, "--list")
    assert "fixture" in listed.out.split(), listed


@pytest.mark.night(area="fixtures")
@pytest.mark.usefixtures("policies")
def test_nodes_come_and_go(kraft: KraftFixture) -> None:
    """The cluster survives a killed broker, a suspended one, a new one, and a restart of its controller.

    The policy class refuses a topic on all nodes.
    """
    bed, kafka = kraft, kraft.kafka
    kafka.kill(1)
    kafka.wait(lambda: bed.registered() == {2, 3}, "the session of the killed broker to expire")
    kafka.start(1)
    kafka.start(4, rack="d")
    kafka.wait(lambda: bed.clients.racks() == {1: "a", 2: "b", 3: "c", 4: "d"}, "all brokers")
    kafka.pause(4)
    kafka.wait(lambda: bed.registered() == {1, 2, 3}, "the session of the paused broker to expire")
    kafka.resume(4)
    kafka.wait(lambda: bed.registered() == {1, 2, 3, 4}, "the paused broker to come back")
    kafka.restart(CONTROLLER)
    refused = bed.clients.create({"forbidden-topic": ((1, 2),), "allowed": ((4, 1),)})
    assert refused.keys() == {"forbidden-topic"}
    assert "names must not begin with forbidden" in refused["forbidden-topic"]
