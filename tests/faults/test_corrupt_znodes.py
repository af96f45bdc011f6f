"""F23 and F24: znodes with invalid content: that topic is named with path and reason, all others are done."""

from __future__ import annotations

import json

import pytest
from kazoo.client import KazooClient

from integration.write_fixtures import connect_cluster
from support.builders import apply_outcomes, apply_results, plan_specs, topic_spec
from support.zookeeper import busy_cluster
from support.zookeeper.busy_cluster import ClusterTemplate
from support.zookeeper.client import connect_client
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.errors import Reason
from topiarist.model.outcome import Result

ID = '"topic_id":"UXyU9i5ARn6W00ON2taeWA","adding_replicas":{},"removing_replicas":{}'

GARBAGE = {
    "empty": b"",
    "not JSON": b"}{",
    "not text": b"\xff\xfe\x00",
    "a list": b"[1]",
    "null": b"null",
    "version 99": b'{"version":99,"partitions":{"0":[1]},"config":{},"owner":"default"}',
    "version as text": b'{"version":"3","partitions":{"0":[1]},"config":{},"owner":"default"}',
    "no version": b'{"partitions":{"0":[1]},"config":{},"owner":"default"}',
    "duplicate keys": b'{"version":1,"version":3,"partitions":{"0":[1]},"config":{},"owner":"default"}',
    "deep": b"[" * 100_000,
}
"""What no node of ours or of Kafka's can hold."""

TOPICS = {
    **GARBAGE,
    "partitions missing": b'{"version":3,%s}' % ID.encode(),
    "partitions as list": b'{"version":3,"partitions":[[1]],%s}' % ID.encode(),
    "partition id as text": b'{"version":3,"partitions":{"one":[1]},%s}' % ID.encode(),
    "broker as text": b'{"version":3,"partitions":{"0":["1"]},%s}' % ID.encode(),
    "broker as fraction": b'{"version":3,"partitions":{"0":[1.5]},%s}' % ID.encode(),
    "huge broker": b'{"version":3,"partitions":{"0":[%d]},%s}' % (10**40, ID.encode()),
    "huge partition id": b'{"version":3,"partitions":{"%d":[1]},%s}' % (10**40, ID.encode()),
    "a number of 5,000 digits": b'{"version":3,"partitions":{"0":[%s]},%s}' % (b"9" * 5000, ID.encode()),
    "odd id": b'{"version":3,"partitions":{"0":[1]},"topic_id":7,"adding_replicas":{},"removing_replicas":{}}',
}
CONFIGS = {
    **GARBAGE,
    "config as list": b'{"version":1,"config":[]}',
    "value as number": b'{"version":1,"config":{"retention.ms":5}}',
    "value as null": b'{"version":1,"config":{"retention.ms":null}}',
}
RECORDS = {
    **GARBAGE,
    "no owner": b'{"version":1,"config":[]}',
    "keys not sorted": b'{"version":1,"owner":"default","config":["b","a"]}',
    "unknown field": b'{"version":1,"owner":"default","config":[],"since":"today"}',
}

CASES = [
    *((f"/brokers/topics/{busy_cluster.NAMES[1]}", kind, data) for kind, data in TOPICS.items()),
    *((f"/config/topics/{busy_cluster.NAMES[2]}", kind, data) for kind, data in CONFIGS.items()),
    *((f"/topiarist/topics/{busy_cluster.NAMES[4]}", kind, data) for kind, data in RECORDS.items()),
]


@pytest.mark.parametrize(
    ("path", "data"), [case[::2] for case in CASES], ids=[f"{p.split('/')[1]}-{k}" for p, k, _ in CASES]
)
def test_f23_garbage_is_named_and_the_others_are_done(mould: ClusterTemplate, path: str, data: bytes) -> None:
    """Present at planning: refused with its path. Written between plan and apply: a conflict with its path. In both
    cases the other nineteen topics are done, and the znode is unchanged.
    """
    name = path.rpartition("/")[2]
    for late in (False, True):
        connect = mould.create_copy()
        with connect_client(connect) as client, connect_cluster(connect) as port:
            early = plan_specs(port, *busy_cluster.desired_specs())
            client.set(path, data)
            plan = early if late else plan_specs(port, *busy_cluster.desired_specs())
            found = apply_outcomes(port, plan)
            if late:
                outcome = found.pop(name)
                assert (outcome.result, outcome.reason) == (Result.CONFLICT, Reason.TOPIC_UNREADABLE)
                assert path in outcome.message
            else:
                (topic,) = [topic for topic in plan.topics if topic.refusals]
                assert (topic.topic, topic.changes) == (name, ())
                assert topic.refusals[0].reason is Reason.TOPIC_UNREADABLE
                assert path in topic.refusals[0].message
            assert found == {other: found[other] for other in busy_cluster.NAMES if other != name}
            assert {outcome.result for outcome in found.values()} == {Result.DONE}
            assert client.get(path)[0] == data


def test_f23_unknown_fields_are_kept(mould: ClusterTemplate) -> None:
    """Topic and config have a field of an unknown release: it is kept byte for byte after growth and after a change."""
    connect = mould.create_copy()
    odd = {"confluent_placement": {"version": 1, "replicas": [{"count": 3}]}}
    with connect_client(connect) as client, connect_cluster(connect) as port:
        for path in ("/config/topics/c-configure", "/config/topics/s-both"):
            client.set(path, json.dumps(json.loads(client.get(path)[0]) | odd).encode())
        assert set(apply_results(port, plan_specs(port, *busy_cluster.desired_specs())).values()) == {Result.DONE}
        for path in ("/config/topics/c-configure", "/config/topics/s-both"):
            after = json.loads(client.get(path)[0])
            assert {key: after[key] for key in odd} == odd
            assert after["config"]["retention.ms"] == "3600000"


SHAPES = {
    "a hole": {"0": [1, 2, 3], "2": [2, 3, 4]},
    "no partition 0": {"1": [1, 2, 3], "2": [2, 3, 4]},
    "none at all": {},
    "partition 0 without replicas": {"0": [], "1": [2, 3, 4]},
}


@pytest.mark.parametrize("late", [False, True], ids=["found", "meanwhile"])
@pytest.mark.parametrize("shape", SHAPES)
def test_f24_a_malformed_topic_does_not_grow(mould: ClusterTemplate, shape: str, late: bool) -> None:
    """Kafka would number new partitions from their count, over existing ones: refused with the reason, or a conflict if
    written between plan and apply. Its znode is unchanged, the others are done.
    """
    connect, path = mould.create_copy(), "/brokers/topics/b-grow"
    with connect_client(connect) as client, connect_cluster(connect) as port:
        early = plan_specs(port, *busy_cluster.desired_specs())
        node = json.dumps(json.loads(client.get(path)[0]) | {"partitions": SHAPES[shape]}).encode()
        client.set(path, node)
        plan = early if late else plan_specs(port, *busy_cluster.desired_specs())
        found = apply_outcomes(port, plan)
        outcome = found.pop("b-grow", None)
        if late:
            assert outcome is not None
            assert outcome.result is Result.CONFLICT
        else:
            (topic,) = [topic for topic in plan.topics if topic.refusals]
            assert topic.topic == "b-grow"
            assert topic.refusals[0].reason in (Reason.PARTITIONS_MALFORMED, Reason.TOPIC_UNREADABLE)
            assert outcome is None
        assert len(found) == len(busy_cluster.NAMES) - 1
        assert {outcome.result for outcome in found.values()} == {Result.DONE}
        assert client.get(path)[0] == node


def test_f24_unequal_replica_counts_are_named(mould: ClusterTemplate) -> None:
    """Kafka grows such a topic with the replica count of partition 0, and so does topiarist; the different counts are
    refused as such, and existing lists do not change.
    """
    connect, path = mould.create_copy(), "/brokers/topics/b-grow"
    with connect_client(connect) as client, connect_cluster(connect) as port:
        odd = json.loads(client.get(path)[0]) | {"partitions": {"0": [1, 2, 3], "1": [2, 3]}}
        client.set(path, json.dumps(odd).encode())
        plan = plan_specs(port, *busy_cluster.desired_specs())
        (topic,) = [topic for topic in plan.topics if topic.refusals]
        assert [finding.reason for finding in topic.refusals] == [Reason.REPLICATION_FACTOR_DIFFERS]
        assert {outcome.result for outcome in apply_outcomes(port, plan).values()} == {Result.DONE}
        after = json.loads(client.get(path)[0])["partitions"]
        assert {number: after[number] for number in odd["partitions"]} == odd["partitions"]
        assert {len(lists) for number, lists in after.items() if number not in odd["partitions"]} <= {3}


def test_f23_a_record_that_cannot_be_understood_is_refused(cluster: SimulatedKafka, client: KazooClient) -> None:
    """An unreadable record without a topic: the topic is refused with the path, instead of a conflict in every run."""
    with connect_cluster(cluster.connect) as port:
        apply_results(port, plan_specs(port, topic_spec("first")))
        client.create("/topiarist/topics/orders", b"not JSON")
        plan = plan_specs(port, topic_spec("orders"), topic_spec("small"))
        assert [finding.reason for topic in plan.topics for finding in topic.refusals] == [Reason.TOPIC_UNREADABLE]
        assert "/topiarist/topics/orders" in plan.topics[0].refusals[0].message
        assert apply_results(port, plan) == {"small": Result.DONE}
