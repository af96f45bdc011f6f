"""Errors as SARIF 2.1.0, the report format of code scanners.

``validate --format sarif`` prints it for tools that show the errors beside the findings of other scanners.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from topiarist import __version__
from topiarist.adapters.saved_plans.encode import dumps
from topiarist.errors import Diagnostic, Reason
from topiarist.output.view import relative_path

_BASE_ID = "%SRCROOT%"
_LINE_NUMBERS = re.compile(r"(?<=line )[0-9]+|:[0-9]+:[0-9]+")
_DOUBTFUL_RULE = "Doubtful"
_RULE_DESCRIPTIONS = {
    Reason.INVALID_MANIFEST.value: "A manifest that is not valid.",
    Reason.UNREADABLE.value: "A file that cannot be read, or YAML that parsers read differently.",
    Reason.CONFIG_INVALID.value: "A topic config that Kafka rejects, or that conflicts with another config.",
    Reason.NAME_COLLISION.value: "Duplicate documents, or topic names that collide in Kafka's metric names.",
    Reason.POLICY_DENIED.value: "A topic that violates a policy.",
    Reason.POLICY_WARNING.value: "A topic that violates a policy that only warns.",
    _DOUBTFUL_RULE: "A valid manifest that is probably a mistake.",
}


def to_sarif(
    errors: Sequence[Diagnostic], warnings: Sequence[Diagnostic] = (), *, suppressed_count: int = 0, root: str
) -> str:
    """Return a SARIF log with one run.

    File locations are relative to the folder ``root``. ``suppressed_count`` is the number of errors that were counted
    but not kept. A result's fingerprint depends on no line number, neither its own nor one in its message: the
    fingerprint stays the same when lines are added above.
    """
    results = [(diagnostic.reason, "error", diagnostic) for diagnostic in errors]
    results += [(_warning_rule(diagnostic), "warning", diagnostic) for diagnostic in warnings]
    rules = sorted({rule for rule, _, _ in results})
    descriptions = [_RULE_DESCRIPTIONS.get(rule, "A manifest that violates a rule.") for rule in rules]
    listed = [{"id": rule, "shortDescription": {"text": text}} for rule, text in zip(rules, descriptions, strict=True)]
    run: dict[str, Any] = {
        "tool": {"driver": {"name": "topiarist", "version": __version__, "rules": listed}},
        "originalUriBaseIds": {_BASE_ID: {"description": {"text": "The folder in which topiarist was run."}}},
        # Columns count characters; the default of SARIF is UTF-16 units.
        "columnKind": "unicodeCodePoints",
        "results": list(_build_results(results, rules, root)),
    }
    if suppressed_count:
        text = f"{suppressed_count:,} more errors were counted and not kept."
        note = {"level": "warning", "message": {"text": text}}
        run["invocations"] = [{"executionSuccessful": True, "toolExecutionNotifications": [note]}]
    return dumps({"version": "2.1.0", "runs": [run]})


def _warning_rule(diagnostic: Diagnostic) -> str:
    """Return the rule id of a warning; an invalid manifest would be an error, so its rule is ``_DOUBTFUL_RULE``."""
    return _DOUBTFUL_RULE if diagnostic.reason == Reason.INVALID_MANIFEST.value else diagnostic.reason


def _build_results(
    diagnostics: Sequence[tuple[str, str, Diagnostic]], rules: Sequence[str], root: str
) -> Iterator[dict[str, Any]]:
    seen: Counter[str] = Counter()
    for rule, level, diagnostic in diagnostics:
        file = relative_path(diagnostic.location.file, root)
        identity = "\0".join((rule, file, _LINE_NUMBERS.sub("", diagnostic.message)))
        # Equal errors in one file need different fingerprints, so their ordinal is part of the hash.
        seen[identity] += 1
        fingerprint = sha256(f"{identity}\0{seen[identity]}".encode()).hexdigest()
        text = f"{diagnostic.message}\n{diagnostic.hint}" if diagnostic.hint else diagnostic.message
        yield {
            "ruleId": rule,
            "ruleIndex": rules.index(rule),
            "level": level,
            "message": {"text": _escape_markup(text)},
            "locations": [_build_location(diagnostic, file)],
            "partialFingerprints": {"topiarist/v1": fingerprint},
        }


def _build_location(diagnostic: Diagnostic, file: str) -> dict[str, Any]:
    """A file outside the root is named but not linked."""
    place = diagnostic.location
    if file.startswith(("/", "../", "<")):
        return {"message": {"text": file.rpartition("/")[2]}}
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(file), "uriBaseId": _BASE_ID}}
    if place.line:
        physical["region"] = {"startLine": place.line, "startColumn": place.column}
    return {"physicalLocation": physical}


def _escape_markup(text: str) -> str:
    """Escape links (``[a](b)``) and placeholders (``{0}``), which SARIF viewers interpret."""
    if "](" in text:
        text = text.replace("[", "\\[").replace("]", "\\]")
    return re.sub(r"[{]([0-9]+)[}]", r"{{\1}}", text)
