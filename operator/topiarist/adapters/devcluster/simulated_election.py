"""A simulation of how Kafka's controller carries out a request to elect preferred leaders.

``SimulatedKafka`` calls ``process`` when the request appears. As Kafka's controller does, it makes the first replica of
each partition its leader if that broker is online and in sync, removes the request whatever the result, and skips
partitions that do not exist. An entry of a partition without a state ends the election with an error, and the request
stays. The states keep their in-sync replicas; the leader epoch is one higher.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from topiarist.adapters.devcluster.seed import as_json

REQUEST = "/admin/preferred_replica_election"


def process(client: KazooClient, live: Collection[int]) -> None:
    """Carry out the request, if there is one; raise ``ValueError`` at a partition without a state."""
    try:
        request = json.loads(client.get(REQUEST)[0])
    except NoNodeError:
        return
    for entry in request["partitions"]:
        _elect(client, entry["topic"], str(entry["partition"]), live)
    client.delete(REQUEST)


def _elect(client: KazooClient, name: str, partition: str, live: Collection[int]) -> None:
    path = f"/brokers/topics/{name}"
    try:
        replicas = json.loads(client.get(path)[0])["partitions"].get(partition)
    except NoNodeError:
        return
    if replicas is None:
        return
    try:
        state = json.loads(client.get(f"{path}/partitions/{partition}/state")[0])
    except NoNodeError:
        raise ValueError(f"{name}-{partition} has no state, so no leader can be elected") from None
    preferred = replicas[0]
    if preferred in live and preferred in state["isr"] and state["leader"] != preferred:
        elected = {**state, "leader": preferred, "leader_epoch": state["leader_epoch"] + 1}
        client.set(f"{path}/partitions/{partition}/state", as_json(elected))
