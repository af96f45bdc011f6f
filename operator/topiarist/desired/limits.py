"""The limits of a ``Policy`` or of the budgets of a ``Cluster``: parsed, and checked together.

``parse`` calls ``parse_limits`` with limits that the schema accepts. ``rules`` and ``filters.policies`` report
``limit_errors``, which no schema can express.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from topiarist.errors import Diagnostic, FieldPath, Location
from topiarist.kafka.config_values import BYTES_BY_SIZE_UNIT, parse_amount
from topiarist.model.spec import Limit, LimitedResource, LimitScope, Source


def parse_limits(
    given: Iterable[Mapping[str, Any]], title: str, source: Source, path: FieldPath, *, counts_all: bool = True
) -> tuple[Limit, ...]:
    """Parse the limits at ``path`` of a document; ``title`` names the document in messages."""
    return tuple(
        Limit(
            title=f"{title}, limit {fields['name']}",
            scope=LimitScope(fields["per"]),
            allowed={each: parse_bytes(fields[each.value]) for each in LimitedResource if each.value in fields},
            label=fields.get("label", ""),
            deny=fields.get("action", "Deny") == "Deny",
            counts_all=counts_all,
            source=source,
            path=(*path, index),
        )
        for index, fields in enumerate(given)
    )


def parse_bytes(value: str | int) -> int:
    """Return the bytes of a size that the schema accepts: a number, or text such as ``50 MiB``."""
    amount = value if isinstance(value, int) else parse_amount(value.replace(" ", ""), BYTES_BY_SIZE_UNIT)
    assert amount is not None, "the schema accepts amounts only"
    return amount


def limit_errors(limits: Iterable[Limit]) -> Iterator[Diagnostic]:
    """Yield each limit that has no label although it is per Label, or the other way round, and each duplicate name."""
    first: dict[str, Limit] = {}
    for limit in limits:
        place = limit.locate() or Location("the budgets of the cluster")
        earlier = first.setdefault(limit.title, limit)
        if earlier is not limit:
            yield Diagnostic(place, f"{limit.title}: duplicate name, declared at {earlier.locate()} already")
        if (limit.scope is LimitScope.LABEL) is not bool(limit.label):
            found = "no label" if not limit.label else f"label {limit.label}"
            wanted = "the label with the names of the groups" if not limit.label else "per: Label, or no label"
            yield Diagnostic(place, f"{limit.title}: found per: {limit.scope.value} and {found}, wanted {wanted}")
