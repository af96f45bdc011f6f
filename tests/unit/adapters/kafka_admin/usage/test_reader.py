"""The read of usage as a whole: when it is complete, and how answers become samples of topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from topiarist.adapters.kafka_admin.connection.connection import Disconnected
from topiarist.adapters.kafka_admin.usage import reader as reader_module
from topiarist.adapters.kafka_admin.usage.reader import KafkaUsageReader
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import KafkaAccess
from topiarist.model.usage import Evidence, GroupType, GroupUsage, TopicSample, UsageProblem
from unit.adapters.kafka_admin.scripted_session import LOST, FakeTime, ScriptedSession, metadata, partition, reply
from unit.adapters.kafka_admin.usage.test_groups import answer_offsets, list_of, listed, offsets
from unit.adapters.kafka_admin.usage.test_sizes import directory

OFFSETS_TOPIC = "__consumer_offsets"
PARTITIONS = {"a": [partition(0, 1, 2), partition(1, 2, 1)], "b": [partition(0, 1)]}


def answer_list_offsets(_broker: int, request: Any) -> Any:
    """Answer ListOffsets: ten records since offset 2, at the times 50 and 60."""
    known = {-1: (12, -1), -2: (2, -1), 0: (2, 50), -3: (11, 60)}
    topics = [
        reply(
            name=topic.name,
            partitions=[
                reply(
                    partition_index=each.partition_index,
                    error_code=0,
                    offset=known[each.timestamp][0],
                    timestamp=known[each.timestamp][1],
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return reply(topics=topics)


def retention(value: str | None = "10080", code: int = 0) -> Any:
    """Return an answer to DescribeConfigs."""
    configs = [reply(name="other", value="1"), reply(name="offsets.retention.minutes", value=value)]
    return reply(results=[reply(error_code=code, configs=[] if code else configs)])


def script(**changes: Any) -> Mapping[str, Any]:
    """Return the answers of two brokers with two topics and one group."""
    sizes = {
        1: [directory(("a", 0, 5, False), ("a", 1, 6, False), ("b", 0, 9, False))],
        2: [directory(("a", 0, 4, False), ("a", 1, 7, False))],
    }
    return {
        "Metadata": metadata({**PARTITIONS, OFFSETS_TOPIC: [partition(0, 1), partition(1, 2)]}, brokers=(1, 2)),
        "ListGroups": lambda broker, _: list_of(listed("g", state="Empty")) if broker == 1 else list_of(),
        "OffsetFetch": answer_offsets({"g": offsets(a={0: 7})}),
        "ListOffsets": answer_list_offsets,
        "DescribeLogDirs": lambda broker, _: reply(error_code=0, results=sizes[broker]),
        "DescribeConfigs": retention(),
        **changes,
    }


@pytest.fixture
def open_reader(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that opens a reader over a script."""

    def open_it(answers: Mapping[str, Any]) -> KafkaUsageReader:
        session = ScriptedSession(answers, brokers=(1, 2))
        arguments: list[Any] = []

        def make(access: KafkaAccess, connect_timeout: float, *, accepts_old_brokers: bool = False) -> Any:
            arguments.extend((access, connect_timeout, accepts_old_brokers))
            return session

        monkeypatch.setattr(reader_module, "Session", make)
        reader = KafkaUsageReader(KafkaAccess("kafka:9092"), 3.0)
        assert arguments == [KafkaAccess("kafka:9092"), 3.0, True]
        return reader

    return open_it


def test_a_reader_needs_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not opened if no broker can be reached, so that the error is that of the connection."""
    session = ScriptedSession({})
    session.unreachable = {*session.brokers}
    monkeypatch.setattr(reader_module, "Session", lambda *_, **__: session)
    with pytest.raises(Disconnected):
        KafkaUsageReader(KafkaAccess("kafka:9092"))


def test_a_complete_read(open_reader: Any, clock: FakeTime) -> None:
    """All answers become the evidence and the samples; Kafka's own topic of offsets is none of them."""
    opaque = reply(group_id="o", error_code=0, group_state="Stable", protocol_type="other", members=[reply()])
    answers = script(
        ListGroups=lambda broker, _: list_of(listed("g", state="Empty"), listed("o")) if broker == 1 else list_of(),
        DescribeGroups=reply(groups=[opaque]),
    )
    with open_reader(answers) as reader:
        found = reader.read()
    assert found.evidence == Evidence(
        int(clock.current),
        brokers_asked=2,
        brokers_answered=2,
        groups=2,
        groups_opaque=1,
        groups_complete=True,
        retention_minutes=10080,
    )
    group = GroupUsage("g", GroupType.CLASSIC, members=0, partitions=1, committed=7, lag=5)
    samples = {name: replace(each, groups_digest="") for name, each in found.topics.items()}
    assert samples == {
        "a": TopicSample(None, (12, 12), (2, 2), (5, 7), 22, (50, 50), (60, 60), (group,)),
        "b": TopicSample(None, (12,), (2,), (9,), 9, (50,), (60,)),
    }


def test_the_time_of_a_read_is_limited(open_reader: Any, clock: FakeTime) -> None:
    """What is not answered by then is not known; groups without an answer are counted, and problems beyond 100."""

    def wait(_broker: int, _request: Any) -> Any:
        clock.current += 31
        return list_of(listed("g"))

    evidence = open_reader(script(ListGroups=wait)).read().evidence
    assert (evidence.groups, evidence.groups_unread, evidence.groups_complete) == (1, 1, False)
    assert {(each.what, each.error) for each in evidence.problems} >= {("DescribeGroups", 7), ("DescribeLogDirs", 7)}


def test_many_problems_are_counted(open_reader: Any) -> None:
    """Evidence names a hundred of them."""

    def refuse(_broker: int, request: Any) -> Any:
        refused = [reply(partition_index=each.partition_index, error_code=29) for each in request.topics[0].partitions]
        return reply(topics=[reply(name="a", partitions=refused)])

    many = metadata({"a": [partition(number, 1) for number in range(102)]}, brokers=(1, 2))
    evidence = open_reader(script(Metadata=many, ListOffsets=refuse)).read().evidence
    assert evidence.problems == (UsageProblem("ListOffsets", 1, 29),) * 100
    assert evidence.more_problems == 2


def test_only_wanted_topics(open_reader: Any) -> None:
    """A read of some topics asks for the sizes of these only."""
    asked = []

    def describe(_broker: int, request: Any) -> Any:
        asked.append([(each.topic, each.partitions) for each in request.topics])
        return reply(error_code=0, results=[directory(("b", 0, 9, False))])

    found = open_reader(script(DescribeLogDirs=describe)).read(["b", "unknown"])
    assert [*found.topics] == ["b"]
    assert asked == [[("b", [0])]] * 2


def moved_coordinators() -> list[Any]:
    """Return metadata in which a partition of the offsets has another leader the second time."""
    first = metadata({**PARTITIONS, OFFSETS_TOPIC: [partition(0, 1, 2)]}, brokers=(1, 2))
    second = metadata({**PARTITIONS, OFFSETS_TOPIC: [partition(0, 1, 2, leader=2)]}, brokers=(1, 2))
    return [first, second]


@pytest.mark.parametrize(
    ("changes", "is_complete"),
    [
        ({"Metadata": metadata(PARTITIONS, brokers=(1, 2))}, True),
        ({"Metadata": metadata(PARTITIONS, brokers=())}, False),
        ({"ListGroups": lambda broker, _: list_of(code=31) if broker == 2 else list_of()}, False),
        ({"DescribeLogDirs": reply(error_code=0, results=[])}, False),
        ({"Metadata": moved_coordinators()}, False),
        ({"Metadata": metadata({**PARTITIONS, OFFSETS_TOPIC: [partition(0, 1, leader=-1)]}, brokers=(1, 2))}, False),
    ],
)
def test_completeness(open_reader: Any, changes: Mapping[str, Any], is_complete: bool) -> None:
    """A read is complete only if every broker listed its groups, proved its right, and no coordinator changed."""
    assert open_reader(script(**changes)).read().evidence.groups_complete is is_complete


@pytest.mark.parametrize(
    ("answers", "minutes", "problems"),
    [
        ([retention("60")], 60, ()),
        ([retention(code=31)], None, (UsageProblem("DescribeConfigs", 1, 31),)),
        ([retention(None), retention("5")], 5, ()),
        ([retention("x")], None, ()),
        ([LOST, retention("5")], 5, (UsageProblem("DescribeConfigs", 1, 13),)),
    ],
)
def test_retention_of_offsets(open_reader: Any, answers: list[Any], minutes: int | None, problems: Any) -> None:
    """The first broker that tells it counts; without the right no other one is asked."""
    evidence = open_reader(script(DescribeConfigs=answers)).read().evidence
    assert (evidence.retention_minutes, evidence.problems) == (minutes, problems)


def test_what_retention_asks_for(open_reader: Any) -> None:
    """The request names the broker that it is sent to."""
    asked: list[Any] = []

    def answer(broker: int, request: Any) -> Any:
        asked.extend(
            (broker, each.resource_type, each.resource_name, each.configuration_keys) for each in request.resources
        )
        return retention()

    open_reader(script(DescribeConfigs=answer)).read()
    assert asked == [(1, 4, "1", ["offsets.retention.minutes"])]


def test_unknown_values_of_a_partition(open_reader: Any) -> None:
    """A partition without a leader, and one that the metadata leave out, have no values; nor has an empty topic."""
    topics = {"a": [partition(0, 1), partition(2, 1, leader=-1)], "b": []}
    samples = open_reader(script(Metadata=metadata(topics, brokers=(1, 2)))).read().topics
    found = {name: (each.ends, each.begins, each.sizes, each.all_bytes) for name, each in samples.items()}
    assert found == {"a": ((12, None, None), (2, None, None), (5, None, None), None), "b": ((), (), (), None)}


def test_errors(open_reader: Any) -> None:
    """Without any broker the read ends with an error."""
    with pytest.raises(TopiaristError) as caught:
        open_reader(script(Metadata=LOST)).read()
    assert caught.value.reason is Reason.UNREACHABLE


def test_the_cluster_id(open_reader: Any) -> None:
    """It is that of the metadata."""
    reader = open_reader(script())
    assert reader.read_cluster_id() == "cluster"
    assert reader.requests == {}
