"""A finding of a drift report about one topic, as a value; and what there is to say of topics that no manifest names.

``discrepancies`` makes them of plans; ``drift`` makes rows of them.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from topiarist.core.change import Risk
from topiarist.core.names import INTERNAL_TOPICS
from topiarist.core.requested import explain
from topiarist.core.spec import ClusterSpec
from topiarist.core.state import ClusterState, TopicState
from topiarist.core.units import count
from topiarist.errors import Reason


class Kind(str, Enum):
    """What kind of difference it is: the ``class`` of a finding, and the words of ``--fail-on``."""

    MISSING = "missing"
    UNEXPECTED = "unexpected"
    ORPHANED = "orphaned"
    PARTITIONS = "partitions"
    REPLICATION_FACTOR = "replicationFactor"
    ASSIGNMENT = "assignment"
    CONFIG = "config"
    UNMANAGED = "unmanaged"
    FAULT = "fault"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Planned(str, Enum):
    """What a plan would do about a difference: change it, refuse to, or only say it."""

    CHANGE = "Change"
    REFUSED = "Refused"
    REPORTED = "Reported"


class Discrepancy(NamedTuple):
    """One difference of one topic. ``field`` is the path below the spec with dots (empty: the topic as a whole).

    ``expected`` and ``actual`` are text, None where there is no value. ``risk`` is that of the change, None if there is
    none. ``reasons`` are those of the refusals and notices that it comes from, ``message`` and ``instead`` their words.
    """

    kind: Kind
    field: str
    expected: str | None
    actual: str | None
    planned: Planned
    risk: Risk | None = None
    because: str = ""
    reasons: tuple[Reason, ...] = ()
    message: str = ""
    instead: str = ""


def undeclared(name: str, state: ClusterState, cluster: ClusterSpec, owner: str) -> Discrepancy | None:
    """What to say of a topic of ``state`` that no manifest of its cluster names; None if there is nothing to say.

    Kafka's own topics are none of anybody's business, those of other software (``protected``) are expected unless we
    have made them, and what is marked for deletion is about to go.
    """
    topic = state.topics.get(name)
    if name in state.deleting or name in INTERNAL_TOPICS:
        return None
    record = topic.valid_record if topic else None
    if record and record.owner == owner:
        instead = f"give it a manifest again, or give it up: topiarist release {name}"
        message = "was made or adopted by this owner, and is not in the given paths"
        return Discrepancy(Kind.ORPHANED, "", None, size(topic), Planned.REPORTED, message=message, instead=instead)
    if cluster.protects(name):
        return None
    if topic is None:
        fault = state.faults[name]
        message = f"is not in the given paths, and it cannot be read: {fault.where}: {fault.why}"
        return Discrepancy(Kind.UNEXPECTED, "", None, "unreadable", Planned.REPORTED, message=message)
    message = "is not in the given paths" + (f"; it belongs to owner {record.owner}" if record else "")
    return Discrepancy(Kind.UNEXPECTED, "", None, size(topic), Planned.REPORTED, message=message)


def stale_request() -> Discrepancy:
    """Say of a topic that a reassignment request names it that is older than the topic, or whose topic is gone."""
    said = explain()
    reasons = (Reason.STANDING_FAULT,)
    found = Discrepancy(Kind.FAULT, "reassignment", None, None, Planned.REPORTED, reasons=reasons)
    return found._replace(message=said.message, instead=said.instead)


def factors(topic: TopicState) -> str:
    """The replication factors of a topic's partitions: mostly one."""
    return ", ".join(map(str, sorted(set(map(len, topic.replicas))))) or "0"


def size(topic: TopicState | None) -> str | None:
    """A topic's size in words; None if there is no topic."""
    return sized(len(topic.replicas), factors(topic)) if topic else None


def sized(partitions: int, width: str) -> str:
    """How many partitions with how many replicas, in words."""
    return f"{count(partitions, 'partition')}, replication factor {width}"
