"""A status is a view: with any status, forged or lost, a pass decides the same, also after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from support import states
from support.kubernetes import resource_bodies
from support.kubernetes.status_schema import validate_status
from topiarist.adapters.memory import MemoryCluster
from topiarist.kubernetes.api import client
from topiarist.kubernetes.identity import known_records_id
from topiarist.kubernetes.reconciler import reconcile_cluster
from topiarist.model.state import ClusterState, OperatorMemory, OwnershipRecord, TopicState
from topiarist.schema import load
from unit.kubernetes.reconcile_requests import LONG, OWNER, SHORT, make_request, owned_topic, with_approval

DEFINITIONS = load.load_schema("status")["definitions"]
NOW = datetime(2026, 2, 1, 12, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)
FORGED_TEXTS = {"name": "prod", "topicName": "orders", "topic": "gone", "reason": "Forged", "type": "Ready"}
"""Texts that a field must have for a decision to find it, or by its pattern."""


def forge(schema: Mapping[str, Any], name: str = "") -> Any:
    """Return a value that has every field of a part of the schema, with values that the operator did not write."""
    if "$ref" in schema:
        return forge(DEFINITIONS[schema["$ref"].rpartition("/")[2]], name)
    if schema["type"] == "object":
        fields = {key: forge(part, key) for key, part in schema.get("properties", {}).items()}
        return fields or {"retention.ms": "1"}
    if schema["type"] == "array":
        return [forge(schema["items"], name)]
    if schema["type"] == "string":
        is_time = schema.get("format") == "date-time" or name == "retentionStepAt"
        return client.format_time(NOW) if is_time else schema.get("enum", [FORGED_TEXTS.get(name, "forged")])[-1]
    return True if schema["type"] == "boolean" else 7


def with_memory(topic: TopicState, **fields: Any) -> TopicState:
    """Return a topic with the operator's memory in its record."""
    assert topic.record is not None
    return replace(topic, record=replace(topic.record, memory=OperatorMemory(**fields)))


GONE = OwnershipRecord(OWNER, deleted=True, memory=OperatorMemory(deletions_ms=(NOW_MS,)))
LOSS = {"config": {"retention.ms": SHORT}}
KEPT = owned_topic("orders", retention_ms=LONG)
STEPS = {"allowRisk": ["DataLoss"], "retentionStep": {"share": "50%", "interval": "1h"}}
SITUATIONS: dict[str, tuple[ClusterState, dict[str, Any], dict[str, Any]]] = {
    "creation": (states.cluster(), {}, {}),
    "nothing to do": (states.cluster(owned_topic("orders")), {}, {}),
    "deletion": (states.cluster(owned_topic("orders")), {"allowDeletion": True}, {"ensure": "Absent"}),
    "deletion beyond the budget": (
        states.cluster(owned_topic("orders"), dangling_records={"a": GONE}),
        {"allowDeletion": True, "budgets": {"deletions": 1}},
        {"ensure": "Absent"},
    ),
    "loss": (states.cluster(KEPT), {"allowRisk": ["DataLoss"]}, LOSS),
    "first step": (states.cluster(KEPT), STEPS, LOSS),
    "early step": (states.cluster(with_memory(KEPT, step_ms=NOW_MS)), STEPS, LOSS),
    "recreation": (
        states.cluster(dangling_records={"orders": OwnershipRecord(OWNER)}),
        {"allowRisk": ["DataLoss"]},
        {},
    ),
    "other owner": (states.cluster(states.topic("orders", owner="team")), {"allowRisk": ["DataLoss"]}, {}),
}
CONSENTED = ("loss", "first step", "recreation", "other owner")
"""The situations with a refusal that names a consent."""


@pytest.mark.parametrize(
    ("name", "consents"), [*((name, False) for name in SITUATIONS), *((name, True) for name in CONSENTED)]
)
def test_a_forged_status_decides_nothing(name: str, consents: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every field of both statuses forged, and with none, two passes write and refuse the same."""
    monkeypatch.setattr(client, "utc_now", lambda: NOW)
    state, cluster, spec = SITUATIONS[name]
    home, topic = resource_bodies.cluster(**cluster), resource_bodies.topic("orders", **spec)
    if consents:
        topic = with_approval(home, topic, state)
    found = []
    for forged in (False, True):
        port, decisions = MemoryCluster(state), []
        statuses = {each: forge(DEFINITIONS[each]) if forged else {} for each in ("cluster", "topic")}
        for kind, status in statuses.items():
            validate_status(kind, status)
        for _ in range(2):  # nothing is kept between the passes, as at a restart
            request = make_request(
                resource_bodies.updated_body(home, status=statuses["cluster"]),
                resource_bodies.updated_body(topic, status=statuses["topic"]),
            )
            result = reconcile_cluster(port, request, lambda: False)
            (view,) = result.topic_results
            decisions += [view.refusals, view.written_changes, port.state.topics.get("orders"), result.error]
        assert known_records_id(request.cluster_resource) == ""
        assert [each.resource.applied_clusters for each in request.candidates] == [[]]
        found.append(decisions)
    assert found[0] == found[1]
