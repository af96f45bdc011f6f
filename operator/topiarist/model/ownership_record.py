"""The applied spec in an ownership record: build it, compare it, describe external changes.

Only the record distinguishes external changes from changes of the spec: it is written together with the spec, and it
outlives the data of a run and of the API server. ``filters/observed.py`` and ``planning/planner.py`` read it.
Its size is bounded: a long value is stored as its digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence

from topiarist.kafka import config_values
from topiarist.model.spec import TopicSpec
from topiarist.model.state import AppliedSpec, OwnershipRecord

MAX_VALUE_LENGTH = 200
"""The maximum length in characters of a config value that a record stores as text."""


def encode_value(text: str) -> str:
    """Return a config value as a record stores it: the text itself, or its SHA-256 digest if it is long."""
    return text if len(text) <= MAX_VALUE_LENGTH else f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def matches_recorded_value(key: str, value: str, text: str) -> bool:
    """Return whether ``value``, as a record stores it, means the same to Kafka as ``text``."""
    return value == encode_value(text) or config_values.is_equivalent(key, value, text)


def build_applied_spec(
    spec: TopicSpec, satisfied_keys: Iterable[str], keys: Iterable[str], partitions: int, before: AppliedSpec | None
) -> AppliedSpec:
    """Build the applied spec for the record of a topic after its plan is applied.

    The topic then has ``partitions``, and the spec's values for ``satisfied_keys``. ``keys`` are all keys that the
    record lists; for the other keys the values of ``before`` are kept. A value that means the same as before keeps its
    old text, so that the record is not rewritten for it.
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


def changed_configs(
    record: OwnershipRecord | None,
    config: Mapping[str, str],
    is_invisible: Callable[[str], bool] = lambda key: False,
) -> Sequence[tuple[str, str]]:
    """Return the keys with another value than the record has, each with the recorded value.

    Brokers do not show a config that their Kafka version has dropped: ``is_invisible`` says which keys not to compare.
    """
    return [
        (key, value)
        for key, value in (record.applied.config if record and record.applied else ())
        if (not is_invisible(key) if key not in config else not matches_recorded_value(key, value, config[key]))
    ]


def describe_external_changes(
    record: OwnershipRecord | None,
    config: Mapping[str, str],
    is_invisible: Callable[[str], bool] = lambda key: False,
) -> str:
    """Return a message about external changes to a topic's config, with the keys of ``changed_configs``."""
    changed = [
        f"{key} was {value}, and is {config.get(key, 'not set')} now"
        for key, value in changed_configs(record, config, is_invisible)
    ]
    message = "its config has changed since topiarist recorded it"
    return f"{message}: {', '.join(changed)}" if changed else message
