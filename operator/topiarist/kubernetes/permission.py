"""What of a plan the operator may do: nobody answers at a terminal, so the Cluster and the Topic have to.

What may lose data takes two words, of the platform's owner and of the topic's: ``allowRisk`` in the Cluster and an
annotation on the Topic. Deletion takes the Cluster's ``allowDeletion``, and a resource that says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from topiarist.core.change import Change, DeleteTopic, Finding, Plan, Risk, TopicPlan
from topiarist.core.policy import restrict
from topiarist.core.spec import ClusterSpec
from topiarist.errors import Reason
from topiarist.kubernetes.resources import Resource

RISK, RECREATE, TAKE_OWNERSHIP, RETAIN = "allow-risk", "recreate", "take-ownership", "retain"
"""Annotations by which a Topic's owner answers, each below ``topiarist.dev/``."""

LET_GO = 'annotate the Topic with topiarist.dev/retain: "true" to let it go without deleting its topic'


def answered(cluster: ClusterSpec, resource: Resource, annotation: str) -> bool:
    """Whether both have agreed that a topic is created again, or taken from its owner."""
    return Risk.DATA_LOSS.word in cluster.allow_risk and resource.annotation(annotation) == "true"


def permitted(plan: Plan, cluster: ClusterSpec, resources: Mapping[str, Resource], held: Mapping[str, str]) -> Plan:
    """``plan`` without what nobody has answered for.

    ``resources`` are the Topics by the names of their topics; ``held`` says of some that are being deleted why their
    topics must not be.
    """

    allowed = max((risk for risk in Risk if risk.word in cluster.allow_risk), default=Risk.SAFE)

    def judge(topic: TopicPlan, change: Change) -> Finding | None:
        if isinstance(change, DeleteTopic):
            return _deletion(topic, cluster, resources[topic.topic], held)
        risk = change.verdict.risk
        if risk is Risk.SAFE:
            return None
        answered = risk is not Risk.DATA_LOSS or resources[topic.topic].annotation(RISK) == risk.word
        if answered and risk <= allowed:
            return None
        if risk is Risk.DATA_LOSS:
            answers = f"allowRisk: [DataLoss] in the Cluster, and topiarist.dev/{RISK}: DataLoss on the Topic"
            instead = f"if it is meant: {answers}"
            return Finding(Reason.DATA_LOSS, f"may lose data: {change.verdict.because}", instead=instead)
        instead = "if it is meant: allowRisk: [Disruptive] in the Cluster"
        return Finding(Reason.DISRUPTIVE, f"may disturb clients: {change.verdict.because}", instead=instead)

    return restrict(plan, judge)


def _deletion(topic: TopicPlan, cluster: ClusterSpec, resource: Resource, held: Mapping[str, str]) -> Finding | None:
    reason = Reason.DELETION_HELD if resource.deleting else Reason.DATA_LOSS
    way_out = f"; or {LET_GO}" if resource.deleting else ""
    if not cluster.allow_deletion:
        message = f"Cluster {cluster.name} does not allow that topics are deleted"
        return Finding(reason, message, instead=f"allowDeletion: true in the Cluster allows it{way_out}")
    if why := held.get(topic.topic):
        return Finding(reason, why, instead=LET_GO)
    return None
