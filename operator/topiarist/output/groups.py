"""The parts of a plan that are shown once for many topics (groups, limits, counts, losses), and changes by key.

A cluster default that changes 812 topics is one decision to review, not 812; the same holds for a missing broker.
Topics are grouped only if they differ in nothing but their names.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import NamedTuple

from msgspec import Struct, field

from topiarist.errors import Reason
from topiarist.model.plan import (
    Change,
    ConfigItem,
    CreateTopic,
    Issue,
    Load,
    Plan,
    Risk,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
    compute_broker_load_after,
)
from topiarist.model.spec import LimitedResource, LimitUsage
from topiarist.output.view import (
    CHANGE_KINDS,
    CLUSTER_WIDE_REASONS,
    ChangeView,
    describe_ownership_action,
    is_record_only,
    view_changes,
)
from topiarist.text import format_count, humanize_bytes, list_first, printable

# Changes by key, with old and new values: limited in length and without secrets.
#
# The operator uses them for statuses, Events and its log. ``text.plan`` lays out whole plans for a terminal.
# Here each key is one entry, because programs read a status too and an Event holds only 1,024 bytes.

MAX_VALUE_LENGTH = 120
"""Maximum characters of a value."""

MAX_LISTED_FIELDS = 8
"""Maximum entries of a text; the status of a cluster has more."""

NOT_SET = "not set"
"""Text for the value of a config key without an override."""

# No topic config of Kafka is a secret, but a vendor's may be, and statuses and Events have many readers.
_SECRET = re.compile(r"password|passwd|secret|credential|token|private.?key", re.IGNORECASE)


class FieldChange(NamedTuple):
    """A changed topic field: its path below ``spec``, its value on the cluster, and the new value."""

    field: str
    before: str
    after: str

    @property
    def display_name(self) -> str:
        """Return the field without its ``config.`` prefix: a config key is clear by itself."""
        return self.field.removeprefix("config.")


def list_field_changes(changes: Iterable[Change]) -> Iterator[FieldChange]:
    """Yield the fields that ``changes`` set.

    A change of the ownership record alone sets no field.
    """
    return chain.from_iterable(map(_list_fields, view_changes(changes)))


def _list_fields(change: ChangeView) -> Iterator[FieldChange]:
    if change.partitions:
        yield FieldChange("partitions", *map(str, change.partitions))
    elif change.table:
        name = "leader" if change.table.has_leaders else "replicas"
        for partition, *brokers in change.table.list_rows():
            before, after = (",".join(map(str, each)) for each in brokers)
            yield FieldChange(f"{name}.{partition}", before, after)
    for item in change.overrides:
        before, after = (_display_value(item.key, text) for text in (item.before, item.after))
        yield FieldChange(f"config.{item.key}", before, after)


def describe_changes(changes: Iterable[Change]) -> str:
    """Return the changes in one line: ``grow 3 -> 6 partitions, configure flush.ms 7 -> 8``."""
    return ", ".join(
        f"{change.summary} {_join_old_and_new(_list_fields(change))}" if change.overrides else change.summary
        for change in view_changes(changes)
    )


def describe_differences(changes: Iterable[Change]) -> str:
    """Return how the cluster differs from the spec: ``flush.ms is 9, wanted 7``."""
    fields = list_field_changes(changes)
    return _join_limited(f"{each.display_name} is {each.before}, wanted {each.after}" for each in fields)


def describe_old_and_new(changes: Iterable[Change]) -> str:
    """Return the fields with both values: ``partitions 3 -> 6, flush.ms 7 -> 8``."""
    return _join_old_and_new(list_field_changes(changes))


def describe_risk_reasons(change: Change, risk: Risk) -> str:
    """Return all reasons why a change has this risk.

    Each reason of a config change names its key.
    """
    (view,) = view_changes([change])
    return "; ".join(
        f"{subject}: {assessment.explanation}" if view.overrides else assessment.explanation
        for subject, assessment in view.risks
        if assessment.risk is risk
    )


def _join_old_and_new(fields: Iterable[FieldChange]) -> str:
    return _join_limited(f"{each.display_name} {each.before} -> {each.after}" for each in fields)


def _join_limited(entries: Iterable[str]) -> str:
    return list_first([*entries], MAX_LISTED_FIELDS, "other field")


def _display_value(key: str, text: str | None) -> str:
    if text is None:
        return NOT_SET
    if _SECRET.search(key):
        return "(hidden)"
    return printable(text, MAX_VALUE_LENGTH) or '""'


_MIN_TOPICS = 4
"""Minimum number of topics that form a group."""

LIMIT_LABELS = {Reason.BUDGET_EXCEEDED: "over budget", Reason.MOVES_LIMITED: "over --max-moves"}
"""Names of the limits that withhold changes, by the reason of the refusals."""

_LIMIT_NOUNS = {
    LimitedResource.TOPICS: "topics",
    LimitedResource.PARTITIONS: "partitions",
    LimitedResource.RETAINED_BYTES: "retained",
}

ACTIONABLE_LABELS = (*filter(None, (kind.label for kind in CHANGE_KINDS.values())), "to adopt", "record only")
"""Labels of the counts of topics that a run would change."""

NOT_IN_PATHS = "not in the given paths"
"""Label for topics that this owner has a record of, but that the run's manifests do not name.

Manifests in other paths may declare them.
"""

DATA_LOSS_ADVICE = " confirm it in apply, or pass to a run with --yes"
MAX_CONSENT_NAMES = 20
"""The number of topics up to which the option of a consent names each of them."""

_LABEL_ORDER = (*ACTIONABLE_LABELS, "refused", "observed", "unchanged", NOT_IN_PATHS)

ClusterDefault = tuple[str, str | None]
"""A config key and the value that the cluster's defaults give it."""


class GroupedItems(Struct, frozen=True):
    """Groups of what many topics of one plan share.

    ``defaults`` groups config items by key and value, ``ownership_actions`` topics by the text of
    ``describe_ownership_action``, ``refusals`` topics and issues by ``refusal_group_key``.
    """

    defaults: Mapping[ClusterDefault, Sequence[tuple[TopicPlan, ConfigItem]]] = field(default_factory=dict)
    ownership_actions: Mapping[str, Sequence[TopicPlan]] = field(default_factory=dict)
    refusals: Mapping[Hashable, Sequence[tuple[TopicPlan, Issue]]] = field(default_factory=dict)

    def has_own_block(self, plan: TopicPlan) -> bool:
        """Return whether a topic has its own block for a change or refusal; its notices are shown there too."""
        return self.has_ungrouped_changes(plan) or bool(self.list_ungrouped_refusals(plan))

    def list_ungrouped_refusals(self, plan: TopicPlan) -> Sequence[Issue]:
        """Return the refusals of a topic that no group shows."""
        if not self.refusals:
            return plan.refusals
        return [issue for issue in plan.refusals if refusal_group_key(issue) not in self.refusals]

    def has_ungrouped_changes(self, plan: TopicPlan) -> bool:
        """Return whether the changes need a block of their own.

        Grouped changes do not, nor does the ownership record of an observed topic, which stays unchanged.
        """
        if is_record_only(plan):
            return not plan.observe_only and describe_ownership_action(plan) not in self.ownership_actions
        if plan.observe_only or describe_ownership_action(plan):
            return bool(plan.changes)
        return any(
            not isinstance(change, UpdateConfig) or list_own_items(change.items, self.defaults)
            for change in plan.changes
        )

    def list_unlisted_notices(self, plan: Plan) -> Iterator[tuple[str, Issue]]:
        """Yield each notice that no block shows, with its topic; unmanaged keys are in no block."""
        for topic in plan.topics:
            if topic.notices:
                shown = self.has_own_block(topic)
                yield from (
                    (topic.topic, each) for each in topic.notices if each.reason is Reason.UNMANAGED or not shown
                )

    def defaults_of(self, plan: TopicPlan) -> Collection[ClusterDefault]:
        """Return the defaults that are shown once for many topics; none for an observed topic, which no group lists."""
        return () if plan.observe_only else self.defaults


def list_own_items(items: Iterable[ConfigItem], shared: Collection[ClusterDefault]) -> list[ConfigItem]:
    """Return the config items that are shown with their topic, without the shared defaults."""
    return [item for item in items if not (item.inherited and (item.key, item.after) in shared)]


def group_items(plan: Plan) -> GroupedItems:
    """Return the groups of a plan's topics, in display order."""
    defaults: dict[ClusterDefault, list[tuple[TopicPlan, ConfigItem]]] = defaultdict(list)
    records: dict[str, list[TopicPlan]] = defaultdict(list)
    refusals: dict[Hashable, list[tuple[TopicPlan, Issue]]] = defaultdict(list)
    for topic in plan.topics:
        if topic.is_actionable:
            for change in topic.changes:
                for item in change.items if isinstance(change, UpdateConfig) else ():
                    if item.inherited:
                        defaults[item.key, item.after].append((topic, item))
            if is_record_only(topic):
                records[describe_ownership_action(topic)].append(topic)
        for issue in topic.refusals:
            if key := refusal_group_key(issue):
                refusals[key].append((topic, issue))
    return GroupedItems(
        defaults={key: members for key, members in sorted(defaults.items()) if len(members) >= _MIN_TOPICS},
        ownership_actions={key: members for key, members in sorted(records.items()) if len(members) >= _MIN_TOPICS},
        refusals={key: members for key, members in refusals.items() if len(members) >= _MIN_TOPICS},
    )


def refusal_group_key(issue: Issue) -> Hashable:
    """Return a key that is equal for refusals to show as one; None for a refusal that is never grouped.

    A withheld creation is never grouped: replica lists differ from topic to topic, and a creation contains a mapping,
    which is not hashable.
    """
    if any(isinstance(change, CreateTopic) for change in issue.withheld):
        return None
    return issue.reason, issue.message, issue.field, issue.withheld


def list_exceeded_limits(plan: Plan) -> Iterable[tuple[str, str, str]]:
    """Return label, message and hint of each exceeded limit: the budgets of the cluster, and that of the run.

    Each is returned once, not for each topic that it affects.
    """
    refusals = chain.from_iterable(topic.refusals for topic in plan.topics)
    exceeded = (
        (LIMIT_LABELS[issue.reason], issue.message, issue.hint) for issue in refusals if issue.reason in LIMIT_LABELS
    )
    return dict.fromkeys(exceeded)


def describe_limits(usages: Iterable[LimitUsage]) -> Iterator[str]:
    """Yield one text for each group of each limit: ``team=shop: 3 of 50 topics, 96 -> 108 of 200 partitions (...)``."""
    for (limit, group), found in groupby(usages, key=lambda usage: (usage.limit, usage.group)):
        yield f"{group}: {', '.join(map(_describe_limit, found))} ({limit})"


def _describe_limit(usage: LimitUsage) -> str:
    before, after, allowed = (
        "unbounded"
        if total is None
        else humanize_bytes(total)
        if usage.resource is LimitedResource.RETAINED_BYTES
        else f"{total:,}"
        for total in (usage.before, usage.after, usage.allowed)
    )
    change = after if before == after else f"{before} -> {after}"
    return f"{change} of {allowed} {_LIMIT_NOUNS[usage.resource]}"


class PlanCounts(Struct, frozen=True):
    """The number of topics of each kind, in display order; a topic may be of several kinds.

    ``withheld`` counts the changes that are withheld by the cluster or by a limit (``CLUSTER_WIDE_REASONS``).
    ``withheld_reason`` is the reason, empty if nothing is withheld.
    """

    counts: Mapping[str, int]
    withheld: Mapping[str, int]
    withheld_reason: str


def count_plan(plan: Plan) -> PlanCounts:
    """Count the topics of a plan."""
    counts: Counter[str] = Counter()
    withheld: Counter[str] = Counter()
    limits: set[str] = set()
    for topic in plan.topics:
        if topic.observe_only:
            counts["unchanged" if is_record_only(topic) else "observed"] += bool(topic.changes)
        else:
            counts.update(_list_labels(topic.changes, adopts=bool(describe_ownership_action(topic))))
        # A refusal for a cluster-wide reason counts as held back: the topic itself has no error.
        counts["refused"] += any(issue.reason not in CLUSTER_WIDE_REASONS for issue in topic.refusals)
        held_back = [issue for issue in topic.refusals if issue.reason in CLUSTER_WIDE_REASONS]
        limits.update(LIMIT_LABELS[issue.reason] for issue in held_back if issue.reason in LIMIT_LABELS)
        changes = [change for issue in held_back for change in issue.withheld]
        withheld.update(_list_labels(changes, adopts=not (topic.before and topic.before.valid_record)))
    counts["unchanged"] += plan.unchanged
    counts[NOT_IN_PATHS] += len(plan.orphans)
    reason = (plan.write_block.summary or " and ".join(sorted(limits))) if withheld else ""
    return PlanCounts(_sort_counts(counts), _sort_counts(withheld), reason)


def _list_labels(changes: Sequence[Change], *, adopts: bool) -> set[str]:
    """Return the kinds of a topic's changes; a record that goes with other changes is no kind of its own."""
    if changes and all(isinstance(change, TakeOwnership) for change in changes):
        return {"to adopt" if adopts else "record only"}
    return {CHANGE_KINDS[type(change)].label for change in changes} - {""}


def _sort_counts(counts: Mapping[str, int]) -> Mapping[str, int]:
    return {label: counts[label] for label in _LABEL_ORDER if counts[label]}


def count_plans(plans: Sequence[Plan]) -> PlanCounts:
    """Count the topics of several plans together.

    If only one cluster withholds changes, ``withheld_reason`` names that cluster.
    """
    counts: Counter[str] = Counter()
    withheld: Counter[str] = Counter()
    reasons = []
    for plan in plans:
        plan_counts = count_plan(plan)
        counts.update(plan_counts.counts)
        withheld.update(plan_counts.withheld)
        if plan_counts.withheld:
            name = f"{plan.cluster}: " if plan.cluster and len(plans) > 1 else ""
            reasons.append(name + plan_counts.withheld_reason)
    reason = "" if not reasons else reasons[0] if len(reasons) == 1 else f"on {format_count(len(reasons), 'cluster')}"
    return PlanCounts(_sort_counts(counts), _sort_counts(withheld), reason)


def describe_brokers(plan: Plan) -> str:
    """Return the number of brokers and racks as text."""
    racks = {broker.rack for broker in plan.brokers}
    without = sum(broker.rack is None for broker in plan.brokers)
    words = format_count(len(plan.brokers), "broker")
    if racks <= {None}:
        return f"{words} without racks" if plan.brokers else "no brokers"
    words += f" in {format_count(len(racks - {None}), 'rack')}"
    return f"{words} ({without} without)" if without else words


class BrokerLoad(NamedTuple):
    """The load of a broker before and after a plan, with the replicas that it copies and deletes.

    ``rack`` is that of a registered broker; ``is_draining`` is true if the plan drains the broker.
    """

    broker: int
    rack: str | None
    is_registered: bool
    is_draining: bool
    before: Load
    after: Load
    copied: int
    deleted: int


def list_broker_loads(plan: Plan) -> list[BrokerLoad]:
    """Return the load of each broker, by id; empty if the plan neither places nor moves a replica.

    "Leaders" counts preferred leaders: the first broker of each replica list.
    """
    if not plan.places_replicas:
        return []
    after = compute_broker_load_after(plan)
    moves = [move for topic in plan.actionable_topics() for move in topic.moves()]
    copied = Counter(broker for move in moves for broker in move.added)
    deleted = Counter(broker for move in moves for broker in move.removed)
    racks = {broker.id: broker.rack for broker in plan.brokers}
    return [
        BrokerLoad(
            broker,
            racks.get(broker),
            broker in racks,
            broker in plan.drain_brokers,
            plan.load.get(broker, Load()),
            after.get(broker, Load()),
            copied[broker],
            deleted[broker],
        )
        for broker in after
    ]


def format_consent(topics: Sequence[str]) -> str:
    """Return the option that permits the loss of data of these topics; ``TOPIC,...`` stands for many names."""
    return f"--allow-risk DataLoss={','.join(topics) if len(topics) <= MAX_CONSENT_NAMES else 'TOPIC,...'}"


def list_data_loss_topics(plan: Plan) -> Sequence[str]:
    """Return the names of the topics with a change that may lose data."""
    return tuple(topic.topic for topic in plan.actionable_topics() if topic.risk is Risk.DATA_LOSS)


def describe_data_losses(plan: Plan) -> str:
    """Return the number of changes that may lose data, as text."""
    changes = (change for topic in plan.actionable_topics() for change in topic.changes)
    return f"{format_count(sum(each.assessment.risk is Risk.DATA_LOSS for each in changes), 'change')} may lose data"
