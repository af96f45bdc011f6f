"""Waits of the operator between two steps of a cut of retention, also after a restart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from support import states
from support.kubernetes import resource_bodies
from topiarist.adapters.memory import MemoryCluster
from topiarist.errors import Reason
from topiarist.kubernetes.api import client
from topiarist.kubernetes.api.resources import Resource
from topiarist.kubernetes.approval import find_next_step, step_time
from topiarist.kubernetes.reconciler import SyncState, TopicResult
from topiarist.kubernetes.status.topic import topic_status
from topiarist.model.plan import SAFE_ASSESSMENT, ConfigItem, Issue, TopicPlan, UpdateConfig
from topiarist.model.state import OperatorMemory, OwnershipRecord
from unit.kubernetes.reconcile_requests import (
    make_request,
    owned_topic,
    reconcile_topics,
    refusal_reasons,
    with_approval,
)

START = datetime(2026, 2, 1, 12, tzinfo=UTC)
CLUSTER = resource_bodies.cluster(retentionStep={"share": "50%", "interval": "1h"}, allowRisk=["DataLoss"])


STEP = TopicPlan(
    "orders",
    changes=(UpdateConfig((ConfigItem("retention.ms", "8000", "4000", SAFE_ASSESSMENT),)),),
    notices=(Issue(Reason.NOT_SENT, "another"), Issue(Reason.RETENTION_STEP, "2 more")),
)
"""The plan of a step that is not the last."""


class Passes:
    """Passes of operators that are restarted between any two; ``keeps_status`` says whether statuses can be written."""

    keeps_status = True

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cluster: Resource = CLUSTER, **config: Any) -> None:
        self.cluster = cluster
        self.port = MemoryCluster(states.cluster(owned_topic("orders", retention_ms="8000")))
        self.topic = resource_bodies.topic("orders", config={"retention.ms": 1000, **config})
        self.now = START
        monkeypatch.setattr(client, "utc_now", lambda: self.now)

    def run(self, after: timedelta = timedelta(), *, allow: bool = True) -> TopicResult:
        """Run a pass some time after the last one, and keep its status; the owner of the topic allows what is asked."""
        self.now += after
        view = reconcile_topics(self.port, make_request(self.cluster, self.topic))["orders"]
        if allow and Reason.DATA_LOSS in refusal_reasons(view):
            self.topic = with_approval(self.cluster, self.topic, self.port.read())
        view = reconcile_topics(self.port, make_request(self.cluster, self.topic))["orders"]
        found = topic_status(self.topic, {"prod": view}, {}, client.format_time(self.now), ["prod"])
        if self.keeps_status:
            self.topic = resource_bodies.updated_body(self.topic, status=found)
        return view

    @property
    def stored(self) -> str:
        """The retention on the cluster."""
        return self.port.read().topics["orders"].config["retention.ms"]

    @property
    def step_at(self) -> str:
        """The time of the last step in the status; empty without one."""
        return str(self.topic.status_on("prod").get("retentionStepAt", ""))


def test_the_operator_waits_between_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic with steps left is Waiting; the time of a step survives a restart, and goes with the last step."""
    passes = Passes(monkeypatch)
    view = passes.run()
    assert (passes.stored, view.state, refusal_reasons(view)) == ("4000", SyncState.WAITING, [Reason.RETENTION_WAITS])
    assert passes.step_at == "2026-02-01T12:00:00Z"
    view = passes.run(timedelta(minutes=59))
    assert (passes.stored, view.state) == ("4000", SyncState.WAITING)
    assert view.refusals[0].message == "retention.ms: the next step follows after 2026-02-01T13:00:00Z"
    assert passes.step_at == "2026-02-01T12:00:00Z"
    passes.run(timedelta(minutes=1))
    assert (passes.stored, passes.step_at) == ("2000", "2026-02-01T13:00:00Z")
    assert passes.run(timedelta(minutes=10)).state is SyncState.WAITING  # the last step waits too
    assert passes.stored == "2000"
    view = passes.run(timedelta(minutes=50))
    assert (passes.stored, view.state, passes.step_at) == ("1000", SyncState.SYNCED, "")


def test_a_wait_needs_no_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """While no status can be written, the operator waits between two steps all the same, also after a restart."""
    passes = Passes(monkeypatch)
    passes.keeps_status = False
    passes.run()
    assert passes.stored == "4000"
    assert refusal_reasons(passes.run(timedelta(minutes=59))) == [Reason.RETENTION_WAITS]
    assert passes.stored == "4000"
    passes.run(timedelta(minutes=1))
    assert passes.stored == "2000"
    passes.topic = resource_bodies.topic("orders", config={"retention.ms": 9000})
    assert passes.run().state is SyncState.SYNCED
    passes.topic = resource_bodies.topic("orders", config={"retention.ms": 1000})
    passes.run()
    assert passes.stored == "4500"  # a cut of its own, which follows no step


def test_one_consent_cuts_retention_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The annotation stays, no status can be written, and the value is set back: the same cut needs a new consent."""
    cluster = resource_bodies.cluster(allowRisk=["DataLoss"], driftPolicy="Correct")
    passes = Passes(monkeypatch, cluster)
    passes.keeps_status = False
    assert passes.run().state is SyncState.SYNCED
    assert passes.stored == "1000"
    meta = {"annotations": dict(passes.topic.source.annotations), "uid": passes.topic.uid}
    passes.topic = resource_bodies.topic("orders", config={"retention.ms": 8000}, meta=meta)
    assert passes.run().state is SyncState.SYNCED
    passes.topic = resource_bodies.topic("orders", config={"retention.ms": 1000}, meta=meta)
    assert refusal_reasons(passes.run(allow=False)) == [Reason.DATA_LOSS]
    assert passes.stored == "8000"


def test_other_changes_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another key of the same topic is written while a step waits."""
    passes = Passes(monkeypatch)
    passes.run()
    config = {"retention.ms": 1000, "compression.type": "zstd"}
    passes.topic = resource_bodies.topic("orders", status=passes.topic.status, config=config)
    view = passes.run(timedelta(minutes=1))
    assert passes.port.read().topics["orders"].config == {"retention.ms": "4000", "compression.type": "zstd"}
    assert view.state is SyncState.WAITING
    assert passes.step_at == "2026-02-01T12:00:00Z"


def test_a_step_back_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A longer retention is made at once: it saves what is left."""
    passes = Passes(monkeypatch)
    passes.run()
    passes.topic = resource_bodies.topic("orders", status=passes.topic.status, config={"retention.ms": 9000})
    view = passes.run(timedelta(minutes=1))
    assert (passes.stored, view.state, passes.step_at) == ("9000", SyncState.SYNCED, "")


def test_each_step_needs_its_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal has the command for this step; a step that is refused leaves no time behind, and does not wait."""
    passes = Passes(monkeypatch)
    assert refusal_reasons(passes.run(allow=False)) == [Reason.DATA_LOSS]
    assert (passes.stored, passes.step_at) == ("8000", "")
    passes.run()
    assert (passes.stored, passes.step_at) == ("4000", "2026-02-01T12:00:00Z")
    view = passes.run(timedelta(hours=2), allow=False)
    assert (passes.stored, view.state, refusal_reasons(view)) == ("4000", SyncState.REFUSED, [Reason.DATA_LOSS])
    passes.run()
    assert (passes.stored, passes.step_at) == ("2000", "2026-02-01T14:00:00Z")


def test_a_topic_that_is_only_observed_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a Topic is paused nothing of it is written, and it is not Waiting for its next step."""
    passes = Passes(monkeypatch)
    passes.run()
    passes.topic = resource_bodies.updated_body(passes.topic, annotations={"topiarist.dev/paused": "true"})
    view = passes.run(timedelta(minutes=1))
    assert (passes.stored, view.state) == ("4000", SyncState.PAUSED)
    assert Reason.RETENTION_WAITS not in refusal_reasons(view)


RECORDED = OwnershipRecord("o", memory=OperatorMemory(step_ms=1_000_000_000_000))


@pytest.mark.parametrize(
    ("topic", "record", "wanted"),
    [
        (STEP, RECORDED, "2001-09-09T01:46:40Z"),
        (STEP, None, ""),
        (STEP, OwnershipRecord("o"), ""),
        (replace(STEP, notices=()), RECORDED, ""),
        (TopicPlan("orders", refusals=(Issue(Reason.RETENTION_WAITS, "later"),)), RECORDED, "2001-09-09T01:46:40Z"),
        (TopicPlan("orders", refusals=(Issue(Reason.DATA_LOSS, "no"),)), RECORDED, ""),
        (None, RECORDED, ""),
    ],
)
def test_the_time_of_a_step_is_that_of_its_record(
    topic: TopicPlan | None, record: OwnershipRecord | None, wanted: str
) -> None:
    """The status shows the time in the record; without steps left it goes."""
    assert step_time(topic, record) == wanted


def test_the_next_step_is_the_reason_to_wait() -> None:
    """A topic is not as asked while steps are left, although all of its plan was made."""
    notice = Issue(Reason.RETENTION_STEP, "2 more")
    assert find_next_step(STEP) == notice._replace(reason=Reason.RETENTION_WAITS)
    assert find_next_step(replace(STEP, notices=())) is None
    assert find_next_step(None) is None
