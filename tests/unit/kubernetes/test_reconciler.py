"""One pass of the operator over one cluster in memory: applied changes, withheld changes and messages."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from support import states
from support.kubernetes import resource_bodies
from topiarist.adapters.memory import MemoryCluster
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.api import client
from topiarist.kubernetes.api.resources import FINALIZER
from topiarist.kubernetes.approval import format_issue
from topiarist.kubernetes.reconciler import ReconcileResult, SyncState, reconcile_cluster
from topiarist.model.state import OperatorMemory, OwnershipRecord
from unit.kubernetes.reconcile_requests import (
    DELETING_META,
    LONG,
    OWNER,
    SHORT,
    approval_command,
    make_request,
    owned_topic,
    reconcile_topics,
    refusal_reasons,
    with_approval,
)


def test_what_is_declared_is_made_and_then_in_step() -> None:
    """A pass creates a declared topic, and the next pass reports it as synced."""
    port = MemoryCluster(states.cluster())
    wanted = make_request(resource_bodies.cluster(), resource_bodies.topic("orders"))
    assert reconcile_topics(port, wanted)["orders"].state is SyncState.CHANGED
    view = reconcile_topics(port, wanted)["orders"]
    assert (view.state, port.writes) == (SyncState.SYNCED, 1)
    assert view.actual is not None
    assert len(view.actual.replicas) == 3


def test_a_topic_of_others_is_not_taken_over() -> None:
    """The operator adopts an existing topic only if the Cluster's adopt permits it."""
    port = MemoryCluster(states.cluster(states.topic("orders", managed_keys=None, config={"flush.ms": "7"})))
    topic = resource_bodies.topic("orders", config={"flush.ms": 8})
    view = reconcile_topics(port, make_request(resource_bodies.cluster(), topic))["orders"]
    assert (view.state, refusal_reasons(view)) == (SyncState.REFUSED, [Reason.NOT_ADOPTED])
    assert (
        reconcile_topics(port, make_request(resource_bodies.cluster(adopt=["ord*"]), topic))["orders"].state
        is SyncState.SYNCED
    )


def test_drift_is_reported_or_corrected() -> None:
    """The operator reports or corrects drift according to the Cluster's driftPolicy."""
    met = states.spec("orders", config={"retention.ms": SHORT})
    found = states.cluster(states.topic("orders", config={"retention.ms": LONG}, owner=OWNER, applied_spec=met))
    topic = resource_bodies.topic("orders", config={"retention.ms": SHORT})
    answered = with_approval(resource_bodies.cluster(driftPolicy="Correct"), topic, found)
    for policy, state, there in (("Report", SyncState.DRIFTED, LONG), ("Correct", SyncState.SYNCED, SHORT)):
        home = resource_bodies.cluster(driftPolicy=policy, allowRisk=["Disruptive", "DataLoss"])
        port = MemoryCluster(found)
        assert reconcile_topics(port, make_request(home, answered))["orders"].state is state
        assert port.state.topics["orders"].config == {"retention.ms": there}


@pytest.mark.parametrize(("allowed", "copied"), [([], True), (["DataLoss"], False), (["DataLoss"], True)])
def test_data_loss_takes_two_words(allowed: list[str], copied: bool) -> None:
    """Data loss needs the approval of the Cluster and the Topic's consent to this change."""
    home, found = resource_bodies.cluster(allowRisk=allowed), states.cluster(owned_topic("orders", retention_ms=LONG))
    topic = resource_bodies.topic("orders", config={"retention.ms": SHORT})
    port = MemoryCluster(found)
    view = reconcile_topics(
        port, make_request(home, with_approval(resource_bodies.cluster(), topic, found) if copied else topic)
    )["orders"]
    done = bool(allowed) and copied
    assert view.state is (SyncState.SYNCED if done else SyncState.REFUSED)
    assert refusal_reasons(view) == ([] if done else [Reason.DATA_LOSS])


def set_back(port: MemoryCluster, retention: str) -> None:
    """Change the retention of the topic as another client would: its ownership record stays."""
    topic = replace(port.state.topics["orders"], config={"retention.ms": retention})
    port.state = replace(port.state, topics={"orders": topic})


def test_a_consent_counts_once() -> None:
    """A consent counts once: the operator refuses the same change later, after an external change or a spec change."""
    home = resource_bodies.cluster(driftPolicy="Correct", allowRisk=["Disruptive", "DataLoss"])
    state = states.cluster(owned_topic("orders", retention_ms=LONG))
    topic = with_approval(home, resource_bodies.topic("orders", config={"retention.ms": SHORT}), state)
    port = MemoryCluster(state)
    for again in range(3):
        view = reconcile_topics(port, make_request(home, topic))["orders"]
        assert view.state is SyncState.SYNCED
        set_back(port, LONG)
        refused = reconcile_topics(port, make_request(home, topic))["orders"]
        assert refusal_reasons(refused) == [Reason.DATA_LOSS], again
        annotation, digest = approval_command(refused)
        assert digest != topic.source.annotations[annotation]
        topic = resource_bodies.updated_body(topic, annotations={annotation: digest})


def test_a_consent_that_was_never_used_up_ends_with_the_need_for_it() -> None:
    """A consent is used up once its change is made, also if the operator was killed or another client made the
    change.
    """
    home = resource_bodies.cluster(driftPolicy="Correct", allowRisk=["DataLoss"])
    state = states.cluster(owned_topic("orders", retention_ms=LONG))
    topic = with_approval(home, resource_bodies.topic("orders", config={"retention.ms": SHORT}), state)
    port = MemoryCluster(states.cluster(owned_topic("orders", retention_ms=SHORT)))
    assert reconcile_topics(port, make_request(home, topic))["orders"].state is SyncState.SYNCED
    set_back(port, LONG)
    assert refusal_reasons(reconcile_topics(port, make_request(home, topic))["orders"]) == [Reason.DATA_LOSS]


def test_owned_topics_without_a_topic_are_counted() -> None:
    """Topics with the operator's record count that no Topic declares, readable or not; those of other owners do not."""
    there = states.cluster(*(owned_topic(name) for name in ("orders", "left", "broken")), states.topic("foreign"))
    request = replace(
        make_request(resource_bodies.cluster(), resource_bodies.topic("orders")),
        unreadable_topics=frozenset({"broken"}),
    )
    result = reconcile_cluster(MemoryCluster(there), request, lambda: False)
    assert (result.error, result.undeclared) == (None, 1)


@pytest.mark.parametrize("allowed", [True, False])
def test_growth_is_disruptive(allowed: bool) -> None:
    """Growth is disruptive, and is applied unless the Cluster permits no disruptive change."""
    port = MemoryCluster(states.cluster(owned_topic("orders")))
    home = resource_bodies.cluster() if allowed else resource_bodies.cluster(allowRisk=[])
    note = {"annotations": {"topiarist.dev/allow-risk": "sha256:0123456789abcdef"}}
    topic = resource_bodies.topic("orders", partitions=6, meta=note)
    view = reconcile_topics(port, make_request(home, topic))["orders"]
    assert (view.state, refusal_reasons(view)) == (
        (SyncState.CHANGED, []) if allowed else (SyncState.REFUSED, [Reason.DISRUPTIVE])
    )
    assert view.record is not None
    assert view.record.memory.consent == ""  # it needed none, so a consent to another change still counts


@pytest.mark.parametrize("allowed", [True, False])
def test_ensure_absent_takes_the_clusters_word(allowed: bool) -> None:
    """``ensure: Absent`` needs the Cluster's allowDeletion; after the deletion the topic stays absent."""
    port = MemoryCluster(states.cluster(owned_topic("orders")))
    wanted = make_request(
        resource_bodies.cluster(allowDeletion=allowed), resource_bodies.topic("orders", ensure="Absent")
    )
    view = reconcile_topics(port, wanted)["orders"]
    if allowed:
        assert (view.state, view.is_in_progress) == (SyncState.WAITING, True)
        assert "orders" not in port.state.topics
        view = reconcile_topics(port, wanted)["orders"]
        assert (view.state, view.is_in_progress) == (SyncState.ABSENT, False)
    else:
        assert (view.state, refusal_reasons(view)) == (SyncState.REFUSED, [Reason.DATA_LOSS])


def test_a_topic_whose_resource_is_deleted_goes_with_it() -> None:
    """A topic is deleted with its resource only if the resource has topiarist's finalizer and is being deleted."""
    port = MemoryCluster(states.cluster(owned_topic("orders"), owned_topic("kept"), owned_topic("there")))
    going = resource_bodies.topic("orders", deletionPolicy="Delete", meta=DELETING_META)
    kept = resource_bodies.topic("kept", meta={**DELETING_META, "finalizers": ["another"]})
    there = resource_bodies.topic("there", deletionPolicy="Delete", meta={"finalizers": [FINALIZER]})
    views = reconcile_topics(port, make_request(resource_bodies.cluster(allowDeletion=True), going, kept, there))
    assert "kept" not in views
    assert [*port.state.topics] == ["kept", "there"]


def test_a_held_deletion_says_why_and_how_to_let_go() -> None:
    """A withheld deletion reports its reason and its fix, for a namespace that is being deleted and for a Cluster that
    permits no deletion.
    """
    going = resource_bodies.topic("orders", deletionPolicy="Delete", meta=DELETING_META)
    port = MemoryCluster(states.cluster(owned_topic("orders")))
    for home, held in (
        (resource_bodies.cluster(allowDeletion=True), {"orders": "its namespace is being deleted"}),
        (resource_bodies.cluster(), {}),
    ):
        view = reconcile_topics(port, make_request(home, going, blocked_deletions=held))["orders"]
        assert (view.state, refusal_reasons(view)) == (SyncState.REFUSED, [Reason.DELETION_HELD])
        assert "topiarist.dev/retain" in view.refusals[0].hint
    assert "orders" in port.state.topics


def deleted_today(count: int) -> dict[str, OwnershipRecord]:
    """Return the records of this number of topics that the operator deleted just now."""
    memory = OperatorMemory(deletions_ms=(int(client.utc_now().timestamp() * 1000),))
    return {f"gone-{number}": OwnershipRecord(OWNER, deleted=True, memory=memory) for number in range(count)}


def test_deletions_of_a_day_share_one_budget() -> None:
    """All deletions of a day share one budget, and above it no topic is deleted."""
    going = [resource_bodies.topic(f"t{number}", deletionPolicy="Delete", meta=DELETING_META) for number in range(3)]
    topics = [owned_topic(f"t{number}") for number in range(3)]
    home = resource_bodies.cluster(allowDeletion=True, budgets={"deletions": 5})
    for before, left in ((3, 3), (2, 0)):
        port = MemoryCluster(states.cluster(*topics, dangling_records=deleted_today(before)))
        views = reconcile_topics(port, make_request(home, *going))
        assert len(port.state.topics) == left
        assert all((Reason.BUDGET_EXCEEDED in refusal_reasons(view)) is bool(left) for view in views.values())


def test_a_budget_that_is_overdrawn_has_no_room() -> None:
    """An exceeded budget permits no further change, and withholds only the changes that it counts."""
    home = resource_bodies.cluster(allowDeletion=True)
    port = MemoryCluster(states.cluster(owned_topic("orders"), dangling_records=deleted_today(7)))
    topics = resource_bodies.topic("orders", ensure="Absent"), resource_bodies.topic("new")
    views = reconcile_topics(port, make_request(home, *topics))
    (refusal,) = views["orders"].refusals
    assert refusal.message == "1 deletion, 0 allowed (deletions)"
    shown = "the changes of all topics together exceed the budget deletions of the Cluster [partitions 3 -> 0]: "
    assert format_issue(refusal).startswith(shown)
    assert format_issue(refusal).endswith("; deletions count for 24 hours")
    assert views["new"].state is SyncState.CHANGED


def test_budgets_hold_back_only_what_they_count() -> None:
    """A budget withholds only changes of its kind: too many new partitions do not prevent a config change."""
    port = MemoryCluster(states.cluster(owned_topic("old")))
    home = resource_bodies.cluster(budgets={"newPartitions": 2})
    views = reconcile_topics(
        port, make_request(home, resource_bodies.topic("new"), resource_bodies.topic("old", config={"flush.ms": 7}))
    )
    assert (views["new"].state, views["old"].state) == (SyncState.REFUSED, SyncState.SYNCED)


def test_what_is_paused_or_observed_is_left_alone() -> None:
    """The operator does not change a paused or observed topic, and reports the pending changes."""
    port = MemoryCluster(states.cluster())
    pause = {"annotations": {"topiarist.dev/paused": "true"}}
    topics = [
        resource_bodies.topic("a", meta=pause),
        resource_bodies.topic("b", mode="Observe"),
        resource_bodies.topic("c"),
    ]
    views = reconcile_topics(port, make_request(resource_bodies.cluster(), *topics))
    assert {name: view.state for name, view in views.items()} == {
        "a": SyncState.PAUSED,
        "b": SyncState.OBSERVED,
        "c": SyncState.CHANGED,
    }
    assert [*port.state.topics] == ["c"]
    views = reconcile_topics(port, make_request(resource_bodies.cluster(meta=pause), *topics))
    assert views["c"].state is SyncState.PAUSED


def test_an_override_may_have_one_cluster_only_observed() -> None:
    """An override can set one cluster to mode Observe, which is not a pause."""
    port = MemoryCluster(states.cluster())
    topic = resource_bodies.topic("orders", overrides=[{"clusters": ["prod"], "mode": "Observe"}])
    assert reconcile_topics(port, make_request(resource_bodies.cluster(), topic))["orders"].state is SyncState.OBSERVED
    assert (
        reconcile_topics(port, make_request(resource_bodies.cluster("other"), topic))["orders"].state
        is SyncState.CHANGED
    )


def test_only_what_asks_for_it_goes_with_its_resource() -> None:
    """A retained or observed topic remains after its resource is deleted, with any finalizer."""
    observed = {"mode": "Observe", "deletionPolicy": "Delete"}
    cases: list[tuple[dict[str, Any], SyncState]] = [({}, SyncState.SYNCED), (observed, SyncState.OBSERVED)]
    for spec, state in cases:
        port = MemoryCluster(states.cluster(owned_topic("orders")))
        going = resource_bodies.topic("orders", meta=DELETING_META, **spec)
        assert (
            reconcile_topics(port, make_request(resource_bodies.cluster(allowDeletion=True), going))["orders"].state
            is state
        )
        assert [*port.state.topics] == ["orders"]


def test_a_topic_deleted_by_others_is_not_made_again_in_silence() -> None:
    """The operator does not recreate an externally deleted topic under either drift policy; two approvals permit it."""
    gone = states.cluster(dangling_records={"orders": OwnershipRecord(OWNER)})
    plain = resource_bodies.topic("orders")
    answered = with_approval(resource_bodies.cluster(), plain, gone)
    for home, topic, state in (
        (resource_bodies.cluster(driftPolicy="Correct"), plain, SyncState.REFUSED),
        (resource_bodies.cluster(driftPolicy="Correct"), answered, SyncState.REFUSED),
        (resource_bodies.cluster(allowRisk=["DataLoss"]), plain, SyncState.REFUSED),
        (resource_bodies.cluster(allowRisk=["DataLoss"]), answered, SyncState.CHANGED),
    ):
        view = reconcile_topics(MemoryCluster(gone), make_request(home, topic))["orders"]
        assert view.state is state
        assert refusal_reasons(view) == ([Reason.DELETED_EXTERNALLY] if state is SyncState.REFUSED else [])


def test_of_two_claims_the_older_counts() -> None:
    """The older of two claims counts, and the newer Topic names the owner. If the older Topic is deleted, the claim
    passes on without a deletion.
    """
    first, second = resource_bodies.topic("orders"), resource_bodies.topic("more-orders", topicName="orders")
    port = MemoryCluster(states.cluster())
    seen = reconcile_cluster(port, make_request(resource_bodies.cluster(), second, first), lambda: False)
    by_name = {view.candidate.resource.name: view for view in seen.topic_results}
    assert by_name["orders"].state is SyncState.CHANGED
    assert refusal_reasons(by_name["more-orders"]) == [Reason.RESOURCE_CONFLICT]
    assert by_name["more-orders"].refusals[0].message == "Topic shop/orders declares topic orders too, and came first"
    going = resource_bodies.topic("orders", deletionPolicy="Delete", meta=DELETING_META)
    seen = reconcile_cluster(
        port, make_request(resource_bodies.cluster(allowDeletion=True), going, second), lambda: False
    )
    by_name = {view.candidate.resource.name: view for view in seen.topic_results}
    assert by_name["more-orders"].state is SyncState.SYNCED
    assert refusal_reasons(by_name["orders"]) == [Reason.RESOURCE_CONFLICT]
    assert "orders" in port.state.topics


def test_what_is_wrong_with_one_topic_is_that_topics_affair() -> None:
    """An error of one topic, with the path of the field, does not affect other topics."""
    wrong = resource_bodies.topic("wrong", config={"retention.ms": "soon"})
    views = reconcile_topics(
        MemoryCluster(states.cluster()), make_request(resource_bodies.cluster(), wrong, resource_bodies.topic("right"))
    )
    assert views["right"].state is SyncState.CHANGED
    assert refusal_reasons(views["wrong"]) == [Reason.CONFIG_INVALID]
    assert views["wrong"].refusals[0].message.startswith("spec.config[retention.ms]: ")


def test_a_cluster_that_cannot_be_read_ends_the_pass() -> None:
    """An unreadable cluster ends the pass with its reason; refusals that need no cluster state are still reported."""

    class Away(MemoryCluster):
        def read(self) -> Any:
            raise TopiaristError(Reason.UNREACHABLE, "no answer")

    stranger = resource_bodies.topic("orders", meta={"namespace": "elsewhere"})
    seen: ReconcileResult = reconcile_cluster(
        Away(states.cluster()),
        make_request(resource_bodies.cluster(), stranger, resource_bodies.topic("mine")),
        lambda: False,
    )
    assert seen.error is not None
    assert seen.error.reason is Reason.UNREACHABLE
    assert [refusal_reasons(view) for view in seen.topic_results] == [[Reason.NOT_ALLOWED]]


def test_a_topic_is_read_again_before_its_deletion() -> None:
    """A Topic that does not exist any more deletes nothing; one that is as it was does."""
    leaving = resource_bodies.topic("orders", deletionPolicy="Delete", meta=DELETING_META)
    for current, left in ((None, {"orders"}), (leaving, set())):
        port = MemoryCluster(states.cluster(owned_topic("orders")))
        request = make_request(
            resource_bodies.cluster(allowDeletion=True), leaving, read_topic=lambda _, it=current: it
        )
        reconcile_topics(port, request)
        assert {*port.state.topics} == left
