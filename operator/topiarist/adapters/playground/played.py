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

from topiarist.adapters.playground import seed
from topiarist.core.state import Broker, Release
from topiarist.errors import Reason, TopiaristError

NEWEST: Release = (3, 9)

_PATIENCE = 30.0
"""Seconds to wait for work that takes milliseconds."""

_CONNECT_DEADLINE = 10.0
"""Seconds."""

_GONE = (ConnectionClosedError, ConnectionLoss, SessionExpiredError)

_IDS, _TOPICS, _MARKS = "/brokers/ids", "/brokers/topics", "/admin/delete_topics"


class Playground:
    """A cluster at ``connect`` (``host:port/chroot``), alive until ``close``.

    ``release`` decides what is written: topic ids since 2.8, znode versions as that release has them. ``deletes`` is
    the brokers' ``delete.topic.enable``. ``faults`` collects what a real controller would have failed on; a cluster
    that is treated well has none. Raises ``TopiaristError`` (Unreachable) if there is no ZooKeeper.
    """

    def __init__(
        self, connect: str, brokers: Iterable[Broker], release: Release = NEWEST, cluster_id: str = seed.CLUSTER_ID
    ) -> None:
        self.connect = connect
        self.release = release
        self.cluster_id = cluster_id
        self.brokers = {broker.id: broker for broker in brokers}
        self.deletes = True
        self.faults: list[str] = []
        self.client = KazooClient(connect, timeout=20.0)
        self._seen: set[str] = set()
        self._term = (0, 0)
        self._work: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="playground", daemon=True)

    def start(self) -> Self:
        """Create the chroot, bring up the brokers, elect the first one, and begin to watch."""
        try:
            self._make_chroot()
            self.client.start(timeout=_CONNECT_DEADLINE)
            seed.seed(self.client, self.brokers.values(), self.release, self.cluster_id)
            self._term = (1, 1)
            self.client.add_listener(self._session)
            self._thread.start()
            self.settle()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stop reacting and leave: brokers and controller vanish, topics stay."""
        self.client.remove_listener(self._session)
        self._work.put(None)
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
        seed.add_topics(self.client, topics, self.release)
        self.settle()

    def add_broker(self, broker: Broker) -> None:
        """Register a broker."""
        self.brokers[broker.id] = broker
        self.settle()

    def remove_broker(self, broker: int) -> None:
        """Take a broker away, as if it had been stopped."""
        del self.brokers[broker]
        self.client.delete(f"{_IDS}/{broker}")
        self.settle()

    def elect(self, broker: int) -> None:
        """Let another broker become controller: the epoch moves on."""
        self._do(partial(self._elect, broker))

    @contextmanager
    def held(self) -> Iterator[None]:
        """The controller does nothing meanwhile, as one that is stuck; then it catches up. No ``settle`` in it."""
        on = threading.Event()
        self._work.put(on.wait)
        try:
            yield
        finally:
            on.set()

    def settle(self) -> None:
        """Wait until everything that was written before this call has been reacted to."""
        self._do(self._everything)

    def _make_chroot(self) -> None:
        hosts, _, chroot = self.connect.partition("/")
        client = KazooClient(hosts)
        try:
            client.start(timeout=_CONNECT_DEADLINE)
            client.ensure_path("/" + chroot)
        except KazooTimeoutError as error:
            raise TopiaristError(Reason.UNREACHABLE, f"no ZooKeeper answers at {hosts}") from error
        finally:
            client.stop()
            client.close()

    def _do(self, work: Callable[[], None]) -> None:
        done = threading.Event()
        self._work.put(work)
        self._work.put(done.set)
        if not done.wait(_PATIENCE):
            raise TopiaristError(Reason.UNREACHABLE, f"the playground did not react within {_PATIENCE:.0f} s")

    def _run(self) -> None:
        """Do one thing after the other, in one thread, as Kafka's controller does."""
        while (work := self._work.get()) is not None:
            try:
                work()
            except _GONE:
                continue  # when the connection is back, _session asks for a look at everything
            except Exception as error:  # a real controller logs it and loses the event; neither may end the thread
                self.faults.append(f"{type(error).__name__}: {error}")

    def _session(self, state: KazooState) -> None:
        if state == KazooState.CONNECTED:
            self._work.put(self._everything)

    def _changed(self, event: WatchedEvent) -> None:
        """Note what a watch has seen; the reading, which arms the watch again, is done in our own thread."""
        reaction = {_IDS: self._look_at_brokers, _TOPICS: self._look_at_topics, _MARKS: self._look_at_marks}
        if event.path:
            topic = event.path.removeprefix(_TOPICS + "/")
            self._work.put(reaction.get(event.path) or partial(self._look_at_topic, topic))

    def _everything(self) -> None:
        """Look at all that a new controller looks at; nodes that a lost session took along come back first."""
        for missing in self.brokers.keys() - self._live():
            seed.register(self.client, self.brokers[missing], self.release)
        if self.client.exists("/controller") is None:
            self._term = seed.elect(self.client, min(self.brokers), self.release)
        self._seen.clear()
        self._look_at_brokers()

    def _elect(self, broker: int) -> None:
        self.client.delete("/controller")
        self._term = seed.elect(self.client, broker, self.release)
        self._everything()

    def _look_at_brokers(self) -> None:
        """Brokers came or went: what waited for one of them may now go on."""
        self.client.get_children(_IDS, watch=self._changed)
        self._seen.clear()
        self._look_at_topics()
        self._look_at_marks()

    def _look_at_topics(self) -> None:
        names = set(self.client.get_children(_TOPICS, watch=self._changed))
        new, self._seen = names - self._seen, names  # all known from here on, also if one of them cannot be read
        # All are read before one is looked at: where one is odd, the others are lost with it, and watched.
        found = {name: data for name in sorted(new) if (data := self._read(name)) is not None}
        topics = {name: _decode(f"{_TOPICS}/{name}", data) for name, data in found.items()}
        for name, topic in topics.items():
            if self.release >= (2, 8) and "topic_id" not in topic:
                # Kafka sets it without a version, so it wins over anybody who writes at the same time.
                data = seed.topic_bytes(topic["partitions"], seed.new_topic_id())
                self.client.set(f"{_TOPICS}/{name}", data)
        for name, topic in topics.items():
            self._add_states(f"{_TOPICS}/{name}", topic["partitions"])

    def _look_at_marks(self) -> None:
        for name in sorted(self.client.get_children(_MARKS, watch=self._changed)):
            self._delete(name)

    def _read(self, name: str) -> bytes | None:
        """Read a topic's node, and watch it; None if the topic has gone."""
        try:
            return bytes(self.client.get(f"{_TOPICS}/{name}", watch=self._changed)[0])
        except NoNodeError:
            self._seen.discard(name)
            return None

    def _look_at_topic(self, name: str) -> None:
        """Give states to the partitions of a topic that have none yet; an id only a new topic gets."""
        data = self._read(name)
        if data is not None:
            path = f"{_TOPICS}/{name}"
            self._add_states(path, _decode(path, data)["partitions"])

    def _add_states(self, path: str, partitions: dict[str, list[int]]) -> None:
        try:
            there = set(self.client.get_children(f"{path}/partitions"))
        except NoNodeError:
            there = None
        live = self._live()
        transaction = self.client.transaction()
        transaction.check("/controller_epoch", self._term[1])
        if there is None:
            seed.create_null(transaction, f"{path}/partitions")
        for partition in sorted(partitions.keys() - (there or set()), key=int):
            if replicas := [replica for replica in partitions[partition] if replica in live]:
                node = f"{path}/partitions/{partition}"
                seed.create_null(transaction, node)
                transaction.create(f"{node}/state", seed.state_bytes(replicas, self._term[0]))
        if len(transaction.operations) > 1:
            seed.commit(transaction)

    def _delete(self, name: str) -> None:
        """Carry out one mark; a topic with a replica on an absent broker waits.

        A mark for a topic that is not there just goes, and so does every mark where deletion is disabled.
        """
        path = f"{_TOPICS}/{name}"
        if self.deletes:
            with suppress(NoNodeError):
                topic = _decode(path, self.client.get(path)[0])
                if any(set(replicas) - self._live() for replicas in topic["partitions"].values()):
                    return
                self.client.delete(path, recursive=True)  # leaf first, one delete a node
                self.client.delete(f"/config/topics/{name}")
        self.client.delete(f"{_MARKS}/{name}")

    def _live(self) -> set[int]:
        return set(map(int, self.client.get_children(_IDS)))


def _decode(path: str, data: bytes) -> dict[str, Any]:
    """A topic node, or a ``ValueError`` where Kafka's controller would lose the event."""
    topic = json.loads(data)
    if not isinstance(topic, dict) or not isinstance(topic.get("partitions"), dict):
        raise ValueError(f"{path} holds no topic: {data!r}")
    return topic
