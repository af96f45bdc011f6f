"""Sessions with ZooKeeper: kept from pass to pass, and opened again for new secrets; only the operator reads these."""

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
from topiarist.kubernetes.api.resources import ResourceSource
from topiarist.kubernetes.cluster_worker import (
    ClusterSession,
    SecretValues,
    credential_references,
    secret_keys,
    write_secret_files,
)
from topiarist.model import spec as spec_
from topiarist.model.credentials import Credentials, SecretKeyRef
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


def secrets(text: str = PASSWORD, *keys: SecretKeyRef) -> SecretValues:
    """What the API server gives."""
    return dict.fromkeys(keys or (LOGIN,), b64encode(text.encode()).decode())


class Opened:
    """What stands in for a session that is open."""

    all: list[Opened]

    def __init__(self, spec: ClusterSpec, **options: Any) -> None:
        self.spec = spec
        self.options = options
        self.requests = Counter({("read", "ok"): 1})
        self.closed = False
        password = spec.credentials.sasl and spec.credentials.sasl.password
        self.password = Path(password.file).read_text() if password and password.file else ""
        Opened.all.append(self)

    def enable_decode_cache(self) -> Self:
        """Keep what was read."""
        return self

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
    assert opened[0].options["owner"] == "k8s/shop/topiarist"
    assert opened[0].password == PASSWORD


@pytest.mark.parametrize(
    ("changed", "given"),
    [
        (spec(), secrets(OTHER)),
        (spec(sasl={"username": "other", "password": named("login", "password")}), secrets()),
        (spec_of(resource_bodies.cluster(zookeeper={"connect": "zk2:2181"})), secrets()),
        (spec(maxBuffer=2_000_000), secrets()),
    ],
)
def test_what_has_changed_opens_a_new_one(
    opened: list[Opened], tmp_path: Path, changed: ClusterSpec, given: SecretValues
) -> None:
    """Secrets, user, address, size: the old one is closed first, and what it was asked still counts."""
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


def everything() -> Credentials:
    """Credentials with all that there can be."""
    return spec(**ALL).credentials


def test_only_named_secrets_are_asked_for() -> None:
    """Every key that the Cluster names, and none besides."""
    assert secret_keys(everything()) == KEYS
    assert secret_keys(spec_of(resource_bodies.cluster()).credentials) == frozenset()


def test_secrets_lie_in_files_that_nobody_else_can_read(tmp_path: Path) -> None:
    """One for each, with what the Secret has, whatever mask there is."""
    found = write_secret_files(everything(), {key: b64encode(key.key.encode()).decode() for key in KEYS}, tmp_path)
    files = [Path(reference.file) for reference in credential_references(found)]
    assert [reference.secret for reference in credential_references(found)] == [None] * len(KEYS)
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
    found = parse.parse_cluster_spec(spec_.make_manifest(document, ResourceSource({}))).credentials
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
    path = Path(next(credential_references(write_secret_files(spec().credentials, secrets(), tmp_path))).file)

    def writes() -> None:
        started.wait()
        for number in range(300):
            write_secret_files(spec().credentials, secrets(PASSWORD if number % 2 else OTHER), tmp_path)

    thread = Thread(target=writes)
    thread.start()
    started.wait()
    while thread.is_alive():
        seen.add(path.read_text())
    thread.join()
    assert seen <= texts
