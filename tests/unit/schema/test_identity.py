"""Identity of documents: near and foreign API groups, kinds of other tools, lists and misspelt keys."""

from __future__ import annotations

from typing import Any

import pytest

from topiarist.schema import check, explain

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
    assert explain.foreign_document_error(body) is None


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
        error = explain.foreign_document_error(each)
        assert error is not None
        assert hint in error.hint


@pytest.mark.parametrize("version", ["topiarist.dev/v1", "topiarist/v1", "v1"])
def test_a_list_with_topiarist_documents_is_an_error(version: str) -> None:
    """A list of documents that are topiarist's, also by a wrong group, is an error with the way to separate them."""
    error = explain.foreign_document_error({"apiVersion": "v1", "kind": "List", "items": [document(version, "Topic")]})
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
    error = explain.foreign_document_error(body) if name == "apiVersion" else check.check(body)[0]
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
    error = explain.foreign_document_error(body)
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
