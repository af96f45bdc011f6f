"""A simulation of Kafka's brokers and controller on a ZooKeeper.

``topiarist dev``, the demo and the tests use it. It reacts as Kafka's controller does, to the same watches and in the
same order. New topic: id, then partition states. New partitions: their states. Deletion request: partitions, topic,
config, request. Election of preferred leaders: states, request. It carries out reassignments only with
``moves_replicas``. ``seed`` writes the initial znodes. A client that only reads znodes cannot distinguish it from a
real cluster.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.resources import as_file, files
from queue import SimpleQueue
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, NoNodeError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, WatchedEvent

from topiarist.adapters.devcluster import seed
from topiarist.adapters.devcluster.seed import CLUSTER_ID, Topic, as_json
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import LAST_ZOOKEEPER_VERSION, Broker, KafkaVersion, Replicas

# A simulation of how Kafka's controller carries out a request to elect preferred leaders.
#
# ``SimulatedKafka`` calls ``process`` when the request appears. As Kafka's controller does, it makes the first replica
# of each partition its leader if that broker is online and in sync, removes the request whatever the result, and skips
# partitions that do not exist. An entry of a partition without a state ends the election with an error, and the request
# stays. The states keep their in-sync replicas; the leader epoch is one higher.

ELECTION_REQUEST = "/admin/preferred_replica_election"


def process(client: KazooClient, live: Collection[int]) -> None:
    """Carry out the request, if there is one; raise ``ValueError`` at a partition without a state."""
    try:
        request = json.loads(client.get(ELECTION_REQUEST)[0])
    except NoNodeError:
        return
    for entry in request["partitions"]:
        _elect(client, entry["topic"], str(entry["partition"]), live)
    client.delete(ELECTION_REQUEST)


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


# A simulation of how Kafka's controller carries out a reassignment request.
#
# ``SimulatedKafka`` calls ``process`` when the request appears and when brokers come or leave. The writes and their
# order are those of Kafka's controller, for ``[1,2] -> [4,2]``::
#
#     topic    partitions [4,2,1], adding [4], removing [1]
#     state    leader epoch + 1
#     state    in-sync replicas 1, 2, 4           once the copy is made; waits if the added broker is not able
#     state    leader 2, if 1 was the leader; in-sync replicas 2, 4
#     topic    partitions [4,2]
#     request  without the entry, or deleted with its last one
#
# A partition ends only when all of its target is in sync. Added replicas get in sync by themselves, replicas that stay
# do not. Entries with a defect are treated as Kafka treats them (contract 6.6)::
#
#     unknown topic or partition              removed from the request, and nothing else happens
#     a broker twice in the target            stays in the request without end
#     a topic that is deleted in between      stays until another broker becomes controller
#     a partition without a state             removed from the request, and in flight without end

REASSIGNMENT_REQUEST = "/admin/reassign_partitions"


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
            entries = json.loads(self._client.get(REASSIGNMENT_REQUEST)[0])["partitions"]
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
                self._client.set(REASSIGNMENT_REQUEST, as_json({"version": 1, "partitions": left}))
            else:
                self._client.delete(REASSIGNMENT_REQUEST)

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


_REACTION_TIMEOUT_S = 30.0
"""Seconds to wait for work that takes milliseconds."""

_CONNECT_TIMEOUT_S = 10.0
"""Seconds."""

_CONNECTION_ERRORS = (ConnectionClosedError, ConnectionLoss, SessionExpiredError)

_BROKER_IDS, _TOPICS, _DELETION_REQUESTS = "/brokers/ids", "/brokers/topics", "/admin/delete_topics"


class SimulatedKafka:
    """A simulated cluster at ``connect`` (``host:port/chroot``) that runs until ``close``.

    ``version`` decides what is written: topic ids since 2.8, and the JSON versions of that Kafka version.
    ``deletion_enabled`` is the brokers' ``delete.topic.enable``. With ``moves_replicas``, reassignment requests are
    carried out by ``reassignments``; the brokers in ``lagging_brokers`` never get in sync. Without ``elects_leaders``,
    requests to elect leaders stay. ``controller_errors`` collects the errors that a real controller would log; without
    invalid znodes it stays empty. Raises ``TopiaristError`` (Unreachable) if there is no ZooKeeper.
    """

    def __init__(
        self,
        connect: str,
        brokers: Iterable[Broker],
        version: KafkaVersion = LAST_ZOOKEEPER_VERSION,
        cluster_id: str = seed.CLUSTER_ID,
    ) -> None:
        self.connect = connect
        self.version = version
        self.cluster_id = cluster_id
        self.brokers = {broker.id: broker for broker in brokers}
        self.deletion_enabled = True
        self.moves_replicas = False
        self.elects_leaders = True
        self.lagging_brokers: set[int] = set()
        self.controller_errors: list[str] = []
        self.client = KazooClient(connect, timeout=20.0)
        self.reassignments = SimulatedReassignments(self.client)
        self._known_topics: set[str] = set()
        self._epoch_and_version = (0, 0)
        self._work_queue: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._process_queue, name="simulated-kafka", daemon=True)

    def start(self) -> Self:
        """Create the chroot, register the brokers, elect the first one as controller, and set watches."""
        try:
            self._create_chroot()
            self.client.start(timeout=_CONNECT_TIMEOUT_S)
            seed.create_cluster(self.client, self.brokers.values(), self.version, self.cluster_id)
            self._epoch_and_version = (1, 1)
            self.client.add_listener(self._on_session_state)
            self._thread.start()
            self.wait_idle()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stop reacting and close the session: broker and controller znodes vanish, topics remain."""
        self.client.remove_listener(self._on_session_state)
        self._work_queue.put(None)
        self.client.stop()  # work in progress fails with a connection error, so the join below returns soon
        if self._thread.is_alive():
            self._thread.join()
        self.client.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def add_topics(self, *topics: seed.Topic) -> None:
        """Create topics as Kafka's own tools do, and wait until the controller has initialized them."""
        seed.add_topics(self.client, topics, self.version)
        self.wait_idle()

    def wait_idle(self) -> None:
        """Wait until the controller has processed everything written before this call."""
        self.run_and_wait(self._sync_all)

    def run_and_wait(self, work: Callable[[], None]) -> None:
        """Run ``work`` in the thread of the controller; raise ``TopiaristError`` (Unreachable) after 30 seconds."""
        done = threading.Event()
        self._work_queue.put(work)
        self._work_queue.put(done.set)
        if not done.wait(_REACTION_TIMEOUT_S):
            message = f"the simulated controller did not react within {_REACTION_TIMEOUT_S:.0f} s"
            raise TopiaristError(Reason.UNREACHABLE, message)

    def _create_chroot(self) -> None:
        hosts, _, chroot = self.connect.partition("/")
        client = KazooClient(hosts)
        try:
            client.start(timeout=_CONNECT_TIMEOUT_S)
            client.ensure_path("/" + chroot)
        except KazooTimeoutError as error:
            raise TopiaristError(Reason.UNREACHABLE, f"no ZooKeeper answers at {hosts}") from error
        finally:
            client.stop()
            client.close()

    def _process_queue(self) -> None:
        """Process one work item after the other in one thread, as Kafka's controller does."""
        while (work := self._work_queue.get()) is not None:
            try:
                work()
            except _CONNECTION_ERRORS:
                continue  # after the reconnect, _on_session_state enqueues a full sync
            except Exception as error:  # a real controller logs the error and loses the event; its thread continues
                self.controller_errors.append(f"{type(error).__name__}: {error}")

    def _on_session_state(self, state: KazooState) -> None:
        if state == KazooState.CONNECTED:
            self._work_queue.put(self._sync_all)

    def _on_watch_event(self, event: WatchedEvent) -> None:
        # kazoo calls this in its own thread; the worker thread reads the znode and sets the watch again.
        reaction = {
            _BROKER_IDS: self._sync_brokers,
            _TOPICS: self._sync_topics,
            _DELETION_REQUESTS: self._process_deletion_requests,
            REASSIGNMENT_REQUEST: self._process_reassignment_request,
            ELECTION_REQUEST: self.process_election_request,
        }
        if event.path:
            topic = event.path.removeprefix(_TOPICS + "/")
            self._work_queue.put(reaction.get(event.path) or partial(self._sync_topic, topic))

    def _sync_all(self) -> None:
        """Process everything that a new controller reads, after ephemeral znodes of a lost session are restored."""
        for missing in self.brokers.keys() - self._live_brokers():
            seed.register_broker(self.client, self.brokers[missing], self.version)
        if self.client.exists("/controller") is None:
            self.reassignments.forget()
            self._epoch_and_version = seed.elect_controller(self.client, min(self.brokers), self.version)
        self._known_topics.clear()
        self._sync_brokers()

    def _sync_brokers(self) -> None:
        """React to registered or removed brokers: work that waited for a broker may now continue."""
        self.client.get_children(_BROKER_IDS, watch=self._on_watch_event)
        self._known_topics.clear()
        self._sync_topics()
        self._process_deletion_requests()
        self._process_reassignment_request()
        self.process_election_request()

    def _sync_topics(self) -> None:
        names = set(self.client.get_children(_TOPICS, watch=self._on_watch_event))
        new, self._known_topics = names - self._known_topics, names  # known from here on, also if unreadable
        # Read all topics before decoding one, as Kafka does: one invalid topic loses the event for all of them.
        data_by_name = {name: data for name in sorted(new) if (data := self._read_topic(name)) is not None}
        topics = {name: _decode_topic(f"{_TOPICS}/{name}", data) for name, data in data_by_name.items()}
        for name, topic in topics.items():
            if self.version >= (2, 8) and "topic_id" not in topic:
                # Kafka sets the data without a version check, so it overwrites a concurrent write of another client.
                data = seed.topic_bytes(topic["partitions"], seed.new_topic_id())
                self.client.set(f"{_TOPICS}/{name}", data)
        for name, topic in topics.items():
            self._create_partition_states(f"{_TOPICS}/{name}", topic["partitions"])

    def _process_deletion_requests(self) -> None:
        for name in sorted(self.client.get_children(_DELETION_REQUESTS, watch=self._on_watch_event)):
            self._process_deletion_request(name)

    def _process_reassignment_request(self) -> None:
        if self.moves_replicas:
            self.client.exists(REASSIGNMENT_REQUEST, watch=self._on_watch_event)
            self.reassignments.process(self._live_brokers() - self.lagging_brokers)

    def process_election_request(self) -> None:
        """Elect preferred leaders if a request asks for it; call it in the thread of the controller."""
        # Watched first: a request that arrives during the election is carried out by the next event.
        self.client.exists(ELECTION_REQUEST, watch=self._on_watch_event)
        if self.elects_leaders:
            process(self.client, self._live_brokers())

    def _read_topic(self, name: str) -> bytes | None:
        """Read and watch a topic's znode; None if the topic was deleted."""
        try:
            return bytes(self.client.get(f"{_TOPICS}/{name}", watch=self._on_watch_event)[0])
        except NoNodeError:
            self._known_topics.discard(name)
            return None

    def _sync_topic(self, name: str) -> None:
        """Create the missing partition states of an existing topic; only new topics get an id."""
        data = self._read_topic(name)
        if data is not None:
            path = f"{_TOPICS}/{name}"
            self._create_partition_states(path, _decode_topic(path, data)["partitions"])

    def _create_partition_states(self, path: str, partitions: dict[str, list[int]]) -> None:
        try:
            existing = set(self.client.get_children(f"{path}/partitions"))
        except NoNodeError:
            existing = None
        live = self._live_brokers()
        transaction = self.client.transaction()
        transaction.check("/controller_epoch", self._epoch_and_version[1])
        if existing is None:
            seed.create_with_null_data(transaction, f"{path}/partitions")
        for partition in sorted(partitions.keys() - (existing or set()), key=int):
            if replicas := [replica for replica in partitions[partition] if replica in live]:
                node = f"{path}/partitions/{partition}"
                seed.create_with_null_data(transaction, node)
                transaction.create(f"{node}/state", seed.state_bytes(replicas, self._epoch_and_version[0]))
        if len(transaction.operations) > 1:
            seed.commit(transaction)

    def _process_deletion_request(self, name: str) -> None:
        """Carry out one deletion request; a topic with a replica on an offline broker waits.

        A request for a topic that does not exist is removed, and so is every request if deletion is disabled.
        """
        path = f"{_TOPICS}/{name}"
        if self.deletion_enabled:
            with suppress(NoNodeError):
                topic = _decode_topic(path, self.client.get(path)[0])
                if any(set(replicas) - self._live_brokers() for replicas in topic["partitions"].values()):
                    return
                self.client.delete(path, recursive=True)  # leaf first, one delete a node
                self.client.delete(f"/config/topics/{name}")
        self.client.delete(f"{_DELETION_REQUESTS}/{name}")

    def _live_brokers(self) -> set[int]:
        return set(map(int, self.client.get_children(_BROKER_IDS)))


def _decode_topic(path: str, data: bytes) -> dict[str, Any]:
    """Decode a topic znode; raise ``ValueError`` where Kafka's controller would lose the event."""
    topic = json.loads(data)
    if not isinstance(topic, dict) or not isinstance(topic.get("partitions"), dict):
        raise ValueError(f"{path} holds no topic: {data!r}")
    return topic


# The demo cluster of ``topiarist dev``: six brokers in three racks, and three existing topics.
#
# The matching manifests are in ``manifests/demo``: ``payments`` equals its manifest, ``clicks`` keeps messages for one
# day instead of three, ``audit`` is in no manifest, and ``orders`` has a manifest but does not exist yet.

CONNECT = "127.0.0.1:2181/kafka"
"""The address in ``manifests/demo/cluster.yaml``."""

CLUSTER_NAME = "demo"
"""The name of the Cluster in ``manifests/demo/cluster.yaml``."""

_SCHEMA_PATTERN = re.compile(r"(?<=[$]schema=)[./]*/schemas/([a-z]+[.]json)")

BROKERS = tuple(Broker(number, rack) for number, rack in enumerate("abcabc", start=1))


def _assign_replicas(first: int, partitions: int) -> tuple[Replicas, ...]:
    """Return replica lists with three replicas in three racks: consecutive brokers never share a rack."""
    return tuple(
        tuple((first + partition + replica) % len(BROKERS) + 1 for replica in range(3))
        for partition in range(partitions)
    )


TOPICS = (
    Topic("payments", _assign_replicas(0, 6), {"cleanup.policy": "compact", "min.insync.replicas": "2"}),
    Topic("clicks", _assign_replicas(2, 12), {"min.insync.replicas": "2", "retention.ms": "86400000"}),
    Topic("audit", _assign_replicas(4, 3), {"retention.ms": "31536000000"}),
)


@contextmanager
def run_cluster(connect: str, cluster_id: str = CLUSTER_ID) -> Iterator[SimulatedKafka]:
    """Run the demo cluster at ``connect`` (``host:port/chroot``) inside the ``with``; the chroot is created."""
    playground = SimulatedKafka(connect, BROKERS, cluster_id=cluster_id)
    playground.moves_replicas = True
    with playground:
        playground.add_topics(*TOPICS)
        yield playground


def render_manifests(name: str, connect: str, cluster_id: str) -> Mapping[str, str]:
    """Return the demo's manifests for this cluster: text by path below their folder.

    Their ``$schema`` is the path in the installed package, so that an editor finds it from any folder.
    """
    package = files("topiarist")
    manifests = {}
    with as_file(package / "demo") as samples, as_file(package / "schemas") as schemas:
        for sample in sorted(samples.rglob("*.yaml")):
            text = sample.read_text(encoding="utf-8")
            text = _SCHEMA_PATTERN.sub(lambda match: (schemas.resolve() / match[1]).as_uri(), text)
            if sample.name == "cluster.yaml":
                for old, new in (
                    (CONNECT, connect),
                    (CLUSTER_ID, cluster_id),
                    (f"name: {CLUSTER_NAME}", f"name: {name}"),
                ):
                    text = text.replace(old, new)
            manifests[sample.relative_to(samples).as_posix()] = text
    return manifests
