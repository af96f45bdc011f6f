"""Plans one folder of manifests for a cluster in ZooKeeper mode, through ZooKeeper, and one in KRaft mode.

Both clusters have the same brokers and the same topics. The plans are equal to the byte, but for the ids of clusters
and topics and for ``OWN_LINES``; after both were applied, so are the topics.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from brokers.shared_clusters import THREE_RACKS
from support.cli.runs import RunResult, document, run_topiarist
from support.kafka.clients import Clients
from support.kafka.kafka_fixture import KafkaFixtureFactory
from support.kafka.kraft_fixture import KraftFixture
from topiarist.errors import Exit

ZOOKEEPER_RELEASE = "3.9.2"

OWN_LINES = (
    r" +controller \d+, epoch \d+",
    # A warning of ZooKeeper mode, as text and as Markdown.
    r" +warning +written to ZooKeeper directly: .*\n +policies, ACLs and quotas are not checked",
    r"- written to ZooKeeper directly: .*",
    # How much a topic is used is asked of brokers.
    r" +usage +.*(?:\n {15,}.*)*",
    r"- usage: .*",
)
"""The lines that differ."""

OWN_FIELDS = ("chroot", "mode", "via", "fingerprint", "releaseAtLeast", "identity", "usage")
"""The fields of a plan in JSON that differ; ``identity`` is the id of the topic, or of its znode."""

BEFORE: Mapping[str, tuple[Sequence[Sequence[int]], Mapping[str, str]]] = {
    "adopted": (((1, 2), (2, 3), (3, 1)), {"retention.ms": "604800000"}),
    "grown": (((2, 3, 1), (3, 1, 2)), {"cleanup.policy": "compact"}),
    "configured": (((3, 1),), {"retention.ms": "1000", "max.message.bytes": "2000000"}),
    "refused": (((1, 2), (2, 3)), {}),
    "deleted": (((1, 2),), {}),
    "orphaned": (((2, 1),), {"retention.ms": "5"}),
    "undeclared": (((2, 1),), {}),
}
"""The topics of both clusters: replica lists and overrides."""

OWNED = ("grown", "configured", "deleted", "orphaned")

WANTED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("created", {"partitions": 6, "replicationFactor": 3, "config": {"min.insync.replicas": 2}}),
    ("adopted", {"partitions": 3, "replicationFactor": 2, "config": {"retention.ms": 604800000}}),
    ("grown", {"partitions": 5, "replicationFactor": 3, "config": {"cleanup.policy": "compact"}}),
    ("configured", {"partitions": 1, "replicationFactor": 2, "config": {"retention.ms": 5000}}),
    ("refused", {"partitions": 1, "replicationFactor": 3, "config": {"min.insync.replicas": 2}}),
    ("too.wide", {"partitions": 2, "replicationFactor": 4}),
    ("deleted", {"partitions": 1, "replicationFactor": 2, "ensure": "Absent"}),
    ("missing", {"partitions": 1, "replicationFactor": 1, "ensure": "Absent"}),
)


class Way(NamedTuple):
    """One cluster, and the address of the way to it."""

    clients: Clients
    section: dict[str, dict[str, str]]
    internal_topics: tuple[str, ...]


class Plans(NamedTuple):
    """The plan of one folder in each format, without what differs; ``code`` is the exit code."""

    code: int
    text: str
    markdown: str
    document: Any


@pytest.mark.core
def test_both_ways_have_the_same_plans(fresh: KafkaFixtureFactory, kraft: KraftFixture, tmp_path: Path) -> None:
    """Creation, adoption, growth, configs, refusals and deletion are planned and made alike."""
    with fresh(ZOOKEEPER_RELEASE, THREE_RACKS) as zookeeper:
        ways = (
            Way(kraft.clients, {"kafka": {"bootstrapServers": kraft.kafka.bootstrap}}, ()),
            Way(
                zookeeper.clients,
                {"zookeeper": {"connect": zookeeper.kafka.connect}},
                ("__transaction_state", "__topiarist"),
            ),
        )
        for way in ways:
            for name, (replicas, config) in BEFORE.items():
                assert way.clients.create({name: replicas}, config) == {}
            owned = [(name, _size(*BEFORE[name])) for name in OWNED]
            _declare(tmp_path, way, owned)
            assert run_topiarist("apply", tmp_path, "--yes", "--adopt=*").code == Exit.DONE
        _add_internal_topics(*ways)
        planned = [_plan(tmp_path, way) for way in ways]
        assert planned[0].code == planned[1].code == Exit.DONE
        _check_equal(*planned)
        kinds = {topic["topic"]: [each["kind"] for each in topic["changes"]] for topic in planned[0].document["topics"]}
        assert {"created", "adopted", "grown", "configured", "refused", "too.wide", "deleted"} <= kinds.keys()
        applied = [_apply(tmp_path, way) for way in ways]
        assert applied[0].code == applied[1].code, applied
        assert _outcomes(applied[0]) == _outcomes(applied[1])
        names = [*BEFORE, *(name for name, _ in WANTED)]
        # The brokers learn of a change some time after the run has ended.
        kraft.kafka.wait(lambda: _replicas(ways[0], names) == _replicas(ways[1], names), "equal topics")
        present = [name for name, topic in ways[0].clients.describe(names).items() if topic]
        assert {"created", "undeclared"} <= {*present}
        assert "deleted" not in present
        assert ways[0].clients.overrides(present) == ways[1].clients.overrides(present)
        _check_equal(*(_plan(tmp_path, way) for way in ways))


def _size(replicas: Sequence[Sequence[int]], config: Mapping[str, str]) -> dict[str, Any]:
    return {"partitions": len(replicas), "replicationFactor": len(replicas[0]), "config": dict(config)}


def _declare(folder: Path, way: Way, topics: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Write the manifests; the address is the last field of its line, so all else is where it is for the other way."""
    documents = [
        document("Topic", f"topic-{number}", topicName=name, **spec) for number, (name, spec) in enumerate(topics)
    ]
    (folder / "topics.yaml").write_text("\n---\n".join(documents))
    # A default of the brokers, which only brokers tell.
    (folder / "cluster.yaml").write_text(
        document("Cluster", "prod", brokerConfig={"min.insync.replicas": "1"}, **way.section)
    )


def _add_internal_topics(kraft: Way, zookeeper: Way) -> None:
    """Create the topics of a run through brokers on the other cluster too: plans count their replicas."""
    found = kraft.clients.describe(zookeeper.internal_topics)
    for name, topic in found.items():
        assert topic
        assert zookeeper.clients.create({name: topic.replicas}) == {}


def _plan(folder: Path, way: Way) -> Plans:
    _declare(folder, way, WANTED)
    texts = {}
    for kind in ("text", "markdown", "json"):
        result = run_topiarist("plan", folder, "--adopt=adopted", "--format", kind)
        texts[kind] = result.out
    (cluster,) = json.loads(texts["json"])["clusters"]
    assert cluster["mode"] == cluster["via"].replace("Kafka", "KRaft")
    return Plans(
        result.code,
        _without_own_lines(texts["text"].replace(cluster["clusterId"], "ID")),
        _without_own_lines(texts["markdown"].replace(cluster["clusterId"], "ID").replace("`ID`", "ID")),
        _without_own_fields(json.loads(texts["json"].replace(cluster["clusterId"], "ID"))["clusters"][0]),
    )


def _without_own_lines(text: str) -> str:
    for line in OWN_LINES:
        text = re.sub(rf"^{line}\n", "", text, flags=re.MULTILINE)
    return text


def _without_own_fields(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "ID" if key == "topicId" and each else _without_own_fields(each)
            for key, each in value.items()
            if key not in OWN_FIELDS
        }
    if isinstance(value, list):
        return [_without_own_fields(each) for each in value if not (isinstance(each, str) and _is_own_warning(each))]
    return value


def _is_own_warning(text: str) -> bool:
    return any(re.fullmatch(line, f"- {text}") for line in OWN_LINES)


def _check_equal(one: Plans, other: Plans) -> None:
    assert one.text == other.text
    assert one.markdown == other.markdown
    assert json.dumps(one.document) == json.dumps(other.document)


def _apply(folder: Path, way: Way) -> RunResult:
    _declare(folder, way, WANTED)
    return run_topiarist("apply", folder, "--yes", "--adopt=adopted", "--allow-risk", "DataLoss")


def _outcomes(result: RunResult) -> str:
    """Return the line with the number of topics of each outcome."""
    found = re.search(r"^Applied: .*", result.out, re.MULTILINE)
    assert found, result
    return found[0]


def _replicas(way: Way, names: Sequence[str]) -> dict[str, Any]:
    return {name: topic and topic.replicas for name, topic in way.clients.describe(names).items()}
