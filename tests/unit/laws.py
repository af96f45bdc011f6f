"""Small builders for tests of policies: rules and policies as a platform owner would write them."""

from __future__ import annotations

from typing import Any

from support.states import Written
from topiarist import schema
from topiarist.adapters.manifests import annotations_of
from topiarist.core.guardrails import Policy, Rule
from topiarist.core.spec import ClusterSpec, Manifest, TopicSpec, merge
from topiarist.desired import Desired
from topiarist.judging import judged
from unit.builders import NAMED, manifest


def policy(*rules: dict[str, Any], name: str = "law", namespace: str = "", **selector: Any) -> Policy:
    """The policy of a document ``NAME.yaml`` with these rules; what a rule must have and does not say is made up."""
    made = [{"name": f"r{number}", "expression": "true", "message": "no"} | rule for number, rule in enumerate(rules)]
    spec = {"rules": made} | ({"selector": selector} if selector else {})
    body = {
        "apiVersion": schema.VERSION,
        "kind": "Policy",
        "metadata": {"name": name} | ({"namespace": namespace} if namespace else {}),
        "spec": spec,
    }
    assert schema.check(body) == []
    return schema.policy(schema.manifest(body, Written(f"{name}.yaml")))


def rule(expression: str, subject: str = "Topic") -> Rule:
    """The only rule of a policy."""
    return policy({"expression": expression, "subject": subject}).rules[0]


def labelled(name: str, labels: dict[str, str], on: ClusterSpec = NAMED, **spec: Any) -> TopicSpec:
    """What a topic with these labels asks for."""
    made: Manifest = manifest(name, **({"partitions": 3, "replicationFactor": 2} | spec))
    return merge(made._replace(labels=labels), on)


def desired(*specs: TopicSpec) -> Desired:
    """The topics of a run, by cluster."""
    clusters = {each.cluster.name: each.cluster for each in specs}
    return Desired(
        specs={name: tuple(each for each in specs if each.cluster.name == name) for name in clusters},
        clusters=clusters,
    )


def ruled(policies: list[Policy], *specs: TopicSpec, alone: bool = True) -> Desired:
    """What the policies say of these topics; ``alone`` as ``validate`` asks it."""
    wanted = desired(*specs)
    return judged(wanted, policies, wanted.clusters, annotations_of, alone=alone)
