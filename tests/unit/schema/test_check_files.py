"""The schema files, their generated parts, and the samples with links to them."""

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

from support.checkout import ROOT
from topiarist.adapters.manifests.loader import load_manifests
from topiarist.desired.parse import parse_cluster_spec
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kubernetes.reconciler import SyncState
from topiarist.model.spec import ClusterSpec, NamespacesFrom
from topiarist.schema import check, explain
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
