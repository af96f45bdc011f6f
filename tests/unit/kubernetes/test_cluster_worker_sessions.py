"""Sessions with clusters: kept from pass to pass, and opened again for new secrets; only the operator reads these."""

from __future__ import annotations

import copy
import stat
from base64 import b64encode
from collections import Counter
from pathlib import Path
from threading import Barrier, Thread
from typing import Any, Self

import pytest

from support.kubernetes import resource_bodies
from topiarist.desired import parse
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import cluster_worker
from topiarist.kubernetes.api.resources import ResourceSource, parse_resource
from topiarist.kubernetes.cluster_worker import (
    ClusterSession,
    SecretValues,
    secret_keys,
    write_secret_files,
)
from topiarist.model import spec as spec_
from topiarist.model.access import KafkaAccess, SecretKeyRef, SecretReference, map_references
from topiarist.model.spec import ClusterSpec
from unit.kubernetes.topic_results import spec_of

PASSWORD, OTHER = "first", "the-second"
LOGIN = SecretKeyRef("login", "password")


def named(name: str, key: str) -> dict[str, Any]:
    """A reference to a Secret."""
    return {"secretKeyRef": {"name": name, "key": key}}


def spec(**zookeeper: Any) -> ClusterSpec:
    """A Cluster, by default with a login."""
    sasl = {"sasl": {"username": "kafka", "password": named("login", "password")}}
    return spec_of(resource_bodies.cluster(zookeeper={"connect": "zk:2181", **(zookeeper or sasl)}))


def of(**fields: Any) -> ClusterSpec:
    """A Cluster with exactly these fields."""
    return spec_of(parse_resource(resource_bodies.body("Cluster", "prod", fields)))


def secrets(text: str = PASSWORD, *keys: SecretKeyRef) -> SecretValues:
    """What the API server gives."""
    return dict.fromkeys(keys or (LOGIN,), b64encode(text.encode()).decode())


def references(spec: ClusterSpec) -> list[SecretReference]:
    """The references of a Cluster's access."""
    found: list[SecretReference] = []

    def note(reference: SecretReference) -> SecretReference:
        found.append(reference)
        return reference

    assert spec.access is not None
    map_references(spec.access, note)
    return found


class Opened:
    """What stands in for a session that is open."""

    all: list[Opened]
    fails = False

    def __init__(self, spec: ClusterSpec, **options: Any) -> None:
        self.spec = spec
        self.options = options
        self.requests = Counter({("read", "ok"): 1})
        self.closed = False
        files = [Path(reference.file) for reference in references(spec)]
        self.password = files[0].read_text() if files else ""
        Opened.all.append(self)

    def enable_decode_cache(self) -> Self:
        """Keep what was read."""
        return self

    def read_cluster_id(self) -> str:
        """Return the id of the cluster, which a test may let fail."""
        if Opened.fails:
            raise TopiaristError(Reason.SESSION_LOST, "lost")
        return "id"

    def close(self) -> None:
        """End it."""
        assert not self.closed
        self.closed = True


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Opened]:
    """The sessions that were opened."""
    Opened.all = []
    monkeypatch.setattr(cluster_worker, "open_cluster", Opened)
    return Opened.all


def test_a_session_lives_from_pass_to_pass(opened: list[Opened], tmp_path: Path) -> None:
    """As long as nothing that it was opened with has changed."""
    session = ClusterSession("k8s/shop/topiarist", tmp_path)
    first = session.cluster(spec(), secrets())
    assert session.cluster(spec(), secrets()) is first
    assert len(opened) == 1
    assert opened[0].options == {"owner": "k8s/shop/topiarist", "connect_timeout": 10.0, "lock_timeout": 30.0}
    assert opened[0].password == PASSWORD


def test_a_session_without_its_cluster_id_is_opened_again(
    opened: list[Opened], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that is lost before its cluster id is read is closed, and no other id is used meanwhile."""
    session = ClusterSession("k8s/shop/topiarist", tmp_path)
    monkeypatch.setattr(Opened, "fails", True)
    with pytest.raises(TopiaristError, match="lost"):
        session.cluster(spec(), secrets())
    monkeypatch.setattr(Opened, "fails", False)
    session.cluster(spec(), secrets())
    assert ([each.closed for each in opened], session.cluster_id) == ([True, False], "id")


@pytest.mark.parametrize(
    ("changed", "given"),
    [
        (spec(), secrets(OTHER)),
        (spec(sasl={"username": "other", "password": named("login", "password")}), secrets()),
        (spec_of(resource_bodies.cluster(zookeeper={"connect": "zk2:2181"})), secrets()),
        (spec(maxBuffer=2_000_000), secrets()),
        (of(kafka={"bootstrapServers": "b1:9092"}), {}),
    ],
)
def test_what_has_changed_opens_a_new_one(
    opened: list[Opened], tmp_path: Path, changed: ClusterSpec, given: SecretValues
) -> None:
    """Secrets, user, address, size, way: the old one is closed first, and what it was asked still counts."""
    session = ClusterSession("o", tmp_path)
    session.cluster(spec(), secrets())
    session.cluster(changed, given)
    session.cluster(changed, given)
    assert [each.closed for each in opened] == [True, False]
    assert session.requests() == {("read", "ok"): 2}


def test_a_rotated_password_is_the_new_one(opened: list[Opened], tmp_path: Path) -> None:
    """The file has the new password before it is read."""
    session = ClusterSession("o", tmp_path)
    for text in (PASSWORD, OTHER):
        session.cluster(spec(), secrets(text))
    assert [each.password for each in opened] == [PASSWORD, OTHER]
    session.close()
    session.close()
    assert [each.closed for each in opened] == [True, True]


ALL: dict[str, Any] = {
    "sasl": {"username": "u", "password": named("login", "password")},
    "digest": {"username": "u", "password": named("login", "digest")},
    "tls": {
        "ca": named("tls", "ca.crt"),
        "certificate": named("tls", "tls.crt"),
        "key": named("tls", "tls.key"),
        "keyPassword": named("tls", "password"),
    },
}
KEYS = {
    SecretKeyRef("login", "password"),
    SecretKeyRef("login", "digest"),
    *(SecretKeyRef("tls", key) for key in ("ca.crt", "tls.crt", "tls.key", "password")),
}


def everything() -> ClusterSpec:
    """A Cluster with all credentials that there can be."""
    return spec(**ALL)


def by_brokers(**kafka: Any) -> ClusterSpec:
    """A Cluster that is reached through its brokers."""
    return of(kafka={"bootstrapServers": "b1:9093", **kafka})


SCRAM = {"mechanism": "SCRAM-SHA-512", "username": "u", "password": named("login", "password")}
OAUTH = {
    "mechanism": "OAUTHBEARER",
    "tokenEndpoint": "https://login.example.com/token",
    "clientId": "u",
    "clientSecret": named("login", "secret"),
    "ca": named("login", "ca.crt"),
}
TLS_KEYS = {key for key in KEYS if key.name == "tls"}
BROKERS = {
    "scram": (by_brokers(sasl=SCRAM, tls=ALL["tls"]), TLS_KEYS | {LOGIN}),
    "oauth": (by_brokers(sasl=OAUTH), {SecretKeyRef("login", "secret"), SecretKeyRef("login", "ca.crt")}),
    "tls": (by_brokers(tls=ALL["tls"]), TLS_KEYS),
}


@pytest.mark.parametrize("form", BROKERS)
def test_secrets_for_brokers_are_files_too(form: str, tmp_path: Path) -> None:
    """Logins, client secrets and certificates of ``spec.kafka`` are asked for by name, and written for the session."""
    cluster, keys = BROKERS[form]
    assert secret_keys(cluster.access) == keys
    found = write_secret_files(cluster, {key: b64encode(key.key.encode()).decode() for key in keys}, tmp_path)
    assert {Path(each.file).read_text() for each in references(found)} == {key.key for key in keys}
    assert [each.secret for each in references(found)] == [None] * len(keys)
    for missing in keys:
        with pytest.raises(TopiaristError, match=f"no key {missing.key} in a Secret {missing.name}") as caught:
            write_secret_files(cluster, {key: "" for key in keys if key != missing}, tmp_path)
        assert caught.value.reason is Reason.CREDENTIALS_INVALID
        assert str(caught.value).startswith("spec.kafka.")


def test_only_the_used_way_needs_its_secrets() -> None:
    """With both sections, the Secrets of the one that ``via`` names are read."""
    kafka = {"bootstrapServers": "b1:9093", "sasl": OAUTH}
    zookeeper = {"connect": "zk:2181", "sasl": ALL["sasl"]}
    for via, keys in (("Kafka", BROKERS["oauth"][1]), ("ZooKeeper", {LOGIN})):
        both = of(via=via, kafka=kafka, zookeeper=zookeeper)
        assert secret_keys(both.access) == keys


def test_only_named_secrets_are_asked_for() -> None:
    """Every key that the Cluster names, and none besides."""
    assert secret_keys(everything().access) == KEYS
    assert secret_keys(spec_of(resource_bodies.cluster()).access) == frozenset()


def test_secrets_lie_in_files_that_nobody_else_can_read(tmp_path: Path) -> None:
    """One for each, with what the Secret has, whatever mask there is."""
    found = write_secret_files(everything(), {key: b64encode(key.key.encode()).decode() for key in KEYS}, tmp_path)
    files = [Path(reference.file) for reference in references(found)]
    assert [reference.secret for reference in references(found)] == [None] * len(KEYS)
    assert {path.read_text() for path in files} == {key.key for key in KEYS}
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    assert sorted(tmp_path.iterdir()) == sorted(files)


@pytest.mark.parametrize("missing", sorted(KEYS))
def test_a_secret_that_is_not_there_is_named(missing: SecretKeyRef, tmp_path: Path) -> None:
    """With its key, and where the Cluster asks for it."""
    there = {key: "" for key in KEYS if key != missing}
    with pytest.raises(TopiaristError) as caught:
        write_secret_files(everything(), there, tmp_path)
    assert caught.value.reason is Reason.CREDENTIALS_INVALID
    assert f"there is no key {missing.key} in a Secret {missing.name} of the operator's namespace" in str(caught.value)
    assert str(caught.value).startswith("spec.zookeeper.")


@pytest.mark.parametrize("form", ["file", "env"])
@pytest.mark.parametrize("field", ["password", "digest", "ca", "certificate", "key", "keyPassword"])
def test_what_lies_beside_the_operator_is_never_read(
    field: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reference to a file or a variable ends the session before it is opened, even if the API server accepted it."""
    own = tmp_path / "token"
    own.write_text("token")
    monkeypatch.setenv("TOPIARIST_TOKEN", "token")
    local = {"file": str(own), "env": "TOPIARIST_TOKEN"}[form]
    zookeeper = copy.deepcopy(ALL)
    holder = zookeeper["tls"] if field in zookeeper["tls"] else zookeeper["digest" if field == "digest" else "sasl"]
    holder["password" if field == "digest" else field] = {form: local}
    document = resource_bodies.body("Cluster", "prod", {"zookeeper": {"connect": "zk:2181", **zookeeper}})
    found = parse.parse_cluster_spec(spec_.make_manifest(document, ResourceSource({})))
    given = {key: b64encode(b"x").decode() for key in KEYS}
    with pytest.raises(TopiaristError) as caught:
        write_secret_files(found, given, tmp_path)
    assert caught.value.reason is Reason.CREDENTIALS_INVALID
    place, _, words = str(caught.value).partition(": ")
    assert place.endswith(f"{'password' if field == 'digest' else field}.{form}")
    assert words.splitlines() == [
        f"the operator reads no {'file' if form == 'file' else 'environment variable'} that a Cluster names",
        "    put the value into a Secret of the operator's namespace and name it by secretKeyRef",
    ]


def test_a_file_is_never_seen_half_written(tmp_path: Path) -> None:
    """Two clusters that name one Secret write it while the other one reads."""
    texts = {PASSWORD, OTHER}
    started, seen = Barrier(2), set()
    path = Path(references(write_secret_files(spec(), secrets(), tmp_path))[0].file)

    def writes() -> None:
        started.wait()
        for number in range(300):
            write_secret_files(spec(), secrets(PASSWORD if number % 2 else OTHER), tmp_path)

    thread = Thread(target=writes)
    thread.start()
    started.wait()
    while thread.is_alive():
        seen.add(path.read_text())
    thread.join()
    assert seen <= texts


def test_a_session_knows_the_topic_of_records(opened: list[Opened], tmp_path: Path) -> None:
    """The id of an earlier session reaches the access, and a new id alone opens no new session."""
    session = ClusterSession("o", tmp_path)
    by_kafka = of(kafka={"bootstrapServers": "b1:9092"})
    session.cluster(by_kafka, {}, "first")
    session.cluster(by_kafka, {}, "second")
    (only,) = opened
    assert isinstance(only.spec.access, KafkaAccess)
    assert only.spec.access.records.known_id == "first"


def test_usage_is_read_with_the_secrets_of_the_brokers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A Cluster that is reached through ZooKeeper may have brokers too, with a login of their own."""
    asked: list[tuple[ClusterSpec, float]] = []
    monkeypatch.setattr(
        cluster_worker, "open_usage_reader", lambda spec, *, connect_timeout: asked.append((spec, connect_timeout))
    )
    session = ClusterSession("o", tmp_path)
    assert session.open_usage_reader(spec(), secrets()) is None
    assert asked == []
    both = of(
        zookeeper={"connect": "zk:2181"},
        kafka={"bootstrapServers": "b1:9093", "sasl": SCRAM},
        kafkaVersion="3.9",
        via="ZooKeeper",
    )
    session.open_usage_reader(both, secrets())
    ((given, timeout),) = asked
    assert timeout == 10.0
    assert isinstance(given.access, KafkaAccess)
    assert [Path(each.file).read_text() for each in references(given)] == [PASSWORD]
