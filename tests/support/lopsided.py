"""Two fleets without drift, of as many rows and documents: one with a cluster far larger than all others, one even."""

from __future__ import annotations

from pathlib import Path

from support.drifted import Sample, cluster_name, documents, folders, line, topic_name, write_documents, write_lines


def skewed(folder: Path, others: int, size: int) -> Sample:
    """``others`` clusters of ``size`` topics, and one that has as many as all of them, theirs among these."""
    large = others * size
    clusters = [["some", "more"], *(["some"] for _ in range(others))]
    topics = ["some" if number < size else "more" for number in range(large)]
    return _write(folder, clusters, topics, [range(large), *(range(size) for _ in range(others))])


def even(folder: Path, others: int, size: int) -> Sample:
    """``others`` clusters of twice ``size`` topics; two at a time have the same ones."""
    pairs, each = others // 2, 2 * size
    clusters = [[f"part-{number % pairs}"] for number in range(others)]
    topics = [f"part-{number // each}" for number in range(pairs * each)]
    return _write(
        folder,
        clusters,
        topics,
        [range(number % pairs * each, (number % pairs + 1) * each) for number in range(others)],
    )


def _write(folder: Path, clusters: list[list[str]], topics: list[str], held: list[range]) -> Sample:
    """Clusters with their labels, topics with the label that they select, and what each cluster holds."""
    manifests, snapshots = folders(folder)
    named = [(cluster_name(number), dict.fromkeys(labels, "yes")) for number, labels in enumerate(clusters)]
    chosen = [(topic_name(number), {label: "yes"}) for number, label in enumerate(topics)]
    write_documents(manifests, documents(named, chosen))
    for number, numbers in enumerate(held):
        write_lines(snapshots, number, (line(number, topic) for topic in numbers), [])
    return Sample(manifests, snapshots, frozenset())
