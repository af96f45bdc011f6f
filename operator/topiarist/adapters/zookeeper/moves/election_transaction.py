"""Build the transaction that requests the election of preferred leaders. Pure, as ``transaction.py`` beside it.

The request is only ever created: the controller deletes it after it has tried each entry. An entry of a partition
without a state would stop the controller and leave the request in place (contract 6.7), so the transaction
checks the state of each partition. ::

    check    the fence: lock, controller and its epoch, freeze
    check    the registration of each broker that is to lead
    check    each topic, and that it has no deletion request
    check    the state of each partition
    create   /admin/preferred_replica_election
"""

from __future__ import annotations

from collections.abc import Collection

from topiarist.adapters.zookeeper.codec import cluster, paths
from topiarist.adapters.zookeeper.moves.batch_reader import JudgedZnodes
from topiarist.adapters.zookeeper.read.bulk_read import Znode
from topiarist.adapters.zookeeper.write.transaction import (
    Operation,
    OperationType,
    TransactionTemplate,
    check_no_deletion_request,
)

ADMIN = paths.ELECTION_REQUEST.rpartition("/")[0]
"""The parent of the request, which gives it its ACL."""


def build_election_operations(
    partitions: Collection[tuple[str, int]],
    leaders: Collection[int],
    znodes: JudgedZnodes,
    template: TransactionTemplate,
) -> list[Operation]:
    """Return the operations that request an election of ``partitions``, given the znodes that they were judged from.

    ``leaders`` are the brokers that are to lead; each is in ``template.broker_checks``.
    """
    operations = [*template.fence, *(template.broker_checks[broker] for broker in sorted(leaders))]
    for name in sorted({topic for topic, _ in partitions}):
        node = znodes.topics[name].topic
        assert isinstance(node, Znode)
        operations.append(Operation(OperationType.CHECK, paths.topic_path(name), version=node.version))
        operations += check_no_deletion_request(name, template.acls)
    for topic, partition in sorted(partitions):
        version = znodes.states[topic, partition].version
        operations.append(Operation(OperationType.CHECK, paths.partition_state_path(topic, partition), version=version))
    request = cluster.encode_election_request(sorted(partitions))
    return [*operations, Operation(OperationType.CREATE, paths.ELECTION_REQUEST, request, acl=template.acls[ADMIN])]
