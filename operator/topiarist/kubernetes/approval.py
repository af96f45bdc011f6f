"""Approval of a plan's changes by fields of the Cluster and annotations of the Topic.

The operator has no terminal to ask for confirmation, so ``reconciler`` filters each plan with ``filter_unapproved``. A
change that may lose data needs two approvals. The platform owner gives one by ``allowRisk`` in the Cluster. The topic
owner gives the other, the consent, by an annotation with the digest of the change. A consent counts once: when it has
been used, a digest of it is stored in the ownership record (``memory``), which is an input of every later digest. The
same change later has another digest, so an annotation that was not removed allows nothing. A deletion needs
``allowDeletion`` in the Cluster, and a resource that requests the deletion.

The API server does not validate annotations, so this module checks them. A mistyped pause or retention must not lead to
a write: an unknown value of ``paused`` pauses, and any annotation error of a Topic blocks the deletion of its topic.

``format_issue`` formats findings for statuses and Events: their hints name fields and annotations, not flags.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from topiarist.errors import Reason
from topiarist.filters.chain import filter_changes
from topiarist.kubernetes.api.resources import APPLIED_TO, Resource
from topiarist.model.plan import Change, DeleteTopic, Issue, Plan, TopicPlan, UpdateConfig
from topiarist.model.run_options import Risk
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import OwnershipRecord
from topiarist.output.change_details import (
    describe_differences,
    describe_old_and_new,
    describe_risk_reasons,
    list_field_changes,
)
from topiarist.schema import load
from topiarist.schema.check import did_you_mean
from topiarist.text import quote

ALLOW_RISK, RECREATE, TAKE_OWNERSHIP = "allow-risk", "recreate", "take-ownership"
"""Names of the consent annotations, without the prefix ``topiarist.dev/``."""

CONSENT_ANNOTATIONS = (ALLOW_RISK, RECREATE, TAKE_OWNERSHIP)

_CONSENT_KEYS = frozenset(f"{load.API_GROUP}/{annotation}" for annotation in CONSENT_ANNOTATIONS)

_DIGEST = re.compile(r"sha256:[0-9a-f]{16}")
_GROUP_COUNT = re.compile(r"1 group|(0|[1-9][0-9,]{0,6}) groups")

PAUSED = "paused"
"""The annotation that pauses changes for a Topic, or for all Topics of a Cluster."""

RETAIN = "retain"
"""The annotation that allows the deletion of a Topic without the deletion of its topic."""

CLUSTER_ID = "cluster-id"
"""The annotation with the id of the Kafka cluster that a Cluster was first used with; the operator writes it."""

RECORDS_TOPIC_ID = "records-topic-id"
"""The annotation with the id of the topic of records in that Kafka cluster; the operator writes it."""

ALLOW_IN_USE = "allow-in-use"
"""The annotation that allows the deletion of a topic in use, for as many groups as it says: ``2 groups``."""

BOOLEAN_ANNOTATIONS = (PAUSED, RETAIN)
"""Annotations with the value ``"true"`` or ``"false"``."""

ANNOTATIONS_BY_KIND: Mapping[str, tuple[str, ...]] = {
    "Topic": (*BOOLEAN_ANNOTATIONS, *CONSENT_ANNOTATIONS, ALLOW_IN_USE, APPLIED_TO),
    "Cluster": (PAUSED, CLUSTER_ID, RECORDS_TOPIC_ID),
    "Policy": (),
}
"""The annotations that are known on each kind."""

MAX_ERRORS = 10

_RENDER_ANNOTATIONS = ("from-broker-config", "from-defaults", "from-profiles")
"""Annotations that ``topiarist render`` writes for information; the operator ignores them."""

_PRODUCT_NAME = "topiarist"


def is_own_annotation(key: str) -> bool:
    """Return whether an annotation is one of topiarist's, or may be meant to be."""
    return _PRODUCT_NAME in key


def is_paused(resource: Resource) -> bool:
    """Return whether a resource is paused; any value except ``false`` pauses."""
    return resource.source.annotations.get(f"{load.API_GROUP}/{PAUSED}", "false") != "false"


def annotation_errors(resource: Resource) -> list[str]:
    """Return the errors in a resource's annotations, one text each, at most ``MAX_ERRORS``."""
    annotations = resource.source.annotations
    # Fast path: this runs for every resource in every reconciliation, and most have no annotation of topiarist.
    if not any(map(is_own_annotation, annotations)):
        return []
    return [*_find_errors(resource)][:MAX_ERRORS]


def _find_errors(resource: Resource) -> Iterator[str]:
    known = ANNOTATIONS_BY_KIND[resource.kind]
    for key, value in sorted(resource.source.annotations.items()):
        domain, _, name = key.rpartition("/")
        if domain != load.API_GROUP:
            if _PRODUCT_NAME in domain and name in known:
                yield f"{key} is not known: did you mean {load.API_GROUP}/{name}?"
        elif name in _RENDER_ANNOTATIONS:
            continue
        elif name not in known:
            hint = did_you_mean(name, known)
            yield ": ".join(filter(None, (f"{key} is not known on a {resource.kind}", hint)))
        elif name in BOOLEAN_ANNOTATIONS and value not in ("true", "false"):
            taken = ": it counts as a pause" if name == PAUSED else ""
            yield f'{key}: found {quote(value)}, wanted "true" or "false"{taken}'
        elif name == ALLOW_IN_USE and not _GROUP_COUNT.fullmatch(value):
            yield f'{key}: found {quote(value)}, wanted the number of groups that a refusal names, such as "2 groups"'
        elif name in CONSENT_ANNOTATIONS and not _is_well_formed(value):
            yield f"{key}: found {quote(value)}, which consents to nothing: wanted the digest that a refusal gives"


HINT_RETAIN = 'annotate the Topic with topiarist.dev/retain: "true" to let it go without deleting its topic'

HINT_ALLOW_RISK = "allowRisk: [DataLoss] in the Cluster"


def is_approved(cluster: ClusterSpec, resource: Resource, annotation: str, digest: str) -> bool:
    """Return whether Cluster and Topic both approve the change with this digest."""
    return Risk.DATA_LOSS.label in cluster.allow_risk and _is_granted(resource, annotation, digest)


def approval_hint(cluster: ClusterSpec, resource: Resource, annotation: str, digest: str) -> str:
    """Return the hint to allow the change with this digest: the approvals that are missing."""
    missing = [] if Risk.DATA_LOSS.label in cluster.allow_risk else [HINT_ALLOW_RISK]
    if not _is_granted(resource, annotation, digest):
        missing.append(_consent_command(resource, annotation, digest))
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
        topic.topic: _risk_digest(resources[topic.topic], cluster.name, topic, changes)
        for topic in plan.topics
        if (changes := _risky_changes(topic))
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
            if is_approved(cluster, resource, ALLOW_RISK, digest):
                return None
            message = f"may lose data: {describe_risk_reasons(change, risk)}"
            return Issue(Reason.DATA_LOSS, message, hint=approval_hint(cluster, resource, ALLOW_RISK, digest))
        if risk <= allowed:
            return None
        instead = "to allow this, set allowRisk: [Disruptive] in the Cluster"
        return Issue(Reason.DISRUPTIVE, f"may disturb clients: {describe_risk_reasons(change, risk)}", hint=instead)

    return filter_changes(plan, judge)


def has_consented_changes(plan: TopicPlan) -> bool:
    """Return whether a filtered plan has a change that needed the consent of the Topic's owner."""
    before, after = plan.record_before, plan.record_after
    taken = before is not None and after is not None and before.owner != after.owner
    recreated = plan.before is None and before is not None and not before.deleted
    return taken or recreated or bool(_risky_changes(plan))


def _deletion_issue(
    topic: TopicPlan, cluster: ClusterSpec, resource: Resource, blocked_deletions: Mapping[str, str]
) -> Issue | None:
    reason = Reason.DELETION_HELD if resource.deleting else Reason.DATA_LOSS
    way_out = f"; or {HINT_RETAIN}" if resource.deleting else ""
    if not cluster.allow_deletion:
        message = f"Cluster {cluster.name} does not allow that topics are deleted"
        return Issue(reason, message, hint=f"allowDeletion: true in the Cluster allows it{way_out}")
    if why := blocked_deletions.get(topic.topic):
        return Issue(Reason.DELETION_HELD, why, hint=HINT_RETAIN if resource.deleting else "")
    if wrong := annotation_errors(resource):
        why = f"the topic is not deleted while an annotation of the Topic is not understood: {wrong[0]}"
        return Issue(Reason.DELETION_HELD, why, hint="correct or remove the annotation")
    return None


_HINTS = {
    Reason.BROKERS_MISSING: "wait until it is back; if it will not return, add it to excludeBrokers of the Cluster",
    Reason.BUDGET_EXCEEDED: "request less, or raise it in spec.budgets of the Cluster; deletions count for 24 hours",
    Reason.TOPIC_IN_USE: f"ask its users to stop first; or annotate the Topic with {load.API_GROUP}/{ALLOW_IN_USE} and "
    "exactly this number of groups",
    Reason.NOT_ADOPTED: "to adopt it, add a pattern to spec.adopt of the Cluster",
    Reason.UNKNOWN_BROKERS: "name brokers that the cluster has",
}
"""Hints that replace those of the command line, which name flags; other hints are the same in both."""


def format_issue(issue: Issue) -> str:
    """Return the text of a finding for statuses and Events: message, withheld fields, hint."""
    instead = _HINTS.get(issue.reason, issue.hint)
    return ": ".join(filter(None, (describe_issue(issue), instead)))


def describe_issue(issue: Issue) -> str:
    """Return the text of a finding about one topic, without its hint.

    The hint depends on the approvals given so far, so texts with hints cannot be compared. Numbers of other topics and
    measured values are left out: each change of them would write the status anew.
    """
    return f"{issue.own_message or issue.message}{_format_withheld(issue)}"


def _format_withheld(issue: Issue) -> str:
    if issue.reason is Reason.DRIFT_DETECTED:
        words = describe_differences(issue.withheld)
        return f": {words}" if words else ""
    words = describe_old_and_new(issue.withheld)
    return f" [{words}]" if words else ""


def _is_well_formed(value: str) -> bool:
    return all(_DIGEST.fullmatch(part) for part in _split_digests(value))


def _risky_changes(plan: TopicPlan) -> Sequence[Change]:
    """Return the changes of a plan that need the owner's consent; deletions are not included."""
    return [
        change
        for change in plan.changes
        if change.assessment.risk is Risk.DATA_LOSS and not isinstance(change, DeleteTopic)
    ]


def _risk_digest(resource: Resource, cluster: str, plan: TopicPlan, changes: Iterable[Change]) -> str:
    """Return the digest of changes that may lose data.

    It covers the topic, the fields, the old and new values, and the reasons.
    """
    identity = plan.before.identity if plan.before else None
    what = [[_change_fields(change), describe_risk_reasons(change, Risk.DATA_LOSS)] for change in changes]
    return _topic_digest(resource, cluster, plan.record_before, [ALLOW_RISK, identity, what])


def recreation_digest(resource: Resource, cluster: str, record: OwnershipRecord | None) -> str:
    """Return the digest of the recreation of a topic that another client deleted."""
    return _topic_digest(resource, cluster, record, [RECREATE, record and [record.owner, record.config_keys]])


def ownership_digest(resource: Resource, cluster: str, record: OwnershipRecord | None) -> str:
    """Return the digest of taking ownership from the owner in ``record``."""
    return _topic_digest(resource, cluster, record, [TAKE_OWNERSHIP, record and record.owner])


def _is_granted(resource: Resource, annotation: str, digest: str) -> bool:
    return digest in _split_digests(resource.annotation(annotation))


def has_consents(resource: Resource) -> bool:
    """Return whether a Topic has an annotation that consents to a change."""
    # Fast: this runs for every topic in every reconciliation.
    return not _CONSENT_KEYS.isdisjoint(resource.source.annotations)


def current_consents_digest(resource: Resource) -> str:
    """Return one digest of all consent annotations of a Topic; empty if it has none."""
    found = [resource.annotation(annotation) for annotation in CONSENT_ANNOTATIONS]
    return _short_hash(json.dumps(found)) if any(found) else ""


def _consent_command(resource: Resource, annotation: str, digest: str) -> str:
    return (
        f"kubectl annotate --overwrite --namespace={resource.namespace} topics.{load.API_GROUP} {resource.name} "
        f"{load.API_GROUP}/{annotation}={digest}"
    )


def _change_fields(change: Change) -> list[Any]:
    if isinstance(change, UpdateConfig):
        return [[item.key, item.before, item.after] for item in change.items]
    return [type(change).__name__, *list_field_changes([change])]


def _topic_digest(resource: Resource, cluster: str, record: OwnershipRecord | None, what: Sequence[Any]) -> str:
    """Return the digest of ``what`` for one Topic on one cluster.

    The digest changes when a consent is used there, which the ownership record has.
    """
    before = record.memory.consent if record else ""
    return _short_hash(json.dumps([resource.uid, cluster, resource.topic_name, before, *what]))


def _short_hash(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _split_digests(value: str) -> list[str]:
    return [part.strip() for part in value.split(",")]
