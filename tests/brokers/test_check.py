"""``topiarist check`` on real brokers in ZooKeeper mode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from brokers.topiarist_runs import run_in_process
from support.kafka.kafka_fixture import KafkaFixture
from topiarist.errors import Exit


def check(*words: str | Path, code: Exit = Exit.DONE) -> dict[str, Any]:
    """Return the cluster of the JSON document that the command prints."""
    found = run_in_process("check", *words, "--format", "json")
    assert found.code == code, found
    (cluster,) = json.loads(found.out)["clusters"]
    return dict(cluster)


def given(rows: list[dict[str, Any]], value: bool | None) -> set[str]:
    """Return the capabilities, or rights, that have this answer."""
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
