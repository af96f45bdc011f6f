"""Elections of preferred leaders: which partitions the controller can elect, and which topics are candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import (
    CLUSTER_ID,
    PROD_CLUSTER,
    RACKLESS_BROKERS,
    change_kinds,
    cluster,
    plan,
    replica_lists,
    spec,
    state,
    topic,
)
from support.memory_cluster import simulate
from topiarist.errors import Reason
from topiarist.kafka.types import Replicas
from topiarist.model.moves import UNLIMITED, LeaderChange, MoveKind, MoveSettings
from topiarist.model.plan import (
    ElectLeaders,
    MoveReplicas,
    Plan,
    Risk,
    RunOptions,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
    compute_broker_load_after,
)
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import (
    LEADER_DURING_DELETE,
    NO_LEADER,
    ClusterState,
    OwnershipRecord,
    PartitionState,
    TopicInspection,
    TopicState,
    WriteBlock,
)
from topiarist.planning.moves.topic import add_elections, find_candidates, find_elections, only_moves, without_moves
from topiarist.planning.preconditions import Validity, check_plan

ELECTING = replace(PROD_CLUSTER, moves=MoveSettings(frozenset({MoveKind.LEADERS})))
SEEN = state(topic(), brokers=RACKLESS_BROKERS)
AWAY = {0: PartitionState(2, (1, 2)), 1: PartitionState(2, (2, 3)), 2: PartitionState(4, (3, 4))}
"""The states of ``topic()`` (lists 12, 23, 34): partitions 0 and 2 have another leader than their first replica."""


def inspection(found: TopicState, states: Mapping[int, PartitionState], **fields: Any) -> TopicInspection:
    """Return the partitions of a topic with these states."""
    lists = dict(zip(found.partition_ids, found.replicas, strict=True))
    return replace(TopicInspection(found.identity, lists, states), **fields)


def elect(
    seen: ClusterState, *specs: TopicSpec, states: Mapping[int, PartitionState] = AWAY, before: Plan | None = None
) -> Plan:
    """Return the plan of specs with the elections of their topics, all with these states."""
    made = before or plan(seen, *specs)
    candidates = find_candidates(made, specs, seen)
    return add_elections(made, specs, candidates, {name: inspection(each, states) for name, each in candidates.items()})


def only_topic(found: Plan) -> TopicPlan:
    (planned,) = found.topics
    return planned


@pytest.mark.parametrize(
    ("leader", "isr", "registered", "problem"),
    [
        (1, (1, 2, 3), (1, 2, 3), None),
        (2, (1, 2, 3), (1, 2, 3), ""),
        (9, (1, 9), (1, 2, 3), ""),
        (2, (2, 3), (1, 2, 3), "broker 1, the first replica of partition 4, is not in sync"),
        (2, (1, 2, 3), (2, 3), "broker 1, the first replica of partition 4, is not registered"),
        (NO_LEADER, (1,), (1, 2, 3), "partition 4 has no leader"),
        (LEADER_DURING_DELETE, (1,), (1, 2, 3), "partition 4 has no leader"),
    ],
)
def test_only_a_first_replica_that_is_online_and_in_sync_is_elected(
    leader: int, isr: Replicas, registered: Replicas, problem: str | None
) -> None:
    """None: nothing to do; an empty problem: it is elected; otherwise the cause is given (M40)."""
    found, problems = find_elections([(4, (1, 2, 3))], {4: PartitionState(leader, isr)}, registered)
    assert found == ((LeaderChange(4, leader, 1),) if problem == "" else ())
    assert problems == ({4: problem} if problem else {})


def test_a_partition_without_a_state_is_never_listed() -> None:
    """Its entry would stop the controller (M40); an empty list has no first replica."""
    found, problems = find_elections([(0, (1, 2)), (1, ())], {}, (1, 2))
    assert (found, problems) == ((), {0: "partition 0 has no state: the controller has not initialized it"})


@given(
    st.lists(
        st.tuples(st.permutations((1, 2, 3)), st.integers(-2, 4), st.sets(st.integers(1, 4)), st.booleans()), max_size=8
    ),
    st.sets(st.integers(1, 4)),
    st.sets(st.integers(1, 4)),
)
def test_an_election_carried_out_leaves_nothing_to_elect(
    partitions: Sequence[tuple[list[int], int, set[int], bool]], registered: set[int], drained: set[int]
) -> None:
    """Each elected broker is in sync, online and not drained. With them as leaders only the problems are left."""
    lists = [(number, tuple(each[0])) for number, each in enumerate(partitions)]
    states = {
        number: PartitionState(leader, tuple(sorted(isr)))
        for number, (_, leader, isr, exists) in enumerate(partitions)
        if exists
    }
    found, problems = find_elections(lists, states, registered, drained)
    for each in found:
        assert each.after == lists[each.partition][1][0]
        assert each.after in states[each.partition].isr
        assert each.after in registered - drained
        states[each.partition] = states[each.partition]._replace(leader=each.after)
    assert find_elections(lists, states, registered, drained) == ((), problems)


def test_a_plan_elects_leaders_of_an_unchanged_topic() -> None:
    """The topic counts as changed; the record and the load of the brokers stay, and the risk says what clients see."""
    found = elect(SEEN, spec(on=ELECTING))
    planned = only_topic(found)
    (change,) = planned.changes
    assert isinstance(change, ElectLeaders)
    assert change.partitions == planned.elections() == (LeaderChange(0, 2, 1), LeaderChange(2, 4, 3))
    assert change.assessment == (Risk.DISRUPTIVE, "leaders of 2 partitions change")
    assert (found.unchanged, planned.record_after) == (0, planned.record_before)
    assert not planned.notices
    assert compute_broker_load_after(replace(found, load={})) == {}


def test_led_as_listed_nothing_is_planned() -> None:
    """With the first replicas as leaders, the topic stays unchanged."""
    states = {at: PartitionState(replicas[0], replicas) for at, replicas in enumerate(SEEN.topics["orders"].replicas)}
    found = elect(SEEN, spec(on=ELECTING), states=states)
    assert (found.topics, found.unchanged) == ((), 1)


def test_the_others_are_counted_in_a_notice() -> None:
    """A topic with notices alone is unchanged, and the first cause is given."""
    states = {**AWAY, 0: PartitionState(2, (2,)), 2: PartitionState(4, (4,))}
    found = elect(SEEN, spec(on=ELECTING), states=states)
    planned = only_topic(found)
    assert (planned.changes, found.unchanged) == ((), 1)
    (notice,) = planned.notices
    assert notice.reason is Reason.EXISTING_PROBLEM
    expected = "the first replica of 2 partitions cannot be elected as leader: broker 1, the first replica of"
    assert notice.message == f"{expected} partition 0, is not in sync"


def test_a_drained_broker_gets_no_leader() -> None:
    """A topic that may not be drained keeps its list, but not the leaders on the drained broker."""
    on = replace(ELECTING, drain_brokers=frozenset({1}))
    planned = only_topic(elect(SEEN, spec(on=on)))
    assert planned.elections() == (LeaderChange(2, 4, 3),)
    assert planned.notices[-1].message.endswith("broker 1, the first replica of partition 0, is drained")


def test_an_election_follows_the_other_changes() -> None:
    """It is the last change of a topic; a write of the record alone is not needed beside it."""
    grown = only_topic(elect(SEEN, spec(on=ELECTING, partitions=4, config={"retention.ms": 7})))
    assert change_kinds(grown) == ["AddPartitions", "UpdateConfig", "ElectLeaders"]
    recorded = state(topic(config={"retention.ms": "7"}), brokers=RACKLESS_BROKERS)
    wanted = spec(on=ELECTING, config={"retention.ms": 7})
    assert change_kinds(plan(recorded, wanted).topics[0]) == ["TakeOwnership"]
    both = elect(recorded, wanted)
    assert (change_kinds(only_topic(both)), both.unchanged) == (["ElectLeaders"], 0)
    assert only_topic(both).record_after == plan(recorded, wanted).topics[0].record_after


EVERY_KIND = MoveSettings(frozenset(MoveKind), throttle=UNLIMITED)
NO_CANDIDATES: Mapping[str, tuple[ClusterState, ClusterSpec, dict[str, Any]]] = {
    "not allowed": (SEEN, PROD_CLUSTER, {}),
    "not allowed by the topic": (SEEN, ELECTING, {"moves": {"allow": []}}),
    "observed": (SEEN, ELECTING, {"mode": "Observe"}),
    "to be deleted": (SEEN, ELECTING, {"ensure": "Absent"}),
    "without a record": (state(topic(record=None)), ELECTING, {}),
    "of another owner": (state(topic(record=OwnershipRecord("other"))), ELECTING, {}),
    "with a stale record": (state(topic(record_valid=False)), ELECTING, {}),
    "with unknown fields": (state(topic(unknown_fields=("observers",))), ELECTING, {}),
    "in flight": (state(topic(reassigning_partitions=(1,))), ELECTING, {}),
    "named by a request": (state(topic(), reassigning_topics=frozenset({"orders"})), ELECTING, {}),
    "marked for deletion": (state(topic(), pending_deletions=frozenset({"orders"})), ELECTING, {}),
    "absent": (state(), ELECTING, {}),
    "moved": (SEEN, replace(PROD_CLUSTER, moves=EVERY_KIND), {"partitions": 3, "replicationFactor": 3}),
    "refused to be moved": (
        SEEN,
        replace(PROD_CLUSTER, moves=replace(EVERY_KIND, throttle=None)),
        {"partitions": 3, "replicationFactor": 3},
    ),
    "protected": (SEEN, replace(ELECTING, protected=("orders",)), {}),
    "frozen": (replace(SEEN, write_block=WriteBlock(Reason.FROZEN, "frozen")), ELECTING, {}),
}


@pytest.mark.parametrize(("seen", "on", "fields"), NO_CANDIDATES.values(), ids=NO_CANDIDATES.keys())
def test_no_candidates(seen: ClusterState, on: ClusterSpec, fields: dict[str, Any]) -> None:
    """No partition state of such a topic is read, and no leader is elected."""
    wanted = spec(on=on, **fields)
    assert find_candidates(plan(seen, wanted), [wanted], seen) == {}


def test_protected_topics_may_be_allowed() -> None:
    """With ``protected``, leaders of internal and protected topics are elected."""
    on = replace(ELECTING, moves=replace(ELECTING.moves, protected=True), protected=("_schemas",))
    seen = state(topic("__consumer_offsets"), topic("_schemas"))
    wanted = spec("__consumer_offsets", on), spec("_schemas", on)
    assert [*find_candidates(plan(seen, *wanted), wanted, seen)] == ["__consumer_offsets", "_schemas"]


def test_unknown_leaders_are_warned_of_once() -> None:
    """A snapshot has no partition states, and ZooKeeper may deny them: nothing is planned, and the plan says so."""
    seen = state(topic("a"), topic("b"), topic("c"), brokers=RACKLESS_BROKERS)
    wanted = [spec(name, ELECTING) for name in "abc"]
    made = plan(seen, *wanted)
    denied = {"b": inspection(seen.topics["b"], {}, states_readable=False), "c": inspection(seen.topics["c"], AWAY)}
    found = add_elections(made, wanted, find_candidates(made, wanted, seen), denied)
    assert [each.topic for each in found.topics] == ["c"]
    assert found.warnings[len(made.warnings) :] == (
        "Leaders: no election is planned for 2 topics with leaders that cannot be read",
    )


@pytest.mark.parametrize("fields", [{"identity": "8"}, {"assignment": {0: (1, 2)}}])
def test_a_topic_that_changed_between_the_reads_waits(fields: dict[str, Any]) -> None:
    """States of another topic, or of other lists, are not used."""
    wanted = spec(on=ELECTING)
    made = plan(SEEN, wanted)
    known = {"orders": inspection(SEEN.topics["orders"], AWAY, **fields)}
    assert add_elections(made, [wanted], find_candidates(made, [wanted], SEEN), known) == made


def test_an_election_stands_by_the_first_replica() -> None:
    """Leaders are not compared: they may be elected already. Another first replica is a conflict."""
    found = elect(SEEN, spec(on=ELECTING))

    def standing(lists: Sequence[Replicas], made: Plan = found, **fields: Any) -> tuple[Validity, str]:
        now = topic(replicas=tuple(lists), **{"record": only_topic(made).record_after} | fields)
        ((_, result),) = check_plan(made, state(now, brokers=RACKLESS_BROKERS))
        return result.validity, result.message

    assert standing(replica_lists("12", "23", "34")) == (Validity.APPLICABLE, "")
    assert standing(replica_lists("13", "23", "34")) == (Validity.APPLICABLE, "")
    moved = "broker 3 was the first replica of partition 2, which is on [4, 3] now"
    assert standing(replica_lists("12", "23", "43")) == (Validity.CONFLICT, moved)
    gone = "partition 2 existed, and does not exist now"
    assert standing(replica_lists("12", "23")) == (Validity.CONFLICT, gone)
    assert standing(replica_lists("12", "23", "34"), identity="8")[0] is Validity.CONFLICT


def test_an_interrupted_run_leaves_the_election() -> None:
    """After its other changes a topic is neither applied nor in conflict: the election is left."""
    found = elect(SEEN, spec(on=ELECTING, config={"retention.ms": 7}))
    record = only_topic(found).record_after
    half = state(topic(config={"retention.ms": "7"}, record=record), brokers=RACKLESS_BROKERS)
    assert [result.validity for _, result in check_plan(found, half)] == [Validity.APPLICABLE]
    moved = state(
        topic(replicas=replica_lists("21", "23", "34"), config={"retention.ms": "7"}, record=record),
        brokers=RACKLESS_BROKERS,
    )
    assert [result.validity for _, result in check_plan(found, moved)] == [Validity.CONFLICT]


DRAINING = cluster(
    "prod",
    cluster_id=CLUSTER_ID,
    version=(3, 9),
    moves=MoveSettings(frozenset(MoveKind), 1000),
    drain_brokers=frozenset({6}),
)
LISTS = replica_lists("61", "12")


FIELDS = {"partitions": 2, "replicationFactor": 2}
FOUND = state(
    topic("adopted", LISTS, record=None),
    topic("both", LISTS),
    topic("config", replica_lists("12", "23")),
    topic("moved", LISTS),
)
SPECS = (
    spec("adopted", DRAINING, **FIELDS),
    spec("both", DRAINING, config={"retention.ms": 5}, **FIELDS),
    spec("config", DRAINING, config={"retention.ms": 5}, **FIELDS),
    spec("moved", DRAINING, **FIELDS),
)


def _plan() -> Plan:
    """Return a plan with moves and a config change, moves and an adoption, moves alone, and a config change alone."""
    return plan(FOUND, *SPECS, run=RunOptions(adopt=("*",)), on=DRAINING)


def test_the_changes_before_the_moves() -> None:
    """A topic that is moved gets its ownership record first, if that changes; one without a change is not written."""
    changes = {each.topic: [type(change) for change in each.changes] for each in without_moves(_plan()).topics}
    again = plan(simulate(FOUND, without_moves(_plan()).actionable_topics()), SPECS[-1], on=DRAINING)
    assert without_moves(again).topics[0].changes == ()
    assert changes == {
        "adopted": [TakeOwnership],
        "both": [UpdateConfig],
        "config": [UpdateConfig],
        "moved": [TakeOwnership],
    }


def test_the_moves_after_them() -> None:
    """The topics are as they are once the other changes are made: config, owner and record."""
    planned = _plan()
    moves = only_moves(planned, {"adopted", "both", "moved"})
    assert [each.topic for each in moves.topics] == ["adopted", "both", "moved"]
    assert all([type(change) for change in each.changes] == [MoveReplicas] for each in moves.topics)
    for each in moves.topics:
        assert each.before is not None
        assert each.record_before == each.record_after == each.before.valid_record
    assert moves.topics[0].before.valid_record.owner == "default"  # type: ignore[union-attr]
    assert dict(moves.topics[1].before.config) == {"retention.ms": "5"}  # type: ignore[union-attr]


def test_only_the_named_topics_are_moved() -> None:
    """A topic keeps its replicas if its other changes failed."""
    assert [each.topic for each in only_moves(_plan(), {"moved"}).topics] == ["moved"]
    assert only_moves(_plan(), ()).topics == ()


def test_a_topic_without_a_state_before_stays_so() -> None:
    """A plan that was read from a file may have none."""
    planned = _plan()
    topics = tuple(replace(each, before=None) for each in planned.topics)
    assert only_moves(replace(planned, topics=topics), {"moved"}).topics[0].before is None
