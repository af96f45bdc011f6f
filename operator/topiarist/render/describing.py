"""One topic of each cluster as a document for machines: the same to the byte for the same manifests and cluster.

``schemas/describe.json`` describes each field. Unlike a plan's, it has places in files and the controller: it says how
things are, and nobody applies it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from topiarist.core.change import Finding, TopicPlan
from topiarist.core.description import Description
from topiarist.core.inference import Inferred
from topiarist.core.lifecycle import counted
from topiarist.core.partitions import Partition
from topiarist.core.provenance import Value
from topiarist.core.spec import origin
from topiarist.core.state import Fault
from topiarist.core.waiting import sight
from topiarist.errors import Place
from topiarist.render.document import change_fields, record_fields

FORMAT_VERSION = 1


def document(asked: str, found: Iterable[Description]) -> dict[str, Any]:
    """The document: what was ``asked`` for, and the topic on each cluster; plain values only."""
    return {"formatVersion": FORMAT_VERSION, "asked": asked, "clusters": [_cluster(each) for each in found]}


def _cluster(found: Description) -> dict[str, Any]:
    state, topic = found.state, found.state.topics.get(found.topic)
    return {
        "name": found.cluster.name,
        "clusterId": state.cluster_id,
        "chroot": state.location,
        "controller": None
        if state.controller is None
        else {"broker": state.controller, "epoch": state.controller_epoch},
        "gate": {"reason": state.gate.reason.value, "message": state.gate.message} if state.gate.reason else None,
        "topic": found.topic,
        "topicId": found.topic_id,
        "document": _document(found),
        "phase": found.life.phase.value,
        "message": found.life.message,
        "waitsFor": found.life.waits,
        "brokersMissing": list(sight(state, found.topic).missing),
        "record": _record(found),
        "placement": _placement(found.placement) if found.placement else None,
        "unknownFields": list(topic.unknown_fields) if topic else [],
        "faults": [_fault(fault) for fault in found.faults],
        "statesKnown": found.known,
        "conditions": {condition.value: number for condition, number in counted(found.partitions).items()},
        "replicaCounts": {str(width): number for width, number in sorted(_widths(found.partitions).items())},
        "partitions": [_partition(one) for one in found.partitions],
        "values": [_value(value) for value in found.values],
        "planned": found.planned,
        "orphaned": found.orphaned,
        "pending": _pending(found.pending) if found.pending else None,
        "warnings": list(state.warnings),
    }


def _document(found: Description) -> dict[str, Any] | None:
    spec = found.meant.spec
    if spec is None:
        return None
    return {"name": spec.manifest.name, "namespace": spec.manifest.namespace, "place": _place(origin(spec).place())}


def _record(found: Description) -> dict[str, Any] | None:
    fields, topic = record_fields(found.record), found.state.topics.get(found.topic)
    if fields is None:
        return None
    return {
        **fields,
        "valid": topic.record_valid if topic else None,
        "changedOutside": topic.changed_outside if topic else False,
    }


def _widths(partitions: Iterable[Partition]) -> Mapping[int, int]:
    return Counter(one.width for one in partitions if one.listed)


def _placement(found: Inferred) -> dict[str, Any]:
    return {
        "brokers": list(found.order),
        "rackAware": found.rack_aware,
        "start": found.start,
        "shift": found.shift,
        "expandedAt": list(found.grown),
        "differing": list(found.differing),
    }


def _partition(one: Partition) -> dict[str, Any]:
    state = one.state
    return {
        "partition": one.id,
        "listed": one.listed,
        "replicas": list(one.replicas),
        "adding": list(one.moving.adding),
        "removing": list(one.moving.removing),
        "requested": None if one.requested is None else list(one.requested),
        "state": {
            "leader": state.leader,
            "isr": list(state.isr),
            "leaderEpoch": state.leader_epoch,
            "controllerEpoch": state.controller_epoch,
            "recovering": state.recovering,
        }
        if state
        else None,
        "conditions": [{"condition": ailment.condition.value, "message": ailment.message} for ailment in one.ailments],
    }


def _value(value: Value) -> dict[str, Any]:
    return {
        "field": value.field,
        "held": value.held,
        "heldBy": value.holder.value if value.holder else None,
        "setting": value.setting,
        "heldAt": _place(value.held_at),
        "ours": value.ours,
        "wanted": value.wanted,
        "wantedBy": value.layer.value if value.layer else None,
        "wantedAt": _place(value.place),
        "differs": value.differs,
        "ignored": value.ignored,
    }


def _pending(plan: TopicPlan) -> dict[str, Any]:
    return {
        "observed": plan.observed,
        "risk": plan.risk.word,
        "recordAfter": record_fields(plan.record_after),
        "changes": [change_fields(change) for change in plan.changes],
        "refusals": [_refusal(finding) for finding in plan.refusals],
        "notices": [_notice(finding) for finding in plan.notices],
    }


def _refusal(finding: Finding) -> dict[str, Any]:
    return {
        **_notice(finding),
        "instead": finding.instead,
        "held": [change_fields(change) for change in finding.held],
    }


def _notice(finding: Finding) -> dict[str, Any]:
    return {"reason": finding.reason.value, "message": finding.message, "field": list(finding.field)}


def _fault(fault: Fault) -> dict[str, str]:
    return {"where": fault.where, "why": fault.why}


def _place(place: Place | None) -> dict[str, Any] | None:
    return {"file": place.file, "line": place.line, "column": place.column} if place else None
