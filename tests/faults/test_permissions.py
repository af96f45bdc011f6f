"""F25: rights that are missing are named for each topic, the others are done, and nothing is half written."""

from __future__ import annotations

from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from integration.protected import READ_ONLY, Protected, called, manifests
from integration.scene import REPLICAS, WISHES, by_result, carried_out, mixed, opened, witnessed
from support import checker
from support.secured import KAFKA, READER
from support.wishes import outcomes, planned, results, wish
from topiarist.adapters.playground import Playground, Topic
from topiarist.errors import Exit, Reason
from topiarist.reconcile import Result

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
    cluster: Playground, client: KazooClient, path: str, rights: dict[str, bool], denied: dict[str, str]
) -> None:
    """One right taken away: the topics that need it fail with the path, the others are done, nothing is half written
    .
    """
    names = mixed(cluster)
    with witnessed(cluster.connect, *names, "first"), opened(cluster.connect) as port:
        results(port, planned(port, wish("first")))
        plan = planned(port, *WISHES)
        client.set_acls(path, [make_acl("world", "anyone", admin=True, **rights)])
        report = carried_out(port, plan)
        client.set_acls(path, [make_acl("world", "anyone", all=True)])
    failed = {outcome.topic: outcome.message for outcome in report.outcomes if outcome.result is Result.FAILED}
    assert failed == {topic: f"no permission to {what}" for topic, what in denied.items()}
    if path == "/topiarist/gate":
        assert report.error is not None
        assert report.error.reason is Reason.NO_PERMISSION
        assert set(by_result(report.outcomes)) == {Result.NOT_SENT}
    else:
        assert report.error is None
        assert report.exit is Exit.ERROR
        assert {outcome.result for outcome in report.outcomes if outcome.topic not in denied} <= {Result.DONE}
    for topic in denied:
        assert not client.exists(f"/topiarist/topics/{topic}")


@pytest.mark.parametrize("parent", ["/config/topics", "/topiarist/topics"])
def test_f25_a_leftover_that_cannot_be_read_is_named(cluster: Playground, client: KazooClient, parent: str) -> None:
    """A node that an earlier topic of that name left, closed to us: said with its path, before and at the write."""
    with opened(cluster.connect) as port:
        results(port, planned(port, wish("first")))
        plan = planned(port, wish("orders"))
        client.create(f"{parent}/orders", b"{}", acl=[make_acl("world", "anyone", write=True)])
        found = outcomes(port, plan)["orders"]
    assert (found.result, found.reason) == (Result.FAILED, Reason.NO_PERMISSION)
    assert found.message == f"no permission to read {parent}/orders"


def test_f25_reading_is_not_enough_to_apply(
    protected: Protected, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing at all is written, and the error names the node and who we are."""
    protected.protect(SASL, make_acl("sasl", READER, read=True))
    folder = manifests(tmp_path, {"connect": protected.playground.connect, **protected.sasl(READER)}, "orders")
    assert called("apply", folder, "--yes") == 1
    said = capsys.readouterr().err
    assert "error: cluster prod: no permission to create /topiarist, where topiarist keeps" in said
    assert "give SASL user reader the right, or make the node" in said
    assert protected.playground.client.get_children("/brokers/topics") == []


def test_f25_a_topic_that_is_not_ours_to_write_is_named(
    protected: Protected, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No permission on one znode: that topic keeps every byte, the others are written."""
    names = ("clicks", "orders", "views")
    protected.playground.add_topics(*(Topic(name, REPLICAS[:1], {}) for name in names))
    protected.protect(SASL, READ_ONLY)
    before = checker.look(protected.playground.connect)
    protected.playground.client.set_acls("/brokers/topics/orders", [make_acl("sasl", "other", all=True), READ_ONLY])
    folder = manifests(tmp_path, {"connect": protected.playground.connect, **protected.sasl()}, *names)
    assert called("apply", folder, "--adopt=*", "--yes") == 1
    assert "no permission to set /brokers/topics/orders" in capsys.readouterr().out
    protected.playground.settle()
    after = checker.look(protected.playground.connect)
    assert checker.problems(before, after, ("clicks", "views")) == []
    assert {name: len(topic["partitions"]) for name, topic in checker.topics(after).items()} == {
        "clicks": 2,
        "orders": 1,
        "views": 2,
    }


def test_f25_a_subtree_that_is_not_ours_to_write(
    protected: Protected, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No right to make configs: a new topic is not made at all, and the node that is missing is named."""
    protected.protect(SASL, READ_ONLY)
    protected.protect(make_acl("sasl", "other", all=True), READ_ONLY, below="/config/topics")
    folder = manifests(tmp_path, {"connect": protected.playground.connect, **protected.sasl()}, "orders", "views")
    assert called("apply", folder, "--yes") == 1
    assert capsys.readouterr().out.count("no permission to create children of /config/topics") == 2
    tree = checker.look(protected.playground.connect)
    assert not [path for path in tree if path.endswith(("/orders", "/views"))]
