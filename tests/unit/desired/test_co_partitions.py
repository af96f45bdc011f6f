"""Topics of one ``coPartitionGroup``: the manifests ask for equal numbers of partitions on each cluster."""

from __future__ import annotations

from typing import Any

from support.builders import cluster, manifest
from topiarist.desired.resolve import resolve
from topiarist.model.spec import ClusterSpec, Manifest

EU, US = cluster("eu"), cluster("us")


def _topic(name: str, partitions: int, *clusters: str, **fields: Any) -> Manifest:
    """Return a topic of the group ``join``."""
    given: dict[str, Any] = {"partitions": partitions, "coPartitionGroup": "join", **fields}
    return manifest(name, replicationFactor=1, clusters=[*clusters], **given)


def _errors(*topics: Manifest) -> list[str]:
    """Return the place and message of each error about numbers that differ."""
    found = resolve(topics, {"eu": EU, "us": US}).errors
    assert all(each.hint.startswith("give all topics of the group the same number") for each in found)
    return [f"{each.location}: {each.message}" for each in found]


def test_a_topic_with_another_number_is_an_error() -> None:
    """The first topic by name gives the number, whatever the order of the documents; the error has both places."""
    topics = (_topic("c", 3, "eu"), _topic("b", 4, "eu"), _topic("a", 3, "eu"))
    place, first = (topics[at].source.locate(("spec", "partitions")) for at in (1, 2))
    expected = (
        f"{place}: b: found 4 partitions on cluster eu, wanted 3 as for a at {first}: both are in coPartitionGroup join"
    )
    assert _errors(*topics) == [expected]
    assert _errors(*topics[::-1]) == [expected]


def test_each_cluster_counts_by_itself() -> None:
    """Numbers may differ between clusters, and each cluster with a difference has its own error."""
    assert _errors(_topic("a", 3, "eu"), _topic("b", 4, "us")) == []
    found = _errors(_topic("a", 3, "eu", "us"), _topic("b", 4, "us", "eu"))
    assert [each.partition(", wanted")[0].partition(" on ")[2] for each in found] == ["cluster eu", "cluster us"]


def test_topics_that_do_not_count() -> None:
    """Other groups, topics without a group, and topics to be absent do not count."""
    others = (
        _topic("b", 4, "eu", coPartitionGroup="other"),
        manifest("c", partitions=5, replicationFactor=1, clusters=["eu"]),
        _topic("d", 6, "eu", ensure="Absent"),
    )
    assert _errors(_topic("a", 3, "eu"), *others) == []


def test_explicit_lists_count_too() -> None:
    """The place of a number that follows from ``replicaAssignment`` is that field."""
    listed = manifest("b", replicaAssignment=[[1], [2]], clusters=["eu"], coPartitionGroup="join")
    (error,) = _errors(_topic("a", 3, "eu"), listed)
    assert error.startswith(f"{listed.source.locate(('spec', 'replicaAssignment'))}: b: found 2 partitions")


def test_the_unnamed_cluster_has_no_name_in_an_error() -> None:
    """With only an address the error names no cluster."""
    topics = [manifest(name, partitions=size, coPartitionGroup="join") for name, size in (("a", 3), ("b", 4))]
    found = [each.message for each in resolve(topics, {"": ClusterSpec(default_replication_factor=1)}).errors]
    first = topics[0].source.locate(("spec", "partitions"))
    assert found == [f"b: found 4 partitions, wanted 3 as for a at {first}: both are in coPartitionGroup join"]
