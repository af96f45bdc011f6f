"""Small builders for policy tests: rules and policies as a platform owner writes them."""

from __future__ import annotations

from typing import Any

from support.builders import PROD_CLUSTER, PositionedSource, manifest
from topiarist.adapters.cel import CelRuleEvaluator
from topiarist.adapters.manifests.loader import read_annotations
from topiarist.desired import parse
from topiarist.desired.resolve import Desired
from topiarist.desired.shared_specs import merge
from topiarist.filters.chain import PolicyResult
from topiarist.filters.policies import PolicyEvaluator, evaluate_policies
from topiarist.model import spec as spec_
from topiarist.model.policy import Policy, Rule
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec
from topiarist.schema import check, load


def policy(*rules: dict[str, Any], name: str = "law", namespace: str = "", **selector: Any) -> Policy:
    """Return the policy of a document ``NAME.yaml`` with these rules; missing required fields get defaults."""
    made = [{"name": f"r{number}", "expression": "true", "message": "no"} | rule for number, rule in enumerate(rules)]
    spec = {"rules": made} | ({"selector": selector} if selector else {})
    body = {
        "apiVersion": load.API_VERSION,
        "kind": "Policy",
        "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
        "spec": spec,
    }
    assert check.check(body) == []
    return parse.parse_policy(spec_.make_manifest(body, PositionedSource(f"{name}.yaml")))


def rule(expression: str, subject: str = "Topic") -> Rule:
    """Return the only rule of a policy."""
    return policy({"expression": expression, "subject": subject}).rules[0]


def labelled_spec(name: str, labels: dict[str, str], on: ClusterSpec = PROD_CLUSTER, **spec: Any) -> TopicSpec:
    """Return the spec of a topic with these labels."""
    made: Manifest = manifest(name, **({"partitions": 3, "replicationFactor": 2} | spec))
    return merge(made._replace(labels=labels), on)


def make_desired(*specs: TopicSpec) -> Desired:
    """Return the topics of a run, by cluster."""
    clusters = {each.cluster.name: each.cluster for each in specs}
    return Desired(
        specs={name: tuple(each for each in specs if each.cluster.name == name) for name in clusters},
        clusters=clusters,
    )


def evaluate_rules(policies: list[Policy], *specs: TopicSpec, validate_only: bool = True) -> PolicyResult:
    """Return the results of the policies for these topics; ``validate_only`` evaluates as ``validate`` does."""
    wanted = make_desired(*specs)
    bench = PolicyEvaluator(
        policies, read_annotations, CelRuleEvaluator(each for policy in policies for each in policy.rules)
    )
    return evaluate_policies(wanted, policies, wanted.clusters, bench, validate_only=validate_only)
