"""Comparison across clusters: topics that differ between the clusters of a manifest, and imbalanced brokers.

Overrides in a manifest may ask for differences; only a difference that the manifest does not ask for is reported.
``drift.compare`` and ``drift.equality`` make a ``Deviation`` for each topic that is not equal to its spec, and
for each equal topic with a size that its spec leaves open. The other compared clusters of a group of specs have what
the spec asks for: they are derived from the group, so that matching topics cost nothing. ``DeviationIndex`` brings the
deviations of a topic together by a sort on disk; Spark does it by a shuffle and calls the same ``TopicComparer``.
"""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain, groupby
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple

from topiarist.desired.shared_specs import ClusterTopicSpecs, SpecGroup
from topiarist.kafka.config_table import THROTTLE_CONFIGS
from topiarist.kafka.config_values import is_equivalent
from topiarist.model.plan import Load
from topiarist.model.spec import TopicSpec
from topiarist.model.state import ClusterState, TopicState, find_replication_factors

# A sort on disk, for rows that may not fit into memory.
#
# ``DeviationIndex`` uses it. Rows are written as sorted runs to temporary files without a name, which end
# with the process. Runs are merged in rounds, so that the number of open files stays small.

Row = tuple[str, ...]

_MAX_ROWS_IN_MEMORY = 5_000

_MAX_RUNS_PER_ROUND = 32
"""Runs of one round; so many are merged to one of the next round: three rounds have 160 million rows in 93 files."""

_BUFFER_BYTES = 1 << 14


class SortedRuns:
    """Rows of text, added in any order and read in order; ``close`` removes the files.

    Files are created in ``folder``, or in the default folder for temporary files. Raises ``OSError`` if a file cannot
    be written.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._rows: list[Row] = []
        self._rounds: list[list[IO[str]]] = []

    @property
    def open_files(self) -> int:
        """The number of temporary files."""
        return sum(map(len, self._rounds))

    def add(self, row: Row) -> None:
        """Add a row."""
        self._rows.append(row)
        if len(self._rows) >= _MAX_ROWS_IN_MEMORY:
            self._rows.sort()
            self._add_run(0, (json.dumps(each) + "\n" for each in self._rows))
            self._rows = []

    def _add_run(self, number: int, lines: Iterable[str]) -> None:
        """Write a run of a round, and merge the runs of the round if there are too many."""
        if number == len(self._rounds):
            self._rounds.append([])
        runs = self._rounds[number]
        run = TemporaryFile("w+", _BUFFER_BYTES, encoding="ascii", newline="\n", dir=self._folder)  # noqa: SIM115
        runs.append(run)
        run.writelines(lines)
        run.seek(0)
        if len(runs) >= _MAX_RUNS_PER_ROUND:
            self._add_run(number + 1, heapq.merge(*runs, key=json.loads))
            _close(runs)

    def rows(self) -> Iterator[Row]:
        """Yield all rows in order, again for each call; no row may be added afterwards."""
        self._rows.sort()
        for run in (run for runs in self._rounds for run in runs):
            run.seek(0)
        return heapq.merge(self._rows, *(map(_parse, run) for runs in self._rounds for run in runs))

    def close(self) -> None:
        """Remove the files."""
        for runs in self._rounds:
            _close(runs)


def _parse(line: str) -> Row:
    return tuple(json.loads(line))


def _close(runs: list[IO[str]]) -> None:
    while runs:
        runs.pop().close()


MAX_SHOWN_DIFFERENCES = 1000
"""Number of cross-cluster differences in a summary."""

MAX_SHOWN_CLUSTERS = 100
"""Number of cluster names in a summary for one value of a field."""

_IMBALANCE_THRESHOLD = 0.2
"""Allowed excess of a broker over the mean, as a share of the mean."""

_encode_json = json.JSONEncoder(separators=(",", ":"), sort_keys=True).encode


class Deviation(NamedTuple):
    """A topic of a manifest on one cluster; ``group`` is the number of the group of its spec in ``SpecGroups``.

    ``variant`` is JSON text with the desired and the actual values by field (``partitions``, ``replicationFactor`` and
    ``config.KEY``); a field without a value is left out. The text is empty if nothing is known of the topic.
    """

    topic: str
    manifest: str
    group: int
    variant: str


class SpecGroups:
    """The groups of specs that several clusters share, each with a number: the same in all processes of a run."""

    def __init__(self, specs: Mapping[str, Sequence[TopicSpec]]) -> None:
        self._numbers: dict[SpecGroup, int] = {}
        for each in specs.values():
            for group in each.groups if isinstance(each, ClusterTopicSpecs) else ():
                if not group.is_exclusive:
                    self._numbers.setdefault(group, len(self._numbers))

    def number_of(self, group: SpecGroup) -> int | None:
        """Return the number of a group; None if its manifests are for one cluster only."""
        return self._numbers.get(group)

    def specs_of(self, topic: str) -> Sequence[tuple[int, SpecGroup, TopicSpec]]:
        """Return the specs of a topic, each with its group and the number of the group."""
        return self._specs_by_topic[topic]

    @cached_property
    def _specs_by_topic(self) -> Mapping[str, Sequence[tuple[int, SpecGroup, TopicSpec]]]:
        found: defaultdict[str, list[tuple[int, SpecGroup, TopicSpec]]] = defaultdict(list)
        for group, number in self._numbers.items():
            for spec in group.specs:
                found[spec.topic].append((number, group, spec))
        return found


class _Occurrences:
    """The number of clusters of a variant, and the names of at least the first of them."""

    __slots__ = ("count", "names")

    def __init__(self) -> None:
        self.count = 0
        self.names: list[str] = []

    def add(self, names: Iterable[str], count: int) -> None:
        """Add ``count`` clusters, with the names of the first."""
        self.count += count
        self.names.extend(names)


class SizeCounts(NamedTuple):
    """The clusters on which a topic that is equal to its spec has one size: the first names, and their number."""

    deviation: Deviation
    names: Sequence[str]
    cluster_count: int


class TopicComparer:
    """A comparer of the variants of one topic after the other; ``compared`` are the clusters that were compared."""

    def __init__(self, groups: SpecGroups, compared: Iterable[str]) -> None:
        self._groups = groups
        self._compared = frozenset(compared)
        self._clusters: dict[int, list[str]] = {}

    def find_differences(
        self, topic: str, manifest: str, deviations: Iterable[tuple[str, int, str]], sizes: Iterable[SizeCounts] = ()
    ) -> Iterator[dict[str, Any]]:
        """Yield each field of a topic that differs undesirably, as in ``summary.json``, in order of field.

        ``deviations`` are all deviations of the topic: cluster, group and variant. Deviations of size may be counted in
        ``sizes`` instead. The most frequent value of a field comes first.
        """
        occurrences: defaultdict[str, _Occurrences] = defaultdict(_Occurrences)
        deviating: defaultdict[int, set[str]] = defaultdict(set)
        for cluster, group, variant in deviations:
            deviating[group].add(cluster)
            if variant:
                occurrences[variant].add([cluster], 1)
        for deviation, names, count in sizes:
            occurrences[deviation.variant].add(names, count)
        for number, spec_group, spec in self._groups.specs_of(topic):
            if spec.manifest.full_name == manifest and (variant := _variant_equal_to_spec(spec)):
                others = [name for name in self._clusters_of(number, spec_group) if name not in deviating[number]]
                if others:
                    occurrences[variant].add(others, len(others))
        yield from _differences(topic, manifest, occurrences)

    def _clusters_of(self, number: int, group: SpecGroup) -> list[str]:
        if number not in self._clusters:
            self._clusters[number] = [name for name in group.clusters if name in self._compared]
        return self._clusters[number]


def _differences(topic: str, manifest: str, occurrences: Mapping[str, _Occurrences]) -> Iterator[dict[str, Any]]:
    variants = [(*json.loads(text), found) for text, found in occurrences.items()]
    if all(actual == variants[0][1] for _, actual, _ in variants):
        return
    for field in sorted(set(chain.from_iterable(actual for _, actual, _ in variants))):
        # Only clusters with the same desired value should have the same actual value.
        values: defaultdict[str | None, set[str | None]] = defaultdict(set)
        for desired, actual, _ in variants:
            values[desired.get(field)].add(actual.get(field))
        if any(len(found) > 1 for found in values.values()):
            by_value: defaultdict[str | None, _Occurrences] = defaultdict(_Occurrences)
            for _, actual, found in variants:
                by_value[actual.get(field)].add(found.names, found.count)
            entries: list[dict[str, Any]] = [
                {"value": value, "number": found.count, "clusters": sorted(found.names)[:MAX_SHOWN_CLUSTERS]}
                for value, found in by_value.items()
            ]
            entries.sort(key=lambda one: (-one["number"], one["clusters"]))
            yield {"topic": topic, "manifest": manifest, "field": field, "values": entries}


class DeviationIndex:
    """The deviations of a report, sorted on disk; ``close`` removes its files.

    Clusters must be added in order of name. ``folder`` is the folder for temporary files.
    """

    def __init__(self, groups: SpecGroups, folder: Path | None = None) -> None:
        self._groups = groups
        self._rows = SortedRuns(folder)
        self._sizes: defaultdict[Deviation, _Occurrences] = defaultdict(_Occurrences)

    def close(self) -> None:
        """Remove the temporary files."""
        self._rows.close()

    def add(self, cluster: str, deviations: Iterable[Deviation], sizes: Iterable[Deviation]) -> None:
        """Add the deviations of a cluster; ``sizes`` are those of topics that are equal to their spec."""
        for topic, manifest, group, variant in deviations:
            self._rows.add((topic, manifest, cluster, str(group), variant))
        for deviation in sizes:
            found = self._sizes[deviation]
            found.add([cluster] if found.count < MAX_SHOWN_CLUSTERS else (), 1)

    def differences(self, compared: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Yield the differences of all topics, in order of topic, manifest and field; can be called once."""
        comparer = TopicComparer(self._groups, compared)
        sizes: defaultdict[Row, list[SizeCounts]] = defaultdict(list)
        for deviation, found in self._sizes.items():
            sizes[deviation.topic, deviation.manifest].append(SizeCounts(deviation, found.names, found.count))
        rows = heapq.merge(sorted(sizes), self._rows.rows())
        for (topic, manifest), group in groupby(rows, key=lambda row: row[:2]):
            deviations = [(row[2], int(row[3]), row[4]) for row in group if len(row) > 2]
            yield from comparer.find_differences(topic, manifest, deviations, sizes.pop((topic, manifest), ()))


# The comparison of clusters with each other, without manifests: ``topiarist drift --between``.
#
# Its result is a matrix: a row for each field of each topic, with the value of each cluster.

TOPIC_FIELD = "topic"
"""The field of a row about the topic itself: its value is ``present``, ``unreadable``, or None where it is missing."""


class ValueRow(NamedTuple):
    """The values of one field of a topic by cluster; ``differs`` is false if they are the same for Kafka.

    ``field`` is ``TOPIC_FIELD``, ``partitions``, ``replicationFactor`` or ``config.KEY``. A cluster without a value has
    None; a cluster without a readable topic is in no other row of the topic.
    """

    topic: str
    field: str
    values: Mapping[str, str | None]
    differs: bool


def compare_values(
    states: Mapping[str, ClusterState],
    is_selected: Callable[[str], bool],
    may_lack: Callable[[str, str], bool] = lambda cluster, topic: False,
) -> Iterator[ValueRow]:
    """Yield the fields of all selected topics of any of these clusters, in order of topic.

    The row about the topic itself comes first, and is left out if all clusters have the topic. ``may_lack`` returns
    whether a cluster may have a topic that its state lacks.
    """
    names = {name for state in states.values() for name in (*state.topics, *state.topic_errors)}
    for topic in sorted(name for name in names if is_selected(name)):
        found = {
            name: "unreadable" if may_lack(name, topic) else _describe_presence(state, topic)
            for name, state in states.items()
        }
        if {*found.values()} != {"present"}:
            yield ValueRow(topic, TOPIC_FIELD, found, len({*found.values()}) > 1)
        shapes = {name: _shape_of(state.topics[topic]) for name, state in states.items() if topic in state.topics}
        for field in sorted(set(chain.from_iterable(shapes.values())), key=lambda field: ("." in field, field)):
            values = {name: shape.get(field) for name, shape in shapes.items()}
            yield ValueRow(topic, field, values, _differ(field, [*values.values()]))


def _describe_presence(state: ClusterState, topic: str) -> str | None:
    return "present" if topic in state.topics else "unreadable" if topic in state.topic_errors else None


def _shape_of(topic: TopicState) -> dict[str, str]:
    config = {key: text for key, text in topic.config.items() if key not in THROTTLE_CONFIGS}
    factors = ", ".join(map(str, sorted(find_replication_factors(topic))))
    return _shape(len(topic.replicas), factors, config)


def _differ(field: str, values: Sequence[str | None]) -> bool:
    first, key = values[0], field.removeprefix("config.")
    if first is None or None in values:
        return any(value != first for value in values)
    return not all(is_equivalent(key, first, value) for value in values if value is not None)


def make_comparison(
    names: Sequence[str],
    rows: Sequence[ValueRow],
    shown: Sequence[ValueRow],
    teams: Mapping[str, str] = {},
    unread: Collection[str] = (),
) -> dict[str, Any]:
    """Return the document of a comparison: counts of all rows, and the rows that are shown.

    ``teams`` has who is responsible by topic. ``unread`` are those of the clusters that could not be read.
    """
    differing = [row for row in rows if row.differs]
    return {
        "formatVersion": 1,
        "clusters": [*names],
        "unread": [*unread],
        "topics": len({row.topic for row in rows}),
        "topicsThatDiffer": len({row.topic for row in differing}),
        "valuesThatDiffer": len(differing),
        "values": [{**row._asdict(), "responsible": teams.get(row.topic) or None} for row in shown],
    }


def find_imbalances(cluster: str, loads: Mapping[int, Load], registered: Collection[int]) -> Iterator[dict[str, Any]]:
    """Yield the kinds of load on a cluster that are imbalanced; only registered brokers count.

    A kind is imbalanced if one broker is more than a fifth above the mean of the cluster, by more than one partition.
    """
    for kind in Load._fields:
        numbers = {broker: getattr(load, kind) for broker, load in loads.items() if broker in registered}
        if not numbers:
            continue
        mean = sum(numbers.values()) / len(numbers)
        if max(numbers.values()) > mean * (1 + _IMBALANCE_THRESHOLD) + 1:
            most = max(numbers, key=lambda broker: (numbers[broker], -broker))
            least = min(numbers, key=lambda broker: (numbers[broker], broker))
            yield {
                "cluster": cluster,
                "load": kind,
                "mean": round(mean, 1),
                "most": {"broker": most, "partitions": numbers[most]},
                "least": {"broker": least, "partitions": numbers[least]},
            }


def make_deviation(group: int, spec: TopicSpec, topic: TopicState | None) -> Deviation:
    """Return the deviation of a topic from its spec, without a variant if it does not exist or is declared absent."""
    if topic is None or spec.absent:
        return Deviation(spec.topic, spec.manifest.full_name, group, "")
    return make_deviation_of_size(group, spec, len(topic.replicas), find_replication_factors(topic), topic.config)


def make_deviation_of_size(
    group: int, spec: TopicSpec, partitions: int, factors: Collection[int], config: Mapping[str, str] | None = None
) -> Deviation:
    """Return the deviation of a topic with this size and config; without ``config``, that of the spec."""
    variant = _make_variant(spec, partitions, factors, spec.config if config is None else config)
    return Deviation(spec.topic, spec.manifest.full_name, group, variant)


def _variant_equal_to_spec(spec: TopicSpec) -> str:
    """Return the variant of a topic equal to its spec; empty if the spec is absent or leaves the size open."""
    if spec.absent or spec.partitions is None or spec.replication_factor is None:
        return ""
    return _make_variant(spec, spec.partitions, [spec.replication_factor], spec.config)


def _make_variant(spec: TopicSpec, partitions: int, factors: Collection[int], config: Mapping[str, str]) -> str:
    """Return a variant; throttle configs are left out, because a reassignment sets them for a short time."""
    compared = {key: text for key, text in config.items() if key not in THROTTLE_CONFIGS}
    desired = _shape(spec.partitions, spec.replication_factor, spec.config)
    return _encode_json((desired, _shape(partitions, ", ".join(map(str, sorted(factors))), compared)))


def _shape(partitions: int | None, factor: int | str | None, config: Mapping[str, str]) -> dict[str, str]:
    shape = {_config_field(key): text for key, text in config.items()}
    if partitions is not None:
        shape["partitions"] = str(partitions)
    if factor is not None:
        shape["replicationFactor"] = str(factor)
    return shape


@lru_cache(maxsize=1024)
def _config_field(key: str) -> str:
    return f"config.{key}"  # cached, so that the variants of a fleet share the text
