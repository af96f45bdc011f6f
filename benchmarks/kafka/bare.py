"""A short script over kazoo, for comparison: read the topics, compare, write the differences.

Usage: ``python bare.py CONNECT WANTED.json``. It is as fast as possible: every request is asynchronous and nothing is
read twice. It is not safe: it has no lock, no fence, no transactions and no versions, and it ignores racks, deletions,
reassignments, the KRaft migration and its own incomplete work. It also places replicas in its own way.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

Topics = Mapping[str, Mapping[str, Any]]


def encode_json(value: Any) -> bytes:
    """Return JSON as Kafka writes it."""
    return json.dumps(value, separators=(",", ":")).encode()


def assign_replicas(name: str, first: int, last: int, factor: int, brokers: list[int]) -> dict[str, list[int]]:
    """Return replica lists for some partitions, round-robin."""
    start = zlib.crc32(name.encode())
    return {
        str(number): [brokers[(start + number + one) % len(brokers)] for one in range(factor)]
        for number in range(first, last)
    }


def ensure_topics(client: KazooClient, wanted: Topics) -> str:
    """Create and change topics until they match ``wanted``; return a summary."""
    there = set(client.get_children("/brokers/topics"))
    brokers = sorted(map(int, client.get_children("/brokers/ids")))
    known = [name for name in wanted if name in there]
    topics = {name: client.get_async(f"/brokers/topics/{name}") for name in known}
    configs = {name: client.get_async(f"/config/topics/{name}") for name in known}
    made, grown, changed = [], [], []
    for name, topic in wanted.items():
        size, factor, config = topic["partitions"], topic["replicationFactor"], dict(topic["config"])
        if name not in there:
            lists = assign_replicas(name, 0, size, factor, brokers)
            node = {"version": 3, "partitions": lists, "adding_replicas": {}, "removing_replicas": {}}
            made.append(client.create_async(f"/config/topics/{name}", encode_json({"version": 1, "config": config})))
            made.append(client.create_async(f"/brokers/topics/{name}", encode_json(node)))
            continue
        node = json.loads(topics[name].get()[0])
        if len(node["partitions"]) < size:
            node["partitions"] |= assign_replicas(name, len(node["partitions"]), size, factor, brokers)
            grown.append(client.set_async(f"/brokers/topics/{name}", encode_json(node)))
        found = json.loads(configs[name].get()[0])
        if found["config"] != config:
            found["config"] = config
            changed.append(client.set_async(f"/config/topics/{name}", encode_json(found)))
            notice = encode_json({"version": 2, "entity_path": f"topics/{name}"})
            changed.append(client.create_async("/config/changes/config_change_", notice, sequence=True))
    for answer in (*made, *grown, *changed):
        answer.get()
    return f"{len(made) // 2} created, {len(grown)} grown, {len(changed) // 2} configured"


def main(connect: str, path: str) -> None:
    """Connect, apply the topics, and print a summary."""
    client = KazooClient(connect)
    client.start()
    print(ensure_topics(client, json.loads(Path(path).read_text())))
    client.stop()
    client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
