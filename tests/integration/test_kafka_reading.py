"""Reading from a broker that is behind, hides something, or answers in part: what is refused, what is waited for."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.admin import DescribeConfigsResponse, DescribeQuorumResponse
from kafka.protocol.metadata import ApiVersionsResponse

from support.kafka.scripted_broker import (
    API_VERSIONS,
    METADATA,
    SERVED,
    Answer,
    ScriptedBroker,
    answer_with,
    close,
    metadata_response,
    say_nothing,
    send_raw,
)
from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import Disconnected, UnsupportedRequest, encode_topic_id
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read import sync as sync_module
from topiarist.adapters.kafka_admin.read.configs import MIN_BATCH_SIZE, read_overrides
from topiarist.adapters.kafka_admin.read.metadata import read_topic_id_errors
from topiarist.adapters.kafka_admin.read.sync import Quorum, find_migration_readiness, sync
from topiarist.adapters.kafka_admin.read.topic_reader import MAX_BROKEN_READS, read_again
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import ClusterMode
from topiarist.model.access import KafkaAccess

DESCRIBE_CONFIGS, DESCRIBE_QUORUM = DescribeConfigsResponse.API_KEY, DescribeQuorumResponse.API_KEY
KRAFT = {**SERVED, DESCRIBE_CONFIGS: (1, 4), DESCRIBE_QUORUM: (0, 1)}


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """Start a broker in KRaft mode; its metadata has 8 records, up to offset 7."""
    with ScriptedBroker() as broker:
        broker.answers[API_VERSIONS] = [versions(7)]
        broker.answers[DESCRIBE_QUORUM] = [quorum(8)]
        yield broker


@pytest.fixture
def session(broker: ScriptedBroker) -> Iterator[Session]:
    """Return a session that has no connection yet."""
    session = Session(KafkaAccess(broker.address, request_timeout=0.5), 5.0)
    yield session
    session.close()


def versions(epoch: int, served: dict[int, tuple[int, int]] | None = None, *, ready: bool = False) -> Answer:
    """Return the answer to ApiVersions of a broker with metadata up to the offset ``epoch``."""
    keys = [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in (KRAFT if served is None else served).items()
    ]
    response: Any = ApiVersionsResponse(api_keys=keys, finalized_features_epoch=epoch, zk_migration_ready=ready)
    return answer_with(response)


def quorum(high_watermark: int, *, leader: int = 3000, error_code: int = 0, of_partition: int = 0) -> Answer:
    """Return the answer to DescribeQuorum: of the whole request, or of the partition, with this error."""
    topic = DescribeQuorumResponse.TopicData
    partition = topic.PartitionData(
        partition_index=0,
        error_code=of_partition,
        leader_id=leader,
        leader_epoch=2,
        high_watermark=high_watermark,
        current_voters=[],
        observers=[],
    )
    topics = [topic(topic_name="__cluster_metadata", partitions=[partition])]
    return answer_with(DescribeQuorumResponse(error_code=error_code, topics=topics))


def configs(*codes: tuple[str, int]) -> Answer:
    """Return the answer to DescribeConfigs with these topics and their error codes, without configs."""
    results = [
        DescribeConfigsResponse.DescribeConfigsResult(
            error_code=code, error_message=None, resource_type=2, resource_name=name, configs=[]
        )
        for name, code in codes
    ]
    return answer_with(DescribeConfigsResponse(throttle_time_ms=0, results=results))


def error_of_sync(session: Session, timeout: float = 5.0) -> TopiaristError:
    """Return the error of a sync."""
    with pytest.raises(TopiaristError) as caught:
        sync(session, timeout)
    return caught.value


def test_a_sync_waits_for_the_broker(broker: ScriptedBroker, session: Session) -> None:
    """A broker that lacks one record is asked again; the end of the log is asked for once, and first."""
    broker.answers[API_VERSIONS] = [versions(7), versions(7), versions(8), versions(9)]
    broker.answers[DESCRIBE_QUORUM] = [quorum(10)]
    synced = sync(session)
    assert (synced.mode, synced.quorum, synced.warnings) == (ClusterMode.KRAFT, Quorum(3000, 2, 10), ())
    assert broker.requests[API_VERSIONS] == 4  # one to connect
    assert broker.requests[DESCRIBE_QUORUM] == 1


def test_a_broker_that_stays_behind_is_not_read(broker: ScriptedBroker, session: Session) -> None:
    """The wait ends with an error that says how far behind the broker is."""
    broker.answers[DESCRIBE_QUORUM] = [quorum(2_008)]
    error = error_of_sync(session, 0.1)
    assert error.reason is Reason.UNREACHABLE
    assert "2,000 records of metadata behind" in str(error)
    assert error.hint == "run again when the brokers are less busy; nothing is planned from old metadata"


@pytest.mark.parametrize("answer", [quorum(8, error_code=31), quorum(8, of_partition=31)])
def test_without_the_right_to_ask_a_sync_warns(
    monkeypatch: pytest.MonkeyPatch, broker: ScriptedBroker, session: Session, answer: Answer
) -> None:
    """Without Describe on the cluster the read goes on some time later, and says that it may be old."""
    monkeypatch.setattr(sync_module, "SETTLE_S", 0.01)
    broker.answers[DESCRIBE_QUORUM] = [answer]
    synced = sync(session)
    assert (synced.quorum, synced.warnings) == (None, (sync_module.WARNING_UNSYNCED,))


@pytest.mark.parametrize(
    "answer",
    [
        quorum(8, leader=-1),
        quorum(8, error_code=41),
        quorum(8, of_partition=6),
        answer_with(DescribeQuorumResponse(error_code=0, topics=[])),
        say_nothing,
    ],
    ids=["no-leader", "error", "error-of-the-partition", "no-partition", "silence"],
)
def test_there_is_no_read_without_a_controller(
    monkeypatch: pytest.MonkeyPatch, broker: ScriptedBroker, session: Session, answer: Answer
) -> None:
    """Any answer that does not name the controller and the end of the log is none."""
    monkeypatch.setattr(sync_module, "QUORUM_TIMEOUT_S", 0.2)
    broker.answers[DESCRIBE_QUORUM] = [answer]
    assert error_of_sync(session).reason is Reason.NO_CONTROLLER


def test_zookeeper_mode_has_no_quorum(broker: ScriptedBroker, session: Session) -> None:
    """A broker that does not offer DescribeQuorum is never asked for it; the controller is read from."""
    broker.answers[API_VERSIONS] = [versions(0, SERVED)]
    synced = sync(session)
    assert (synced.mode, synced.quorum, synced.migration_ready) == (ClusterMode.ZOOKEEPER, None, False)
    assert DESCRIBE_QUORUM not in broker.requests


def test_a_migration_shows_in_zookeeper_mode(
    monkeypatch: pytest.MonkeyPatch, broker: ScriptedBroker, session: Session
) -> None:
    """Brokers that are ready for it are told from the others; a broker in KRaft mode is neither."""
    monkeypatch.setattr(sync_module, "SETTLE_S", 0.01)
    broker.answers[API_VERSIONS] = [versions(0, SERVED, ready=True)]
    synced = sync(session)
    assert (synced.migration_ready, synced.warnings) == (True, (sync_module.WARNING_MIGRATING,))
    assert find_migration_readiness(session, [1, 99]) == ([1], [], [99])
    broker.answers[API_VERSIONS] = [versions(0, SERVED)]
    assert find_migration_readiness(session, [1]) == ([], [1], [])
    broker.answers[API_VERSIONS] = [versions(12)]
    assert find_migration_readiness(session, [1]) == ([], [], [])


def test_a_topic_without_a_result_is_a_fault(broker: ScriptedBroker, session: Session) -> None:
    """A topic that the answer leaves out does not read as one without overrides, nor as one that was deleted."""
    broker.answers[DESCRIBE_CONFIGS] = [configs(("a", 0), ("other", 0))]
    with pytest.raises(TopiaristError, match="does not have the configs of topic b") as caught:
        read_overrides(session, session.any_broker(), ["a", "b"])
    assert caught.value.reason is Reason.UNREADABLE


def test_every_error_of_a_topic_is_read(broker: ScriptedBroker, session: Session) -> None:
    """A topic that was deleted is None; without the right to describe, and for any other error, nothing is returned."""
    broker.answers[DESCRIBE_CONFIGS] = [configs(("a", 0), ("b", error_codes.UNKNOWN_TOPIC_OR_PARTITION))]
    assert read_overrides(session, session.any_broker(), ["a", "b"]) == {"a": {}, "b": None}
    for code, reason in ((29, Reason.NO_PERMISSION), (7, Reason.UNREACHABLE), (40, Reason.UNREADABLE)):
        broker.answers[DESCRIBE_CONFIGS] = [configs(("a", 0), ("b", code))]
        with pytest.raises(TopiaristError, match="cannot read the configs of topic b") as caught:
            read_overrides(session, session.any_broker(), ["a", "b"])
        assert caught.value.reason is reason


def test_many_topics_are_several_requests(broker: ScriptedBroker, session: Session) -> None:
    """No topic is left out or asked for twice at the limits of the batches."""
    names = [f"t-{number:04}" for number in range(2 * MIN_BATCH_SIZE + 1)]
    starts = range(0, len(names), MIN_BATCH_SIZE)
    broker.answers[DESCRIBE_CONFIGS] = [
        configs(*((name, 0) for name in names[start : start + MIN_BATCH_SIZE])) for start in starts
    ]
    assert read_overrides(session, session.any_broker(), names) == {name: {} for name in names}
    assert broker.requests[DESCRIBE_CONFIGS] == 3


def test_what_cannot_be_decoded_breaks_the_connection(broker: ScriptedBroker, session: Session) -> None:
    """An answer in another form is an error of the connection, which is not used again."""
    broker.answers[DESCRIBE_CONFIGS] = [send_raw(b"\0\0\0\0\0\x05\0")]
    connection = session.any_broker()
    with pytest.raises(Disconnected, match="cannot be decoded"):
        read_overrides(session, connection, ["a"])
    assert not connection.is_open


@pytest.mark.parametrize("served", [(0, 0), (5, 6)])
def test_versions_of_configs(broker: ScriptedBroker, session: Session, served: tuple[int, int]) -> None:
    """A broker that offers no version with the sources of values is not asked."""
    broker.answers[API_VERSIONS] = [versions(7, {**KRAFT, DESCRIBE_CONFIGS: served})]
    with pytest.raises(UnsupportedRequest):
        read_overrides(session, session.any_broker(), ["a"])
    assert DESCRIBE_CONFIGS not in broker.requests


def test_an_id_without_an_answer_is_not_gone(broker: ScriptedBroker, session: Session) -> None:
    """A topic id that the answer leaves out has an error of its own, and not that of an unknown id."""
    broker.answers[METADATA] = [answer_with(metadata_response(broker.port))]
    topic_id = encode_topic_id(uuid.UUID(int=5))
    assert topic_id is not None
    found = read_topic_id_errors(session.any_broker(), [topic_id])
    assert found == {topic_id: error_codes.UNKNOWN_SERVER_ERROR}


def test_a_read_begins_anew_after_a_broken_connection(broker: ScriptedBroker, session: Session) -> None:
    """A read is repeated whole, with a sync of its own, and not for ever."""

    def read() -> object:
        synced = sync(session)
        return read_overrides(session, synced.connection, ["a"])

    broker.answers[DESCRIBE_CONFIGS] = [close, configs(("a", 0))]
    assert read_again(read) == {"a": {}}
    assert broker.requests[DESCRIBE_QUORUM] == 2
    broker.answers[DESCRIBE_CONFIGS] = [close]
    broker.requests.clear()
    with pytest.raises(TopiaristError, match="the connection to a broker broke") as caught:
        read_again(read)
    assert caught.value.reason is Reason.UNREACHABLE
    assert broker.requests[DESCRIBE_CONFIGS] == broker.requests[DESCRIBE_QUORUM] == MAX_BROKEN_READS
