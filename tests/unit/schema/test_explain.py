"""Schema validation: accepted documents, explanations of errors, and agreement between validator and explanations."""

from __future__ import annotations

import copy
import io
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.builders import document
from topiarist.adapters.manifests.loader import load_manifests
from topiarist.errors import FieldKey, Location
from topiarist.errors import FieldPath as DocumentPath
from topiarist.model import spec as spec_
from topiarist.schema import check, explain, load
from topiarist.schema.explain import find_schema


def cluster(**spec: Any) -> dict[str, Any]:
    """Return a valid cluster with these fields."""
    return document(**spec) | {"kind": "Cluster", "metadata": {"name": "prod-eu", "labels": {"env": "prod"}}}


NAMES = 'wanted only a-z, A-Z, 0-9, ".", "_" and "-"'

TEMPLATE = "this looks like a template (%s): render it first (helm template, jikkou, envsubst, terraform)"
LOOKALIKE = "it has a non-breaking space (U+00A0): write a plain one, or none"


class Nowhere:
    """The source of documents without a file."""

    def locate(self, path: DocumentPath = ()) -> Location:
        """Return a location that names the requested path."""
        return Location(f"nowhere, {explain.format_path(path)}")


FULL_TOPIC = document(
    topicName="orders.v1",
    clusters=["prod-eu", "prod-us"],
    partitions=12,
    replicationFactor=3,
    config={"retention.ms": 604800000, "cleanup.policy": "compact", "preallocate": False, "x": Decimal("0.50")},
    unmanagedConfig="Keep",
    ensure="Present",
    deletionPolicy="Retain",
    mode="Enforce",
    withoutConfig=["min.insync.replicas"],
    ignore=["partitions", "replicationFactor", "replicaAssignment", "config.retention.ms"],
    overrides=[
        {"clusters": ["prod-eu"], "partitions": 48},
        {"clusterSelector": {"matchLabels": {"env": "prod"}}, "replicaAssignment": [[1, 2], [2, 1]], "mode": "Observe"},
    ],
)
FULL_CLUSTER = cluster(
    zookeeper={"connect": "zk1:2181,zk2:2181,[::1]:2181/kafka/a", "maxBuffer": 4194304},
    clusterId="7sYk...",
    kafkaVersion="3.9",
    rackAwareness="Safe",
    defaults={"partitions": 6, "replicationFactor": 3, "config": {"min.insync.replicas": 2}},
    brokerConfig={"log.retention.ms": "-1"},
    allowUnknownConfigs=["confluent.*"],
    excludeBrokers=[7],
    protected=["__*", "connect-*"],
    budgets={
        "topics": 1,
        "newPartitions": 2,
        "partitionsPerTopic": 3,
        "deletions": 0,
        "changedShare": "20%",
        "notifications": 5,
    },
    allowedTopics=[
        {},
        {
            "namespaces": {
                "from": "Selector",
                "selector": {
                    "matchLabels": {"env": "prod"},
                    "matchExpressions": [
                        {"key": "example.com/team", "operator": "NotIn", "values": ["shop", ""]},
                        {"key": "team", "operator": "Exists"},
                    ],
                },
            },
            "names": ["shop.*", "orders"],
        },
    ],
    adopt=["shop.*"],
    allowRisk=["Disruptive", "DataLoss"],
    allowDeletion=True,
    driftPolicy="Correct",
)


@pytest.mark.parametrize(
    "body",
    [
        document(),
        FULL_TOPIC,
        cluster(),
        FULL_CLUSTER,
        document(clusterSelector={}),
        document(replicaAssignment=[[0]]),
        document(replicaAssignment="0"),
        document(replicaAssignment="0:1:2, 0:1:2", partitions=2, replicationFactor=3),
        document() | {"status": {"anything": [1]}},
        document() | {"metadata": {"name": "a", "uid": "x", "managedFields": [{}], "annotations": {"a b": "c\nd"}}},
    ],
)
def test_accepts_every_field(body: dict[str, Any]) -> None:
    """Every field of the reference is accepted, alone and together; metadata accepts all fields of Kubernetes."""
    assert check.check(body) == []


@pytest.mark.parametrize(
    ("body", "path", "message", "hint"),
    [
        (
            document(partitions="12"),
            ("spec", "partitions"),
            'found "12", wanted a whole number from 1 to 2147483647',
            "leave the quotes out: 12",
        ),
        (document(partitions=0), ("spec", "partitions"), "found 0, wanted a whole number from 1 to 2147483647", ""),
        (
            document(partitions=True),
            ("spec", "partitions"),
            "found true, wanted a whole number from 1 to 2147483647",
            "",
        ),
        (
            document(replicationFactor=Decimal("3.0")),
            ("spec", "replicationFactor"),
            "found 3.0, wanted a whole number from 1 to 32767",
            "",
        ),
        (
            document(replicationFactor=32768),
            ("spec", "replicationFactor"),
            "found 32768, wanted a whole number from 1 to 32767",
            "",
        ),
        (document(partition=1), ("spec", "partition"), "found an unknown field", "did you mean partitions?"),
        (document(Config={}), ("spec", "Config"), "found an unknown field", "did you mean config?"),
        (document() | {"partitions": 1}, ("partitions",), "found an unknown field", "move it below spec:"),
        (
            document(ensure="absent"),
            ("spec", "ensure"),
            'found "absent", wanted Present or Absent',
            "did you mean Absent?",
        ),
        (document(clusters="prod"), ("spec", "clusters"), 'found "prod", wanted a list', "write [prod]"),
        (document(clusters="-eu -us"), ("spec", "clusters"), 'found "-eu -us", wanted a list', "write [eu, us]"),
        (document(clusters="eu, us"), ("spec", "clusters"), 'found "eu, us", wanted a list', "write [eu, us]"),
        (document(clusters="(eu)"), ("spec", "clusters"), 'found "(eu)", wanted a list', ""),
        (document(clusters=5), ("spec", "clusters"), "found 5, wanted a list", 'write ["5"]'),
        (document(clusters="on"), ("spec", "clusters"), 'found "on", wanted a list', 'write ["on"]'),
        (document(overrides="eu"), ("spec", "overrides"), 'found "eu", wanted a list', ""),
        (cluster(brokers="b1:9092"), ("spec", "brokers"), None, "move it below kafka: as bootstrapServers"),
        (cluster(replicas=3), ("spec", "replicas"), None, "move it below defaults: as replicationFactor"),
        (
            cluster(retentionStep={"share": "150%"}),
            ("spec", "retentionStep", "share"),
            'found "150%", wanted 1% to 99%, without a fraction',
            "",
        ),
        (cluster(protected="*"), ("spec", "protected"), 'found "*", wanted a list', 'write ["*"]'),
        (cluster(drainBrokers="1,2"), ("spec", "drainBrokers"), 'found "1,2", wanted a list', "write [1, 2]"),
        (document(partitions="-1"), ("spec", "partitions"), None, ""),
        (document(partitions="99999999999"), ("spec", "partitions"), None, ""),
        (document(replicaAssignment=-1), ("spec", "replicaAssignment"), "found -1, wanted a list or text", ""),
        (document(partitions="${P}"), ("spec", "partitions"), None, TEMPLATE % "${"),
        (document(topicName="{{ x }}"), ("spec", "topicName"), None, TEMPLATE % "{{"),
        (document(clusters=["$CLUSTER"]), ("spec", "clusters", 0), None, TEMPLATE % "$"),
        (document() | {"metadata": {"name": "{{ x }}"}}, ("metadata", "name"), None, TEMPLATE % "{{"),
        (document(config="retention.ms=7d"), ("spec", "config"), None, "write retention.ms: 7d"),
        (document(config="retention.ms=7d,cleanup.policy=compact"), ("spec", "config"), None, ""),
        (document(config={"cleanup.policy": ["a"]}), ("spec", "config", "cleanup.policy"), None, ""),
        (document() | {"spec": "partitions:\u00a03"}, ("spec",), None, LOOKALIKE),
        (document(partitions="3\u00a0"), ("spec", "partitions"), None, LOOKALIKE),
        (document() | {"spec": {"partitions\u00a0": 3}}, ("spec", "partitions\u00a0"), None, LOOKALIKE),
        (document(clusters=[]), ("spec", "clusters"), "found nothing in it, wanted at least 1 item", ""),
        (
            document(clusters=["a", "b", "a"]),
            ("spec", "clusters", 2),
            'found "a" a second time, wanted each item once',
            "",
        ),
        (
            document(clusters=["a"], clusterSelector={}),
            ("spec", "clusters"),
            "found together with clusterSelector, wanted only one of the two",
            "",
        ),
        (
            document(replicaAssignment="1:2;2:3"),
            ("spec", "replicaAssignment"),
            'found "1:2;2:3", wanted broker ids, a colon between replicas and a comma between partitions, as in '
            '"1:2:3,2:3:1"',
            "",
        ),
        (
            document(replicaAssignment=12),
            ("spec", "replicaAssignment"),
            "found 12, wanted a list or text",
            "write [[12]]",
        ),
        (document(topicName=".."), ("spec", "topicName"), 'found "..", wanted any other name', ""),
        (document(topicName="a b"), ("spec", "topicName"), 'found "a b", ' + NAMES, ""),
        (document(topicName="a\n"), ("spec", "topicName"), r'found "a\n", ' + NAMES, ""),
        (document(topicName=""), ("spec", "topicName"), "found nothing in it, wanted at least 1 character", ""),
        (document(topicName="a" * 250), ("spec", "topicName"), "found 250 characters, wanted at most 249", ""),
        (
            document(config={"retention.ms": None}),
            ("spec", "config", "retention.ms"),
            "found nothing, wanted text, a number, true or false",
            "",
        ),
        (
            document(config={"retention.ms": [1]}),
            ("spec", "config", "retention.ms"),
            "found a list, wanted text, a number, true or false",
            "",
        ),
        (
            document(config={"a": "\x1b["}),
            ("spec", "config", "a"),
            r'found "\x1b[", wanted text without control characters, on one line',
            "",
        ),
        (document(config={"a b": 1}), ("spec", "config", "a b"), 'found "a b", ' + NAMES, ""),
        (document(config=[]), ("spec", "config"), "found a list, wanted a mapping", ""),
        (
            document(overrides=[{"partitions": 1}]),
            ("spec", "overrides", 0),
            "found neither clusters nor clusterSelector, wanted one of them",
            "",
        ),
        (
            document(overrides=[{"clusters": ["a"], "topicName": "b"}]),
            ("spec", "overrides", 0, "topicName"),
            "found an unknown field",
            None,
        ),
        (document() | {"metadata": {}}, ("metadata", "name"), "this required field is missing", ""),
        (
            document() | {"metadata": {"name": "a", "labels": {"v": 1}}},
            ("metadata", "labels", "v"),
            "found 1, wanted text",
            'quote it: "1"',
        ),
        (cluster(kafkaVersion=Decimal("3.9")), ("spec", "kafkaVersion"), None, 'quote it: "3.9"'),
        (cluster(kafkaVersion="5.0"), ("spec", "kafkaVersion"), None, ""),
        (cluster(zookeeper={"connect": "zk1:2181/"}), ("spec", "zookeeper", "connect"), None, ""),
        (
            cluster(kafka={"requestTimeout": 30}),
            ("spec", "kafka", "requestTimeout"),
            "found 30, wanted text",
            "write a time in whole seconds or minutes, such as 30s",
        ),
        (cluster(budget={}), ("spec", "budget"), "found an unknown field", "did you mean budgets?"),
        (cluster(budgets={"deletions": -1}), ("spec", "budgets", "deletions"), None, ""),
        (cluster(budgets={"changedShare": "0.5%"}), ("spec", "budgets", "changedShare"), None, ""),
        ({"kind": "Topic"}, ("apiVersion",), "found nothing, wanted topiarist.dev/v1", ""),
        (
            {"apiVersion": "topiarist.dev/v1", "kind": "Topics"},
            ("kind",),
            'found "Topics", wanted Topic, Cluster, Policy, DriftException or DriftPolicy',
            "did you mean Topic?",
        ),
        (
            {"apiVersion": "topiarist.dev/v1", "kind": ["Topic"]},
            ("kind",),
            "found a list, wanted Topic, Cluster, Policy, DriftException or DriftPolicy",
            None,
        ),
        (document(topicName="\ud800", config={}), ("spec", "topicName"), None, ""),
        (document(config={"a": "\ud800"}), (), "found text that is not valid Unicode", ""),
    ],
)
def test_says_what_was_found_wanted_and_to_do(
    body: dict[str, Any], path: DocumentPath, message: str | None, hint: str | None
) -> None:
    """One mistake gives one error at its path, with the value found, the value wanted, and a hint."""
    (problem,) = check.check(body)
    assert problem.path == path
    prefix = f"{explain.format_path(path)}: " if path else ""
    assert message is None or problem.message == prefix + message
    assert hint is None or problem.hint == hint


def test_says_everything_at_once_and_points_at_keys() -> None:
    """All errors of a document are reported together; the path of an unknown field points at its key."""
    found = check.check(document(partitons=1, ensure="x", overrides=[{}]))
    assert sorted(explain.format_path(problem.path) for problem in found) == [
        "spec.ensure",
        "spec.overrides[0]",
        "spec.partitons",
    ]
    assert [problem.path[-1] for problem in found if isinstance(problem.path[-1], FieldKey)] == ["partitons"]
    assert (
        len(check.check(document("Topic", **{f"x{number}": str(number) for number in range(500)})))
        <= explain.MAX_ERRORS
    )


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 40000),
    st.integers(2**31 - 1, 2**64),
    st.sampled_from([0.5, 12.0, 1e300, Decimal("3.0"), Decimal("0.50"), Decimal(12)]),
    st.sampled_from(["", "a", "A", "prod-eu", "..", "a\n", "\n", "a b", "é", "3.9", "Keep", "zk:2181/a", "\x7f"]),
    st.lists(st.integers(0, 3) | st.sampled_from(["a", "b"]) | st.lists(st.integers(-1, 3), max_size=3), max_size=3),
    st.dictionaries(
        st.sampled_from(["clusters", "matchLabels", "a", "a\n", "A b"]), st.integers() | st.text(), max_size=2
    ),
)


SECRET = {"env": "TOPIARIST_PASSWORD"}


@pytest.mark.parametrize(
    ("sasl", "places"),
    [
        ({"mechanism": "plain", "username": "u", "password": SECRET}, ["mechanism"]),
        ({"mechanism": ["PLAIN"], "username": "u", "password": SECRET}, ["mechanism"]),
        ({"mechanism": "oauthbearer", "token": SECRET}, ["mechanism"]),
        ({"mechansim": "PLAIN", "username": "u", "password": SECRET}, ["mechansim"]),
        ({"mechanism": "PLAIN", "user": "u", "password": SECRET}, ["user"]),
        ({"mechanism": "PLAIN", "username": "u", "pasword": SECRET}, ["pasword"]),
        ({"mechanism": "GSSAPI", "principle": "a"}, ["principle"]),
        (
            {
                "mechanism": "OAUTHBEARER",
                "tokenendpoint": "https://login.example.com/token",
                "clientId": "a",
                "clientSecret": SECRET,
            },
            ["tokenendpoint"],
        ),
        ({"mechanism": "PLAIN", "password": SECRET}, [""]),
        ({"mechanism": "PLAIN", "username": 5}, ["", "username"]),
        ({"mechanism": "PLAIN", "other": 5}, ["", "other"]),
        ({"mechanism": "plain", "user": "u", "password": 5}, ["mechanism", "password", "user"]),
    ],
)
def test_one_mistake_is_one_error(sasl: dict[str, Any], places: list[str]) -> None:
    """What is missing because a field is misspelt, or wrong because another value decides so, is no further error."""
    found = check.check(cluster(kafka={"bootstrapServers": "b:9092", "tls": {}, "sasl": sasl}))
    assert sorted(explain.format_path(error.path[3:]) for error in found) == places


def spots(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield every path in a document, and for each mapping the path of a new field."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from spots(inner, (*path, key))
        yield (*path, "new")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from spots(inner, (*path, index))


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """Return a valid document with a few values replaced or removed."""
    body = copy.deepcopy(draw(st.sampled_from([FULL_TOPIC, FULL_CLUSTER])))
    for _ in range(draw(st.integers(1, 3))):
        *way, last = draw(st.sampled_from([spot for spot in spots(body) if len(spot) > 1]))
        inner: Any = body
        for step in way:
            inner = inner[step]
        if draw(st.booleans()):
            inner[last] = draw(VALUES)
        elif isinstance(inner, dict):
            inner.pop(last, None)
    return body


@given(mutated())
def test_every_invalid_document_is_explained(body: dict[str, Any]) -> None:
    """Errors are found exactly in invalid documents, so that no document is refused without a reason."""
    explained = list(explain.find_violations(load.load_schema(body["kind"]), body))
    assert check._matches_schema(body) is not bool(explained)
    problems = check.check(body)
    assert bool(problems) is bool(explained)
    assert all(problem.message and "\n" not in problem.message for problem in problems)


def test_a_manifest_is_what_the_document_says() -> None:
    """Name, namespace and labels are read from metadata; missing ones are empty."""
    source = Nowhere()
    body = document(partitions=1) | {"metadata": {"name": "a", "namespace": "n", "labels": {"l": "v"}}}
    assert spec_.make_manifest(body, source) == ("Topic", "a", "n", {"l": "v"}, {"partitions": 1}, source)
    assert spec_.make_manifest(document(), source)[1:4] == ("orders", "", {})


@pytest.mark.parametrize("key", ["0", "00", "+1", "-1", "1e3", "18446744073709551616"])
def test_a_key_that_looks_like_an_index_is_a_key(key: str) -> None:
    """The library gives some of them as numbers; the path has the key of the document."""
    schema = {"properties": {"a": {"additionalProperties": {"type": "string"}}}}
    (found,) = explain.find_violations(schema, {"a": {key: 5}})
    assert (found.path, found.instance) == (("a", key), 5)


# Hints for ambiguous scalars: no hint leads to another error, whatever the field is.

TOPIC = """apiVersion: topiarist.dev/v1
kind: Topic
metadata: {{name: {name}, labels: {{team: {label}}}}}
spec:
  topicName: {topic}
  partitions: {partitions}
  replicationFactor: 1
  keyed: {keyed}
  ensure: {ensure}
  clusters: [{cluster}]
  config: {{retention.ms: {time}, cleanup.policy: {policy}, preallocate: {switch}, x.y: {other}}}
"""
VALID = {
    **{"name": "orders", "label": "shop", "topic": "orders", "partitions": "1", "keyed": "true", "ensure": "Present"},
    **{"cluster": "prod", "time": "1", "policy": "delete", "switch": "true", "other": "1"},
}
AMBIGUOUS = (
    *("010", "08", "0x1F", "0o17", "0b10", "+5", "1_000", "1e3", "1.", ".5", "-0", "007", "12:30:45", "2024-01-31"),
    *("yes", "No", "on", "OFF", "y", "True", "~", "null", "", ".inf", "9223372036854775808", "=", "-0x1"),
)


def errors_of(**values: str) -> list[tuple[str, str]]:
    """Return message and hint of the errors of a topic with these values."""
    text = TOPIC.format(**(VALID | values)).encode()
    return [(error.message, error.hint) for error in load_manifests(["-"], io.BytesIO(text)).errors]


@pytest.mark.parametrize("field", VALID)
def test_a_hint_for_an_ambiguous_scalar_leads_to_no_other_error(field: str) -> None:
    """Each value that the hint of an ambiguous scalar offers is valid for the field of the scalar."""
    assert errors_of() == []
    for text in AMBIGUOUS:
        ((_, hint),) = errors_of(**{field: text if field != "cluster" else text or "~"})
        assert hint
        for part in hint.split(", or "):
            values = re.findall(r'"[^"]*"|[A-Za-z0-9.-]+', re.sub(r"^(write|quote it:) ", "", part))
            if part.startswith("quote it:") or re.fullmatch(r'write (true|false|-?[0-9.]+|"")( or [0-9]+)?.*', part):
                for value in values if " or " in part else values[:1]:
                    assert value == "or" or errors_of(**{field: value}) == [], (text, hint)


@pytest.mark.parametrize(
    ("field", "text", "hint"),
    [
        ("partitions", "010", "write 10 or 8"),
        ("partitions", "0x1F", "write 31"),
        ("partitions", "yes", "write a whole number from 1 to 2147483647"),
        ("partitions", "", "write a whole number from 1 to 2147483647, or remove the line"),
        ("keyed", "yes", "write true"),
        ("keyed", "0x1", "write true or false"),
        ("ensure", "", "write Present or Absent, or remove the line"),
        ("topic", "010", 'quote it: "010"'),
        ("time", "1_000", "write 1000"),
        ("policy", "off", "write any of compact, delete"),
        ("label", "yes", 'quote it: "yes"'),
    ],
)
def test_the_hint_for_an_ambiguous_scalar_is_that_of_its_field(field: str, text: str, hint: str) -> None:
    """A number field gets numbers, a switch gets true or false, and text gets quotes."""
    assert [found for _, found in errors_of(**{field: text})] == [hint]


def test_the_schema_of_a_path_is_found_through_references() -> None:
    """Items, references and additional properties lead to the schema of a value; an unknown field has none."""
    number = find_schema("Topic", ("spec", "overrides", 0, "partitions"))
    assert number is not None
    assert number["type"] == "integer"
    assert find_schema("Cluster", ("spec", "defaults", "config", "retention.ms")) is not None
    assert find_schema("Topic", ("spec", "colour")) is None
