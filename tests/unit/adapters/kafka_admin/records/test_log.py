"""Reads of the topic of records: the request for its end, and the codes after which a read is repeated."""

from __future__ import annotations

from typing import Any

import pytest

from topiarist.adapters.kafka_admin.records import constants
from topiarist.adapters.kafka_admin.records.constants import Clock
from topiarist.adapters.kafka_admin.records.log import RecordsLog
from topiarist.adapters.kafka_admin.records.transactions import Fenced, OutcomeUnknown
from topiarist.errors import Reason, TopiaristError
from unit.adapters.kafka_admin.scripted_session import FakeTime, ScriptedSession, reply

TOPIC = "__topiarist"
BUSY = {3, 5, 6, 14, 15, 16, 51}
"""Codes of a cluster that changes its leaders, after which writes are repeated too."""

READ_AGAIN = BUSY | {-1, 7, 9, 13, 56, 72, 74, 75, 76, 78}
"""A server error, a late or broken connection, a disk, a listener, an epoch, a codec or an offset that is not known."""

FENCED, DENIED = {47, 49, 90}, {29, 30, 31, 53, 65}


def end(code: int = 0, count: int = 1) -> Any:
    """Return an answer to ListOffsets."""
    return reply(topics=[reply(partitions=[reply(error_code=code, offset=7)] * count)])


def log_over(*answers: Any) -> tuple[RecordsLog, ScriptedSession, FakeTime]:
    """Return a reader over answers to ListOffsets, in virtual time."""
    clock, session = FakeTime(), ScriptedSession({"ListOffsets": list(answers)})
    return RecordsLog(session, TOPIC, Clock(clock.now, clock.sleep, clock.random)), session, clock


def test_the_end_of_what_is_committed() -> None:
    """The request asks the leader for the latest offset of partition 0 that has no open transaction before it."""
    log, session, _ = log_over(end())
    assert log.find_end() == 7
    (sent,) = session.sent
    assert (sent.version, sent.request.replica_id, sent.request.isolation_level) == (5, -1, 1)
    (topic,) = sent.request.topics
    (partition,) = topic.partitions
    assert (topic.name, partition.partition_index, partition.timestamp) == (TOPIC, 0, -1)
    assert partition.current_leader_epoch == -1


def test_each_code_of_a_read() -> None:
    """A code that another answer can follow is repeated; a missing right is named, and any other code ends the read."""
    for code in range(-1, 110):
        log, session, clock = log_over(end(code), end())
        if code == 0 or code in READ_AGAIN:
            assert log.find_end() == 7, code
            assert clock.slept == ([constants.RETRY_INTERVAL_S] if code else []), code
            continue
        with pytest.raises((Fenced, OutcomeUnknown, TopiaristError)) as caught:
            log.find_end()
        assert isinstance(caught.value, Fenced) is (code in FENCED), code
        is_denied = isinstance(caught.value, TopiaristError) and caught.value.reason is Reason.NO_PERMISSION
        assert is_denied is (code in DENIED), code
        assert len(session.sent) == 1, code


@pytest.mark.parametrize("count", [0, 2])
def test_an_answer_for_other_partitions_is_asked_for_again(count: int) -> None:
    """An answer without exactly the one partition has no end."""
    log, session, _ = log_over(end(count=count), end())
    assert log.find_end() == 7
    assert len(session.sent) == 2
