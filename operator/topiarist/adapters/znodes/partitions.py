"""What a controller has made of a topic's partitions: their states, and the replicas that are being moved.

Contract 4.3, 4.4 and 4.7. Only read, never written. Whoever plans has no use for it; ``describe`` shows it.
"""

from __future__ import annotations

from topiarist.adapters.znodes.strict import (
    MAX_ID,
    ZnodeError,
    load_object,
    parse_id,
    show,
    want_integer,
    want_object,
    want_version,
)
from topiarist.core.inspection import DURING_DELETION, Moving, PartitionState
from topiarist.core.state import Replicas

_STATE_VERSION = 1
_RECOVERED, _RECOVERING = 0, 1


def decode_partition_state(raw: bytes) -> PartitionState:
    """The state of a partition; ``ZnodeError`` on anything that Kafka would not have written, unknown fields aside."""
    fields = load_object(raw)
    want_version(fields, _STATE_VERSION)
    leader = want_integer(fields, "leader")
    if leader < DURING_DELETION:
        raise ZnodeError(f'"leader" must be a broker id, -1 or -2, not {leader}')
    recovery = want_integer(fields, "leader_recovery_state") if "leader_recovery_state" in fields else _RECOVERED
    if recovery not in (_RECOVERED, _RECOVERING):
        raise ZnodeError(f'"leader_recovery_state" must be 0 or 1, not {recovery}')
    return PartitionState(
        leader=leader,
        isr=_brokers("isr", fields.get("isr")),
        leader_epoch=want_integer(fields, "leader_epoch"),
        controller_epoch=want_integer(fields, "controller_epoch"),
        recovering=recovery == _RECOVERING,
    )


def decode_moving(raw: bytes) -> dict[int, Moving]:
    """The partitions under reassignment, from the znode of their topic: what is added to each, what is taken away."""
    fields = load_object(raw)
    adding, removing = (_lists(fields, name) for name in ("adding_replicas", "removing_replicas"))
    found = {
        partition: Moving(adding.get(partition, ()), removing.get(partition, ()))
        for partition in sorted(adding.keys() | removing.keys())
    }
    return {partition: moving for partition, moving in found.items() if any(moving)}


def _lists(fields: dict[str, object], name: str) -> dict[int, Replicas]:
    if name not in fields:
        return {}
    return {parse_id(text): _brokers(name, value) for text, value in want_object(fields, name).items()}


def _brokers(name: str, value: object) -> Replicas:
    if type(value) is not list or any(type(broker) is not int or not 0 <= broker <= MAX_ID for broker in value):
        raise ZnodeError(f'"{name}" must be a list of broker ids, not {show(value)}')
    return tuple(value)
