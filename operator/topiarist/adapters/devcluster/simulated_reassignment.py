"""A simulation of how Kafka's controller carries out a reassignment request.

``SimulatedKafka`` calls ``process`` when the request appears and when brokers come or leave. The writes and their order
are those of Kafka's controller, for ``[1,2] -> [4,2]``::

    topic    partitions [4,2,1], adding [4], removing [1]
    state    leader epoch + 1
    state    in-sync replicas 1, 2, 4           once the copies are made; waits if a broker of the target is away
    state    leader 2, if 1 was the leader; in-sync replicas 2, 4
    topic    partitions [4,2]
    request  without the entry, or deleted with its last one

An entry for a topic or partition that does not exist is removed from the request, and nothing else happens.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from topiarist.adapters.devcluster.seed import as_json

REQUEST = "/admin/reassign_partitions"


def process(client: KazooClient, able: Collection[int]) -> None:
    """Carry out the request as far as the brokers allow; those that are ``able`` are online and copy at once."""
    try:
        request = json.loads(client.get(REQUEST)[0])
    except NoNodeError:
        return
    left = [entry for entry in request["partitions"] if not _advance(client, entry, able)]
    if left:
        client.set(REQUEST, as_json({**request, "partitions": left}))
    else:
        client.delete(REQUEST)


def _advance(client: KazooClient, entry: dict[str, Any], able: Collection[int]) -> bool:
    """Take one partition as far as it goes; return whether its entry leaves the request."""
    path, partition = f"/brokers/topics/{entry['topic']}", str(entry["partition"])
    target: list[int] = entry["replicas"]
    try:
        topic = json.loads(client.get(path)[0])
    except NoNodeError:
        return True
    if partition not in topic["partitions"]:
        return True
    state_path = f"{path}/partitions/{partition}/state"
    if not topic["adding_replicas"].get(partition) and not topic["removing_replicas"].get(partition):
        origin: list[int] = topic["partitions"][partition]
        leaving = [broker for broker in origin if broker not in target]
        _set_lists(topic, partition, target + leaving, [each for each in target if each not in origin], leaving)
        client.set(path, as_json(topic))
        _set_state(client, state_path)
    if not set(target) <= set(able):
        return False
    state = json.loads(client.get(state_path)[0])
    _set_state(client, state_path, isr=[*state["isr"], *(each for each in target if each not in state["isr"])])
    leader = state["leader"] if state["leader"] in target else target[0]
    _set_state(client, state_path, leader=leader, isr=sorted(target))
    _set_lists(topic, partition, target, [], [])
    client.set(path, as_json(topic))
    return True


def _set_lists(
    topic: dict[str, Any], partition: str, replicas: list[int], adding: list[int], removing: list[int]
) -> None:
    topic["partitions"][partition] = replicas
    for field, brokers in (("adding_replicas", adding), ("removing_replicas", removing)):
        topic[field].pop(partition, None)
        if brokers:
            topic[field][partition] = brokers


def _set_state(client: KazooClient, path: str, **fields: Any) -> None:
    state = json.loads(client.get(path)[0])
    client.set(path, as_json({**state, **fields, "leader_epoch": state["leader_epoch"] + 1}))
