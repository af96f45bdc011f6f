"""The topic of records: how it is found and created, and what a run refuses to write to."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from topiarist.adapters.kafka_admin.connection.topic_ids import NO_ID, encode_topic_id
from topiarist.adapters.kafka_admin.records.transactions import (
    Clock,
    FoundTopic,
    choose_replicas,
    create_topic,
    find_topic,
    require_compaction,
)
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import DEFAULT_RECORDS_TOPIC
from unit.adapters.kafka_admin.scripted_session import FakeTime, ScriptedSession, metadata, partition, reply

TOPIC = DEFAULT_RECORDS_TOPIC
ID = uuid.UUID(int=5)
FOUND = FoundTopic("cluster", encode_topic_id(ID))


def described(*partitions: Any, code: int = 0, name: str = TOPIC.name, topic_id: uuid.UUID = ID, **fields: Any) -> Any:
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
        (described(partition(0, 1), cluster_id=None), FoundTopic("", FOUND.topic_id)),
        (described(code=3), None),
        (metadata({}), None),
        (described(partition(0, 1), name="other"), None),
    ],
)
def test_the_topic_is_found(answer: Any, found: FoundTopic | None) -> None:
    """A topic without a leader exists, with its id; an unknown topic and an answer without it are none."""
    assert find_topic(ScriptedSession({"Metadata": answer}), TOPIC) == found


@pytest.mark.parametrize(
    ("answer", "reason", "message"),
    [
        (described(code=29), Reason.NO_PERMISSION, f"lacks Describe on the topic {TOPIC.name}"),
        (described(code=17), Reason.UNREADABLE, "cannot read __topiarist"),
        (described(partition(0, 1), code=6), Reason.UNREACHABLE, "cannot read __topiarist"),
        (described(partition(0, 1), partition(1, 1)), Reason.RECORDS_LOST, "has 2 partitions, wanted 1"),
        (described(), Reason.RECORDS_LOST, "has 0 partitions, wanted 1"),
        (described(partition(0, 1), topic_id=NO_ID), Reason.PREREQUISITE_MISSING, "give __topiarist no topic id"),
    ],
)
def test_another_topic_is_refused(answer: Any, reason: Reason, message: str) -> None:
    """A topic that is hidden, unreadable, or has another shape."""
    with pytest.raises(TopiaristError) as caught:
        find_topic(ScriptedSession({"Metadata": answer}), TOPIC)
    assert caught.value.reason is reason
    assert message.replace("__topiarist", TOPIC.name) in caught.value.args[0]
    assert "again" not in caught.value.hint


def configs(value: str | None, code: int = 0) -> Any:
    """Return an answer to DescribeConfigs."""
    entries = [reply(name="other", value="compact"), reply(name="cleanup.policy", value=value)]
    return reply(results=[reply(error_code=code, configs=entries if value is not None else entries[:1])])


def test_a_compacted_topic() -> None:
    """The request asks for one key of the topic."""
    session = ScriptedSession({"DescribeConfigs": configs("compact")})
    require_compaction(session, TOPIC)
    (resource,) = session.sent[0].request.resources
    assert (resource.resource_type, resource.resource_name) == (2, TOPIC.name)
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
        require_compaction(ScriptedSession({"DescribeConfigs": answer}), TOPIC)
    assert caught.value.reason is reason
    assert message in caught.value.args[0]


class Creation:
    """The creation of the topic over a script, in virtual time."""

    def __init__(self, *answers: Any, code: int = 0, **fields: Any) -> None:
        self.clock = FakeTime()
        created = reply(topics=[reply(name=TOPIC.name, error_code=code, error_message="why")])
        self.session = ScriptedSession({"Metadata": [metadata({}, **fields), *answers], "CreateTopics": created})

    def run(self) -> FoundTopic:
        """Create the topic."""
        return create_topic(self.session, TOPIC, Clock(self.clock.now, self.clock.sleep, self.clock.random))


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
        TOPIC.name,
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
        (Creation(code=44), Reason.UNREADABLE, "cannot create"),
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
