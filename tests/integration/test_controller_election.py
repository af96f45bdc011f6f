"""A run before its first write while writes are blocked: it waits for an election and for nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count

import pytest
from kazoo.client import KazooClient

from conftest import BROKERS
from integration.write_fixtures import DESIRED_SPECS, REPLICAS, connect_cluster, create_mixed_topics
from support.builders import apply_outcomes, plan_specs, topic_spec
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic, as_json, config_bytes, new_topic_id
from topiarist.adapters.zookeeper.write import write_context
from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import Outcome, Result

pytestmark = pytest.mark.timeout(300)


def refused(cluster: SimulatedKafka, act: Callable[[], object], stop: Callable[[], bool] = lambda: False) -> Reason:
    """Return the reason that blocks a run if ``act`` happens after its plan."""
    create_mixed_topics(cluster)
    with connect_cluster(cluster.connect) as port:
        plan = plan_specs(port, *DESIRED_SPECS)
        act()
        with pytest.raises(TopiaristError) as raised:
            list(port.apply(plan, stop))
    return raised.value.reason


def test_only_an_election_is_waited_for(
    cluster: SimulatedKafka, client: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration is reported at once, regardless of the time-out for an election."""
    monkeypatch.setattr(write_context, "CONTROLLER_ELECTION_TIMEOUT_S", 3600.0)
    node = b'{"version":0,"kraft_metadata_offset":-1}'
    assert refused(cluster, lambda: client.create("/migration", node)) is Reason.KRAFT_MIGRATION


def test_an_election_before_the_first_write_is_waited_for(cluster: SimulatedKafka, client: KazooClient) -> None:
    """The run waits for an election in progress at its start and continues afterwards."""
    create_mixed_topics(cluster)
    controller, _ = client.get("/controller")
    with connect_cluster(cluster.connect) as port:
        plan = plan_specs(port, *DESIRED_SPECS)
        client.delete("/controller")
        calls = count(1)

        def stop() -> bool:
            if next(calls) == 9:
                client.create("/controller", controller, ephemeral=True)
            return False

        found = list(port.apply(plan, stop))
    assert {outcome.result for outcome in found} == {Result.DONE}


def test_an_election_is_not_waited_for_for_ever(
    cluster: SimulatedKafka, client: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the time-out the run reports that there is no controller."""
    monkeypatch.setattr(write_context, "CONTROLLER_ELECTION_TIMEOUT_S", 0.0)
    assert refused(cluster, lambda: client.delete("/controller")) is Reason.NO_CONTROLLER


def test_who_waits_for_an_election_can_be_stopped(
    cluster: SimulatedKafka, client: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends the wait for an election; the test sends it at the tenth poll, since nothing else happens
    meanwhile.
    """
    monkeypatch.setattr(write_context, "CONTROLLER_ELECTION_TIMEOUT_S", 3600.0)
    calls = count(1)
    assert refused(cluster, lambda: client.delete("/controller"), lambda: next(calls) > 9) is Reason.NO_CONTROLLER
    assert next(calls) == 11


def test_what_an_old_release_cannot_load_is_not_written_again(chroot: str) -> None:
    """Another client sets a value meanwhile that newer brokers accept and 2.4 brokers do not, while no topic reveals
    the release.
    """
    with SimulatedKafka(chroot, BROKERS, (2, 4)) as kafka:
        kafka.add_topics(Topic("orders", REPLICAS, {"retention.ms": "1"}))
        with connect_cluster(kafka.connect) as port:
            plan = plan_specs(port, topic_spec("orders", config={"retention.ms": 2}))
            odd = {"retention.ms": "1", "message.format.version": "2.7"}
            kafka.client.set("/config/topics/orders", config_bytes(odd))
            (found,) = apply_outcomes(port, plan).values()
    assert found.result is Result.CONFLICT
    assert 'message.format.version: found "2.7"' in found.message


@pytest.mark.parametrize(
    ("feature", "version"), [(None, "2.7"), (b'{"features":{},"version":2,"status":1}', "3.0")], ids=["id", "feature"]
)
def test_a_release_that_came_meanwhile_counts(chroot: str, feature: bytes | None, version: str) -> None:
    """Brokers are upgraded between plan and run, and another client at once sets a value that only the new release
    loads.
    """
    with SimulatedKafka(chroot, BROKERS, (2, 4)) as kafka:
        kafka.add_topics(Topic("orders", REPLICAS, {"retention.ms": "1"}))
        with connect_cluster(kafka.connect) as port:
            plan = plan_specs(port, topic_spec("orders", config={"retention.ms": 2}))
            topic = json.loads(kafka.client.get("/brokers/topics/orders")[0])
            newer = {**topic, "version": 3, "adding_replicas": {}, "removing_replicas": {}, "topic_id": new_topic_id()}
            kafka.client.set("/brokers/topics/orders", as_json(newer))
            if feature:
                kafka.client.create("/feature", feature)
            new = {"retention.ms": "1", "message.format.version": version}
            kafka.client.set("/config/topics/orders", config_bytes(new))
            assert apply_outcomes(port, plan) == {"orders": Outcome("orders", Result.DONE)}
