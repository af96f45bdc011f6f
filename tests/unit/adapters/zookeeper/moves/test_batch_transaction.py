"""The transaction of a batch: every check and write, in order, and none for what it does not depend on."""

from __future__ import annotations

import json

import pytest

from topiarist.adapters.own_values import decode_batch, encode_batch
from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.topics import decode_config, encode_config
from topiarist.adapters.zookeeper.moves.transaction import (
    BatchZnodes,
    build_batch_operations,
    build_end_operations,
    build_throttle_operations,
)
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode
from topiarist.adapters.zookeeper.read.topic import TopicZnodes
from topiarist.adapters.zookeeper.write.transaction import Operation, OperationType, TransactionTemplate, build_fence
from topiarist.model.moves import BatchRecord, OwnValue, ReplicaMove
from topiarist.planning.moves.execution.throttle_configs import (
    FOLLOWER_REPLICAS,
    find_needed_throttles,
    update_throttles,
)

ACL = ((31, "world", "anyone"),)
PARENTS = ("/admin", "/admin/delete_topics", "/config/brokers", "/config/changes", "/config/topics", "/topiarist")
TEMPLATE = TransactionTemplate(
    build_fence("/topiarist/lock/run-1", 42, 3),
    {broker: Operation(OperationType.CHECK, paths.broker_path(broker)) for broker in range(1, 7)},
    dict.fromkeys(PARENTS, ACL),
)
FENCE = ["check /topiarist/lock/run-1", "check /controller_epoch @42", "check /controller", "check /topiarist/gate @3"]
MOVES = (ReplicaMove("orders", 0, (1, 2), (3, 2)), ReplicaMove("orders", 4, (2, 1), (1, 2)))
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def _node(data: bytes, version: int) -> Znode:
    return Znode(data, 1, 2, 0, version, 0)


def _znodes(record: Znode | ReadFailure = ReadFailure.MISSING) -> BatchZnodes:
    topic_config = _node(encode_config({"segment.ms": "7"}), 6)
    orders = TopicZnodes("orders", _node(b"{}", 5), topic_config, _node(b"{owner}", 7), marked_for_deletion=False)
    states = {("orders", 0): _node(b"{}", 10), ("orders", 4): _node(b"{}", 14)}
    entities: dict[str, Znode | ReadFailure] = dict.fromkeys(("brokers/1", "brokers/2"), ReadFailure.MISSING)
    entities |= {"topics/orders": topic_config, "brokers/3": _node(encode_config({}), 8)}
    return BatchZnodes({"orders": orders}, states, entities, record)


def _describe(operations: list[Operation]) -> list[str]:
    return [
        f"{each.type.value} {each.path}" + (f" @{each.version}" if each.version >= 0 else "") for each in operations
    ]


def test_an_unthrottled_batch_checks_what_it_depends_on() -> None:
    """Brokers that get a replica, the topic, no deletion request, each partition's state; the request comes last."""
    record = BatchRecord("default", 1, 1, MOVES, {})
    operations = build_batch_operations(record, {}, _znodes(), TEMPLATE)
    assert _describe(operations) == [
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
    operations = build_batch_operations(record, update.configs, _znodes(_node(before, 1)), TEMPLATE)
    notification = "create /config/changes/config_change_"
    assert _describe(operations)[10:] == [
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
    znodes = _znodes(_node(b"{}", 2))
    topics = {**znodes.topics, "3": znodes.topics["orders"]._replace(name="3")}
    operations = build_end_operations({"brokers/3": {}}, znodes._replace(topics=topics), TEMPLATE)
    assert "/topiarist/topics/3" not in {each.path for each in operations}


def test_the_end_puts_back_and_deletes_the_record() -> None:
    """It depends on nothing of the topics, which may have changed since."""
    own = {"topics/orders": {FOLLOWER_REPLICAS: OwnValue(None, "0:3")}}
    update = update_throttles({}, {"topics/orders": {"segment.ms": "7", FOLLOWER_REPLICAS: "0:3"}}, own, final=True)
    operations = build_end_operations(update.configs, _znodes(_node(b"{}", 2)), TEMPLATE)
    assert _describe(operations) == [
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
    znodes = BatchZnodes({"orders": nodes}, {}, {"topics/orders": node}, _node(b"{}", 2))
    operations = _describe(build_end_operations({"topics/orders": {"a": "1"}}, znodes, TEMPLATE))
    assert ("set /topiarist/topics/orders @7" in operations) is is_renewed
    assert ("check /brokers/topics/orders" in operations) is (config is ReadFailure.MISSING)


def test_another_throttle_of_a_batch_writes_no_request() -> None:
    """Only the fence is checked, and the configs and the record are written."""
    record = BatchRecord("default", 2, 2, MOVES, {})
    operations = build_throttle_operations(record, {"brokers/3": {}}, _znodes(_node(b"{}", 2)), TEMPLATE)
    assert _describe(operations) == [
        *FENCE,
        "set /config/brokers/3 @8",
        "create /config/changes/config_change_",
        "set /topiarist/moves @2",
    ]
