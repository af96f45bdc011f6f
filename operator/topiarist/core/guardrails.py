"""A platform owner's rules as values, what they say of a topic or a change, and a plan without what they deny.

``schema`` makes the policies, an adapter evaluates their expressions; here is whom a policy is for and what follows
from a verdict. A rule can only take away: nothing is done because of a policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from topiarist.core.change import Change, Finding, Plan, TopicPlan
from topiarist.core.holding import hold
from topiarist.core.names import fits
from topiarist.core.spec import ClusterSpec, Origin, Source, TopicSpec, has_labels
from topiarist.core.units import count
from topiarist.errors import Complaint, Path, Place, Reason


class Subject(str, Enum):
    """What a rule is about."""

    TOPIC = "Topic"
    CHANGE = "Change"


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One rule. ``field`` is the path below the spec at which findings stand (empty: the topic's name).

    ``path`` leads to the rule in its document, ``source``.
    """

    policy: str
    name: str
    expression: str
    message: str
    subject: Subject
    deny: bool
    field: tuple[str, ...]
    source: Source
    path: Path

    @property
    def title(self) -> str:
        """The rule by its names."""
        return f"policy {self.policy}, rule {self.name}"

    @property
    def reason(self) -> Reason:
        """What becomes of what does not keep it: refused, or only said."""
        return Reason.POLICY_DENIED if self.deny else Reason.POLICY_WARNING

    def place(self, *path: str) -> Place:
        """Where the rule stands, or a field of it."""
        return self.source.place((*self.path, *path))

    def finding(self, spec: TopicSpec) -> Finding:
        """What to say where a topic, or a change of it, does not keep the rule; explicit replica lists are its size."""
        sized = self.field in (("partitions",), ("replicationFactor",)) and spec.assignment is not None
        return Finding(
            self.reason,
            f"{self.message} ({self.title})",
            ("replicaAssignment",) if sized else self.field,
            rule=Origin(self.source, self.path),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """A ``Policy`` manifest. What its selector leaves open is empty and fits everything."""

    name: str
    namespace: str
    source: Source
    rules: tuple[Rule, ...]
    topics: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    clusters: tuple[str, ...] = ()
    cluster_labels: Mapping[str, str] = field(default_factory=dict)

    def means(self, cluster: ClusterSpec) -> bool:
        """Whether the policy is for topics of this cluster."""
        named = not self.clusters or cluster.name in self.clusters
        return named and has_labels(cluster.labels, self.cluster_labels)

    def covers(self, spec: TopicSpec) -> bool:
        """Whether the policy is for a topic of a cluster that it means."""
        named = not self.topics or fits(spec.topic, self.topics)
        return named and has_labels(spec.manifest.labels, self.labels)


def guarded(
    plan: Plan, found: Mapping[str, Sequence[Finding]], judge: Callable[[TopicPlan, Change], Iterable[Finding]]
) -> Plan:
    """``plan`` without the changes that rules deny.

    ``found`` is what rules about topics say, by topic: a denial holds back every change of the topic, and is only said
    where there is none. ``judge`` gives what rules about changes say to one.
    """
    topics = tuple(_guarded(topic, found.get(topic.topic, ()), judge) for topic in plan.topics)
    silent = len(found.keys() - {topic.topic for topic in plan.topics})
    words = f"policies are not kept by {count(silent, 'topic')} without a difference: validate names what they break"
    return replace(plan, topics=topics, warnings=(*plan.warnings, words) if silent else plan.warnings)


def _guarded(
    topic: TopicPlan, found: Sequence[Finding], judge: Callable[[TopicPlan, Change], Iterable[Finding]]
) -> TopicPlan:
    verdicts = [(change, finding) for change in topic.changes if topic.to_do for finding in judge(topic, change)]
    for finding in found:
        topic = _held(topic, topic.changes if topic.to_do else (), finding)
    for change, finding in verdicts:
        topic = _held(topic, [left for left in topic.changes if left is change], finding)
    return topic


def _held(topic: TopicPlan, changes: Sequence[Change], finding: Finding) -> TopicPlan:
    """The topic without ``changes`` if the finding denies them; otherwise it is only said."""
    return hold(topic, changes, finding) if changes and _denies(finding) else _said(topic, finding)


def _denies(finding: Finding) -> bool:
    return finding.reason is Reason.POLICY_DENIED


def _said(topic: TopicPlan, finding: Finding) -> TopicPlan:
    """A finding that holds nothing back: a refusal beside another one, else only a word."""
    if _denies(finding) and topic.refusals:
        return replace(topic, refusals=(*topic.refusals, finding))
    return replace(topic, notices=(*topic.notices, finding._replace(reason=Reason.POLICY_WARNING)))


def doubles(policies: Sequence[Policy]) -> Iterator[Complaint]:
    """Names that are there twice, of policies and of the rules of one policy."""
    first: dict[tuple[str, str], Policy] = {}
    for policy in policies:
        earlier = first.setdefault((policy.namespace, policy.name), policy)
        if earlier is not policy:
            place, at = (source.place(("metadata", "name")) for source in (policy.source, earlier.source))
            yield Complaint(place, f"Policy {policy.name}: there is one of this name at {at} already")
        names: dict[str, int] = {}
        for index, rule in enumerate(policy.rules):
            known = names.setdefault(rule.name, index)
            if known != index:
                place, at = (policy.rules[each].place("name") for each in (index, known))
                yield Complaint(place, f"{rule.title}: there is one of this name at {at} already")
