"""The findings of a fleet, derived from its documents and snapshot rows by the rules of the documentation alone.

This module imports nothing of topiarist, so that both cannot share a defect. ``random_fleets`` makes its input, and
tests compare its output with the rows of real reports. It knows the classes in ``CLASSES``, which depend on one topic
and its manifest. It does not know placement, reassignments, existing problems and invalid input.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

Finding = tuple[str, str, str, str, str | None, str | None, str, str, str, str | None]
"""Cluster, topic, class, field, expected value, actual value, the action of a plan, and both axes.

These are the effect with its severity, and the risk of a change; None if a plan does not change it.
"""

Difference = tuple[str, str, str | None, str | None, str]
"""A finding without its cluster and topic."""

CLASSES = frozenset(
    (
        *("missing", "unexpected", "orphaned", "partitions", "replicationFactor"),
        *("assignment", "config", "unmanaged", "refused", "unknown"),
    )
)

_INTERNAL = ("__consumer_offsets", "__transaction_state", "__topiarist")
_PROTECTED = (
    *("__*", "_schemas*", "_confluent*", "connect-*", "*-changelog", "*-repartition", "mm2-*"),
    *("*connect-configs", "*connect-offsets", "*connect-status*", "*connect_configs", "*connect_offsets"),
    *("*connect_status*", "mirrormaker2-*", "heartbeats", "*.heartbeats", "*.checkpoints.internal"),
    *("schema-changes.*", "schemahistory.*"),
)
_THROTTLES = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_SIZES = ("partitions", "replicationFactor")
_CHANGE, _REFUSED, _REPORTED = "Change", "Refused", "Reported"

_Document = Mapping[str, Any]


def expected_findings(
    documents: Sequence[_Document], snapshots: Mapping[str, Sequence[_Document]], owner: str
) -> set[Finding]:
    """Return the findings of the classes in ``CLASSES``; ``snapshots`` has the rows of each cluster that was read."""
    clusters = {one["metadata"]["name"]: one for one in documents if one["kind"] == "Cluster"}
    topics = [one for one in documents if one["kind"] == "Topic"]
    found: set[Finding] = {
        (name, "", "unknown", "", None, None, _REPORTED, "Unknown", "High", None)
        for name in clusters
        if name not in snapshots
    }
    for name in clusters.keys() & snapshots.keys():
        declared = {
            one["spec"].get("topicName", one["metadata"]["name"]): _merge(one["spec"], clusters[name])
            for one in topics
            if _selects(one["spec"], clusters[name])
            or (len(clusters) == 1 and one["spec"].keys().isdisjoint(("clusters", "clusterSelector")))
        }
        rows = {row["topic"]: row for row in snapshots[name][1:]}
        for topic in declared.keys() | rows.keys():
            row = rows.get(topic, {"kind": "nothing", "record": None})
            spec = declared.get(topic)
            differences = _undeclared(topic, row, owner) if spec is None else _declared(topic, spec, row, owner)
            observes = spec is not None and spec.get("mode") == "Observe"
            for kind, field, expected, actual, change in differences:
                effect, severity, risk = _judge(kind, field, expected, actual, spec or {}, row)
                planned = _REPORTED if observes else change
                axes = effect, severity, risk if planned == _CHANGE else None
                found.add((name, topic, kind, field, expected, actual, planned, *axes))
    return found


_SEVERITIES = {"DataLoss": "Critical", "Availability": "High", "Unknown": "High", "Cost": "Medium", "Order": "Medium"}

_CLASS_EFFECTS = {"missing": "Availability", "partitions": "Order", "refused": "Unknown"}

_KAFKA_DEFAULTS = {
    **{"retention.ms": "604800000", "cleanup.policy": "delete", "unclean.leader.election.enable": "false"},
    "compression.type": "producer",
}
"""The defaults of Kafka's documentation, section Topic Configs, of the keys that the fleets have."""


def _judge(
    kind: str, field: str, expected: str | None, actual: str | None, spec: _Document, row: _Document
) -> tuple[str, str, str]:
    """Return effect and severity of a difference, and the risk of the change that removes it."""
    key = field.removeprefix("config.")
    if kind in ("config", "unmanaged"):
        effect = _config_effect(key, expected, actual, row["config"])
    elif kind == "replicationFactor":
        effect = "DataLoss" if min(map(int, str(actual).split(", "))) < int(str(expected)) else "Cost"
    elif kind == "refused" and not (row["record"] and row.get("recordValid", True)):
        effect = "None"  # the topic is not adopted, and what differs is a finding by itself
    else:
        effect = _CLASS_EFFECTS.get(kind, "None")
    severity = "Critical" if kind == "missing" else _SEVERITIES.get(effect, "Low")
    if kind == "partitions":  # compaction leaves the old values of a key in the partition where it was
        policies = (row["config"].get("cleanup.policy", ""), spec["config"].get("cleanup.policy", ""))
        is_ignored = "config.cleanup.policy" in spec.get("ignore", ())
        risk = "DataLoss" if any("compact" in each for each in policies[: 1 if is_ignored else 2]) else "Disruptive"
    elif kind == "config":
        risk = _config_risk(key, actual, expected)
    else:
        risk = "DataLoss" if kind == "unexpected" else "Safe"
    return effect, severity, risk


def _config_effect(key: str, expected: str | None, actual: str | None, config: Mapping[str, str]) -> str:
    """Return what the actual value does, by Kafka's documentation; without a value its default counts."""
    default = _KAFKA_DEFAULTS.get(key)
    wanted, found = (_meaning(key, default if each is None else each) for each in (expected, actual))
    if wanted == found:
        return "None"
    if key == "retention.ms":  # "if we are using the delete retention policy"
        if "delete" not in config.get("cleanup.policy", "delete"):
            return "None"
        return "DataLoss" if int(str(found)) < int(str(wanted)) else "Cost"
    if key == "cleanup.policy":  # what is cleaned up in addition is lost; what is not takes space
        assert isinstance(wanted, set)
        assert isinstance(found, set)
        return "DataLoss" if found - wanted else "Cost"
    if key == "unclean.leader.election.enable":
        return "DataLoss" if found == "true" else "Availability"
    return "Cost" if key == "compression.type" else "Availability"  # the others are throttles


def _config_risk(key: str, before: str | None, after: str | None) -> str:
    """Return the risk of a change; what the brokers have without a value is not known, and may be the worst."""
    if key == "retention.ms":
        return "DataLoss" if before is None or after is None or int(after) < int(before) else "Disruptive"
    if key == "unclean.leader.election.enable":
        is_off = after is not None and after.lower() == "false"
        was_on = before is not None and before.lower() == "true"
        return "Disruptive" if is_off or (after is None and was_on) else "DataLoss"
    return "DataLoss" if key == "cleanup.policy" else "Disruptive"


def _selects(layer: _Document, cluster: _Document) -> bool:
    labels = layer.get("clusterSelector", {}).get("matchLabels", {}).items()
    has_labels = bool(labels) and labels <= cluster["metadata"].get("labels", {}).items()
    return has_labels or cluster["metadata"]["name"] in layer.get("clusters", ())


def _merge(spec: _Document, cluster: _Document) -> dict[str, Any]:
    """Return the spec on the cluster, with ``size`` (counts or lists) and ``creation`` (the counts of a new topic)."""
    defaults, merged, size, own = cluster["spec"]["defaults"], dict[str, Any](), dict[str, Any](), dict[str, Any]()
    for layer in (spec, *(each for each in spec.get("overrides", ()) if _selects(each, cluster))):
        merged |= layer
        own |= layer.get("config", {})
        counts = {field: layer[field] for field in _SIZES if field in layer}
        if "replicaAssignment" in layer:
            size = {"lists": layer["replicaAssignment"]}
        elif counts:
            size = {field: size[field] for field in _SIZES if field in size} | counts
    if lists := size.get("lists"):
        size |= {"partitions": len(lists), "replicationFactor": len(lists[0])}
    inherited = {key: each for key, each in defaults["config"].items() if key not in merged.get("withoutConfig", ())}
    config = {
        key: str(each).lower() if isinstance(each, bool) else str(each) for key, each in (inherited | own).items()
    }
    return merged | {"config": config, "size": size, "creation": {**defaults, **size}}


def _undeclared(topic: str, row: _Document, owner: str) -> Iterator[Difference]:
    if row["kind"] != "topic" or topic in _INTERNAL:
        return
    if row["record"] and row["recordValid"] and row["record"]["owner"] == owner:
        yield "orphaned", "", None, _describe(row), _REPORTED
    elif not _is_protected(topic):
        yield "unexpected", "", None, _describe(row), _REPORTED


def _declared(topic: str, spec: _Document, row: _Document, owner: str) -> Iterator[Difference]:
    exists, is_absent = row["kind"] == "topic", spec.get("ensure") == "Absent"
    record = row["record"] if row["record"] and (not exists or row["recordValid"]) else {}
    is_own = record.get("owner") == owner
    if not exists and is_absent:
        return
    if exists and is_absent and (is_own or _is_protected(topic)):
        is_kept = _is_protected(topic) or record["absent"]
        yield "unexpected", "ensure", None, _describe(row), _REFUSED if is_kept else _CHANGE
    elif is_absent or (record and not is_own):
        yield "refused", "", None, None, _REFUSED
    elif not exists:
        is_deleted_externally = is_own and not record["absent"]
        yield "missing", "", _describe(spec["creation"]), None, _REFUSED if is_deleted_externally else _CHANGE
    else:
        differences = [*_compare(topic, spec, row, record.get("config", ()))]
        may_change = is_own or spec.get("mode") == "Observe"
        for *values, planned in differences:
            yield *values, _REFUSED if planned == _CHANGE and not may_change else planned  # type: ignore[misc]
        plans = {planned for *_, planned in differences}
        if not may_change and _REFUSED in plans and _CHANGE not in plans:
            yield "refused", "", None, None, _REFUSED


def _compare(topic: str, spec: _Document, row: _Document, recorded: Sequence[str]) -> Iterator[Difference]:
    """Yield the differences of an existing topic that the run may change."""
    size, replicas, ignored = spec["size"], row["replicas"], spec.get("ignore", ())
    all_sizes = "lists" in size and "replicaAssignment" in ignored
    if (wanted := size.get("partitions", len(replicas))) != len(replicas):
        has_other_width = "lists" in size and size["replicationFactor"] != len(replicas[0])
        is_refused = wanted < len(replicas) or _is_protected(topic) or has_other_width
        planned = _REPORTED if all_sizes or "partitions" in ignored else _REFUSED if is_refused else _CHANGE
        yield "partitions", "partitions", str(wanted), str(len(replicas)), planned
    widths = {len(each) for each in replicas}
    if "replicationFactor" in size and widths != {size["replicationFactor"]}:
        planned = _REPORTED if all_sizes or "replicationFactor" in ignored else _REFUSED
        yield "replicationFactor", "replicationFactor", str(size["replicationFactor"]), _join(widths), planned
    pairs = [(str(number), *pair) for number, pair in enumerate(zip(size.get("lists", ()), replicas, strict=False))]
    if moved := [pair for pair in pairs if pair[1] != pair[2]]:
        expected, actual = ({number: values[at] for number, *values in moved} for at in (0, 1))
        yield "assignment", "replicaAssignment", _dump(expected), _dump(actual), _REPORTED
    for key in sorted(spec["config"].keys() | row["config"].keys()):
        field, expected, actual = f"config.{key}", spec["config"].get(key), row["config"].get(key)
        planned = _REFUSED if key == "cleanup.policy" and _is_protected(topic) else _CHANGE
        planned = _REPORTED if field in ignored else planned
        if expected is None and key in _THROTTLES:
            continue
        if expected is None and key not in recorded and spec.get("unmanagedConfig") != "Remove":
            yield "unmanaged", field, None, actual, _REPORTED
        elif _meaning(key, expected) != _meaning(key, actual):
            yield "config", field, expected, actual, planned


def _meaning(key: str, text: str | None) -> object:
    if text is None or key == "compression.type":
        return text
    if key == "cleanup.policy":
        return {word.strip() for word in text.split(",")}
    return text.lower() if text.lower() in ("true", "false") else int(text)


def _is_protected(topic: str) -> bool:
    return any(fnmatchcase(topic, pattern) for pattern in _PROTECTED)


def _describe(size: _Document) -> str:
    """Return a size as text, from counts or from a row."""
    lists = size.get("replicas")
    partitions = size["partitions"] if lists is None else len(lists)
    factor = size["replicationFactor"] if lists is None else _join({len(each) for each in lists})
    return f"{partitions} partition{'s' * (partitions != 1)}, replication factor {factor}"


def _join(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


def _dump(lists: Mapping[str, object]) -> str:
    return json.dumps(lists, separators=(",", ":"))
