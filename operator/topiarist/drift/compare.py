"""Comparison of one cluster with its specs: rows of its findings and counts of its topics.

``drift.task`` calls it for each cluster. All differences come from ``plan_topic``; topics that the equality check has
counted need no plan. The write block of a cluster, size limits, policies and budgets are not applied: they decide what
may be written, and a report shows what differs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import asdict

from topiarist.adapters.snapshots.codec import format_time
from topiarist.drift.cross_cluster import Deviation
from topiarist.drift.findings import DriftClass, DriftFinding, FindingRow, make_findings, undeclared_topic_finding
from topiarist.drift.history import ACCEPTED_FILE, FINDINGS_FILE, NOT_EVALUATED_FILE, RESOLVED_FILE, Repair
from topiarist.drift.placement import (
    PlacementChecker,
    find_checker,
    find_cluster_findings,
    find_moving_findings,
    find_placement_findings,
    find_stuck_findings,
    find_throttle_findings,
    find_usage_findings,
    requested_targets,
)
from topiarist.drift.rows import NEW, WORSE, make_row, sort_key
from topiarist.drift.snapshots import ClusterInput
from topiarist.errors import Location, TopiaristError
from topiarist.inspection.check import UpgradeEffect, check_upgrade
from topiarist.kafka.types import KafkaVersion, format_version
from topiarist.model.plan import Load, RunOptions, TakeOwnership, compute_broker_load
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.planning.builder import PlanContext
from topiarist.planning.planner import make_plan_context, plan_topic
from topiarist.planning.risk import NO_FACTS, TopicFacts

# Upgrade risks of a fleet: what a newer Kafka version would refuse, drop or change (``drift --upgrade-to``).
#
# ``drift.task`` checks each cluster after its comparison, and ``drift.report`` adds the risks up.
# ``inspection.check`` finds the effects; this module only counts them, so that memory does not grow with
# topics. The result is ``upgrade`` of ``summary.json``: a topic that matches its manifest can still keep a newer broker
# from starting, so that these risks are not findings of drift.

_MAX_EXAMPLES = 5
"""Number of topics that a risk names, at most one for each cluster."""


class ClusterRisk(NamedTuple):
    """One effect on one config of a cluster, with the number of affected topics and the first of them.

    ``place`` is that of the first one's value in its manifest, None without a manifest: a place crosses processes, and
    a document does not.
    """

    effect: UpgradeEffect
    key: str
    message: str
    hint: str
    topics: int
    topic: str
    value: str | None
    place: Location | None


class ClusterUpgrade(NamedTuple):
    """The risks of a cluster, and the number of its topics with each effect."""

    risks: Sequence[ClusterRisk]
    topics: Mapping[str, int]


def check_cluster(
    cluster_input: ClusterInput, cluster: ClusterSpec, specs: Iterable[TopicSpec], target: KafkaVersion
) -> ClusterUpgrade | None:
    """Return the risks of an upgrade of a cluster and its manifests.

    None if the cluster could not be read, or has a newer version. Topics without a valid row in the snapshot are left
    out.
    """
    state = cluster_input.state
    if state is None:
        return None
    judged = (spec for spec in specs if not cluster_input.may_lack(spec.topic))
    try:
        report = check_upgrade(state, cluster, target, judged, cluster_input.equal_topics.names)
    except TopiaristError:
        return None
    risks = [
        ClusterRisk(
            *(each.effect, each.key, each.message, each.hint),
            *(len(each.topics), first.topic, first.value, first.location),
        )
        for each in report.findings
        for first in each.topics[:1]
    ]
    topics: dict[UpgradeEffect, set[str]] = {}
    for finding in report.findings:
        topics.setdefault(finding.effect, set()).update(item.topic for item in finding.topics)
    numbers = {effect.value: len(topics.get(effect, ())) for effect in UpgradeEffect}
    return ClusterUpgrade(risks, numbers if topics else {})


class _Risk(Struct):
    """One effect on one config, with the numbers of affected clusters and topics."""

    finding: ClusterRisk
    clusters: int = 0
    topics: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)

    def add(self, cluster: str, finding: ClusterRisk) -> None:
        """Count the topics of a cluster."""
        self.clusters += 1
        self.topics += finding.topics
        if len(self.examples) < _MAX_EXAMPLES:
            place = finding.place
            self.examples.append(
                {
                    "cluster": cluster,
                    "topic": finding.topic,
                    "value": finding.value,
                    "file": place.file if place else None,
                    "line": (place.line or None) if place else None,
                }
            )


class UpgradeRisks:
    """The risks of an upgrade of all clusters to ``target``."""

    def __init__(self, target: KafkaVersion) -> None:
        self._target = target
        self._checked = 0
        self._risks: dict[tuple[UpgradeEffect, str, str], _Risk] = {}
        self._clusters: list[dict[str, Any]] = []

    def add_cluster(self, cluster: str, found: ClusterUpgrade) -> None:
        """Add the risks of a cluster; clusters come in order of name."""
        self._checked += 1
        for risk in found.risks:
            self._risks.setdefault((risk.effect, risk.key, risk.message), _Risk(risk)).add(cluster, risk)
        if found.topics:
            self._clusters.append({"cluster": cluster, **found.topics})

    def build(self) -> dict[str, Any]:
        """Return the ``upgrade`` of ``summary.json``: the risks with the worst effect first."""
        order = list(UpgradeEffect)
        risks = sorted(self._risks.items(), key=lambda item: (order.index(item[0][0]), -item[1].topics, item[0][1:]))
        return {
            "target": format_version(self._target),
            "checked": self._checked,
            "risks": [_risk_document(risk) for _, risk in risks],
            "byCluster": self._clusters,
        }


def _risk_document(risk: _Risk) -> dict[str, Any]:
    finding = risk.finding
    return {
        "effect": finding.effect.value,
        "config": finding.key,
        "message": finding.message,
        "hint": finding.hint,
        "clusters": risk.clusters,
        "topics": risk.topics,
        "examples": risk.examples,
    }


class TopicCounts(Struct):
    """Numbers of topics of one cluster or of a fleet.

    ``declared`` topics are named by manifests; they are ``compared`` if their cluster could be read, and ``in_sync``
    without a finding. For those with ``missing_record`` a plan would write the ownership record. ``present`` topics
    exist on the cluster; those that are ``ignored`` are undeclared and without a finding. Declared topics are
    ``not_judged`` if an incomplete snapshot may lack their rows.
    """

    declared: int = 0
    compared: int = 0
    present: int = 0
    in_sync: int = 0
    missing_record: int = 0
    ignored: int = 0
    not_judged: int = 0

    def add(self, other: TopicCounts) -> None:
        """Add the counts of other topics."""
        for name, number in asdict(other).items():
            setattr(self, name, getattr(self, name) + number)


class Comparison(Struct):
    """The result for one cluster: its findings in order of topic, class and field, and its counts.

    ``context`` is None if the cluster could not be compared. ``specs`` were compared by plans; ``broker_load`` is the
    load by broker id.
    """

    cluster_input: ClusterInput
    counts: TopicCounts
    rows: list[FindingRow] = field(default_factory=list)
    context: PlanContext | None = None
    specs: Sequence[TopicSpec] = ()
    broker_load: Mapping[int, Load] = field(default_factory=dict)

    def find_facts(self, topic: str) -> TopicFacts:
        """Return what decides the effect of a config of a topic; little is known of a topic that was not compared."""
        if self.context is None:
            return NO_FACTS
        found = self.context.state.topics.get(topic)
        return TopicFacts(self.context.settings, self.context.versions_to_check[0], found.config if found else None)


def compare_cluster(
    cluster_input: ClusterInput, cluster: ClusterSpec, specs: Sequence[TopicSpec], options: RunOptions, as_of: str
) -> Comparison:
    """Return the comparison of one cluster; ``as_of`` is the time of the finding if the cluster was not read."""
    state, equal_topics = cluster_input.state, cluster_input.equal_topics
    if state is None or cluster_input.taken_at is None:
        rows = [
            make_row(cluster_input.cluster, "", DriftFinding(DriftClass.UNKNOWN, message=cluster_input.problem), as_of)
        ]
        return Comparison(cluster_input, TopicCounts(declared=len(specs)), rows)
    # Equal topics count as holders of replicas only. Their names need no collision check, because equal topics have
    # specs and ``desired`` rejects specs with colliding names.
    kept_replicas = (topic.replicas for name, topic in state.topics.items() if name not in state.pending_deletions)
    holders = equal_topics.replica_holders().union(*chain.from_iterable(kept_replicas))
    context = make_plan_context(state, cluster, options, holders)
    remaining = equal_topics.remaining_specs(specs)
    counts = TopicCounts(len(remaining), len(remaining), present=len(state.topics) + len(state.topic_errors))
    comparison = Comparison(cluster_input, counts, context=context, specs=remaining)
    taken_at = format_time(cluster_input.taken_at)
    for name, finding in [*_compare_specs(comparison, context), *_check_undeclared(comparison, context)]:
        topic = state.topics.get(name)
        record = topic.valid_record if topic else state.dangling_records.get(name)
        owner = record.owner if record else None
        row = make_row(cluster_input.cluster, name, finding, taken_at, owner, comparison.find_facts(name))
        row["modifiedExternally"] = topic is not None and topic.modified_externally
        comparison.rows.append(row)
    equal = len(equal_topics.names)
    counts.add(TopicCounts(equal, equal, equal, equal, equal_topics.missing_record))
    replica_lists = equal_topics.count_replica_lists()
    replica_lists.update(chain.from_iterable(topic.replicas for topic in state.topics.values()))
    comparison.broker_load = compute_broker_load(replica_lists, [broker.id for broker in state.brokers])
    if stale := state.stale_reassignments:
        # A stale entry is reported for the topic that it names, declared or not.
        judged = stale & {spec.topic for spec in specs if not cluster_input.may_lack(spec.topic)}
        counts.in_sync -= len(judged - {row["topic"] for row in comparison.rows})
    _add_usage_findings(comparison, cluster, specs, taken_at)
    findings = find_cluster_findings(state, cluster_input.taken_at)
    comparison.rows.extend(make_row(cluster_input.cluster, topic, finding, taken_at) for topic, finding in findings)
    comparison.rows.sort(key=sort_key)
    return comparison


def _add_usage_findings(
    comparison: Comparison, cluster: ClusterSpec, specs: Sequence[TopicSpec], taken_at: str
) -> None:
    """Add the findings about usage, also of topics that equal their specs."""
    state = comparison.cluster_input.state
    if state is None or not state.usage:
        return
    declared = {spec.topic: spec for spec in specs}
    without_finding = state.usage.keys() - {row["topic"] for row in comparison.rows}
    for name, finding in find_usage_findings(state, cluster, declared):
        if name in without_finding:
            without_finding.discard(name)
            comparison.counts.in_sync -= name in declared
            comparison.counts.ignored -= name not in declared
        topic = state.topics.get(name)
        record = topic.valid_record if topic else None
        owner = record.owner if record else None
        comparison.rows.append(make_row(comparison.cluster_input.cluster, name, finding, taken_at, owner))


def _compare_specs(comparison: Comparison, context: PlanContext) -> Iterator[tuple[str, DriftFinding]]:
    state = context.state
    checker = find_checker(state.brokers, context.cluster)
    for spec in comparison.specs:
        if comparison.cluster_input.may_lack(spec.topic):
            comparison.counts.not_judged += 1
            comparison.counts.compared -= 1
            continue
        plan = plan_topic(spec, context)
        actual = _find_actual(spec, comparison, context, checker)
        findings = make_findings(plan, actual) if actual or plan.changes or plan.refusals or plan.notices else ()
        comparison.counts.in_sync += not findings
        comparison.counts.missing_record += any(isinstance(change, TakeOwnership) for change in plan.changes)
        for finding in findings:
            yield spec.topic, finding


def _find_actual(
    spec: TopicSpec, comparison: Comparison, context: PlanContext, checker: PlacementChecker
) -> list[DriftFinding]:
    """Return the findings of a topic that do not depend on its plan; none for a topic that should not exist."""
    state, taken_at = context.state, comparison.cluster_input.taken_at
    topic = state.topics.get(spec.topic)
    if topic is None or taken_at is None or spec.absent or spec.topic in state.pending_deletions:
        return []
    return [
        *find_placement_findings(spec, topic, checker, requested_targets(spec.topic, state)),
        *find_moving_findings(topic, state, taken_at),
        *find_throttle_findings(spec, topic, state),
    ]


def _check_undeclared(comparison: Comparison, context: PlanContext) -> Iterator[tuple[str, DriftFinding]]:
    """Yield the findings of undeclared topics, and count the topics without a finding as ignored."""
    state, declared = context.state, {spec.topic for spec in comparison.specs}
    for name in (*state.topics, *state.topic_errors):
        if name in declared:
            continue
        topic, taken_at = state.topics.get(name), comparison.cluster_input.taken_at
        findings = [*filter(None, [undeclared_topic_finding(name, state, context.cluster, context.options.owner)])]
        if topic and taken_at and name not in state.pending_deletions:
            # A stuck entry blocks the moves of all topics, declared or not.
            findings.extend(find_stuck_findings(topic, state, taken_at))
        comparison.counts.ignored += not findings
        yield from ((name, finding) for finding in findings)


# The result of one cluster: plain values that a worker returns to the process that writes the report.
#
# ``drift.task`` makes them, the runners pass them on, and ``drift.report`` adds them up. The lines of the report's
# files are encoded where the cluster was compared.

INVALID_ROWS_FILE = "broken.jsonl"

LINE_FILES = (FINDINGS_FILE, ACCEPTED_FILE, NOT_EVALUATED_FILE, RESOLVED_FILE, INVALID_ROWS_FILE)
"""The files of a report with one line for each row."""

Counts = Counter[str]

_COUNTED_FIELDS = ("class", "effect", "planned", "risk", "severity", "status")

_OLDEST_FIELDS = ("firstSeen", "cluster", "topic", "class")


class ResponsibleCounts(Struct):
    """The findings of one team or owner."""

    new: int = 0
    worse: int = 0
    by_class: Counts = field(default_factory=Counter)
    by_severity: Counts = field(default_factory=Counter)


class FindingCounts(Struct):
    """The findings of some clusters in numbers; ``oldest`` is the finding that was first seen earliest.

    ``by`` has numbers by value of some fields, and ``matched_exceptions`` the exceptions that match a finding, by their
    position in the run. ``not_evaluated`` and ``repairs`` are findings of the previous report:
    those that could not be evaluated again, and those that were resolved. ``known`` counts those that the baseline
    accepts, and those that are worse. ``team_topics`` and ``team_drifted`` count the compared topics of each team, and
    those with a finding.
    """

    by: dict[str, Counts] = field(default_factory=lambda: {name: Counter() for name in _COUNTED_FIELDS})
    reasons: Counts = field(default_factory=Counter)
    owners: defaultdict[str | None, Counts] = field(default_factory=lambda: defaultdict(Counter))
    responsible: defaultdict[str | None, ResponsibleCounts] = field(
        default_factory=lambda: defaultdict(ResponsibleCounts)
    )
    oldest: dict[str, Any] | None = None
    accepted: Counts = field(default_factory=Counter)
    known: Counts = field(default_factory=Counter)
    team_topics: Counts = field(default_factory=Counter)
    team_drifted: Counts = field(default_factory=Counter)
    matched_exceptions: frozenset[int] = frozenset()
    not_evaluated: int = 0
    repairs: list[Repair] = field(default_factory=list)

    def add_rows(self, rows: Iterable[FindingRow]) -> None:
        """Count rows that already have a status, in their order."""
        for row in rows:
            for name, numbers in self.by.items():
                if row[name] is not None:
                    numbers[row[name]] += 1
            self.reasons.update(row["reasons"])
            if row["topic"]:
                self.owners[row["owner"]][row["class"]] += 1
            counts = self.responsible[row["responsible"]]
            counts.new += row["status"] == NEW
            counts.worse += row["status"] == WORSE
            counts.by_class[row["class"]] += 1
            counts.by_severity[row["severity"]] += 1
            if self.oldest is None or row["firstSeen"] < self.oldest["firstSeen"]:
                self.oldest = {name: row[name] for name in _OLDEST_FIELDS}

    def add(self, other: FindingCounts) -> None:
        """Add the findings of other clusters, which come later in the order of the report."""
        for name, numbers in other.by.items():
            self.by[name].update(numbers)
        self.reasons.update(other.reasons)
        for owner, by_class in other.owners.items():
            self.owners[owner].update(by_class)
        for team, counts in other.responsible.items():
            total = self.responsible[team]
            total.new += counts.new
            total.worse += counts.worse
            total.by_class.update(counts.by_class)
            total.by_severity.update(counts.by_severity)
        if other.oldest and (self.oldest is None or other.oldest["firstSeen"] < self.oldest["firstSeen"]):
            self.oldest = other.oldest
        self.accepted.update(other.accepted)
        self.known.update(other.known)
        self.team_topics.update(other.team_topics)
        self.team_drifted.update(other.team_drifted)
        self.matched_exceptions |= other.matched_exceptions
        self.not_evaluated += other.not_evaluated
        self.repairs += other.repairs


class ClusterResult(Struct):
    """The result of one cluster, or of the findings about manifests of a cluster outside the run.

    ``document`` is the cluster's entry in ``summary.json``, None for a cluster outside the run; ``incomplete`` and
    ``imbalances`` are its other entries. ``lines`` has the lines for each file of the report. ``sizes`` are the
    deviations of topics that are equal to their spec. ``read_error`` is the message for the user, with addresses, if a
    live cluster could not be read.
    """

    cluster: str
    document: dict[str, Any] | None = None
    incomplete: dict[str, Any] | None = None
    imbalances: Sequence[dict[str, Any]] = ()
    topics: TopicCounts = field(default_factory=TopicCounts)
    findings: FindingCounts = field(default_factory=FindingCounts)
    invalid_rows: int = 0
    lines: Mapping[str, Sequence[bytes]] = field(default_factory=dict)
    upgrade: ClusterUpgrade | None = None
    deviations: Sequence[Deviation] = ()
    sizes: Sequence[Deviation] = ()
    read_error: str = ""
