"""Plans as a document for machines: the same to the byte for the same input, wherever and whenever it was made.

It holds a plan's meaning and what it rests on, and nothing that differs between two makings of one plan: no time,
address, controller or place in a file (a comment added to a manifest changes no plan). ``schemas/plan.json`` describes
each field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from topiarist.core.change import (
    AddPartitions,
    Adopt,
    Change,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    Finding,
    GiveUp,
    Nudge,
    Plan,
    TopicPlan,
    UpdateConfig,
    Verdict,
)
from topiarist.core.evolve import vouched
from topiarist.core.rules import version
from topiarist.core.state import TopicRecord

FORMAT_VERSION = 1

_LINE = 110
_encode = json.JSONEncoder().encode


def document(plans: Iterable[Plan]) -> dict[str, Any]:
    """The document of several plans: ``{formatVersion, clusters, fingerprint}``, plain values only."""
    content: dict[str, Any] = {"formatVersion": FORMAT_VERSION, "clusters": [_plan(plan) for plan in plans]}
    return {**content, "fingerprint": fingerprint(content)}


def fingerprint(content: Mapping[str, Any]) -> str:
    """SHA-256, in hex, over the canonical form (sorted keys, no spaces, ASCII) of all but the fingerprint itself."""
    rest = {key: value for key, value in content.items() if key != "fingerprint"}
    return sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def dumps(content: Mapping[str, Any]) -> str:
    """The document as JSON in ASCII, indented; what fits on one line stands on one; ends with a newline."""
    return _layout(content, "") + "\n"


def _layout(value: Any, indent: str) -> str:
    if not isinstance(value, dict | list) or not value:
        return _encode(value)
    deeper = f"{indent}  "
    if isinstance(value, dict):
        parts, ends = [f"{_encode(key)}: {_layout(item, deeper)}" for key, item in value.items()], "{}"
    elif isinstance(value[0], dict | list):
        parts, ends = [_layout(item, deeper) for item in value], "[]"
    else:
        parts, ends = [_encode(item) for item in value], "[]"
    line = ", ".join(parts)
    if len(line) + len(indent) <= _LINE and "\n" not in line:
        return f"{ends[0]}{line}{ends[1]}"
    return f"{ends[0]}\n{deeper}" + f",\n{deeper}".join(parts) + f"\n{indent}{ends[1]}"


def _plan(plan: Plan) -> dict[str, Any]:
    used = {broker for topic in plan.topics for replicas in topic.new_replicas() for broker in replicas}
    return {
        "name": plan.cluster,
        "clusterId": plan.cluster_id,
        "chroot": plan.location,
        "owner": plan.owner,
        "brokers": [{"id": broker.id, "rack": broker.rack} for broker in plan.brokers if broker.id in used],
        "configRules": {
            "kafkaVersion": version(plan.judging.release) if plan.judging.release else None,
            "releaseAtLeast": version(plan.release_at_least),
            "allowUnknownConfigs": list(plan.judging.allow_unknown_configs),
            "brokerConfig": dict(sorted(plan.judging.broker_config.items())),
        },
        "gate": {"reason": plan.gate.reason.value, "message": plan.gate.message} if plan.gate.reason else None,
        "topics": [_topic(topic) for topic in plan.topics],
        "unchanged": plan.unchanged,
        "orphans": list(plan.orphans),
        "warnings": list(plan.warnings),
    }


def _topic(topic: TopicPlan) -> dict[str, Any]:
    before = topic.before
    return {
        "topic": topic.topic,
        "identity": before.identity if before else None,
        "topicId": before.topic_id if before else None,
        "observed": topic.observed,
        "risk": topic.risk.word,
        "record": {
            "before": record_fields(topic.record_before),
            "beforeValid": before.record_valid if before else None,
            "after": record_fields(topic.record_after),
        },
        "vouched": {key: before.config.get(key) for key in vouched(topic)} if before else {},
        "changes": [change_fields(change) for change in topic.changes],
        "refusals": [_finding(finding) for finding in topic.refusals],
        "notices": [_notice(finding) for finding in topic.notices],
    }


def record_fields(record: TopicRecord | None) -> dict[str, Any] | None:
    """One of our records, null where there is none."""
    if record is None:
        return None
    fields: dict[str, Any] = {"owner": record.owner, "config": list(record.config), "absent": record.absent}
    if record.applied:
        fields["applied"] = {
            "partitions": record.applied.partitions,
            "config": dict(record.applied.config),
            "removeUnmanaged": record.applied.remove_unmanaged,
        }
    return fields


def change_fields(change: Change) -> dict[str, Any]:
    """One change, with its before and after."""
    kind = type(change).__name__
    match change:
        case CreateTopic(replicas, config):
            after = {"replicas": _lists(replicas), "config": dict(sorted(config.items()))}
            return {"kind": kind, **_verdict(change.verdict), "before": None, "after": after}
        case AddPartitions():
            before = {"partitions": change.before, "firstReplicas": list(change.model)}
            grown = {"partitions": change.total, "newReplicas": _lists(change.replicas)}
            return {"kind": kind, **_verdict(change.verdict), "before": before, "after": grown}
        case UpdateConfig(items):
            return {"kind": kind, **_verdict(change.verdict), "config": [_item(item) for item in items]}
        case DeleteTopic(partitions, replica_count):
            lost = {"partitions": partitions, "replicas": replica_count}
            return {"kind": kind, **_verdict(change.verdict), "before": lost, "after": None}
        case Nudge(partitions):
            return {"kind": kind, **_verdict(change.verdict), "partitions": list(partitions)}
        case Adopt() | GiveUp():
            return {"kind": kind, **_verdict(change.verdict)}


def _lists(replicas: Sequence[Sequence[int]]) -> list[list[int]]:
    return [list(brokers) for brokers in replicas]


def _item(item: ConfigItem) -> dict[str, Any]:
    return {
        "key": item.key,
        "before": item.before,
        "after": item.after,
        **_verdict(item.verdict),
        "inherited": item.inherited,
    }


def _verdict(verdict: Verdict) -> dict[str, str]:
    return {"risk": verdict.risk.word, "because": verdict.because}


def _finding(finding: Finding) -> dict[str, Any]:
    held = [change_fields(change) for change in finding.held]
    return {**_notice(finding), "instead": finding.instead, "held": held}


def _notice(finding: Finding) -> dict[str, Any]:
    return {"reason": finding.reason.value, "message": finding.message, "field": list(finding.field)}
