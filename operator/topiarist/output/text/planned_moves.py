"""Moves of existing replicas as text: what moves, for which reason, with which leaders, in how many batches.

``changes`` puts the fields below the heading of a topic, ``plan`` the pace below the table of brokers. The comment on a
pull request has the same texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from topiarist.errors import Location
from topiarist.model.moves import UNLIMITED, MoveKind, MoveType, ReplicaMove
from topiarist.model.plan import Plan
from topiarist.model.spec import TopicSpec
from topiarist.planning.moves.execution.ledger import make_batches
from topiarist.text import format_count, humanize_bytes


def summarize_moves(moves: Sequence[ReplicaMove], partition_count: int = 0) -> str:
    """Return moves in a few words: ``factor 2 -> 3, 6 partitions, 6 copies``.

    ``partition_count`` is the number of partitions of the topic; 0 if it is not known.
    """
    before, after = ({len(lists) for lists in each} for each in zip(*[move[2:4] for move in moves], strict=True))
    count = format_count(len(moves), "partition")
    if partition_count > len(moves):
        count = f"{len(moves):,} of {format_count(partition_count, 'partition')}"
    copies = sum(len(move.added) for move in moves)
    end = f", {count_copies(copies)}" if copies else ""
    if len(after) == 1 and before.isdisjoint(after):
        return f"factor {' and '.join(map(str, sorted(before)))} -> {min(after)}, {count}{end}"
    reorders = all(move.type is MoveType.REORDER for move in moves)
    return f"reorder the replicas of {count}" if reorders else f"move {count}{end}"


def count_copies(copies: int) -> str:
    """Return a number of copied replicas: ``1 copy``, ``12 copies``."""
    return f"{copies:,} {'copy' if copies == 1 else 'copies'}"


def describe_move_kinds(moves: Sequence[ReplicaMove]) -> str:
    """Return the reasons of moves by name, each with its number of partitions: ``Drain (6), Racks (2)``."""
    return ", ".join(f"{kind.value} ({len(found):,})" for kind, found in _group_by_kind(moves))


def describe_move_reasons(moves: Sequence[ReplicaMove], spec: TopicSpec | None) -> str:
    """Return why replicas move: ``broker 5 is drained (Cluster.spec.drainBrokers)``.

    Several reasons each have their number of partitions. Empty if a changed factor, which the heading has, is the only
    one. Without ``spec`` only the names of the reasons are known: the plan was saved, or takes moves back.
    """
    groups = _group_by_kind(moves)
    if spec is None:
        return describe_move_kinds(moves)
    if [kind for kind, _ in groups] == [MoveKind.FACTOR]:
        return ""
    texts = [(_describe_reason(kind, found, spec), len(found)) for kind, found in groups]
    if len(texts) == 1:
        return texts[0][0]
    return "; ".join(f"{text}: {format_count(count, 'partition')}" for text, count in texts)


def _group_by_kind(moves: Sequence[ReplicaMove]) -> list[tuple[MoveKind, list[ReplicaMove]]]:
    groups = [(kind, [move for move in moves if kind in move.kinds]) for kind in MoveKind]
    return [(kind, found) for kind, found in groups if found]


def _describe_reason(kind: MoveKind, moves: Sequence[ReplicaMove], spec: TopicSpec) -> str:
    match kind:
        case MoveKind.DRAIN:
            return _describe_drain(moves, spec)
        case MoveKind.RACKS:
            return "replicas are in fewer racks than they could be"
        case MoveKind.FACTOR:
            return f"replicationFactor is {len(moves[0].after)}"
        case MoveKind.ASSIGNMENT:
            reorders = all(move.type is MoveType.REORDER for move in moves)
            return f"replicaAssignment lists {'this order' if reorders else 'these brokers'}"
        case MoveKind.SPREAD:
            return f"replicas or leaders are uneven (spread: {'One' if spec.spread_within_one else 'Kafka'})"
    return str(kind.value)


def _describe_drain(moves: Sequence[ReplicaMove], spec: TopicSpec) -> str:
    # A move that has other reasons too also removes replicas from brokers that are not drained.
    declared = spec.cluster.drain_brokers
    removed = {broker for move in moves for broker in move.removed}
    by_option = {broker for move in moves if move.kinds == (MoveKind.DRAIN,) for broker in move.removed} - declared
    texts = (
        _describe_drained(removed & declared, "Cluster.spec.drainBrokers"),
        _describe_drained(by_option, "--drain-brokers"),
    )
    return " and ".join(filter(None, texts))


def _describe_drained(brokers: Iterable[int], source: str) -> str:
    ids = [*map(str, sorted(brokers))]
    if not ids:
        return ""
    subject = f"broker {ids[0]} is" if len(ids) == 1 else f"brokers {', '.join(ids)} are"
    return f"{subject} drained ({source})"


def find_move_location(moves: Sequence[ReplicaMove], spec: TopicSpec | None) -> Location | None:
    """Return the location of the drained brokers that moves leave, since the topic's own document does not have them.

    None if the moves have other reasons, or if an option of the run names the brokers.
    """
    if spec is None or spec.cluster.source is None:
        return None
    removed = {broker for move in moves if MoveKind.DRAIN in move.kinds for broker in move.removed}
    return spec.cluster.source.locate(("spec", "drainBrokers")) if removed & spec.cluster.drain_brokers else None


def describe_new_leaders(moves: Iterable[ReplicaMove]) -> str:
    """Return how many partitions get another preferred leader; empty if none does."""
    count = sum(move.before[0] != move.after[0] for move in moves)
    if not count:
        return ""
    return f"{format_count(count, 'partition')} get{'s' if count == 1 else ''} another preferred leader"


def describe_pace(plan: Plan) -> str:
    """Return the size and the pace of a plan's moves; empty if it moves nothing.

    ``12 partitions, 12 copies, 3 batches, at most 50 MiB/s a broker``.
    """
    moves = [move for topic in plan.actionable_topics() for move in topic.moves()]
    return ", ".join(_list_pace(plan, moves)) if moves else ""


def _list_pace(plan: Plan, moves: Sequence[ReplicaMove]) -> Iterator[str]:
    settings = plan.move_settings
    copies = sum(len(move.added) for move in moves)
    batches = len(make_batches(moves, settings.batch))
    yield format_count(len(moves), "partition")
    yield count_copies(copies) if copies else "nothing is copied"
    yield f"{batches:,} batch{'' if batches == 1 else 'es'}"
    if copies and settings.throttle == UNLIMITED:
        yield "not throttled"
    elif copies and settings.throttle:
        yield f"at most {humanize_bytes(settings.throttle)}/s a broker"
