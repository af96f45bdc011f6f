"""A simulation of Kafka's brokers and controller on a ZooKeeper.

``topiarist dev``, the demo and the tests use it. It reacts as Kafka's controller does, to the same watches and in the
same order. New topic: id, then partition states. New partitions: their states. Deletion request: partitions, topic,
config, request. Election of preferred leaders: states, request. It carries out reassignments only with
``moves_replicas``. ``seed`` writes the initial znodes. A client that only reads znodes cannot distinguish it from a
real cluster.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, NoNodeError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, WatchedEvent

from topiarist.adapters.devcluster import seed, simulated_election, simulated_reassignment
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import LAST_ZOOKEEPER_VERSION, Broker, KafkaVersion

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
        self.reassignments = simulated_reassignment.SimulatedReassignments(self.client)
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
            simulated_reassignment.REQUEST: self._process_reassignment_request,
            simulated_election.REQUEST: self.process_election_request,
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
            self.client.exists(simulated_reassignment.REQUEST, watch=self._on_watch_event)
            self.reassignments.process(self._live_brokers() - self.lagging_brokers)

    def process_election_request(self) -> None:
        """Elect preferred leaders if a request asks for it; call it in the thread of the controller."""
        # Watched first: a request that arrives during the election is carried out by the next event.
        self.client.exists(simulated_election.REQUEST, watch=self._on_watch_event)
        if self.elects_leaders:
            simulated_election.process(self.client, self._live_brokers())

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
