"""The part of the brokers and of the controller, played: what a running cluster does when somebody writes topics.

It reacts as Kafka's controller does, from the same watches and in the same order (new topic: id, then partition states;
grown topic: the new states; mark for deletion: partitions, topic, config, mark). It does not move leaders or replicas.
Reads what ``seed`` laid out; whoever looks at the cluster cannot tell it from a real one, short of using it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, NoNodeError, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState, WatchedEvent

from topiarist.adapters.devcluster import seed
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Broker, KafkaVersion

MAX_KAFKA_VERSION: KafkaVersion = (3, 9)

_REACTION_TIMEOUT_S = 30.0
"""Seconds to wait for work that takes milliseconds."""

_CONNECT_TIMEOUT_S = 10.0
"""Seconds."""

_CONNECTION_ERRORS = (ConnectionClosedError, ConnectionLoss, SessionExpiredError)

_BROKER_IDS, _TOPICS, _DELETION_REQUESTS = "/brokers/ids", "/brokers/topics", "/admin/delete_topics"


class SimulatedKafka:
    """A cluster at ``connect`` (``host:port/chroot``), alive until ``close``.

    ``release`` decides what is written: topic ids since 2.8, znode versions as that release has them. ``deletes`` is
    the brokers' ``delete.topic.enable``. ``faults`` collects what a real controller would have failed on; a cluster
    that is treated well has none. Raises ``TopiaristError`` (Unreachable) if there is no ZooKeeper.
    """

    def __init__(
        self,
        connect: str,
        brokers: Iterable[Broker],
        version: KafkaVersion = MAX_KAFKA_VERSION,
        cluster_id: str = seed.CLUSTER_ID,
    ) -> None:
        self.connect = connect
        self.version = version
        self.cluster_id = cluster_id
        self.brokers = {broker.id: broker for broker in brokers}
        self.deletion_enabled = True
        self.controller_errors: list[str] = []
        self.client = KazooClient(connect, timeout=20.0)
        self._known_topics: set[str] = set()
        self._epoch_and_version = (0, 0)
        self._work_queue: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._process_queue, name="playground", daemon=True)

    def start(self) -> Self:
        """Create the chroot, bring up the brokers, elect the first one, and begin to watch."""
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
        """Stop reacting and leave: brokers and controller vanish, topics stay."""
        self.client.remove_listener(self._on_session_state)
        self._work_queue.put(None)
        self.client.stop()  # what is being worked on ends with an error, however much of it is left
        if self._thread.is_alive():
            self._thread.join()
        self.client.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def add_topics(self, *topics: seed.Topic) -> None:
        """Create topics as Kafka's own tools would, and wait until the controller has taken them over."""
        seed.add_topics(self.client, topics, self.version)
        self.wait_idle()

    def add_broker(self, broker: Broker) -> None:
        """Register a broker."""
        self.brokers[broker.id] = broker
        self.wait_idle()

    def remove_broker(self, broker: int) -> None:
        """Take a broker away, as if it had been stopped."""
        del self.brokers[broker]
        self.client.delete(f"{_BROKER_IDS}/{broker}")
        self.wait_idle()

    def elect_controller(self, broker: int) -> None:
        """Let another broker become controller: the epoch moves on."""
        self._run_and_wait(partial(self._replace_controller, broker))

    @contextmanager
    def pause_controller(self) -> Iterator[None]:
        """The controller does nothing meanwhile, as one that is stuck; then it catches up. No ``settle`` in it."""
        on = threading.Event()
        self._work_queue.put(on.wait)
        try:
            yield
        finally:
            on.set()

    def wait_idle(self) -> None:
        """Wait until everything that was written before this call has been reacted to."""
        self._run_and_wait(self._sync_all)

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

    def _run_and_wait(self, work: Callable[[], None]) -> None:
        done = threading.Event()
        self._work_queue.put(work)
        self._work_queue.put(done.set)
        if not done.wait(_REACTION_TIMEOUT_S):
            raise TopiaristError(Reason.UNREACHABLE, f"the playground did not react within {_REACTION_TIMEOUT_S:.0f} s")

    def _process_queue(self) -> None:
        """Do one thing after the other, in one thread, as Kafka's controller does."""
        while (work := self._work_queue.get()) is not None:
            try:
                work()
            except _CONNECTION_ERRORS:
                continue  # when the connection is back, _session asks for a look at everything
            except Exception as error:  # a real controller logs it and loses the event; neither may end the thread
                self.controller_errors.append(f"{type(error).__name__}: {error}")

    def _on_session_state(self, state: KazooState) -> None:
        if state == KazooState.CONNECTED:
            self._work_queue.put(self._sync_all)

    def _on_watch_event(self, event: WatchedEvent) -> None:
        """Note what a watch has seen; the reading, which arms the watch again, is done in our own thread."""
        reaction = {
            _BROKER_IDS: self._sync_brokers,
            _TOPICS: self._sync_topics,
            _DELETION_REQUESTS: self._process_deletion_requests,
        }
        if event.path:
            topic = event.path.removeprefix(_TOPICS + "/")
            self._work_queue.put(reaction.get(event.path) or partial(self._sync_topic, topic))

    def _sync_all(self) -> None:
        """Look at all that a new controller looks at; nodes that a lost session took along come back first."""
        for missing in self.brokers.keys() - self._live_brokers():
            seed.register_broker(self.client, self.brokers[missing], self.version)
        if self.client.exists("/controller") is None:
            self._epoch_and_version = seed.elect_controller(self.client, min(self.brokers), self.version)
        self._known_topics.clear()
        self._sync_brokers()

    def _replace_controller(self, broker: int) -> None:
        self.client.delete("/controller")
        self._epoch_and_version = seed.elect_controller(self.client, broker, self.version)
        self._sync_all()

    def _sync_brokers(self) -> None:
        """Brokers came or went: what waited for one of them may now go on."""
        self.client.get_children(_BROKER_IDS, watch=self._on_watch_event)
        self._known_topics.clear()
        self._sync_topics()
        self._process_deletion_requests()

    def _sync_topics(self) -> None:
        names = set(self.client.get_children(_TOPICS, watch=self._on_watch_event))
        new, self._known_topics = (
            names - self._known_topics,
            names,
        )  # all known from here on, also if one of them cannot be read
        # All are read before one is looked at: where one is odd, the others are lost with it, and watched.
        found = {name: data for name in sorted(new) if (data := self._read_topic(name)) is not None}
        topics = {name: _decode_topic(f"{_TOPICS}/{name}", data) for name, data in found.items()}
        for name, topic in topics.items():
            if self.version >= (2, 8) and "topic_id" not in topic:
                # Kafka sets it without a version, so it wins over anybody who writes at the same time.
                data = seed.topic_bytes(topic["partitions"], seed.new_topic_id())
                self.client.set(f"{_TOPICS}/{name}", data)
        for name, topic in topics.items():
            self._create_partition_states(f"{_TOPICS}/{name}", topic["partitions"])

    def _process_deletion_requests(self) -> None:
        for name in sorted(self.client.get_children(_DELETION_REQUESTS, watch=self._on_watch_event)):
            self._process_deletion_request(name)

    def _read_topic(self, name: str) -> bytes | None:
        """Read a topic's node, and watch it; None if the topic has gone."""
        try:
            return bytes(self.client.get(f"{_TOPICS}/{name}", watch=self._on_watch_event)[0])
        except NoNodeError:
            self._known_topics.discard(name)
            return None

    def _sync_topic(self, name: str) -> None:
        """Give states to the partitions of a topic that have none yet; an id only a new topic gets."""
        data = self._read_topic(name)
        if data is not None:
            path = f"{_TOPICS}/{name}"
            self._create_partition_states(path, _decode_topic(path, data)["partitions"])

    def _create_partition_states(self, path: str, partitions: dict[str, list[int]]) -> None:
        try:
            there = set(self.client.get_children(f"{path}/partitions"))
        except NoNodeError:
            there = None
        live = self._live_brokers()
        transaction = self.client.transaction()
        transaction.check("/controller_epoch", self._epoch_and_version[1])
        if there is None:
            seed.create_with_null_data(transaction, f"{path}/partitions")
        for partition in sorted(partitions.keys() - (there or set()), key=int):
            if replicas := [replica for replica in partitions[partition] if replica in live]:
                node = f"{path}/partitions/{partition}"
                seed.create_with_null_data(transaction, node)
                transaction.create(f"{node}/state", seed.state_bytes(replicas, self._epoch_and_version[0]))
        if len(transaction.operations) > 1:
            seed.commit(transaction)

    def _process_deletion_request(self, name: str) -> None:
        """Carry out one mark; a topic with a replica on an absent broker waits.

        A mark for a topic that is not there just goes, and so does every mark where deletion is disabled.
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
    """A topic node, or a ``ValueError`` where Kafka's controller would lose the event."""
    topic = json.loads(data)
    if not isinstance(topic, dict) or not isinstance(topic.get("partitions"), dict):
        raise ValueError(f"{path} holds no topic: {data!r}")
    return topic
