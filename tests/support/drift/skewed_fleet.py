"""Two fleets without drift and with equal numbers of rows and documents: one skewed to a large cluster, one even."""

from __future__ import annotations

from pathlib import Path

from support.drift.drifted_fleet import (
    DriftedFleet,
    cluster_name,
    make_folders,
    manifest_documents,
    snapshot_line,
    topic_name,
    write_documents,
    write_snapshot_lines,
)


def make_skewed_fleet(folder: Path, others: int, size: int) -> DriftedFleet:
    """Write ``others`` clusters of ``size`` topics, and one cluster with all of their topics and as many as all of
    them.
    """
    large = others * size
    clusters = [["some", "more"], *(["some"] for _ in range(others))]
    topics = ["some" if number < size else "more" for number in range(large)]
    return _write_fleet(folder, clusters, topics, [range(large), *(range(size) for _ in range(others))])


def make_even_fleet(folder: Path, others: int, size: int) -> DriftedFleet:
    """Write ``others`` clusters of twice ``size`` topics; pairs of clusters have the same topics."""
    pairs, each = others // 2, 2 * size
    clusters = [[f"part-{number % pairs}"] for number in range(others)]
    topics = [f"part-{number // each}" for number in range(pairs * each)]
    return _write_fleet(
        folder,
        clusters,
        topics,
        [range(number % pairs * each, (number % pairs + 1) * each) for number in range(others)],
    )


def _write_fleet(folder: Path, clusters: list[list[str]], topics: list[str], held: list[range]) -> DriftedFleet:
    """Write clusters with their labels, topics with the selected label, and the snapshot of each cluster."""
    manifests, snapshots = make_folders(folder)
    named = [(cluster_name(number), dict.fromkeys(labels, "yes")) for number, labels in enumerate(clusters)]
    chosen = [(topic_name(number), {label: "yes"}) for number, label in enumerate(topics)]
    write_documents(manifests, manifest_documents(named, chosen))
    for number, numbers in enumerate(held):
        write_snapshot_lines(snapshots, number, (snapshot_line(number, topic) for topic in numbers), [])
    return DriftedFleet(manifests, snapshots, frozenset())
