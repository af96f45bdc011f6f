"""The encoder of plans as a JSON document: byte-identical output for equal input.

``plan --out`` and ``plan --format json`` write it, and ``decode`` reads it back. The document holds the content of a
plan and its preconditions. Two runs with the same plan write the same document: it has no time, address, controller or
file location (a comment added to a manifest changes no plan). ``schemas/plan.json`` describes each field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from topiarist.adapters.own_values import record_fields
from topiarist.errors import Reason
from topiarist.kafka.types import ClusterMode, format_version
from topiarist.model.access import via_of
from topiarist.model.moves import ReplicaMove
from topiarist.model.plan import (
    AddPartitions,
    Change,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    ImpliedTopic,
    Issue,
    MoveReplicas,
    Nudge,
    Plan,
    ReleaseOwnership,
    RiskAssessment,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
    retained_managed_keys,
)
from topiarist.model.state import OwnershipRecord, WriteBlock

FORMAT_VERSION = 1

_MAX_LINE_LENGTH = 110
_encode_json = json.JSONEncoder().encode


def encode_plans(plans: Iterable[Plan], unplanned: Mapping[str, Reason] = {}) -> dict[str, Any]:
    """Return the document ``{formatVersion, clusters, fingerprint}`` of several plans, as plain values.

    ``unplanned`` are the clusters that could not be planned, by name; the document has them only if there are some.
    """
    content: dict[str, Any] = {"formatVersion": FORMAT_VERSION, "clusters": [_encode_plan(plan) for plan in plans]}
    if unplanned:
        failed = sorted(unplanned.items())
        content["unplanned"] = [{"cluster": name, "reason": reason.value} for name, reason in failed]
    return {**content, "fingerprint": compute_fingerprint(content)}


def compute_fingerprint(content: Mapping[str, Any]) -> str:
    """Return the SHA-256, in hex, of the canonical form without the fingerprint.

    Canonical form: JSON with sorted keys, no spaces, ASCII.
    """
    rest = {key: value for key, value in content.items() if key != "fingerprint"}
    return sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def dumps(content: Mapping[str, Any]) -> str:
    """Return the document as indented ASCII JSON that ends with a newline.

    A value that fits on one line is written on one line.
    """
    return _format_value(content, "") + "\n"


def _format_value(value: Any, indent: str) -> str:
    if not isinstance(value, dict | list) or not value:
        return _encode_json(value)
    deeper = f"{indent}  "
    if isinstance(value, dict):
        parts, ends = [f"{_encode_json(key)}: {_format_value(item, deeper)}" for key, item in value.items()], "{}"
    elif isinstance(value[0], dict | list):
        parts, ends = [_format_value(item, deeper) for item in value], "[]"
    else:
        parts, ends = [_encode_json(item) for item in value], "[]"
    # Joined only if it may fit: the text of a fleet is 100 MB, and each copy another 100.
    if not any("\n" in part for part in parts):
        line = ", ".join(parts)
        if len(line) + len(indent) <= _MAX_LINE_LENGTH:
            return f"{ends[0]}{line}{ends[1]}"
    return f"{ends[0]}\n{deeper}" + f",\n{deeper}".join(parts) + f"\n{indent}{ends[1]}"


def _encode_plan(plan: Plan) -> dict[str, Any]:
    used_brokers = {broker for topic in plan.topics for broker in topic.placed_brokers()}
    limits = [{**usage._asdict(), "resource": usage.resource.value} for usage in plan.limits]
    return {
        "name": plan.cluster,
        "clusterId": plan.cluster_id,
        "chroot": plan.chroot,
        "mode": (plan.config_rules.mode or ClusterMode.ZOOKEEPER).value,
        "via": via_of(bypasses_brokers=plan.bypasses_brokers).value,
        "owner": plan.owner,
        **({} if plan.keeps_records else {"keepsRecords": False}),
        "brokers": [{"id": broker.id, "rack": broker.rack} for broker in plan.brokers if broker.id in used_brokers],
        "configRules": {
            "kafkaVersion": format_version(plan.config_rules.version) if plan.config_rules.version else None,
            "releaseAtLeast": format_version(plan.min_version),
            "allowUnknownConfigs": list(plan.config_rules.allow_unknown_configs),
            "brokerConfig": dict(sorted(plan.config_rules.broker_config.items())),
        },
        "writeBlock": encode_write_block(plan.write_block),
        "topics": [_encode_topic(topic) for topic in plan.topics],
        "unchanged": plan.unchanged,
        "orphans": list(plan.orphans),
        "warnings": list(plan.warnings),
        **({"alsoCreates": [encode_implied(each) for each in plan.implied_topics]} if plan.implied_topics else {}),
        **({"placedByBrokers": plan.placed_by_brokers} if plan.placed_by_brokers else {}),
        **({"limits": limits} if limits else {}),
    }


def encode_write_block(block: WriteBlock) -> dict[str, str] | None:
    """Encode the reason why nothing may be written; None if there is none."""
    return {"reason": block.reason.value, "message": block.message} if block.reason else None


def encode_implied(topic: ImpliedTopic) -> dict[str, Any]:
    """Return the fields of a topic that the first apply makes without a manifest."""
    fields = topic._asdict()
    return {"topic": fields.pop("name"), **fields}


def _encode_topic(topic: TopicPlan) -> dict[str, Any]:
    before = topic.before
    return {
        "topic": topic.topic,
        "identity": before.identity if before else None,
        "topicId": before.topic_id if before else None,
        "observed": topic.observe_only,
        "risk": topic.risk.label,
        **({"coPartitionGroup": topic.co_partition_group} if topic.co_partition_group else {}),
        "record": {
            "before": encode_record(topic.record_before),
            "beforeValid": before.record_valid if before else None,
            "after": encode_record(topic.record_after),
        },
        "retainedConfig": {key: before.config.get(key) for key in retained_managed_keys(topic)} if before else {},
        "changes": [encode_change(change) for change in topic.changes],
        "refusals": [encode_refusal(issue) for issue in topic.refusals],
        "notices": [encode_notice(issue) for issue in topic.notices],
        **({"usage": list(topic.usage)} if topic.usage else {}),
    }


def encode_record(record: OwnershipRecord | None) -> dict[str, Any] | None:
    """Encode an ownership record; None if there is none."""
    return None if record is None else record_fields(record)


def encode_change(change: Change) -> dict[str, Any]:
    """Encode one change, with its values before and after."""
    fields: dict[str, Any] = {"kind": type(change).__name__, **_encode_risk_assessment(change.assessment)}
    match change:
        case CreateTopic(replicas, config):
            after = {"replicas": _encode_replica_lists(replicas), "config": dict(sorted(config.items()))}
            return {**fields, "before": None, "after": after}
        case AddPartitions():
            before = {"partitions": change.before, "firstReplicas": list(change.first_replicas)}
            grown = {"partitions": change.total, "newReplicas": _encode_replica_lists(change.replicas)}
            return {**fields, "before": before, "after": grown, **({} if change.keyed else {"keyed": False})}
        case MoveReplicas(moves):
            return {**fields, "moves": [encode_move(move) for move in moves]}
        case ElectLeaders(partitions):
            return {**fields, "partitions": [each._asdict() for each in partitions]}
        case UpdateConfig(items):
            return {**fields, "config": [_encode_config_item(item) for item in items]}
        case DeleteTopic(partitions, replica_count):
            return {**fields, "before": {"partitions": partitions, "replicas": replica_count}, "after": None}
        case Nudge(partitions):
            return {**fields, "partitions": list(partitions)}
        case TakeOwnership() | ReleaseOwnership():
            return fields


def _encode_replica_lists(replicas: Sequence[Sequence[int]]) -> list[list[int]]:
    return [list(brokers) for brokers in replicas]


def encode_move(move: ReplicaMove) -> dict[str, Any]:
    """Encode the move of one partition, with its reasons."""
    reasons = [kind.value for kind in move.kinds]
    return {"partition": move.partition, "before": list(move.before), "after": list(move.after), "reasons": reasons}


def _encode_config_item(item: ConfigItem) -> dict[str, Any]:
    return {
        "key": item.key,
        "before": item.before,
        "after": item.after,
        **_encode_risk_assessment(item.assessment),
        "inherited": item.inherited,
    }


def _encode_risk_assessment(assessment: RiskAssessment) -> dict[str, str]:
    return {"risk": assessment.risk.label, "explanation": assessment.explanation}


def encode_refusal(issue: Issue) -> dict[str, Any]:
    """Encode a refusal, with its hint and the changes that it withholds."""
    withheld = [encode_change(change) for change in issue.withheld]
    return {**encode_notice(issue), "hint": issue.hint, "withheld": withheld}


def encode_notice(issue: Issue) -> dict[str, Any]:
    """Encode a notice: reason, message and field."""
    return {"reason": issue.reason.value, "message": issue.message, "field": list(issue.field)}
