"""Policies as values: the clusters and topics that they cover, and a plan without the denied changes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace

from support.builders import (
    PROD_CLUSTER,
    RACKLESS_BROKERS,
    DocumentSource,
    PositionedSource,
    change_kinds,
    cluster,
    notice_reasons,
    plan,
    refusal_reasons,
    replica_lists,
    spec,
    state,
    topic,
)
from support.checkout import ROOT
from support.examples import examples
from support.policy_builders import evaluate_rules, labelled_spec, policy
from support.strategies import PlanInput, plan_inputs
from topiarist.adapters.manifests.loader import load_manifests
from topiarist.desired import parse
from topiarist.desired.shared_specs import merge
from topiarist.errors import InvalidManifests, Location
from topiarist.filters.chain import PolicyResult
from topiarist.filters.policies import (
    EvaluationErrors,
    UsageAt,
    bind_change,
    bind_cluster,
    bind_topic,
    deny_changes,
    find_duplicate_names,
)
from topiarist.model.moves import UNLIMITED, MoveKind, MoveSettings
from topiarist.model.plan import Change, CreateTopic, DeleteTopic, Issue, MoveReplicas, Plan, TopicPlan
from topiarist.model.policy import CHANGE_VARIABLES, TOPIC_VARIABLES, CelBindings, CelType, Policy, RuleError
from topiarist.model.spec import ClusterSpec, Limit, LimitScope, TopicSpec
from topiarist.model.usage import DAY_S, Evidence, GroupType, GroupUsage, Side, TopicSample, TopicUsage, UsageState
from topiarist.schema import load as load_

# The variables of policy rules: each name has a value of its type, for every topic and every change.

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
    assert (configured["change.after.partitions"], configured["change.after.replicationFactor"]) == (3, 2)
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
    assert move["change.after.partitions"] == move["change.before.partitions"] == 3
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
        ('"move" != change.kind', True),
        ('!(change.kind in ["DeleteTopic", "move"])', True),
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


# The evaluation of policies: errors before a plan, denials of changes, and errors of the rules themselves.

SAMPLES = ROOT / "manifests" / "policies"
LABELED = cluster("prod", labels={"env": "prod"}, version=(3, 9))


def said(found: PolicyResult) -> list[str]:
    return [diagnostic.message for diagnostic in found.errors]


def test_a_finding_names_all_its_clusters_once() -> None:
    """Each place has one error with the names of its clusters, at most the first three."""
    law = policy({"expression": "false", "message": "never"})
    clusters = [cluster(name) for name in ("c4", "c1", "c5", "c3", "c2")]
    made = spec("a", clusters[0])
    found = evaluate_rules([law], *(replace(made, cluster=each) for each in clusters))
    assert said(found) == ["a on c1, c2, c3 and 2 other clusters: never (policy law, rule r0)"]
    assert found.errors[0].hint.startswith("the rule is at law.yaml:")
    assert found.errors[0].reason == "PolicyDenied"
    assert said(evaluate_rules([law], spec("a", ClusterSpec()))) == ["a: never (policy law, rule r0)"]


def test_topics_that_are_not_judged() -> None:
    """Rules skip topics that are to be deleted and topics without a size, which are errors already."""
    law = policy({"expression": "topic.partitions > 5", "message": "more"})
    sized = replace(LABELED, default_partitions=3, default_replication_factor=3)
    gone, sizeless = spec("gone", sized, ensure="Absent"), spec("sizeless", LABELED, replicationFactor=None)
    assert said(evaluate_rules([law], gone, sizeless)) == []
    assert len(said(evaluate_rules([law], gone, sizeless, spec("a", LABELED)))) == 1


def test_a_warning_is_no_error() -> None:
    """A warning of ``validate`` is no error, and a run with a plan reports it in the plan instead."""
    law = policy({"expression": "false", "message": "mind", "action": "Warn"})
    found = evaluate_rules([law], spec("a", LABELED))
    assert said(found) == []
    assert [warning.message for warning in found.warnings] == ["a on prod: mind (policy law, rule r0)"]
    assert evaluate_rules([law], spec("a", LABELED), validate_only=False).warnings == []


UNUSED: dict[str, tuple[dict[str, Any], list[tuple[Location, str, str]]]] = {
    "misspelt name": (
        {"clusters": ["prod", "prd"]},
        [
            (
                Location("law.yaml", 6, 5),  # below: document, spec, selector, clusters, and its first item
                "policy law: there is no Cluster prd, so the policy does not apply there",
                "did you mean prod?",
            )
        ],
    ),
    "misspelt label": (
        {"clusterSelector": {"matchLabels": {"env": "live"}}},
        [(Location("law.yaml", 4, 4), "policy law: no Cluster has these labels, so the policy has no effect", "")],
    ),
    "no name and no label": (
        {"clusters": ["live"]},
        [(Location("law.yaml", 5, 5), "policy law: there is no Cluster live, so the policy does not apply there", "")],
    ),
    "known name": ({"clusters": ["prod"]}, []),
    "known label": ({"clusterSelector": {"matchLabels": {"env": "prod"}}}, []),
    "none": ({}, []),
}


@pytest.mark.parametrize(("selector", "expected"), UNUSED.values(), ids=UNUSED)
def test_a_policy_that_protects_nothing_is_a_warning(
    selector: dict[str, Any], expected: list[tuple[Location, str, str]]
) -> None:
    """A selector that selects no cluster has a warning at the part that is wrong."""
    source = DocumentSource("law.yaml", {"spec": {"selector": selector}})
    law = replace(policy({"expression": "true"}, **selector), source=source)
    assert [tuple(each[:3]) for each in evaluate_rules([law], spec("a", LABELED)).warnings] == expected


def test_a_denial_before_a_plan_is_left_to_the_plan() -> None:
    """A denied topic does not stop other topics: the plan refuses it and keeps the rest."""
    law = policy({"expression": 'topic.name != "a"', "message": "never"})
    specs = [spec("a", LABELED), spec("b", LABELED)]
    found = evaluate_rules([law], *specs, validate_only=False)
    assert said(found) == []
    after = found.plan_filter(plan(state(), *specs))
    assert [(each.topic, each.is_actionable) for each in after.topics] == [("a", False), ("b", True)]


def test_a_rule_that_cannot_be_judged_is_a_error_in_any_case() -> None:
    """A rule that cannot be evaluated is an error that names its first topic, also beside another denial."""
    law = policy({"expression": 'topic.labels.team == "x"'}, {"expression": "false"})
    for alone in (True, False):
        found = [
            text
            for text in said(evaluate_rules([law], spec("a", LABELED), spec("b", LABELED), validate_only=alone))
            if "evaluated" in text
        ]
        assert found == [
            'policy law, rule r0: cannot be evaluated for a on prod and 1 other topic: found no key "team"',
        ]


def test_a_rule_about_changes_that_cannot_be_judged_ends_the_plan() -> None:
    """Every rule about changes that cannot be evaluated is an error of its own."""
    laws = policy(
        {"expression": 'change.after.config["x"] == ""', "subject": "Change"},
        {"expression": "1 / change.before.partitions > 0", "subject": "Change"},
        {"expression": "true", "subject": "Change"},
    )
    guard = evaluate_rules([laws], spec("a", LABELED), validate_only=False).plan_filter
    with pytest.raises(InvalidManifests) as raised:
        guard(plan(state(), spec("a", LABELED)))
    assert [diagnostic.message.partition(": cannot")[0] for diagnostic in raised.value.errors] == [
        "policy law, rule r0",
        "policy law, rule r1",
    ]


def test_a_plan_without_specs_was_judged_when_it_was_made() -> None:
    """Rules about changes skip a saved plan, which has no specs and was evaluated at planning."""
    guard = evaluate_rules(
        [policy({"expression": "false", "subject": "Change"})], spec("a", LABELED), validate_only=False
    ).plan_filter
    found = plan(state(), spec("a", LABELED))
    bare = replace(found, topics=tuple(replace(each, spec=None) for each in found.topics))
    assert not guard(found).has_changes
    assert guard(bare).has_changes


def test_labels_do_not_lead_out_of_a_policy_that_asks_for_them() -> None:
    """A topic without labels evades a selector by labels, and does not evade a rule that requires them."""
    selected = policy({"expression": "topic.partitions < 3", "message": "few"}, matchLabels={"team": "shop"})
    demanding = policy({"expression": 'topic.labels[?"team"].hasValue()', "message": "whose?"}, name="labels")
    honest, dodging = labelled_spec("a", {"team": "shop"}, LABELED), labelled_spec("b", {}, LABELED)
    assert said(evaluate_rules([selected, demanding], honest)) == ["a on prod: few (policy law, rule r0)"]
    assert said(evaluate_rules([selected, demanding], dodging)) == ["b on prod: whose? (policy labels, rule r0)"]


@pytest.mark.parametrize(("paths", "loaded"), [(["samples"], False), (["samples", "policies/naming.yaml"], True)])
def test_the_library_is_loaded_only_for_a_policy(paths: list[str], loaded: bool) -> None:
    """A run imports the CEL library only for a policy."""
    words = ["validate", *(str(SAMPLES.parent / path) for path in paths)]
    script = f"import sys; from topiarist.cli.main import run; run({words!r}); print('cel_expr_python' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"{loaded}\n"


def test_without_the_library_a_policy_is_an_error() -> None:
    """A policy without the CEL library exits with 1 and names the missing package: topiarist never skips a rule."""
    words = ["validate", str(SAMPLES / "naming.yaml"), str(SAMPLES.parent / "samples")]
    script = (
        f"import sys; sys.modules['cel_expr_python'] = None; from topiarist.cli.main import run; print(run({words!r}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
    assert done.stderr == (
        "error: the evaluation of Policy documents needs packages that are not installed: "
        "pip install 'cel-expr-python>=0.1.3' (extra policy)\n"
    )


def test_a_rule_that_does_not_compile_says_what_to_do() -> None:
    """The error of the evaluator comes with its hint, at the expression."""
    (error,) = evaluate_rules([policy({"expression": "topic.partition > 1"})], spec("a", LABELED)).errors
    assert error.message.startswith("policy law, rule r0: ")
    assert "topic.partitions" in error.hint


def test_a_rule_about_changes_sees_whether_usage_was_read() -> None:
    """Of topics read in one run, a topic without usage has unknown usage, as has each topic without a read."""
    law = policy({"expression": "topic.usage.known", "subject": "Change"})
    guard = evaluate_rules([law], spec("a", LABELED), spec("b", LABELED), validate_only=False).plan_filter
    made = replace(plan(state(), spec("a", LABELED), spec("b", LABELED)), usage={"a": TopicUsage(TopicSample())})
    for evidence, known in ((Evidence(1), [True, False]), (None, [False, False])):
        assert [each.is_actionable for each in guard(replace(made, evidence=evidence)).topics] == known


# The sample policies: each allows valid topics, denies invalid ones, and has a test.

FROZEN = replace(LABELED, labels={"env": "prod", "change-freeze": "true"})


def sample(name: str) -> Policy:
    """Return the only policy of a sample."""
    (found,) = load_manifests([str(SAMPLES / f"{name}.yaml")]).manifests
    return parse.parse_policy(found)


def written(made: TopicSpec, **annotations: str) -> TopicSpec:
    """Return the topic as read from a file, with annotations."""
    metadata = {"name": made.manifest.name, "labels": made.manifest.labels, "annotations": annotations}
    body = {"apiVersion": load_.API_VERSION, "kind": "Topic", "metadata": metadata, "spec": made.manifest.spec}
    (found,) = load_manifests(["-"], io.BytesIO(json.dumps(body).encode())).manifests
    return merge(found, made.cluster)


TEAM = {"team": "shop"}
DURABLE = {"min.insync.replicas": 2}
SIZES: dict[str, Any] = {"partitions": 6, "replicationFactor": 3}

GOOD_TOPICS = [
    ("naming", labelled_spec("shop.orders-v1", TEAM, LABELED)),
    ("partitions", spec("a", LABELED, partitions=48, replicationFactor=3)),
    ("production-durability", spec("a", LABELED, **SIZES, config=DURABLE)),
    ("production-durability", spec("a", cluster("test"), partitions=1, replicationFactor=1)),
    ("retention", spec("a", LABELED, **SIZES)),
    ("retention", spec("a", LABELED, **SIZES, config={"retention.ms": 2592000000})),
    ("retention", spec("a", LABELED, **SIZES, config={"retention.ms": -1, "cleanup.policy": "compact"})),
]
BAD_TOPICS = [
    ("naming", labelled_spec("shop.orders", {}, LABELED), {"team-label", "team-prefix"}),
    ("naming", labelled_spec("orders", TEAM, LABELED), {"team-prefix"}),
    ("naming", labelled_spec("shop.orders", TEAM, LABELED, topicName="shop.Orders_v1"), {"characters"}),
    ("partitions", spec("a", LABELED, partitions=49, replicationFactor=3), {"at-most"}),
    ("partitions", spec("a", LABELED, partitions=2, replicationFactor=3), {"at-least"}),
    (
        "production-durability",
        spec("a", LABELED, partitions=6, replicationFactor=2),
        {"replication-factor", "min-insync-replicas"},
    ),
    (
        "production-durability",
        spec("a", LABELED, **SIZES, config={"min.insync.replicas": 3, "unclean.leader.election.enable": True}),
        {"min-insync-replicas", "unclean-election"},
    ),
    ("retention", spec("a", LABELED, **SIZES, config={"retention.ms": 2592000001}), {"ceiling"}),
    ("retention", spec("a", LABELED, **SIZES, config={"retention.ms": -1}), {"ceiling"}),
    (
        "retention",
        spec("a", LABELED, **SIZES, config={"retention.ms": -1, "cleanup.policy": "compact,delete"}),
        {"ceiling"},
    ),
]


def _rules(found: PolicyResult) -> set[str]:
    messages = [diagnostic.message for diagnostic in (*found.errors, *found.warnings)]
    return {message.rpartition(", rule ")[2].rstrip(")") for message in messages if ", rule " in message}


@pytest.mark.parametrize(("name", "made"), GOOD_TOPICS)
def test_samples_allow_the_good(name: str, made: TopicSpec) -> None:
    """The samples report nothing for a valid topic."""
    assert _rules(evaluate_rules([sample(name)], written(made))) == set()


@pytest.mark.parametrize(("name", "made", "broken"), BAD_TOPICS)
def test_samples_catch_the_bad(name: str, made: TopicSpec, broken: set[str]) -> None:
    """Every sample rule about topics denies a topic that violates it."""
    assert _rules(evaluate_rules([sample(name)], written(made))) == broken


def test_a_reason_in_an_annotation_lets_a_topic_keep_longer() -> None:
    """An annotation with a reason permits longer retention, as the sample documents."""
    made = spec("a", LABELED, **SIZES, config={"retention.ms": -1})
    assert _rules(evaluate_rules([sample("retention")], written(made))) == {"ceiling"}
    excused = written(made, **{"example.com/long-retention": "the law wants it"})
    assert _rules(evaluate_rules([sample("retention")], excused)) == set()


def _changes(on: ClusterSpec) -> Plan:
    """Return a plan with a creation, a deletion, a growth to a multiple and a growth to another number."""
    seen = state(
        topic("gone"), topic("even", replica_lists("12", "23", "34")), topic("odd", replica_lists("12", "23", "34"))
    )
    return plan(
        seen,
        spec("even", on, partitions=6, replicationFactor=2),
        spec("gone", on, ensure="Absent"),
        spec("new", on),
        spec("odd", on, partitions=4, replicationFactor=2),
    )


def _found(findings: tuple[Issue, ...]) -> bool:
    return any("policy" in finding.message for finding in findings)


@pytest.mark.parametrize(
    ("name", "on", "refused", "warned"),
    [
        ("no-deletion-in-production", LABELED, {"gone"}, set()),
        ("no-deletion-in-production", cluster("test"), set(), set()),
        ("frozen-window", FROZEN, {"gone", "even", "odd"}, set()),
        ("frozen-window", LABELED, set(), set()),
        ("partitions", LABELED, set(), {"odd"}),
    ],
)
def test_samples_about_changes(name: str, on: ClusterSpec, refused: set[str], warned: set[str]) -> None:
    """The samples about changes deny exactly their changes on their clusters."""
    found = _changes(on)
    specs = [each.spec for each in found.topics if each.spec]
    after = evaluate_rules([sample(name)], *specs, validate_only=False).plan_filter(found)
    assert {each.topic for each in after.topics if _found(each.refusals)} == refused
    assert {each.topic for each in after.topics if _found(each.notices)} == warned


def test_every_sample_is_tested() -> None:
    """Each file of the folder is in one of the tables of this module."""
    tested = {name for name, *_ in (*GOOD_TOPICS, *BAD_TOPICS)} | {"no-deletion-in-production", "frozen-window"}
    assert {path.stem for path in SAMPLES.iterdir()} == tested


DENY = policy({"message": "never"}).rules[0].make_issue(spec("a"))
WARN = policy({"message": "mind", "action": "Warn"}).rules[0].make_issue(spec("a"))
PROD = ClusterSpec(name="prod", labels={"env": "prod", "region": "eu"})
TEST = ClusterSpec(name="test", labels={"env": "test"})


def _nothing(_topic: TopicPlan, _change: Change) -> Sequence[Issue]:
    return ()


@pytest.mark.parametrize(
    ("selector", "meant"),
    [
        ({}, {"prod", "test", ""}),
        ({"clusters": ["test"]}, {"test"}),
        ({"clusterSelector": {"matchLabels": {"env": "prod"}}}, {"prod"}),
        ({"clusterSelector": {"matchLabels": {"env": "prod", "region": "us"}}}, set()),
        ({"topics": ["nothing"]}, {"prod", "test", ""}),
    ],
)
def test_clusters_that_a_policy_means(selector: dict[str, Any], meant: set[str]) -> None:
    """A policy covers clusters by name or by all labels, and without either every cluster, named or not."""
    found = policy({}, **selector)
    assert {cluster.name for cluster in (PROD, TEST, ClusterSpec()) if found.applies_to_cluster(cluster)} == meant


@pytest.mark.parametrize(
    ("selector", "covered"),
    [
        ({}, {"orders.a", "users"}),
        ({"topics": ["orders.*"]}, {"orders.a"}),
        ({"topics": ["ORDERS.*", "us?rs"]}, {"users"}),
        ({"matchLabels": {"team": "shop"}}, {"orders.a", "users"}),
        ({"matchLabels": {"team": "shop", "tier": "1"}}, {"users"}),
        ({"topics": ["orders.*"], "matchLabels": {"tier": "1"}}, set()),
    ],
)
def test_topics_that_a_policy_covers(selector: dict[str, Any], covered: set[str]) -> None:
    """A policy covers topics by a case-sensitive pattern of the Kafka name and by all labels, and both must match."""
    specs = [labelled_spec("orders.a", {"team": "shop"}), labelled_spec("users", {"team": "shop", "tier": "1"})]
    found = policy({}, **selector)
    assert {each.topic for each in specs if found.applies_to_topic(each)} == covered


def test_a_topic_that_is_denied() -> None:
    """The first refusal holds all changes of a denied topic, the second holds none, and a warning is a notice."""
    before = plan(
        state(topic("a", replica_lists("12", "23", "34"))),
        spec("a", partitions=4, replicationFactor=2, config={"compression.type": "zstd"}),
    )
    (after,) = deny_changes(before, {"a": [DENY, DENY, WARN]}, _nothing).topics
    assert (change_kinds(after), refusal_reasons(after), notice_reasons(after)) == (
        [],
        ["PolicyDenied"] * 2,
        ["PolicyWarning"],
    )
    assert [len(refusal.withheld) for refusal in after.refusals] == [2, 0]
    assert after.record_after == after.record_before


def test_a_change_that_is_denied() -> None:
    """Only the denied change is withheld, and every rule that denies it is named."""

    def judge(_topic: TopicPlan, change: Change) -> Sequence[Issue]:
        return (DENY, DENY, WARN) if type(change).__name__ == "AddPartitions" else (WARN,)

    seen = state(topic("a", replica_lists("12", "23", "34")))
    before = plan(seen, spec("a", partitions=4, replicationFactor=2, config={"compression.type": "zstd"}))
    (after,) = deny_changes(before, {}, judge).topics
    assert (change_kinds(after), refusal_reasons(after)) == (["UpdateConfig"], ["PolicyDenied"] * 2)
    assert notice_reasons(after) == ["PolicyWarning"] * 2
    assert [[type(change).__name__ for change in each.withheld] for each in after.refusals] == [["AddPartitions"], []]


def test_topics_without_a_change() -> None:
    """A denial of an existing value is a notice for a topic in the plan, and a number for all other topics."""
    seen = state(topic("same"), topic("told", config={"segment.ms": "5"}))
    before = replace(plan(seen, spec("same"), spec("told")), warnings=("said before",))
    after = deny_changes(before, {"same": [DENY], "told": [DENY]}, _nothing)
    (told,) = after.topics
    assert (told.topic, refusal_reasons(told), notice_reasons(told)) == ("told", [], ["Unmanaged", "PolicyWarning"])
    assert not after.has_refusals
    assert after.warnings[0] == "said before"
    assert after.warnings[1].startswith("policies are violated by 1 topic without changes")


def test_topics_that_are_only_observed() -> None:
    """An observed topic has no denials, because the run does not write it."""
    before = plan(state(), spec("a", partitions=1, replicationFactor=1, mode="Observe"))
    after = deny_changes(before, {"a": [DENY]}, lambda _topic, _change: [DENY])
    assert (change_kinds(after.topics[0]), notice_reasons(after.topics[0])) == (["CreateTopic"], ["PolicyWarning"])
    assert not after.has_refusals


def test_errors_of_a_rule_are_those_of_each_topic() -> None:
    """A topic has only its own errors, and the first topic of a rule is named with the number of the others."""
    first, second = policy({"name": "x"}, {"name": "y"}).rules
    errors = EvaluationErrors()
    errors.add(first, spec("a"), RuleError("no key", "add it"))
    errors.add(first, spec("b"), RuleError("no value"))
    errors.add(second, spec("b"), RuleError("no number"))
    assert [*errors.for_topic("a")] == [(first, RuleError("no key", "add it"))]
    assert [error.message for _, error in errors.for_topic("b")] == ["no value", "no number"]
    assert [(each.message, each.hint) for each in errors.errors()] == [
        ("policy law, rule x: cannot be evaluated for a on prod and 1 other topic: no key", "add it"),
        ("policy law, rule y: cannot be evaluated for b on prod: no number", ""),
    ]


def test_a_limit_of_a_policy_that_cannot_be() -> None:
    """The errors of limits are among those of the policy."""
    limit = Limit("law, limit a", LimitScope.LABEL, {})
    (error,) = find_duplicate_names([replace(policy({}), limits=(limit,))])
    assert error.message.startswith("law, limit a: found per: Label and no label")


def test_names_that_are_there_twice() -> None:
    """Duplicate policies of one namespace and duplicate rules of one policy are errors that name both places."""
    found = list(
        find_duplicate_names(
            [policy({}), policy({}, namespace="other"), policy({"name": "x"}, {"name": "x"}, {}), policy({})]
        )
    )
    assert [str(diagnostic).split(":")[0] for diagnostic in found] == ["law.yaml"] * 3
    assert [diagnostic.message.split(":")[0] for diagnostic in found] == [
        "Policy law",
        "policy law, rule x",
        "Policy law",
    ]


def test_a_duplicate_policy_is_reported_at_its_name() -> None:
    """The error is at the name of the later document, and has the place of the earlier name."""
    named = [
        replace(policy({}), source=PositionedSource(file, {("metadata",): (2, 1), ("metadata", "name"): (3, 3)}))
        for file in ("first.yaml", "second.yaml")
    ]
    (error,) = find_duplicate_names(named)
    assert error.location == Location("second.yaml", 3, 3)
    assert error.message == f"Policy law: duplicate name, declared at {Location('first.yaml', 3, 3)} already"
