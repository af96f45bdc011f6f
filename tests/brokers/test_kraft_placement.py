"""Places replicas on real brokers in KRaft mode: by lists, and by counts where a policy refuses lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from support.builders import cluster as cluster_spec
from support.builders import spec
from support.kafka.kraft_fixture import KraftFixture
from topiarist.adapters.kafka_admin.cluster import KafkaCluster
from topiarist.kafka.types import UNPLACED, are_unplaced
from topiarist.model.access import KafkaAccess, Placement
from topiarist.model.outcome import Result
from topiarist.model.plan import Plan, RunOptions
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import Capabilities, Support
from topiarist.reconcile import plan_cluster

UNKNOWN = Support(None)


@pytest.fixture
def cluster(kraft: KraftFixture) -> Iterator[KafkaCluster]:
    """Return a session with the cluster."""
    with KafkaCluster(KafkaAccess(kraft.kafka.bootstrap), owner="default") as opened:
        yield opened


def on(kraft: KraftFixture, placement: Placement | None = None) -> ClusterSpec:
    """Return the document of the cluster."""
    return cluster_spec("prod", kafka=KafkaAccess(kraft.kafka.bootstrap, placement=placement))


def make_plan(cluster: KafkaCluster, *specs: TopicSpec) -> Plan:
    """Return a plan for a cluster that only a dry run can show to carry out replica lists."""
    known = replace(cluster.read().capabilities, replica_lists=UNKNOWN, growth_lists=UNKNOWN)
    state = replace(cluster.read(), capabilities=known)
    return plan_cluster(cluster, state, specs[0].cluster, specs, RunOptions())


def sent(cluster: KafkaCluster) -> Counter[str]:
    """Return the number of requests of each name so far."""
    counts: Counter[str] = Counter()
    for (name, _result), number in cluster.requests.items():
        counts[name] += number
    return counts


def make(cluster: KafkaCluster, *specs: TopicSpec) -> Plan:
    """Plan and apply; every topic is done, and a second plan is empty."""
    plan = make_plan(cluster, *specs)
    assert {each.result for each in cluster.apply(plan, lambda: False)} == {Result.DONE}
    assert not make_plan(cluster, *specs).has_changes
    return plan


@pytest.mark.usefixtures("policies")
def test_a_policy_that_refuses_lists_leaves_the_brokers_to_kafka(kraft: KraftFixture, cluster: KafkaCluster) -> None:
    """The plan has counts and the words of the policy; Kafka itself shows counts, factor and config afterwards."""
    wanted = spec("unplaced-orders", on(kraft), partitions=3, replicationFactor=2, config={"retention.ms": 1000000})
    plan = make(cluster, wanted)
    assert plan.topics[0].new_replicas() == ((UNPLACED, UNPLACED),) * 3
    assert "POLICY_VIOLATION (44): replica lists are not allowed" in plan.placed_by_brokers
    found = kraft.clients.describe(["unplaced-orders"])["unplaced-orders"]
    assert found
    assert [len(each) for each in found.replicas] == [2, 2, 2]
    assert kraft.clients.overrides(["unplaced-orders"])["unplaced-orders"] == {"retention.ms": "1000000"}
    # No policy of Kafka sees growth, so its lists are carried out.
    grown = make(cluster, spec("unplaced-orders", on(kraft), partitions=5, replicationFactor=2))
    assert not are_unplaced(grown.topics[0].new_replicas())
    shown = kraft.clients.describe(["unplaced-orders"])["unplaced-orders"]
    assert shown
    assert shown.replicas[3:] == grown.topics[0].new_replicas()


def test_brokers_that_carry_out_lists_are_asked_once(kraft: KraftFixture, cluster: KafkaCluster) -> None:
    """A plan that creates costs one request, one without new replicas none; the answer to a creation needs no look."""
    old = spec("lists-old", on(kraft), partitions=1, replicationFactor=2)
    make(cluster, old)
    before = sent(cluster)
    assert not make_plan(cluster, old).has_changes
    assert (sent(cluster) - before)["CreateTopics"] == 0
    plan = make_plan(cluster, old, spec("lists-new", on(kraft), partitions=2, replicationFactor=2))
    assert (sent(cluster) - before)["CreateTopics"] == 1
    assert plan.capabilities.replica_lists.is_given is True
    described = sent(cluster)["DescribeConfigs"]
    (outcome,) = cluster.apply(plan, lambda: False)
    assert outcome.result is Result.DONE
    assert sent(cluster)["DescribeConfigs"] == described
    assert (sent(cluster) - before)["CreateTopics"] == 2
    shown = kraft.clients.describe(["lists-new", "lists-new-topiarist-dry-run"])
    assert shown["lists-new"]
    assert shown["lists-new"].replicas == plan.topics[0].new_replicas()
    assert shown["lists-new-topiarist-dry-run"] is None
    grown = make_plan(cluster, spec("lists-old", on(kraft), partitions=3, replicationFactor=2))
    assert grown.capabilities.growth_lists.is_given is True
    assert (sent(cluster) - before)["CreatePartitions"] == 1


def test_a_declared_placement_asks_nothing(kraft: KraftFixture, cluster: KafkaCluster) -> None:
    """With ``Brokers`` Kafka places creation and growth, and one chunk is enough: nothing is asked before."""
    place = on(kraft, Placement.BROKERS)
    before = sent(cluster)["CreateTopics"]
    make(cluster, spec("left", place, partitions=2, replicationFactor=3))
    make(cluster, spec("left", place, partitions=4, replicationFactor=3))
    found = kraft.clients.describe(["left"])["left"]
    assert found
    assert [len(each) for each in found.replicas] == [3, 3, 3, 3]
    assert sent(cluster)["CreateTopics"] - before <= 2  # that of the records, if they are new, and that of the topic


@pytest.mark.usefixtures("policies")
def test_lists_that_are_unknown_are_compared_with_what_was_made(kraft: KraftFixture) -> None:
    """``placement: Explicit`` asks nothing: lists are sent, read back, and refused in the words of the policy."""
    place = on(kraft, Placement.EXPLICIT)
    with KafkaCluster(KafkaAccess(kraft.kafka.bootstrap, placement=Placement.EXPLICIT), owner="default") as explicit:
        plan = make_plan(explicit, spec("explicit", place), spec("unplaced-never", place))
        assert plan.capabilities == Capabilities(replica_lists=UNKNOWN, growth_lists=UNKNOWN, compaction=UNKNOWN)
        outcomes = {each.topic: each for each in explicit.apply(plan, lambda: False)}
    assert outcomes["explicit"].result is Result.DONE
    assert outcomes["unplaced-never"].result is Result.REFUSED
    assert "replica lists are not allowed" in outcomes["unplaced-never"].message
