"""Kafka's state outside of topiarist's control: broker defaults, groups, quotas.

topiarist reads all of it correctly, and adopts a whole cluster without a change that Kafka notices.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from brokers.topiarist_runs import manifest_folder, plan_topics, run_in_process, run_tool, snapshot_rows
from support.kafka.kafka_fixture import KafkaFixture
from support.zookeeper import write_checker
from support.zookeeper.write_checker import Tree
from topiarist.errors import Exit

OURS = {"/topiarist", "/topiarist/lock", "/topiarist/gate", "/topiarist/topics"}
"""Znodes that topiarist's first run on a cluster creates; ownership records and the lock are below them."""


def test_the_brokers_dynamic_default_is_what_a_change_is_judged_by(automatic: KafkaFixture) -> None:
    """topiarist reads a dynamic default of all brokers and bases the risk of a change on it.

    A default of a single broker is ignored.
    """
    bed = automatic
    assert bed.clients.create({"judged": ((1,),)}) == {}
    bed.declare({"judged": {"partitions": 1, "replicationFactor": 1, "config": {"retention.ms": 100_000_000}}})
    for broker, value, found, risk in (
        ("1", "90000000", {}, "DataLoss"),
        ("", "90000000", {"log.retention.ms": "90000000"}, "Disruptive"),
        ("", "100000000", {"log.retention.ms": "100000000"}, "Safe"),
        ("", None, {}, "DataLoss"),
    ):
        assert bed.clients.alter({broker: {"log.retention.ms": value}}, kind="BROKER") == {}
        assert snapshot_rows(bed)[""]["brokerDefaults"] == found
        (topic,) = json.loads(run_in_process("plan", manifest_folder(bed), "--adopt=*", "--format", "json").out)[
            "clusters"
        ][0]["topics"]
        assert [change["risk"] for change in topic["changes"]] == [risk]
    assert bed.clients.alter({"1": {"log.retention.ms": None}}, kind="BROKER") == {}


def test_a_whole_cluster_is_adopted_without_a_word_to_kafka(
    automatic: KafkaFixture, report: Callable[[str], None]
) -> None:
    """An apply of an unchanged export of a whole cluster writes only ownership records, and no znode of Kafka.

    The cluster has groups, quotas and topics of other tests.
    """
    bed = automatic
    furnish(bed)
    folder, before = bed.folder / "exported", write_checker.read_nodes(bed.kafka.connect)
    words: tuple[Any, ...] = ("--zookeeper", bed.kafka.connect, "--kafka-version", bed.kafka.version, "--out", folder)
    said = run_in_process("export", *words)
    assert said.code == Exit.DONE, said
    assert "__consumer_offsets: internal topic of Kafka" in said.err
    found = plan_topics(folder)
    assert {(one.changes, one.refusals) for one in found.values()} <= {(("TakeOwnership",), ()), ((), ())}
    names = write_checker.decode_topics(before).keys() - {"__consumer_offsets"}
    assert {path.stem.partition(".")[2] for path in (folder / "topics").iterdir()} == names
    adopted = {name for name, one in found.items() if one.changes}
    assert {"kept-by-tool", "kept-automatically"} <= adopted
    assert run_in_process("apply", folder, "--yes").code == Exit.DONE
    after = write_checker.read_nodes(bed.kafka.connect)
    assert kafkas(after) == kafkas(before)
    written = {path for path, node in after.items() if path.startswith("/topiarist") and node != before.get(path)}
    assert written - OURS <= {f"/topiarist/topics/{name}" for name in adopted}
    assert run_in_process("plan", folder, "--exit-code").code == Exit.DONE
    assert bed.clients.alter({"": {"log.retention.ms": None}}, kind="BROKER") == {}
    report(f"Kafka {bed.kafka.release}: {len(names)} topics exported, {len(adopted)} of them adopted")


def furnish(bed: KafkaFixture) -> None:
    """Create other state of Kafka: a group with offsets, a default of all brokers, and quotas."""
    assert bed.clients.produce({"kept-automatically": 1}, "first") == {"kept-automatically": [0]}
    assert bed.clients.create({"kept-by-tool": ((1, 2),)}, {"retention.bytes": "50000000"}) == {}
    assert bed.clients.consume_as_group("readers", ["kept-automatically"]) == 1
    assert bed.clients.alter({"": {"log.retention.ms": "86400000"}}, kind="BROKER") == {}
    whose = ("--entity-type", "users", "--entity-name", "ada", "--entity-type", "clients", "--entity-name", "app")
    quota = ("--alter", *whose, "--add-config", "consumer_byte_rate=1000000")
    run_tool(bed, "kafka-configs", *quota, since=(2, 6))
    bed.describe_in_sync(["kept-automatically", "kept-by-tool", "__consumer_offsets"])
    children = {
        path for path in write_checker.read_nodes(bed.kafka.connect) if path.startswith("/config/users/ada/clients/")
    }
    assert children == {"/config/users/ada/clients/app"}


def kafkas(tree: Tree) -> Tree:
    """Return Kafka's own znodes of a tree, without partition states, which leaders may write at any time."""
    moving = ("/topiarist", "/isr_change_notification")
    return {
        path: node
        for path, node in tree.items()
        if not path.startswith(moving) and not (path.startswith("/brokers/topics/") and path.endswith("/state"))
    }
