"""Plans that were kept in a file: the document of ``render.document``, read back into the values that it was made of.

A file is text from outside, whoever wrote it, and a fingerprint proves no more than that nobody changed it by mistake.
So a file counts only if it is, to the byte, what topiarist would write for the values that are read from it, and if
those are values that topiarist would plan: ``content`` has the values, ``sense`` says which of them no plan would have.
Before this stand a file's bytes, after it ``core.standings`` (is the plan still true?) and ``core.review``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn

from topiarist import schema
from topiarist.core.change import Plan
from topiarist.core.quoting import quoted, shown
from topiarist.errors import Reason, TopiaristError
from topiarist.render.document import FORMAT_VERSION, document, dumps, fingerprint
from topiarist.saved import content, sense

AGAIN = "make it anew: topiarist plan PATH --out FILE"
_FIELDS = ("formatVersion", "clusters", "fingerprint")
_LARGEST = 2**63 - 1


def read(raw: bytes, name: str) -> tuple[Plan, ...]:
    """The plans in a file that ``plan --out`` wrote, in its order; ``name`` is the file's, for messages.

    Raises ``TopiaristError`` and nothing else: ``NotAPlan``, ``PlanTooNew`` or ``PlanEdited``.
    """
    try:
        return _plans(raw)
    except TopiaristError as error:
        raise TopiaristError(error.reason, f"{shown(name, 200)}: {error.args[0]}", error.hint) from error
    except RecursionError:
        raise TopiaristError(Reason.NOT_A_PLAN, f"{shown(name, 200)}: is nested too deep", AGAIN) from None


def _plans(raw: bytes) -> tuple[Plan, ...]:
    found = _parsed(raw)
    _know_format(found)
    if fingerprint(found) != found["fingerprint"]:
        _refuse(Reason.PLAN_EDITED, "was edited after it was made: its fingerprint is that of another content")
    if wrong := schema.fault("plan", found):
        _refuse(Reason.NOT_A_PLAN, f"is no plan of topiarist: {wrong}")
    try:
        plans = content.plans(found)
    except content.UnknownWordError as error:
        _refuse(Reason.NOT_A_PLAN, f"is no plan of topiarist: {error}")
    if wrong := sense.wrong(plans):
        _refuse(Reason.NOT_A_PLAN, f"holds what topiarist never plans: {wrong}")
    if dumps(document(plans)).encode() != raw:
        _refuse(Reason.PLAN_EDITED, "was edited after it was made: topiarist writes the same content otherwise")
    return plans


def _parsed(raw: bytes) -> Any:
    """The JSON in a file, read strictly: no key twice, no fractions, no numbers beyond 64 bits."""
    try:
        return json.loads(
            raw.decode(), object_pairs_hook=_unique, parse_int=_whole, parse_float=_no_number, parse_constant=_no_number
        )
    except UnicodeDecodeError as error:
        _refuse(Reason.NOT_A_PLAN, f"is not JSON: byte {error.start + 1:,} is not UTF-8")
    except json.JSONDecodeError as error:
        _refuse(Reason.NOT_A_PLAN, f"is not JSON: {error.msg} at line {error.lineno:,}, column {error.colno:,}")
    except ValueError as error:
        _refuse(Reason.NOT_A_PLAN, f"is not JSON as plans have it: {error}")


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("found a key twice in one object")
    return found


def _whole(digits: str) -> int:
    if len(digits) > 20 or abs(number := int(digits)) > _LARGEST:
        raise ValueError(f"found the number {shown(digits)}, wanted at most 64 bits")
    return number


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"found {shown(text)}, wanted whole numbers only")


def _know_format(found: Any) -> None:
    """Whether it is a document of ours at all, and of a format that this release reads."""
    if not isinstance(found, dict) or any(field not in found for field in _FIELDS):
        _refuse(Reason.NOT_A_PLAN, f"is no plan of topiarist: wanted an object with {', '.join(_FIELDS)}")
    version = found["formatVersion"]
    if type(version) is not int or version < 1:
        _refuse(Reason.NOT_A_PLAN, f"is no plan of topiarist: found formatVersion {quoted(str(version))}")
    if version > FORMAT_VERSION:
        message = f"is of format {version}, and this release reads up to {FORMAT_VERSION}"
        raise TopiaristError(Reason.PLAN_TOO_NEW, message, "apply it with the release that made it, or a later one")


def _refuse(reason: Reason, message: str) -> NoReturn:
    raise TopiaristError(reason, message, AGAIN)
