"""Plans of ``topiarist nudge``: topics to rewrite unchanged, topics to skip, and refusals."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from support.builders import current_topic, refusal_reasons, replica_lists, state, topic, with_topic
from topiarist.errors import Reason
from topiarist.model.outcome import TopicProgress, evaluate_progress, partitions_to_initialize
from topiarist.model.plan import Nudge
from topiarist.model.state import ClusterState, PartitionState, ReadError, TopicInspection, WriteBlock
from topiarist.output.text.layout import TextLayout
from topiarist.output.text.plan import format_plans
from topiarist.planning.preconditions import Validity, check_preconditions, simulate
from topiarist.planning.without_specs import parse_topic_names, plan_nudge

LISTS = replica_lists("12", "23", "78")
SEEN = state(topic("orders", LISTS))


def inspection(*taken: int, known: bool = True, faults: int = 0) -> TopicInspection:
    """Return an inspection of the topic with states for these partitions."""
    return TopicInspection(
        identity="7",
        assignment=dict(enumerate(LISTS)),
        states={partition: PartitionState(1, (1,)) for partition in taken},
        partition_errors={partition: ReadError("somewhere", "odd") for partition in range(faults)},
        states_readable=known,
    )


CASES: dict[str, tuple[ClusterState, TopicInspection | None, list[str]]] = {
    "odd": (
        replace(SEEN, topics={}, topic_errors={"orders": ReadError("/x", "odd")}),
        inspection(),
        ["TopicUnreadable"],
    ),
    "marked": (replace(SEEN, pending_deletions=frozenset({"orders"})), inspection(), ["DeletionInProgress"]),
    "states forbidden": (SEEN, inspection(known=False), ["TopicUnreadable"]),
    "a state odd": (SEEN, inspection(faults=1), ["TopicUnreadable"]),
    "states not known": (SEEN, None, ["TopicUnreadable"]),
    "requested": (replace(SEEN, reassigning_topics=frozenset({"orders"})), inspection(), ["ReassignmentInProgress"]),
    "moving": (with_topic(SEEN, "orders", reassigning_partitions=(1,)), inspection(), ["ReassignmentInProgress"]),
    "through brokers": (replace(SEEN, bypasses_brokers=False), inspection(0), ["NotInitialized"]),
    "no broker": (SEEN, inspection(0, 1), ["BrokersMissing"]),
    "frozen": (replace(SEEN, write_block=WriteBlock(Reason.FROZEN, "until noon")), inspection(), ["Frozen"]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_is_refused(case: tuple[ClusterState, TopicInspection | None, list[str]]) -> None:
    """The plan of a refused nudge has no changes, and the refusal has its reason."""
    seen, found, reasons = case
    planned = plan_nudge(seen, "prod", {"orders": found}, "default")
    assert (refusal_reasons(planned.plan.topics[0]), planned.plan.has_changes) == (reasons, False)


def test_partitions_that_could_be_taken_over_are_nudged() -> None:
    """Partitions without state that have a registered broker are nudged, and the ownership record is unchanged."""
    planned = plan_nudge(SEEN, "prod", {"orders": inspection(0), "gone": None}, "team")
    (found,) = planned.plan.topics
    assert found.changes == (Nudge((1,)),)
    assert found.record_after == found.record_before
    assert (planned.initialized, planned.not_found, planned.plan.owner) == ([], ["gone"], "team")
    assert "nudge: 1 partition without a state" in format_plans([planned.plan], TextLayout(80), applying=True)
    assert "1 to nudge" in format_plans([planned.plan], TextLayout(80), applying=True)


def test_a_topic_that_is_taken_over_needs_none() -> None:
    """An initialized topic needs no nudge, in any other situation."""
    busy = replace(SEEN, reassigning_topics=frozenset({"orders"}))
    planned = plan_nudge(busy, "prod", {"orders": inspection(0, 1, 2)}, "default")
    assert (planned.plan.topics, planned.initialized) == ((), ["orders"])


def test_nothing_of_a_state_changes() -> None:
    """A nudge changes neither the topic nor its ownership record."""
    planned = plan_nudge(SEEN, "prod", {"orders": inspection()}, "default").plan
    assert simulate(SEEN, planned.actionable_topics()) == SEEN


MOVES = {
    "marked": replace(SEEN, pending_deletions=frozenset({"orders"})),
    "gone": replace(SEEN, topics={}),
    "made again": with_topic(SEEN, "orders", identity="99"),
    "requested": replace(SEEN, reassigning_topics=frozenset({"orders"})),
    "moving": with_topic(SEEN, "orders", reassigning_partitions=(1,)),
    "grown": with_topic(SEEN, "orders", replicas=(*LISTS, (1, 2))),
}


@pytest.mark.parametrize("moved", MOVES.values(), ids=MOVES.keys())
def test_what_moves_a_topic_under_a_nudge(moved: ClusterState) -> None:
    """Changes of partitions void a nudge; changes of configs and records do not, because a nudge writes neither."""
    plan = plan_nudge(SEEN, "prod", {"orders": inspection()}, "default").plan
    (one,) = plan.topics
    assert check_preconditions(one, plan.assumptions(), current_topic(SEEN, "orders")).validity is Validity.APPLICABLE
    configured = with_topic(SEEN, "orders", config={"retention.ms": "5"}, record=None)
    assert (
        check_preconditions(one, plan.assumptions(), current_topic(configured, "orders")).validity
        is Validity.APPLICABLE
    )
    stands = check_preconditions(one, plan.assumptions(), current_topic(moved, "orders"))
    assert (stands.validity, bool(stands.message)) == (Validity.CONFLICT, True)


def test_the_states_are_waited_for_whosever_the_record_is() -> None:
    """A nudge waits for partition states, also beside a stale ownership record."""
    (plan,) = plan_nudge(SEEN, "prod", {"orders": inspection(0)}, "default").plan.topics
    assert partitions_to_initialize(plan) == {1: LISTS[1]}
    assert plan.before is not None
    sight = TopicProgress(plan.before.identity, False, replicas=dict(enumerate(LISTS)), record_stale=True)
    assert evaluate_progress(plan, sight).reason is Reason.NOT_INITIALIZED
    assert evaluate_progress(plan, sight._replace(initialized=frozenset({1}))).final


def test_words_that_are_no_topic_names_are_refused() -> None:
    """Invalid topic names are refused, each name once and sorted."""
    assert parse_topic_names(["b", "a", "b"]) == ("a", "b")
    with pytest.raises(ValueError, match="found"):
        parse_topic_names(["topics/orders"])
