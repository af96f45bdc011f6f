"""Checks of clusters as a JSON document, and as text with the lines of the ``Cluster`` document to write.

``schemas/check.json`` describes each field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from topiarist.inspection.check import Advice, ClusterCheck, Finding, Permission
from topiarist.model.access import Via, ZooKeeperAccess, via_of
from topiarist.output.text.layout import BOLD, BOLD_RED, DIM, GREEN, YELLOW, TextLayout, join_sections, sanitize
from topiarist.text import format_count, to_camel_case

FORMAT_VERSION = 1

_THROUGH_ZOOKEEPER = (
    "topiarist writes the metadata itself, as the controllers of Kafka 2.4 to 3.9 read it: nothing is missing, and no"
    " policy, ACL or quota of the brokers is checked"
)


def encode_checks(checks: Iterable[ClusterCheck]) -> dict[str, Any]:
    """Return the document with the capabilities of each cluster; plain JSON values only."""
    return {"formatVersion": FORMAT_VERSION, "clusters": [_encode(each) for each in checks]}


def _encode(check: ClusterCheck) -> dict[str, Any]:
    state, error = check.state, check.error
    block = state.write_block if state else None
    return {
        "name": check.cluster.name,
        "clusterId": check.cluster_id,
        "via": _find_way(check).value,
        "mode": state.mode.value if state else None,
        "brokers": len(state.brokers) if state else None,
        "topics": len(state.topics) + len(state.topic_errors) if state else None,
        "error": {"reason": error.reason.value, "message": str(error.args[0]), "hint": error.hint} if error else None,
        "writeBlock": {"reason": block.reason.value, "message": block.message} if block and block.reason else None,
        "capabilities": [_encode_finding(each) for each in check.findings],
        "permissions": [_encode_permission(each) for each in check.permissions],
        "advice": [_encode_advice(each) for each in check.advice],
        "warnings": list(state.warnings) if state else [],
    }


def _encode_finding(finding: Finding) -> dict[str, Any]:
    support = finding.support
    return {
        "name": to_camel_case(finding.name),
        "meaning": finding.texts.meaning,
        "given": support.is_given,
        "why": support.why,
        "lacksRight": support.lacks_right,
        "effect": finding.texts.effect if support.is_denied else "",
    }


def _encode_permission(permission: Permission) -> dict[str, Any]:
    return {
        "operation": permission.operation,
        "resource": permission.resource,
        "purpose": permission.purpose,
        "given": permission.support.is_given,
        "why": permission.support.why,
    }


def _encode_advice(advice: Advice) -> dict[str, Any]:
    return {"field": ".".join(("spec", *advice.path)), "value": advice.value, "why": advice.why}


def _find_way(check: ClusterCheck) -> Via:
    return via_of(bypasses_brokers=isinstance(check.cluster.access, ZooKeeperAccess))


def format_checks(checks: Sequence[ClusterCheck], layout: TextLayout) -> str:
    """Return the checks of all clusters, in the order given."""
    text = join_sections(_format(each, layout) for each in checks)
    return f"{text}\n" if text else ""


def _format(check: ClusterCheck, layout: TextLayout) -> Iterator[str]:
    yield layout.colorize(_format_heading(check), BOLD)
    if _find_way(check) is Via.ZOOKEEPER:
        yield from layout.format_text_section("way", _THROUGH_ZOOKEEPER, DIM)
    if check.error:
        text = f"{check.error.reason}: {check.error.args[0]}" + (f"; {check.error.hint}" if check.error.hint else "")
        yield from layout.format_text_section("not readable", text, BOLD_RED)
    if check.state and check.state.write_block.reason:
        block = check.state.write_block
        yield from layout.format_text_section("write block", f"{block.reason}: {block.message}", BOLD_RED)
    yield ""
    for finding in check.findings:
        yield from _format_finding(finding, layout)
    if check.permissions:
        yield ""
    for permission in check.permissions:
        yield from _format_permission(permission, layout)
    reasons = [each.support.why for each in check.findings if each.support.why]
    others = [each for each in (check.state.warnings if check.state else ()) if not any(why in each for why in reasons)]
    if others:
        yield ""
        yield from layout.format_warnings(others)
    if check.advice:
        yield ""
        yield from layout.format_section("document", _format_document(check.advice), DIM)
    yield ""
    yield layout.colorize(_format_totals(check.findings), BOLD)


def _format_heading(check: ClusterCheck) -> str:
    name = f"{sanitize(check.cluster.name)}   " if check.cluster.name else ""
    parts = [f"{name}cluster {sanitize(check.cluster_id)}"]
    if state := check.state:
        topics = len(state.topics) + len(state.topic_errors)
        parts += [format_count(len(state.brokers), "broker"), format_count(topics, "topic")]
    way = "through ZooKeeper" if _find_way(check) is Via.ZOOKEEPER else "through its brokers"
    return ", ".join([parts[0], way, *parts[1:]])


def _format_finding(finding: Finding, layout: TextLayout) -> Iterator[str]:
    support, texts = finding.support, finding.texts
    if support.is_given:
        return layout.format_text_section("yes", texts.meaning, GREEN)
    if support.is_denied:
        label, style, below = "no", YELLOW, [f"why: {support.why}", f"so: {texts.effect}"]
    else:
        label, style, below = "not known", DIM, [support.why or "only a try shows it"]
    lines = chain.from_iterable(layout.wrap(each) for each in (texts.meaning, *below))
    return layout.format_section(label, lines, style)


def _format_permission(permission: Permission, layout: TextLayout) -> Iterator[str]:
    words = f"{permission.operation} on {permission.resource}: {permission.purpose}"
    label, style = {True: ("permitted", GREEN), False: ("denied", YELLOW), None: ("not known", DIM)}[
        permission.support.is_given
    ]
    lines = [words, permission.support.why] if permission.support.why else [words]
    return layout.format_section(label, chain.from_iterable(map(layout.wrap, lines)), style)


def _format_document(advice: Sequence[Advice]) -> Iterator[str]:
    """Yield the lines of a ``Cluster`` document, each value with its reason before it."""
    yield "spec:"
    opened: tuple[str, ...] = ()
    for each in advice:
        for depth, key in enumerate(each.path[:-1]):
            if opened[: depth + 1] != each.path[: depth + 1]:
                yield f"{'  ' * (depth + 1)}{key}:"
        opened = each.path[:-1]
        indent = "  " * len(each.path)
        yield f"{indent}# {sanitize(each.why)}"
        value = json.dumps(each.value) if each.path == ("kafkaVersion",) else each.value
        yield f"{indent}{each.path[-1]}: {value if isinstance(value, int) else sanitize(value)}"


def _format_totals(findings: Sequence[Finding]) -> str:
    given = [each.support.is_given for each in findings]
    counts = {("works", "work"): True, ("does not", "do not"): False, ("is not known", "are not known"): None}
    parts = ((given.count(wanted), words) for words, wanted in counts.items())
    return ", ".join(f"{number} {words[number != 1]}" for number, words in parts if number) + "."
