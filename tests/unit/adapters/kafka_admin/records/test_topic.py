"""The topic of records: how it is found and created, and what a run refuses to write to."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from topiarist.adapters.kafka_admin.connection.connection import NO_ID, encode_topic_id
from topiarist.adapters.kafka_admin.records.codec import Lock, Meta, Records, TopicRecord
from topiarist.adapters.kafka_admin.records.topic import (
    CreatedTopic,
    FoundTopic,
    _wanted_configs,
    build_meta,
    choose_replicas,
    create_topic,
    delete_topic,
    find_topic,
    require_compaction,
    require_own,
)
from topiarist.adapters.kafka_admin.records.transactions import Clock
from topiarist.adapters.own_values import encode_value
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import DEFAULT_RECORDS_TOPIC
from topiarist.model.state import OwnershipRecord, ReadError
from unit.adapters.kafka_admin.scripted_session import FakeTime, ScriptedSession, metadata, partition, reply

RECORDS_TOPIC = DEFAULT_RECORDS_TOPIC
TOPIC_ID = uuid.UUID(int=5)
FOUND = FoundTopic("cluster", encode_topic_id(TOPIC_ID))


def described(
    *partitions: Any, code: int = 0, name: str = RECORDS_TOPIC.name, topic_id: uuid.UUID = TOPIC_ID, **fields: Any
) -> Any:
    """Return an answer to Metadata with the topic."""
    answer = metadata({name: list(partitions)}, **fields)
    answer.topics[0].topic_id = topic_id
    answer.topics[0].error_code = code
    return answer


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (described(partition(0, 1)), FOUND),
        (described(partition(0, 1), code=5), FOUND),
        (described(partition(0, 1), partition(1, 1)), FOUND),
        (described(partition(0, 1), cluster_id=None), FoundTopic("", FOUND.topic_id)),
        (described(code=3), None),
        (metadata({}), None),
        (described(partition(0, 1), name="other"), None),
    ],
)
def test_the_topic_is_found(answer: Any, found: FoundTopic | None) -> None:
    """A topic without a leader exists, and one with more partitions; an unknown topic is none."""
    assert find_topic(ScriptedSession({"Metadata": answer}), RECORDS_TOPIC) == found


@pytest.mark.parametrize(
    ("answer", "reason", "message"),
    [
        (described(code=29), Reason.NO_PERMISSION, f"lacks Describe on the topic {RECORDS_TOPIC.name}"),
        (described(code=17), Reason.UNREADABLE, "cannot read __topiarist"),
        (described(partition(0, 1), code=6), Reason.UNREACHABLE, "cannot read __topiarist"),
        (described(), Reason.RECORDS_LOST, "has no partitions"),
        (described(partition(0, 1), topic_id=NO_ID), Reason.PREREQUISITE_MISSING, "give __topiarist no topic id"),
    ],
)
def test_another_topic_is_refused(answer: Any, reason: Reason, message: str) -> None:
    """A topic that is hidden, unreadable, or has another shape."""
    with pytest.raises(TopiaristError) as caught:
        find_topic(ScriptedSession({"Metadata": answer}), RECORDS_TOPIC)
    assert caught.value.reason is reason
    assert message.replace("__topiarist", RECORDS_TOPIC.name) in caught.value.args[0]
    assert "again" not in caught.value.hint


def configs(value: str | None, code: int = 0) -> Any:
    """Return an answer to DescribeConfigs."""
    entries = [reply(name="other", value="compact"), reply(name="cleanup.policy", value=value)]
    return reply(results=[reply(error_code=code, configs=entries if value is not None else entries[:1])])


def test_a_compacted_topic() -> None:
    """The request asks for one key of the topic."""
    session = ScriptedSession({"DescribeConfigs": configs("compact")})
    require_compaction(session, RECORDS_TOPIC)
    (resource,) = session.sent[0].request.resources
    assert (resource.resource_type, resource.resource_name) == (2, RECORDS_TOPIC.name)
    assert resource.configuration_keys == ["cleanup.policy"]


@pytest.mark.parametrize(
    ("answer", "reason", "message"),
    [
        (configs("delete"), Reason.RECORDS_LOST, "has cleanup.policy=delete, wanted compact"),
        (configs("compact,delete"), Reason.RECORDS_LOST, "has cleanup.policy=compact,delete, wanted compact"),
        (configs(None), Reason.RECORDS_LOST, "has cleanup.policy=None"),
        (configs("compact", 29), Reason.NO_PERMISSION, "DescribeConfigs on the topic"),
    ],
)
def test_a_topic_that_loses_records(answer: Any, reason: Reason, message: str) -> None:
    """Only compaction alone keeps all records."""
    with pytest.raises(TopiaristError) as caught:
        require_compaction(ScriptedSession({"DescribeConfigs": answer}), RECORDS_TOPIC)
    assert caught.value.reason is reason
    assert message in caught.value.args[0]


class Creation:
    """The creation of the topic over a script, in virtual time."""

    def __init__(self, *answers: Any, code: int = 0, **fields: Any) -> None:
        self.clock = FakeTime()
        created = reply(topics=[reply(name=RECORDS_TOPIC.name, error_code=code, error_message="why")])
        self.session = ScriptedSession({"Metadata": [metadata({}, **fields), *answers], "CreateTopics": created})

    def run(self) -> FoundTopic:
        """Create the topic."""
        clock = Clock(self.clock.now, self.clock.sleep, self.clock.random)
        return create_topic(self.session, RECORDS_TOPIC, clock).found


@pytest.mark.parametrize("code", [0, 36])
def test_the_topic_is_created(code: int) -> None:
    """It is compacted, has one partition, and is returned once the brokers know it; another run may be faster."""
    creation = Creation(metadata({}), described(partition(0, 1)), code=code)
    assert creation.run() == FOUND
    assert len(creation.clock.slept) == 1
    (sent,) = (each for each in creation.session.sent if each.name == "CreateTopics")
    assert sent.broker == 3
    (wanted,) = sent.request.topics
    assert (wanted.name, [(each.partition_index, each.broker_ids) for each in wanted.assignments]) == (
        RECORDS_TOPIC.name,
        [(0, [1, 2, 3])],
    )
    assert {each.name: each.value for each in wanted.configs} == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "max.message.bytes": str(1 << 20),
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
    }
    assert (sent.request.timeout_ms, sent.request.validate_only) == (10_000, False)


def test_a_single_broker() -> None:
    """Commits need no second replica there."""
    creation = Creation(described(partition(0, 1)), brokers=(1,))
    creation.run()
    (sent,) = (each for each in creation.session.sent if each.name == "CreateTopics")
    (wanted,) = sent.request.topics
    assert {each.name: each.value for each in wanted.configs}["min.insync.replicas"] == "1"


@pytest.mark.parametrize(
    ("creation", "reason", "message"),
    [
        (Creation(code=29), Reason.NO_PERMISSION, "lacks Create on the topic"),
        (Creation(code=44), Reason.RECORDS_REFUSED, "cannot create"),
        (Creation(brokers=()), Reason.UNREACHABLE, "no broker is registered"),
        (Creation(metadata({})), Reason.UNREACHABLE, "do not know the new topic"),
    ],
)
def test_a_topic_that_cannot_be_created(creation: Creation, reason: Reason, message: str) -> None:
    """The error names the right or the cause; after a minute the run waits no longer."""
    with pytest.raises(TopiaristError) as caught:
        creation.run()
    assert caught.value.reason is reason
    assert message in caught.value.args[0]
    assert sum(creation.clock.slept) == (pytest.approx(60, abs=0.06) if "know" in message else 0)


@pytest.mark.parametrize(
    ("racks", "factor", "replicas"),
    [
        ({1: "", 2: "", 3: ""}, 3, (1, 2, 3)),
        ({3: "", 1: "", 2: ""}, 2, (1, 2)),
        ({1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}, 3, (1, 3, 5)),
        ({1: "a", 2: "a", 3: "b", 4: "b"}, 3, (1, 3, 2)),
        ({1: "a", 2: "a", 3: "a", 4: "b"}, 4, (1, 4, 2, 3)),
        ({1: "a"}, 3, (1,)),
        ({}, 3, ()),
    ],
)
def test_replicas(racks: dict[int, str], factor: int, replicas: tuple[int, ...]) -> None:
    """The replicas are on as many racks as possible, the lowest ids first."""
    assert choose_replicas(racks, factor) == replicas


# Services that refuse a part of the creation, or carry it out otherwise.

POLICY_VIOLATION = 44


class Service:
    """A service that refuses creations: ``refuse`` returns why, and is called with lists, factor and configs.

    ``factor`` and ``partitions`` are the sizes that it makes, whatever is asked for.
    """

    def __init__(
        self, refuse: Callable[[bool, int, set[str]], str], *, factor: int | None = None, partitions: int = 1
    ) -> None:
        self.refuse = refuse
        self.factor = factor
        self.partitions = partitions
        self.made: list[Any] = []
        self.asked = 0
        self.clock = FakeTime()
        self.session = ScriptedSession({"Metadata": self.describe, "CreateTopics": self.create})

    def describe(self, _broker: int, _request: Any) -> Any:
        """Return the topic if it was made."""
        made = (described(partition(0, 1)) for _ in self.made[:1])
        return next(made, metadata({}))

    def create(self, _broker: int, request: Any) -> Any:
        """Return the answer to a creation; make the topic unless it is refused, or validated only."""
        (wanted,) = request.topics
        self.asked += 1
        why = self.refuse(bool(wanted.assignments), wanted.replication_factor, {each.name for each in wanted.configs})
        if not (why or request.validate_only):
            self.made.append(wanted)
        count = len(wanted.assignments[0].broker_ids) if wanted.assignments else wanted.replication_factor
        sizes = {"num_partitions": self.partitions, "replication_factor": self.factor or count}
        code = POLICY_VIOLATION if why else 0
        return reply(topics=[reply(name=RECORDS_TOPIC.name, error_code=code, error_message=why, **sizes)])

    def run(self) -> CreatedTopic:
        """Create the topic of records."""
        clock = Clock(self.clock.now, self.clock.sleep, self.clock.random)
        return create_topic(self.session, RECORDS_TOPIC, clock)


SEVEN = {"cleanup.policy", "compression.type", "max.message.bytes", "message.timestamp.type"}
"""The configs of the topic that a service with a short list of its own takes."""


@pytest.mark.parametrize(
    ("service", "shape", "dropped", "notices"),
    [
        (Service(lambda lists, factor, keys: ""), (True, -1), set(), []),
        (Service(lambda lists, factor, keys: "no lists" if lists else ""), (False, 3), set(), []),
        (
            Service(lambda lists, factor, keys: "no lists" if lists else "" if factor == -1 else "our factor"),
            (False, -1),
            set(),
            ["has the number of replicas that the service decides, wanted 3"],
        ),
        (
            Service(lambda lists, factor, keys: "Not allowed to set config" if keys - SEVEN else ""),
            (True, -1),
            {"min.insync.replicas", "unclean.leader.election.enable"},
            ["made without min.insync.replicas=2, unclean.leader.election.enable=false"],
        ),
        (
            Service(lambda lists, factor, keys: "no" if lists or keys - {"cleanup.policy"} else "", factor=1),
            (False, 3),
            {"compression.type", "max.message.bytes", "message.timestamp.type"}
            | {"min.insync.replicas", "unclean.leader.election.enable"},
            ["made without", "has 1 replica, wanted 3"],
        ),
        (
            Service(lambda lists, factor, keys: "", partitions=10),
            (True, -1),
            set(),
            ["has 10 partitions, wanted 1: topiarist uses partition 0 alone"],
        ),
    ],
)
def test_a_service_makes_the_topic_as_it_can(
    service: Service, shape: tuple[bool, int], dropped: set[str], notices: list[str]
) -> None:
    """One topic is made, with all that the service takes; the notices say what it lacks, and the rest made nothing."""
    created = service.run()
    (made,) = service.made
    assert (created.found, created.own_id) == (FOUND, FOUND.topic_id)
    assert (bool(made.assignments), made.replication_factor) == shape
    assert made.num_partitions == (-1 if shape[0] else 1)
    assert {each.name for each in made.configs} == _wanted_configs(3).keys() - dropped
    assert len(created.notices) == len(notices)
    assert all(wanted in found for wanted, found in zip(notices, created.notices, strict=True))
    assert service.asked <= 10


def test_a_service_that_accepts_one_request_is_asked_once() -> None:
    """Apache Kafka sees the one request that it saw before."""
    service = Service(lambda lists, factor, keys: "")
    service.run()
    assert service.asked == 1


def test_a_service_that_compacts_nothing() -> None:
    """No form is accepted: the error has the first refusal and the way out, and nothing was made."""
    service = Service(lambda lists, factor, keys: "no compaction" if "cleanup.policy" in keys else "")
    with pytest.raises(TopiaristError, match="no compaction") as caught:
        service.run()
    assert "spec.kafka.records: None" in caught.value.hint
    assert service.made == []


@pytest.mark.parametrize("code", [0, 3, 41])
def test_the_deletion_of_a_topic(code: int) -> None:
    """It names the id alone, so that no later topic is deleted."""
    session = ScriptedSession({"DeleteTopics": reply(responses=[reply(error_code=code)])})
    assert delete_topic(session, FOUND.topic_id) is (code == 0)
    (wanted,) = session.sent[0].request.topics
    assert (wanted.name, wanted.topic_id) == (None, TOPIC_ID)


META = Meta(FOUND.cluster_id, FOUND.topic_id)


@pytest.mark.parametrize(
    ("written", "asked", "is_own"),
    [
        ("topiarist", "topiarist", True),
        ("team-a", "team-a", True),
        ("topiarist", "team-a", False),
        ("team-a", "topiarist", False),
    ],
)
def test_records_of_another_transactional_id(written: str, asked: str, is_own: bool) -> None:
    """Two runs with different ones would not fence each other, so the first that writes decides."""
    meta = build_meta(FOUND, RECORDS_TOPIC._replace(transactional_id=written))
    topic = RECORDS_TOPIC._replace(transactional_id=asked)
    if is_own:
        require_own(Records(meta=meta), FOUND, topic)
        return
    with pytest.raises(TopiaristError, match=f"transactional id {written}, this Cluster has {asked}") as caught:
        require_own(Records(meta=meta), FOUND, topic)
    assert caught.value.hint.endswith(f"spec.kafka.records.transactionalId: {written}")


@pytest.mark.parametrize(
    ("records", "origin"),
    [
        (Records(meta=META), ""),
        (Records(), ""),
        (
            Records(meta=replace(META, topic_id="OLD")),
            "of cluster cluster, topic id OLD; this is cluster cluster, topic",
        ),
        (Records(meta=replace(META, cluster_id="OTHER")), "of cluster OTHER, topic id"),
        (Records(lock=Lock(number=1)), "of an unknown place"),
        (Records(topics={"a": TopicRecord(OwnershipRecord("team"), "ID")}), "of an unknown place"),
        (Records(errors={"a": ReadError("a", "bad")}), "of an unknown place"),
    ],
)
def test_records_of_another_topic(records: Records, origin: str) -> None:
    """A copied or recreated topic is refused, with both places and what to do; an empty one is new."""
    if not origin:
        require_own(records, FOUND, RECORDS_TOPIC)
        return
    with pytest.raises(TopiaristError) as caught:
        require_own(records, FOUND, RECORDS_TOPIC)
    assert caught.value.reason is Reason.RECORDS_LOST
    assert f"the records in {RECORDS_TOPIC.name} are {origin}" in caught.value.args[0]
    assert caught.value.hint.startswith("the topic was copied or recreated")


def test_the_usual_transactional_id_is_not_written() -> None:
    """The bytes of earlier releases stay, and they refuse to read those of another id."""
    assert build_meta(FOUND, RECORDS_TOPIC) == META
    assert b"transactional" not in encode_value(META)
    assert b'"transactionalId":"x"' in encode_value(build_meta(FOUND, RECORDS_TOPIC._replace(transactional_id="x")))
