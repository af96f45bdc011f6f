"""Changes by key, with old and new values: for statuses, Events and the log, within bounds and without secrets.

``render.changes`` lays out whole plans for a terminal. Here each key is one entry, since a status is read by machines
too, and since an Event has room for 1,024 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from topiarist.core.change import AddPartitions, Change, ConfigItem, CreateTopic, DeleteTopic, Risk, UpdateConfig
from topiarist.core.quoting import shown
from topiarist.core.units import count
from topiarist.render.changes import action, verdicts

MAX_VALUE = 120
"""Characters of a value."""

MAX_LISTED = 8
"""Entries of a text; the status of a cluster has more."""

NOT_SET = "not set"
"""In place of the value of a config key without override."""

_SECRET = re.compile(r"password|passwd|secret|credential|token|private.?key", re.IGNORECASE)


class Detail(NamedTuple):
    """One field of a topic that a change sets: its path below ``spec``, its value on the cluster, and the new value."""

    field: str
    before: str
    after: str

    @property
    def name(self) -> str:
        """The field as a text names it: config keys speak for themselves."""
        return self.field.removeprefix("config.")


def details(changes: Iterable[Change]) -> Iterator[Detail]:
    """Yield the fields that ``changes`` set; changes of the ownership record alone set none."""
    for change in changes:
        match change:
            case CreateTopic(replicas):
                yield Detail("partitions", "0", str(len(replicas)))
            case AddPartitions():
                yield Detail("partitions", str(change.before), str(change.total))
            case DeleteTopic(partitions):
                yield Detail("partitions", str(partitions), "0")
            case UpdateConfig(items):
                yield from map(_config, items)


def in_words(changes: Iterable[Change]) -> str:
    """Return what the changes do, in one line: ``grow 3 -> 6 partitions, configure flush.ms 7 -> 8``."""
    return ", ".join(_words(change) for change in changes)


def found_and_wanted(changes: Iterable[Change]) -> str:
    """Return how the cluster differs from the spec: ``flush.ms is 9, wanted 7``."""
    return _listed(f"{name} is {before}, wanted {after}" for name, before, after in _named(changes))


def old_and_new(changes: Iterable[Change]) -> str:
    """Return the fields with the value before and after: ``partitions 3 -> 6, flush.ms 7 -> 8``."""
    return _listed(f"{name} {before} -> {after}" for name, before, after in _named(changes))


def risks(change: Change, risk: Risk) -> str:
    """Return every reason for which a change has this risk, with the keys if it is a change of config."""
    reasons = [(subject, verdict.because) for subject, verdict in verdicts([change]) if verdict.risk is risk]
    return "; ".join(f"{subject}: {why}" if isinstance(change, UpdateConfig) else why for subject, why in reasons)


def _words(change: Change) -> str:
    words = action([change])
    return f"{words} {old_and_new([change])}" if isinstance(change, UpdateConfig) else words


def _named(changes: Iterable[Change]) -> Iterator[tuple[str, str, str]]:
    return ((detail.name, detail.before, detail.after) for detail in details(changes))


def _listed(entries: Iterable[str]) -> str:
    first, more = [*entries], ""
    if len(first) > MAX_LISTED:
        more = f" and {count(len(first) - MAX_LISTED, 'other field')}"
    return ", ".join(first[:MAX_LISTED]) + more


def _config(item: ConfigItem) -> Detail:
    return Detail(f"config.{item.key}", _value(item.key, item.before), _value(item.key, item.after))


def _value(key: str, text: str | None) -> str:
    if text is None:
        return NOT_SET
    if _SECRET.search(key):
        return "(hidden)"
    return shown(text, MAX_VALUE) or '""'
