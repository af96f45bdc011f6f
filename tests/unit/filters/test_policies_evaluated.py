"""The evaluation of policies: errors before a plan, denials of changes, and errors of the rules themselves."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import DocumentSource, cluster, plan, spec, state
from support.checkout import ROOT
from support.policy_builders import evaluate_rules, labelled_spec, policy
from topiarist.errors import InvalidManifests, Location
from topiarist.filters.policies import PolicyResult
from topiarist.model.spec import ClusterSpec
from topiarist.model.usage import Evidence, TopicSample, TopicUsage

SAMPLES = ROOT / "manifests" / "policies"
PROD = cluster("prod", labels={"env": "prod"}, version=(3, 9))


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
    assert said(evaluate_rules([law], spec("a", ClusterSpec()))) == ["a: never (policy law, rule r0)"]


def test_topics_that_are_not_judged() -> None:
    """Rules skip topics that are to be deleted and topics without a size, which are errors already."""
    law = policy({"expression": "topic.partitions > 5", "message": "more"})
    sized = replace(PROD, default_partitions=3, default_replication_factor=3)
    gone, sizeless = spec("gone", sized, ensure="Absent"), spec("sizeless", PROD, partitions=3)
    assert said(evaluate_rules([law], gone, sizeless)) == []
    assert len(said(evaluate_rules([law], gone, sizeless, spec("a", PROD)))) == 1


def test_a_warning_is_no_error() -> None:
    """A warning of ``validate`` is no error, and a run with a plan reports it in the plan instead."""
    law = policy({"expression": "false", "message": "mind", "action": "Warn"})
    found = evaluate_rules([law], spec("a", PROD))
    assert said(found) == []
    assert [warning.message for warning in found.warnings] == ["a on prod: mind (policy law, rule r0)"]
    assert evaluate_rules([law], spec("a", PROD), validate_only=False).warnings == []


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
    assert [tuple(each[:3]) for each in evaluate_rules([law], spec("a", PROD)).warnings] == expected


def test_a_denial_before_a_plan_is_left_to_the_plan() -> None:
    """A denied topic does not stop other topics: the plan refuses it and keeps the rest."""
    law = policy({"expression": 'topic.name != "a"', "message": "never"})
    specs = [spec("a", PROD), spec("b", PROD)]
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
            for text in said(evaluate_rules([law], spec("a", PROD), spec("b", PROD), validate_only=alone))
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
    guard = evaluate_rules([laws], spec("a", PROD), validate_only=False).plan_filter
    with pytest.raises(InvalidManifests) as raised:
        guard(plan(state(), spec("a", PROD)))
    assert [diagnostic.message.partition(": cannot")[0] for diagnostic in raised.value.errors] == [
        "policy law, rule r0",
        "policy law, rule r1",
    ]


def test_a_plan_without_specs_was_judged_when_it_was_made() -> None:
    """Rules about changes skip a saved plan, which has no specs and was evaluated at planning."""
    guard = evaluate_rules(
        [policy({"expression": "false", "subject": "Change"})], spec("a", PROD), validate_only=False
    ).plan_filter
    found = plan(state(), spec("a", PROD))
    bare = replace(found, topics=tuple(replace(each, spec=None) for each in found.topics))
    assert not guard(found).has_changes
    assert guard(bare).has_changes


def test_labels_do_not_lead_out_of_a_policy_that_asks_for_them() -> None:
    """A topic without labels evades a selector by labels, and does not evade a rule that requires them."""
    selected = policy({"expression": "topic.partitions < 3", "message": "few"}, matchLabels={"team": "shop"})
    demanding = policy({"expression": 'topic.labels[?"team"].hasValue()', "message": "whose?"}, name="labels")
    honest, dodging = labelled_spec("a", {"team": "shop"}, PROD), labelled_spec("b", {}, PROD)
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
    (error,) = evaluate_rules([policy({"expression": "topic.partition > 1"})], spec("a", PROD)).errors
    assert error.message.startswith("policy law, rule r0: ")
    assert "topic.partitions" in error.hint


def test_a_rule_about_changes_sees_whether_usage_was_read() -> None:
    """Of topics read in one run, a topic without usage has unknown usage, as has each topic without a read."""
    law = policy({"expression": "topic.usage.known", "subject": "Change"})
    guard = evaluate_rules([law], spec("a", PROD), spec("b", PROD), validate_only=False).plan_filter
    made = replace(plan(state(), spec("a", PROD), spec("b", PROD)), usage={"a": TopicUsage(TopicSample())})
    for evidence, known in ((Evidence(1), [True, False]), (None, [False, False])):
        assert [each.is_actionable for each in guard(replace(made, evidence=evidence)).topics] == known
