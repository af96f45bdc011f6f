"""A cluster with every kind of change in twenty topics, and a check of the final state.

Each scene has its own chroot. ``furnish`` writes it to a live cluster (``Playground``); ``Mould`` creates static
copies, which takes a fiftieth of a second each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from conftest import BROKERS
from integration.write_fixtures import REPLICAS
from support.builders import topic_spec
from support.cli.runs import document
from support.waiting import wait_until
from support.zookeeper import write_checker
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from support.zookeeper.write_checker import Tree
from topiarist.adapters import own_values
from topiarist.adapters.devcluster.seed import Topic
from topiarist.kafka.types import MAX_KAFKA_VERSION, KafkaVersion
from topiarist.model.spec import TopicSpec
from topiarist.model.state import OwnershipRecord

DAY_MS = "86400000"

DESIRED_TOPICS: Mapping[str, Mapping[str, Any]] = {
    "a-create": {"partitions": 4, "config": {"retention.ms": 5000}},
    "b-grow": {"partitions": 5, "config": {"retention.ms": 86400000}},
    "c-configure": {"config": {"retention.ms": 3600000}},
    "d-remove": {},
    "e-delete": {"ensure": "Absent"},
    "f-adopt": {"config": {"retention.ms": 86400000}},
    "g-create": {"partitions": 1, "config": {}},
    "h-grow": {"partitions": 3},
    "i-configure": {"config": {"retention.ms": 86400000, "cleanup.policy": "compact"}},
    "j-remove": {"config": {"retention.ms": 86400000}},
    "k-delete": {"ensure": "Absent"},
    "l-adopt": {},
    "m-leftover": {"config": {"retention.ms": 5000}},
    "n-grow": {"partitions": 12},
    "o-configure": {"config": {"retention.ms": 3600000}},
    "p-remove": {},
    "q-delete": {"ensure": "Absent"},
    "r-adopt": {"config": {"flush.ms": 5}},
    "s-both": {"partitions": 3, "config": {"retention.ms": 3600000}},
    "t-create": {"partitions": 6},
}
"""Twenty topics; the word says what is to be done. ``m-leftover`` is created over an orphaned config."""

NAMES = tuple(DESIRED_TOPICS)
CREATED_NAMES = tuple(name for name in NAMES if name[2:] in ("create", "leftover"))
DELETED_NAMES = tuple(name for name in NAMES if name.endswith("delete"))
NOTIFIED_NAMES = tuple(name for name in NAMES if name[2:] in ("configure", "remove", "both"))
"""Topics with a config change: brokers receive a notification of each."""

OWNED_NAMES = tuple(name for name in NAMES if name[2:] in ("remove", "delete", "configure", "grow"))
"""Topics that have a record of ours before; the others are taken over, or new."""

_CONFIGS: Mapping[str, Mapping[str, str]] = {
    "b-grow": {"retention.ms": DAY_MS},
    "c-configure": {"retention.ms": DAY_MS, "flush.ms": "5"},
    "d-remove": {"retention.ms": DAY_MS},
    "f-adopt": {"retention.ms": DAY_MS},
    "i-configure": {"retention.ms": DAY_MS},
    "j-remove": {"retention.ms": DAY_MS, "flush.ms": "7"},
    "o-configure": {"flush.ms": "9"},
    "p-remove": {"retention.ms": DAY_MS, "segment.ms": DAY_MS},
    "r-adopt": {"flush.ms": "5"},
    "s-both": {"retention.ms": DAY_MS},
}

_chroots = count(1)


def desired_specs() -> tuple[TopicSpec, ...]:
    """Return the desired state, as specs."""
    return tuple(topic_spec(name, **fields) for name, fields in DESIRED_TOPICS.items())


def write_manifest_folder(place: Path, connect: str) -> Path:
    """Return the desired state as a folder of manifests, with the cluster at ``connect``."""
    place.mkdir(exist_ok=True)
    texts = [document("Cluster", "prod", zookeeper={"connect": connect}, kafkaVersion="3.9")]
    for name, fields in DESIRED_TOPICS.items():
        texts.append(document("Topic", name, **{"partitions": 2, "replicationFactor": 3, **fields}))
    (place / "all.yaml").write_text("\n---\n".join(texts))
    return place


def create_initial_state(cluster: SimulatedKafka) -> None:
    """Write the initial state to the cluster: topics, topiarist's records, an orphaned config, a topic without an
    owner.
    """
    there = [name for name in NAMES if name not in CREATED_NAMES]
    cluster.add_topics(
        *(Topic(name, REPLICAS, _CONFIGS.get(name, {})) for name in there),
        Topic("foreign", REPLICAS, {"retention.ms": "7"}),
    )
    transaction = cluster.client.transaction()
    transaction.create("/config/topics/m-leftover", b'{"version":1,"config":{"retention.ms":"1"}}')
    for path, data in (("", b""), ("/lock", b""), ("/topics", b""), ("/gate", own_values.encode_freeze(None))):
        transaction.create(f"/topiarist{path}", data)
    for name in OWNED_NAMES:
        keys = () if name.endswith("delete") else tuple(sorted(_CONFIGS.get(name, ())))
        transaction.create(f"/topiarist/topics/{name}", own_values.encode_record(OwnershipRecord("default", keys)))
    failed = [result for result in transaction.commit() if isinstance(result, Exception)]
    assert failed == []


class ClusterTemplate:
    """Copies of one prepared cluster without running brokers and without a running controller."""

    def __init__(
        self, server: str, client: KazooClient, release: KafkaVersion = MAX_KAFKA_VERSION, *, setup_server: str = ""
    ) -> None:
        """``client`` is a client of the whole server, ``release`` is the release of the brokers.

        ``setup_server`` is the server that creates the template, if it is not ``server``.
        """
        self._server, self._client = server, client
        with SimulatedKafka(f"{setup_server or server}/mould-{next(_chroots)}", BROKERS, release) as cluster:
            create_initial_state(cluster)
            tree = write_checker.read_nodes(cluster.connect)
        # In the order of creation: a record is valid only if it is not older than its topic.
        self._nodes = sorted(tree.items(), key=lambda entry: (entry[0] != "/", entry[1].czxid, entry[0]))

    def create_copy(self) -> str:
        """Return the connect string of a new copy."""
        root = f"/cast-{next(_chroots)}"
        at_once = 60
        for start in range(0, len(self._nodes), at_once):
            transaction = self._client.transaction()
            for path, node in self._nodes[start : start + at_once]:
                transaction.create(root + path.rstrip("/"), node.data or b"")
            failed = [result for result in transaction.commit() if isinstance(result, Exception)]
            assert failed == []
        return self._server + root


def recreate_topic(client: KazooClient, topic: str) -> None:
    """Delete a topic and recreate it with the same bytes, as another client does.

    Every version is 0, as in a copy.
    """
    paths = [f"/brokers/topics/{topic}", f"/brokers/topics/{topic}/partitions", f"/config/topics/{topic}"]
    for number in client.get_children(paths[1]):
        paths += [f"{paths[1]}/{number}", f"{paths[1]}/{number}/state"]
    seen = {path: client.get(path) for path in paths}
    remove_topic(client, topic)
    transaction = client.transaction()
    for path in paths:
        transaction.create(path, seen[path][0])
    assert not [result for result in transaction.commit() if isinstance(result, Exception)]


def remove_topic(client: KazooClient, topic: str) -> None:
    """Remove a topic as the controller does at the end of a deletion."""
    client.delete(f"/brokers/topics/{topic}", recursive=True)
    client.delete(f"/config/topics/{topic}")


def faulted_topic(proxy: Proxy) -> str | None:
    """Return the topic of the faulted transaction; None for another write (the lock or a znode of topiarist)."""
    found = re.search(rb"/topiarist/topics/([a-z][a-z-]*)", proxy.faulted_write)
    return found[1].decode() if found else None


def wait_for_transactions(proxy: Proxy, count: int) -> None:
    """Wait for the responses to this number of transactions, which precede the held transaction."""
    wait_until(
        lambda: sum(connection.replies["multi"] for connection in proxy.connections) >= count, f"{count} transactions"
    )


def topic_nodes(tree: Tree, topic: str) -> dict[str, Any]:
    """Return all znodes that a transaction on this topic may write."""
    paths = [f"{parent}/{topic}" for parent in ("/brokers/topics", "/config/topics", "/topiarist/topics")] + [
        f"/admin/delete_topics/{topic}"
    ]
    return {path: tree.get(path) for path in paths}


def find_damage(before: Tree, after: Tree, allowed: tuple[str, ...] = NAMES) -> Iterator[str]:
    """Return the errors of the checker in the final state, and config changes without exactly one notification."""
    gone = tuple(f"{parent}/{name}" for parent in ("/brokers/topics", "/config/topics") for name in DELETED_NAMES)
    left = {path: node for path, node in before.items() if not path.startswith(gone)}
    yield from write_checker.find_problems(left, after, allowed)
    told = [json.loads(node.data or b"")["entity_path"] for path, node in after.items() if "/config_change_" in path]
    for name in NOTIFIED_NAMES:
        if (times := told.count(f"topics/{name}")) != 1:
            yield f"{name}: its config change was announced {times} times"
    for name in {entity.removeprefix("topics/") for entity in told} - set(NOTIFIED_NAMES):
        yield f"{name}: announced, and there was nothing to announce"
