"""What holds for every error and every outcome of this package, in all of its tests."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from topiarist.adapters.kafka_admin import cluster  # noqa: F401
from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import Outcome, Result

HINTS = frozenset(
    value
    for name, module in [*sys.modules.items()]
    if name.startswith("topiarist.")
    for key, value in vars(module).items()
    if "HINT" in key and isinstance(value, str)
)
"""The constants that say what to do: none of them is the message of an error."""


@pytest.fixture(autouse=True)
def _parts_have_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error has a reason, a message and a hint; an outcome a topic, a result, and a reason with a message."""
    make_error, make_outcome = TopiaristError.__init__, Outcome.__new__

    def check_error(self: TopiaristError, reason: Reason, message: str, hint: str = "") -> None:
        assert isinstance(reason, Reason)
        assert isinstance(message, str)
        assert isinstance(hint, str)
        assert message not in HINTS
        make_error(self, reason, message, hint)

    def check_outcome(cls: type[Outcome], topic: str, result: Result, *rest: Any, **fields: Any) -> Outcome:
        made = make_outcome(cls, topic, result, *rest, **fields)
        assert isinstance(topic, str)
        assert isinstance(result, Result)
        assert made.reason is None or isinstance(made.reason, Reason)
        assert isinstance(made.message, str)
        assert isinstance(made.topic_id, str | None)
        return made

    monkeypatch.setattr(TopiaristError, "__init__", check_error)
    monkeypatch.setattr(Outcome, "__new__", check_outcome)
