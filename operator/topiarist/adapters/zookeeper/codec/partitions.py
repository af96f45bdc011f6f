"""Decode the states of partitions, and the replicas that a reassignment adds and removes.

Contract 4.3, 4.4 and 4.7. The controller writes these values; topiarist only reads them. Planning does not use them:
``read.partition_states`` decodes them for ``describe`` and ``list``.
"""

from __future__ import annotations

from topiarist.adapters.zookeeper.codec.strict_json import (
    MAX_ID,
    ZnodeError,
    format_value,
    load_object,
    parse_id,
    require_integer,
    require_object,
    require_version,
)
from topiarist.kafka.types import Replicas
from topiarist.model.state import LEADER_DURING_DELETE, PartitionState, Reassignment

_STATE_VERSION = 1
_RECOVERED, _RECOVERING = 0, 1


def decode_partition_state(raw: bytes) -> PartitionState:
    """Return the state of a partition.

    Raises ``ZnodeError`` on content that Kafka would not have written; unknown fields are ignored.
    """
    fields = load_object(raw)
    require_version(fields, _STATE_VERSION)
    leader = require_integer(fields, "leader")
    if leader < LEADER_DURING_DELETE:
        raise ZnodeError(f'"leader" must be a broker id, -1 or -2, not {leader}')
    recovery = require_integer(fields, "leader_recovery_state") if "leader_recovery_state" in fields else _RECOVERED
    if recovery not in (_RECOVERED, _RECOVERING):
        raise ZnodeError(f'"leader_recovery_state" must be 0 or 1, not {recovery}')
    return PartitionState(
        leader=leader,
        isr=_decode_broker_ids("isr", fields.get("isr")),
        leader_epoch=require_integer(fields, "leader_epoch"),
        controller_epoch=require_integer(fields, "controller_epoch"),
        recovering=recovery == _RECOVERING,
    )


def decode_reassignments(raw: bytes) -> dict[int, Reassignment]:
    """Return the added and removed replicas of each partition under reassignment, from its topic's znode."""
    fields = load_object(raw)
    adding, removing = (_decode_replica_lists(fields, name) for name in ("adding_replicas", "removing_replicas"))
    reassignments = {
        partition: Reassignment(adding.get(partition, ()), removing.get(partition, ()))
        for partition in sorted(adding.keys() | removing.keys())
    }
    return {partition: moving for partition, moving in reassignments.items() if any(moving)}


def _decode_replica_lists(fields: dict[str, object], name: str) -> dict[int, Replicas]:
    if name not in fields:
        return {}
    return {parse_id(text): _decode_broker_ids(name, value) for text, value in require_object(fields, name).items()}


def _decode_broker_ids(name: str, value: object) -> Replicas:
    if type(value) is not list or any(type(broker) is not int or not 0 <= broker <= MAX_ID for broker in value):
        raise ZnodeError(f'"{name}" must be a list of broker ids, not {format_value(value)}')
    return tuple(value)
