"""Changes by key, with old and new values: limited in length and without secrets.

The operator uses them for statuses, Events and its log. ``text.plan`` lays out whole plans for a terminal.
Here each key is one entry, because programs read a status too and an Event holds only 1,024 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from topiarist.model.plan import Change
from topiarist.model.run_options import Risk
from topiarist.output.view import ChangeView, view_changes
from topiarist.text import format_count, printable

MAX_VALUE_LENGTH = 120
"""Maximum characters of a value."""

MAX_LISTED_FIELDS = 8
"""Maximum entries of a text; the status of a cluster has more."""

NOT_SET = "not set"
"""Text for the value of a config key without an override."""

# No topic config of Kafka is a secret, but a vendor's may be, and statuses and Events have many readers.
_SECRET = re.compile(r"password|passwd|secret|credential|token|private.?key", re.IGNORECASE)


class FieldChange(NamedTuple):
    """A changed topic field: its path below ``spec``, its value on the cluster, and the new value."""

    field: str
    before: str
    after: str

    @property
    def display_name(self) -> str:
        """Return the field without its ``config.`` prefix: a config key is clear by itself."""
        return self.field.removeprefix("config.")


def list_field_changes(changes: Iterable[Change]) -> Iterator[FieldChange]:
    """Yield the fields that ``changes`` set.

    A change of the ownership record alone sets no field.
    """
    return chain.from_iterable(map(_list_fields, view_changes(changes)))


def _list_fields(change: ChangeView) -> Iterator[FieldChange]:
    if change.partitions:
        yield FieldChange("partitions", *map(str, change.partitions))
    elif change.table:
        name = "leader" if change.table.has_leaders else "replicas"
        for partition, *brokers in change.table.list_rows():
            before, after = (",".join(map(str, each)) for each in brokers)
            yield FieldChange(f"{name}.{partition}", before, after)
    for item in change.overrides:
        before, after = (_display_value(item.key, text) for text in (item.before, item.after))
        yield FieldChange(f"config.{item.key}", before, after)


def describe_changes(changes: Iterable[Change]) -> str:
    """Return the changes in one line: ``grow 3 -> 6 partitions, configure flush.ms 7 -> 8``."""
    return ", ".join(
        f"{change.summary} {_join_old_and_new(_list_fields(change))}" if change.overrides else change.summary
        for change in view_changes(changes)
    )


def describe_differences(changes: Iterable[Change]) -> str:
    """Return how the cluster differs from the spec: ``flush.ms is 9, wanted 7``."""
    fields = list_field_changes(changes)
    return _join_limited(f"{each.display_name} is {each.before}, wanted {each.after}" for each in fields)


def describe_old_and_new(changes: Iterable[Change]) -> str:
    """Return the fields with both values: ``partitions 3 -> 6, flush.ms 7 -> 8``."""
    return _join_old_and_new(list_field_changes(changes))


def describe_risk_reasons(change: Change, risk: Risk) -> str:
    """Return all reasons why a change has this risk.

    Each reason of a config change names its key.
    """
    (view,) = view_changes([change])
    return "; ".join(
        f"{subject}: {assessment.explanation}" if view.overrides else assessment.explanation
        for subject, assessment in view.risks
        if assessment.risk is risk
    )


def _join_old_and_new(fields: Iterable[FieldChange]) -> str:
    return _join_limited(f"{each.display_name} {each.before} -> {each.after}" for each in fields)


def _join_limited(entries: Iterable[str]) -> str:
    listed = list(entries)
    left = len(listed) - MAX_LISTED_FIELDS
    more = f" and {format_count(left, 'other field')}" if left > 0 else ""
    return ", ".join(listed[:MAX_LISTED_FIELDS]) + more


def _display_value(key: str, text: str | None) -> str:
    if text is None:
        return NOT_SET
    if _SECRET.search(key):
        return "(hidden)"
    return printable(text, MAX_VALUE_LENGTH) or '""'
