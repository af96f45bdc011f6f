"""A simulation of how Kafka's controller carries out a reassignment request.

``SimulatedKafka`` calls ``process`` when the request appears and when brokers come or leave. The writes and their order
are those of Kafka's controller, for ``[1,2] -> [4,2]``::

    topic    partitions [4,2,1], adding [4], removing [1]
    state    leader epoch + 1
    state    in-sync replicas 1, 2, 4           once the copy is made; waits if the added broker is not able
    state    leader 2, if 1 was the leader; in-sync replicas 2, 4
    topic    partitions [4,2]
    request  without the entry, or deleted with its last one

A partition ends only when all of its target is in sync. Added replicas get in sync by themselves, replicas that stay do
not. Entries with a defect are treated as Kafka treats them (contract 6.6)::

    unknown topic or partition              removed from the request, and nothing else happens
    a broker twice in the target            stays in the request without end
    a topic that is deleted in between      stays until another broker becomes controller
    a partition without a state             removed from the request, and in flight without end
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from topiarist.adapters.devcluster.seed import as_json

REQUEST = "/admin/reassign_partitions"


class SimulatedReassignments:
    """The reassignments of a cluster, with the memory of its controller.

    ``copies`` counts how often each replica was copied, by topic, partition and broker.
    """

    def __init__(self, client: KazooClient) -> None:
        self.copies: Counter[tuple[str, int, int]] = Counter()
        self._client = client
        self._targets: dict[tuple[str, int], list[int]] = {}
        self._begun: set[tuple[str, int]] = set()
        self._without_topic: set[tuple[str, int]] = set()

    def forget(self) -> None:
        """Forget what is under way, as another controller does not know it: it reads the request again."""
        self._targets.clear()
        self._begun.clear()
        self._without_topic.clear()

    def process(self, able: Collection[int]) -> None:
        """Carry out the request as far as the brokers allow; those that are ``able`` are online and copy at once.

        While a request is under way its data is not read again.
        """
        if not self._targets:
            self._read_request()
        for key, target in list(self._targets.items()):
            stays = len(set(target)) != len(target) or key in self._without_topic
            if not stays and self._advance(key, target, able):
                self._remove(key)

    def replace(self, topic: str, partition: int, target: Sequence[int] | None) -> None:
        """Reassign a partition as a request by the Admin API does, and finish it at once; None cancels.

        Its entry is removed from the request. A cancellation may leave another order of the list of before.
        """
        path = f"/brokers/topics/{topic}"
        value = json.loads(self._client.get(path)[0])
        adding = value["adding_replicas"].get(str(partition), [])
        kept = [broker for broker in value["partitions"][str(partition)] if broker not in adding]
        self._finish(path, str(partition), kept if target is None else [*target], ())
        self._remove((topic, partition))

    def _read_request(self) -> None:
        try:
            entries = json.loads(self._client.get(REQUEST)[0])["partitions"]
        except NoNodeError:
            return
        self._targets = {(entry["topic"], entry["partition"]): entry["replicas"] for entry in entries}
        for topic, partition in list(self._targets):
            node = self._read_topic(f"/brokers/topics/{topic}")
            if node is None or str(partition) not in node["partitions"]:
                self._remove((topic, partition))

    def _advance(self, key: tuple[str, int], target: list[int], able: Collection[int]) -> bool:
        """Take one partition as far as it goes; return whether its entry leaves the request."""
        path, partition = f"/brokers/topics/{key[0]}", str(key[1])
        topic = self._read_topic(path)
        if topic is None:
            self._without_topic.add(key)  # a new topic of that name is another one
            return False
        state_path = f"{path}/partitions/{partition}/state"
        if key not in self._begun:
            self._begin(key, target, topic)
        if self._client.exists(state_path) is None:
            return True
        state, adding = json.loads(self._client.get(state_path)[0]), topic["adding_replicas"].get(partition, [])
        arrived = [broker for broker in adding if broker in able and broker not in state["isr"]]
        if arrived:
            state = self._set_state(state_path, isr=[*state["isr"], *arrived])
        if not set(target) <= set(state["isr"]):
            return False
        self._finish(path, partition, target, able)
        return True

    def _begin(self, key: tuple[str, int], target: list[int], topic: dict[str, Any]) -> None:
        path, partition = f"/brokers/topics/{key[0]}", str(key[1])
        self._begun.add(key)
        if not topic["adding_replicas"].get(partition) and not topic["removing_replicas"].get(partition):
            origin: list[int] = topic["partitions"][partition]
            adding = [broker for broker in target if broker not in origin]
            leaving = [broker for broker in origin if broker not in target]
            self.copies.update((*key, broker) for broker in adding)
            self._set_lists(path, topic, partition, target + leaving, adding, leaving)
        with suppress(NoNodeError):
            self._set_state(f"{path}/partitions/{partition}/state")

    def _finish(self, path: str, partition: str, target: list[int], able: Collection[int]) -> None:
        state_path = f"{path}/partitions/{partition}/state"
        state = json.loads(self._client.get(state_path)[0])
        in_sync = [broker for broker in target if broker in able] or target
        leader = state["leader"] if state["leader"] in in_sync else in_sync[0]
        self._set_state(state_path, leader=leader, isr=sorted(target))
        topic = self._read_topic(path)
        assert topic is not None
        self._set_lists(path, topic, partition, target, [], [])

    def _remove(self, key: tuple[str, int]) -> None:
        """Remove an entry from the memory and from the request, which may have been deleted."""
        self._targets.pop(key, None)
        self._begun.discard(key)
        self._without_topic.discard(key)
        left = [{"topic": name, "partition": number, "replicas": to} for (name, number), to in self._targets.items()]
        with suppress(NoNodeError):
            if left:
                self._client.set(REQUEST, as_json({"version": 1, "partitions": left}))
            else:
                self._client.delete(REQUEST)

    def _read_topic(self, path: str) -> dict[str, Any] | None:
        """Return the value of a topic's znode, with the fields that old versions do not have; None if it is missing."""
        try:
            return {"adding_replicas": {}, "removing_replicas": {}, **json.loads(self._client.get(path)[0])}
        except NoNodeError:
            return None

    def _set_lists(
        self,
        path: str,
        topic: dict[str, Any],
        partition: str,
        replicas: list[int],
        adding: list[int],
        removing: list[int],
    ) -> None:
        topic["partitions"][partition] = replicas
        for field, brokers in (("adding_replicas", adding), ("removing_replicas", removing)):
            topic[field].pop(partition, None)
            if brokers:
                topic[field][partition] = brokers
        self._client.set(path, as_json({**topic, "version": 3 if "topic_id" in topic else 2}))

    def _set_state(self, path: str, **fields: Any) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self._client.get(path)[0])
        state |= {**fields, "leader_epoch": state["leader_epoch"] + 1}
        self._client.set(path, as_json(state))
        return state
