"""The access of a Cluster: every field of both sections, and the one that is used."""

from __future__ import annotations

from typing import Any

from topiarist.desired import parse
from topiarist.errors import FieldPath, Location
from topiarist.model.access import (
    Credentials,
    KafkaAccess,
    RecordsTopic,
    SaslMechanism,
    SaslOAuth,
    SaslPassword,
    SecretKeyRef,
    SecretReference,
    Tls,
    UserPassword,
    Via,
    ZooKeeperAccess,
)
from topiarist.model.spec import ClusterSpec, make_manifest
from topiarist.schema import check


class Nowhere:
    """A document in a file, with the path as text in place of the line."""

    def locate(self, path: FieldPath = ()) -> Location:
        """Return the location of a path."""
        return Location(f"git/prod.yaml#{'.'.join(map(str, path))}")


def parsed(**spec: Any) -> ClusterSpec:
    """Return the spec of a valid Cluster."""
    body = {"apiVersion": "topiarist.dev/v1", "kind": "Cluster", "metadata": {"name": "prod"}, "spec": spec}
    assert check.check(body) == []
    return parse.parse_cluster_spec(make_manifest(body, Nowhere()))


def in_file(file: str, path: str) -> SecretReference:
    """Return the reference to a file beside the manifest."""
    return SecretReference(f"git/{file}", "", Location(f"git/prod.yaml#spec.kafka.{path}.file"))


def test_everything_about_the_brokers() -> None:
    """Addresses, login, TLS, the topic of records and the timeout of a request."""
    found = parsed(
        kafka={
            "bootstrapServers": "b1:9093,[::1]:9093",
            "sasl": {"mechanism": "SCRAM-SHA-512", "username": "topiarist", "password": {"file": "password"}},
            "tls": {
                "ca": {"file": "ca.pem"},
                "certificate": {"file": "own.pem"},
                "key": {"file": "key.pem"},
                "keyPassword": {"file": "key.password"},
                "serverName": "kafka.example.com",
            },
            "records": {"topic": "_topiarist", "replicationFactor": 1},
            "requestTimeout": "2m",
        }
    )
    assert found.access == KafkaAccess(
        "b1:9093,[::1]:9093",
        SaslPassword(SaslMechanism.SCRAM_SHA_512, "topiarist", in_file("password", "sasl.password")),
        Tls(
            in_file("ca.pem", "tls.ca"),
            in_file("own.pem", "tls.certificate"),
            in_file("key.pem", "tls.key"),
            in_file("key.password", "tls.keyPassword"),
            "kafka.example.com",
        ),
        RecordsTopic("_topiarist", 1),
        120,
    )


def test_everything_about_zookeeper() -> None:
    """Both logins, TLS and the size of a packet; each part may be missing."""

    def secret(path: str) -> SecretReference:
        return SecretReference("git/secret", "", Location(f"git/prod.yaml#spec.zookeeper.{path}.file"))

    file = {"file": "secret"}
    logins: dict[str, Any] = {name: {"username": name, "password": file} for name in ("sasl", "digest")}
    sasl, digest = (UserPassword(name, secret(f"{name}.password")) for name in ("sasl", "digest"))
    for tls, expected in (
        ({"ca": file}, Tls(secret("tls.ca"))),
        (
            {"certificate": file, "key": file, "serverName": "zk"},
            Tls(certificate=secret("tls.certificate"), key=secret("tls.key"), server_name="zk"),
        ),
    ):
        found = parsed(zookeeper={"connect": "zk:2281/kafka", "maxBuffer": 4194304, **logins, "tls": tls})
        assert found.access == ZooKeeperAccess("zk:2281/kafka", 4194304, Credentials(sasl, digest, expected))
    only = parsed(zookeeper={"connect": "zk:2181", "digest": logins["digest"]})
    assert only.access == ZooKeeperAccess("zk:2181", credentials=Credentials(digest=digest))
    assert parsed(zookeeper={"maxBuffer": 4194304}).access == ZooKeeperAccess("", 4194304)


def test_a_login_by_token() -> None:
    """Client credentials of OAuth, with the CA of the endpoint; scope and CA are optional."""
    given: dict[str, Any] = {
        "mechanism": "OAUTHBEARER",
        "tokenEndpoint": "https://login.example.com/token",
        "clientId": "topiarist",
        "clientSecret": {"secretKeyRef": {"name": "kafka", "key": "secret"}},
    }
    secret = SecretReference(
        "", "", Location("git/prod.yaml#spec.kafka.sasl.clientSecret.secretKeyRef"), SecretKeyRef("kafka", "secret")
    )
    login = SaslOAuth("https://login.example.com/token", "topiarist", secret)
    assert parsed(kafka={"bootstrapServers": "b1:9093", "sasl": given}).access == KafkaAccess("b1:9093", login)
    given |= {"scope": "kafka", "ca": {"file": "ca.pem"}}
    login = SaslOAuth(login.token_endpoint, "topiarist", secret, "kafka", in_file("ca.pem", "sasl.ca"))
    assert parsed(kafka={"bootstrapServers": "b1:9093", "sasl": given}).access == KafkaAccess("b1:9093", login)


def test_missing_fields_have_defaults() -> None:
    """No login, no encryption, the usual topic with three replicas, half a minute."""
    assert parsed(kafka={"bootstrapServers": "b1:9092"}).access == KafkaAccess(
        "b1:9092", None, None, RecordsTopic("__topiarist", 3), 30
    )


def test_via_names_the_section_that_is_used() -> None:
    """Both sections are parsed, and ``via`` chooses; one section needs no ``via``; no section is no access."""
    both: dict[str, Any] = {"kafka": {"bootstrapServers": "b1:9092"}, "zookeeper": {"connect": "zk:2181/kafka"}}
    by_kafka, by_zookeeper = KafkaAccess("b1:9092"), ZooKeeperAccess("zk:2181/kafka")
    for via, access in (("Kafka", by_kafka), ("ZooKeeper", by_zookeeper)):
        found = parsed(via=via, **both)
        assert (found.via, found.kafka, found.zookeeper) == (Via(via), by_kafka, by_zookeeper)
        assert found.access == access
    assert parsed(kafka=both["kafka"]).access == by_kafka
    assert parsed(zookeeper=both["zookeeper"]).access == by_zookeeper
    assert parsed().access is None
    assert parsed(via="Kafka", zookeeper=both["zookeeper"]).access is None
