"""Approval of a plan's changes, the operator's memory of them, and the last check before a write.

Fields of the Cluster and annotations of the Topic approve changes. The operator has no terminal to ask for
confirmation, so ``reconciler`` filters each plan with ``filter_unapproved``. A change that may lose data needs two
approvals. The platform owner gives one by ``allowRisk`` in the Cluster. The topic owner gives the other, the consent,
by an annotation with the digest of the change. A consent counts once: when it has been used, a digest of it is stored
in the ownership record (``write_memory``), which is an input of every later digest. The same change later has another
digest, so an annotation that was not removed allows nothing. A deletion needs ``allowDeletion`` in the Cluster, and a
resource that requests the deletion.

The API server does not validate annotations, so this module checks them. A mistyped pause or retention must not lead to
a write: an unknown value of ``paused`` pauses, and any annotation error of a Topic blocks the deletion of its topic.

``format_issue`` formats findings for statuses and Events: their hints name fields and annotations, not flags.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

from msgspec.structs import replace

from topiarist.errors import Reason, TopiaristError
from topiarist.filters.chain import filter_changes
from topiarist.kubernetes import client
from topiarist.kubernetes.client import format_milliseconds, format_time, from_milliseconds
from topiarist.kubernetes.resources import (
    APPLIED_TO,
    DELETION_POLICY,
    FINALIZER,
    KAFKA_TOPIC,
    Resource,
    definition_name,
)
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import (
    Change,
    CreateTopic,
    DeleteTopic,
    Issue,
    Plan,
    Risk,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
    withhold,
)
from topiarist.model.spec import ClusterSpec, RetentionStep, TopicSpec
from topiarist.model.state import NO_MEMORY, ClusterState, OwnershipRecord
from topiarist.output.groups import (
    describe_differences,
    describe_old_and_new,
    describe_risk_reasons,
    list_field_changes,
)
from topiarist.planning.diff import find_retention_cuts
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
    KAFKA_TOPIC: (*BOOLEAN_ANNOTATIONS, *CONSENT_ANNOTATIONS, ALLOW_IN_USE, DELETION_POLICY),
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


def is_unmanaged(resource: Resource) -> bool:
    """Return whether a KafkaTopic says that no operator is to change its topic."""
    return resource.kind == KAFKA_TOPIC and resource.source.annotations.get("strimzi.io/managed", "").lower() == "false"


def is_paused_as_in_strimzi(resource: Resource) -> bool:
    """Return whether a KafkaTopic is paused by Strimzi's annotation."""
    mark = resource.source.annotations.get("strimzi.io/pause-reconciliation", "")
    return resource.kind == KAFKA_TOPIC and mark.lower() == "true"


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
        elif name == DELETION_POLICY and value not in ("Delete", "Retain"):
            yield f"{key}: found {quote(value)}, wanted Delete or Retain"
        elif name == ALLOW_IN_USE and not _GROUP_COUNT.fullmatch(value):
            yield f'{key}: found {quote(value)}, wanted the number of groups that a refusal names, such as "2 groups"'
        elif name in CONSENT_ANNOTATIONS and not all(map(_DIGEST.fullmatch, _split_digests(value))):
            yield f"{key}: found {quote(value)}, which allows nothing: wanted the digest in the refusal"


HINT_RETAIN = 'annotate the Topic with topiarist.dev/retain: "true" to delete the resource without its topic'

MESSAGE_NO_MEMORY = (
    "the operator keeps used consents and the deletions of a day in the records, and this cluster has none"
    " (spec.kafka.records: None)"
)
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
        is_loss = isinstance(change, DeleteTopic) or change.assessment.risk is Risk.DATA_LOSS
        if is_loss and not cluster.keeps_records:
            reason = Reason.DELETION_HELD if resource.deleting else Reason.DATA_LOSS
            hint = f"make this change on the command line{f'; or {HINT_RETAIN}' if resource.deleting else ''}"
            return Issue(reason, MESSAGE_NO_MEMORY, hint=hint)
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


def consent_digest(annotation: str, resource: Resource, cluster: str, record: OwnershipRecord | None) -> str:
    """Return the digest of the recreation of a topic that another client deleted, or of taking it from its owner."""
    what = record and ([record.owner, record.config_keys] if annotation == RECREATE else record.owner)
    return _topic_digest(resource, cluster, record, [annotation, what])


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
        f"kubectl annotate --overwrite --namespace={resource.namespace} "
        f"{definition_name(resource.kind)} {resource.name} "
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


# The operator's waits between two steps of a cut of retention.
#
# ``planning.diff`` plans one step a run. ``reconciler`` calls ``withhold_early_steps`` for each plan
# and ``write_memory`` keeps the time of the last step in the ownership record, so that neither a restart nor a lost
# status shortens a wait. A jump of the clock may shorten or lengthen one wait.

STEP_TIME = "retentionStepAt"
"""The field of a topic's status with the time of its last step."""

_WAITING_REASONS = frozenset({Reason.RETENTION_STEP, Reason.RETENTION_WAITS})


def withhold_early_steps(plan: Plan, rule: RetentionStep | None, now: datetime) -> Plan:
    """Return ``plan`` without cuts of retention that follow a step too soon."""
    if rule is None:
        return plan
    return replace(plan, topics=tuple(_withhold_early(topic, rule, now) for topic in plan.topics))


def _withhold_early(topic: TopicPlan, rule: RetentionStep, now: datetime) -> TopicPlan:
    cuts, record = find_retention_cuts(topic), topic.record_before
    if not cuts or record is None or record.memory.step_ms is None or topic.observe_only:
        return topic
    ready = from_milliseconds(record.memory.step_ms + rule.interval_ms)
    if now >= ready:
        return topic
    (update,) = (change for change in topic.changes if isinstance(change, UpdateConfig))
    kept, early = (tuple(item for item in update.items if (item in cuts) is is_cut) for is_cut in (False, True))
    parts = [UpdateConfig(items) for items in (kept, early) if items]
    changes = tuple(part for change in topic.changes for part in (parts if change is update else (change,)))
    keys = ", ".join(item.key for item in early)
    issue = Issue(Reason.RETENTION_WAITS, f"{keys}: the next step follows after {format_time(ready)}", ("config",))
    return withhold(replace(topic, changes=changes), (parts[-1],), issue)


def has_steps_left(topic: TopicPlan) -> bool:
    """Return whether a cut of retention has a step after those of the plan."""
    return any(each.reason in _WAITING_REASONS for each in (*topic.notices, *topic.refusals))


def find_next_step(topic: TopicPlan | None) -> Issue | None:
    """Return why a topic is not at its spec although all of its plan was made: the first step that is left."""
    notice = next((each for each in topic.notices if each.reason is Reason.RETENTION_STEP), None) if topic else None
    return notice._replace(reason=Reason.RETENTION_WAITS) if notice else None


def step_time(topic: TopicPlan | None, record: OwnershipRecord | None) -> str:
    """Return the time of the last step for the status of a topic; empty if no step is left.

    ``record`` is the record after the plan.
    """
    if topic is None or not has_steps_left(topic) or record is None or record.memory.step_ms is None:
        return ""
    return format_milliseconds(record.memory.step_ms)


# The operator's memory of a topic, in its ownership record: used consents, the last retention step, deletions.
#
# ``reconciler`` calls ``write_memory`` for each plan. The record is written in the transaction of the change, so no
# failure separates the two. A status is a view: it may be lost or refused, so it decides nothing.
#
# ``recent_deletions`` counts the deletions of the last day, which share one budget. A deletion counts even if the
# operator is killed right after it, the Cluster is recreated, or the operator recreates the topic.


class Deletion(NamedTuple):
    """The deletion of a topic: an RFC 3339 time and the topic's name, which sort in order of time."""

    time: str
    topic: str

    @property
    def status_entry(self) -> Mapping[str, str]:
        """Return the entry of the deletion in the Cluster's status."""
        return {"topic": self.topic, "time": self.time}


def recent_deletions(state: ClusterState, owner: str, now: datetime) -> Sequence[Deletion]:
    """Return the deletions by ``owner`` less than a day before ``now``, oldest first."""
    return sorted(
        Deletion(client.format_milliseconds(time), topic)
        for topic, record in chain(state.dangling_records.items(), _topic_records(state))
        for time in _deletion_times(state, topic, record, owner, now)
    )


def _topic_records(state: ClusterState) -> Iterator[tuple[str, OwnershipRecord]]:
    """Yield the records beside topics, also those of an earlier topic of the name."""
    return ((name, topic.record) for name, topic in state.topics.items() if topic.record is not None)


def _deletion_times(
    state: ClusterState, topic: str, record: OwnershipRecord, owner: str, now: datetime
) -> tuple[int, ...]:
    """Return the times of a topic's deletions by ``owner`` that still count, in ms since the epoch.

    A deletion record without them is of an earlier release: the time counts at which it was written, if it is known.
    """
    if record.owner != owner:
        return ()
    times = record.memory.deletions_ms
    if not times and topic in state.deletion_records:
        times = (state.deletion_records[topic].written_at_ms,)
    since = (now - client.DAY).timestamp() * 1000
    return tuple(time for time in times if time > since)


def write_memory(
    plan: Plan, state: ClusterState, resources: Mapping[str, Resource], specs: Mapping[str, TopicSpec], now: datetime
) -> Plan:
    """Return ``plan`` with the operator's memory in each record that it writes.

    A consent that nothing is left for is used up too: its topic gets a change of the record alone. ``resources`` and
    ``specs`` have the Topics and their specs by topic.
    """
    topics = {topic.topic: _with_memory(topic, state, resources[topic.topic], now) for topic in plan.topics}
    if not plan.write_block.reason:
        for name, resource in resources.items():
            if has_consents(resource) and not (specs[name].observe_only or specs[name].absent):
                topic = topics.get(name) or TopicPlan(name, state.topics.get(name), spec=specs[name])
                topics[name] = _use_up_consents(topic, resource, plan.owner)
    return replace(plan, topics=tuple(topic for topic in topics.values() if not topic.is_empty))


def _with_memory(topic: TopicPlan, state: ClusterState, resource: Resource, now: datetime) -> TopicPlan:
    before, after = topic.record_before, topic.record_after
    if not topic.changes or after is None:
        return topic
    memory, now_ms = before.memory if before else NO_MEMORY, int(now.timestamp() * 1000)
    known = topic.before.record if topic.before else before
    times = _deletion_times(state, topic.topic, known, after.owner, now) if known else ()
    deleted = any(isinstance(change, DeleteTopic) for change in topic.changes)
    memory = memory._replace(deletions_ms=(*times, now_ms) if deleted else times)
    if has_consented_changes(topic):
        memory = memory._replace(consent=current_consents_digest(resource))
    if not has_steps_left(topic):
        memory = memory._replace(step_ms=None)
    elif find_retention_cuts(topic):
        memory = memory._replace(step_ms=now_ms)
    return topic if memory == after.memory else replace(topic, record_after=replace(after, memory=memory))


def _use_up_consents(topic: TopicPlan, resource: Resource, owner: str) -> TopicPlan:
    """Return the plan of a topic that is as asked with its consents in the record; any other plan is returned as is."""
    record = topic.before.valid_record if topic.before else None
    if topic.changes or topic.refusals:
        return topic
    digest = current_consents_digest(resource)
    if record is None or record.owner != owner or record.deleted or record.memory.consent == digest:
        return topic
    after = replace(record, memory=record.memory._replace(consent=digest))
    return replace(topic, record_before=record, record_after=after, changes=(TakeOwnership(),))


# The check that a Topic is current, directly before a change that cannot be undone.
#
# A reconciliation plans from the cache of ``cache``. The watch that fills the cache can lag, for example while the API
# server cannot send events, or after a restart. A Topic that was recreated since, or that requests no deletion any
# more, must not lose its data because of an old view. ``reconciler`` therefore reads the Topic again before each change
# that deletes a topic, may lose data, or recreates a topic that the operator deleted. A later reconciliation corrects
# all other changes, so they need no request.

ReadTopic = Callable[[Resource], Resource | None]
"""Reads the present Topic of this namespace and name; None if there is none. Raises ``TopiaristError``."""

_COMPARED_FIELDS = ("uid", "generation", "labels", "source", "deleting", "declared_spec")
"""The fields from which a plan is made; a status is not among them."""


def check_current_topic(plan: TopicPlan, resource: Resource, read_topic: ReadTopic) -> Outcome | None:
    """Return the outcome of a plan that was made from an old view of ``resource``; None if it may be written."""
    if not _needs_current_topic(plan):
        return None
    try:
        current = read_topic(resource)
    except TopiaristError as error:
        message = f"whether the Topic has changed is unknown: {error.message}"
        return Outcome(plan.topic, Result.CONFLICT, Reason.STATE_CONFLICT, message)
    if current is not None and _is_same(current, resource):
        return None
    message = "the Topic was changed or deleted since it was read: nothing is written before the operator has read it"
    return Outcome(plan.topic, Result.CONFLICT, Reason.STATE_CONFLICT, message)


def _needs_current_topic(plan: TopicPlan) -> bool:
    recreates = plan.record_before is not None and plan.record_before.deleted
    return any(
        isinstance(change, DeleteTopic)
        or change.assessment.risk is Risk.DATA_LOSS
        or (isinstance(change, CreateTopic) and recreates)
        for change in plan.changes
    )


def _is_same(current: Resource, resource: Resource) -> bool:
    held = FINALIZER in current.finalizers, FINALIZER in resource.finalizers
    return held[0] == held[1] and all(getattr(current, field) == getattr(resource, field) for field in _COMPARED_FIELDS)
