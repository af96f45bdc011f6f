"""What a record remembers of a topic's spec, so that a later change by others is told from a change of the spec.

The record is the only witness: it is written in the transaction that makes the topic as asked, and it outlives whatever
the API server or a run knows. ``drift`` and ``plan`` ask it. It is bounded: a long value is remembered by its digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from topiarist.kafka import config_values
from topiarist.model.spec import TopicSpec
from topiarist.model.state import AppliedSpec, OwnershipRecord

MAX_VALUE_LENGTH = 200
"""Characters of a config value that a record holds as it stands."""


def encode_value(text: str) -> str:
    """A config value as a record holds it: itself, or its digest if it is long."""
    return text if len(text) <= MAX_VALUE_LENGTH else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def matches_recorded_value(key: str, value: str, text: str) -> bool:
    """Whether ``value``, as a record holds it, stands for what ``text`` means to Kafka."""
    return value == encode_value(text) or config_values.is_equivalent(key, value, text)


def build_applied_spec(
    spec: TopicSpec, satisfied_keys: Iterable[str], keys: Iterable[str], partitions: int, before: AppliedSpec | None
) -> AppliedSpec:
    """The witness beside a topic that then has ``partitions``, and the spec's values for the keys ``satisfied_keys``.

    ``keys`` are all that the record will list; of those that the spec does not meet is kept what was known ``before``.
    A value that means the same as before keeps its text, so that nothing is written because of it.
    """
    was, holds = dict(before.config) if before else {}, frozenset(satisfied_keys)
    values = []
    for key in keys:
        if key in holds and not (key in was and matches_recorded_value(key, was[key], spec.config[key])):
            values.append((key, encode_value(spec.config[key])))
        elif key in was:
            values.append((key, was[key]))
    size = partitions if partitions == spec.partitions else before.partitions if before else None
    return AppliedSpec(size, tuple(values), spec.remove_unmanaged)


def describe_external_changes(record: OwnershipRecord | None, config: Mapping[str, str]) -> str:
    """What others did to a topic's config after our last write: by key, as far as the record remembers what we set."""
    values = ", ".join(
        f"{key} was {before}, and is {'not set' if now is None else now} now"
        for key, before, now in _changed_values(record, config)
    )
    return f"its config was changed by others since our last write{': ' if values else ''}{values}"


def _changed_values(record: OwnershipRecord | None, config: Mapping[str, str]) -> Iterator[tuple[str, str, str | None]]:
    """The keys whose values are not what ``record`` remembers: key, remembered value, value now (None: not set)."""
    for key, value in record.applied.config if record and record.applied else ():
        now = config.get(key)
        if now is None or not matches_recorded_value(key, value, now):
            yield key, value, now
