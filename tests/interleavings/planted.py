"""A planted fault: functions of the product that are replaced, as ``monkeypatch`` does, and the bound that finds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

Patch = tuple[Any, str, Any]
"""An object, the name of its attribute, and the replacement."""


class Fault(NamedTuple):
    """A planted fault, and the bound in which a find shows that the true code does not have there."""

    bound: str
    patches: Sequence[Patch]
