"""Random walks through the model, played on a real ZooKeeper: after each step both hold the same.

A run's request goes to the server as the product's bytes, in a session of its own; only the numbers of lock znodes are
replaced, because the model begins them again when the queue is empty. The steps of all other actors are written as the
difference of the trees before and after. Compared are the answers, and of each znode its data, version and owner, and
the order of creation and change among the znodes of one topic. ``TOPIARIST_WALKS`` is the number of walks.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from interleavings.zookeeper import bounds
from interleavings.zookeeper.model import ZooKeeperModel
from interleavings.zookeeper.tree import Entry, Tree, execute, topic_of
from interleavings.zookeeper.world import World
from support.examples import scaled, slow_but
from support.zookeeper.client import connect_client
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode

WALKS = int(os.environ.get("TOPIARIST_WALKS") or max(scaled(30), 6))

_EVENTS = ("the connection drops", "its session expires", "crashes", "its session expires after the crash")
_NOT_SENT = ("AwaitDeletion", "AwaitController", "AwaitRequest")
_TOPS = ("/admin", "/brokers", "/config", "/controller", "/controller_epoch", "/cluster", "/migration", "/topiarist")
_COMPARED_CHILDREN = (paths.TOPICS, paths.TOPIC_CONFIGS, paths.DELETION_REQUESTS, paths.RECORDS, paths.LOCK)


class _Renamed:
    """A request of the product, with the server's names of lock znodes in its bytes."""

    def __init__(self, request: Any, names: Mapping[str, str]) -> None:
        self.type = request.type
        self._request = request
        self._names = names

    def serialize(self) -> bytes:
        raw: bytes = self._request.serialize()
        for model_name, name in self._names.items():
            raw = raw.replace(model_name.encode(), name.encode())
        return raw

    def deserialize(self, *arguments: Any) -> Any:
        return self._request.deserialize(*arguments)


class _Server:
    """The real server: one client for each run, and one for all other actors."""

    def __init__(self, admin: KazooClient, runs: Sequence[KazooClient]) -> None:
        self.admin = admin
        self.runs = runs
        self.lock_names: dict[str, str] = {}
        self.steps = 0

    def begin(self, tree: Tree) -> None:
        """Make the server hold this tree and nothing else."""
        for top in _TOPS:
            if self.admin.exists(top):
                self.admin.delete(top, recursive=True)
        self.write(Tree({}, {}), tree)

    def write(self, before: Tree, after: Tree) -> None:
        """Write the difference of two trees, in the order of the model's zxids."""
        removed = sorted(before.nodes.keys() - after.nodes.keys(), reverse=True)
        for path in removed:
            if path.startswith(f"{paths.LOCK}/"):
                path = self._real_path(path)
            if self.admin.exists(path):  # an ephemeral znode is removed with its session
                self.admin.delete(path, recursive=True)
        batches: dict[tuple[str, int, str], list[str]] = defaultdict(list)
        for path, entry in after.nodes.items():
            if before.nodes.get(path) != entry:
                topic = topic_of(path)
                batches[topic, entry.mzxid, "" if topic else path].append(path)
        for _, batch in sorted(batches.items()):
            for path in batch:
                self.admin.ensure_path(path.rpartition("/")[0])
            transaction = self.admin.transaction()
            for path in batch:
                entry, old = after.nodes[path], before.nodes.get(path)
                if old is not None and old.czxid == entry.czxid:
                    transaction.set_data(path, entry.data)
                else:
                    transaction.create(path, entry.data)
            assert [each for each in transaction.commit() if isinstance(each, Exception)] == []

    def execute(self, index: int, request: Any) -> Any:
        """Send a request of a run; return its result, or the exception that it raises."""
        pending = self.runs[index].handler.async_result()
        self.runs[index]._call(_Renamed(request, self.lock_names), pending)
        try:
            return pending.get(timeout=300)
        except KazooException as error:
            return error

    def _real_path(self, path: str) -> str:
        for model_name, name in self.lock_names.items():
            path = path.replace(model_name, name)
        return path

    def check(self, tree: Tree) -> None:
        """Compare the server with a tree."""
        pending = {path: self.admin.get_async(self._real_path(path)) for path in tree.nodes}
        held = {path: each.get(timeout=300) for path, each in pending.items()}
        assert {path: (data, stat.version) for path, (data, stat) in held.items()} == {
            path: (entry.data, entry.version) for path, entry in tree.nodes.items()
        }
        owners = {str(index): client.client_id[0] for index, client in enumerate(self.runs)}
        assert {path: stat.ephemeralOwner for path, (_, stat) in held.items()} == {
            path: owners.get(entry.owner, 0) for path, entry in tree.nodes.items()
        }
        for topic in {topic_of(path) for path in tree.nodes} - {""}:
            mine = [path for path in tree.nodes if topic_of(path) == topic]
            ours = [zxid for path in mine for zxid in _zxids(tree.nodes[path])]
            theirs = [zxid for path in mine for zxid in (held[path][1].czxid, held[path][1].mzxid)]
            assert _ranks(ours) == _ranks(theirs), (topic, mine)
        names = {model_name: name for name, model_name in self.lock_names.items()}
        for parent in _COMPARED_CHILDREN:
            found = self.admin.get_children(parent) if self.admin.exists(parent) else []
            assert tuple(sorted(names.get(each, each) for each in found)) == tree.children(parent), parent
        self.steps += 1


def _zxids(entry: Entry) -> tuple[int, int]:
    return entry.czxid, entry.mzxid


def _ranks(numbers: Sequence[int]) -> list[int]:
    order = sorted(set(numbers))
    return [order.index(each) for each in numbers]


@pytest.fixture(scope="module")
def own_zookeeper() -> Iterator[str]:
    """A server for these tests alone, with its root: the model has no chroot."""
    with EmbeddedZooKeeper() as server:
        yield server.connect


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("share", slow_but([0], range(2)))
def test_random_walks_are_those_of_a_real_server(own_zookeeper: str, share: int) -> None:
    """Each walk takes one of the small bounds from its first state to an end, by steps chosen with a seed."""
    steps, names = 0, [*bounds.SMALL]
    for number in range(share, WALKS, 2):
        with ExitStack() as stack:
            admin, *runs = (stack.enter_context(connect_client(own_zookeeper)) for _ in range(3))
            server = _Server(admin, runs)
            _walk(server, ZooKeeperModel(bounds.SMALL[names[number % len(names)]]), random.Random(number))
            steps += server.steps
    print(f"{steps} steps")
    assert steps > 10 * (WALKS // 2)


def _walk(server: _Server, model: ZooKeeperModel, chance: random.Random) -> None:
    world = model.first()
    server.begin(world.tree)
    server.check(world.tree)
    while steps := [*model.transitions(world)]:
        step = chance.choice(steps)
        actor, _, what = step.label.partition(": ")
        if actor.startswith("run ") and what not in _EVENTS:
            _play_request(server, model, world, int(actor.removeprefix("run ")))
        else:
            server.write(world.tree, step.state.tree)
        server.check(step.state.tree)
        world = step.state


def _play_request(server: _Server, model: ZooKeeperModel, world: World, index: int) -> None:
    """Execute the next request of a run on both, and compare the answers."""
    request = model.next_request(world, index)
    if type(request).__name__ in _NOT_SENT:
        return
    (kind, expected), _ = execute(world.tree, request, str(index))
    result = server.execute(index, request)
    names = {name: model_name for model_name, name in server.lock_names.items()}
    if type(request).__name__ == "Create" and kind == "ok":
        server.lock_names[expected.rpartition("/")[2]] = result.rpartition("/")[2]
        return
    found: Any
    match kind:
        case "error":
            found = type(result)
        case "multi":
            found = tuple(type(each) if isinstance(each, Exception) else True for each in result)
        case "read":
            found, expected = (tuple(_comparable(each, names) for each in answer) for answer in (result[0], expected))
        case _ if type(request).__name__ == "_SingleRead":
            found, expected = _comparable(result, names), _comparable(expected, names)
        case _:
            found, expected = bool(result), bool(expected)
    if type(request).__name__ not in ("Delete", "SetData") or kind == "error":
        assert found == expected, (request, result)


def _comparable(value: Any, names: Mapping[str, str]) -> Any:
    """Return a result of a read without zxids, with the model's names."""
    if isinstance(value, Znode):
        return value.data, value.version
    if isinstance(value, ReadFailure):
        return value
    return tuple(sorted(names.get(each, each) for each in value))
