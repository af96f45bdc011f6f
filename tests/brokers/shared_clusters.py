"""The clusters that tests share: what their brokers are told, so that each test finds what it needs on one of them.

| fixture | mode | brokers |
| --- | --- | --- |
| ``racked`` | ZooKeeper | five in three racks of different sizes |
| ``bare`` | ZooKeeper | three without racks |
| ``automatic`` | ZooKeeper | three in three racks, which create a topic at the first write to it |
| ``moves``, ``scene`` | ZooKeeper | four in two racks |
| ``kraft`` | KRaft | three in three racks, and a controller; with an authorizer, a login and policies |
| ``secured`` | KRaft | one, which is the controller too; with an authorizer and a listener for each kind of security |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from brokers.moves_fixture import FETCH_BYTES
from support.kafka.kraft import (
    ACLS,
    OAUTH,
    POLICIES,
    KafkaListener,
    KraftCluster,
    KraftOptions,
    plain_and_scram,
    tls_of,
)
from support.network.certificates import EXPIRED, Authority
from support.secret_scanner import register_secret

RACKED_BROKERS: dict[int, str | None] = {1: "b", 2: "a", 4: "c", 7: "b", 9: "a"}
"""Racks of different sizes, with names in another order than the broker ids, and with gaps between the ids."""

RACKLESS_BROKERS: dict[int, str | None] = {1: None, 2: None, 3: None}

THREE_RACKS: dict[int, str | None] = {1: "a", 2: "b", 3: "c"}

AUTO_CREATE_PROPERTIES: dict[str, object] = {
    "auto.create.topics.enable": "true",
    "num.partitions": 3,
    "default.replication.factor": 2,
}
"""Settings of brokers that create a topic at the first write to it."""

GROUPS: Mapping[str, object] = {
    "offsets.topic.num.partitions": 4,
    "offsets.topic.replication.factor": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
}
"""One replica of the committed offsets, so that a broker that is away takes its groups along."""

PASSWORD = register_secret("planted-Hedge16-kraft")
OPERATOR_PASSWORD = register_secret("planted-Hedge16-operator")
PASSWORDS = {"alice": register_secret("planted-Hedge11-alice"), "bob=,b": register_secret("planted-Hedge12-bob")}
PRINCIPALS = 4
REAUTHENTICATION_MS = 2_000

_LOGINS = {
    "alice": PASSWORDS["alice"],
    **dict.fromkeys(("reader", "narrow", "blind", "distant"), PASSWORD),
    **{f"user-{number}": PASSWORD for number in range(PRINCIPALS)},
}
"""The users of PLAIN on all clusters with a login."""

FIRST_WITH_SCRAM = "3.5"
"""The first release with SCRAM in KRaft mode."""


def kraft_options(release: str, policy_switch: Path) -> KraftOptions:
    """Return the options of the cluster that most tests in KRaft mode share.

    Policies apply while the file ``policy_switch`` exists. Tests end brokers, and any broker may coordinate the
    transactions of topiarist, so the state of transactions has three replicas. Few samples make a quota of mutations
    take effect soon. Brokers fetch as little at a time as those of ``moves_fixture``.
    """
    return KraftOptions(
        properties={
            **ACLS,
            **POLICIES,
            **GROUPS,
            "topic.policy.switch": policy_switch,
            "transaction.state.log.replication.factor": 3,
            "replica.fetch.max.bytes": FETCH_BYTES,
        },
        controller_properties={"controller.quota.window.num": 3},
        listeners={"LOGIN": KafkaListener("SASL_PLAINTEXT", plain_and_scram(_LOGINS))},
        scram_users={"topiarist": OPERATOR_PASSWORD} if release >= FIRST_WITH_SCRAM else {},
    )


@dataclass(frozen=True)
class SecurityFiles:
    """The folder of certificates and passwords, the authority of the broker, and one that it does not know."""

    folder: Path
    authority: Authority
    other: Authority


def security_files(folder: Path) -> SecurityFiles:
    """Make both authorities."""
    return SecurityFiles(folder, Authority(folder / "authority"), Authority(folder / "other"))


@contextmanager
def secured_cluster(release: str, files: SecurityFiles) -> Iterator[KraftCluster]:
    """Start one node with ACLs and all listeners; its heap is enough to check a request of 10,000 partitions."""
    authority = files.authority
    certificate = authority.issue("broker", "127.0.0.1", "localhost")
    expired = authority.issue("expired-broker", "127.0.0.1", valid=EXPIRED)
    logins = plain_and_scram(_LOGINS)
    tls, mutual = tls_of(certificate, authority.ca), tls_of(certificate, authority.ca, client_certificate="required")
    listeners = {
        "LOGIN": KafkaListener("SASL_PLAINTEXT", logins),
        "LOGINTLS": KafkaListener("SASL_SSL", {**logins, **tls}),
        "SHORT": KafkaListener("SASL_PLAINTEXT", {**logins, "connections.max.reauth.ms": REAUTHENTICATION_MS}),
        "OAUTH": KafkaListener("SASL_PLAINTEXT", OAUTH),
        "TLS": KafkaListener("SSL", tls),
        "MUTUAL": KafkaListener("SSL", mutual),
        "EXPIRED": KafkaListener("SSL", tls_of(expired, authority.ca)),
    }
    has_scram = release >= FIRST_WITH_SCRAM
    options = KraftOptions(
        controllers=0,
        properties={**ACLS, **GROUPS},
        listeners=listeners,
        scram_users={"alice": PASSWORDS["alice"]} if has_scram else {},
        heap="768m",
    )
    with KraftCluster(release, {1: "a"}, options) as kafka:
        if has_scram:
            add_scram_user(kafka, "bob=,b", PASSWORDS["bob=,b"])
        yield kafka


def add_scram_user(kafka: KraftCluster, user: str, password: str) -> None:
    """Add a SCRAM user to a running cluster: Kafka's format tool does not take every name."""
    words = ["--add-config", f"SCRAM-SHA-512=[password={password}]", "--entity-name", user]
    words += ["--bootstrap-server", kafka.bootstrap, "--alter", "--entity-type", "users"]
    assert kafka.tool("kafka-configs", *words).code == 0
