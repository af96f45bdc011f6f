"""Kubernetes fields of a ``Cluster``: the command line reads and checks them, and ignores them otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from topiarist.adapters.manifests.loader import load_manifests
from topiarist.adapters.zookeeper.connection.authentication import check_credentials
from topiarist.desired import parse
from topiarist.errors import FieldPath as DocumentPath
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import SecretKeyRef
from topiarist.schema import check, explain
from topiarist.schema import load as load_

SECRET = {"secretKeyRef": {"name": "zookeeper", "key": "password"}}
LOGIN = {"sasl": {"username": "topiarist", "password": SECRET}}
NAMESPACES: DocumentPath = ("spec", "allowedTopics", 0, "namespaces")
SELECTOR: DocumentPath = (*NAMESPACES, "selector")


def cluster(**spec: Any) -> dict[str, Any]:
    """Return a ``Cluster`` with these fields."""
    return {"apiVersion": load_.API_VERSION, "kind": "Cluster", "metadata": {"name": "prod"}, "spec": spec}


def namespaces(**fields: Any) -> dict[str, Any]:
    """Return a ``Cluster`` with one rule for these namespaces."""
    return cluster(allowedTopics=[{"namespaces": fields}])


def requirement(**fields: Any) -> dict[str, Any]:
    """Return a ``Cluster`` with one rule that selects namespaces by one requirement."""
    return namespaces(**{"from": "Selector"}, selector={"matchExpressions": [fields]})


def sasl(**fields: Any) -> dict[str, Any]:
    """Return a ``Cluster`` that is reached through its brokers with this login."""
    return cluster(kafka={"bootstrapServers": "b1:9092", "sasl": fields})


SASL: DocumentPath = ("spec", "kafka", "sasl")
LOGIN_FIELDS = "wanted username and password, or with OAUTHBEARER tokenEndpoint, clientId and clientSecret"
WITHOUT = "wanted a selector with from: Selector, and only with it"
VALUES = "wanted values with In and NotIn, and only with them"


@pytest.mark.parametrize(
    ("body", "path", "message"),
    [
        (namespaces(**{"from": "Selector"}), NAMESPACES, f"found from, {WITHOUT}"),
        (namespaces(selector={"matchLabels": {"a": "b"}}), NAMESPACES, f"found selector, {WITHOUT}"),
        (
            namespaces(**{"from": "All"}, selector={"matchLabels": {"a": "b"}}),
            NAMESPACES,
            f"found from and selector, {WITHOUT}",
        ),
        (namespaces(**{"from": "Selector"}, selector={}), SELECTOR, "found nothing in it, wanted at least 1 item"),
        (requirement(key="a", operator="In"), (*SELECTOR, "matchExpressions", 0), f"found key and operator, {VALUES}"),
        (
            requirement(key="a", operator="Exists", values=["b"]),
            (*SELECTOR, "matchExpressions", 0),
            f"found key and operator and values, {VALUES}",
        ),
        (cluster(allowRisk=["Safe"]), ("spec", "allowRisk", 0), 'found "Safe", wanted Disruptive or DataLoss'),
        (
            cluster(kafka={"bootstrapServers": "b1:9092"}, zookeeper={"connect": "zk:2181"}),
            ("spec",),
            "found both kafka and zookeeper without via, wanted via: Kafka or via: ZooKeeper",
        ),
        (cluster(via="KRaft"), ("spec", "via"), 'found "KRaft", wanted Kafka or ZooKeeper'),
        (
            cluster(kafka={"bootstrapServers": "b1"}),
            ("spec", "kafka", "bootstrapServers"),
            'found "b1", wanted HOST:PORT,HOST:PORT without blanks',
        ),
        (sasl(username="a", password=SECRET), (*SASL, "mechanism"), "this required field is missing"),
        (
            sasl(mechanism="GSSAPI", username="a", password=SECRET),
            (*SASL, "mechanism"),
            'found "GSSAPI", wanted PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER',
        ),
        (sasl(mechanism="PLAIN", username="a"), (*SASL, "username"), "found without password, wanted both"),
        (sasl(mechanism="PLAIN"), SASL, f"found mechanism, {LOGIN_FIELDS}"),
        (
            sasl(mechanism="OAUTHBEARER", username="a", password=SECRET),
            SASL,
            f"found mechanism and username and password, {LOGIN_FIELDS}",
        ),
        (
            sasl(mechanism="PLAIN", tokenEndpoint="https://login.example.com", clientId="a", clientSecret=SECRET),
            SASL,
            f"found mechanism and tokenEndpoint and clientId and clientSecret, {LOGIN_FIELDS}",
        ),
        (
            sasl(mechanism="PLAIN", username="a", password=SECRET, scope="a"),
            (*SASL, "scope"),
            "found without tokenEndpoint, wanted both",
        ),
        (
            sasl(mechanism="OAUTHBEARER", tokenEndpoint="http://localhost", clientId="a", clientSecret=SECRET),
            (*SASL, "tokenEndpoint"),
            'found "http://localhost", wanted an HTTPS address',
        ),
        (
            cluster(kafka={"requestTimeout": "1h"}),
            ("spec", "kafka", "requestTimeout"),
            'found "1h", wanted a time in whole seconds or minutes, such as 30s',
        ),
        (cluster(driftPolicy="Undo"), ("spec", "driftPolicy"), 'found "Undo", wanted Report or Correct'),
        (
            cluster(zookeeper={"tls": {"ca": {"file": "a", **SECRET}}}),
            ("spec", "zookeeper", "tls", "ca"),
            "found file and secretKeyRef, wanted only one of them",
        ),
        (
            cluster(zookeeper={"tls": {"ca": {}}}),
            ("spec", "zookeeper", "tls", "ca"),
            "found nothing in it, wanted file or secretKeyRef",
        ),
        (
            cluster(zookeeper={"tls": {"ca": {"secretKeyRef": {"name": "a"}}}}),
            ("spec", "zookeeper", "tls", "ca", "secretKeyRef", "key"),
            "this required field is missing",
        ),
    ],
)
def test_says_what_is_wrong(body: dict[str, Any], path: DocumentPath, message: str) -> None:
    """An invalid value gives one error at its field, in the usual form."""
    (problem,) = check.check(body)
    assert (problem.path, problem.message) == (path, f"{explain.format_path(path)}: {message}")


def test_a_secret_is_never_repeated() -> None:
    """A secret value in place of the name of a Secret is not shown."""
    (problem,) = check.check(cluster(zookeeper={"tls": {"ca": {"secretKeyRef": {"name": "Sesame!", "key": "a"}}}}))
    assert "Sesame" not in problem.message + problem.hint


@pytest.mark.parametrize("zookeeper", [LOGIN, {"tls": {"ca": SECRET}}, {"tls": {"certificate": SECRET}}])
def test_a_secret_needs_kubernetes(tmp_path: Path, zookeeper: dict[str, Any]) -> None:
    """A document with a Secret reference is valid; a connection with it fails with its location and an alternative."""
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(cluster(zookeeper=zookeeper)))
    loaded = load_manifests([str(file)])
    assert loaded.errors == ()
    found = parse.parse_cluster_spec(loaded.manifests[0]).zookeeper
    assert found is not None
    with pytest.raises(TopiaristError) as caught:
        check_credentials(found.credentials)
    assert caught.value.reason is Reason.CREDENTIALS_INVALID
    place, _, words = str(caught.value).partition(" ")
    assert place.startswith(f"{file}:")
    assert words.split("\n    ") == [
        "the key password of the Secret zookeeper can be read by the operator in Kubernetes only",
        "use a file or an environment variable",
    ]


def test_a_secret_arrives_as_a_reference(tmp_path: Path) -> None:
    """A Secret reference is parsed with its name and key."""
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(cluster(zookeeper=LOGIN)))
    access = parse.parse_cluster_spec(load_manifests([str(file)]).manifests[0]).zookeeper
    assert access is not None
    login = access.credentials.sasl
    assert login is not None
    assert (login.password.secret, login.password.file, login.password.env) == (
        SecretKeyRef("zookeeper", "password"),
        "",
        "",
    )


ONLY_SECRETS = "wanted secretKeyRef: in a custom resource a reference names a key of a Secret, and no file or variable"


def references() -> list[tuple[DocumentPath, dict[str, Any]]]:
    """Return every reference of a Cluster: its path, and the fields around its value."""
    login, tls = {"username": "a", "password": {}}, {"certificate": SECRET}
    scram = {"mechanism": "SCRAM-SHA-512", **login}
    oauth = {
        "mechanism": "OAUTHBEARER",
        "tokenEndpoint": "https://login.example.com",
        "clientId": "a",
        "clientSecret": SECRET,
    }
    around: dict[DocumentPath, dict[str, Any]] = {
        ("zookeeper", "sasl", "password"): login,
        ("zookeeper", "digest", "password"): login,
        ("kafka", "sasl", "password"): scram,
        ("kafka", "sasl", "clientSecret"): oauth,
        ("kafka", "sasl", "ca"): oauth,
    }
    paths: list[DocumentPath] = [(section, "tls", name) for section in ("zookeeper", "kafka") for name in TLS]
    around |= dict.fromkeys(paths, tls)
    return [(("spec", *path), fields) for path, fields in around.items()]


TLS = ("ca", "certificate", "key", "keyPassword")


def referring(path: DocumentPath, around: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """Return a Cluster with a value at one reference."""
    _, section, scheme, name = path
    address = {"connect": "zk:2181"} if section == "zookeeper" else {"bootstrapServers": "b1:9092"}
    login: dict[str, Any] = {str(scheme): {**around, str(name): value}}
    return cluster(**{str(section): {**address, **login}})


@pytest.mark.parametrize(("path", "around"), references(), ids=str)
def test_a_custom_resource_takes_secrets_only(path: DocumentPath, around: dict[str, Any]) -> None:
    """A custom resource may not name a file or a variable, because they would be those of the operator. An empty
    reference, as the API server may store it, is invalid too.
    """
    assert check.check(referring(path, around, SECRET), custom_resource=True) == []
    given: dict[str, dict[str, Any]] = {
        "file": {"file": "/var/run/secrets/kubernetes.io/serviceaccount/token"},
        "env": {"env": "TOPIARIST_TOKEN"},
        "nothing in it": {},
    }
    for words, value in given.items():
        (problem,) = check.check(referring(path, around, value), custom_resource=True)
        assert (problem.path, problem.message) == (path, f"{explain.format_path(path)}: found {words}, {ONLY_SECRETS}")
    for value in (given["file"], given["env"]):
        (problem,) = check.check(referring(path, around, {**value, **SECRET}), custom_resource=True)
        assert problem.path == path
        assert "wanted only one of them" in problem.message


@pytest.mark.parametrize(("path", "around"), references(), ids=str)
def test_files_stay_for_the_command_line(path: DocumentPath, around: dict[str, Any]) -> None:
    """The same reference to a file is valid in a manifest file."""
    assert check.check(referring(path, around, {"file": "a"})) == []


def test_every_reference_is_tried_here() -> None:
    """These tests cover every Secret reference of the schema, also new ones."""

    def places(part: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        part = document["definitions"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        fields = part.get("properties", {})
        if "secretKeyRef" in fields:
            yield path
        for name, inner in fields.items():
            yield from places(inner, (*path, name))

    document = load_.load_schema("Cluster")
    assert {*places(document["properties"]["spec"], ("spec",))} == {path for path, _ in references()}
