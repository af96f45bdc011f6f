"""What differs between an existing topic and its spec in size and replicas: growth, and what cannot be done.

``differences`` asks, and looks at the config itself. What is found is added to a ``Draft``.
"""

from __future__ import annotations

from collections.abc import Sequence

from topiarist.core.change import AddPartitions, Finding
from topiarist.core.draft import LEAVE_TO_KAFKA, Draft
from topiarist.core.names import INTERNAL_TOPICS
from topiarist.core.risk import of_growth
from topiarist.core.state import TopicState
from topiarist.core.units import count
from topiarist.errors import Reason


def find(draft: Draft, topic: TopicState) -> None:
    """Partitions that are missing, lists that differ, and another replication factor."""
    _partitions(draft, topic)
    _replication_factor(draft, topic)


def _partitions(draft: Draft, topic: TopicState) -> None:
    spec, now = draft.spec, len(topic.replicas)
    if spec.assignment is not None:
        _explicit_replicas(draft, topic)
    wanted = spec.partitions
    if wanted is None or wanted == now:
        return
    path = ("replicaAssignment",) if spec.assignment is not None else ("partitions",)
    if path[0] in spec.ignore or "partitions" in spec.ignore:
        draft.notice(Reason.IGNORED, f"partitions: {now} on the cluster, {wanted} in the manifest", path)
    elif wanted < now:
        keep = f"list {count(now, 'partition')}" if spec.assignment is not None else f"set partitions: {now}"
        message = f"{now} -> {wanted} partitions, Kafka cannot remove any"
        draft.refuse(Reason.FEWER_PARTITIONS, message, path, instead=f"{keep}, or create a new topic")
    elif not _growth_refused(draft, topic, path):
        replicas = draft.context.placing.grow(spec, topic, wanted)
        if isinstance(replicas, Finding):
            # Lists of another width are refused for the topic as a whole too: one finding for one cause.
            if replicas.reason is not Reason.REPLICATION_FACTOR_DIFFERS or "replicationFactor" in spec.ignore:
                draft.refusals.append(replicas)
        else:
            verdict = of_growth((topic.config,), draft.context.settings)
            draft.changes.append(AddPartitions(now, topic.replicas[0], replicas, verdict))


def _growth_refused(draft: Draft, topic: TopicState, path: tuple[str, ...]) -> bool:
    """Whether something about the topic itself forbids to add partitions now."""
    state, more = draft.context.state, f"{len(topic.replicas)} -> {draft.spec.partitions} partitions"
    if topic.name in INTERNAL_TOPICS:
        message = f"{more}: Kafka's own topic, which relies on the count"
        draft.refuse(Reason.INTERNAL_TOPIC, message, path, instead=LEAVE_TO_KAFKA)
    elif draft.context.protects(topic.name):
        message = f"{more}: belongs to other software, which relies on the count"
        draft.refuse(
            Reason.PROTECTED_TOPIC, message, path, instead="ask its owner; Cluster.spec.protected lists the names"
        )
    elif not topic.whole or not topic.replicas or not topic.replicas[0]:
        message, instead = _malformed(topic)
        draft.refuse(Reason.PARTITIONS_MALFORMED, f"{more}: {message}", path, instead=instead)
    elif topic.reassigning or topic.name in state.reassigning:
        message = f"{more}: its replicas are being reassigned, and that would undo the growth"
        draft.refuse(Reason.REASSIGNMENT_IN_PROGRESS, message, path, instead="run again when the reassignment is done")
    elif topic.topic_id is None and state.gives_ids:
        message = f"{more}: the controller has not given the topic its id yet, and would undo growth when it does"
        instead = "run again when it has; if it never does, the id was removed: docs/operations.md, NotTakenOver"
        draft.refuse(Reason.NOT_TAKEN_OVER, message, path, instead=instead)
    elif topic.unknown_fields:
        names = ", ".join(topic.unknown_fields)
        message = f"{more}: the topic has fields that Kafka does not write ({names}); they would be left incomplete"
        draft.refuse(Reason.UNKNOWN_FIELDS, message, path, instead="use the vendor's own tool to add partitions")
    else:
        return False
    return True


def _malformed(topic: TopicState) -> tuple[str, str]:
    """What is wrong with the partitions of a topic that cannot grow, and what to do."""
    if topic.whole and topic.replicas:
        return (
            "partition 0 has no replicas, and Kafka gives new partitions as many as that one has",
            "give partition 0 replicas with kafka-reassign-partitions, or make a new topic",
        )
    found = f"found partition ids {some(topic.partition_ids) or 'none'}"
    return (
        f"{found}, wanted 0 to n-1: Kafka counts partitions, and would overwrite one that is there",
        "make a new topic with the partitions that are wanted, and move to it",
    )


def some(numbers: Sequence[int]) -> str:
    """Numbers as a list for a message: the first twenty, and whether there are more."""
    return ", ".join(map(str, numbers[:20])) + (", ..." if len(numbers) > 20 else "")


def _explicit_replicas(draft: Draft, topic: TopicState) -> None:
    """Explicit lists bind new partitions only; that existing ones differ is said, once for all."""
    wanted = draft.spec.assignment or ()
    other = [
        (partition, replicas)
        for partition, replicas in zip(topic.partition_ids, topic.replicas, strict=True)
        if partition < len(wanted) and wanted[partition] != replicas and partition not in topic.reassigning
    ]
    if other:
        first, actual = other[0]
        example = f"{first}: {list(actual)} instead of {list(wanted[first])}"
        message = f"{count(len(other), 'partition')} placed otherwise, as {example}"
        draft.notice(Reason.REPLICAS_DIFFER, message, ("replicaAssignment",))


def _replication_factor(draft: Draft, topic: TopicState) -> None:
    """Another replication factor needs a reassignment, which is not built."""
    wanted = draft.spec.replication_factor
    if wanted is None:
        return
    found_widths = widths(topic)
    if found_widths <= {wanted}:
        return
    path = ("replicaAssignment",) if draft.spec.assignment is not None else ("replicationFactor",)
    found = " and ".join(map(str, sorted(found_widths)))
    if "replicationFactor" in draft.spec.ignore or path[0] in draft.spec.ignore:
        draft.notice(Reason.IGNORED, f"replicationFactor: {found} on the cluster, {wanted} in the manifest", path)
        return
    keep = f"set replicationFactor: {found}, or " if len(found_widths) == 1 else ""
    if keep and draft.spec.assignment is not None:
        keep = f"list {count(min(found_widths), 'broker')} for each partition, or "
    draft.refuse(
        Reason.REPLICATION_FACTOR_DIFFERS,
        f"replication factor {found} -> {wanted}: existing partitions are never moved",
        path,
        instead=f"{keep}reassign with kafka-reassign-partitions",
    )


def widths(topic: TopicState) -> set[int]:
    """The replication factors that a topic has, by which another one is found; empty if none can be told.

    A partition without replicas is a fault of its own, and one under reassignment has some for a while only.
    """
    if not topic.reassigning:
        return set(map(len, topic.replicas)) - {0}
    pairs = zip(topic.partition_ids, topic.replicas, strict=True)
    return {len(replicas) for partition, replicas in pairs if partition not in topic.reassigning} - {0}


def unequal_widths(topic: TopicState) -> str:
    """Return the words for a topic whose partitions have different numbers of replicas; empty if they have one number.

    Counts as ``widths`` does.
    """
    found: dict[int, list[int]] = {}
    for partition, replicas in zip(topic.partition_ids, topic.replicas, strict=True):
        if replicas and partition not in topic.reassigning:
            found.setdefault(len(replicas), []).append(partition)
    if len(found) < 2:
        return ""
    *fewer, (usual, others) = sorted(found.items(), key=lambda item: (len(item[1]), item[0]))
    parts = [f"{width} in partition{'s' if len(ids) > 1 else ''} {some(ids)}" for width, ids in fewer]
    rest = f"the {len(others):,} others" if len(others) > 1 else f"partition {others[0]}"
    return f"partitions have different numbers of replicas: {', '.join(parts)}, and {usual} in {rest}"
