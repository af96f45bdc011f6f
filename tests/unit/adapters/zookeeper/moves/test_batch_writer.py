"""Writes that are not needed: without a record, or without a batch under way, nothing is sent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kazoo.exceptions import (
    APIError,
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from msgspec.structs import replace

from topiarist.adapters.own_values import decode_batch, encode_batch
from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.topics import decode_config, encode_config
from topiarist.adapters.zookeeper.connection.session import ConnectionInterrupted, Session
from topiarist.adapters.zookeeper.moves import batch_writer
from topiarist.adapters.zookeeper.moves.batch_writer import (
    BatchWriter,
    BatchZnodes,
    StateZnodes,
    WriterSettings,
    build_batch_operations,
    build_end_operations,
    build_throttle_operations,
    decode_entity_configs,
    decode_lists,
    decode_moved_topic,
    decode_reassignments,
    decode_record,
    decode_states,
    read_partition_states,
)
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode
from topiarist.adapters.zookeeper.read.cluster_metadata import ReassignmentRequest, TopicZnodes
from topiarist.adapters.zookeeper.write.transaction import Operation, OperationType, TransactionTemplate
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Broker
from topiarist.model.moves import BatchRecord, OwnValue, ReplicaMove, RequestedReassignment
from topiarist.model.state import PartitionState, Reassignment
from topiarist.planning.moves.throttles import FOLLOWER_REPLICAS, find_needed_throttles, update_throttles
from unit.adapters.zookeeper.write.test_transaction import ACL, FENCE, SITE, describe
from unit.adapters.zookeeper.write.test_transaction import node as versioned

MOVE = ReplicaMove("orders", 0, (1, 2), (3, 2))


def writer(record: BatchRecord | None, *requested: RequestedReassignment) -> BatchWriter:
    """Return a writer without a session: every request would fail."""
    request = ReassignmentRequest(version=0 if requested else None, entries=requested)
    return BatchWriter(
        session=cast("Any", None),
        settings=WriterSettings("default", 1.0, 1_000_000),
        template=TransactionTemplate((), {}, {}),
        metadata=cast("Any", SimpleNamespace(reassignment_request=request)),
        record_znode=ReadFailure.MISSING,
        record=record,
        remark=lambda remark: None,
    )


class Answers:
    """A session that answers each transaction with fixed results, or with an error."""

    chroot = ""

    def __init__(self, answer: Any) -> None:
        self.calls: list[str] = []
        self._answer = answer

    def send(self, _: object) -> object:
        """Record the transaction."""
        self.calls.append("send")
        return object()

    def result(self, _: object) -> Any:
        """Return the results, or raise."""
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def wait_until_reconnected(self) -> None:
        """Record the call."""
        self.calls.append("wait")


@pytest.fixture(autouse=True)
def nothing_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the writer read no topics and no configs: there are no throttles."""
    monkeypatch.setattr(batch_writer, "read_moved_topics", lambda *_: {})
    monkeypatch.setattr(batch_writer, "read_entity_configs", lambda *_: {})


OWN = BatchRecord("default", 1, 1, (), {})
RECORD_NODE = Znode(b"{}", 1, 2, 0, 4, 0)


def end(answer: Any) -> tuple[bool, list[str]]:
    """End a batch without throttles over a session with this answer; return the result and the calls."""
    session = Answers(answer)
    fence = tuple(Operation(OperationType.CHECK, path) for path in ("/lock", "/gate"))
    template = TransactionTemplate(fence, {}, {})
    ending = writer(OWN)
    ending = replace(ending, session=cast("Any", session), template=template, record_znode=RECORD_NODE)
    return ending.end(), session.calls


def test_a_transaction_is_applied_if_every_operation_was() -> None:
    """One result for each operation, and no error among them."""
    assert end([True, True, True]) == (True, ["send"])


@pytest.mark.parametrize("error", [BadVersionError(), NoNodeError(), NodeExistsError()])
def test_a_conflict_is_tried_again(error: Exception) -> None:
    """Another client has changed a znode: the caller reads it again."""
    assert end([RolledBackError(), error, RuntimeInconsistency()]) == (False, ["send"])


@pytest.mark.parametrize(
    ("answer", "reason", "message"),
    [
        ([RolledBackError(), RolledBackError(), NoAuthError()], Reason.NO_PERMISSION, "no permission to delete"),
        ([InvalidACLError(), RuntimeInconsistency(), RuntimeInconsistency()], Reason.WRITE_FAILED, "/lock"),
        (APIError(), Reason.WRITE_FAILED, "APIError"),
    ],
)
def test_other_errors_end_the_run(answer: Any, reason: Reason, message: str) -> None:
    """They would not end by another try."""
    with pytest.raises(TopiaristError, match=message) as caught:
        end(answer)
    assert caught.value.reason is reason


@pytest.mark.parametrize("answer", [[], [True, True], ConnectionInterrupted()])
@pytest.mark.parametrize(("left", "applied"), [(ReadFailure.MISSING, True), (RECORD_NODE, False)])
def test_without_a_usable_reply_the_record_decides(
    monkeypatch: pytest.MonkeyPatch, answer: Any, left: Znode | ReadFailure, applied: bool
) -> None:
    """The connected server is brought up to date before the record is read."""
    calls: list[str] = []
    monkeypatch.setattr(batch_writer, "sync", lambda _: calls.append("sync"))

    def read(*_: object) -> Iterator[Znode | ReadFailure]:
        calls.append("read")
        yield left

    monkeypatch.setattr(batch_writer, "read_znodes", read)
    assert end(answer) == (applied, ["send", "wait"])
    assert calls == ["sync", "read"]


def test_without_a_record_nothing_is_written() -> None:
    """Another run has put the throttles back meanwhile."""
    assert writer(None).end()
    assert writer(None, RequestedReassignment("orders", 0, (3, 2))).replace_throttle(5)


def test_a_batch_that_is_done_keeps_its_throttle() -> None:
    """The request is of another client: the same topic with another partition, or another topic."""
    record = BatchRecord("default", 1, 1, (MOVE,), {})
    others = RequestedReassignment("orders", 1, (3, 2)), RequestedReassignment("clicks", 0, (3, 2))
    assert writer(record, *others).replace_throttle(5)
    assert writer(record).replace_throttle(5)


def test_a_request_is_there_if_it_has_a_version() -> None:
    """Also one that has no entries that can be read."""
    assert writer(None, RequestedReassignment("orders", 0, (3, 2))).has_request
    assert not writer(None).has_request


@pytest.mark.parametrize("node", [Znode(b"{", 1, 2, 0, 1, 0), ReadFailure.DENIED])
def test_a_record_that_cannot_be_read_is_an_error(node: Znode | ReadFailure) -> None:
    """It says which throttles are topiarist's, so nothing goes on without it."""
    with pytest.raises(TopiaristError, match=paths.MOVES) as caught:
        decode_record(node)
    assert caught.value.reason is Reason.UNREADABLE
    assert decode_record(ReadFailure.MISSING) is None


TOPIC = (
    b'{"partitions":{"0":[3,2,1],"1":[2,3]},"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ","adding_replicas":{"0":[3]},'
    b'"removing_replicas":{"0":[1]},"version":3}'
)
STATE = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":0,"isr":[2,3]}'
BROKERS = {1: Broker(1)}


def node(data: bytes) -> Znode:
    """Return a znode with these bytes."""
    return Znode(data, 7, 8, 0, 1, 0)


def znodes(data: Znode | ReadFailure) -> TopicZnodes:
    """Return the znodes of ``orders``, with two replicas as the smallest number in sync."""
    config = node(encode_config({"min.insync.replicas": "2"}))
    return TopicZnodes("orders", data, config, ReadFailure.MISSING, marked_for_deletion=True)


def test_a_topic_is_read_for_the_gate() -> None:
    """Its reassignments, deletion request, states and smallest number of replicas in sync."""
    states = {("orders", 0): node(STATE), ("other", 1): node(STATE)}
    found = decode_moved_topic(znodes(node(TOPIC)), BROKERS, {}, states)
    assert found.topic is not None
    assert found.topic.replicas == ((3, 2, 1), (2, 3))
    assert found.reassignments == {0: Reassignment((3,), (1,))}
    assert (found.marked_for_deletion, found.brokers, found.min_isr) == (True, BROKERS, 2)
    assert found.states == {0: PartitionState(2, (2, 3), controller_epoch=1)}
    assert decode_moved_topic(znodes(node(TOPIC)), BROKERS, {}).states is None


def test_a_topic_that_does_not_exist_has_no_state() -> None:
    """Its config may be left of an earlier topic, and does not count."""
    found = decode_moved_topic(znodes(ReadFailure.MISSING), BROKERS, {"min.insync.replicas": "2"})
    assert (found.topic, found.reassignments, found.min_isr) == (None, {}, 1)


@pytest.mark.parametrize("data", [node(b"{"), ReadFailure.DENIED])
def test_a_topic_that_cannot_be_read_is_an_error(data: Znode | ReadFailure) -> None:
    """The path is in the message; partitions and reassignments of such a topic are not known."""
    with pytest.raises(TopiaristError, match="/brokers/topics/orders") as caught:
        decode_moved_topic(znodes(data), BROKERS, {})
    assert caught.value.reason is Reason.TOPIC_UNREADABLE
    assert decode_reassignments(znodes(data)) == {}
    assert not decode_lists(znodes(data))


def test_partitions_and_reassignments_of_a_topic() -> None:
    """A topic that does not exist has none."""
    assert (*decode_lists(znodes(node(TOPIC))),) == (0, 1)
    assert decode_reassignments(znodes(ReadFailure.MISSING)) == {}
    assert not decode_lists(znodes(ReadFailure.MISSING))


def test_a_malformed_state_counts_as_none() -> None:
    """The partition is then not moved."""
    states = {("orders", 0): node(b"{"), ("orders", 1): node(STATE)}
    assert decode_states("orders", states) == {1: PartitionState(2, (2, 3), controller_epoch=1)}


class ScriptedAnswers:
    """A session in place of a real one: each read returns these answers, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Znode | ReadFailure) -> None:
        self.paths: list[str] = []

        def read(_session: object, paths: Iterable[str]) -> Iterator[Znode | ReadFailure]:
            self.paths = list(paths)
            return iter(answers)

        monkeypatch.setattr(batch_writer, "read_znodes", read)

    def read_states(self) -> StateZnodes:
        """Return the states of ``orders``, which was created at transaction 7."""
        return read_partition_states(cast("Session", self), [znodes(node(TOPIC)), znodes(ReadFailure.MISSING)])


def test_a_state_of_an_earlier_topic_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that is older than its topic is left out, as a missing one is; a topic that does not exist has none."""
    younger, older = node(STATE), node(STATE)._replace(czxid=6)
    answers = ScriptedAnswers(monkeypatch, younger, older)
    assert answers.read_states() == {("orders", 0): younger}
    assert answers.paths == [f"/brokers/topics/orders/partitions/{partition}/state" for partition in (0, 1)]
    assert ScriptedAnswers(monkeypatch, ReadFailure.MISSING, younger).read_states() == {("orders", 1): younger}


def test_a_state_that_may_not_be_read_ends_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it nothing is known of the health of the partition."""
    with pytest.raises(TopiaristError, match=r"no permission to read .*/partitions/1/state") as caught:
        ScriptedAnswers(monkeypatch, node(STATE), ReadFailure.DENIED).read_states()
    assert caught.value.reason is Reason.NO_PERMISSION


def test_configs_of_entities() -> None:
    """A missing config is empty; a topic that does not exist is left out, whatever its config is."""
    topics = {
        "gone": replace_name(znodes(ReadFailure.MISSING), "gone"),
        "orders": znodes(node(TOPIC)),
    }
    nodes: dict[str, Znode | ReadFailure] = {
        "brokers/1": ReadFailure.MISSING,
        "topics/gone": node(encode_config({"a": "1"})),
        "topics/orders": node(encode_config({"b": "2"})),
        "topics/unread": node(encode_config({})),
    }
    assert decode_entity_configs(nodes, topics) == {"brokers/1": {}, "topics/orders": {"b": "2"}}


def replace_name(nodes: TopicZnodes, name: str) -> TopicZnodes:
    """Return the znodes of another topic."""
    return nodes._replace(name=name)


@pytest.mark.parametrize("data", [node(b"{"), ReadFailure.DENIED])
def test_a_config_that_cannot_be_read_is_an_error(data: Znode | ReadFailure) -> None:
    """Nothing could be put back into it."""
    with pytest.raises(TopiaristError, match="/config/brokers/1 cannot be read") as caught:
        decode_entity_configs({"brokers/1": data}, {})
    assert caught.value.reason is Reason.UNREADABLE


PARENTS = ("/admin", "/admin/delete_topics", "/config/brokers", "/config/changes", "/config/topics", "/topiarist")
TEMPLATE = SITE._replace(acls=dict.fromkeys(PARENTS, ACL))
MOVES = (ReplicaMove("orders", 0, (1, 2), (3, 2)), ReplicaMove("orders", 4, (2, 1), (1, 2)))
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def _znodes(record: Znode | ReadFailure = ReadFailure.MISSING) -> BatchZnodes:
    topic_config = versioned(encode_config({"segment.ms": "7"}), 6)
    orders = TopicZnodes(
        "orders", versioned(b"{}", 5), topic_config, versioned(b"{owner}", 7), marked_for_deletion=False
    )
    states = {("orders", 0): versioned(b"{}", 10), ("orders", 4): versioned(b"{}", 14)}
    entities: dict[str, Znode | ReadFailure] = dict.fromkeys(("brokers/1", "brokers/2"), ReadFailure.MISSING)
    entities |= {"topics/orders": topic_config, "brokers/3": versioned(encode_config({}), 8)}
    return BatchZnodes({"orders": orders}, states, entities, record)


def test_an_unthrottled_batch_checks_what_it_depends_on() -> None:
    """Brokers that get a replica, the topic, no deletion request, each partition's state; the request comes last."""
    record = BatchRecord("default", 1, 1, MOVES, {})
    operations = build_batch_operations(record, {}, _znodes(), TEMPLATE)
    assert describe(operations) == [
        *FENCE,
        "check /brokers/ids/3",
        "check /brokers/topics/orders @5",
        "create /admin/delete_topics/orders",
        "delete /admin/delete_topics/orders",
        "check /brokers/topics/orders/partitions/0/state @10",
        "check /brokers/topics/orders/partitions/4/state @14",
        "create /topiarist/moves",
        "create /admin/reassign_partitions",
    ]
    assert decode_batch(operations[-2].data).moves == tuple(move._replace(kinds=()) for move in MOVES)
    assert [entry["replicas"] for entry in json.loads(operations[-1].data)["partitions"]] == [[3, 2], [1, 2]]


def test_throttles_are_in_the_same_transaction() -> None:
    """Each config has its notification. The topic's ownership record is written again, so the change counts as ours."""
    current = {"topics/orders": {"segment.ms": "7"}, **{f"brokers/{broker}": {} for broker in (1, 2, 3)}}
    update = update_throttles(find_needed_throttles(MOVES, 1000), current, {})
    before = encode_batch(BatchRecord("default", 1, 2, MOVES, {}))
    record = BatchRecord("default", 2, 2, MOVES, update.own)
    operations = build_batch_operations(record, update.configs, _znodes(versioned(before, 1)), TEMPLATE)
    notification = "create /config/changes/config_change_"
    assert describe(operations)[10:] == [
        *("create /config/brokers/1", notification, "create /config/brokers/2", notification),
        *("set /config/brokers/3 @8", notification),
        *("set /config/topics/orders @6", notification, "set /topiarist/topics/orders @7"),
        "set /topiarist/moves @1",
        "create /admin/reassign_partitions",
    ]
    written = {each.path: each.data for each in operations}
    assert decode_config(written["/config/topics/orders"])["segment.ms"] == "7"
    assert decode_config(written["/config/topics/orders"])[FOLLOWER_REPLICAS] == "0:3"
    assert decode_config(written["/config/brokers/3"]) == dict.fromkeys(RATES, "1000")
    assert written["/topiarist/topics/orders"] == b"{owner}"


def test_a_topic_that_is_named_like_a_broker_keeps_its_record() -> None:
    """The throttle of broker 3 is no change of the topic ``3``."""
    znodes = _znodes(versioned(b"{}", 2))
    topics = {**znodes.topics, "3": znodes.topics["orders"]._replace(name="3")}
    operations = build_end_operations({"brokers/3": {}}, znodes._replace(topics=topics), TEMPLATE)
    assert "/topiarist/topics/3" not in {each.path for each in operations}


def test_the_end_puts_back_and_deletes_the_record() -> None:
    """It depends on nothing of the topics, which may have changed since."""
    own = {"topics/orders": {FOLLOWER_REPLICAS: OwnValue(None, "0:3")}}
    update = update_throttles({}, {"topics/orders": {"segment.ms": "7", FOLLOWER_REPLICAS: "0:3"}}, own, final=True)
    operations = build_end_operations(update.configs, _znodes(versioned(b"{}", 2)), TEMPLATE)
    assert describe(operations) == [
        *FENCE,
        "set /config/topics/orders @6",
        "create /config/changes/config_change_",
        "set /topiarist/topics/orders @7",
        "delete /topiarist/moves @2",
    ]
    assert decode_config(operations[4].data) == {"segment.ms": "7"}


@pytest.mark.parametrize(
    ("topic", "record", "config", "is_renewed"),
    [
        (Znode(b"{}", 1, 2, 0, 5, 0), Znode(b"{owner}", 1, 5, 0, 7, 0), Znode(b"{}", 1, 5, 0, 6, 0), True),
        (Znode(b"{}", 1, 2, 0, 5, 0), Znode(b"{owner}", 1, 5, 0, 7, 0), Znode(b"{}", 1, 6, 0, 6, 0), False),
        (Znode(b"{}", 1, 2, 0, 5, 0), Znode(b"{owner}", 1, 5, 0, 7, 0), ReadFailure.MISSING, True),
        (Znode(b"{}", 6, 7, 0, 5, 0), Znode(b"{owner}", 1, 5, 0, 7, 0), ReadFailure.MISSING, False),
        (Znode(b"{}", 1, 2, 0, 5, 0), ReadFailure.MISSING, Znode(b"{}", 1, 5, 0, 6, 0), False),
        (ReadFailure.MISSING, Znode(b"{owner}", 1, 5, 0, 7, 0), ReadFailure.MISSING, False),
    ],
)
def test_only_a_record_that_is_up_to_date_is_renewed(
    topic: Znode | ReadFailure, record: Znode | ReadFailure, config: Znode | ReadFailure, is_renewed: bool
) -> None:
    """A record that is older than the config, or than the topic, must keep showing another client's change.

    A config without a znode is created only for a topic that exists.
    """
    data = encode_config({})
    node = config._replace(data=data) if isinstance(config, Znode) else config
    nodes = TopicZnodes("orders", topic, node, record, marked_for_deletion=False)
    znodes = BatchZnodes({"orders": nodes}, {}, {"topics/orders": node}, versioned(b"{}", 2))
    operations = describe(build_end_operations({"topics/orders": {"a": "1"}}, znodes, TEMPLATE))
    assert ("set /topiarist/topics/orders @7" in operations) is is_renewed
    assert ("check /brokers/topics/orders" in operations) is (config is ReadFailure.MISSING)


def test_another_throttle_of_a_batch_writes_no_request() -> None:
    """Only the fence is checked, and the configs and the record are written."""
    record = BatchRecord("default", 2, 2, MOVES, {})
    operations = build_throttle_operations(record, {"brokers/3": {}}, _znodes(versioned(b"{}", 2)), TEMPLATE)
    assert describe(operations) == [
        *FENCE,
        "set /config/brokers/3 @8",
        "create /config/changes/config_change_",
        "set /topiarist/moves @2",
    ]
