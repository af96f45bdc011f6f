"""How much of a large test runs in which lane: the examples of hypothesis, and the cases of a table.

Hypothesis tries a tenth of its examples in ``make test``, all in ``make test-slow``, and ten times as many at night.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest
from hypothesis import settings

_FACTOR = float(os.environ.get("TOPIARIST_EXAMPLES", "0.1"))
"""The lane's factor (``tests/lanes.toml``); pytest without a lane is as quick as ``make test``."""


def examples(count: int) -> settings:
    """Return settings with ``count`` examples in ``make test-slow``, and with the share of the running lane."""
    return settings(max_examples=scaled(count))


def scaled(count: int) -> int:
    """Return the running lane's share of ``count`` examples: at least one."""
    return max(1, round(count * _FACTOR))


def slow_but(
    quick: Collection[Any], cases: Iterable[Any], *, nightly: Collection[Any] = (), area: str = ""
) -> list[Any]:
    """Return the cases of ``parametrize``, all marked slow but the quick ones, and the nightly ones as of this area.

    A case of several arguments is a tuple. Raises ``ValueError`` if a quick or nightly case is none of the cases.
    """
    known = [*cases]
    if missing := [case for case in (*quick, *nightly) if case not in known]:
        raise ValueError(f"no such cases: {missing}")
    night = pytest.mark.night(area=area)
    return [case if case in quick else _marked(case, night if case in nightly else pytest.mark.slow) for case in known]


def _marked(case: Any, mark: pytest.MarkDecorator) -> Any:
    values = case if type(case) is tuple else (case,)
    return pytest.param(*values, marks=mark)
