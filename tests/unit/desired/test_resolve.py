"""Assignment of topics to clusters, and errors across all manifests."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import PositionedSource, cluster, manifest, spec
from topiarist.desired.resolve import (
    Desired,
    TopicSelection,
    parse_label_selector,
    resolve,
    select_with_groups,
    unknown_cluster_hint,
)
from topiarist.desired.shared_specs import index_clusters
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec

SIZE: dict[str, Any] = {"partitions": 1, "replicationFactor": 1}
PROD = cluster("prod", labels={"env": "prod"})
TEST = cluster("test", labels={"env": "test"})
BOTH = {"prod": PROD, "test": TEST}
UNNAMED = {"": ClusterSpec()}


def topic(name: str, namespace: str = "", **fields: Any) -> Manifest:
    """Return a valid topic."""
    return manifest(name, namespace, **SIZE, **fields)


def names(found: Desired) -> dict[str, list[str]]:
    """Return the topics of each cluster."""
    return {name: [spec.topic for spec in specs] for name, specs in found.specs.items()}


def said(found: Desired) -> list[str]:
    """Return the messages of all errors."""
    return [diagnostic.message for diagnostic in found.errors]


def warned(found: Desired) -> list[str]:
    """Return the messages of all warnings."""
    return [diagnostic.message for diagnostic in found.warnings]


# the cluster fields of the topic -> the selected clusters
MEANT: dict[str, tuple[dict[str, Any], list[str]]] = {
    "one": ({"clusters": ["prod"]}, ["prod"]),
    "both": ({"clusters": ["test", "prod"]}, ["prod", "test"]),
    "by label": ({"clusterSelector": {"matchLabels": {"env": "test"}}}, ["test"]),
    "by no label": ({"clusterSelector": {"matchLabels": {}}}, []),
    "by another label": ({"clusterSelector": {"matchLabels": {"env": "dev"}}}, []),
    "none": ({"clusters": []}, []),
}


@pytest.mark.parametrize("case", MEANT.values(), ids=MEANT.keys())
def test_topics_find_their_clusters(case: tuple[dict[str, Any], list[str]]) -> None:
    """Topics select clusters by name or by label; a topic that selects no cluster is counted and is no error."""
    fields, wanted = case
    found = resolve([topic("orders", **fields)], BOTH)
    assert [name for name, topics in names(found).items() if topics] == wanted
    assert (said(found), found.skipped_count) == ([], 0 if wanted else 1)


def test_a_topic_that_names_no_cluster() -> None:
    """A topic without a cluster belongs to the only cluster of the run.

    With several clusters it is an error that lists them.
    """
    assert names(resolve([topic("orders")], {"prod": PROD})) == {"prod": ["orders"]}
    assert names(resolve([topic("orders")], BOTH, only_cluster="test")) == {"test": ["orders"]}
    assert names(resolve([topic("orders")], UNNAMED)) == {"": ["orders"]}
    assert said(resolve([topic("orders")], BOTH)) == ["orders: names no cluster, and the run has 2: prod, test"]
    fleet = {name: ClusterSpec(name) for name in (f"c{number:03}" for number in range(300))}
    shown = ", ".join([*fleet][:10])
    assert said(resolve([topic("orders")], fleet)) == [
        f"orders: names no cluster, and the run has 300: {shown} and 290 more"
    ]


def test_narrowing_to_one_cluster() -> None:
    """Topics of other clusters are skipped and counted, also those of unknown clusters."""
    topics = [topic("a", clusters=["prod"]), topic("b", clusters=["test"]), topic("c", clusters=["nowhere"])]
    found = resolve(topics, BOTH, only_cluster="test")
    assert (names(found), found.skipped_count, said(found)) == ({"test": ["b"]}, 2, [])


def test_a_cluster_without_a_document() -> None:
    """A name without a Cluster document is an error at its location if documents are required.

    Otherwise there is one warning for each cluster.
    """
    topics = [topic("a", clusters=["prod", "tset"]), topic("b", clusters=["tset"])]
    strict = resolve(topics, BOTH)
    assert said(strict) == ["a: there is no Cluster tset", "b: there is no Cluster tset"]
    hint = "did you mean test? The clusters of this run are: prod, test"
    assert [diagnostic.hint for diagnostic in strict.errors] == [hint, hint]
    lenient = resolve(topics, BOTH, require_cluster_documents=False, unchecked_parts="defaults and policies")
    assert (said(lenient), names(lenient)) == ([], {"prod": ["a"], "test": []})
    assert warned(lenient) == ["cluster tset: no document here, so 2 topics checked without defaults and policies"]
    assert lenient.warnings[0].location == topics[0].source.locate(("spec", "clusters", 1))
    assert lenient.warnings[0].hint == hint


def test_an_address_alone() -> None:
    """With only an address, topics with a cluster name are errors; ``validate`` counts them in warnings."""
    topics = [topic("a", clusters=["prod"]), topic("b", clusterSelector={"matchLabels": {"x": "y"}}), topic("c")]
    assert len(said(resolve(topics, UNNAMED))) == 2
    lenient = resolve(topics, UNNAMED, require_cluster_documents=False)
    assert said(lenient) == []
    assert warned(lenient) == [
        "cluster prod: no document here, so 1 topic checked without defaults",
        "clusters chosen by label: no document here, so 1 topic checked without defaults",
    ]
    assert {diagnostic.hint for diagnostic in lenient.warnings} == {
        "add the Cluster document to the paths, or give it with --clusters or --platform"
    }
    assert names(lenient) == {"": ["c"]}


@pytest.mark.parametrize("clusters", [UNNAMED, BOTH])
def test_what_needs_no_document_is_judged_without_it(clusters: dict[str, ClusterSpec]) -> None:
    """Values, names and duplicates are checked without the Cluster document.

    Anything that the document could make valid is not checked.
    """
    topics = [
        manifest("a", clusters=["nowhere"], config={"retention.ms": "x", "my.own": 1}),
        manifest("b", clusters=["nowhere"], topicName="a"),
        manifest("c", clusterSelector={"matchLabels": {"x": "y"}}, topicName="d"),
    ]
    found = said(resolve(topics, clusters, require_cluster_documents=False))
    assert sorted(message.split(":")[0] for message in found) == ["a", "retention.ms"]


def test_two_documents_of_one_name() -> None:
    """Two documents of one kind, namespace and name are one error, at the later one.

    Documents of other namespaces may have the same name.
    """
    first, later = topic("a"), topic("a")._replace(source=PositionedSource("later.yaml"))
    (error,) = resolve([first, later], {"prod": PROD}).errors
    assert error.location.file == "later.yaml"
    spaces = resolve([topic("a", "one", topicName="x"), topic("a", "two", topicName="y")], {"prod": PROD})
    assert said(spaces) == []


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("clusters", [{"test": TEST}, BOTH, UNNAMED])
def test_a_broken_document_is_no_missing_one(clusters: dict[str, ClusterSpec], strict: bool) -> None:
    """Topics of a cluster with an invalid document get no error for the document or for its possible defaults."""
    topics = [manifest("a", clusters=["broken"]), manifest("b"), manifest("c", clusters=["broken"], config={"x": 1})]
    assert said(resolve(topics, clusters, require_cluster_documents=strict, invalid_clusters={"broken"})) == []
    # Without a cluster, a topic may be meant for the broken one.
    meant: list[dict[str, Any]] = [{"clusters": ["broken"]}, {}]
    for fields in meant:
        wrong = [manifest("a", config={"retention.ms": "soon"}, **fields)]
        found = resolve(wrong, clusters, require_cluster_documents=strict, invalid_clusters={"broken"})
        assert [text.split(":")[0] for text in said(found)] == ["retention.ms"]


def test_other_names_are_still_missed_beside_a_broken_document() -> None:
    """Only the name of the invalid document is excluded from the check for missing clusters."""
    found = resolve([topic("a", clusters=["broken", "gone"])], {"test": TEST}, invalid_clusters={"broken"})
    assert said(found) == ["a: there is no Cluster gone"]


def test_keys_left_out_in_vain() -> None:
    """A ``withoutConfig`` key that is no default of any selected cluster gives a warning.

    An unnamed cluster gives none.
    """
    with_default = cluster("prod", default_config={"segment.ms": "5"})
    clusters = {"prod": with_default, "test": TEST}
    wanted = topic("a", clusters=["prod", "test"], withoutConfig=["segment.ms", "flush.ms"])
    other = topic("b", clusters=["test"], withoutConfig=["segment.ms"])
    found = resolve([wanted, other], clusters)
    assert [
        (str(diagnostic.location).split(":")[0], diagnostic.message.split(":")[0]) for diagnostic in found.warnings
    ] == [
        ("topics/a.yaml", "flush.ms"),
        ("topics/b.yaml", "segment.ms"),
    ]
    assert (found.errors, resolve([topic("a", withoutConfig=["flush.ms"])], UNNAMED).warnings) == ((), ())


# the cluster fields of the topic, the clusters of the run -> the positions of the overrides without effect, the reason
OVERRIDES: dict[str, tuple[dict[str, Any], dict[str, ClusterSpec], list[int], str]] = {
    "one of its clusters": ({"clusters": ["test"]}, BOTH, [0], "the topic is not meant for it"),
    "all of them": ({"clusters": ["prod", "test"]}, BOTH, [], ""),
    "by label": ({"clusterSelector": {"matchLabels": {"env": "test"}}}, BOTH, [], ""),
    "the only cluster": ({}, {"prod": PROD}, [], ""),
    "an address": ({}, UNNAMED, [0, 1], "the run has only the address of an unnamed cluster"),
}


@pytest.mark.parametrize(("fields", "clusters", "positions", "reason"), OVERRIDES.values(), ids=OVERRIDES)
def test_an_override_in_vain(
    fields: dict[str, Any], clusters: dict[str, ClusterSpec], positions: list[int], reason: str
) -> None:
    """An override for a cluster that the topic does not name gives a warning at the name in the override."""
    wanted = topic("a", **fields, overrides=[{"config": {}}, {"clusters": ["prod", "test"], "partitions": 2}])
    found = resolve([wanted], clusters).warnings
    assert [(each.location, each.message) for each in found] == [
        (
            wanted.source.locate(("spec", "overrides", 1, "clusters", position)),
            f"a: the override for cluster {['prod', 'test'][position]} has no effect: {reason}",
        )
        for position in positions
    ]
    own = fields.get("clusters")
    assert {each.hint for each in found} <= {f"the topic's clusters are: {', '.join(own)}" if own else ""}


def test_a_run_connects_only_to_clusters_with_topics() -> None:
    """A cluster without a topic is not targeted."""
    assert resolve([topic("a", clusters=["test"])], BOTH).targeted_clusters == {"test": TEST}


def test_everything_wrong_at_once_and_in_order() -> None:
    """Errors of all topics and clusters are sorted by location, without duplicates from a shared document."""
    bad = cluster("prod", default_config={"retention.ms": "x"})
    topics = [topic("b", clusters=["prod", "test"], config={"segment.ms": "y"}), topic("a", config={"flush.ms": "z"})]
    found = resolve(topics, {"prod": bad, "test": TEST})
    assert [diagnostic.location.file for diagnostic in found.errors] == ["prod.yaml", "topics/a.yaml", "topics/b.yaml"]


def test_warnings_stop_nothing() -> None:
    """A deprecated key gives one warning for all clusters and no error."""
    old = topic("a", clusters=["prod", "test"], config={"message.format.version": "2.8"})
    found = resolve([old], BOTH)
    assert (said(found), len(found.warnings)) == ([], 1)


def test_specs_are_sorted() -> None:
    """Specs are sorted by topic name, for any order of files."""
    found = resolve([topic("b"), topic("c", topicName="a"), topic("d")], {"prod": PROD})
    assert names(found) == {"prod": ["a", "b", "d"]}


# the topic, the clusters of the run -> the place of the error, the start of the message, the hint
PLACED: dict[str, tuple[Manifest, dict[str, ClusterSpec], tuple[str | int, ...], str, str]] = {
    "no cluster": (
        topic("a"),
        BOTH,
        ("metadata", "name"),
        "a: names no cluster, and the run has 2",
        "add clusters: [...] or a clusterSelector, or run with --cluster",
    ),
    "an address and a name": (
        topic("a", clusters=["prod"]),
        UNNAMED,
        ("spec", "clusters"),
        "a: names cluster prod, but the run has only the address of an unnamed cluster",
        "add the Cluster document to the paths, or give it with --clusters",
    ),
    "an address and a label": (
        topic("a", clusterSelector={"matchLabels": {"x": "y"}}),
        UNNAMED,
        ("spec", "clusterSelector"),
        "a: names a clusterSelector, but the run has only the address of an unnamed cluster",
        "add the Cluster document to the paths, or give it with --clusters",
    ),
    "no document": (
        topic("a", clusters=["prod", "elsewhere"]),
        {"prod": PROD},
        ("spec", "clusters", 1),
        "a: there is no Cluster elsewhere",
        "the clusters of this run are: prod",
    ),
}


@pytest.mark.parametrize(("wanted", "clusters", "path", "message", "hint"), PLACED.values(), ids=PLACED)
def test_an_error_of_a_target_has_its_place_and_what_to_do(
    wanted: Manifest, clusters: dict[str, ClusterSpec], path: tuple[str | int, ...], message: str, hint: str
) -> None:
    """A topic without a target is an error at the field that names the target, or at its name if it has none."""
    positions = {("metadata", "name"): (3, 3), ("spec", "clusterSelector"): (7, 3), ("spec", "clusters"): (8, 3)}
    source = PositionedSource("a.yaml", positions | {("spec", "clusters", 1): (9, 3)})
    (error,) = resolve([wanted._replace(source=source)], clusters).errors
    assert error.location == source.locate(path)
    assert error.location.line > 1
    assert (error.message.startswith(message), error.hint) == (True, hint)


@pytest.mark.parametrize(
    ("fields", "strict", "skipped"),
    [
        ({"clusters": []}, True, 1),
        ({"clusters": []}, False, 1),
        ({"clusters": ["gone"]}, False, 0),
        ({"clusters": ["prod"]}, False, 0),
        ({"clusters": ["prod", "gone"]}, False, 0),
    ],
)
def test_only_a_topic_for_no_cluster_is_skipped(fields: dict[str, Any], strict: bool, skipped: int) -> None:
    """A topic of a cluster without a document is checked, so that it does not count as skipped."""
    assert resolve([topic("a", **fields)], BOTH, require_cluster_documents=strict).skipped_count == skipped


@pytest.mark.parametrize(
    ("name", "count", "hint"),
    [
        ("x", 0, "add the Cluster document to the paths, or give it with --clusters or --platform"),
        ("x", 1, "the clusters of this run are: long-name-0"),
        ("x", 10, ", long-name-9"),
        ("x", 11, ", long-name-8 and 1 more"),
        ("long-name", 1, "did you mean long-name-0? The clusters of this run are: long-name-0"),
    ],
)
def test_the_hint_for_an_unknown_cluster(name: str, count: int, hint: str) -> None:
    """The hint has a similar name, and up to ten clusters in order; the unnamed cluster is no cluster to name."""
    found = unknown_cluster_hint(name, ["", *(f"long-name-{number}" for number in range(count))])
    assert found.endswith(hint)
    assert found.startswith(hint) or count >= 10


def test_the_validated_topics_are_counted_once() -> None:
    """A topic counts once for all its clusters, also if one of them has no document."""
    topics = [topic("a", clusters=["prod", "test"]), topic("b", clusters=["gone"]), topic("c", clusters=["prod"])]
    assert resolve(topics, BOTH, require_cluster_documents=False).validated_count == 3
    assert resolve(topics, BOTH, require_cluster_documents=False, only_cluster="prod").validated_count == 3
    for none in (resolve([], BOTH), Desired({}, {})):
        assert (none.validated_count, none.skipped_count) == (0, 0)


def test_clusters_of_one_name_without_a_place() -> None:
    """A second Cluster that no document gives is no error, since no document can be corrected."""
    first, second = cluster("prod"), ClusterSpec("prod")
    for pair in ([first, second], [second, first], [second, ClusterSpec("prod")], [first, first]):
        found, errors = index_clusters(pair)
        assert (found["prod"] is pair[0], errors) == (True, [])


def test_topics_with_one_selector_may_name_other_clusters_beside_it() -> None:
    """A topic is meant for the clusters that it names and for those that its labels select."""
    selector = {"matchLabels": {"env": "test"}}
    for wanted in ([topic("a", clusters=["prod"]), topic("b")], [topic("b"), topic("a", clusters=["prod"])]):
        topics = [each._replace(spec={**each.spec, "clusterSelector": selector}) for each in wanted]
        assert names(resolve(topics, BOTH)) == {"prod": ["a"], "test": ["a", "b"]}


# Topics of one ``coPartitionGroup``: the manifests ask for equal numbers of partitions on each cluster.

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


# Selections of topics, by patterns of names and by labels.


def labelled(name: str, **labels: str) -> TopicSpec:
    """Return a spec with these labels in its manifest."""
    made = spec(name)
    return replace(made, manifest=made.manifest._replace(labels=labels))


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("", ["a", "b", "c"]),
        ("team=shop", ["a"]),
        ("team==shop", ["a"]),
        ("team!=shop", ["b", "c"]),
        ("team", ["a", "b"]),
        ("!team", ["c"]),
        ("team!=shop, team", ["b"]),
        ("team=shop,team=ads", []),
        ("tier=", ["b"]),
    ],
)
def test_labels_select_as_kubectl_does(selector: str, selected: list[str]) -> None:
    """All requirements must be met; another value and a missing label both differ from a value."""
    labels: dict[str, dict[str, str]] = {"a": {"team": "shop"}, "b": {"team": "ads", "tier": ""}, "c": {}}
    selection = TopicSelection(requirements=parse_label_selector(selector))
    assert [name for name in labels if selection.matches(labelled(name, **labels[name]))] == selected


def test_names_and_labels_must_both_match() -> None:
    """One of the patterns, and all requirements."""
    selection = TopicSelection(("orders.*", "clicks"), parse_label_selector("team=shop"))
    assert selection.matches(labelled("orders.eu", team="shop"))
    assert selection.matches(labelled("clicks", team="shop"))
    assert not selection.matches(labelled("orders.eu"))
    assert not selection.matches(labelled("users", team="shop"))


@pytest.mark.parametrize("text", [",", "=shop", "team=a=b", "team in (a,b)", "team=shop,", "te am", "team>1"])
def test_other_text_is_an_error(text: str) -> None:
    """The message has the found part and the forms that are wanted."""
    with pytest.raises(ValueError, match="wanted KEY=VALUE, KEY!=VALUE, KEY or !KEY, with commas between"):
        parse_label_selector(text)


def test_a_selected_topic_selects_its_co_partition_group() -> None:
    """The topics of a group grow together or not at all; topics without a group are no group."""
    specs = [
        spec("a", partitions=3, coPartitionGroup="join"),
        spec("b"),
        spec("c", partitions=3, coPartitionGroup="join"),
        spec("d"),
    ]
    for pattern, names in (("a", ["a", "c"]), ("b", ["b"]), ("x", [])):
        selection = TopicSelection((pattern,))
        assert [each.topic for each in select_with_groups(selection, specs)] == names
