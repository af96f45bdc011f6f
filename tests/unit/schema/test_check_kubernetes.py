"""Kubernetes fields of a ``Cluster``: the command line reads and checks them, and ignores them otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.builders import document
from topiarist.adapters.manifests.loader import load_manifests
from topiarist.adapters.zookeeper.connection.authentication import check_credentials
from topiarist.desired import parse
from topiarist.errors import FieldPath as DocumentPath
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import SecretKeyRef, UserPassword
from topiarist.schema import check, explain
from topiarist.schema import load as load_

SECRET = {"secretKeyRef": {"name": "zookeeper", "key": "password"}}
LOGIN = {"sasl": {"username": "topiarist", "password": SECRET}}
NAMESPACES: DocumentPath = ("spec", "allowedTopics", 0, "namespaces")
SELECTOR: DocumentPath = (*NAMESPACES, "selector")


def cluster(**spec: Any) -> dict[str, Any]:
    """Return a ``Cluster`` with these fields."""
    return document("Cluster", "prod", **spec)


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
PASSWORD_LOGINS = "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
ENDPOINT = {"tokenEndpoint": "https://login.example.com", "clientId": "a"}
OAUTH = {"mechanism": "OAUTHBEARER", **ENDPOINT}
IAM = {"mechanism": "AWS_MSK_IAM", "region": "eu-west-1"}
KERBEROS = {"mechanism": "GSSAPI", "principal": "a@EXAMPLE.COM"}
KERBEROS_TO_ZOOKEEPER: DocumentPath = ("spec", "zookeeper", "sasl")
ONLY_ONE = "found together with {}, wanted only one of the two"
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
            sasl(mechanism="LDAP"),
            (*SASL, "mechanism"),
            f'found "LDAP", wanted {PASSWORD_LOGINS.replace(" or", ",")}, OAUTHBEARER, AWS_MSK_IAM or GSSAPI',
        ),
        (
            sasl(mechanism="PLAIN"),
            SASL,
            f"found mechanism, wanted username and password with mechanism: {PASSWORD_LOGINS}",
        ),
        (
            sasl(mechanism="OAUTHBEARER"),
            SASL,
            "found mechanism, wanted token, or tokenEndpoint with clientId and clientSecret, with mechanism: "
            "OAUTHBEARER",
        ),
        (sasl(mechanism="AWS_MSK_IAM"), SASL, "found mechanism, wanted region with mechanism: AWS_MSK_IAM"),
        (sasl(mechanism="GSSAPI"), SASL, "found mechanism, wanted principal with mechanism: GSSAPI"),
        (
            sasl(**OAUTH),
            SASL,
            "found mechanism and tokenEndpoint and clientId, wanted clientId, and clientSecret or clientKey, with "
            "tokenEndpoint",
        ),
        (
            sasl(**IAM, username="a", password=SECRET),
            SASL,
            "found mechanism and region and username and password, wanted username only with mechanism: "
            f"{PASSWORD_LOGINS}",
        ),
        (
            sasl(**IAM, **ENDPOINT, clientSecret=SECRET),
            SASL,
            "found mechanism and region and tokenEndpoint and clientId and clientSecret, wanted tokenEndpoint only "
            "with mechanism: OAUTHBEARER",
        ),
        (
            sasl(**IAM, token={"env": "TOPIARIST_A"}),
            SASL,
            "found mechanism and region and token, wanted token only with mechanism: OAUTHBEARER",
        ),
        (
            sasl(**IAM, extensions={"a": "b"}),
            SASL,
            "found mechanism and region and extensions, wanted extensions only with mechanism: OAUTHBEARER",
        ),
        (
            sasl(**KERBEROS, region="eu-west-1"),
            SASL,
            "found mechanism and principal and region, wanted region only with mechanism: AWS_MSK_IAM",
        ),
        (
            sasl(**IAM, principal="a@EXAMPLE.COM"),
            SASL,
            "found mechanism and region and principal, wanted principal only with mechanism: GSSAPI",
        ),
        (sasl(**OAUTH, clientSecret=SECRET, clientKey=SECRET), (*SASL, "clientKey"), ONLY_ONE.format("clientSecret")),
        (sasl(**OAUTH, clientSecret=SECRET, token=SECRET), (*SASL, "token"), ONLY_ONE.format("tokenEndpoint")),
        (sasl(**KERBEROS, keyTab=SECRET, ticketCache=SECRET), (*SASL, "keyTab"), ONLY_ONE.format("ticketCache")),
        (sasl(**IAM, sessionName="me"), (*SASL, "sessionName"), "found without roleArn, wanted both"),
        (
            sasl(mechanism="OAUTHBEARER", token=SECRET, scope="a"),
            (*SASL, "scope"),
            "found without tokenEndpoint, wanted both",
        ),
        (
            sasl(mechanism="OAUTHBEARER", token=SECRET, extensions={"auth": "a"}),
            (*SASL, "extensions", "auth"),
            'found "auth", wanted any other name',
        ),
        (
            sasl(mechanism="OAUTHBEARER", token=SECRET, extensions={"a-b": "a"}),
            (*SASL, "extensions", "a-b"),
            'found "a-b", wanted letters only',
        ),
        (
            sasl(mechanism="OAUTHBEARER", token={"command": ["get-token"]}),
            (*SASL, "token", "command"),
            "found a list, wanted text",
        ),
        (
            sasl(mechanism="OAUTHBEARER", token={"command": "TOPIARIST_KAFKA_PASSWORD"}),
            (*SASL, "token", "command"),
            "found a value (not shown: it may be secret), wanted the name of a variable that begins with TOPIARIST_ "
            "and ends with _COMMAND, which has the command",
        ),
        (
            cluster(zookeeper={"sasl": {"mechanism": "GSSAPI"}}),
            KERBEROS_TO_ZOOKEEPER,
            "found mechanism, wanted principal with mechanism: GSSAPI",
        ),
        (
            cluster(zookeeper={"sasl": {"principal": "a"}}),
            KERBEROS_TO_ZOOKEEPER,
            "found principal, wanted username and password, or mechanism: GSSAPI and principal",
        ),
        (
            cluster(zookeeper={"sasl": {"mechanism": "GSSAPI", "principal": "a", "username": "a", "password": SECRET}}),
            KERBEROS_TO_ZOOKEEPER,
            "found mechanism and principal and username and password, wanted username only with mechanism: DIGEST-MD5",
        ),
        (
            cluster(zookeeper={"sasl": {"principal": "a", "username": "a", "password": SECRET}}),
            KERBEROS_TO_ZOOKEEPER,
            "found principal and username and password, wanted principal only with mechanism: GSSAPI",
        ),
        (
            cluster(kafka={"tls": {"ca": SECRET, "trustStore": SECRET}}),
            ("spec", "kafka", "tls", "ca"),
            ONLY_ONE.format("trustStore"),
        ),
        (
            cluster(kafka={"tls": {"certificate": SECRET, "keyStore": SECRET}}),
            ("spec", "kafka", "tls", "certificate"),
            ONLY_ONE.format("keyStore"),
        ),
        (
            sasl(**{**OAUTH, "tokenEndpoint": "http://localhost"}, clientSecret=SECRET),
            (*SASL, "tokenEndpoint"),
            'found "http://localhost", wanted an HTTPS address',
        ),
        (
            cluster(kafka={"requestTimeout": "1h"}),
            ("spec", "kafka", "requestTimeout"),
            'found "1h", wanted a time in whole seconds or minutes, such as 30s',
        ),
        (cluster(zookeeper={"tls": "a"}), ("spec", "zookeeper", "tls"), 'found "a", wanted a mapping'),
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
    assert isinstance(login, UserPassword)
    assert (login.password.secret, login.password.file, login.password.env) == (
        SecretKeyRef("zookeeper", "password"),
        "",
        "",
    )


ONLY_SECRETS = (
    "wanted secretKeyRef: in a custom resource a reference names a key of a Secret, and no file, variable or command"
)

TOKENS_TOO = (
    "wanted secretKeyRef: in a custom resource a reference names a key of a Secret, and no variable or command, and no"
    " file but a projected token in /var/run/secrets/topiarist.dev/tokens"
)


def references() -> list[tuple[DocumentPath, dict[str, Any]]]:
    """Return every reference of a Cluster: its path, and the fields around its value."""
    login, tls = {"username": "a", "password": {}}, {"certificate": SECRET}
    scram = {"mechanism": "SCRAM-SHA-512", **login}
    around: dict[DocumentPath, dict[str, Any]] = {
        ("zookeeper", "sasl", "password"): login,
        ("zookeeper", "digest", "password"): login,
        ("kafka", "sasl", "password"): scram,
        ("kafka", "sasl", "clientSecret"): OAUTH,
        ("kafka", "sasl", "clientKey"): OAUTH,
        ("kafka", "sasl", "token"): {"mechanism": "OAUTHBEARER"},
        ("kafka", "sasl", "ca"): {**OAUTH, "clientSecret": SECRET},
    }
    around |= {(way, "sasl", name): KERBEROS for way in ("kafka", "zookeeper") for name in ("keyTab", "ticketCache")}
    paths: list[DocumentPath] = [(section, "tls", name) for section in ("zookeeper", "kafka") for name in TLS]
    around |= dict.fromkeys(paths, tls)
    for way, kind in product(("zookeeper", "kafka"), ("keyStore", "trustStore")):
        around |= {(way, "tls", kind): {}, (way, "tls", f"{kind}Password"): {kind: SECRET}}
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
        "command": {"command": "TOPIARIST_TOKEN_COMMAND"},
        "nothing in it": {},
    }
    is_token = path[-1] == "token"
    wanted = TOKENS_TOO if is_token else ONLY_SECRETS
    for words, value in given.items():
        (problem,) = check.check(referring(path, around, value), custom_resource=True)
        if is_token and words == "file":
            assert problem.path == (*path, "file")
            assert "wanted a file directly in /var/run/secrets/topiarist.dev/tokens" in problem.message
            continue
        assert (problem.path, problem.message) == (path, f"{explain.format_path(path)}: found {words}, {wanted}")
    for value in (given["file"], given["env"]):
        problem = check.check(referring(path, around, {**value, **SECRET}), custom_resource=True)[0]
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
