"""Single requests that brokers in memory and real brokers must both answer alike: a fake is as strict as a broker.

A module that imports ``SUITE`` has three fixtures: ``session``, ``release`` with the name of the brokers' release, and
``without_broker``, a context in which a broker does not run.
The tables have a row for each request in a state, with the answer of the brokers. Every test has topics and
transactional ids of its own, so that all of them can share one cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import pytest

from support.kafka.records_suite import unique
from support.kafka.releases import RELEASES
from support.kafka.requests import (
    Epoch,
    TransactionClient,
    build_batch,
    configure,
    create,
    delete,
    grow,
    new_topic,
    read_configs,
)
from support.waiting import wait_until
from topiarist.adapters.kafka_admin.connection.connection import Disconnected
from topiarist.adapters.kafka_admin.connection.error_codes import LOOKUP_CODES
from topiarist.adapters.kafka_admin.protocol.messages import CreateTopicsRequest, DescribeQuorumRequest, MetadataRequest

READ_AGAIN = LOOKUP_CODES | {6, 78}
"""Codes of a leader that is not elected yet, or does not know how far all replicas are."""

# Single requests for records. A state is what a client has done before, with its own transactional id and topic.


def initialized(client: TransactionClient) -> None:
    client.begin()


def added(client: TransactionClient) -> None:
    client.begin()
    assert client.settle(client.add) == 0


def written(client: TransactionClient) -> None:
    added(client)
    assert client.settle(lambda: client.produce(0)) == (0, 0)


def end(client: TransactionClient, *, commit: bool) -> None:
    """End a transaction, and wait until its marker is written."""
    written(client)
    assert client.settle(lambda: client.end(commit=commit)) == 0
    assert client.settle(lambda: client.end(commit=commit)) == 0


def committed_once(client: TransactionClient) -> None:
    end(client, commit=True)


def aborted(client: TransactionClient) -> None:
    end(client, commit=False)


def fenced(client: TransactionClient) -> None:
    """Let another producer begin, and keep the epoch of before."""
    committed_once(client)
    older = client.epoch
    client.begin()
    client.epoch = older


def unknown(client: TransactionClient) -> None:
    """Begin nothing; the epoch is one that the brokers do not know."""
    client.epoch = Epoch(123_456, 3)


def other_id(client: TransactionClient) -> Epoch:
    return client.epoch._replace(id=client.epoch.id + 100_000)


def later(client: TransactionClient) -> Epoch:
    return client.epoch._replace(number=client.epoch.number + 7)


REQUESTS: Mapping[str, Callable[[TransactionClient], int]] = {
    "init": lambda client: client.init()[0],
    "init with its epoch": lambda client: client.init(client.epoch)[0],
    "init with a later epoch": lambda client: client.init(later(client))[0],
    "init with another producer id": lambda client: client.init(other_id(client))[0],
    "init for 0 ms": lambda client: client.init(timeout_ms=0)[0],
    "init for 15 minutes": lambda client: client.init(timeout_ms=900_000)[0],
    "init for longer": lambda client: client.init(timeout_ms=900_001)[0],
    "add": lambda client: client.add(),
    "add of another producer id": lambda client: client.add(other_id(client)),
    "add of a later epoch": lambda client: client.add(later(client)),
    "produce": lambda client: client.produce(0)[0],
    "produce the next batch": lambda client: client.produce(1)[0],
    "produce with a gap": lambda client: client.produce(5)[0],
    "produce without a key": lambda client: client.produce(1, data=build_batch(client.epoch, 1, [(None, b"1")]))[0],
    "produce a large batch": lambda client: client.produce(
        1, data=build_batch(client.epoch, 1, [(b"k", b"1" * 3_000)])
    )[0],
    "produce a broken batch": lambda client: client.produce(
        1, data=broken(build_batch(client.epoch, 1, [(b"k", b"1")]))
    )[0],
    "commit": lambda client: client.end(),
    "abort": lambda client: client.end(commit=False),
    "commit of another producer id": lambda client: client.end(other_id(client)),
    "commit of a later epoch": lambda client: client.end(later(client)),
}

TRANSACTION_ROWS: tuple[tuple[Callable[[TransactionClient], None], str, int | tuple[int, int]], ...] = (
    (unknown, "init", 0),
    (unknown, "init with its epoch", 0),
    (unknown, "init for 0 ms", 50),
    (unknown, "init for 15 minutes", 0),
    (unknown, "init for longer", 50),
    (unknown, "add", 49),
    (unknown, "commit", 49),
    (initialized, "init", 0),
    (initialized, "init with its epoch", 0),
    (initialized, "init with a later epoch", 90),
    (initialized, "init with another producer id", 90),
    (initialized, "add of another producer id", 49),
    (initialized, "add of a later epoch", 90),
    (initialized, "produce", (120, 0)),
    (initialized, "commit", 48),
    (initialized, "abort", 48),
    (added, "init", 51),
    (added, "add", 0),
    (added, "commit", 0),
    (added, "abort", 0),
    (added, "produce with a gap", 0),
    (written, "init", 51),
    (written, "init with its epoch", 51),
    (written, "init with a later epoch", 51),
    (written, "init with another producer id", 90),
    (written, "add", 0),
    (written, "produce", 0),
    (written, "produce the next batch", 0),
    (written, "produce with a gap", 45),
    (written, "produce without a key", 87),
    (written, "produce a large batch", 10),
    (written, "produce a broken batch", 2),
    (written, "commit", 0),
    (written, "abort", 0),
    (written, "commit of another producer id", 49),
    (written, "commit of a later epoch", 90),
    (committed_once, "init", 0),
    (committed_once, "init with its epoch", 0),
    (committed_once, "add", 0),
    (committed_once, "produce the next batch", (120, 0)),
    (committed_once, "abort", 48),
    (aborted, "commit", 48),
    (fenced, "init with its epoch", 90),
    (fenced, "add", 90),
    (fenced, "produce the next batch", (47, 0)),
    (fenced, "commit", 90),
    (fenced, "abort", 90),
)
"""State, request and code. A pair has the codes where leaders verify producers, and where they do not (before 3.6)."""


def broken(batch: bytes) -> bytes:
    """Return a batch with a wrong checksum."""
    return batch[:-1] + bytes([batch[-1] ^ 1])


@pytest.fixture
def client(session: Any) -> TransactionClient:
    """Return a client with a topic and a transactional id of its own."""
    name = unique("log")
    config = {"cleanup.policy": "compact", "min.insync.replicas": "2", "max.message.bytes": "2000"}
    assert create(session, new_topic(name, (1, 2, 3), config=config)) == {name: 0}
    wait_for_topic(session, name)
    return TransactionClient(session, name, unique("id"))


@pytest.mark.parametrize(
    ("state", "request_name", "code"),
    TRANSACTION_ROWS,
    ids=[f"{state.__name__}: {name}" for state, name, _ in TRANSACTION_ROWS],
)
def test_a_request_for_records_is_answered(
    client: TransactionClient,
    release: str,
    state: Callable[[TransactionClient], None],
    request_name: str,
    code: int | tuple[int, int],
) -> None:
    """Each request of the protocol of records has one answer in each state of its transactional id."""
    if isinstance(code, tuple):
        code = code[0] if RELEASES[release].verifies_producers else code[1]
    state(client)
    request = REQUESTS[request_name]
    found = client.settle(lambda: request(client), LOOKUP_CODES)
    assert found == code, (found, code)


def test_a_repeated_batch_has_its_old_offset(client: TransactionClient) -> None:
    """One of the last five batches is answered with its offset and appended once; an older one is out of order."""
    written(client)
    assert client.produce(1, "a", "b") == (0, 1)
    assert client.produce(1, "a", "b") == (0, 1)
    assert [client.produce(number) for number in range(3, 8)] == [(0, number) for number in range(3, 8)]
    assert client.produce(3) == (0, 3)
    assert client.produce(1, "a", "b") == (45, -1)
    assert client.offset(0) == (0, 8)


def test_sequence_numbers_go_on_after_a_commit_and_begin_anew_with_an_epoch(client: TransactionClient) -> None:
    """A second transaction of an epoch continues the numbers; a new epoch has 0 first."""
    committed_once(client)
    assert client.settle(client.add) == 0
    assert client.produce(1) == (0, 2)
    assert client.end() == 0
    client.begin(client.epoch)
    assert client.settle(client.add) == 0
    assert client.produce(0) == (0, 4)
    assert client.produce(2)[0] == 45


def test_a_repeated_init_is_answered_with_the_same_epoch(client: TransactionClient) -> None:
    """A producer that asks again with its epoch, because an answer was lost, gets the epoch that it has."""
    first = client.begin()
    code, second = client.init(first)
    assert (code, second) == (0, first._replace(number=first.number + 1))
    assert client.init(first) == (0, second)
    assert client.init(second) == (0, second._replace(number=second.number + 1))
    assert client.init(first)[0] == 90


def test_an_init_aborts_an_open_transaction_whatever_its_epoch(client: TransactionClient, release: str) -> None:
    """The fence check of an older producer aborts the transaction of the newer, and is refused after that.

    Before Kafka 4.0 the newer one cannot go on with its epoch either.
    """
    older = client.begin()
    client.begin()
    assert client.settle(client.add) == 0
    assert client.settle(lambda: client.produce(0))[0] == 0
    assert client.init(older)[0] == 51
    assert client.settle(lambda: client.init(older))[0] == 90
    assert client.end() == 90
    assert client.offset(1) == client.offset(0) == (0, 2)
    kept = client.epoch._replace(number=client.epoch.number + 1)
    assert client.init(client.epoch) == ((0, kept) if RELEASES[release].keeps_last_epoch else (90, Epoch()))
    assert client.settle(client.init) == (0, kept._replace(number=kept.number + 1))


def test_a_transaction_is_aborted_after_its_timeout(client: TransactionClient, release: str) -> None:
    """The brokers abort an open transaction; its producer writes nothing more with its epoch."""
    written_until_timeout(client)
    assert client.produce(1)[0] == 47
    assert client.settle(client.add) == 90
    assert client.end() == 90
    assert client.end(commit=False) == 90
    kept = client.epoch._replace(number=client.epoch.number + 1)
    assert client.init(client.epoch) == ((0, kept) if RELEASES[release].keeps_last_epoch else (90, Epoch()))
    assert client.settle(client.init) == (0, kept._replace(number=kept.number + 1))


def written_until_timeout(client: TransactionClient) -> None:
    """Leave a transaction open until its marker is there."""
    client.begin(timeout_ms=1_000)
    assert client.settle(client.add) == 0
    assert client.settle(lambda: client.produce(0)) == (0, 0)
    client.settle(lambda: (51 if client.offset(1) < (0, 2) else 0, 0))
    assert client.fetch(0).aborted == ((0, client.epoch.id),)


def test_a_reader_of_commits_sees_what_is_decided(client: TransactionClient) -> None:
    """The stable offset ends before an open transaction; a fetch names the aborted transactions that it overlaps."""
    written(client)
    assert (client.offset(0), client.offset(1)) == ((0, 1), (0, 0))
    assert client.fetch(0).data == b""
    assert (client.fetch(0).end, client.fetch(0).stable) == (1, 0)
    assert client.fetch(0, isolation=0).data != b""
    assert client.end(commit=False) == 0
    client.begin(client.epoch)
    assert client.settle(client.add) == 0
    assert client.produce(0, "a", "b") == (0, 2)
    assert client.end() == 0
    client.begin(client.epoch)
    assert (client.offset(0), client.offset(1)) == ((0, 5), (0, 5))
    assert [client.fetch(position).aborted for position in range(5)] == [((0, client.epoch.id),)] * 2 + [()] * 3
    sizes = [len(client.fetch(position).data) for position in range(6)]
    assert sizes[2] == sizes[3] > sizes[4] > sizes[5] == 0
    assert len(client.fetch(2, size=1).data) == sizes[2] - sizes[4]
    assert client.fetch(6).code == 1


def test_too_few_replicas_in_sync_take_nothing(
    session: Any, without_broker: Callable[[int], AbstractContextManager[None]]
) -> None:
    """A batch is refused while a replica that it needs is not in sync, and is appended once when it is."""
    client = TransactionClient(session, unique("log"), unique("id"))
    config = {"cleanup.policy": "compact", "min.insync.replicas": "3"}
    assert create(session, new_topic(client.topic, (1, 2, 3), config=config)) == {client.topic: 0}
    wait_for_topic(session, client.topic)
    client.begin(timeout_ms=900_000)
    assert client.settle(client.add) == 0
    coordinating = session.read_metadata(["__transaction_state"]).topics[0].partitions
    follower = 2 if coordinating and coordinating[0].leader_id == 3 else 3
    with without_broker(follower):
        wait_until(lambda: follower not in in_sync(session, client.topic), f"broker {follower} to be out of sync")
        found = client.settle(lambda: client.produce(0), LOOKUP_CODES)
        assert found == (19, -1), found
    wait_until(lambda: follower in in_sync(session, client.topic), f"broker {follower} to be in sync")
    assert client.settle(lambda: client.produce(0), LOOKUP_CODES | {19}) == (0, 0)
    assert client.end() == 0


def test_a_leader_compares_its_epoch(
    session: Any, without_broker: Callable[[int], AbstractContextManager[None]]
) -> None:
    """The answer with the end of a topic has the epoch of its leader; a fetch in another epoch gets no records."""
    client = TransactionClient(session, unique("log"), unique("id"))
    assert create(session, new_topic(client.topic, (3, 2, 1))) == {client.topic: 0}
    wait_for_topic(session, client.topic)
    written(client)
    assert client.end() == 0
    assert client.settle(client.init)[0] == 0
    assert client.offset(0) == (0, 2)
    first = client.leader_epoch
    assert (client.fetch(0, leader_epoch=first).code, client.fetch(0, leader_epoch=first).end) == (0, 2)
    assert client.fetch(0, leader_epoch=first + 1).code == 75
    with without_broker(3):
        wait_until(lambda: 3 not in in_sync(session, client.topic), "broker 3 to be out of sync")
        session.forget_lookups()
        assert client.settle(lambda: client.offset(0), READ_AGAIN) == (0, 2)
        assert client.leader_epoch > first
        assert client.settle(lambda: client.fetch(0, leader_epoch=first), READ_AGAIN).code == 74
        assert client.settle(lambda: client.fetch(0, leader_epoch=client.leader_epoch), READ_AGAIN).end == 2


def in_sync(session: Any, topic: str) -> set[int]:
    """Return the replicas in sync of a topic with one partition."""
    (found,) = session.read_metadata([topic]).topics
    return set(found.partitions[0].isr_nodes)


def test_a_topic_that_does_not_exist_takes_nothing(session: Any) -> None:
    """Nothing is added to a transaction of a topic that the brokers do not know."""
    client = TransactionClient(session, unique("missing"), unique("id"))
    client.begin()
    assert client.add() == 3


# Versions and metadata.


def test_the_versions_of_the_release_are_offered(session: Any, release: str) -> None:
    """Every request that topiarist sends for topics and records has the versions of the table."""
    offered = session.any_broker().versions
    assert {key: offered[key] for key in RELEASES[release].offered} == RELEASES[release].offered
    level = {each.name: each.max_version for each in session.any_broker().read_versions().supported_features}
    assert level["metadata.version"] == RELEASES[release].metadata_level


def test_a_version_that_is_not_offered_ends_the_connection(
    session: Any, release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker closes the connection without an answer, and nothing is carried out: a client must not send it."""
    connection = session.any_broker()
    monkeypatch.setattr(connection, "versions", {})  # a connection that knows what is offered does not send it
    request, version = CreateTopicsRequest(topics=[], timeout_ms=1_000, validate_only=False), 1
    if RELEASES[release].version < (4, 0):
        request, version = MetadataRequest(topics=[], allow_auto_topic_creation=False), 13
    with pytest.raises(Disconnected) as error:
        connection.call(request, version=version)
    assert error.value.was_sent


def test_a_broker_tells_how_far_its_metadata_is(session: Any) -> None:
    """The epoch of the features reaches the end of the metadata log, and then a change can be read."""
    name = unique("late")
    assert create(session, new_topic(name, (1, 2))) == {name: 0}
    wait_for_topic(session, name)
    (found,) = session.read_metadata([name]).topics
    assert [tuple(each.replica_nodes) for each in found.partitions] == [(1, 2)]
    (missing,) = session.read_metadata([unique("missing")]).topics
    assert missing.error_code == 3


def wait_for_topic(session: Any, name: str) -> None:
    """Wait until the metadata that the brokers serve has the controller's last change, and the topic a leader."""
    connection = session.any_broker()
    topic = DescribeQuorumRequest.TopicData
    partition = topic.PartitionData(partition_index=0)
    request = DescribeQuorumRequest(topics=[topic(topic_name="__cluster_metadata", partitions=[partition])])
    (state,) = connection.call(request).topics[0].partitions
    wait_until(
        lambda: connection.read_versions().finalized_features_epoch >= state.high_watermark - 1,
        "the metadata to be current",
        timeout=60.0,
    )
    session.leader(name)


# Admin requests. Each row is made on its own; what is refused changes nothing.


def test_creations_are_checked(session: Any, release: str) -> None:
    """Name, configs and replica lists of a new topic are checked in this order, and by element."""
    name, other = unique("made"), unique("other")
    dotted, colliding = f"{name}.x", f"{name}_x"
    assert create(session, new_topic(dotted, (1, 2), (2, 3), config={"retention.ms": "1000"})) == {dotted: 0}
    bad, remote = {"nope": "1"}, 40 if RELEASES[release].version >= (3, 6) else 0
    rows: tuple[tuple[Any, int], ...] = (
        (new_topic(dotted, (9,)), 36),
        (new_topic(dotted, (1,), config=bad), 36),
        (new_topic(colliding, (1,)), 17),
        (new_topic(colliding, (1,), config=bad), 17),
        (new_topic("a b", (1,)), 17),
        (new_topic("", (1,)), 17),
        (new_topic("..", (1,)), 17),
        (new_topic("q" * 250, (1,)), 17),
        (new_topic(name, (9,), config=bad), 40),
        (new_topic(name, (1,), config={"retention.ms": "x"}), 40),
        (new_topic(name, (1,), config={"retention.ms": None}), 40),
        (new_topic(name, (1,), config={"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}), 40),
        (new_topic(unique("remote"), (1,), config={"remote.storage.enable": "true"}), remote),
        (new_topic(name, (1, 9)), 39),
        (new_topic(name, (1, 1)), 39),
        (new_topic(name, (1, 2), (1,)), 39),
        (new_topic(name, ()), 39),
        (new_topic(name, (1,), (2,), numbers=(0, 2)), 39),
        (new_topic(name, (1,), (2,), numbers=(0, 0)), 39),
        (new_topic(name, (1,), partitions=1), 42),
    )
    for number, (topic, code) in enumerate(rows):
        found = create(session, topic)
        assert found == {topic.name: code}, (number, found)
    assert create(session, new_topic(name, (1,)), new_topic(name, (1,)), new_topic(other, (1,))) == {name: 42, other: 0}
    assert create(session, new_topic(name, (1,)), validate_only=True) == {name: 0}
    assert create(session, new_topic(name, (1,), config={"min.insync.replicas": "5"})) == {name: 0}


def test_a_request_of_more_than_ten_thousand_partitions_is_refused_whole(session: Any, release: str) -> None:
    """Two topics that are small enough are too much in one request."""
    if RELEASES[release].version < (3, 9):
        pytest.skip("Kafka 3.3 does not answer such a request within 30 s")
    wanted = [new_topic(unique("large"), *[(1,)] * 6_000) for _ in range(2)]
    codes = [*create(session, *wanted, validate_only=True).values()]
    assert codes == [44, 44], codes


def test_growth_is_checked(session: Any) -> None:
    """The total is compared with the partitions that exist, and new lists with the width of the old ones."""
    name = unique("grown")
    assert create(session, new_topic(name, (1, 2), (2, 3))) == {name: 0}
    rows: tuple[tuple[tuple[Any, ...], int], ...] = (
        ((unique("missing"), 3, (1,)), 3),
        ((name, 2, (1, 2)), 37),
        ((name, 1), 37),
        ((name, 4, (1, 2)), 39),
        ((name, 3, (1, 2), (1, 2)), 39),
        ((name, 3, (1,)), 39),
        ((name, 4, (1, 2), (1,)), 39),
        ((name, 3, (1, 9)), 39),
        ((name, 3, (1, 1)), 39),
    )
    assert {wanted: grow(session, *wanted) for wanted, _ in rows} == dict(rows)
    assert grow(session, name, 3, (1, 2), times=2) == 42
    assert grow(session, name, 3, (1, 2), validate_only=True) == 0
    assert grow(session, name, 3, (1, 2)) == 0
    assert grow(session, name, 3, (1, 2)) == 37


def test_configs_are_checked(session: Any) -> None:
    """All keys of a topic are set or none; the value of a key that is deleted is not checked."""
    name, retention = unique("set"), "retention.ms"
    assert create(session, new_topic(name, (1, 2), config={"max.compaction.lag.ms": "5"})) == {name: 0}
    rows: tuple[tuple[tuple[tuple[str, str | None], ...], int], ...] = (
        (((retention, " +014000000 "),), 0),
        (((retention, "1"), ("nope", "1")), 40),
        (((retention, "x"), ("segment.ms", "1")), 40),
        (((retention, "1"), (retention, "2")), 42),
        ((("min.compaction.lag.ms", "10"),), 40),
        ((("leader.replication.throttled.replicas", "x"),), 40),
        ((("segment.ms", None), ("nope", None)), 0),
        ((), 0),
    )
    assert {changes: configure(session, name, *changes) for changes, _ in rows} == dict(rows)
    assert configure(session, name, (retention, None), is_set=True) == 42
    assert configure(session, unique("missing"), (retention, "1")) == 3
    assert configure(session, unique("missing"), ("nope", "1")) == 40
    wait_for_topic(session, name)
    assert read_configs(session, name, (retention, "nope", "segment.ms")) == (
        0,
        {retention: ("14000000", 1, 5), "segment.ms": ("604800000", 5, 5)},
    )
    assert read_configs(session, unique("missing")) == (3, {})


def test_deletions_are_checked(session: Any) -> None:
    """A topic is deleted by its id once; its name is free then, with another id."""
    name = unique("deleted")
    assert create(session, new_topic(name, (1, 2))) == {name: 0}
    wait_for_topic(session, name)
    (found,) = session.read_metadata([name]).topics
    assert delete(session, found.topic_id, found.topic_id) == [42]
    assert delete(session, found.topic_id) == [0]
    assert delete(session, found.topic_id) == [100]
    assert create(session, new_topic(name, (1, 2))) == {name: 0}
    assert delete(session, found.topic_id) == [100]


SUITE = {name: value for name, value in globals().items() if name.startswith("test_") or name == "client"}
"""The tests and their fixtures by name."""
