"""Requirements of moves that a plan checks when it is made, and again when a saved plan is applied.

``topic`` beside this module calls the functions for a new plan, ``filters/review.py`` for a saved one.
"""

from __future__ import annotations

from collections.abc import Mapping

from topiarist.errors import Reason
from topiarist.kafka import config_rules
from topiarist.kafka.config_rules import is_min_isr_above
from topiarist.model.moves import MoveKind
from topiarist.model.plan import Issue, MoveReplicas
from topiarist.text import format_count

KINDS_OF_PROTECTED_TOPICS = frozenset({MoveKind.DRAIN, MoveKind.RACKS})
"""The kinds of moves that ``spec.moves.protected`` permits for internal and protected topics."""


def find_missing_throttle(change: MoveReplicas, throttle: int | None) -> Issue | None:
    """Return the refusal of copies for which no throttle is declared; ``UNLIMITED`` is declared too."""
    if not change.copies or throttle is not None:
        return None
    message = f"{format_count(change.copies, 'replica')} to copy, and no throttle is declared"
    hint = "set throttle in spec.moves of the Cluster, such as 50MiB or Unlimited, or pass --throttle"
    return Issue(Reason.THROTTLE_MISSING, message, hint=hint)


def find_low_replica_count(
    change: MoveReplicas, config: Mapping[str, str], settings: Mapping[str, str]
) -> Issue | None:
    """Return the refusal of moves that leave fewer replicas than ``min.insync.replicas``.

    Producers with ``acks=all`` would stop, or, since Kafka 3.7, need fewer replicas than declared. ``config`` has the
    overrides of the topic after the plan, ``settings`` those of the brokers that are known. A value that is not known
    counts as 2 where a partition has three replicas or more.
    """
    lowered = [move for move in change.moves if len(move.after) < len(move.before)]
    if not lowered:
        return None
    fewest, key = min(len(move.after) for move in lowered), "min.insync.replicas"
    text = config.get(key) or config_rules.server_default(key, settings)
    assumed = "2" if text is None and max(len(move.before) for move in lowered) > 2 else text or "1"
    if not is_min_isr_above({key: assumed}, fewest):
        return None
    shown = "not known and may be 2: declare it in brokerConfig of the Cluster" if text is None else text
    message = f"the moves leave {format_count(fewest, 'replica')} for a partition, and {key} is {shown}"
    hint = f"keep {format_count(int(assumed), 'replica')}, or lower {key} first"
    return Issue(Reason.MIN_ISR_ABOVE_REPLICAS, message, ("replicationFactor",), hint)
