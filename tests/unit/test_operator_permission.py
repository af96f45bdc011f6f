"""What of a plan the operator may do: which words it takes, and whose."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from support import bodies, states
from topiarist.adapters.memory import MemoryCluster
from topiarist.core.change import Plan
from topiarist.core.plan import Run, make_plan
from topiarist.core.spec import merge
from topiarist.core.state import TopicState
from topiarist.errors import Reason
from topiarist.kubernetes.candidates import candidate, candidates
from topiarist.kubernetes.passes import Order, look
from topiarist.kubernetes.permission import RECREATE, TAKE_OWNERSHIP, answered, permitted
from topiarist.kubernetes.resources import FINALIZER, Resource
from unit.views import spec_of

OWNER = "k8s/shop/topiarist"
LONG, SHORT = "604800000", "3600000"


def notes(**annotations: str) -> dict[str, Any]:
    """Annotations of ours."""
    return {"annotations": {f"topiarist.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}}


def left(home: Resource, topic: Resource, found: TopicState, held: dict[str, str] | None = None) -> Plan:
    """What may be done of the plan for a Topic."""
    assert topic.manifest is not None
    spec = spec_of(home)
    plan = make_plan(states.cluster(found), spec, [merge(topic.manifest, spec)], Run(owner=OWNER))
    return permitted(plan, spec, {"orders": topic}, held or {})


def ours(partitions: int = 3, **config: str) -> TopicState:
    """A topic of the operator's."""
    named = {key.replace("_", "."): text for key, text in config.items()}
    return states.topic("orders", partitions, config=named, ours=sorted(named), owner=OWNER)


RISKS: Sequence[list[str]] = ([], ["Disruptive"], ["DataLoss"], ["Disruptive", "DataLoss"])


@pytest.mark.parametrize(("allowed", "word"), list(product(RISKS, ["", "true", "Disruptive", "DataLoss", "dataloss"])))
def test_data_loss_needs_both_words(allowed: list[str], word: str) -> None:
    """The Cluster's allowRisk and the Topic's annotation, each spelt exactly."""
    topic = bodies.topic("orders", config={"retention.ms": SHORT}, meta=notes(allow_risk=word))
    plan = left(bodies.cluster(allowRisk=allowed), topic, ours(retention_ms=LONG))
    meant = "DataLoss" in allowed and word == "DataLoss"
    assert plan.pending is meant
    assert plan.refused is not meant
    if not meant:
        (refusal,) = plan.topics[0].refusals
        assert refusal.reason is Reason.DATA_LOSS
        assert refusal.instead == (
            "if it is meant: allowRisk: [DataLoss] in the Cluster, and topiarist.dev/allow-risk: DataLoss on the Topic"
        )


@pytest.mark.parametrize("allowed", RISKS)
def test_what_disturbs_needs_the_clusters_word(allowed: list[str]) -> None:
    """Which it gives unless it says otherwise; who allows more allows this too."""
    topic = bodies.topic("orders", partitions=6)
    plan = left(bodies.cluster(allowRisk=allowed), topic, ours())
    assert plan.pending is bool(allowed)
    assert [found.reason for found in plan.topics[0].refusals] == ([] if allowed else [Reason.DISRUPTIVE])
    assert left(bodies.cluster(), topic, ours()).pending


def test_what_is_safe_needs_nobody() -> None:
    """Even where nothing else may be done."""
    topic = bodies.topic("orders", config={"flush.ms": 7})
    assert left(bodies.cluster(allowRisk=[]), topic, ours()).pending


def test_one_part_that_may_lose_data_holds_back_only_itself() -> None:
    """The rest of the topic is done."""
    topic = bodies.topic("orders", partitions=6, config={"retention.ms": SHORT})
    (found,) = left(bodies.cluster(), topic, ours(retention_ms=LONG)).topics
    assert [type(change).__name__ for change in found.changes] == ["AddPartitions"]
    assert [refusal.reason for refusal in found.refusals] == [Reason.DATA_LOSS]


@pytest.mark.parametrize(("allowed", "annotated", "both"), [
    ([], "true", False),
    (["Disruptive"], "true", False),
    (["DataLoss"], "", False),
    (["DataLoss"], "yes", False),
    (["DataLoss"], "true", True),
])  # fmt: skip
@pytest.mark.parametrize("annotation", [RECREATE, TAKE_OWNERSHIP])
def test_both_have_to_answer(annotation: str, allowed: list[str], annotated: str, both: bool) -> None:
    """For a topic that is made again, and for one that is taken from its owner."""
    home = spec_of(bodies.cluster(allowRisk=allowed))
    assert answered(home, bodies.topic("orders", meta=notes(**{annotation: annotated})), annotation) is both


def test_ownership_is_taken_by_both_words_only() -> None:
    """Without them the topic of another owner is left as it is."""
    for allowed, word, taken in (([], "true", False), (["DataLoss"], "", False), (["DataLoss"], "true", True)):
        port = MemoryCluster(states.cluster(states.topic("orders", owner="somebody", config={"flush.ms": "1"})))
        home = bodies.cluster(allowRisk=allowed)
        topic = bodies.topic("orders", config={"flush.ms": 1}, meta=notes(take_ownership=word))
        assert topic.manifest is not None
        spec = spec_of(home)
        found = candidates(spec, "shop", [candidate(topic, merge(topic.manifest, spec))], {})
        (view,) = look(port, Order(home, spec, found, OWNER), lambda: False).views
        record = port.state.topics["orders"].record
        assert record is not None
        assert (record.owner == OWNER) is taken
        assert [refusal.reason for refusal in view.refusals] == ([] if taken else [Reason.NOT_OWNED])


def absent(**meta: Any) -> Resource:
    """A Topic that asks for its topic to go."""
    return bodies.topic("orders", ensure="Absent", meta=meta)


def test_a_deletion_takes_allow_deletion() -> None:
    """And nothing less: neither allowRisk nor an annotation stands in for it."""
    assert left(bodies.cluster(allowDeletion=True), absent(), ours()).pending
    home = bodies.cluster(allowRisk=["DataLoss"])
    (found,) = left(home, absent(**notes(allow_risk="DataLoss")), ours()).topics
    assert not found.changes
    (refusal,) = found.refusals
    assert (refusal.reason, refusal.instead) == (
        Reason.DATA_LOSS,
        "allowDeletion: true in the Cluster allows it",
    )


@pytest.mark.parametrize(("allowed", "held"), [(False, {}), (True, {"orders": "its namespace is being deleted"})])
def test_a_deletion_with_its_resource_that_is_held(allowed: bool, held: dict[str, str]) -> None:
    """It says how the resource can go without its topic."""
    going = absent(deletionTimestamp="2026-02-01T00:00:00Z", finalizers=[FINALIZER])
    (found,) = left(bodies.cluster(allowDeletion=allowed), going, ours(), held).topics
    (refusal,) = found.refusals
    assert refusal.reason is Reason.DELETION_HELD
    assert 'topiarist.dev/retain: "true"' in refusal.instead
    assert not found.changes
