"""Schema files with the samples that link to them, errors of policies, and the identity of documents."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from msgspec.structs import replace

from support.builders import PositionedSource, spec
from support.checkout import ROOT
from topiarist.adapters.manifests.loader import load_manifests
from topiarist.desired import parse
from topiarist.desired.parse import parse_cluster_spec
from topiarist.errors import FieldPath, Reason
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.types import INTERNAL_TOPICS
from topiarist.kubernetes.reconciler import SyncState
from topiarist.model import spec as spec_
from topiarist.model.spec import ClusterSpec, NamespacesFrom, ValueOrigin
from topiarist.schema import check, explain, identity
from topiarist.schema import load as load_


def parts(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every mapping in a schema."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from parts(inner)


def _holds(part: dict[str, Any]) -> bool:
    """Return whether a mapping has fields, and is not itself a list of fields with one named ``properties``."""
    return isinstance(part.get("properties"), dict)


@pytest.mark.parametrize("kind", [*load_.MANIFEST_KINDS, "Project"])
def test_every_keyword_has_its_words(kind: str) -> None:
    """Every keyword that the schemas use has an explainer."""
    structure = {"$schema", "$id", "$ref", "title", "description", "examples", "default", "definitions", "properties"}
    structure |= {
        "items",
        "allOf",
        "propertyNames",
        "enumDescriptions",
        "patternErrorMessage",
        "errorMessage",
        "deprecationMessage",
    } | {"writeOnly", "defaultSnippets"}
    fields = [
        part
        for part in parts(load_.load_schema(kind))
        if "type" in part or "$ref" in part or "not" in part or "anyOf" in part
    ]
    used = {keyword for part in fields if isinstance(part.get("type", "x"), str | list) for keyword in part}
    assert used - structure <= set(explain._EXPLAINERS)


@pytest.mark.parametrize("kind", [*load_.MANIFEST_KINDS, "Project", "Status"])
def test_schemas_suit_editors_and_every_regex_engine(kind: str) -> None:
    """The schemas are valid draft-07. Each field has a title and a description; patterns have explicit classes and an
    error message.
    """
    document = load_.load_schema(kind)
    jsonschema.Draft7Validator.check_schema(document)
    assert document["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert document["$id"] == f"https://topiarist.dev/schemas/{kind.lower()}.json"
    for part in parts(document):
        # A part without a type is a condition on fields that another part describes.
        for name, field in part["properties"].items() if isinstance(part.get("type"), str) and _holds(part) else ():
            assert "$ref" in field or (field["title"] and field["description"].endswith((".", ")"))), name
        if isinstance(part.get("pattern"), str):
            assert re.fullmatch(r"\^[^$]*\$", part["pattern"]), "anchored once at both ends"
            assert not re.search(r"\\[dwsDWSbB]", part["pattern"])
            assert part["patternErrorMessage"].startswith("wanted ")


OUTPUTS = {"check", "describe", "list", "moves", "plan", "report", "snapshot", "upgrade-check"}
"""The schemas of what commands print and write, but for drift reports, which have one for each kind of row."""


@pytest.mark.parametrize("name", sorted(OUTPUTS))
def test_every_field_of_an_output_has_a_description(name: str) -> None:
    """The schema is valid draft-07, and each field has a description, or refers to a definition with one."""
    document = load_.load_schema(name)
    jsonschema.Draft7Validator.check_schema(document)
    fields = [field for part in parts(document) if _holds(part) for field in part["properties"].items()]
    assert fields
    for field, inner in fields:
        target = document["definitions"][inner["$ref"].rpartition("/")[2]] if "$ref" in inner else inner
        assert target.get("description", "").endswith((".", ")")), field


@pytest.mark.parametrize("name", ["describe", "report"])
def test_changes_and_records_are_those_of_plans(name: str) -> None:
    """What descriptions and reports share with plans has the same definitions there, refusals and notices too."""
    plan, own = (load_.load_schema(each)["definitions"] for each in ("plan", name))
    shared = own.keys() & plan.keys() - {"topic"}
    changes = {"CreateTopic", "AddPartitions", "UpdateConfig", "DeleteTopic", "TakeOwnership"}
    assert shared >= {"record", "risk", "explanation", "replicas", *changes}
    assert [key for key in shared if own[key] != plan[key]] == []
    for field in ("observed", "changes", "refusals", "notices") if name == "describe" else ():
        assert own["pending"]["properties"][field] == plan["topic"]["properties"][field], field


@pytest.mark.parametrize(
    ("kind", "fields"),
    [("Topic", ["partitions", "replicationFactor", "config"]), ("Cluster", ["kafka", "clusterId"])],
)
def test_editors_begin_a_document_with_the_usual_fields(kind: str, fields: list[str]) -> None:
    """The snippets of a document and of its spec have the fields to write first, and are valid with their values."""
    schema = load_.load_schema(kind)
    (document,), (spec,) = (each["defaultSnippets"] for each in (schema, schema["properties"]["spec"]))
    assert list(spec["body"]) == fields
    assert document["body"]["spec"] == spec["body"]
    values = re.sub(r'"\^(.*?)"', r"\1", re.sub(r"\$\{\d:(.*?)\}", r"\1", json.dumps(document["body"])))
    assert check.check(json.loads(values.replace("$3", "7sYk"))) == []


@pytest.mark.parametrize("kind", ["Topic", "Cluster"])
def test_editors_show_the_meaning_of_a_config(kind: str) -> None:
    """The schemas that ``allOf`` adds to a config have no title, which an editor would show instead."""
    definitions = load_.load_schema(kind)["definitions"]
    config = definitions["config"]["properties"]["retention.ms"]
    assert config["title"] == "retention.ms"
    assert config["description"].startswith("How long messages are kept")
    for each in definitions["config"]["properties"].values():
        (added,) = (definitions[part["$ref"].rpartition("/")[2]] for part in each["allOf"])
        assert not {"title", "description"} & added.keys()
        assert added.items() <= definitions["configValue"].items()


@pytest.mark.parametrize("kind", ["Topic", "Cluster"])
def test_all_topic_configs_are_in_the_schemas(kind: str) -> None:
    """The schemas list every topic config of Kafka, for completion in editors, and allow other keys."""
    config = load_.load_schema(kind)["definitions"]["config"]
    assert list(config["properties"]) == list(TOPIC_CONFIGS)
    assert config["additionalProperties"]


@pytest.mark.parametrize("topic", [*sorted(INTERNAL_TOPICS), "."])
def test_records_are_in_no_topic_of_kafka(topic: str) -> None:
    """Topiarist would create it with one partition, and Kafka would then use it as it is."""
    kafka = {"bootstrapServers": "b1:9092", "records": {"topic": topic}}
    names = {"apiVersion": "topiarist.dev/v1", "kind": "Cluster", "metadata": {"name": "a"}}
    (problem,) = check.check({**names, "spec": {"kafka": kafka}})
    assert problem.path == ("spec", "kafka", "records", "topic")
    assert problem.message == f'spec.kafka.records.topic: found "{topic}", wanted any other name'


def test_a_status_has_the_states_of_the_code() -> None:
    """The status schema has exactly the states of the code, because the API server rejects unlisted states."""
    state = load_.load_schema("status")["definitions"]["topicOnCluster"]["properties"]["state"]
    assert state["enum"] == sorted(SyncState)
    assert len(state["enumDescriptions"]) == len(SyncState)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "manifests" / "samples").glob("cluster*.yaml")), ids=lambda path: path.name
)
def test_a_sample_of_a_cluster_permits_no_more_than_the_defaults(path: Path) -> None:
    """Samples are copied: none lets the operator lose data, delete, adopt or revert, nor every namespace declare."""
    (manifest,) = load_manifests([str(path)]).manifests
    spec, usual = parse_cluster_spec(manifest), ClusterSpec("usual")
    assert (spec.allow_risk, spec.allow_deletion, spec.adopt, spec.drift_policy) == (
        usual.allow_risk,
        usual.allow_deletion,
        usual.adopt,
        usual.drift_policy,
    )
    assert NamespacesFrom.ALL not in [rule.namespaces for rule in spec.allowed_topics]


def test_generated_parts_are_in_step() -> None:
    """The schemas match the output of ``tools/generate.py``."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools/generate.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("path", sorted((ROOT / "manifests").glob("[sp]*/*.yaml")), ids=lambda path: path.name)
def test_samples_are_valid_and_name_their_schema(path: Path) -> None:
    """Every sample loads without an error, and its first line refers to the schema of its kind."""
    loaded = load_manifests([str(path)])
    assert loaded.errors == ()
    (manifest,) = loaded.manifests
    first = path.read_text(encoding="utf-8").splitlines()[0]
    target = path.parent / first.removeprefix("# yaml-language-server: $schema=")
    assert json.loads(target.read_text(encoding="utf-8")) == load_.load_schema(manifest.kind)


TOPIC = spec("orders")
RULE = {"name": "no-x", "expression": "topic.partitions < 3", "message": "too\n  many"}


def policy(**spec: Any) -> dict[str, Any]:
    """Return a valid policy, except for these fields of its spec."""
    metadata = {"name": "sizes", "namespace": "ns"}
    return {"apiVersion": "topiarist.dev/v1", "kind": "Policy", "metadata": metadata, "spec": {"rules": [RULE]} | spec}


WRONG: list[tuple[dict[str, Any], FieldPath, str]] = [
    (policy(rules=[]), ("spec", "rules"), "found nothing in it, wanted at least 1 item"),
    (policy(rules=[RULE] * 101), ("spec", "rules"), "found 101 items, wanted at most 100"),
    (
        policy(selector={}),
        ("spec", "selector"),
        "found neither topics nor matchLabels nor clusters nor clusterSelector",
    ),
    (policy(selector={"matchLabels": {}}), ("spec", "selector", "matchLabels"), "wanted at least 1 item"),
    (
        policy(selector={"clusterSelector": {}}),
        ("spec", "selector", "clusterSelector", "matchLabels"),
        "required field is missing",
    ),
    (
        policy(selector={"clusters": ["a"], "clusterSelector": {"matchLabels": {"a": "b"}}}),
        ("spec", "selector", "clusters"),
        "found together with clusterSelector",
    ),
    (policy(rules=[RULE | {"on": "topic"}]), ("spec", "rules", 0, "on"), "found an unknown field"),
    (policy(rules=[RULE | {"action": "deny"}]), ("spec", "rules", 0, "action"), "wanted Deny or Warn"),
    (policy(rules=[RULE | {"expression": "x" * 2001}]), ("spec", "rules", 0, "expression"), "wanted at most 2000"),
    (policy(rules=[RULE | {"field": "config."}]), ("spec", "rules", 0, "field"), "wanted name, labels.KEY"),
]


@pytest.mark.parametrize(("body", "path", "words"), WRONG)
def test_what_is_wrong_with_a_policy(body: dict[str, Any], path: FieldPath, words: str) -> None:
    """Each error has its location; a selector that selects nothing, or everything by accident, is an error."""
    (problem,) = check.check(body)
    assert problem.path == path
    assert words in problem.message


def test_a_rule_makes_issues_with_its_name_and_place() -> None:
    """A denial and a warning have the message on one line, the title and the place of the rule."""
    source = PositionedSource("sizes.yaml")
    body = policy(rules=[RULE, RULE | {"name": "other", "action": "Warn"}])
    first, second = parse.parse_policy(spec_.make_manifest(body, source)).rules
    assert first.make_issue(TOPIC)[:3] == (Reason.POLICY_DENIED, "too many (policy sizes, rule no-x)", ())
    assert second.make_issue(TOPIC).reason is Reason.POLICY_WARNING
    assert second.make_issue(TOPIC).cause_origin == ValueOrigin(source, ("spec", "rules", 1))


@pytest.mark.parametrize("field", ["partitions", "replicationFactor", "config"])
def test_the_size_of_explicit_replica_lists_stands_in_them(field: str) -> None:
    """An issue about the size of a topic with ``replicaAssignment`` points at that field."""
    (rule,) = parse.parse_policy(
        spec_.make_manifest(policy(rules=[RULE | {"field": field}]), PositionedSource("p.yaml"))
    ).rules
    listed = replace(TOPIC, assignment=((1, 2), (2, 3)))
    assert rule.make_issue(TOPIC).field == (field,)
    assert rule.make_issue(listed).field == (("config",) if field == "config" else ("replicaAssignment",))


TOPIC_SPEC = {"partitions": 1, "replicationFactor": 1}
GROUP_HINT = "did you mean topiarist.dev/v1?"
FOREIGN_HINT = f"{GROUP_HINT} A document of another tool belongs outside of the given paths"


def document(version: str, kind: str, spec: Any = TOPIC_SPEC) -> dict[str, Any]:
    """Return a document with this API version and kind."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "orders"}, "spec": spec}


@pytest.mark.parametrize(
    "version",
    [
        *("topiarist/v1", "topiarist", "topiarist.dev", "topiarist.io/v1", "topiarst.dev/v1", "topairist.dev/v1"),
        *("Topiarist.dev/v1", "TOPIARIST.DEV/V1", " topiarist.dev/v1", "topiarist.dev /v1", "topiarist-dev/v1"),
        *("topiarist.dev.v1", "topiarist:v1", "v1.topiarist.dev", "kafka.topiarist.dev/v1", "topiarist.deb/v1"),
        *("topiaristdev/v1", "topiarist_dev/v1", "topiarists.dev/v1"),
    ],
)
def test_an_api_version_that_is_nearly_topiarists_is_an_error(version: str) -> None:
    """Each slip in the API group is an error that names the right one, whatever the kind is."""
    for kind in ("Topic", "Topc", "ConfigMap"):
        body = document(version, kind)
        assert check.is_topiarist_document(body)
        first = check.check(body)[0]
        assert (first.path, first.hint) == (("apiVersion",), GROUP_HINT)


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        *(("v1", kind) for kind in ("Topic", "Cluster", "Policy", "DriftException", "topic", "Topics", "policies")),
        *(
            (version, "Topic")
            for version in ("kafka.strimzi.io/v1", "apps/v1", "example.com/v1", "kafka/v1", "1", "v2")
        ),
        ("example.com/v1", "Topci"),
    ],
)
def test_a_kind_of_topiarist_under_another_group_is_an_error(version: str, kind: str) -> None:
    """A document with a kind of topiarist, in any case or number, is not ignored because of its API group."""
    body = document(version, kind)
    assert check.is_topiarist_document(body)
    assert check.check(body)[0].hint == FOREIGN_HINT


@pytest.mark.parametrize("spec", [{"replicas": 3}, {"Partitions": 1}, {"configs": {}}, {"topic_name": "a"}, {}, None])
def test_a_topic_of_another_group_is_known_by_any_of_its_fields(spec: Any) -> None:
    """One field of a topic, also by another name, is enough to know a Topic under another group; so is no spec."""
    assert check.is_topiarist_document(document("example.com/v1", "Topic", spec))


@pytest.mark.parametrize(
    "body",
    [
        document("v1", "ConfigMap"),
        document("apps/v1", "Deployment", {"replicas": 3}),
        document("rbac.authorization.k8s.io/v1", "ClusterRole", None),
        document("cluster.x-k8s.io/v1beta1", "Cluster", {"clusterNetwork": {}}),
        document("postgresql.cnpg.io/v1", "Cluster", {"instances": 3, "storage": {}}),
        document("kyverno.io/v1", "Policy", {"rules": []}),
        document("policy.open-cluster-management.io/v1", "Policy", {"remediationAction": "inform"}),
        {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": []},
        document("sns.aws.upbound.io/v1beta1", "Topic", {"forProvider": {}}),
        document("kafka.strimzi.io/v1", "KafkaUser", {}),
        document("kafka.strimzi.io/v1", "Kafka", {"kafka": {}, "zookeeper": {}}),
        document("topography.dev/v1", "Map"),
        {"apiVersion": "v1", "kind": "List", "items": [document("v1", "ConfigMap"), "text"]},
        {"apiVersion": "v1", "kind": ["Topic"]},
    ],
)
def test_documents_of_other_tools_are_ignored(body: dict[str, Any]) -> None:
    """Kinds of other tools, also those of the same name with other fields, are neither topiarist's nor errors."""
    assert not check.is_topiarist_document(body)
    assert identity.foreign_document_error(body) is None


@pytest.mark.parametrize(
    ("version", "kind", "hint"),
    [
        ("kafka.strimzi.io/v1beta2", "KafkaTopic", "topiarist import strimzi"),
        ("kafka.jikkou.io/v1beta2", "KafkaTopicList", "topiarist import jikkou"),
        ("platform.confluent.io/v1beta1", "KafkaTopic", "topiarist import cfk"),
        ("kafka.banzaicloud.io/v1alpha1", "KafkaTopic", "topiarist import koperator"),
        ("eventstreams.ibm.com/v1beta2", "KafkaTopic", "kind: Topic of apiVersion: topiarist.dev/v1"),
    ],
)
def test_topics_of_other_tools_are_errors_with_the_way_to_import_them(version: str, kind: str, hint: str) -> None:
    """A topic of another tool is an error that names the importer, also as an item of a list."""
    body = document(version, kind)
    for each in (body, {"apiVersion": "v1", "kind": "List", "items": [document("v1", "ConfigMap"), body]}):
        error = identity.foreign_document_error(each)
        assert error is not None
        assert hint in error.hint


@pytest.mark.parametrize("version", ["topiarist.dev/v1", "topiarist/v1", "v1"])
def test_a_list_with_topiarist_documents_is_an_error(version: str) -> None:
    """A list of documents that are topiarist's, also by a wrong group, is an error with the way to separate them."""
    error = identity.foreign_document_error({"apiVersion": "v1", "kind": "List", "items": [document(version, "Topic")]})
    assert error is not None
    assert error.hint == "separate them with ---"
    (only,) = check.check({"apiVersion": "topiarist.dev/v1", "kind": "TopicList", "items": []})
    assert "separate documents" in only.hint


@pytest.mark.parametrize(
    ("key", "name"),
    [
        *(("apiversion", "apiVersion"), ("ApiVersion", "apiVersion"), ("api_version", "apiVersion")),
        *(("apiVerison", "apiVersion"), ("Kind", "kind"), ("kinds", "kind"), ("KIND", "kind")),
    ],
)
def test_a_misspelt_key_of_the_identity_is_named(key: str, name: str) -> None:
    """A document with a misspelt ``apiVersion`` or ``kind`` has an error at that key, with the right spelling."""
    body = document("topiarist.dev/v1", "Topic")
    body[key] = body.pop(name)
    error = identity.foreign_document_error(body) if name == "apiVersion" else check.check(body)[0]
    assert error is not None
    assert (error.path, error.hint) == ((key,), f"did you mean {name}?")


@pytest.mark.parametrize(
    ("body", "form"),
    [
        ({"topics": {"a": {"partitions": 1}}}, "kafka-gitops"),
        ({"asyncapi": "3.0.0", "info": {}}, "asyncapi"),
        ({"context": "a", "projects": []}, "julie"),
        ({"meta": {"name": "a"}, "spec": {}}, "topicctl"),
    ],
)
def test_a_file_of_another_tool_without_api_version_names_its_importer(body: dict[str, Any], form: str) -> None:
    """A file in the format of another tool that has no ``apiVersion`` gets the hint to import it."""
    error = identity.foreign_document_error(body)
    assert error is not None
    assert f"topiarist import {form} FILE" in error.hint


def test_the_rest_of_a_document_with_a_wrong_group_is_checked_too() -> None:
    """Errors of group, kind and fields are reported together, so that the next run has none that are new."""
    errors = check.check(document("topiarist/v1", "Topc", {"replicas": 3}))
    assert [error.path[-1] for error in errors] == ["apiVersion", "kind", "replicas"]


def test_a_version_of_any_length_is_compared_in_part() -> None:
    """An API version of a million characters is compared by its beginning only."""
    assert not check.is_topiarist_document(document("x" * 1_000_000, "ConfigMap"))
    assert check.check(document("topiarist" * 100_000, "Topic"))
