"""Cross-cluster differences in fleets with more clusters than a report lists."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from support.builders import manifest, replica_lists, topic
from topiarist.desired.resolve import resolve
from topiarist.drift import cross_cluster
from topiarist.drift.cross_cluster import (
    MAX_SHOWN_CLUSTERS,
    Deviation,
    DeviationIndex,
    SortedRuns,
    SpecGroups,
    find_imbalances,
    make_deviation,
)
from topiarist.model.plan import Load
from topiarist.model.spec import ClusterSpec, TopicSpec


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make runs of three rows, and merge each four of them."""
    monkeypatch.setattr(cross_cluster, "_MAX_ROWS_IN_MEMORY", 3)
    monkeypatch.setattr(cross_cluster, "_MAX_RUNS_PER_ROUND", 4)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("number", [0, 1, 3, 11, 12, 700])
def test_rows_come_in_order_from_few_files(number: int, tmp_path: Path) -> None:
    """All rows are read in order, each as often as it was added; files are few and have no name."""
    random = Random(number)
    rows = [(f"{random.randrange(100)}", random.choice("ab")) for _ in range(number)]
    most = 0
    with closing(SortedRuns(tmp_path)) as runs:
        for row in rows:
            runs.add(row)
            most = max(most, runs.open_files)
        assert list(runs.rows()) == sorted(rows)
        assert list(tmp_path.iterdir()) == []
    assert most == {0: 0, 1: 0, 3: 1, 11: 3, 12: 3, 700: 11}[number]
    assert runs.open_files == 0


@pytest.mark.usefixtures("small")
def test_any_text_keeps_its_content_and_place() -> None:
    """Line ends, separators, quotes and characters of any plane are as they were, and sort by their characters."""
    texts = (
        "",
        "a",
        "a\n",
        "a\0b",
        'a"',
        "a!",
        "a\\",
        "a b",
        "\u2028",
        "\x85",
        "\ud800",
        "\U0001f600",
        "\ufffd",
        "\r\n",
        "é",
    )
    with closing(SortedRuns()) as runs:
        for text in texts:
            runs.add((text, "x", text))
        assert list(runs.rows()) == sorted((text, "x", text) for text in texts)


@pytest.mark.usefixtures("small")
def test_a_folder_that_is_gone_is_an_error(tmp_path: Path) -> None:
    """A file that cannot be written is an ``OSError``."""
    with closing(SortedRuns(tmp_path / "gone")) as runs:
        runs.add(("a",))
        runs.add(("b",))
        with pytest.raises(FileNotFoundError):
            runs.add(("c",))


NAMES = [f"cluster-{number:04}" for number in range(1000)]

AS_WANTED, GROWN = topic("orders", replica_lists("12", "23")), topic("orders", replica_lists("12", "23", "31"))


@pytest.fixture(scope="module")
def groups() -> SpecGroups:
    """Return the groups of a fleet with one topic of two partitions on all clusters."""
    wanted = manifest("orders", clusters=NAMES, partitions=2, replicationFactor=2)
    found = resolve([wanted], {name: ClusterSpec(name) for name in NAMES})
    assert not found.errors
    return SpecGroups(found.specs)


@pytest.fixture(scope="module")
def wanted(groups: SpecGroups) -> TopicSpec:
    """Return the spec of the topic."""
    ((number, _, spec),) = groups.specs_of("orders")
    assert number == 0
    return spec


def test_of_many_clusters_all_are_counted_and_the_first_are_named(groups: SpecGroups, wanted: TopicSpec) -> None:
    """Each value counts all its clusters and names the first, also those that are equal to the spec."""
    fleet = DeviationIndex(groups)
    for number, name in enumerate(NAMES):
        if number % 4 in (1, 2):
            fleet.add(name, [make_deviation(0, wanted, GROWN if number % 4 == 1 else AS_WANTED)], [])
    (one,) = fleet.differences(name for number, name in enumerate(NAMES) if number % 4 < 3)
    assert one["values"] == [
        {"value": "2", "number": 500, "clusters": NAMES[::2][:MAX_SHOWN_CLUSTERS]},
        {"value": "3", "number": 250, "clusters": NAMES[1::4][:MAX_SHOWN_CLUSTERS]},
    ]


@pytest.mark.parametrize("others", ["missing", "not compared"])
def test_what_no_cluster_has_is_no_value(groups: SpecGroups, wanted: TopicSpec, others: str) -> None:
    """The values of a spec count on no cluster that lacks the topic or that was not compared."""
    fleet = DeviationIndex(groups)
    fleet.add(NAMES[0], [make_deviation(0, wanted, GROWN)], [])
    for name in NAMES[1:] if others == "missing" else ():
        fleet.add(name, [make_deviation(0, wanted, None)], [])
    assert list(fleet.differences(NAMES if others == "missing" else NAMES[:1])) == []


VARIANTS = [
    Deviation(topic, manifest, 0, json.dumps([{"partitions": desired}, {"partitions": actual, "config.x": "\n"}]))
    for topic in ("a", "a-b", "a.b", "b")
    for manifest in ("a", "n/a", "m")
    for desired in ("2", "3")
    for actual in ("2", "3", "4")
]


def expected(added: Iterable[tuple[str, list[Deviation]]]) -> list[dict[str, Any]]:
    """Return the differences of partitions, found in another way: by all pairs of clusters."""
    actual: defaultdict[tuple[str, str], defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    by_desired: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    for name, deviations in added:
        for each in deviations:
            desired, found = json.loads(each.variant)
            actual[each.topic, each.manifest][found["partitions"]].append(name)
            by_desired[each.topic, each.manifest, desired["partitions"]].add(found["partitions"])
    differing = sorted({key[:2] for key, values in by_desired.items() if len(values) > 1})
    documents = []
    for key in differing:
        values = [
            {"value": value, "number": len(names), "clusters": sorted(names)[:MAX_SHOWN_CLUSTERS]}
            for value, names in actual[key].items()
        ]
        values.sort(key=lambda one: (-len(actual[key][str(one["value"])]), one["clusters"]))
        documents.append({"topic": key[0], "manifest": key[1], "field": "partitions", "values": values})
    return documents


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_same_where_deviations_are(seed: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Differences are the same in memory, on disk, and if each deviation is added in any of the ways."""
    monkeypatch.setattr(cross_cluster, "_MAX_ROWS_IN_MEMORY", 7)
    random = Random(seed)
    added = [(name, random.sample(VARIANTS, random.randint(0, 5))) for name in NAMES[:200]]
    for share in (0.0, 0.5, 1.0):
        with closing(DeviationIndex(SpecGroups({}), tmp_path)) as fleet:
            for name, deviations in added:
                sizes = [each for each in deviations if random.random() < share]
                fleet.add(name, [each for each in deviations if each not in sizes], sizes)
            found = list(fleet.differences(NAMES))
        assert found == expected(added)
    keys = [(one["topic"], one["manifest"], one["field"]) for one in found]
    assert keys == sorted(set(keys))
    assert found


@pytest.mark.parametrize(
    ("numbers", "is_imbalanced"),
    [((13, 10, 7), False), ((14, 9, 7), True), ((10, 10, 10), False), ((2, 1, 0), False), ((3, 0, 0), True)],
)
def test_a_load_is_imbalanced_above_a_fifth_and_one_partition(numbers: tuple[int, ...], is_imbalanced: bool) -> None:
    """One broker must be above the mean by both together; what unregistered brokers hold does not count."""
    loads = {broker: Load(number, 10) for broker, number in enumerate(numbers)} | {9: Load(1000, 1000)}
    found = [*find_imbalances("eu", loads, {0, 1, 2})]
    assert [one["load"] for one in found] == ([Load._fields[0]] if is_imbalanced else [])
