"""What is to be known of one topic config: the shape of the entries in ``configtable``, for ``configs`` to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from topiarist.core.javatext import INT_MAX, LONG_MAX
from topiarist.core.state import Release

OLDEST: Release = (2, 4)

Form = Literal["boolean", "int", "long", "double", "word", "words", "throttle", "version"]
"""How a value is written: ``word`` is one of a list, ``words`` any of them, ``throttle`` is ``*`` or ``P:B,P:B``."""


class ConfigDef(NamedTuple):
    """One topic config.

    ``minimum`` and ``maximum`` bound a number (None: only what its form can hold); ``besides`` is allowed outside of
    them. ``words`` are the words that are allowed. ``server`` has the broker properties that give the value where a
    topic has none (the first that is set counts), each with what to multiply it by. ``earlier_minimum`` and
    ``earlier_default`` held before that release. ``hosted`` is the smallest number with which a broker can host a log,
    where Kafka's own check lets smaller ones pass.
    """

    name: str
    form: Form
    default: str
    description: str
    minimum: int | None = None
    maximum: int | None = None
    besides: int | None = None
    words: tuple[str, ...] = ()
    server: tuple[tuple[str, int], ...] = ()
    since: Release = OLDEST
    deprecated: tuple[Release, str] | None = None
    earlier_minimum: tuple[Release, int] | None = None
    earlier_default: tuple[Release, str] | None = None
    hosted: int | None = None

    @property
    def unit(self) -> str:
        """``ms``, ``bytes``, or empty where a value is neither a time nor a size."""
        suffix = self.name.rpartition(".")[2]
        return suffix if suffix in ("ms", "bytes") else ""

    def lowest(self, release: Release) -> int | None:
        """The smallest number that a release accepts; None if any will do."""
        if self.earlier_minimum is not None and release < self.earlier_minimum[0]:
            return self.earlier_minimum[1]
        return self.minimum


VERSIONS: Mapping[str, int | None] = {
    **dict.fromkeys(("0.8.0", "0.8.1", "0.8.2", "0.9.0")),
    **{"0.10.0": 1, "0.10.1": 2, "0.10.2": 0, "0.11.0": 2, "1.0": 0, "1.1": 0, "2.0": 1, "2.1": 2, "2.2": 1, "2.3": 1},
    **{"2.4": 1, "2.5": 0, "2.6": 0, "2.7": 2, "2.8": 1, "3.0": 1, "3.1": 0, "3.2": 0, "3.3": 3, "3.4": 0, "3.5": 2},
    **{"3.6": 2, "3.7": 4, "3.8": 0, "3.9": 0},
}
"""The versions that ``message.format.version`` knows, each with its last ``-IV`` (None: it never had any)."""

LIMITS: Mapping[str, int] = {"int": INT_MAX, "long": LONG_MAX}
"""The largest number that a form holds; the smallest is one more, negative."""
