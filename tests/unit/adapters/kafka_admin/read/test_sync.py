"""The wait for metadata that are not old: what is asked of whom, and what the answers say about the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from topiarist.adapters.kafka_admin.connection.connection import Disconnected, Features
from topiarist.adapters.kafka_admin.read import sync as sync_module
from topiarist.adapters.kafka_admin.read.capabilities import MIN_VERSION, find_mode, find_version, offers_quorum
from topiarist.adapters.kafka_admin.read.sync import (
    LACKS_DESCRIBE,
    WARNING_MIGRATING,
    WARNING_NO_PROOF,
    WARNING_UNSYNCED,
    MigrationReadiness,
    Quorum,
    SyncedBroker,
    find_migration_readiness,
    lend_synced,
    read_quorum,
    read_reassignments,
    sync,
    sync_to_read,
)
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import MAX_KAFKA_VERSION, ClusterMode, KafkaVersion
from topiarist.model.state import GIVEN, Support
from unit.adapters.kafka_admin.scripted_session import (
    LOST,
    NOT_SENT,
    FakeTime,
    ScriptedSession,
    metadata,
    partition,
    reply,
)

QUORUM_KEY, UPDATE_METADATA = 55, 6


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """Replace the time."""
    clock = FakeTime()
    monkeypatch.setattr(sync_module, "time", clock)
    return clock


def versions(epoch: int = 99, level: int = 22, *, ready: bool | None = None) -> Any:
    """Return an answer to ApiVersions."""
    features = [reply(name="other", max_version=999), reply(name="metadata.version", max_version=level)]
    fields: dict[str, Any] = {} if ready is None else {"zk_migration_ready": ready}
    return reply(error_code=0, finalized_features_epoch=epoch, supported_features=features, **fields)


def quorum(leader: int = 3000, code: int = 0, high_watermark: int = 100, whole: int = 0) -> Any:
    """Return an answer to DescribeQuorum."""
    other = reply(partition_index=1, error_code=42, leader_id=1, leader_epoch=1, high_watermark=1)
    state = reply(partition_index=0, error_code=code, leader_id=leader, leader_epoch=5, high_watermark=high_watermark)
    topics = [
        reply(topic_name="other", partitions=[other]),
        reply(topic_name="__cluster_metadata", partitions=[other, state]),
    ]
    return reply(error_code=whole, topics=topics)


def session(**script: Any) -> ScriptedSession:
    """Return a session in KRaft mode."""
    return ScriptedSession({"ApiVersions": versions(), "DescribeQuorum": quorum(), **script})


@pytest.mark.parametrize(("epoch", "is_current"), [(98, False), (99, True), (100, True)])
def test_a_broker_is_waited_for(epoch: int, is_current: bool, clock: FakeTime) -> None:
    """The last record is the one before the high watermark; pauses begin short and grow."""
    over = session(ApiVersions=[versions(epoch), versions(97), versions(97), versions(99)])
    found = sync(over)  # type: ignore[arg-type]
    assert found == SyncedBroker(found.connection, ClusterMode.KRAFT, Quorum(3000, 5, 100), (4, 0))
    assert clock.slept == ([] if is_current else [0.002, 0.004, 0.008])
    assert over.sent[0].timeout == 15
    (topic,) = over.sent[0].request.topics
    assert (topic.topic_name, [each.partition_index for each in topic.partitions]) == ("__cluster_metadata", [0])


def test_a_broker_with_the_first_record_of_metadata(clock: FakeTime) -> None:
    """An epoch of zero is one, and proves as much as any other; only a broker without features has none."""
    found = sync(session(ApiVersions=versions(0), DescribeQuorum=quorum(high_watermark=1)))  # type: ignore[arg-type]
    assert (found.quorum, found.warnings, clock.slept) == (Quorum(3000, 5, 1), (), [])


def test_a_broker_that_stays_behind(clock: FakeTime) -> None:
    """After a minute nothing is read; pauses are a tenth of a second at most."""
    with pytest.raises(TopiaristError, match="is 9 records of metadata behind after 60 s") as caught:
        sync(session(ApiVersions=versions(90)))  # type: ignore[arg-type]
    assert caught.value.reason is Reason.UNREACHABLE
    assert caught.value.hint == "run again when the brokers are less busy; topiarist does not plan with old metadata"
    assert sum(clock.slept) == pytest.approx(60, abs=0.2)
    assert max(clock.slept) == 0.1


@pytest.mark.parametrize("code", [29, 31])
def test_without_the_right_to_ask(code: int, clock: FakeTime) -> None:
    """The metadata may be old: a second is waited for, with a warning."""
    found = sync(session(DescribeQuorum=quorum(code=code)))  # type: ignore[arg-type]
    assert found == SyncedBroker(found.connection, ClusterMode.KRAFT, None, (4, 0), (WARNING_UNSYNCED,), LACKS_DESCRIBE)
    assert clock.slept == [1.0]


@pytest.mark.parametrize("answer", [quorum(code=31), quorum(code=35), quorum(code=42), quorum(whole=35)])
def test_a_second_is_waited_for_once(answer: Any, clock: FakeTime) -> None:
    """Reads of a session wait until a second after the last change that it has made or seen, and not again.

    A look before a write waits for a second of its own.
    """
    over = session(DescribeQuorum=answer)
    over.changed_at = clock.current - 0.25
    waited = []
    for change in (False, False, True, False):
        if change:
            over.changed_at = clock.current
        clock.slept.clear()
        found = sync_to_read(over)  # type: ignore[arg-type]
        assert found.freshness.is_denied
        waited.append(sum(clock.slept))
    assert waited == [0.75, 0, 1, 0]
    sync(over)  # type: ignore[arg-type]
    assert clock.slept == [1.0]


@pytest.mark.parametrize(
    "partial",
    [
        metadata(brokers=()),
        metadata(),
        metadata({"orders": [partition(0, 1, 2)]}, brokers=(2, 3)),
        metadata({"orders": 5}),
    ],
    ids=["nothing", "brokers alone", "too few brokers", "no partitions"],
)
@pytest.mark.parametrize("restarted", [1, 2, 3])
def test_a_broker_that_was_restarted_for_a_migration(partial: Any, restarted: int, clock: FakeTime) -> None:
    """Until all brokers know the same, nothing is read: a restarted one would show all topics as new."""
    whole, attempts = metadata({"orders": [partition(0, 1, 2)]}), []

    def answer(broker: int, _: Any) -> Any:
        attempts.append(broker)
        return partial if broker == restarted and attempts.count(restarted) <= lasts else whole

    over = session(ApiVersions=versions(0, 8, ready=True), Metadata=answer)
    over.api_keys.discard(QUORUM_KEY)
    lasts = 4
    assert sync(over).warnings == (WARNING_MIGRATING,)  # type: ignore[arg-type]
    assert attempts.count(restarted) > lasts
    assert 1.0 < sum(clock.slept) < 1.1
    lasts = 10_000
    with pytest.raises(TopiaristError, match="answer differently after 60 s") as caught:
        sync(over)  # type: ignore[arg-type]
    assert caught.value.reason is Reason.UNREACHABLE
    assert "are back; topiarist does not plan before" in caught.value.hint
    over.unreachable.add(2)
    lasts = 0
    assert sync(over).warnings == (WARNING_MIGRATING,)  # type: ignore[arg-type]


@pytest.mark.parametrize(("ready", "warnings"), [(None, ()), (False, ()), (True, (WARNING_MIGRATING,))])
def test_zookeeper_mode(ready: bool | None, warnings: tuple[str, ...], clock: FakeTime) -> None:
    """The controller is read; while brokers follow a KRaft controller, a second is waited for."""
    over = session(ApiVersions=versions(0, 8, ready=ready), Metadata=metadata({"orders": [partition(0, 1, 2)]}))
    over.api_keys.discard(QUORUM_KEY)
    found = sync(over)  # type: ignore[arg-type]
    freshness = Support(False, "the brokers follow a KRaft controller") if ready else GIVEN
    assert found == SyncedBroker(found.connection, ClusterMode.ZOOKEEPER, None, (3, 4), warnings, freshness)
    assert clock.slept == [1.0] * len(warnings)
    assert over.sent[0][:2] == (3, "ApiVersions")
    assert over.names()[1:] == ["Metadata"] * (5 if ready else 0)
    assert not offers_quorum(over.any_broker())
    assert offers_quorum(session().any_broker())


SILENT = "the controller does not answer"
LACKS = "cannot ask the controller: User:ANONYMOUS lacks Describe on the cluster (CLUSTER_AUTHORIZATION_FAILED)"


@pytest.mark.parametrize(
    ("answer", "reason", "message"),
    [
        (quorum(-1), Reason.NO_CONTROLLER, f"{SILENT}: the quorum has no leader"),
        (quorum(code=6), Reason.NO_CONTROLLER, f"{SILENT}: NOT_LEADER_OR_FOLLOWER (6)"),
        (quorum(whole=41), Reason.NO_CONTROLLER, f"{SILENT}: NOT_CONTROLLER (41)"),
        *(
            (
                reply(error_code=0, topics=topics),
                Reason.NO_CONTROLLER,
                f"{SILENT}: UNKNOWN_TOPIC_OR_PARTITION (3)",
            )
            for topics in ([], [reply(topic_name="__cluster_metadata", partitions=[])])
        ),
        (
            Disconnected("no answer in time", was_sent=True, is_late=True),
            Reason.NO_CONTROLLER,
            f"{SILENT}: no answer in time",
        ),
        (quorum(code=31), Reason.NO_PERMISSION, LACKS),
    ],
)
def test_no_controller(answer: Any, reason: Reason, message: str) -> None:
    """Without a controller there is no answer, or one without a leader; a missing right is named."""
    over = session(DescribeQuorum=answer)
    with pytest.raises(TopiaristError) as caught:
        read_quorum(over, over.any_broker())  # type: ignore[arg-type]
    assert (caught.value.reason, caught.value.message) == (reason, message)
    assert caught.value.hint == ("run again" if reason is Reason.NO_CONTROLLER else "grant it with kafka-acls")


@pytest.mark.parametrize("error", [LOST, NOT_SENT])
def test_a_broken_connection_is_no_missing_controller(error: Disconnected) -> None:
    """Only a broker that keeps its connection and gives no answer waits for a controller."""
    over = session(DescribeQuorum=error)
    with pytest.raises(Disconnected):
        read_quorum(over, over.any_broker())  # type: ignore[arg-type]


def test_the_first_leader() -> None:
    """It has the id 0."""
    over = session(DescribeQuorum=quorum(0))
    assert read_quorum(over, over.any_broker()).leader == 0  # type: ignore[arg-type]


NO_PROOF: dict[str, tuple[dict[str, Any], str]] = {
    "not offered": ({}, "the brokers do not offer DescribeQuorum"),
    "unsupported version": (
        {"DescribeQuorum": quorum(whole=35)},
        "the brokers answer DescribeQuorum with UNSUPPORTED_VERSION (35)",
    ),
    "invalid request": (
        {"DescribeQuorum": quorum(code=42)},
        "the brokers answer DescribeQuorum with INVALID_REQUEST (42)",
    ),
    "no features": ({"ApiVersions": versions(-1)}, "the brokers have no finalized features"),
}


@pytest.mark.parametrize("case", NO_PROOF)
def test_without_proof_of_freshness(case: str, clock: FakeTime) -> None:
    """What is never answered is not waited for: a KRaft broker is read after a second, with a warning that says why."""
    script, words = NO_PROOF[case]
    over = session(**script)
    over.features = Features(frozenset({"metadata.version"}), 99)
    if case == "not offered":
        over.api_keys.discard(QUORUM_KEY)
    found = sync(over)  # type: ignore[arg-type]
    assert found.warnings == (WARNING_NO_PROOF + found.freshness.why,)
    assert words in found.freshness.why
    assert found == SyncedBroker(
        found.connection, ClusterMode.KRAFT, None, (4, 0), found.warnings, Support(False, found.freshness.why)
    )
    assert clock.slept == [1.0]


MODES: list[tuple[Features, set[int], ClusterMode]] = [
    (Features(epoch=0), {UPDATE_METADATA}, ClusterMode.ZOOKEEPER),
    (Features(epoch=-1), {UPDATE_METADATA}, ClusterMode.ZOOKEEPER),  # a broker of 2.8 with an older protocol
    (Features(epoch=1), {UPDATE_METADATA}, ClusterMode.ZOOKEEPER),  # after an upgrade from 2.6
    (Features(frozenset({"metadata.version"}), 70), {QUORUM_KEY}, ClusterMode.KRAFT),
    (Features(frozenset({"metadata.version"}), 70), set(), ClusterMode.KRAFT),
    (Features(frozenset({"kraft.version"}), 70), {UPDATE_METADATA}, ClusterMode.KRAFT),
    (Features(epoch=70), set(), ClusterMode.KRAFT),
    (Features(epoch=-1), set(), ClusterMode.KRAFT),  # a service without features
]


@pytest.mark.parametrize(("features", "keys", "mode"), MODES)
def test_modes(features: Features, keys: set[int], mode: ClusterMode) -> None:
    """The features decide, and the requests of one mode; a broker without DescribeQuorum is not of ZooKeeper mode."""
    over = session()
    over.features, over.api_keys = features, {3, *keys}
    assert find_mode(over.any_broker()) is mode


@pytest.mark.parametrize(("epoch", "is_opened"), [(98, False), (99, True), (150, True)])
def test_a_further_connection(epoch: int, is_opened: bool) -> None:
    """It may lead to another broker, which must not be older; without a quorum nothing shows that."""
    over = session()
    synced = sync(over)  # type: ignore[arg-type]
    over.script["ApiVersions"] = versions(epoch)
    with lend_synced(over, synced) as another:  # type: ignore[arg-type]
        assert (another is not None) is is_opened
    with lend_synced(over, synced._replace(quorum=None)) as another:  # type: ignore[arg-type]
        assert another is None


def test_a_list_of_reassignments_that_is_or_was_not_empty(clock: FakeTime) -> None:
    """Replica lists have changed then, so the next read must show them; two empty lists say nothing."""
    partition = reply(partition_index=0, replicas=[1, 2], adding_replicas=[2], removing_replicas=[])
    moving = [reply(name="a", partitions=[partition])]
    script = [reply(error_code=0, error_message=None, topics=each) for each in ([], moving, [], [])]
    over = ScriptedSession({"ListPartitionReassignments": script})
    times = []
    for _ in range(4):
        clock.current += 1
        read_reassignments(over, over.any_broker())  # type: ignore[arg-type]
        times.append(over.changed_at)
    assert times == [0.0, clock.current - 2, clock.current - 1, clock.current - 1]


def test_migration_readiness() -> None:
    """Each broker is asked; brokers in KRaft mode do not count."""
    answers = {1: versions(0, ready=True), 2: versions(0, ready=False), 3: versions(0), 4: versions(1), 5: versions(-1)}

    def answer(broker: int, _: Any) -> Any:
        over.api_keys = {3, QUORUM_KEY} if broker == 4 else {3, UPDATE_METADATA}
        return answers[broker]

    over = ScriptedSession({"ApiVersions": answer})
    over.unreachable.add(6)
    found = find_migration_readiness(over, [1, 2, 3, 4, 5, 6])  # type: ignore[arg-type]
    assert found == MigrationReadiness([1], [2, 3, 5], [6])


LEVELS: list[tuple[int, KafkaVersion]] = [
    *((0, (2, 8)), (1, (3, 0)), (6, (3, 0)), (7, (3, 3)), (8, (3, 4)), (9, (3, 5)), (11, (3, 5)), (12, (3, 6))),
    *((14, (3, 6)), (15, (3, 7)), (19, (3, 7)), (20, (3, 8)), (21, (3, 9)), (22, (4, 0)), (25, (4, 0)), (26, (4, 1))),
    *((27, (4, 1)), (28, (4, 2)), (29, (4, 2)), (30, (4, 3)), (31, (4, 4)), (99, MAX_KAFKA_VERSION)),
]
"""The levels of ``metadata.version`` in Kafka's source, ``MetadataVersion``."""


@pytest.mark.parametrize(("level", "version"), LEVELS)
def test_versions(level: int, version: KafkaVersion) -> None:
    """The level of the metadata that a broker can read shows its version."""
    assert find_version(versions(level=level)) == version


def test_a_broker_without_features() -> None:
    """It is as old as the oldest that is supported."""
    assert find_version(reply(supported_features=[])) == MIN_VERSION == (2, 8)
