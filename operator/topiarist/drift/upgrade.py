"""Upgrade risks of a fleet: what a newer Kafka version would refuse, drop or change (``drift --upgrade-to``).

``drift.task`` checks each cluster after its comparison, and ``drift.summary`` adds the risks up.
``inspection.upgrade_check`` finds the effects; this module only counts them, so that memory does not grow with topics.
The result is ``upgrade`` of ``summary.json``: a topic that matches its manifest can still keep a newer broker from
starting, so that these risks are not findings of drift.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field

from topiarist.drift.snapshots import ClusterInput
from topiarist.inspection.upgrade_check import AffectedTopic, UpgradeEffect, check_state
from topiarist.kafka.types import KafkaVersion, format_version
from topiarist.model.spec import ClusterSpec, TopicSpec

_MAX_EXAMPLES = 5
"""Number of topics that a risk names, at most one for each cluster."""


class ClusterRisk(NamedTuple):
    """One effect on one config of a cluster, with the number of affected topics and the first of them."""

    effect: UpgradeEffect
    key: str
    message: str
    hint: str
    topics: int
    first: AffectedTopic


class ClusterUpgrade(NamedTuple):
    """The risks of a cluster, and the number of its topics with each effect."""

    risks: Sequence[ClusterRisk]
    topics: Mapping[str, int]


def check_cluster(
    cluster_input: ClusterInput, cluster: ClusterSpec, specs: Iterable[TopicSpec], target: KafkaVersion
) -> ClusterUpgrade | None:
    """Return the risks of an upgrade of a cluster and its manifests; None if the cluster could not be read.

    Topics without a valid row in the snapshot are left out.
    """
    state = cluster_input.state
    if state is None:
        return None
    judged = (spec for spec in specs if not cluster_input.may_lack(spec.topic))
    report = check_state(state, cluster, target, judged, cluster_input.equal_topics.names)
    risks = [
        ClusterRisk(each.effect, each.key, each.message, each.hint, len(each.topics), each.topics[0])
        for each in report.findings
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
            place = finding.first.location
            self.examples.append(
                {
                    "cluster": cluster,
                    "topic": finding.first.topic,
                    "value": finding.first.value,
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
