"""All commands on a cluster with ACLs: new nodes get the ACL of their siblings."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id, make_acl, make_digest_acl

from integration.protected_cluster import DIGEST_OF_KAFKA, READ_ONLY, ProtectedCluster, run_verbose, write_manifests
from support.zookeeper.proxy import Proxy
from support.zookeeper.secured_server import KAFKA, PASSWORDS, READER
from topiarist.adapters.devcluster.seed import Topic

SASL = make_acl("sasl", KAFKA, all=True)
CLICKS = """\
apiVersion: topiarist.dev/v1
kind: Topic
metadata: {name: clicks}
spec: {partitions: 2, replicationFactor: 3, config: {retention.ms: 6}}
"""

REPLICAS = ((1, 2, 3), (2, 3, 4))

Ways = dict[str, tuple[ACL, Callable[[ProtectedCluster], dict[str, Any]]]]

WAYS: Ways = {
    "sasl": (SASL, lambda at: {"connect": at.playground.connect, **at.sasl()}),
    "sasl by tls": (SASL, lambda at: {"connect": at.secure, **at.sasl(), **at.tls()}),
    "digest": (
        make_acl("digest", DIGEST_OF_KAFKA, all=True),
        lambda at: {"connect": at.secure, **at.digest(), **at.tls()},
    ),
    "x509": (make_acl("x509", "CN=topiarist", all=True), lambda at: {"connect": at.secure, **at.tls("topiarist")}),
    "ip": (make_acl("ip", "127.0.0.1", all=True), lambda at: {"connect": at.playground.connect}),
}


def written(client: KazooClient) -> list[str]:
    """Return the nodes that a first run creates, and the notification of a changed config."""
    found = [f"{parent}/orders" for parent in ("/brokers/topics", "/config/topics", "/topiarist/topics")]
    found += ["/topiarist", "/topiarist/lock", "/topiarist/topics", "/topiarist/gate"]
    return found + [f"/config/changes/{name}" for name in client.get_children("/config/changes")]


@pytest.mark.parametrize("way", WAYS)
def test_what_is_written_has_the_acl_of_its_siblings(
    protected: ProtectedCluster,
    tmp_path: Path,
    way: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Validate, plan and apply succeed and the next plan is empty; each new node has the ACL of its siblings (F25)."""
    owner, zookeeper = WAYS[way]
    protected.playground.add_topics(Topic("clicks", REPLICAS, {"retention.ms": "5"}))
    protected.protect(owner, READ_ONLY)
    folder = write_manifests(tmp_path, zookeeper(protected), "orders")
    (folder / "clicks.yaml").write_text(CLICKS)
    with caplog.at_level(logging.DEBUG):
        codes = [run_verbose("validate", folder), run_verbose("plan", folder, "--adopt=*", "--exit-code")]
        codes += [run_verbose("apply", folder, "--adopt=*", "--yes", "--allow-risk=DataLoss")]
        again = run_verbose("plan", folder, "--exit-code", "--format", "json")
    assert [*codes, again] == [0, 3, 0, 0], capsys.readouterr()
    client = protected.playground.client
    acls = {path: client.get_acls(path)[0] for path in written(client)}
    assert len(acls) == 8
    assert acls == {path: [owner, READ_ONLY] for path in acls}


def test_reading_is_enough_for_a_plan(protected: ProtectedCluster, tmp_path: Path) -> None:
    """A user with read permission only gets the plan, and no write is sent."""
    protected.protect(SASL, make_acl("sasl", READER, read=True))
    with Proxy(protected.server.connect) as proxy:
        zookeeper = {"connect": proxy.through(protected.playground.connect), **protected.sasl(READER)}
        folder = write_manifests(tmp_path, zookeeper, "orders")
        assert run_verbose("plan", folder, "--exit-code") == 3
        assert proxy.requests["sasl"] == 2
        assert proxy.writes == 0


def test_a_wrong_digest_password_is_told_by_what_it_may_not_do(
    protected: ProtectedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """ZooKeeper accepts any digest password: the error about the first missing permission mentions this possible
    cause.
    """
    protected.protect(make_acl("digest", DIGEST_OF_KAFKA, all=True))
    zookeeper = {"connect": protected.playground.connect, **protected.digest()}
    zookeeper["digest"]["password"] = {"file": str(protected.server.password(READER))}
    folder = write_manifests(tmp_path, zookeeper, "orders")
    assert run_verbose("plan", folder) == 1
    said = capsys.readouterr().err
    assert "no permission to read /admin/delete_topics, /brokers/ids, /brokers/topics" in said
    assert "give digest user kafka (or its password is wrong: ZooKeeper does not report that for digest)" in said
    assert "for digest) permission to read them" in said


def test_an_acl_that_is_hidden_is_not_guessed(
    protected: ProtectedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the admin permission ZooKeeper masks digests, so topiarist does not copy such an ACL: the mask would lock
    the brokers out.
    """
    rights = make_acl("sasl", KAFKA, read=True, write=True, create=True, delete=True)
    protected.protect(rights, make_digest_acl("brokers", "planted-elsewhere", all=True))
    folder = write_manifests(tmp_path, {"connect": protected.playground.connect, **protected.sasl()}, "orders")
    assert run_verbose("apply", folder, "--yes") == 1
    assert "the ACL of /brokers/topics has digest entries, which ZooKeeper shows only to clients with the admin" in (
        capsys.readouterr().err
    )
    assert not protected.playground.client.exists("/topiarist")


def test_only_a_digest_is_masked(protected: ProtectedCluster, tmp_path: Path) -> None:
    """Names of other schemes may end like a mask: ZooKeeper shows them to every client, and topiarist copies them
    unchanged.
    """
    other = make_acl("sasl", "brokers:x", all=True)
    protected.protect(SASL, other)
    folder = write_manifests(tmp_path, {"connect": protected.playground.connect, **protected.sasl()}, "orders")
    assert run_verbose("apply", folder, "--yes") == 0
    assert protected.playground.client.get_acls("/brokers/topics/orders")[0] == [SASL, other]


def test_two_logins_at_once_have_the_rights_of_both(protected: ProtectedCluster, tmp_path: Path) -> None:
    """SASL for one part of the nodes and digest for another, over TLS: each login grants its own permissions."""
    protected.protect(SASL)
    protected.protect(make_acl("digest", DIGEST_OF_KAFKA, all=True), below="/config")
    zookeeper = {"connect": protected.secure, **protected.sasl(), **protected.digest(), **protected.tls()}
    folder = write_manifests(tmp_path, zookeeper, "orders")
    assert run_verbose("apply", folder, "--yes") == 0
    client = protected.playground.client
    assert client.get_acls("/config/topics/orders")[0] == [make_acl("digest", DIGEST_OF_KAFKA, all=True)]
    assert client.get_acls("/topiarist/topics/orders")[0] == [SASL]


def test_an_open_cluster_stays_open(protected: ProtectedCluster, tmp_path: Path) -> None:
    """A login does not restrict nodes that the brokers left open, because the brokers could not change them
    afterwards.
    """
    folder = write_manifests(tmp_path, {"connect": protected.playground.connect, **protected.sasl()}, "orders")
    assert run_verbose("apply", folder, "--yes") == 0
    assert protected.playground.client.get_acls("/brokers/topics/orders")[0] == OPEN_ACL_UNSAFE


def test_the_secrets_are_in_the_search(protected: ProtectedCluster) -> None:
    """The search for secrets in the suite's output covers the credentials of these tests."""
    assert all("planted" in password for password in PASSWORDS.values())
    assert SASL.id == Id("sasl", KAFKA)
    assert protected.server.password(KAFKA).read_text().strip() == PASSWORDS[KAFKA]
