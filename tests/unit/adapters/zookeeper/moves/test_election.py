"""The transaction of an election: every check, in order, and the request as its only write."""

from __future__ import annotations

from topiarist.adapters.zookeeper.moves.batch_writer import JudgedZnodes
from topiarist.adapters.zookeeper.moves.election import build_election_operations
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode
from topiarist.adapters.zookeeper.read.cluster_metadata import TopicZnodes
from unit.adapters.zookeeper.write.test_transaction import ACL, FENCE, SITE, describe, node

ADMIN_ACL = ((7, "sasl", "kafka"),)
TEMPLATE = SITE._replace(acls={"/admin": ADMIN_ACL, "/admin/delete_topics": ACL})


def _node(version: int) -> Znode:
    return node(b"{}", version)


def _topic(name: str, version: int) -> TopicZnodes:
    return TopicZnodes(name, _node(version), ReadFailure.MISSING, _node(1), marked_for_deletion=False)


def test_an_election_checks_what_it_depends_on() -> None:
    """The fence, the brokers that are to lead, each topic, each state; the request has the ACL of its parent."""
    topics = {"orders": _topic("orders", 5), "audit": _topic("audit", 2)}
    states = {("orders", 4): _node(14), ("orders", 0): _node(10), ("audit", 1): _node(11), ("audit", 2): _node(12)}
    wanted = (("orders", 4), ("audit", 1), ("orders", 0))
    operations = build_election_operations(wanted, {3, 1}, JudgedZnodes(topics, states), TEMPLATE)
    assert describe(operations) == [
        *FENCE,
        "check /brokers/ids/1",
        "check /brokers/ids/3",
        "check /brokers/topics/audit @2",
        "create /admin/delete_topics/audit",
        "delete /admin/delete_topics/audit",
        "check /brokers/topics/orders @5",
        "create /admin/delete_topics/orders",
        "delete /admin/delete_topics/orders",
        "check /brokers/topics/audit/partitions/1/state @11",
        "check /brokers/topics/orders/partitions/0/state @10",
        "check /brokers/topics/orders/partitions/4/state @14",
        "create /admin/preferred_replica_election",
    ]
    assert operations[-1].acl == ADMIN_ACL
    assert operations[-1].data == (
        b'{"version":1,"partitions":[{"topic":"audit","partition":1},{"topic":"orders","partition":0},'
        b'{"topic":"orders","partition":4}]}'
    )
