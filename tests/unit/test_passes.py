"""One pass of the operator over one cluster, in memory: what is done, what is held back, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from support import bodies, states
from topiarist.adapters.memory import MemoryCluster
from topiarist.core.state import Tombstone, TopicRecord
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.deletions import recent
from topiarist.kubernetes.passes import Seen, State, look
from topiarist.kubernetes.resources import FINALIZER
from topiarist.kubernetes.statuses import topic_status
from topiarist.kubernetes.words import told
from unit.orders import DELETING, LONG, OWNER, SHORT, command, consenting, order, ours, passed, reasons
from unit.views import NOW

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_what_is_declared_is_made_and_then_in_step() -> None:
    """The pass after it has nothing to do."""
    port = MemoryCluster(states.cluster())
    wanted = order(bodies.cluster(), bodies.topic("orders"))
    assert passed(port, wanted)["orders"].state is State.CHANGED
    view = passed(port, wanted)["orders"]
    assert (view.state, port.writes) == (State.IN_STEP, 1)
    assert view.found is not None
    assert len(view.found.replicas) == 3


def test_a_topic_of_others_is_not_taken_over() -> None:
    """Only the Cluster's adopt says that it may be."""
    port = MemoryCluster(states.cluster(states.topic("orders", ours=None, config={"flush.ms": "7"})))
    topic = bodies.topic("orders", config={"flush.ms": 8})
    view = passed(port, order(bodies.cluster(), topic))["orders"]
    assert (view.state, reasons(view)) == (State.REFUSED, [Reason.NOT_ADOPTED])
    assert passed(port, order(bodies.cluster(adopt=["ord*"]), topic))["orders"].state is State.IN_STEP


def test_drift_is_reported_or_corrected() -> None:
    """As the Cluster's driftPolicy says."""
    met = states.spec("orders", config={"retention.ms": SHORT})
    found = states.cluster(states.topic("orders", config={"retention.ms": LONG}, owner=OWNER, met=met))
    topic = bodies.topic("orders", config={"retention.ms": SHORT})
    answered = consenting(bodies.cluster(driftPolicy="Correct"), topic, found)
    for policy, state, there in (("Report", State.DRIFTED, LONG), ("Correct", State.IN_STEP, SHORT)):
        home = bodies.cluster(driftPolicy=policy, allowRisk=["Disruptive", "DataLoss"])
        port = MemoryCluster(found)
        assert passed(port, order(home, answered))["orders"].state is state
        assert port.state.topics["orders"].config == {"retention.ms": there}


@pytest.mark.parametrize(("allowed", "copied"), [([], True), (["DataLoss"], False), (["DataLoss"], True)])
def test_data_loss_takes_two_words(allowed: list[str], copied: bool) -> None:
    """The Cluster's, and the Topic's to this change."""
    home, found = bodies.cluster(allowRisk=allowed), states.cluster(ours("orders", retention_ms=LONG))
    topic = bodies.topic("orders", config={"retention.ms": SHORT})
    port = MemoryCluster(found)
    view = passed(port, order(home, consenting(bodies.cluster(), topic, found) if copied else topic))["orders"]
    done = bool(allowed) and copied
    assert view.state is (State.IN_STEP if done else State.REFUSED)
    assert reasons(view) == ([] if done else [Reason.DATA_LOSS])


def test_a_consent_counts_once() -> None:
    """The same change later, as another client undoes it or the spec goes back and forth, is refused anew."""
    home = bodies.cluster(driftPolicy="Correct", allowRisk=["Disruptive", "DataLoss"])
    state = states.cluster(ours("orders", retention_ms=LONG))
    topic = consenting(home, bodies.topic("orders", config={"retention.ms": SHORT}), state)
    port = MemoryCluster(state)
    for again in range(3):
        view = passed(port, order(home, topic))["orders"]
        assert view.state is State.IN_STEP
        topic = bodies.again(topic, status=topic_status(topic, {"prod": view}, {}, NOW, ("prod",)))
        port.state = replace(port.state, topics=state.topics)
        refused = passed(port, order(home, topic))["orders"]
        assert reasons(refused) == [Reason.DATA_LOSS], again
        annotation, digest = command(refused)
        assert digest != topic.source.annotations[annotation]
        topic = bodies.again(topic, annotations={annotation: digest})


def test_a_consent_that_was_never_used_up_ends_with_the_need_for_it() -> None:
    """The operator was killed behind the write, or another client made the change: it is used up all the same."""
    home = bodies.cluster(driftPolicy="Correct", allowRisk=["DataLoss"])
    state = states.cluster(ours("orders", retention_ms=LONG))
    topic = consenting(home, bodies.topic("orders", config={"retention.ms": SHORT}), state)
    view = passed(MemoryCluster(states.cluster(ours("orders", retention_ms=SHORT))), order(home, topic))["orders"]
    topic = bodies.again(topic, status=topic_status(topic, {"prod": view}, {}, NOW, ("prod",)))
    assert reasons(passed(MemoryCluster(state), order(home, topic))["orders"]) == [Reason.DATA_LOSS]


@pytest.mark.parametrize("allowed", [True, False])
def test_growth_is_disruptive(allowed: bool) -> None:
    """It is done unless the Cluster says that nothing disruptive may be."""
    port = MemoryCluster(states.cluster(ours("orders")))
    home = bodies.cluster() if allowed else bodies.cluster(allowRisk=[])
    view = passed(port, order(home, bodies.topic("orders", partitions=6)))["orders"]
    assert (view.state, reasons(view)) == ((State.CHANGED, []) if allowed else (State.REFUSED, [Reason.DISRUPTIVE]))


@pytest.mark.parametrize("allowed", [True, False])
def test_ensure_absent_takes_the_clusters_word(allowed: bool) -> None:
    """It is allowDeletion; once gone, absent is absent."""
    port = MemoryCluster(states.cluster(ours("orders")))
    wanted = order(bodies.cluster(allowDeletion=allowed), bodies.topic("orders", ensure="Absent"))
    view = passed(port, wanted)["orders"]
    if allowed:
        assert view.state is State.WAITING
        assert "orders" not in port.state.topics
        assert passed(port, wanted)["orders"].state is State.ABSENT
    else:
        assert (view.state, reasons(view)) == (State.REFUSED, [Reason.DATA_LOSS])


def test_a_topic_whose_resource_is_deleted_goes_with_it() -> None:
    """By our finalizer only: without it the topic stays, and so does that of a resource that nobody deletes."""
    port = MemoryCluster(states.cluster(ours("orders"), ours("kept"), ours("there")))
    going = bodies.topic("orders", deletionPolicy="Delete", meta=DELETING)
    kept = bodies.topic("kept", meta={**DELETING, "finalizers": ["another"]})
    there = bodies.topic("there", deletionPolicy="Delete", meta={"finalizers": [FINALIZER]})
    views = passed(port, order(bodies.cluster(allowDeletion=True), going, kept, there))
    assert "kept" not in views
    assert [*port.state.topics] == ["kept", "there"]


def test_a_held_deletion_says_why_and_how_to_let_go() -> None:
    """That of a namespace that goes as a whole, or where the Cluster does not allow any."""
    going = bodies.topic("orders", deletionPolicy="Delete", meta=DELETING)
    port = MemoryCluster(states.cluster(ours("orders")))
    for home, held in (
        (bodies.cluster(allowDeletion=True), {"orders": "its namespace is being deleted"}),
        (bodies.cluster(), {}),
    ):
        view = passed(port, order(home, going, held=held))["orders"]
        assert (view.state, reasons(view)) == (State.REFUSED, [Reason.DELETION_HELD])
        assert "topiarist.dev/retain" in view.refusals[0].instead
    assert "orders" in port.state.topics


def test_deletions_of_a_day_share_one_budget() -> None:
    """Over it none is done: so many at once were not meant. What was deleted before is told by what was read."""
    going = [bodies.topic(f"t{number}", deletionPolicy="Delete", meta=DELETING) for number in range(3)]
    topics = [ours(f"t{number}") for number in range(3)]
    home = bodies.cluster(allowDeletion=True, budgets={"deletions": 5})
    for before, left in ((3, 3), (2, 0)):
        tombstones = {f"gone-{number}": Tombstone(OWNER, 1_769_860_800_000) for number in range(before)}
        port = MemoryCluster(states.cluster(*topics, tombstones=tombstones))
        views = passed(port, order(home, *going, deletions=lambda state: recent(home, state, OWNER, NOON)))
        assert len(port.state.topics) == left
        assert all((Reason.BUDGET_EXCEEDED in reasons(view)) is bool(left) for view in views.values())


def test_a_budget_that_is_overdrawn_has_no_room() -> None:
    """It was larger before; and it holds back no more than it counts."""
    tombstones = {f"gone-{number}": Tombstone(OWNER, 1_769_860_800_000) for number in range(7)}
    home = bodies.cluster(allowDeletion=True)
    port = MemoryCluster(states.cluster(ours("orders"), tombstones=tombstones))
    topics = bodies.topic("orders", ensure="Absent"), bodies.topic("new")
    views = passed(port, order(home, *topics, deletions=lambda state: recent(home, state, OWNER, NOON)))
    (refusal,) = views["orders"].refusals
    assert told(refusal).startswith("1 deletion, 0 allowed (deletions) [partitions 3 -> 0]: ")
    assert told(refusal).endswith("; deletions count for 24 hours")
    assert views["new"].state is State.CHANGED


def test_budgets_hold_back_only_what_they_count() -> None:
    """Too many new partitions keep no config from being set."""
    port = MemoryCluster(states.cluster(ours("old")))
    home = bodies.cluster(budgets={"newPartitions": 2})
    views = passed(port, order(home, bodies.topic("new"), bodies.topic("old", config={"flush.ms": 7})))
    assert (views["new"].state, views["old"].state) == (State.REFUSED, State.IN_STEP)


def test_what_is_paused_or_observed_is_left_alone() -> None:
    """With what would be done."""
    port = MemoryCluster(states.cluster())
    pause = {"annotations": {"topiarist.dev/paused": "true"}}
    topics = [bodies.topic("a", meta=pause), bodies.topic("b", mode="Observe"), bodies.topic("c")]
    views = passed(port, order(bodies.cluster(), *topics))
    assert {name: view.state for name, view in views.items()} == {
        "a": State.PAUSED,
        "b": State.OBSERVED,
        "c": State.CHANGED,
    }
    assert [*port.state.topics] == ["c"]
    views = passed(port, order(bodies.cluster(meta=pause), *topics))
    assert views["c"].state is State.PAUSED


def test_an_override_may_have_one_cluster_only_observed() -> None:
    """That is no pause: nobody has to take anything back."""
    port = MemoryCluster(states.cluster())
    topic = bodies.topic("orders", overrides=[{"clusters": ["prod"], "mode": "Observe"}])
    assert passed(port, order(bodies.cluster(), topic))["orders"].state is State.OBSERVED
    assert passed(port, order(bodies.cluster("other"), topic))["orders"].state is State.CHANGED


def test_only_what_asks_for_it_goes_with_its_resource() -> None:
    """What is retained by now, or only observed, stays, whatever finalizer it has."""
    observed = {"mode": "Observe", "deletionPolicy": "Delete"}
    cases: list[tuple[dict[str, Any], State]] = [({}, State.IN_STEP), (observed, State.OBSERVED)]
    for spec, state in cases:
        port = MemoryCluster(states.cluster(ours("orders")))
        going = bodies.topic("orders", meta=DELETING, **spec)
        assert passed(port, order(bodies.cluster(allowDeletion=True), going))["orders"].state is state
        assert [*port.state.topics] == ["orders"]


def test_a_topic_deleted_by_others_is_not_made_again_in_silence() -> None:
    """Under either drift policy; two answers make it again."""
    gone = states.cluster(records={"orders": TopicRecord(OWNER)})
    plain = bodies.topic("orders")
    answered = consenting(bodies.cluster(), plain, gone)
    for home, topic, state in (
        (bodies.cluster(driftPolicy="Correct"), plain, State.REFUSED),
        (bodies.cluster(driftPolicy="Correct"), answered, State.REFUSED),
        (bodies.cluster(allowRisk=["DataLoss"]), plain, State.REFUSED),
        (bodies.cluster(allowRisk=["DataLoss"]), answered, State.CHANGED),
    ):
        view = passed(MemoryCluster(gone), order(home, topic))["orders"]
        assert view.state is state
        assert reasons(view) == ([Reason.DELETED_OUTSIDE] if state is State.REFUSED else [])


def test_of_two_claims_the_older_counts() -> None:
    """The other says whose it is; when the older one goes, the claim passes on and nothing is deleted."""
    first, second = bodies.topic("orders"), bodies.topic("more-orders", topicName="orders")
    port = MemoryCluster(states.cluster())
    seen = look(port, order(bodies.cluster(), second, first), lambda: False)
    by_name = {view.candidate.resource.name: view for view in seen.views}
    assert by_name["orders"].state is State.CHANGED
    assert reasons(by_name["more-orders"]) == [Reason.RESOURCE_CONFLICT]
    assert by_name["more-orders"].refusals[0].message == "Topic shop/orders declares topic orders too, and came first"
    going = bodies.topic("orders", deletionPolicy="Delete", meta=DELETING)
    seen = look(port, order(bodies.cluster(allowDeletion=True), going, second), lambda: False)
    by_name = {view.candidate.resource.name: view for view in seen.views}
    assert by_name["more-orders"].state is State.IN_STEP
    assert reasons(by_name["orders"]) == [Reason.RESOURCE_CONFLICT]
    assert "orders" in port.state.topics


def test_what_is_wrong_with_one_topic_is_that_topics_affair() -> None:
    """The others are done; the place is the field."""
    wrong = bodies.topic("wrong", config={"retention.ms": "soon"})
    views = passed(MemoryCluster(states.cluster()), order(bodies.cluster(), wrong, bodies.topic("right")))
    assert views["right"].state is State.CHANGED
    assert reasons(views["wrong"]) == [Reason.CONFIG_INVALID]
    assert views["wrong"].refusals[0].message.startswith("spec.config[retention.ms]: ")


def test_a_cluster_that_cannot_be_read_ends_the_pass() -> None:
    """With its reason; what stands against a topic anyway is said all the same."""

    class Away(MemoryCluster):
        def read(self) -> Any:
            raise TopiaristError(Reason.UNREACHABLE, "no answer")

    stranger = bodies.topic("orders", meta={"namespace": "elsewhere"})
    seen: Seen = look(Away(states.cluster()), order(bodies.cluster(), stranger, bodies.topic("mine")), lambda: False)
    assert seen.error is not None
    assert seen.error.reason is Reason.UNREACHABLE
    assert [reasons(view) for view in seen.views] == [[Reason.NOT_ALLOWED]]
