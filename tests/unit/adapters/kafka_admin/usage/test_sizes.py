"""The bytes of replicas: the sizes that count, and which brokers have proved that they may be read."""

from __future__ import annotations

from typing import Any

import pytest

from topiarist.adapters.kafka_admin.usage.groups import UsageRequests
from topiarist.adapters.kafka_admin.usage.reader import read_sizes
from topiarist.model.usage import UsageProblem
from unit.adapters.kafka_admin.scripted_session import LOST, ScriptedSession, reply


def directory(*sizes: tuple[str, int, int, bool], code: int = 0) -> Any:
    """Return a log directory with replicas: topic, partition, bytes, and whether the replica is a future one."""
    topics = [
        reply(
            name=name,
            partitions=[
                reply(partition_index=number, partition_size=size, offset_lag=0, is_future_key=is_future)
                for topic, number, size, is_future in sizes
                if topic == name
            ],
        )
        for name in dict.fromkeys(size[0] for size in sizes)
    ]
    return reply(error_code=code, log_dir="/data", topics=topics)


def test_sizes_of_all_brokers() -> None:
    """Each broker has its replicas; a copy for another directory of the broker does not count."""
    answers = {
        1: reply(
            error_code=0, results=[directory(("a", 0, 5, False), ("a", 0, 3, True)), directory(("b", 2, 7, False))]
        ),
        2: reply(results=[directory(("a", 0, 4, False))]),
    }
    requests = UsageRequests(ScriptedSession({"DescribeLogDirs": lambda broker, _: answers[broker]}))
    sizes = read_sizes(requests, [1, 2], None)
    assert sizes.replicas == {(("a", 0), 1): 5, (("b", 2), 1): 7, (("a", 0), 2): 4}
    assert sizes.described == {1, 2}
    assert requests.problems == []


@pytest.mark.parametrize(
    ("answer", "problems"),
    [
        (LOST, [UsageProblem("DescribeLogDirs", 1, 13)]),
        (reply(error_code=31, results=[]), [UsageProblem("DescribeLogDirs", 1, 31)]),
        (reply(error_code=0, results=[directory(code=56)]), [UsageProblem("DescribeLogDirs", 1, 56)]),
        (reply(error_code=0, results=[]), []),
    ],
)
def test_a_broker_without_directories(answer: Any, problems: list[UsageProblem]) -> None:
    """A lost answer, a refusal, an offline directory and none at all prove no right; the next broker is asked."""
    directories = reply(error_code=0, results=[directory(code=56), directory(("a", 0, 4, False))])

    def describe(broker: int, _request: Any) -> Any:
        if broker == 1 and isinstance(answer, Exception):
            raise answer
        return answer if broker == 1 else directories

    session = ScriptedSession({"DescribeLogDirs": describe})
    requests = UsageRequests(session)
    sizes = read_sizes(requests, [1, 2], None)
    assert sizes.described == {2}
    assert sizes.replicas == {(("a", 0), 2): 4}
    assert requests.problems == [*problems, UsageProblem("DescribeLogDirs", 2, 56)]


def test_only_wanted_partitions_are_asked_for() -> None:
    """The request groups partitions by topic; None asks for all."""
    session = ScriptedSession({"DescribeLogDirs": reply(error_code=0, results=[])})
    read_sizes(UsageRequests(session), [1], [("a", 0), ("b", 1), ("a", 2)])
    read_sizes(UsageRequests(session), [1], None)
    asked = session.sent[0].request.topics
    assert [(each.topic, each.partitions) for each in asked] == [("a", [0, 2]), ("b", [1])]
    assert session.sent[1].request.topics is None
