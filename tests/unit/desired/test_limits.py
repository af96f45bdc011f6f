"""Errors of limits that no schema can express."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders import DocumentSource
from topiarist.desired.parse import limit_errors, parse_limits
from topiarist.model.spec import Limit

TEAM = {"name": "a", "per": "Label", "label": "team", "topics": 1}
OWNER = {"name": "b", "per": "Owner", "partitions": 1}


def _limits(*given: dict[str, Any]) -> tuple[Limit, ...]:
    return parse_limits(given, "policy law", DocumentSource("law.yaml", {"limits": [*given]}), ("limits",))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((TEAM, OWNER), []),
        (
            ({**TEAM, "label": ""},),
            [
                "law.yaml:3:3: policy law, limit a: found per: Label and no label, "
                "wanted the label with the names of the groups"
            ],
        ),
        (
            (TEAM, {**OWNER, "label": "team"}),
            ["law.yaml:8:3: policy law, limit b: found per: Owner and label team, wanted per: Label, or no label"],
        ),
        (
            (TEAM, OWNER, {**OWNER, "name": "a"}),
            ["law.yaml:12:3: policy law, limit a: duplicate name, declared at law.yaml:3:3 already"],
        ),
    ],
)
def test_errors_of_limits(given: tuple[dict[str, Any], ...], expected: list[str]) -> None:
    """A limit needs a label exactly if it is per Label, and names are unique in their document."""
    assert [str(each) for each in limit_errors(_limits(*given))] == expected


def test_limits_without_a_document() -> None:
    """A limit that was not read from a document has the budgets of the cluster as its place."""
    bare = Limit("limit", _limits(TEAM)[0].scope, {})
    assert [str(each.location) for each in limit_errors([bare])] == ["the budgets of the cluster"]


@pytest.mark.parametrize(("given", "size"), [(7, 7), ("2 KiB", 2048), ("2KiB", 2048)])
def test_amounts_of_limits(given: str | int, size: int) -> None:
    """An amount is a number, or has a unit with or without a blank before it."""
    (limit,) = _limits({"name": "a", "per": "Owner", "retainedBytes": given})
    assert [*limit.allowed.values()] == [size]
