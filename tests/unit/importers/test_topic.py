"""Parts of all importers: references within a document, JSON in a text, and the comparison with manifests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from topiarist.adapters.manifests.diagnose import parse_texts
from topiarist.adapters.manifests.source import File
from topiarist.desired.shared_specs import merge
from topiarist.importers.topic import Fields, ForeignDocument, ImportedTopic, LeftOut, find_differences
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec


def _parse(text: str) -> ForeignDocument:
    (found,) = parse_texts(File("x.yaml", text.encode()))
    assert isinstance(found, ForeignDocument)
    return found


def _names(left_out: list[LeftOut]) -> list[str]:
    return [f"{each.line}: {each.field}: {each.reason}" for each in left_out]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a: {b: 1}", {"b": "1"}),
        ("x: 1", {}),
        ("a: {$ref: '#/c'}\nc: {b: 1}", {"b": "1"}),
        ("a: {$ref: '#/c/d~1e~01'}\nc: {d/e~1: {b: 2}}", {"b": "2"}),
        ("a: {$ref: '#/c/d%20e'}\nc: {d e: {$ref: '#/f'}}\nf: {b: 3}", {"b": "3"}),
    ],
)
def test_references_in_a_document_are_followed(text: str, found: Mapping[str, str]) -> None:
    """Also with escapes, and through another reference; an absent field is an empty mapping."""
    left_out: list[LeftOut] = []
    fields = Fields(_parse(text), left_out).take_referenced("a")
    assert fields is not None
    assert ({name: fields.take(name) for name in fields}, left_out) == (found, [])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("\na: {$ref: 'b.yaml#/c'}", ["2: a.$ref: in another file: bundle the files first (asyncapi bundle)"]),
        ("a: {$ref: '#/c'}", ["1: a.$ref: it points to nothing in this document"]),
        ("a: {$ref: '#/c/d'}\nc: text", ["1: a.$ref: it points to nothing in this document"]),
        ("a: {$ref: '#/b'}\nb: {$ref: '#/a'}", ["1: a.$ref: it leads back to itself"]),
    ],
)
def test_a_reference_that_leads_nowhere_is_named(text: str, named: list[str]) -> None:
    """The result is no mapping, so that no part of a topic is invented."""
    left_out: list[LeftOut] = []
    assert Fields(_parse(text), left_out).take_referenced("a") is None
    assert _names(left_out) == named


def test_what_stands_beside_a_reference_is_named() -> None:
    """A reference replaces the mapping that it is in."""
    left_out: list[LeftOut] = []
    fields = Fields(_parse("a: {$ref: '#/c', d: 1}\nc: {d: 2}"), left_out).take_referenced("a")
    assert fields is not None
    assert fields.take("d") == "2"
    assert _names(left_out) == ["1: a.d: $ref replaces it"]


@pytest.mark.parametrize(
    ("text", "config", "reasons"),
    [
        ('{"retention.ms": 1.10, "a": 1.10, "b": true, "c": 0, "d": "on"}', {"a": "1.10", "b": "true", "c": "0"}, 1),
        ("", {}, 0),
        ('{"a": 1, "a": 1}', {}, 1),
        ("{", {}, 1),
        ("[]", {}, 1),
        ("[" * 100_000, {}, 1),
        ('{"a": NaN, "b": null}', {"a": "NaN"}, 1),
    ],
)
def test_json_in_a_text_has_scalars_as_texts(text: str, config: dict[str, str], reasons: int) -> None:
    """Numbers keep their digits; a field that is twice, and what is no mapping, is named."""
    left_out: list[LeftOut] = []
    document = ForeignDocument({"configs": text}, "x.json", _parse("a: 1").source)
    found = Fields(document, left_out).take_json("configs").read_config()
    found.pop("d", None)
    assert (found, len(left_out)) == (config, reasons)


PROD = ClusterSpec("prod", default_replication_factor=3)


def _spec(cluster: ClusterSpec = PROD, **spec: Any) -> TopicSpec:
    source = _parse("kind: Topic").source
    return merge(Manifest("Topic", "orders", "", {}, {"clusters": [cluster.name], **spec}, source), cluster)


def _topic(**fields: Any) -> ImportedTopic:
    return ImportedTopic("orders", Fields(_parse("\na: 1"), []), **fields)


@pytest.mark.parametrize(
    ("topic", "spec", "differences"),
    [
        (_topic(), _spec(partitions=3), []),
        (_topic(partitions=3, replication_factor=3), _spec(partitions=3), []),
        (_topic(config={"retention.ms": "604800000"}), _spec(config={"retention.ms": "7d"}), []),
        (_topic(config={"cleanup.policy": "compact,delete"}), _spec(config={"cleanup.policy": "delete, compact"}), []),
        (_topic(partitions=3), _spec(partitions=6), ["partitions is 3, x.yaml:1:1 has 6"]),
        (_topic(partitions=3), _spec(), ["partitions is 3, x.yaml:1:1 has none"]),
        (
            _topic(assignment=[[1, 2], [2, 1]]),
            _spec(partitions=3, replicationFactor=1),
            ["partitions is 2, x.yaml:1:1 has 3", "replicationFactor is 2, x.yaml:1:1 has 1"],
        ),
        (
            _topic(config={"retention.ms": "1", "segment.ms": "2"}),
            _spec(config={"retention.ms": 2}),
            ["retention.ms is 1, x.yaml:1:1 has 2", "segment.ms is 2, x.yaml:1:1 does not set it"],
        ),
        (_topic(partitions=3), _spec(ensure="Absent"), ["x.yaml:1:1 deletes the topic"]),
        (_topic(is_absent=True), _spec(partitions=3), ["x.yaml:1:1 keeps the topic"]),
    ],
)
def test_each_value_of_a_topic_is_compared_with_its_spec(
    topic: ImportedTopic, spec: TopicSpec, differences: list[str]
) -> None:
    """Values with one meaning are equal; the defaults of the cluster count; a value that the topic lacks does not."""
    found = [str(each) for _, each in find_differences([topic], {"prod": [spec]})]
    assert [each.removeprefix("x.yaml:2:1: orders on prod: ") for each in found] == differences


@pytest.mark.parametrize(
    ("cluster", "found"),
    [
        (
            "",
            ["orders on prod: partitions is 3, x.yaml:1:1 has 6", "orders on test: partitions is 3, x.yaml:1:1 has 5"],
        ),
        ("test", ["orders on test: partitions is 3, x.yaml:1:1 has 5"]),
        ("idle", ["orders: found no manifest on idle"]),
        ("east", ["orders: found no manifest on east\n    for a Cluster of another name: --cluster east=NAME"]),
    ],
)
def test_a_topic_is_compared_on_its_cluster_or_on_all(cluster: str, found: list[str]) -> None:
    """A cluster without the topic, and one without a document, is a difference."""
    test = ClusterSpec("test")
    specs = {"prod": [_spec(partitions=6)], "test": [_spec(test, partitions=5)], "idle": []}
    topic = _topic(partitions=3, cluster=cluster)
    assert [str(each).removeprefix("x.yaml:2:1: ") for _, each in find_differences([topic], specs)] == found


def test_manifests_without_clusters_are_compared_by_name() -> None:
    """Without Cluster documents, there is one cluster without a name: that of each topic."""
    specs = {"": [_spec(ClusterSpec(), partitions=6)]}
    (difference,) = find_differences([_topic(partitions=3, cluster="prod")], specs)
    assert difference[1].message == "orders: partitions is 3, x.yaml:1:1 has 6"
