"""Plans without specs: topics to rewrite unchanged, records to remove, and moves to undo; what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import PROD_CLUSTER, current_topic, refusal_reasons, replica_lists, spec, state, topic, with_topic
from support.memory_cluster import simulate
from topiarist.errors import Reason
from topiarist.kafka.types import Replicas, topic_name_problem
from topiarist.model.moves import MoveKind, MoveSettings, ReplicaMove, RequestedReassignment
from topiarist.model.outcome import TopicProgress, evaluate_progress, partitions_to_initialize
from topiarist.model.plan import ALL_TOPICS, Nudge, Plan, ReleaseOwnership, Risk, RunOptions, TopicPlan
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import (
    ClusterState,
    Freeze,
    OwnershipRecord,
    PartitionState,
    ReadError,
    TopicInspection,
    WriteBlock,
)
from topiarist.output.text.layout import TextLayout
from topiarist.output.text.plan import format_plans
from topiarist.planning.planner import make_plan
from topiarist.planning.preconditions import Validity, check_preconditions
from topiarist.planning.without_specs import (
    MovedTopic,
    UnmanageRequest,
    merge_moves,
    parse_topic_names,
    parse_unmanage_request,
    plan_nudge,
    plan_revert,
    plan_unmanage,
)

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


RECORDED = state(
    topic("legacy-a"),
    topic("legacy-b", owner="shop"),
    topic("legacy-c", record=None),
    topic("made-again", record_valid=False),
    dangling_records={
        "gone": OwnershipRecord("default", deleted=True),
        "legacy-gone": OwnershipRecord("default", ("retention.ms",)),
    },
    topic_errors={"odd": ReadError("/topiarist/topics/odd", "it is empty")},
)


def test_names_and_patterns_are_told_apart() -> None:
    """Names and patterns are listed once and sorted; an argument with a character that no topic name has is a
    pattern.
    """
    assert parse_unmanage_request(["b", "a*", "b", "x?", "[ab]"]) == UnmanageRequest(("b",), ("[ab]", "a*", "x?"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([""], "found an empty topic name"),
        (["topics/orders"], 'found "/" in topic name'),
        ([".."], "which Kafka reserves"),
        (["a b*"], 'the pattern "a b*", which no topic name can match'),
        (["/*", "ok", "\x1b"], 'found "\\u001b" in topic name "\\x1b"'),
    ],
)
def test_words_that_can_be_no_topic_are_refused(words: list[str], why: str) -> None:
    """Invalid topic names are refused with all their errors, before any connection to a cluster."""
    with pytest.raises(ValueError, match="found") as raised:
        parse_unmanage_request(words)
    assert why in str(raised.value)
    assert "\x1b" not in str(raised.value)


@given(st.text())
def test_a_word_is_a_topic_name_a_pattern_or_an_error(word: str) -> None:
    """Every argument is a valid topic name, a pattern, or an error."""
    try:
        found = parse_unmanage_request([word])
    except ValueError:
        return
    assert not any(map(topic_name_problem, found.names))
    assert found.names + found.patterns == (word,)


def test_a_pattern_means_our_own_only() -> None:
    """A pattern selects topics of this owner only; another owner's topic given by name is refused."""
    plan, absent = plan_unmanage(RECORDED, "prod", parse_unmanage_request(["legacy-*"]), RunOptions())
    assert [topic.topic for topic in plan.topics] == ["legacy-a", "legacy-gone"]
    assert not absent
    named, _ = plan_unmanage(RECORDED, "prod", parse_unmanage_request(["legacy-b"]), RunOptions())
    assert [finding.reason for finding in named.topics[0].refusals] == [Reason.NOT_OWNED]
    taken, _ = plan_unmanage(
        RECORDED, "prod", parse_unmanage_request(["legacy-b"]), RunOptions(take_ownership=ALL_TOPICS)
    )
    assert taken.topics[0].changes == (ReleaseOwnership(),)


def test_what_has_no_record_is_named() -> None:
    """The plan names topics that were never owned, and names without a topic."""
    plan, absent = plan_unmanage(
        RECORDED, "prod", parse_unmanage_request(["legacy-c", "nothing", "gone"]), RunOptions()
    )
    assert [topic.topic for topic in plan.topics] == ["gone"]
    assert absent == ["legacy-c", "nothing"]


def test_a_record_that_cannot_be_read_is_refused() -> None:
    """An unreadable record is refused, because its owner is unknown."""
    plan, absent = plan_unmanage(RECORDED, "prod", parse_unmanage_request(["odd"]), RunOptions())
    (refusal,) = plan.topics[0].refusals
    assert (refusal.reason, refusal.message) == (Reason.TOPIC_UNREADABLE, "/topiarist/topics/odd: it is empty")
    assert not absent


def test_releasing_is_safe_and_the_text_says_so() -> None:
    """The text has one Safe line per topic, and marks the record of an earlier topic."""
    plan, _ = plan_unmanage(RECORDED, "prod", parse_unmanage_request(["made-again", "legacy-a"]), RunOptions())
    assert {topic.risk for topic in plan.topics} == {Risk.SAFE}
    assert [[notice.reason for notice in topic.notices] for topic in plan.topics] == [
        [],
        [Reason.STALE_OWNERSHIP_RECORD],
    ]
    text = format_plans([plan], TextLayout())
    assert "= legacy-a       unmanage: only the ownership record is removed           Safe" in text
    assert "note         its ownership record belongs to an earlier topic of this" in text
    assert text.endswith("Plan: 2 to unmanage.\n")


def test_a_closed_gate_keeps_every_record() -> None:
    """With a write block, every removal of a record is withheld with the message of the write block."""
    gate = WriteBlock(Reason.FROZEN, f"the cluster is {Freeze('inventory', 'ada', 'today')}")
    closed = state(topic("orders"), write_block=gate)
    plan, _ = plan_unmanage(closed, "prod", parse_unmanage_request(["orders"]), RunOptions())
    assert not plan.has_changes
    assert plan.topics[0].refusals[0].message == "the cluster is frozen by ada since today: inventory"


def test_a_released_topic_is_adopted_again_like_any_other() -> None:
    """After a release the topic is unadopted: it is adopted if it equals its spec, else refused."""
    plan, _ = plan_unmanage(RECORDED, "prod", parse_unmanage_request(["legacy-a", "gone"]), RunOptions())
    after = simulate(RECORDED, plan.topics)
    assert after.topics.keys() == RECORDED.topics.keys()
    assert (after.topics["legacy-a"].record, "gone" in after.dangling_records) == (None, False)
    differs = make_plan(after, ClusterSpec(), [spec("legacy-a", partitions=9), spec("gone")], RunOptions())
    created, refused = differs.topics
    assert [finding.reason for finding in refused.refusals] == [Reason.NOT_ADOPTED]
    assert created.is_actionable


MOVING = replace(PROD_CLUSTER, moves=MoveSettings(frozenset({MoveKind.DRAIN, MoveKind.FACTOR}), 1000))
MOVED_LISTS = ((4, 2), (2, 3), (3, 4, 1))
REPORTED = (
    ReplicaMove("orders", 0, (1, 2), (4, 2), (MoveKind.DRAIN,)),
    ReplicaMove("orders", 2, (3, 4), (3, 4, 1), (MoveKind.FACTOR,)),
)


def _plan(seen: ClusterState, *moves: ReplicaMove, on: ClusterSpec = MOVING, topic_id: str | None = None) -> Plan:
    return plan_revert(seen, on, {"orders": MovedTopic(topic_id, moves or REPORTED)}, RunOptions())


def _only(plan: Plan) -> TopicPlan:
    (found,) = plan.topics
    return found


def _lists(seen: ClusterState) -> tuple[Replicas, ...]:
    return seen.topics["orders"].replicas


def test_each_partition_gets_its_list_of_before() -> None:
    """Lists and reasons are those of the report, reversed; carried out and planned again, nothing is left."""
    seen = state(topic("orders", MOVED_LISTS))
    plan = _plan(seen)
    assert [(move.before, move.after, move.kinds) for move in _only(plan).moves()] == [
        ((4, 2), (1, 2), (MoveKind.DRAIN,)),
        ((3, 4, 1), (3, 4), (MoveKind.FACTOR,)),
    ]
    after = simulate(seen, plan.topics)
    assert _lists(after) == ((1, 2), (2, 3), (3, 4))
    assert _plan(after).topics == ()


def test_the_plan_shows_its_effect_on_brokers() -> None:
    """The load of brokers and the present record of the topic are part of the plan."""
    plan = _plan(state(topic("orders", MOVED_LISTS)))
    assert plan.load[4].replicas == 2
    assert _only(plan).record_after == _only(plan).record_before == OwnershipRecord("default")


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        (((5, 2), (2, 3), (3, 4, 1)), "partition 0 was to be on [4, 2], and is on [5, 2] now"),
        (((2, 4), (2, 3), (3, 4, 1)), "partition 0 was to be on [4, 2], and is on [2, 4] now"),
    ],
)
def test_another_list_is_refused(lists: tuple[Replicas, ...], message: str) -> None:
    """A partition that moved elsewhere, or has another order, stays; the others are moved back."""
    found = _only(_plan(state(topic("orders", lists))))
    assert [move.partition for move in found.moves()] == [2]
    assert [(issue.reason, issue.message) for issue in found.refusals] == [(Reason.STATE_CONFLICT, message)]


def test_a_partition_that_does_not_exist_is_refused() -> None:
    """A report may name a partition of a topic that was recreated smaller, without ids."""
    found = _only(_plan(state(topic("orders", MOVED_LISTS[:2]))))
    assert found.refusals[0].message == "partition 2 was to be on [3, 4, 1], and does not exist now"


def test_a_partition_in_flight_is_refused() -> None:
    """A partition that a request names, or that is reassigned, is moved back by a later plan, not by hand."""
    seen = state(
        topic("orders", MOVED_LISTS),
        requested_reassignments=(RequestedReassignment("orders", 0, (4, 2)),),
        reassigning_topics=frozenset({"orders"}),
    )
    found = _only(_plan(seen))
    assert not found.moves()
    refusal = next(issue for issue in found.refusals if issue.message == "partition 0 is being reassigned now")
    assert refusal.reason is Reason.REASSIGNMENT_IN_PROGRESS
    assert refusal.hint == "wait until it is done (topiarist moves shows what is left), and make this plan again"


NO_DRAIN = MoveSettings(frozenset({MoveKind.FACTOR}), 1000)
NO_THROTTLE = MoveSettings(frozenset({MoveKind.DRAIN, MoveKind.FACTOR}))


@pytest.mark.parametrize(
    ("on", "reason"),
    [
        (replace(MOVING, moves=NO_DRAIN), Reason.MOVE_NOT_ALLOWED),
        (replace(MOVING, moves=NO_THROTTLE), Reason.THROTTLE_MISSING),
        (replace(MOVING, drain_brokers=frozenset({1})), Reason.EXCLUDED_BROKERS),
        (replace(MOVING, protected=("orders",)), Reason.PROTECTED_TOPIC),
    ],
    ids=["kind", "throttle", "drained", "protected"],
)
def test_the_cluster_must_allow_the_reverse(on: ClusterSpec, reason: Reason) -> None:
    """The refusal holds the moves that it withholds, and no field of a manifest."""
    found = _only(_plan(state(topic("orders", MOVED_LISTS)), on=on))
    (issue,) = found.refusals
    assert (issue.reason, issue.field, len(issue.withheld), found.changes) == (reason, (), 1, ())


def test_a_lower_factor_obeys_min_insync_replicas() -> None:
    """A raise is not undone where too few replicas would be left for producers."""
    seen = state(topic("orders", MOVED_LISTS, config={"min.insync.replicas": "3"}))
    assert [issue.reason for issue in _only(_plan(seen, REPORTED[1])).refusals] == [Reason.MIN_ISR_ABOVE_REPLICAS]


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (state(), Reason.STATE_CONFLICT),
        (state(topic("orders", MOVED_LISTS, topic_id="B" * 22)), Reason.STATE_CONFLICT),
        (state(topic("orders", MOVED_LISTS, record=None)), Reason.NOT_ADOPTED),
        (state(topic("orders", MOVED_LISTS, record=OwnershipRecord("another"))), Reason.NOT_OWNED),
        (state(topic("orders", MOVED_LISTS), pending_deletions=frozenset({"orders"})), Reason.DELETION_IN_PROGRESS),
        (state(topic_errors={"orders": ReadError("/brokers/topics/orders", "bad")}), Reason.TOPIC_UNREADABLE),
    ],
    ids=["deleted", "recreated", "unmanaged", "of another owner", "marked", "unreadable"],
)
def test_a_topic_that_is_not_that_of_the_report_is_refused(seen: ClusterState, reason: Reason) -> None:
    """Nothing of a topic moves back that was deleted or recreated, or that is not of the run."""
    found = _only(_plan(seen, topic_id="A" * 22))
    assert [issue.reason for issue in found.refusals] == [reason]
    assert not found.changes


def _move(before: Replicas, after: Replicas, kind: MoveKind = MoveKind.DRAIN) -> ReplicaMove:
    return ReplicaMove("orders", 0, before, after, (kind,))


def test_moves_that_follow_on_each_other_are_one() -> None:
    """Two runs moved a partition: the list of before the first one is restored, for both reasons."""
    merged = merge_moves([_move((1, 2), (3, 2), MoveKind.RACKS), _move((3, 2), (4, 2))])
    assert merged == (ReplicaMove("orders", 0, (1, 2), (4, 2), (MoveKind.DRAIN, MoveKind.RACKS)),)


def test_a_move_that_is_reported_twice_counts_once() -> None:
    """A finished move is also in the line of a topic that is not finished; the run before it is not lost."""
    second = _move((3, 2), (4, 2))
    assert merge_moves([_move((1, 2), (3, 2)), second, second])[0].before == (1, 2)


def test_the_last_of_unrelated_moves_counts() -> None:
    """If another client moved the partition between two runs, only the last move can be reversed."""
    assert merge_moves([_move((1, 2), (3, 2)), _move((5, 2), (6, 2))]) == (_move((5, 2), (6, 2)),)


def test_a_partition_that_came_back_is_left_out() -> None:
    """A move and its reverse in one report leave nothing to do."""
    assert merge_moves([_move((1, 2), (3, 2)), _move((3, 2), (1, 2))]) == ()
