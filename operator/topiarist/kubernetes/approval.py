"""Approval of a plan's changes by fields of the Cluster and annotations of the Topic.

The operator has no terminal to ask for confirmation, so ``reconciler`` filters each plan with ``filter_unapproved``. A
change that may lose data needs two approvals. The platform owner gives one by ``allowRisk`` in the Cluster, the topic
owner gives the other by an annotation that names the change (``consent``). A deletion needs ``allowDeletion`` in the
Cluster, and a resource that requests the deletion.

``format_issue`` formats findings for statuses and Events: their hints name fields and annotations, not flags.
"""

from __future__ import annotations

from collections.abc import Mapping

from topiarist.errors import Reason
from topiarist.filters.permissions import filter_changes
from topiarist.kubernetes import consent
from topiarist.kubernetes.annotations import annotation_errors
from topiarist.kubernetes.api.resources import Resource
from topiarist.model.plan import Change, DeleteTopic, Issue, Plan, Risk, TopicPlan
from topiarist.model.spec import ClusterSpec
from topiarist.output.change_details import describe_differences, describe_old_and_new, describe_risk_reasons

HINT_RETAIN = 'annotate the Topic with topiarist.dev/retain: "true" to let it go without deleting its topic'

HINT_ALLOW_RISK = "allowRisk: [DataLoss] in the Cluster"


def is_approved(cluster: ClusterSpec, resource: Resource, annotation: str, digest: str) -> bool:
    """Return whether Cluster and Topic both approve the change with this digest."""
    return Risk.DATA_LOSS.label in cluster.allow_risk and consent.is_granted(resource, annotation, digest)


def approval_hint(cluster: ClusterSpec, resource: Resource, annotation: str, digest: str) -> str:
    """Return the hint to allow the change with this digest: the approvals that are missing."""
    missing = [] if Risk.DATA_LOSS.label in cluster.allow_risk else [HINT_ALLOW_RISK]
    if not consent.is_granted(resource, annotation, digest):
        missing.append(consent.consent_command(resource, annotation, digest))
    return f"to allow exactly this: {', and '.join(missing)}"


def filter_unapproved(
    plan: Plan, cluster: ClusterSpec, resources: Mapping[str, Resource], blocked_deletions: Mapping[str, str]
) -> Plan:
    """Return ``plan`` without the changes that lack an approval.

    ``resources`` maps the names of topics to their Topics. ``blocked_deletions`` maps a topic's name to the reason why
    the topic must not be deleted although its Topic is being deleted.
    """

    allowed = max((risk for risk in Risk if risk.label in cluster.allow_risk), default=Risk.SAFE)
    digests = {
        topic.topic: consent.risk_digest(resources[topic.topic], cluster.name, topic, changes)
        for topic in plan.topics
        if (changes := consent.risky_changes(topic))
    }

    def judge(topic: TopicPlan, change: Change) -> Issue | None:
        resource = resources[topic.topic]
        if isinstance(change, DeleteTopic):
            return _deletion_issue(topic, cluster, resource, blocked_deletions)
        risk = change.assessment.risk
        if risk is Risk.SAFE:
            return None
        if risk is Risk.DATA_LOSS:
            digest = digests[topic.topic]
            if is_approved(cluster, resource, consent.ALLOW_RISK, digest):
                return None
            message = f"may lose data: {describe_risk_reasons(change, risk)}"
            return Issue(Reason.DATA_LOSS, message, hint=approval_hint(cluster, resource, consent.ALLOW_RISK, digest))
        if risk <= allowed:
            return None
        instead = "if it is meant: allowRisk: [Disruptive] in the Cluster"
        return Issue(Reason.DISRUPTIVE, f"may disturb clients: {describe_risk_reasons(change, risk)}", hint=instead)

    return filter_changes(plan, judge)


def has_consented_changes(plan: TopicPlan) -> bool:
    """Return whether a filtered plan has a change that needed the consent of the Topic's owner."""
    before, after = plan.record_before, plan.record_after
    taken = before is not None and after is not None and before.owner != after.owner
    recreated = plan.before is None and before is not None and not before.deleted
    return taken or recreated or bool(consent.risky_changes(plan))


def _deletion_issue(
    topic: TopicPlan, cluster: ClusterSpec, resource: Resource, blocked_deletions: Mapping[str, str]
) -> Issue | None:
    reason = Reason.DELETION_HELD if resource.deleting else Reason.DATA_LOSS
    way_out = f"; or {HINT_RETAIN}" if resource.deleting else ""
    if not cluster.allow_deletion:
        message = f"Cluster {cluster.name} does not allow that topics are deleted"
        return Issue(reason, message, hint=f"allowDeletion: true in the Cluster allows it{way_out}")
    if why := blocked_deletions.get(topic.topic):
        return Issue(reason, why, hint=HINT_RETAIN)
    if wrong := annotation_errors(resource):
        why = f"the topic is not deleted while an annotation of the Topic is not understood: {wrong[0]}"
        return Issue(Reason.DELETION_HELD, why, hint="correct or remove the annotation")
    return None


_HINTS = {
    Reason.BROKERS_MISSING: "wait until it is back, or name it in excludeBrokers of the Cluster if it is gone for good",
    Reason.BUDGET_EXCEEDED: "ask for less, or raise it in spec.budgets of the Cluster; deletions count for 24 hours",
    Reason.NOT_ADOPTED: "a pattern in spec.adopt of the Cluster takes it over",
    Reason.UNKNOWN_BROKERS: "name brokers that the cluster has",
}
"""Hints that replace those of the command line, which name flags; other hints are the same in both."""


def format_issue(issue: Issue) -> str:
    """Return the text of a finding for statuses and Events: message, withheld fields, hint."""
    instead = _HINTS.get(issue.reason, issue.hint)
    return ": ".join(filter(None, (describe_issue(issue), instead)))


def describe_issue(issue: Issue) -> str:
    """Return the text of a finding without its hint.

    The hint depends on the approvals given so far, so texts with hints cannot be compared.
    """
    return f"{issue.message}{_format_withheld(issue)}"


def _format_withheld(issue: Issue) -> str:
    if issue.reason is Reason.DRIFT_DETECTED:
        words = describe_differences(issue.withheld)
        return f": {words}" if words else ""
    words = describe_old_and_new(issue.withheld)
    return f" [{words}]" if words else ""
