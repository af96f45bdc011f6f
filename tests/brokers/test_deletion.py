"""``ensure: Absent`` with real controllers: deleted and remaining data, and the reports of ``--wait``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from brokers.describe_comparison import describe_topic, wait_for_agreement
from support.cli.runs import RunResult, start_topiarist, without_notice
from support.kafka.clients import Clients
from support.kafka.cluster import Cluster
from support.kafka.kafka_fixture import KafkaFixture
from support.kafka.programs import Program
from support.kafka.zookeeper import ZooKeeper
from topiarist.errors import Exit

ABSENT = {"ensure": "Absent"}
MEANT = ("--yes", "--allow-risk", "DataLoss")
WAITING = "waiting for the controller to delete 1 topic, at most 300 s without progress\n"


def nodes(bed: KafkaFixture, topic: str) -> set[str]:
    """Return the existing znodes of Kafka for a topic."""
    paths = {f"/brokers/topics/{topic}", f"/config/topics/{topic}", f"/admin/delete_topics/{topic}"}
    return {path for path in paths if bed.kafka.client.exists(path)}


def folders(bed: KafkaFixture, topic: str) -> set[str]:
    """Return the folders of a topic's partitions on all brokers, without those renamed for deletion."""
    logs = [broker.folder / "data" for broker in bed.kafka.brokers.values()]
    return {path.name for log in logs for path in log.glob(f"{topic}-*") if not path.name.endswith("-delete")}


def running(bed: KafkaFixture, *words: str) -> Popen[str]:
    """Start a run, and return it once it waits for a deletion."""
    run = start_topiarist("apply", bed.folder / "manifests", *MEANT, "--wait", *words)
    assert run.stderr
    said = next(line for line in run.stderr if without_notice(line))
    assert said == WAITING, said + run.communicate()[1]
    return run


def end(run: Popen[str]) -> RunResult:
    """Return the result of a run that can now finish."""
    out, err = run.communicate(timeout=300)
    return RunResult(run.returncode, out, err)


def made(bed: KafkaFixture, topics: dict[str, dict[str, Any]]) -> None:
    """Create topics, and write a message to each partition."""
    bed.declare(topics)
    bed.apply("--wait")
    found = bed.describe_in_sync(topics)
    bed.write_messages({name: topic.replicas for name, topic in found.items()}, "old")


@pytest.mark.core
def test_gone_is_gone(bare: KafkaFixture) -> None:
    """A run waits while one broker is suspended.

    It ends after the broker resumes, and then no data of the topic remains. Declared again, it is another topic, with
    another id and without messages.
    """
    brokers = sorted(bare.kafka.racks)
    spec = {"replicaAssignment": [brokers, brokers[::-1]], "config": {"retention.ms": 77_000_000}}
    slow = next(broker for broker in brokers if broker != bare.kafka.controller())
    made(bare, {"gone": spec, "kept": spec})
    before = bare.describe_in_sync(["gone", "kept"])
    assert folders(bare, "gone") == {"gone-0", "gone-1"}
    bare.declare({"gone": ABSENT, "kept": spec})
    bare.kafka.pause(slow)
    try:
        run = running(bare)
        # Meanwhile another run waits until its own timeout.
        said = bare.run("apply", *MEANT, "--wait", "--wait-timeout", "1")
        assert (said.code, "still marked for deletion: " in said.out) == (Exit.ERROR, True), said
        assert nodes(bare, "gone") >= {"/brokers/topics/gone", "/admin/delete_topics/gone"}
        assert run.poll() is None, run.communicate()
    finally:
        bare.kafka.resume(slow)
    said = end(run)
    assert (nodes(bare, "gone"), folders(bare, "gone")) == (set(), set())
    assert (said.code, said.err.splitlines()[-1]) == (Exit.DONE, "1 topic deleted"), said
    assert "Applied: 1 done." in said.out
    bare.kafka.wait(lambda: bare.clients.describe(["gone"]) == {"gone": None}, "the brokers to forget the topic")
    assert describe_topic(bare, "gone").phase == "Deleted"
    assert bare.run("plan", "--exit-code").code == Exit.DONE

    bare.declare({"gone": spec, "kept": spec})
    bare.apply("--wait")
    after = bare.describe_in_sync(["gone", "kept"])
    assert after["kept"].id == before["kept"].id
    assert after["gone"].id is None or after["gone"].id != before["gone"].id
    assert (after["gone"].id is None) == (before["gone"].id is None)
    bare.write_messages({"gone": [0, 1]}, "new")
    assert bare.read_messages({"gone": [0, 1], "kept": [0, 1]}) == {"gone": [["new"]] * 2, "kept": [["old"]] * 2}
    assert wait_for_agreement(bare, "gone").phase == "Initialized"


@pytest.fixture
def disabled(server: ZooKeeper, release: str, program: Program, tmp_path: Path) -> Iterator[KafkaFixture]:
    """Start a broker with ``delete.topic.enable=false``."""
    properties = {"delete.topic.enable": "false"}
    with Cluster(server, release, {1: None}, chroot="/disabled", properties=properties) as cluster:
        yield KafkaFixture(cluster, Clients(program, cluster.bootstrap), tmp_path)


def test_deletion_is_disabled(disabled: KafkaFixture) -> None:
    """With deletion disabled the request is removed, the topic and its messages stay, and the run reports
    ``DeletionDisabled``.

    Later runs report the same and write nothing. Declared as present again, the topic is owned as before.
    """
    spec = {"partitions": 2, "replicationFactor": 1}
    made(disabled, {"stays": spec})
    before = disabled.describe_in_sync(["stays"])
    disabled.declare({"stays": ABSENT})
    said = end(running(disabled))
    assert said.code == Exit.REFUSED, said
    why = "the cluster kept the topic although its deletion was requested: the brokers have delete.topic.enable=false"
    assert f"refused: {why} reason DeletionDisabled" in " ".join(said.out.split())
    assert nodes(disabled, "stays") == {"/brokers/topics/stays", "/config/topics/stays"}
    assert wait_for_agreement(disabled, "stays").phase == "DeletionDisabled"
    versions = seen(disabled)
    again = disabled.run("apply", *MEANT, "--wait")
    assert again.code == Exit.REFUSED, again
    assert "delete.topic.enable=false" in " ".join(again.out.split())
    assert seen(disabled) == versions
    assert disabled.clients.delete(["stays"])["stays"].startswith("TopicDeletionDisabledException")
    disabled.declare({"stays": spec})
    disabled.apply("--wait")
    assert disabled.run("plan", "--exit-code").code == Exit.DONE
    assert disabled.describe_in_sync(["stays"]) == before
    assert disabled.read_messages({"stays": [0, 1]}) == {"stays": [["old"]] * 2}


def seen(bed: KafkaFixture) -> dict[str, int]:
    """Return the last write to the znodes of the topic ``stays`` and to topiarist's lock."""
    paths = ("/brokers/topics/stays", "/config/topics/stays", "/topiarist/topics/stays", "/topiarist/lock")
    stats = {path: bed.kafka.client.get(path)[1] for path in paths}
    return {path: max(stat.mzxid, stat.pzxid) for path, stat in stats.items()}


def test_a_replica_on_a_broker_that_is_away(bare: KafkaFixture) -> None:
    """With an offline broker the topic stays marked: runs name the broker and report the deletion as pending.

    A plan to create the topic is refused. After the broker's return the topic is deleted.
    """
    away, other = (broker for broker in sorted(bare.kafka.racks) if broker != bare.kafka.controller())
    spec = {"replicaAssignment": [[away, other], [other, bare.kafka.controller()]]}
    made(bare, {"lingers": spec})
    bare.kafka.stop(away)
    try:
        bare.kafka.wait(lambda: away not in bare.clients.racks(), "the brokers to know that one of them is away")
        bare.declare({"lingers": ABSENT})
        waits = f"broker {away}, with replicas of it, is not registered"
        for _ in range(2):
            said = bare.run("apply", *MEANT, "--wait", "--wait-timeout", "1")
            assert said.code == Exit.ERROR, said
            words = " ".join(said.out.split())
            assert f"pending: still marked for deletion: {waits}" in words
            assert "reason DeletionInProgress" in words
        assert nodes(bare, "lingers") == {f"/{path}/lingers" for path in ("brokers/topics", "config/topics", MARKS)}
        found = describe_topic(bare, "lingers")
        assert (found.phase, found.waits_for) == ("MarkedForDeletion", waits)
        bare.declare({"lingers": spec})
        refused = bare.run("plan", "--format", "json")
        (topic,) = json.loads(refused.out)["clusters"][0]["topics"]
        assert [refusal["reason"] for refusal in topic["refusals"]] == ["DeletionInProgress"]
        bare.declare({"lingers": ABSENT})
        run = running(bare)
    finally:
        bare.kafka.start(away)
    said = end(run)
    assert (nodes(bare, "lingers"), folders(bare, "lingers")) == (set(), set())
    assert (said.code, said.err.splitlines()[-1]) == (Exit.DONE, "1 topic deleted"), said
    assert bare.run("plan", "--exit-code").code == Exit.DONE


MARKS = "admin/delete_topics"
