"""``topiarist check`` on real brokers: in ZooKeeper mode, and behind a login with some permissions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from brokers.shared_clusters import PASSWORD
from brokers.topiarist_runs import run_in_process
from support.cli.runs import document
from support.kafka.acls import Acl, create_acls
from support.kafka.kafka_fixture import KafkaFixture
from support.kafka.kraft_fixture import KraftFixture
from topiarist.errors import Exit

USER = "user-0"


def check(*words: str | Path, code: Exit = Exit.DONE) -> dict[str, Any]:
    """Return the cluster of the JSON document that the command prints."""
    found = run_in_process("check", *words, "--format", "json")
    assert found.code == code, found
    (cluster,) = json.loads(found.out)["clusters"]
    return dict(cluster)


def given(rows: list[dict[str, Any]], value: bool | None) -> set[str]:
    """Return the capabilities, or permissions, that have this answer."""
    return {row.get("name") or f"{row['operation']} {row['resource']}" for row in rows if row["given"] is value}


def test_brokers_in_zookeeper_mode(bare: KafkaFixture) -> None:
    """Everything but what the release does not offer works, and without an authorizer everything is permitted.

    Brokers before 2.8 give topics no ids: the error names the other way.
    """
    if bare.kafka.release.startswith("2.4."):
        found = run_in_process("check", "--bootstrap-servers", bare.kafka.bootstrap)
        assert (found.code, "before 2.8 with via: ZooKeeper" in found.err) == (Exit.ERROR, True), found
        return
    assert bare.clients.create({"orders": ((1,),)}) == {}
    bare.describe_in_sync(["orders"])
    cluster = check("--bootstrap-servers", bare.kafka.bootstrap)
    assert (cluster["mode"], cluster["error"], cluster["topics"]) == ("ZooKeeper", None, 1)
    assert cluster["brokers"] == len(bare.kafka.brokers)
    assert given(cluster["capabilities"], False) <= {"quotas"}
    assert given(cluster["permissions"], False) == set()
    assert {"Alter Topic *", "Alter Cluster", "Describe Group *"} <= given(cluster["permissions"], True)


def test_a_login_with_some_permissions(
    kraft: KraftFixture, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The permissions of the user are shown as the brokers have them, and the command writes nothing."""
    password = tmp_path_factory.mktemp("login") / "password"
    password.write_text(PASSWORD)
    assert kraft.clients.create({"orders": ((1, 2),), "shop-orders": ((1, 2),)}) == {}
    create_acls(
        kraft.kafka.bootstrap,
        [
            Acl(USER, ("Describe", "DescribeConfigs"), "Topic", "*"),
            Acl(USER, ("AlterConfigs",), "Topic", "shop-*"),
            Acl(USER, ("Describe",), "Cluster", "*"),
        ],
    )
    login = {"mechanism": "PLAIN", "username": USER, "password": {"file": str(password)}}
    kafka = {"bootstrapServers": kraft.kafka.bootstrap_of("LOGIN"), "sasl": login}
    (tmp_path / "cluster.yaml").write_text(document("Cluster", "prod", kafka=kafka))
    cluster = check(tmp_path / "cluster.yaml")
    assert (cluster["mode"], cluster["error"], cluster["topics"]) == ("KRaft", None, 2)
    assert given(cluster["permissions"], True) == {"DescribeConfigs Topic *", "Describe Cluster"}
    assert given(cluster["permissions"], False) == {
        *(f"{each} Topic *" for each in ("Alter", "AlterConfigs", "Delete")),
        *(f"{each} Cluster" for each in ("Alter", "DescribeConfigs", "AlterConfigs")),
        "Describe Group *",
    }
    (partial,) = [
        row for row in cluster["permissions"] if (row["operation"], row["resource"]) == ("AlterConfigs", "Topic *")
    ]
    assert partial["why"] == "the user lacks it on 1 of 2 topics: orders"
    assert kraft.clients.describe(["__topiarist", "__transaction_state"])["__topiarist"] is None
