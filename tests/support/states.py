"""Small builders of actual states (``ClusterState``) and specs (``TopicSpec``): a test names only relevant fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from topiarist.desired.shared_specs import merge
from topiarist.errors import FieldPath, Location
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec
from topiarist.model.state import AppliedSpec, ClusterState, OwnershipRecord, TopicState

CLUSTER_ID = "7sYkPq0hTmWZkS3m1oX9Lw"


class PositionedSource(NamedTuple):
    """A source with given positions: line and column by path.

    The nearest ancestor of a path counts; the default is line 1.
    """

    file: str
    positions: Mapping[FieldPath, tuple[int, int]] = {}

    def locate(self, path: FieldPath = ()) -> Location:
        """Return the location of ``path`` or of its nearest ancestor."""
        while path and path not in self.positions:
            path = path[:-1]
        return Location(self.file, *self.positions.get(path, (1, 1)))


def six_brokers() -> tuple[Broker, ...]:
    """Return brokers 1 to 6, two in each of the racks a, b and c."""
    return tuple(Broker(number, "abc"[(number - 1) % 3]) for number in range(1, 7))


def spread_replicas(partitions: int, factor: int = 3, brokers: int = 6) -> tuple[Replicas, ...]:
    """Return plain round-robin replica lists over brokers 1 to ``brokers``: [1,2,3], [2,3,4] and so on."""
    return tuple(tuple((first + step) % brokers + 1 for step in range(factor)) for first in range(partitions))


def topic(
    name: str,
    replicas: int | Sequence[Replicas] = 3,
    *,
    config: Mapping[str, str] | None = None,
    managed_keys: Sequence[str] | None = (),
    owner: str = "default",
    applied_spec: TopicSpec | None = None,
    **fields: Any,
) -> TopicState:
    """Return a topic with this partition count or these replica lists, owned by topiarist with ``managed_keys``.

    With ``managed_keys`` None the topic has no ownership record. ``applied_spec`` is the applied spec in the record, if
    the record has one. Further fields are fields of ``TopicState``.
    """
    fields.setdefault("record_valid", managed_keys is not None)
    return TopicState(
        name=name,
        identity=fields.pop("identity", "1"),
        replicas=spread_replicas(replicas) if isinstance(replicas, int) else tuple(replicas),
        config=dict(config or {}),
        record=None if managed_keys is None else _make_record(owner, managed_keys, applied_spec),
        **fields,
    )


def _make_record(owner: str, managed_keys: Sequence[str], applied_spec: TopicSpec | None) -> OwnershipRecord:
    if applied_spec is None:
        return OwnershipRecord(owner, tuple(sorted(managed_keys)))
    applied = AppliedSpec(
        applied_spec.partitions, tuple(sorted(applied_spec.config.items())), applied_spec.remove_unmanaged
    )
    return OwnershipRecord(owner, tuple(sorted({*managed_keys, *applied_spec.config})), applied=applied)


def cluster(*topics: TopicState, **fields: Any) -> ClusterState:
    """Return a cluster of six brokers with these topics; further fields are fields of ``ClusterState``."""
    fields.setdefault("brokers", six_brokers())
    fields.setdefault("cluster_id", CLUSTER_ID)
    fields.setdefault("controller", 1)
    fields.setdefault("controller_epoch", 42)
    return ClusterState(topics={found.name: found for found in topics}, **fields)


def manifest(
    name: str,
    fields: Mapping[str, Any],
    *,
    kind: str = "Topic",
    positions: Mapping[FieldPath, tuple[int, int]] | None = None,
) -> Manifest:
    """Return a document with this spec; its locations are in ``topics/NAME.yaml``, or ``clusters.yaml`` for other
    kinds.
    """
    file = f"topics/{name}.yaml" if kind == "Topic" else "clusters.yaml"
    return Manifest(kind, name, "", {}, fields, PositionedSource(file, positions or {}))


def spec(
    name: str,
    on: ClusterSpec | None = None,
    *,
    positions: Mapping[FieldPath, tuple[int, int]] | None = None,
    **fields: Any,
) -> TopicSpec:
    """Return the merged spec of a manifest with these fields on a cluster; the default is 3 partitions x 3."""
    fields = {"partitions": 3, "replicationFactor": 3} | fields
    return merge(manifest(name, fields, positions=positions), on or ClusterSpec())
