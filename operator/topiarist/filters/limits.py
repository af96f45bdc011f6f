"""Filters for what a cluster shows: limits of groups of topics, and external changes.

A group that would be above its limit after the run gets nothing more: every creation, growth and larger
``retention.bytes`` of its topics is withheld. Changes that use less, or as much as before, are made, so that a group
that is above a new limit can shrink. ``runs.inputs`` and the operator call this module after the approvals and before
the budgets. The command line calls it once more at the end, to show what is used of each limit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from topiarist.desired.resolve import Desired
from topiarist.errors import Diagnostic, Location, Reason
from topiarist.kafka.config_rules import server_default
from topiarist.kafka.config_values import parse_integer
from topiarist.kafka.types import LONG_MAX
from topiarist.model.plan import (
    AddPartitions,
    Change,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    Issue,
    Plan,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
    matches_recorded_value,
    record_after,
    withhold,
)
from topiarist.model.policy import Policy
from topiarist.model.spec import ClusterSpec, Limit, LimitedResource, LimitScope, LimitUsage, TopicSize, TopicSpec
from topiarist.model.state import OwnershipRecord, TopicState
from topiarist.text import format_count, humanize_bytes

_RETENTION_BYTES = "retention.bytes"
_UNBOUNDED = float("inf")
_HINT = "use less for other topics of the group, or raise the limit"

Sizes = Mapping[str, TopicSize]
"""The sizes of topics by name; topics that do not exist are left out."""


class LimitFilter:
    """The limits of the policies and of the budgets of a run, with the topics that each counts.

    ``desired`` has all topics with manifests, also those that a run does not select.
    """

    def __init__(self, policies: Sequence[Policy] = (), desired: Desired | None = None) -> None:
        self._policies = [policy for policy in policies if policy.limits]
        self._desired = desired

    def enforce(self, plan: Plan) -> Plan:
        """Return ``plan`` without the changes that use more in groups that would be above a limit."""
        if not (limits := self._select_limits(plan)):
            return plan
        before, after = plan.sizes, _sizes_after(plan)
        issues: defaultdict[str, list[tuple[LimitedResource, Issue]]] = defaultdict(list)
        for limit, specs in limits:
            for group, names in _group_topics(limit, specs, plan).items():
                for usage in _measure(limit, group, names, before, after, plan):
                    if _is_exceeded(usage):
                        issue = _build_issue(limit, usage)
                        for name in names:
                            issues[name].append((usage.resource, issue))
        topics = tuple(_apply_issues(topic, issues[topic.topic], plan) for topic in plan.topics)
        return replace(plan, topics=topics)

    def show_usage(self, plan: Plan) -> Plan:
        """Return ``plan`` with what is used of each limit by the groups with planned topics."""
        found: list[LimitUsage] = []
        before, after = plan.sizes, _sizes_after(plan)
        planned = {topic.topic for topic in plan.topics if topic.changes or topic.refusals}
        for limit, specs in self._select_limits(plan):
            for group, names in _group_topics(limit, specs, plan).items():
                if not planned.isdisjoint(names):
                    found += _measure(limit, group, names, before, after, plan)
        return replace(plan, limits=tuple(found)) if found else plan

    def find_declared_excess(self) -> Iterator[Diagnostic]:
        """Yield what the manifests alone ask for above a limit, without a look at a cluster."""
        clusters = self._desired.clusters if self._desired else {}
        for name, cluster in clusters.items():
            default = server_default(_RETENTION_BYTES, cluster.config_rules.broker_config)
            plan = Plan(name, "", default_retention_bytes=default)
            for limit, specs in self._select_limits(plan):
                wanted = {
                    spec.topic: TopicSize(spec.create_partitions, spec.config.get(_RETENTION_BYTES))
                    for spec in specs
                    if not spec.absent
                }
                for group, names in _group_topics(limit, specs, plan).items():
                    for usage in _measure(limit, group, names, {}, wanted, plan):
                        if _is_exceeded(usage):
                            where = f" on cluster {name}" if name else ""
                            reason = Reason.LIMIT_EXCEEDED if limit.deny else Reason.POLICY_WARNING
                            message = f"{_describe_excess(usage)}{where} ({limit.title})"
                            place = limit.locate() or Location("the budgets of the cluster")
                            yield Diagnostic(place, message, _HINT, reason.value)

    def _select_limits(self, plan: Plan) -> list[tuple[Limit, Sequence[TopicSpec]]]:
        """Return the limits of a cluster with the topics that each is for."""
        if self._desired is None or plan.cluster not in self._desired.clusters:
            return []
        cluster: ClusterSpec = self._desired.clusters[plan.cluster]
        policies = [policy for policy in self._policies if policy.applies_to_cluster(cluster)]
        if not policies and not cluster.budgets.limits:
            return []
        specs = [*self._desired.specs[plan.cluster]]
        found: list[tuple[Limit, Sequence[TopicSpec]]] = [(limit, specs) for limit in cluster.budgets.limits]
        for policy in policies:
            chosen = [*filter(policy.applies_to_topic, specs)]
            found += [(limit, chosen) for limit in policy.limits]
        return found


def _group_topics(limit: Limit, specs: Iterable[TopicSpec], plan: Plan) -> dict[str, list[str]]:
    """Return the names of the topics of each group, in order of name of the group.

    Topics without the label are a group of their own, so that no topic is outside a limit. The group of an owner has
    the topics of its run, and those on the cluster that no manifest names any more.
    """
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for spec in specs:
        match limit.scope:
            case LimitScope.LABEL:
                value = spec.labels.get(limit.label)
                group = f"{limit.label}={value}" if value is not None else f"without label {limit.label}"
            case LimitScope.NAMESPACE:
                namespace = spec.manifest.namespace
                group = f"namespace {namespace}" if namespace else "without namespace"
            case LimitScope.OWNER:
                group = f"owner {plan.owner}"
        groups[group].append(spec.topic)
    others = plan.sizes if limit.scope is LimitScope.OWNER and limit.counts_all else ()
    return {group: [*dict.fromkeys((*names, *others))] for group, names in sorted(groups.items())}


def _sizes_after(plan: Plan) -> Sizes:
    sizes = dict(plan.sizes)
    for topic in plan.actionable_topics():
        for change in topic.changes:
            _apply_change(sizes, topic.topic, change)
    return sizes


def _apply_change(sizes: dict[str, TopicSize], name: str, change: Change) -> None:
    size = sizes.get(name, TopicSize(0))
    match change:
        case CreateTopic(replicas, config):
            sizes[name] = TopicSize(len(replicas), config.get(_RETENTION_BYTES))
        case AddPartitions():
            sizes[name] = size._replace(partitions=change.total)
        case UpdateConfig(items):
            for item in items:
                if item.key == _RETENTION_BYTES:
                    sizes[name] = size._replace(retention_bytes=item.after)
        case DeleteTopic():
            sizes.pop(name, None)


def _measure(
    limit: Limit, group: str, names: Iterable[str], before: Sizes, after: Sizes, plan: Plan
) -> Iterator[LimitUsage]:
    default = plan.default_retention_bytes
    listed = [*names]
    for resource, allowed in limit.allowed.items():
        totals = [sum(_use(resource, sizes.get(name), default) for name in listed) for sizes in (before, after)]
        bounded = [None if total == _UNBOUNDED else int(total) for total in totals]
        yield LimitUsage(limit.title, group, resource, bounded[0], bounded[1], allowed)


def _use(resource: LimitedResource, size: TopicSize | None, default: str | None) -> float:
    if size is None:
        return 0
    match resource:
        case LimitedResource.TOPICS:
            return 1
        case LimitedResource.PARTITIONS:
            return size.partitions
        case LimitedResource.RETAINED_BYTES:
            text = default if size.retention_bytes is None else size.retention_bytes
            try:
                retention = -1 if text is None else parse_integer(text.strip(), limit=LONG_MAX)
            except ValueError:
                retention = -1
            return size.partitions * retention if retention >= 0 else _UNBOUNDED


def _is_exceeded(usage: LimitUsage) -> bool:
    before, after = (_UNBOUNDED if total is None else total for total in (usage.before, usage.after))
    # A group without bound before stays above its limit whatever is added: it gets nothing more either.
    return after > usage.allowed and (after > before or after == _UNBOUNDED)


def _describe_excess(usage: LimitUsage) -> str:
    wanted, allowed = _format_total(usage.resource, usage.after), _format_total(usage.resource, usage.allowed)
    return f"{usage.group}: {wanted}, {allowed} allowed"


def _format_total(resource: LimitedResource, total: int | None) -> str:
    match resource:
        case LimitedResource.TOPICS:
            return format_count(total or 0, "topic")
        case LimitedResource.PARTITIONS:
            return format_count(total or 0, "partition")
        case LimitedResource.RETAINED_BYTES:
            return "retained bytes without bound" if total is None else f"{humanize_bytes(total)} retained"


def _build_issue(limit: Limit, usage: LimitUsage) -> Issue:
    own = f"{usage.group}: more than {_format_total(usage.resource, usage.allowed)} ({limit.title})"
    return Issue(
        Reason.LIMIT_EXCEEDED if limit.deny else Reason.POLICY_WARNING,
        f"{_describe_excess(usage)} ({limit.title})",
        hint=_HINT,
        own_message=own,
    )


def _apply_issues(topic: TopicPlan, issues: Sequence[tuple[LimitedResource, Issue]], plan: Plan) -> TopicPlan:
    for resource, issue in issues:
        larger = [change for change in topic.changes if _uses_more(topic, change, resource, plan)]
        if not larger or not topic.is_actionable:
            continue
        if issue.reason is Reason.LIMIT_EXCEEDED:
            topic = withhold(topic, larger, issue)
        else:
            topic = replace(topic, notices=(*topic.notices, issue._replace(hint="")))
    return topic


def _uses_more(topic: TopicPlan, change: Change, resource: LimitedResource, plan: Plan) -> bool:
    default = plan.default_retention_bytes
    sizes = {topic.topic: size} if (size := plan.sizes.get(topic.topic)) else {}
    before = _use(resource, sizes.get(topic.topic), default)
    _apply_change(sizes, topic.topic, change)
    after = _use(resource, sizes.get(topic.topic), default)
    if before == after == _UNBOUNDED:  # growth of a topic without a bound
        return isinstance(change, AddPartitions)
    return after > before


NO_LIMITS = LimitFilter()


# Filters for what the cluster shows: external changes that are only reported, deletions of topics in use.
#
# The ownership record has the spec values of the moment when the topic last matched its spec. If the spec still asks
# for such a value and the topic no longer has it, another client changed the topic: that is drift. The operator calls
# ``withhold_external_changes`` on each plan if its policy is to report drift only, and ``split_external_changes`` to
# report what it reverted. The ownership record is the only memory of applied values, because it outlives every
# resource, status and run.


def withhold_external_changes(plan: Plan) -> Plan:
    """Return ``plan`` without the changes that would undo external changes.

    Each topic gets one refusal for all of them. Only the record of the plan's own owner is used. A record of an earlier
    topic of the same name is used too, because a recreated topic is also drift. A record without applied values
    withholds every change to a config that another client has written since.
    """
    return replace(plan, topics=tuple(_withhold_in_topic(topic, plan.owner) for topic in plan.topics))


def split_external_changes(topic: TopicPlan, owner: str) -> tuple[Sequence[Change], Sequence[Change]]:
    """Return the changes that the manifest caused, and those that undo external changes.

    A change of both is split. Everything is of the manifest if the topic has no record of ``owner``.
    """
    actual, record = topic.before, topic.record_before
    if topic.observe_only or topic.spec is None or actual is None or record is None:
        return topic.changes, ()
    if record.owner != owner or record.deleted:
        return topic.changes, ()
    kept, drifted = list[Change](), list[Change]()
    for change in topic.changes:
        for part, is_external in _split_change(change, actual, record):
            (drifted if is_external else kept).append(part)
    return kept, drifted


def _withhold_in_topic(topic: TopicPlan, owner: str) -> TopicPlan:
    kept, drifted = split_external_changes(topic, owner)
    actual = topic.before
    if not drifted or topic.spec is None or actual is None:
        return topic
    issue = Issue(
        Reason.DRIFT_DETECTED,
        "another client changed it on the cluster after it matched its spec",
        hint="undo that change, change the spec, or set driftPolicy: Correct in the Cluster",
    )
    filtered = withhold(replace(topic, changes=(*kept, *drifted)), drifted, issue)
    valid_record = actual.valid_record
    if filtered.changes or valid_record is None or valid_record.applied is None:
        return filtered
    # All changes are withheld, but the record still notes the values that match the spec.
    after = record_after(owner, topic.spec, actual.config, len(actual.replicas), valid_record)
    return filtered if after == valid_record else replace(filtered, changes=(TakeOwnership(),), record_after=after)


def _split_change(change: Change, actual: TopicState, record: OwnershipRecord) -> Iterator[tuple[Change, bool]]:
    # The second value is true if the part undoes an external change.
    if isinstance(change, AddPartitions):
        applied = record.applied
        undoes_external = not actual.record_valid if applied is None else change.total <= (applied.partitions or 0)
        yield change, undoes_external
    elif isinstance(change, UpdateConfig):
        external = {item: _is_external(item, actual, record) for item in change.items}
        for is_external in (False, True):
            if items := tuple(item for item in change.items if external[item] is is_external):
                yield UpdateConfig(items), is_external
    else:
        yield change, False


def _is_external(item: ConfigItem, actual: TopicState, record: OwnershipRecord) -> bool:
    """Return whether another client, not the spec, caused the difference of a key."""
    if record.applied is None:
        return actual.modified_externally or not actual.record_valid
    if item.after is None:
        return item.key not in record.config_keys and record.applied.remove_unmanaged
    if item.key not in record.config_keys:
        return False
    # If the spec asks for another value than the recorded one, the spec has changed since.
    value = dict(record.applied.config).get(item.key)
    return value is None or matches_recorded_value(item.key, value, item.after)
