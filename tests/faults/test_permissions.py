"""F25: missing rights are named for each topic, the others are done, and nothing is half written."""

from __future__ import annotations

from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from integration.protected_cluster import READ_ONLY, ProtectedCluster, run_verbose, write_manifests
from integration.write_fixtures import (
    DESIRED_SPECS,
    REPLICAS,
    apply_without_hooks,
    connect_cluster,
    create_mixed_topics,
    topics_by_result,
    verify_changes,
)
from support.builders import apply_outcomes, apply_results, plan_specs, topic_spec
from support.zookeeper import write_checker
from support.zookeeper.secured_server import KAFKA, READER
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.errors import Exit, Reason
from topiarist.model.outcome import Result

SASL = make_acl("sasl", KAFKA, all=True)

PROTECTED: list[tuple[str, dict[str, bool], dict[str, str]]] = [
    ("/brokers/topics", {"read": True}, {"create": "create children of /brokers/topics"}),
    ("/config/topics", {"read": True}, {"create": "create children of /config/topics"}),
    ("/config/changes", {"read": True}, {"configure": "create children of /config/changes"}),
    ("/brokers/topics/grow", {"read": True}, {"grow": "set /brokers/topics/grow"}),
    (
        "/admin/delete_topics",
        {"read": True},
        {"create": "create children of /admin/delete_topics", "grow": "create children of /admin/delete_topics"},
    ),
    (
        "/admin/delete_topics",
        {"read": True, "create": True},
        {"create": "delete children of /admin/delete_topics", "grow": "delete children of /admin/delete_topics"},
    ),
    (
        "/topiarist/topics",
        {"read": True},
        dict.fromkeys(("configure", "create", "grow", "same"), "create children of /topiarist/topics"),
    ),
    ("/config/topics/configure", {"read": True}, {"configure": "set /config/topics/configure"}),
    (
        "/topiarist/gate",
        {"write": True},
        {},
    ),
]


@pytest.mark.parametrize(("path", "rights", "denied"), PROTECTED)
def test_f25_every_missing_right_is_named(
    cluster: SimulatedKafka, client: KazooClient, path: str, rights: dict[str, bool], denied: dict[str, str]
) -> None:
    """One missing right: the topics that need it fail with the path, the others are done, nothing is half written."""
    names = create_mixed_topics(cluster)
    with verify_changes(cluster.connect, *names, "first"), connect_cluster(cluster.connect) as port:
        apply_results(port, plan_specs(port, topic_spec("first")))
        plan = plan_specs(port, *DESIRED_SPECS)
        client.set_acls(path, [make_acl("world", "anyone", admin=True, **rights)])
        report = apply_without_hooks(port, plan)
        client.set_acls(path, [make_acl("world", "anyone", all=True)])
    failed = {outcome.topic: outcome.message for outcome in report.outcomes if outcome.result is Result.FAILED}
    assert failed == {topic: f"no permission to {what}" for topic, what in denied.items()}
    if path == "/topiarist/gate":
        assert report.error is not None
        assert report.error.reason is Reason.NO_PERMISSION
        assert set(topics_by_result(report.outcomes)) == {Result.SKIPPED}
    else:
        assert report.error is None
        assert report.exit_code is Exit.ERROR
        assert {outcome.result for outcome in report.outcomes if outcome.topic not in denied} <= {Result.DONE}
    for topic in denied:
        assert not client.exists(f"/topiarist/topics/{topic}")


@pytest.mark.parametrize("parent", ["/config/topics", "/topiarist/topics"])
def test_f25_a_leftover_that_cannot_be_read_is_named(cluster: SimulatedKafka, client: KazooClient, parent: str) -> None:
    """An unreadable znode of an earlier topic of that name is reported with its path, at planning and at the write."""
    with connect_cluster(cluster.connect) as port:
        apply_results(port, plan_specs(port, topic_spec("first")))
        plan = plan_specs(port, topic_spec("orders"))
        client.create(f"{parent}/orders", b"{}", acl=[make_acl("world", "anyone", write=True)])
        found = apply_outcomes(port, plan)["orders"]
    assert (found.result, found.reason) == (Result.FAILED, Reason.NO_PERMISSION)
    assert found.message == f"no permission to read {parent}/orders"


def test_f25_reading_is_not_enough_to_apply(
    protected: ProtectedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written, and the error names the znode and topiarist's identity."""
    protected.protect(SASL, make_acl("sasl", READER, read=True))
    folder = write_manifests(tmp_path, {"connect": protected.playground.connect, **protected.sasl(READER)}, "orders")
    assert run_verbose("apply", folder, "--yes") == 1
    said = capsys.readouterr().err
    assert "error: cluster prod: no permission to create /topiarist, where topiarist stores" in said
    assert "give SASL user reader the permission, or create the znode" in said
    assert protected.playground.client.get_children("/brokers/topics") == []


def test_f25_a_topic_that_is_not_ours_to_write_is_named(
    protected: ProtectedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No permission on one znode: that topic keeps every byte, the others are written."""
    names = ("clicks", "orders", "views")
    protected.playground.add_topics(*(Topic(name, REPLICAS[:1], {}) for name in names))
    protected.protect(SASL, READ_ONLY)
    before = write_checker.read_nodes(protected.playground.connect)
    protected.playground.client.set_acls("/brokers/topics/orders", [make_acl("sasl", "other", all=True), READ_ONLY])
    folder = write_manifests(tmp_path, {"connect": protected.playground.connect, **protected.sasl()}, *names)
    assert run_verbose("apply", folder, "--adopt=*", "--yes") == 1
    assert "no permission to set /brokers/topics/orders" in capsys.readouterr().out
    protected.playground.wait_idle()
    after = write_checker.read_nodes(protected.playground.connect)
    assert write_checker.find_problems(before, after, ("clicks", "views")) == []
    assert {name: len(topic["partitions"]) for name, topic in write_checker.decode_topics(after).items()} == {
        "clicks": 2,
        "orders": 1,
        "views": 2,
    }


def test_f25_a_subtree_that_is_not_ours_to_write(
    protected: ProtectedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No right to create configs: a new topic is not created, and the missing znode is named."""
    protected.protect(SASL, READ_ONLY)
    protected.protect(make_acl("sasl", "other", all=True), READ_ONLY, below="/config/topics")
    folder = write_manifests(tmp_path, {"connect": protected.playground.connect, **protected.sasl()}, "orders", "views")
    assert run_verbose("apply", folder, "--yes") == 1
    assert capsys.readouterr().out.count("no permission to create children of /config/topics") == 2
    tree = write_checker.read_nodes(protected.playground.connect)
    assert not [path for path in tree if path.endswith(("/orders", "/views"))]
