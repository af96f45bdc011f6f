"""A report in numbers: ``summary.json`` as a plain document, counted while clusters come by one after the other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from topiarist.adapters.snapshot import text_of
from topiarist.drift import history
from topiarist.drift.comparing import Comparison
from topiarist.drift.findings import NEW, Row
from topiarist.drift.history import Previous
from topiarist.drift.observing import Inputs
from topiarist.drift.unevenness import MOST, Fleet, Uneven, unbalanced

FORMAT_VERSION = 1

Numbers = Counter[str]


class Tally:
    """Counts what the comparisons of a run found; ``summary`` is the document once all are added.

    ``fleet`` has the topics that are compared between clusters; whoever compared them elsewhere adds to it.
    """

    def __init__(self, as_of: str, owner: str) -> None:
        self._as_of = as_of
        self._owner = owner
        self._clusters: list[dict[str, Any]] = []
        self._topics: Numbers = Counter()
        self._by: dict[str, Numbers] = {name: Counter() for name in ("class", "planned", "risk", "status")}
        self._reasons: Numbers = Counter()
        self._owners: defaultdict[str | None, Numbers] = defaultdict(Counter)
        self.fleet = Fleet()
        self._unbalanced: list[dict[str, Any]] = []

    @property
    def classes(self) -> Mapping[str, int]:
        """Findings by class so far."""
        return self._by["class"]

    @property
    def unknown(self) -> int:
        """Clusters so far of which nothing is known."""
        return sum(cluster["problem"] is not None for cluster in self._clusters)

    def add(self, done: Comparison) -> None:
        """Count one cluster, in order of name; its rows have their status already."""
        for row in done.rows:
            self._row(row)
        self._clusters.append(_cluster(done))
        for name in ("declared", "compared", "present", "in_order", "unrecorded", "left_alone"):
            self._topics[name] += getattr(done, name)
        if done.context:
            cluster, state = done.observation.cluster, done.context.state
            self._unbalanced.extend(unbalanced(cluster, done.load, {broker.id for broker in state.brokers}))
            self.fleet.note(cluster, done.observation.settled.sightings)
            for spec in done.specs:
                self.fleet.add(cluster, spec, state.topics.get(spec.topic))

    def _row(self, row: Row) -> None:
        for name, numbers in self._by.items():
            if row[name] is not None:
                numbers[row[name]] += 1
        self._reasons.update(row["reasons"])
        if row["topic"]:
            self._owners[row["owner"]][row["class"]] += 1

    def summary(self, previous: Previous, inputs: Inputs) -> dict[str, Any]:
        """The document. ``previous`` is settled for all clusters."""
        uneven = list(self.fleet.uneven())
        compared = [cluster["takenAt"] for cluster in self._clusters if cluster["problem"] is None]
        now = {
            "asOf": self._as_of,
            "findings": self.classes_total,
            "new": self._by["status"][NEW],
            "resolved": previous.resolved,
            "byClass": _sorted(self._by["class"]),
        }
        return {
            "formatVersion": FORMAT_VERSION,
            "asOf": self._as_of,
            "oldest": min(compared, default=None),
            "previous": previous.as_of,
            "owner": self._owner,
            "clusters": {"wanted": len(self._clusters), "compared": len(compared), "unknown": self.unknown},
            "topics": {_camel(name): number for name, number in self._topics.items()},
            "findings": self._findings(previous),
            "byCluster": self._clusters,
            "byOwner": [
                {"owner": owner, "findings": numbers.total(), "byClass": _sorted(numbers)}
                for owner, numbers in sorted(self._owners.items(), key=lambda item: (-item[1].total(), item[0] or ""))
            ],
            "uneven": {"total": len(uneven), "topics": [_uneven(one) for one in islice(uneven, MOST)]},
            "unbalanced": sorted(self._unbalanced, key=lambda one: str(one["cluster"])),
            "inputs": _inputs(inputs),
            "trend": history.trend(previous.trend, now),
        }

    @property
    def classes_total(self) -> int:
        """All findings so far."""
        return self._by["class"].total()

    def _findings(self, previous: Previous) -> dict[str, Any]:
        status = self._by["status"]
        return {
            "total": self.classes_total,
            "new": status[NEW],
            "standing": status.total() - status[NEW],
            "resolved": previous.resolved,
            "unseen": len(previous.unseen),
            "dropped": previous.dropped,
            "byClass": _sorted(self._by["class"]),
            "byPlanned": _sorted(self._by["planned"]),
            "byRisk": _sorted(self._by["risk"]),
            "byReason": _sorted(self._reasons),
        }


def _cluster(done: Comparison) -> dict[str, Any]:
    seen, state = done.observation, done.observation.state
    return {
        "cluster": seen.cluster,
        "clusterId": state.cluster_id if state else None,
        "takenAt": text_of(seen.taken) if seen.taken else None,
        "problem": seen.problem or None,
        "gaps": seen.gaps,
        "gate": state.gate.reason.value if state and state.gate.reason else None,
        "declared": done.declared,
        "present": done.present,
        "findings": len(done.rows),
        "byClass": _sorted(Counter(row["class"] for row in done.rows)),
    }


def _uneven(one: Uneven) -> dict[str, Any]:
    values = [{**value._asdict(), "clusters": list(value.clusters)} for value in one.values]
    return {"topic": one.topic, "manifest": one.manifest, "field": one.field, "values": values}


def _inputs(inputs: Inputs) -> dict[str, Any]:
    return {
        "broken": len(inputs.broken),
        "superseded": [
            {"cluster": one.cluster, "file": one.file, "takenAt": text_of(one.taken), "newer": one.newer}
            for one in inputs.superseded
        ],
        "strangers": [{"cluster": one.cluster, "file": one.file} for one in inputs.strangers],
    }


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _sorted(numbers: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(_positive(numbers.items())))


def _positive(items: Iterable[tuple[str, int]]) -> Iterable[tuple[str, int]]:
    return (item for item in items if item[1])
