"""The check of a Topic directly before a change that cannot be undone."""

from __future__ import annotations

from typing import Any

import pytest

from support import builders
from support.kubernetes import resource_bodies
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.api.resources import FINALIZER, Resource
from topiarist.kubernetes.approval import check_current_topic
from topiarist.model.outcome import Result
from topiarist.model.plan import TopicPlan
from topiarist.model.run_options import RunOptions
from topiarist.model.state import OwnershipRecord

DELETION = builders.plan_single_topic(builders.state(builders.topic()), builders.spec(ensure="Absent"))
GROWTH = builders.plan_single_topic(builders.state(builders.topic()), builders.spec(partitions=6, replicationFactor=2))
RETENTION_CUT = builders.plan_single_topic(
    builders.state(builders.topic("orders", builders.replica_lists("12", "23", "34"), config={"retention.ms": "9"})),
    builders.spec(partitions=3, replicationFactor=2, config={"retention.ms": 8}),
)
CREATION = builders.plan_single_topic(builders.state(), builders.spec())
LOST = builders.plan_single_topic(
    builders.state(dangling_records={"orders": OwnershipRecord("default")}),
    builders.spec(),
    RunOptions(recreate=("orders",)),
)
DELETION_RECORD = OwnershipRecord("default", deleted=True)
RECREATION = builders.plan_single_topic(builders.state(dangling_records={"orders": DELETION_RECORD}), builders.spec())
TOPIC = resource_bodies.topic("orders")


def refuse_read(_resource: Resource) -> Resource | None:
    """Fail the test: the Topic must not be read."""
    pytest.fail("the Topic is read")


@pytest.mark.parametrize("plan", [DELETION, RETENTION_CUT, RECREATION])
def test_a_current_topic_is_written(plan: TopicPlan) -> None:
    """A status and a resource version may differ: a plan does not depend on them."""
    assert plan.changes
    current = resource_bodies.updated_body(TOPIC, status={"clusters": []})
    assert check_current_topic(plan, TOPIC, lambda resource: current) is None


@pytest.mark.parametrize("plan", [GROWTH, CREATION, LOST])
def test_other_changes_read_no_topic(plan: TopicPlan) -> None:
    """A later reconciliation corrects them, and a request for each would slow down a large rollout."""
    assert plan.changes
    assert check_current_topic(plan, TOPIC, refuse_read) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"uid": "another"},
        {"generation": 2},
        {"labels": {"team": "a"}},
        {"annotations": {"topiarist.dev/paused": "true"}},
        {"deletionTimestamp": "2026-02-01T00:00:00Z"},
        {"finalizers": [FINALIZER]},
    ],
    ids=lambda changed: next(iter(changed)),
)
@pytest.mark.parametrize("plan", [DELETION, RETENTION_CUT, RECREATION])
def test_a_changed_topic_is_not_written(plan: TopicPlan, changed: dict[str, Any]) -> None:
    """Each input of a plan counts; the next reconciliation has the new one."""
    outcome = check_current_topic(plan, TOPIC, lambda resource: resource_bodies.updated_body(resource, **changed))
    assert outcome is not None
    assert (outcome.result, outcome.reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)


def test_a_topic_that_cannot_be_read_is_not_written() -> None:
    """The message has the error of the API server."""

    def read(_resource: Resource) -> Resource | None:
        raise TopiaristError(Reason.UNREACHABLE, "the API server: no answer")

    outcome = check_current_topic(DELETION, TOPIC, read)
    assert outcome is not None
    assert outcome.message.endswith("the API server: no answer")
