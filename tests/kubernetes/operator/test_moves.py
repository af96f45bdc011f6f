"""Moves by the operator: a broker is drained batch after batch, and a request that makes no progress is reported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kubernetes.fixtures.shared_operator_fixture import SharedOperatorFixture
from topiarist.kafka.types import Replicas

REQUEST, RECORD = "/admin/reassign_partitions", "/topiarist/moves"
DRAINED = 3
MOVES = {"allow": ["Drain"], "throttle": "1MiB", "batch": {"partitions": 2}, "stallAfter": "1h"}


def _settle(place: SharedOperatorFixture, **moves: Any) -> None:
    """Create a topic with replicas on all brokers; no broker copies yet."""
    place.kafka.moves_replicas = True
    place.kafka.lagging_brokers = set(place.kafka.brokers)
    place.kafka.wait_idle()
    place.declare_cluster(moves={**MOVES, **moves})
    place.declare_topic("orders", partitions=12)
    place.wait_until_ready("orders")
    assert _held(place) > 2


def _drain(place: SharedOperatorFixture, **moves: Any) -> None:
    place.declare_cluster(moves={**MOVES, **moves}, drainBrokers=[DRAINED])


def _let_brokers_copy(place: SharedOperatorFixture) -> None:
    place.kafka.lagging_brokers = set()
    place.kafka.run_and_wait(place.kafka._process_reassignment_request)


def _lists(place: SharedOperatorFixture) -> list[Replicas]:
    partitions = json.loads(place.client.get("/brokers/topics/orders")[0])["partitions"]
    return [tuple(replicas) for replicas in partitions.values()]


def _held(place: SharedOperatorFixture) -> int:
    return sum(DRAINED in replicas for replicas in _lists(place))


def _throttled(place: SharedOperatorFixture) -> list[str]:
    """Return the entities with a throttle."""
    entities = ["topics/orders", *(f"brokers/{broker}" for broker in place.kafka.brokers)]
    configs = {
        entity: place.client.get(f"/config/{entity}")[0]
        for entity in entities
        if place.client.exists(f"/config/{entity}")
    }
    return [entity for entity, data in configs.items() if b"throttled" in data]


def _row(place: SharedOperatorFixture) -> Mapping[str, str]:
    """Return the line of ``kubectl get clusters`` by columns."""
    done = place.api.kubectl("get", "clusters", place.name, f"--namespace={place.shared_operator.namespace}")
    assert done.returncode == 0, done.stderr
    head, line = done.stdout.splitlines()
    names = head.split()
    starts = [head.index(name) for name in names]
    ends = [*starts[1:], None]
    return {name: line[start:end].strip() for name, start, end in zip(names, starts, ends, strict=True)}


def _cluster_status(place: SharedOperatorFixture) -> Mapping[str, Any]:
    found: Mapping[str, Any] = place.cluster_resource()["status"]
    return found


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, str]:
    return next((each for each in status["conditions"] if each["type"] == kind), {})


def _metric(place: SharedOperatorFixture, name: str, **labels: str) -> float:
    return place.shared_operator.metric(f"topiarist_moves_{name}", cluster=place.name, **labels)


def test_a_broker_is_drained_in_several_passes(place: SharedOperatorFixture) -> None:
    """Each pass sends one batch; status, columns and metrics say what is left, and no throttle is left at the end."""
    _settle(place)
    held = _held(place)
    batches = -(-held // 2)
    _drain(place)
    place.wait_for_cluster_conditions(Moving=("True", "Moving"), Ready=("True", "Reachable"))
    place.wait_for_conditions("orders", Moving=("True", "Moving"), Ready=("False", "Moving"))
    assert _row(place)["DRAINING"] == f"{held} left"
    status = _cluster_status(place)
    assert status["draining"] == [{"broker": DRAINED, "replicas": held}]
    found = status["moves"]
    assert (found["batch"], found["batches"], found["partitionsLeft"], found["partitionsInFlight"]) == (
        1,
        batches,
        held,
        2,
    )
    assert found["copyingBrokers"]
    assert _throttled(place)
    (on,) = place.get_topic("orders")["status"]["clusters"]
    assert on["moves"]["message"] == f"0 of {held} partitions moved, batch 1 of {batches}"
    assert (_metric(place, "partitions_left"), _metric(place, "copies_in_flight")) == (held, 2)
    assert _metric(place, "drained_replicas_left", broker=str(DRAINED)) == held
    # A change of another topic does not wait for the batch.
    place.declare_topic("payments")
    place.wait_until_ready("payments")
    assert place.client.exists(REQUEST)
    _let_brokers_copy(place)
    place.wait_until_ready("orders")
    place.wait_for_conditions("orders", Moving=("False", "Synced"))
    place.wait_for(lambda: _row(place)["DRAINING"] == "done", "the broker is drained")
    place.wait_for(lambda: "moves" not in _cluster_status(place), "no moves are left")
    assert _held(place) == 0
    assert place.client.exists(RECORD) is None
    assert _throttled(place) == []
    assert _metric(place, "batches_total") == batches
    assert _metric(place, "partitions_moved_total") == held
    assert _metric(place, "partitions_left") == _metric(place, "throttle_left") == 0
    place.wait_for_events("orders", "TopicCreated", "MovesStarted", "ReplicasMoved")


def test_a_stall_is_reported_until_it_ends(place: SharedOperatorFixture) -> None:
    """Without progress for ``stallAfter``, Cluster and Topic name the cause; the moves continue when it is removed."""
    _settle(place, stallAfter="1s")
    _drain(place, stallAfter="1s")
    place.wait_for_cluster_conditions(Moving=("True", "MovesStalled"))
    place.wait_for_conditions("orders", Stalled=("True", "MovesStalled"), Reconciling=("False", "MovesStalled"))
    assert "no progress for 1 s" in _condition(_cluster_status(place), "Moving")["message"]
    assert _metric(place, "stalled") == 1
    place.wait_for(lambda: "MovesStalled" in _cluster_events(place), "an Event")
    _let_brokers_copy(place)
    place.wait_until_ready("orders")
    place.wait_for_cluster_conditions(Moving=("False", "Reachable"))
    assert _metric(place, "stalled") == 0
    assert _cluster_events(place).count("MovesStalled") == 1


def test_a_stuck_request_is_reported_with_its_remedy(place: SharedOperatorFixture) -> None:
    """An entry that the controller never removes holds all moves; the condition names it and what removes it."""
    _settle(place)
    place.kafka.moves_replicas = False
    entry = {"topic": "ghost", "partition": 0, "replicas": [1, 2]}
    place.client.create(REQUEST, json.dumps({"version": 1, "partitions": [entry]}).encode())
    _drain(place)
    place.wait_for_cluster_conditions(Moving=("True", "StuckReassignment"))
    place.wait_for_conditions("orders", Moving=("True", "StuckReassignment"), Stalled=("True", "StuckReassignment"))
    message = _condition(_cluster_status(place), "Moving")["message"]
    assert "ghost, partition 0" in message
    assert "Admin API" in message
    assert place.client.exists(RECORD) is None


def _cluster_events(place: SharedOperatorFixture) -> list[str]:
    where = f"/apis/events.k8s.io/v1/namespaces/{place.shared_operator.namespace}/events"
    found = place.api.call("GET", where).body["items"]
    return [event["reason"] for event in found if event["regarding"]["name"] == place.name]
