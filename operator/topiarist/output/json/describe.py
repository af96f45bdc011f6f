"""One topic of each cluster as a JSON document: ``describe --format json``.

The same manifests and cluster give the same bytes. ``schemas/describe.json`` describes each field. Unlike a plan's
document it contains file locations and the controller: it reports a state and is never applied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from topiarist.adapters.saved_plans.encode import encode_change, encode_notice, encode_record, encode_refusal
from topiarist.errors import Location
from topiarist.inspection.describe import Description
from topiarist.inspection.partition_health import Partition
from topiarist.inspection.topic_phase import count_issues
from topiarist.inspection.value_sources import ValueSource
from topiarist.kafka.placement import InferredPlacement
from topiarist.model.access import via_of
from topiarist.model.outcome import build_topic_progress
from topiarist.model.plan import TopicPlan
from topiarist.model.spec import find_origin

FORMAT_VERSION = 1


def encode_descriptions(query: str, descriptions: Iterable[Description]) -> dict[str, Any]:
    """Return the document with the ``query`` and the topic on each cluster.

    All values are plain JSON values.
    """
    return {
        "formatVersion": FORMAT_VERSION,
        "query": query,
        "clusters": [_encode_cluster(each) for each in descriptions],
    }


def _encode_cluster(description: Description) -> dict[str, Any]:
    state, topic = description.state, description.state.topics.get(description.topic)
    widths = Counter(partition.replica_count for partition in description.partitions if partition.listed)
    return {
        "name": description.cluster.name,
        "clusterId": state.cluster_id,
        "chroot": state.chroot,
        "mode": state.mode.value,
        "via": via_of(bypasses_brokers=state.bypasses_brokers).value,
        "controller": None
        if state.controller is None
        else {"broker": state.controller, "epoch": state.controller_epoch},
        "writeBlock": {"reason": state.write_block.reason.value, "message": state.write_block.message}
        if state.write_block.reason
        else None,
        "topic": description.topic,
        "topicId": description.topic_id,
        "document": _encode_manifest(description),
        "phase": description.phase.phase.value,
        "message": description.phase.message,
        "blockedBy": description.phase.blocked_by,
        "brokersMissing": list(build_topic_progress(state, description.topic).missing_brokers),
        "record": _encode_record(description),
        "placement": _encode_placement(description.placement) if description.placement else None,
        "unknownFields": list(topic.unknown_fields) if topic else [],
        "readErrors": [{"path": error.path, "message": error.message} for error in description.read_errors],
        "statesKnown": description.states_known,
        "conditions": {issue.value: number for issue, number in count_issues(description.partitions).items()},
        "replicaCounts": {str(width): number for width, number in sorted(widths.items())},
        "partitions": [_encode_partition(partition) for partition in description.partitions],
        "values": [_encode_value(value) for value in description.values],
        "planned": description.manifests_given,
        "orphaned": description.is_orphan,
        "pending": _encode_pending(description.pending_plan) if description.pending_plan else None,
        "warnings": list(state.warnings),
    }


def _encode_manifest(description: Description) -> dict[str, Any] | None:
    spec = description.resolved.spec
    if spec is None:
        return None
    location = encode_location(find_origin(spec).locate())
    return {"name": spec.manifest.name, "namespace": spec.manifest.namespace, "location": location}


def _encode_record(description: Description) -> dict[str, Any] | None:
    fields, topic = encode_record(description.record), description.state.topics.get(description.topic)
    if fields is None:
        return None
    return {
        **fields,
        "valid": topic.record_valid if topic else None,
        "modifiedExternally": topic.modified_externally if topic else False,
    }


def _encode_placement(placement: InferredPlacement) -> dict[str, Any]:
    return {
        "brokers": list(placement.order),
        "rackAware": placement.rack_aware,
        "start": placement.start,
        "shift": placement.shift,
        "expandedAt": list(placement.expansion_starts),
        "differing": list(placement.differing_partitions),
    }


def _encode_partition(partition: Partition) -> dict[str, Any]:
    state = partition.state
    return {
        "partition": partition.id,
        "listed": partition.listed,
        "replicas": list(partition.replicas),
        "adding": list(partition.reassignment.adding),
        "removing": list(partition.reassignment.removing),
        "requested": None if partition.requested_replicas is None else list(partition.requested_replicas),
        "state": {
            "leader": state.leader,
            "isr": list(state.isr),
            "leaderEpoch": state.leader_epoch,
            "controllerEpoch": state.controller_epoch,
            "recovering": state.recovering,
        }
        if state
        else None,
        "conditions": [{"condition": issue.issue_type.value, "message": issue.message} for issue in partition.issues],
    }


def _encode_value(value: ValueSource) -> dict[str, Any]:
    return {
        "field": value.field,
        "actual": value.actual,
        "actualSource": value.actual_source.value if value.actual_source else None,
        "setting": value.broker_setting,
        "actualLocation": encode_location(value.actual_location),
        "inRecord": value.in_record,
        "desired": value.desired,
        "desiredSource": value.desired_source.value if value.desired_source else None,
        "desiredLocation": encode_location(value.desired_location),
        "differs": value.differs,
        "ignored": value.ignored,
    }


def _encode_pending(plan: TopicPlan) -> dict[str, Any]:
    return {
        "observed": plan.observe_only,
        "risk": plan.risk.label,
        "recordAfter": encode_record(plan.record_after),
        "changes": [encode_change(change) for change in plan.changes],
        "refusals": [encode_refusal(issue) for issue in plan.refusals],
        "notices": [encode_notice(issue) for issue in plan.notices],
    }


def encode_location(location: Location | None) -> dict[str, Any] | None:
    """Encode the location of a field; None if there is none."""
    return {"file": location.file, "line": location.line, "column": location.column} if location else None
