"""How much of a large test runs in which lane: the examples of hypothesis, and the cases of a table.

Hypothesis tries a fifth of its examples in ``make test``, all in ``make test-slow``, and ten times as many at night.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import settings

_FACTOR = float(os.environ.get("TOPIARIST_EXAMPLES", "0.2"))
"""The lane's factor (``tests/lanes.toml``); pytest without a lane is as quick as ``make test``."""


def examples(count: int) -> settings:
    """Return settings with ``count`` examples in ``make test-slow``, and with the share of the running lane."""
    return settings(max_examples=scaled(count))


def scaled(count: int) -> int:
    """Return the running lane's share of ``count`` examples: at least one."""
    return max(1, round(count * _FACTOR))


def slow_but(quick: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """Return the cases of ``parametrize``, all marked slow but the quick ones.

    A case of several arguments is a tuple. Raises ``ValueError`` if a quick case is none of the cases.
    """
    known = [*cases]
    if missing := [case for case in quick if case not in known]:
        raise ValueError(f"no such cases: {missing}")
    return [case if case in quick else _mark_slow(case) for case in known]


def _mark_slow(case: Any) -> Any:
    values = case if type(case) is tuple else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)
