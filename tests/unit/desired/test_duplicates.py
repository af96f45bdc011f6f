"""Duplicate documents and topics that collide: one error for each, with both places and what to do."""

from __future__ import annotations

import pytest

from support.states import PositionedSource, spec
from topiarist.desired.shared_specs import duplicate_document_errors, index_clusters, topic_collision_errors
from topiarist.errors import Diagnostic, FieldPath, Location, Reason
from topiarist.model.spec import ClusterSpec, TopicSpec

NAMES: dict[FieldPath, tuple[int, int]] = {("metadata", "name"): (3, 5), ("spec", "topicName"): (6, 7)}
PROD = ClusterSpec("prod")


def declared(name: str, on: ClusterSpec = PROD, **fields: str) -> TopicSpec:
    """Return the spec of a document; its names have a line of their own."""
    return spec(name, on, positions=NAMES, **fields)


def test_a_second_document_of_a_name_is_an_error_at_its_name() -> None:
    """The later document has the error, and the earlier one is named with its place; a third one has its own."""
    first = declared("a").manifest
    others = [first._replace(source=PositionedSource(file, NAMES)) for file in ("b.yaml", "c.yaml")]
    assert duplicate_document_errors([first, *others]) == [
        Diagnostic(
            Location(file, 3, 5),
            "Topic a: another Topic has the same name, at topics/a.yaml:3:5",
            "rename one of them, or remove it",
            Reason.NAME_COLLISION.value,
        )
        for file in ("b.yaml", "c.yaml")
    ]
    assert duplicate_document_errors([first, first._replace(namespace="x"), first._replace(name="b")]) == []


def test_a_second_cluster_of_a_name_is_an_error_at_its_name() -> None:
    """The first Cluster is used."""
    one, two = (ClusterSpec("prod", source=PositionedSource(file, NAMES)) for file in ("a.yaml", "b.yaml"))
    found, (error,) = index_clusters([one, two])
    assert found["prod"] is one
    assert error == Diagnostic(
        Location("b.yaml", 3, 5),
        "Cluster prod: another Cluster has the same name, at a.yaml:3:5",
        "rename one of them, or remove it",
        Reason.NAME_COLLISION.value,
    )


@pytest.mark.parametrize(("on", "words"), [(PROD, "on cluster prod"), (ClusterSpec(), "on the cluster")])
def test_two_topics_collide_where_their_names_stand(on: ClusterSpec, words: str) -> None:
    """One topic of two documents, and two topics with one metric name, are an error at the name of the later one."""
    first, again, other = declared("a.b", on), declared("x", on, topicName="a.b"), declared("a_b", on)
    assert topic_collision_errors([first, again, other]) == [
        Diagnostic(
            Location("topics/x.yaml", 6, 7),
            f"a.b: also declared {words} at topics/a.b.yaml:3:5",
            "keep one of the two documents",
            Reason.NAME_COLLISION.value,
        ),
        Diagnostic(
            Location("topics/a_b.yaml", 3, 5),
            f"a_b: collides {words} with a.b at topics/a.b.yaml:3:5",
            "rename one: Kafka does not distinguish . and _ in metric names, and refuses the second topic",
            Reason.NAME_COLLISION.value,
        ),
    ]
    assert topic_collision_errors([first, first, declared("b", on)]) == []
