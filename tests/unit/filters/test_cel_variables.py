"""The variables of policy rules: each name has a value of its type, for every topic and every change."""

from __future__ import annotations

import pytest
from hypothesis import given
from msgspec.structs import replace

from support.builders import PROD_CLUSTER, RACKLESS_BROKERS, plan, refusal_reasons, replica_lists, spec, state, topic
from support.examples import examples
from support.policy_builders import evaluate_rules, labelled_spec, policy
from support.strategies import PlanInput, plan_inputs
from topiarist.filters.policies import UsageAt, bind_change, bind_cluster, bind_topic
from topiarist.model.moves import UNLIMITED, MoveKind, MoveSettings
from topiarist.model.plan import CreateTopic, DeleteTopic, MoveReplicas
from topiarist.model.policy import CHANGE_VARIABLES, TOPIC_VARIABLES, CelBindings, CelType
from topiarist.model.spec import ClusterSpec
from topiarist.model.usage import DAY_S, GroupType, GroupUsage, Side, TopicSample, TopicUsage, UsageState

_TYPES = {CelType.STRING: str, CelType.INT: int, CelType.BOOL: bool, CelType.LIST: list, CelType.MAP: dict}


@examples(200)
@given(plan_inputs())
def test_every_name_has_a_value_of_its_kind(world: PlanInput) -> None:
    """Every possible topic and change binds exactly the names of the tables, each with a value of its type."""
    for each in world.plan().topics:
        assert each.spec is not None
        found: CelBindings = bind_topic(each.spec, bind_cluster(each.spec.cluster), {})
        assert found.keys() == TOPIC_VARIABLES.keys()
        for change in each.changes:
            both = {**found, **bind_change(each, change, 3)}
            assert both.keys() == CHANGE_VARIABLES.keys()
            assert {name: type(value) for name, value in both.items()} == {
                name: _TYPES[fact.type] for name, fact in CHANGE_VARIABLES.items()
            }
            assert (both["change.before.partitions"] == 0) == (each.before is None)
            assert (both["change.after.partitions"] == 0) == isinstance(change, DeleteTopic)
            assert isinstance(change, CreateTopic) == (both["change.kind"] == "CreateTopic")


def test_a_topic_is_what_it_is_merged_to() -> None:
    """The variables of a topic have the cluster's defaults and overrides merged in, and config values as text."""
    prod = ClusterSpec(
        name="prod", labels={"env": "prod"}, version=(3, 9), default_partitions=6, default_config={"a": "b"}
    )
    made = labelled_spec("x", {"team": "t"}, prod, topicName="y", partitions=None, config={"retention.ms": 5})
    found = bind_topic(made, bind_cluster(prod), {"why": "so"})
    assert (found["topic.name"], found["topic.document"]) == ("y", "x")
    assert (found["topic.partitions"], found["topic.replicationFactor"]) == (6, 2)
    assert found["topic.config"] == {"a": "b", "retention.ms": "5"}
    assert (found["topic.labels"], found["topic.annotations"]) == ({"team": "t"}, {"why": "so"})
    assert (found["cluster.name"], found["cluster.labels"], found["cluster.kafkaVersion"]) == (
        "prod",
        {"env": "prod"},
        "3.9",
    )


def test_a_change_has_a_before_and_an_after() -> None:
    """The before and after values of a change cover the whole topic, with only this change applied."""
    config = {"segment.ms": "5", "retention.ms": "9"}
    seen = state(topic("a", replica_lists("12", "23", "34"), "retention.ms", config=config))
    wanted = spec("a", partitions=4, replicationFactor=2, config={"compression.type": "zstd"})
    (found,) = plan(seen, wanted).topics
    grown, configured = (bind_change(found, change, 6) for change in found.changes)
    assert (grown["change.before.partitions"], grown["change.after.partitions"]) == (3, 4)
    assert (grown["change.keys"], grown["change.after.config"]) == ([], config)
    assert grown["change.risk"] == "Disruptive"
    assert configured["change.after.partitions"] == 3
    assert configured["change.keys"] == ["compression.type", "retention.ms"]
    assert configured["change.after.config"] == {"compression.type": "zstd", "segment.ms": "5"}
    assert configured["cluster.brokers"] == 6


def test_a_size_or_version_that_is_not_known_is_zero_or_empty() -> None:
    """A rule can be evaluated for a topic without replica lists, and for a cluster of a version that is not known."""
    (found,) = plan(state(topic("a")), spec("a", config={"flush.ms": 5})).topics
    assert found.before is not None
    bare = replace(found, before=replace(found.before, replicas=()))
    variables = bind_change(bare, found.changes[0], 6)
    assert (variables["change.before.partitions"], variables["change.before.replicationFactor"]) == (0, 0)
    assert bind_cluster(ClusterSpec(name="prod"))["cluster.kafkaVersion"] == ""


def test_a_topic_names_its_profiles() -> None:
    """A rule sees the profiles of a topic in their order, and none for a topic without any."""
    prod = replace(PROD_CLUSTER, profiles={"small": {}, "logs": {}})
    for fields, names in (({"profiles": ["small", "logs"]}, ["small", "logs"]), ({}, [])):
        made = spec("a", prod, partitions=3, replicationFactor=2, **fields)
        assert bind_topic(made, bind_cluster(prod), {})["topic.profiles"] == names


READ_AT = 100 * DAY_S
USED = TopicUsage(
    TopicSample(
        ends=(7, 3, 3),
        begins=(1, 3, 3),
        sizes=(400, 100, 50),
        groups=(GroupUsage("a", GroupType.CLASSIC, members=2), GroupUsage("b", GroupType.SIMPLE)),
        more_groups=3,
    ),
    Side(UsageState.USED, 1, READ_AT - 3 * DAY_S - 5, READ_AT - 40 * DAY_S),
    Side(UsageState.NOT_SEEN, observed_since=READ_AT - 20 * DAY_S),
    bytes_per_day=77,
)
KNOWN = {
    "known": True,
    "written": "Used",
    "read": "NotSeen",
    "readers": 2,
    "groups": 5,
    "daysSinceWritten": 3,
    "daysSinceRead": -1,
    "daysObserved": 20,
    "bytes": 550,
    "bytesPerDay": 77,
    "empty": False,
}


def _usage(found: CelBindings) -> CelBindings:
    return {name.removeprefix("topic.usage."): value for name, value in found.items() if "usage" in name}


def test_a_rule_sees_the_usage_of_a_topic() -> None:
    """Whole days count from the read; the side that was observed later gives the days of observation."""
    (found,) = plan(state(topic("a")), spec("a", ensure="Absent")).topics
    (change,) = found.changes
    gone = {name: value for name, value in bind_change(found, change, 6).items() if "after" in name}
    assert gone == {"change.after.partitions": 0, "change.after.replicationFactor": 0, "change.after.config": {}}
    assert _usage(bind_change(found, change, 6, UsageAt(USED, READ_AT))) == KNOWN
    assert _usage(bind_change(found, change, 6)) == {
        **dict.fromkeys(KNOWN, -1),
        **{"known": False, "written": "Unknown", "read": "Unknown", "readers": 0, "groups": 0, "empty": False},
    }
    # A clock that was set back since gives no negative number, which would mean that the time is not known.
    late = replace(USED, written=Side(UsageState.USED, 1, READ_AT + 1), read=Side(UsageState.USED, 1, 2, READ_AT + 9))
    since = _usage(bind_change(found, change, 6, UsageAt(late, READ_AT)))
    assert (since["daysSinceWritten"], since["daysSinceRead"], since["daysObserved"]) == (0, 99, -1)


@pytest.mark.parametrize(
    ("begins", "ends", "empty"),
    [((3, 3), (3, 3), True), ((0, 3), (3, 3), False), ((), (), False), ((3, None), (3, None), False)],
)
def test_a_topic_is_empty_only_if_all_offsets_say_so(
    begins: tuple[int | None, ...], ends: tuple[int | None, ...], empty: bool
) -> None:
    """Offsets that are not known prove nothing."""
    (found,) = plan(state(topic("a")), spec("a", ensure="Absent")).topics
    usage = UsageAt(TopicUsage(TopicSample(begins=begins, ends=ends)), READ_AT)
    assert bind_change(found, found.changes[0], 6, usage)["topic.usage.empty"] is empty


def test_a_rule_sees_the_bytes_that_a_change_loses() -> None:
    """A deletion loses all, a smaller retention at most what is above it, and other changes nothing; -1: not known."""
    sized, unsized = UsageAt(USED, READ_AT), UsageAt(TopicUsage(TopicSample()), READ_AT)
    seen = state(topic("a", replica_lists("12", "23", "34"), "retention.bytes", config={"retention.bytes": "500"}))
    cut, grown, gone, kept = (
        plan(seen, wanted).topics[0]
        for wanted in (
            spec("a", config={"retention.bytes": 80, "compression.type": "zstd"}),
            spec("a", config={"retention.bytes": 900}),
            spec("a", ensure="Absent"),
            spec("a", partitions=4, replicationFactor=2, config={"retention.bytes": 500}),
        )
    )
    for found, lost in ((cut, (340, -1, -1)), (grown, (0, 0, 0)), (gone, (550, -1, -1)), (kept, (0, 0, 0))):
        bound = [bind_change(found, found.changes[0], 6, usage) for usage in (sized, unsized, None)]
        assert tuple(each["change.bytesLost"] for each in bound) == lost, found.changes


MOVING = replace(
    PROD_CLUSTER, moves=MoveSettings(frozenset(MoveKind), UNLIMITED), drain_brokers=frozenset({4}), name="prod"
)
MOVED = spec("a", MOVING, partitions=3, replicationFactor=3, config={"retention.ms": 5})
SEEN = state(topic("a", replica_lists("12", "24", "31")), brokers=(*RACKLESS_BROKERS,))


def test_a_move_has_its_copies_and_reasons() -> None:
    """A rule sees the number of copies and partitions, the reasons, and the factor; other changes have none of it."""
    (found,) = plan(SEEN, MOVED).topics
    move, configured = (bind_change(found, change, 4) for change in found.changes)
    assert move["change.kind"] == "MoveReplicas"
    assert (move["change.copies"], move["change.movedPartitions"]) == (4, 3)
    assert move["change.reasons"] == ["Drain", "Factor"]
    assert (move["change.before.replicationFactor"], move["change.after.replicationFactor"]) == (2, 3)
    assert (configured["change.copies"], configured["change.movedPartitions"], configured["change.reasons"]) == (
        0,
        0,
        [],
    )


def test_a_rule_sees_the_bytes_that_a_move_copies() -> None:
    """Each added replica copies its partition; a list that is only reordered copies none, whatever is known."""
    ordered = replace(MOVING, drain_brokers=frozenset[int]())
    swapped = spec("a", ordered, replicaAssignment=[[2, 1], [2, 4], [3, 1]])
    usage = UsageAt(USED, READ_AT)
    for wanted, known, unknown in ((MOVED, 400 + 2 * 100 + 50, -1), (swapped, 0, 0)):
        (found,) = plan(SEEN, wanted).topics
        (move,) = (change for change in found.changes if isinstance(change, MoveReplicas))
        assert bind_change(found, move, 4, usage)["change.bytesCopied"] == known
        assert bind_change(found, move, 4)["change.bytesCopied"] == unknown


@pytest.mark.parametrize(
    ("expression", "denied"),
    [
        ('change.kind != "move"', True),
        ("change.kind!='move'", True),
        ('change.kind != "MoveReplicas"', True),
        ('!(change.kind == "move" && change.copies > 3)', True),
        ('!(change.kind == "move" && change.copies > 4)', False),
        ("change.movedPartitions < 3", True),
        ('!("Drain" in change.reasons)', True),
        ('!change.reasons.exists(reason, reason in ["Spread", "Assignment"])', False),
        ('change.kind == "move"', False),
        ('topic.name != "move"', False),
    ],
)
def test_a_policy_denies_moves_alone(expression: str, denied: bool) -> None:
    """A rule about moves withholds the move with ``PolicyDenied``, and the config of the topic is changed."""
    law = policy({"subject": "Change", "expression": f"change.kind == 'UpdateConfig' || ({expression})"})
    (found,) = evaluate_rules([law], MOVED, validate_only=False).plan_filter(plan(SEEN, MOVED)).topics
    assert bool(found.moves()) is not denied
    assert refusal_reasons(found) == (["PolicyDenied"] if denied else [])
    assert "UpdateConfig" in [type(change).__name__ for change in found.changes]
