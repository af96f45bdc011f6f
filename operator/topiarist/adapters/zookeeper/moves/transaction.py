"""Build the transaction of one batch of moves, and the transaction that puts its throttles back.

Pure, as ``write/transaction.py``: the caller reads the znodes before and sends the operations after. One transaction
has the checks, the throttles with their notifications, the record of the batch and the reassignment request. A run that
ends at any moment leaves all of them or none.

The request is only ever created. The controller deletes it with its last partition; a request that another client
deletes or replaces is not seen by the controller, and may be obeyed by the next one (contract 6.6).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from topiarist.adapters import own_values
from topiarist.adapters.zookeeper.codec import cluster, paths
from topiarist.adapters.zookeeper.codec.topics import encode_change_notification, encode_config, replace_config
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode
from topiarist.adapters.zookeeper.read.topic import TopicZnodes
from topiarist.adapters.zookeeper.write.transaction import (
    Operation,
    OperationType,
    TransactionTemplate,
    check_no_deletion_request,
    set_or_create,
)
from topiarist.model.moves import BatchRecord
from topiarist.planning.moves.execution.throttle_configs import EntityConfigs


class BatchZnodes(NamedTuple):
    """The znodes that a batch depends on, read under the lock.

    ``states`` are by topic and partition, ``configs`` by entity (``topics/orders``, ``brokers/5``). ``record`` is the
    record of the batch before.
    """

    topics: Mapping[str, TopicZnodes]
    states: Mapping[tuple[str, int], Znode]
    configs: Mapping[str, Znode | ReadFailure]
    record: Znode | ReadFailure


def build_batch_operations(
    record: BatchRecord, configs_after: EntityConfigs, znodes: BatchZnodes, template: TransactionTemplate
) -> list[Operation]:
    """Return the operations that send the batch ``record``, with ``configs_after`` as the throttled configs.

    Each topic of the batch has an ownership record, and each broker that gets a replica is in
    ``template.broker_checks``.
    """
    operations = list(template.fence)
    added = {broker for move in record.moves for broker in move.added}
    operations += [template.broker_checks[broker] for broker in sorted(added)]
    for name in sorted({move.topic for move in record.moves}):
        node = znodes.topics[name].topic
        assert isinstance(node, Znode)
        operations.append(Operation(OperationType.CHECK, paths.topic_path(name), version=node.version))
        operations += check_no_deletion_request(name, template.acls)
    for move in record.moves:
        state = znodes.states[move.topic, move.partition]
        path = paths.partition_state_path(move.topic, move.partition)
        operations.append(Operation(OperationType.CHECK, path, version=state.version))
    operations += _build_config_operations(configs_after, znodes, template)
    data = own_values.encode_batch(record)
    operations.append(set_or_create(paths.MOVES, data, znodes.record, template.acls))
    request = cluster.encode_reassignment_request(record.moves)
    acl = template.acls[paths.REASSIGNMENT_REQUEST.rpartition("/")[0]]
    return [*operations, Operation(OperationType.CREATE, paths.REASSIGNMENT_REQUEST, request, acl=acl)]


def build_throttle_operations(
    record: BatchRecord, configs_after: EntityConfigs, znodes: BatchZnodes, template: TransactionTemplate
) -> list[Operation]:
    """Return the operations that give a batch under way another throttle: ``record`` with its values replaces its own.

    The reassignment request is not written.
    """
    data = own_values.encode_batch(record)
    return [
        *template.fence,
        *_build_config_operations(configs_after, znodes, template),
        set_or_create(paths.MOVES, data, znodes.record, template.acls),
    ]


def build_end_operations(
    configs_after: EntityConfigs, znodes: BatchZnodes, template: TransactionTemplate
) -> list[Operation]:
    """Return the operations that put throttles back, with ``configs_after``, and delete the record of the batch."""
    assert isinstance(znodes.record, Znode)
    return [
        *template.fence,
        *_build_config_operations(configs_after, znodes, template),
        Operation(OperationType.DELETE, paths.MOVES, version=znodes.record.version),
    ]


def _build_config_operations(
    configs_after: EntityConfigs, znodes: BatchZnodes, template: TransactionTemplate
) -> list[Operation]:
    operations = []
    for entity, config in sorted(configs_after.items()):
        path, node = paths.entity_config_path(entity), znodes.configs[entity]
        data = replace_config(node.data, config) if isinstance(node, Znode) else encode_config(config)
        notification = encode_change_notification(entity)
        acl = template.acls[paths.CONFIG_CHANGES]
        kind, _, name = entity.partition("/")
        if kind == "topics" and not isinstance(node, Znode):
            # A config without its topic would become that of a later topic of this name.
            operations.append(Operation(OperationType.CHECK, paths.topic_path(name)))
        operations += [
            set_or_create(path, data, node, template.acls),
            Operation(OperationType.CREATE, paths.CONFIG_CHANGE_PREFIX, notification, acl=acl, sequential=True),
        ]
        if kind == "topics":
            operations += _renew_record(znodes.topics[name], node)
    return operations


def _renew_record(nodes: TopicZnodes, config: Znode | ReadFailure) -> list[Operation]:
    """Return the operation that writes a topic's ownership record again, unchanged, if it is up to date.

    A record older than the config means a change by another client, and one older than the topic means another topic:
    such a record must keep showing that.
    """
    topic, record = nodes.topic, nodes.record
    if not isinstance(record, Znode) or not isinstance(topic, Znode) or record.mzxid < topic.czxid:
        return []
    if isinstance(config, Znode) and config.mzxid > record.mzxid:
        return []
    return [Operation(OperationType.SET, paths.record_path(nodes.name), record.data, record.version)]
