"""What of a plan the operator may do: nobody answers at a terminal, so the Cluster and the Topic have to.

What may lose data takes two agreements: ``allowRisk`` in the Cluster, of the platform's owner, and an annotation on the
Topic that names the change (``consent``), of the topic's owner. Deletion takes the Cluster's ``allowDeletion``, and a
resource that says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from topiarist.core.change import Change, DeleteTopic, Finding, Plan, Risk, TopicPlan
from topiarist.core.policy import restrict
from topiarist.core.spec import ClusterSpec
from topiarist.errors import Reason
from topiarist.kubernetes import consent
from topiarist.kubernetes.annotation import annotation_problems
from topiarist.kubernetes.details import risks
from topiarist.kubernetes.resources import Resource

LET_GO = 'annotate the Topic with topiarist.dev/retain: "true" to let it go without deleting its topic'

IN_CLUSTER = "allowRisk: [DataLoss] in the Cluster"


def consents(cluster: ClusterSpec, resource: Resource, annotation: str, digest: str) -> bool:
    """Return whether both have agreed to what has this digest: the Cluster to the risk, the Topic to the change."""
    return Risk.DATA_LOSS.word in cluster.allow_risk and consent.given(resource, annotation, digest)


def way(cluster: ClusterSpec, resource: Resource, annotation: str, digest: str) -> str:
    """Return how to allow what has this digest: whatever is missing of both agreements."""
    missing = [] if Risk.DATA_LOSS.word in cluster.allow_risk else [IN_CLUSTER]
    if not consent.given(resource, annotation, digest):
        missing.append(consent.how(resource, annotation, digest))
    return f"to allow exactly this: {', and '.join(missing)}"


def permitted(plan: Plan, cluster: ClusterSpec, resources: Mapping[str, Resource], held: Mapping[str, str]) -> Plan:
    """``plan`` without what nobody has answered for.

    ``resources`` are the Topics by the names of their topics; ``held`` says of some that are being deleted why their
    topics must not be.
    """

    allowed = max((risk for risk in Risk if risk.word in cluster.allow_risk), default=Risk.SAFE)
    digests = {
        topic.topic: consent.of_risk(resources[topic.topic], cluster.name, topic, changes)
        for topic in plan.topics
        if (changes := consent.risky(topic))
    }

    def judge(topic: TopicPlan, change: Change) -> Finding | None:
        resource = resources[topic.topic]
        if isinstance(change, DeleteTopic):
            return _deletion(topic, cluster, resource, held)
        risk = change.verdict.risk
        if risk is Risk.SAFE:
            return None
        if risk is Risk.DATA_LOSS:
            digest = digests[topic.topic]
            if consents(cluster, resource, consent.RISK, digest):
                return None
            message = f"may lose data: {risks(change, risk)}"
            return Finding(Reason.DATA_LOSS, message, instead=way(cluster, resource, consent.RISK, digest))
        if risk <= allowed:
            return None
        instead = "if it is meant: allowRisk: [Disruptive] in the Cluster"
        return Finding(Reason.DISRUPTIVE, f"may disturb clients: {risks(change, risk)}", instead=instead)

    return restrict(plan, judge)


def consented(plan: TopicPlan) -> bool:
    """Return whether what is left of a plan rests on a consent of the Topic's owner."""
    before, after = plan.record_before, plan.record_after
    taken = before is not None and after is not None and before.owner != after.owner
    recreated = plan.before is None and before is not None and not before.absent
    return taken or recreated or bool(consent.risky(plan))


def _deletion(topic: TopicPlan, cluster: ClusterSpec, resource: Resource, held: Mapping[str, str]) -> Finding | None:
    reason = Reason.DELETION_HELD if resource.deleting else Reason.DATA_LOSS
    way_out = f"; or {LET_GO}" if resource.deleting else ""
    if not cluster.allow_deletion:
        message = f"Cluster {cluster.name} does not allow that topics are deleted"
        return Finding(reason, message, instead=f"allowDeletion: true in the Cluster allows it{way_out}")
    if why := held.get(topic.topic):
        return Finding(reason, why, instead=LET_GO)
    if wrong := annotation_problems(resource):
        why = f"the topic is not deleted while an annotation of the Topic is not understood: {wrong[0]}"
        return Finding(Reason.DELETION_HELD, why, instead="correct or remove the annotation")
    return None
