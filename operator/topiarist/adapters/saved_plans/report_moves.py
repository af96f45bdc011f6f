"""Read the moved partitions in a report of ``apply --report``, for a plan that moves them back.

A partition has a line when its move is done. A run that ended earlier has a line for the topic with all planned moves:
a batch that it has sent may be done by now, so these count too.

The lines of a run that was killed may end within a line: a line that is no JSON is counted and left out. A line that is
JSON, and that topiarist never writes, is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct, convert

from topiarist.adapters.own_values import Int32, ReplicaList
from topiarist.adapters.strict_json import JsonError, decode_json
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import MoveKind, ReplicaMove
from topiarist.model.outcome import Result
from topiarist.planning.moves.revert import MovedTopic, merge_moves

_HINT = "give the file of apply --report"


class MovedCluster(NamedTuple):
    """The moved topics of one cluster, by name, and Kafka's id of the cluster."""

    cluster_id: str
    topics: Mapping[str, MovedTopic]


class ReportMoves(NamedTuple):
    """The moved partitions of a report by cluster, and the numbers of the lines that are cut off."""

    clusters: Mapping[str, MovedCluster]
    cut_lines: tuple[int, ...]


def parse_report(data: bytes, path: str) -> ReportMoves:
    """Return the moves of all runs in a report; raise ``TopiaristError`` (Unreadable) if it is none."""
    cut_lines: list[int] = []
    found: dict[str, tuple[str, dict[str, MovedTopic]]] = {}
    has_header = False
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            fields = decode_json(line)
        except JsonError:
            cut_lines.append(number)
            continue
        try:
            has_header |= _is_header(fields)
            for move in _find_moves(fields):
                _add_move(found, fields, move)
        except (KeyError, TypeError, ValueError) as error:
            message = f"{path}, line {number}: is no line of a report"
            raise TopiaristError(Reason.UNREADABLE, message, _HINT) from error
    if not has_header:
        raise TopiaristError(Reason.UNREADABLE, f"{path}: found no header of a report", _HINT)
    clusters = {
        name: MovedCluster(cluster_id, {topic: _merge(moved) for topic, moved in topics.items()})
        for name, (cluster_id, topics) in found.items()
    }
    return ReportMoves(clusters, tuple(cut_lines))


def _is_header(fields: Any) -> bool:
    return bool(fields["row"] == "header" and fields["formatVersion"] == 1)


def _merge(moved: MovedTopic) -> MovedTopic:
    return moved._replace(moves=merge_moves(moved.moves))


def _find_moves(fields: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Return the moves of one line: that of a partition, or those of a topic that are not finished."""
    if fields["row"] == "move":
        return [fields]
    if fields["row"] != "topic" or fields["result"] != Result.PENDING.value:
        return []
    return [move for change in fields["changes"] if change["kind"] == "MoveReplicas" for move in change["moves"]]


class _Topic(Struct, rename="camel"):
    """The topic of a line."""

    cluster: str
    cluster_id: str
    topic: str
    topic_id: str | None


class _Move(Struct):
    """A move in a line."""

    partition: Int32
    before: ReplicaList
    after: ReplicaList
    reasons: Annotated[tuple[MoveKind, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        if self.before == self.after or any(len(set(each)) < len(each) for each in (self.before, self.after)):
            raise ValueError("found no move")


def _add_move(
    found: dict[str, tuple[str, dict[str, MovedTopic]]], fields: Mapping[str, Any], move_fields: Mapping[str, Any]
) -> None:
    """Add a move of one line; raise ``ValueError`` if the line is malformed."""
    line, read = convert(fields, _Topic), convert(move_fields, _Move)
    move = ReplicaMove(line.topic, read.partition, tuple(read.before), tuple(read.after), read.reasons)
    known_id, topics = found.setdefault(line.cluster, (line.cluster_id, {}))
    if known_id != line.cluster_id:
        raise ValueError
    earlier = topics.get(line.topic)
    # A topic with another id was deleted and recreated between two runs.
    moves = earlier.moves if earlier and earlier.topic_id in (None, line.topic_id) else ()
    topics[line.topic] = MovedTopic(line.topic_id, (*moves, move))
