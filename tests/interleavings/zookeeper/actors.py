"""The actors beside the runs: Kafka's controller, another client, and the people who operate the cluster.

Written by hand from docs/internals/zookeeper-contract.md, one step for each request. The controller gives a new topic
its id from the bytes that it has read, at any version. It initializes partitions, deletes a topic, its config
and its request in three steps, and is replaced by another one without its memory. The other client is a
tool of Kafka: it deletes, creates, grows and configures topics. People
freeze the cluster, delete the lock by hand, begin a migration to KRaft.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from interleavings.zookeeper.tree import Tree
from interleavings.zookeeper.world import (
    KRAFT_EPOCH,
    Budget,
    Controller,
    Scenario,
    World,
    config_of,
    encode_config,
    encode_request,
    encode_state,
    encode_topic,
    first_state_path,
    initialize,
    make_topic_id,
    partitions_of,
    topic_id_of,
)
from topiarist.adapters import own_values
from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.values import dump_object
from topiarist.model.state import Freeze, OwnershipRecord


class Step(NamedTuple):
    """One step of an actor: its description and the next state."""

    label: str
    world: World


def controller_steps(world: World, scenario: Scenario) -> Iterator[Step]:
    """Yield what the controller may do next."""
    tree, controller = world.tree, world.controller
    if controller.active is None:
        return
    if not controller.active:
        yield _elect(world, "controller: is elected", world.budget)
        return
    if world.budget.failovers and controller.step[:1] != ("delete",):
        budget = world.budget._replace(failovers=world.budget.failovers - 1)
        yield _elect(world, "controller: another one is elected", budget)
    known = dict(controller.known)

    def step(label: str, after: Tree, memory: dict[str, int], doing: tuple[Any, ...] = (), ids: int = 0) -> Step:
        now = Controller(tuple(sorted(memory.items())), doing, controller.ids + ids)
        return Step(f"controller: {label}", world._replace(tree=after, controller=now))

    match controller.step:
        case ("id", topic, data):
            if paths.topic_path(topic) not in tree.nodes:
                yield step(f"finds no {topic}", tree, known)
                return
            fields = json.loads(data) | {"version": 3, "topic_id": make_topic_id(topic, controller.ids)}
            count = len(fields["partitions"])
            after = initialize(tree.put(paths.topic_path(topic), dump_object(fields)), topic, count)
            yield step(f"sets {topic} with an id", after, {**known, topic: count}, ids=1)
        case ("delete", topic, 1):
            after = tree.remove(paths.config_path(topic))
            yield step(f"deletes the config of {topic}", after, known, ("delete", topic, 2))
        case ("delete", topic, 2):
            yield step(f"deletes the request for {topic}", tree.remove(paths.deletion_request_path(topic)), known)
        case _:
            for topic in scenario.names:
                yield from _next_for_topic(tree, topic, known, step)
            if scenario.moves:
                yield from _move_steps(world)


def _elect(world: World, label: str, budget: Budget) -> Step:
    epoch = int(world.tree.nodes[paths.CONTROLLER_EPOCH].data) + 1
    tree = world.tree.put(paths.CONTROLLER_EPOCH, str(epoch).encode())
    if paths.CONTROLLER not in tree.nodes:
        tree = tree.put(paths.CONTROLLER, _controller_data(-1))
    elected = world.controller._replace(known=(), step=(), active=True, moving=())
    return Step(label, world._replace(tree=tree, controller=elected, budget=budget))


def _controller_data(kraft_epoch: int) -> bytes:
    return dump_object({"version": 2, "brokerid": 2, "timestamp": "2", "kraftControllerEpoch": kraft_epoch})


def _next_for_topic(tree: Tree, topic: str, known: dict[str, int], step: Callable[..., Step]) -> Iterator[Step]:
    """Yield the steps that the controller may begin for one topic."""
    path, request = paths.topic_path(topic), paths.deletion_request_path(topic)
    exists, requested = path in tree.nodes, request in tree.nodes
    count, before = len(partitions_of(tree, topic)), known.get(topic)
    others = {name: known[name] for name in known if name != topic}
    if exists and before is None:
        if topic_id_of(tree, topic) is None:
            yield step(f"reads {topic}", tree, known, ("id", topic, tree.nodes[path].data))
        else:
            yield step(f"takes over {topic}", initialize(tree, topic, count), {**known, topic: count})
    elif before is not None and not exists:
        yield step(f"forgets {topic}", tree, others)
    elif before is not None and count > before and not requested:
        after = initialize(tree, topic, count)
        yield step(f"initializes new partitions of {topic}", after, {**known, topic: count})
    if requested and exists and before is not None:
        below = [each for each in tree.nodes if each.startswith(f"{path}/")]
        yield step(f"deletes {topic}", tree.remove(path, *below), others, ("delete", topic, 1))
    elif requested and before is None:
        yield step(f"drops the request for {topic}", tree.remove(request), known)


def _move_steps(world: World) -> Iterator[Step]:
    """Yield what the controller does next for the reassignment request: its first entry that it can carry out.

    It keeps the entries in memory, and writes a topic from what it knows. An entry of a topic that is deleted meanwhile
    stays, until another controller reads the request.
    """
    tree, controller = world.tree, world.controller
    if not controller.moving:
        if paths.REASSIGNMENT_REQUEST in tree.nodes:
            yield _load_request(world)
        return
    for entry in controller.moving:
        topic, partition, target = entry
        node = tree.nodes.get(paths.topic_path(topic))
        known = dict(controller.known).get(topic, 0)
        if node is None or partition >= known:
            continue
        fields = json.loads(node.data)
        lists = {key: value for key, value in fields["partitions"].items() if int(key) < known}
        present, number = lists[str(partition)], str(partition)
        adding, removing = (fields.get(key, {}) for key in ("adding_replicas", "removing_replicas"))
        state_path = first_state_path(topic, partition)
        if number in adding or number in removing:
            state = json.loads(tree.nodes[state_path].data)
            if state["isr"] != list(target):
                after = tree.put(state_path, encode_state(target, state["leader_epoch"] + 1))
                yield Step(f"brokers: {topic}-{partition} is copied", world._replace(tree=after))
                return
            left = {key: value for key, value in adding.items() if key != number}
            also = {key: value for key, value in removing.items() if key != number}
            after = _put_lists(tree, topic, fields, {**lists, number: list(target)}, left, also)
            yield Step(f"controller: ends the move of {topic}-{partition}", world._replace(tree=after))
        elif list(present) == list(target):
            yield _drop_entry(world, entry)
        else:
            new = [broker for broker in target if broker not in present]
            old = [broker for broker in present if broker not in target]
            now = {**lists, number: [*target, *old]}
            after = _put_lists(tree, topic, fields, now, {**adding, number: new}, {**removing, number: old})
            yield Step(f"controller: begins to move {topic}-{partition}", world._replace(tree=after))
        return


def _put_lists(tree: Tree, topic: str, fields: Any, lists: Any, adding: Any, removing: Any) -> Tree:
    changed = {**fields, "partitions": lists, "adding_replicas": adding, "removing_replicas": removing}
    return tree.put(paths.topic_path(topic), dump_object(changed))


def _load_request(world: World) -> Step:
    """Return the step in which the controller reads a request; entries of topics that do not exist are removed."""
    tree = world.tree
    entries = json.loads(tree.nodes[paths.REASSIGNMENT_REQUEST].data)["partitions"]
    found = [each for each in entries if paths.topic_path(each["topic"]) in tree.nodes]
    moving = tuple((each["topic"], each["partition"], tuple(each["replicas"])) for each in found)
    after = _put_request(tree, found) if len(found) < len(entries) else tree
    controller = world.controller._replace(moving=moving)
    return Step("controller: reads the reassignment request", world._replace(tree=after, controller=controller))


def _drop_entry(world: World, entry: tuple[str, int, tuple[int, ...]]) -> Step:
    """Return the step in which the controller removes an entry from its memory and from the request."""
    moving = tuple(each for each in world.controller.moving if each != entry)
    node = world.tree.nodes.get(paths.REASSIGNMENT_REQUEST)
    entries = json.loads(node.data)["partitions"] if node else []
    left = [each for each in entries if (each["topic"], each["partition"]) != entry[:2]]
    after = _put_request(world.tree, left) if node else world.tree
    controller = world.controller._replace(moving=moving)
    label = f"controller: removes {entry[0]}-{entry[1]} from the request"
    return Step(label, world._replace(tree=after, controller=controller))


def _put_request(tree: Tree, entries: list[Any]) -> Tree:
    if not entries:
        return tree.remove(paths.REASSIGNMENT_REQUEST)
    return tree.put(paths.REASSIGNMENT_REQUEST, dump_object({"version": 1, "partitions": entries}))


def client_steps(world: World, scenario: Scenario) -> Iterator[Step]:
    """Yield what another client may do next: its actions of several requests read first, and write later."""
    tree = world.tree
    if world.client:
        yield _continue_action(world)
        return
    if not world.budget.client_actions:
        return
    spent = world._replace(budget=world.budget._replace(client_actions=world.budget.client_actions - 1))
    for kind, topic, argument in scenario.client_actions:
        exists, request = paths.topic_path(topic) in tree.nodes, paths.deletion_request_path(topic)
        if kind in ("create", "create with id") and not exists:
            doing = ("set config", topic, encode_config(argument), kind)
            yield Step(f"client: finds no {topic}", spent._replace(client=doing))
        if kind == "delete" and exists and request not in tree.nodes:
            yield Step(f"client: requests the deletion of {topic}", spent._replace(tree=tree.put(request, b"")))
        if kind == "configure" and exists:
            config = encode_config({**config_of(tree, topic), **argument})
            yield Step(f"client: reads the config of {topic}", spent._replace(client=("configure", topic, config)))
        if kind == "grow" and 0 < len(partitions_of(tree, topic)) < argument:
            fields = json.loads(tree.nodes[paths.topic_path(topic)].data)
            count = len(fields["partitions"])
            fields["partitions"] |= {str(index): [2] for index in range(count, argument)}
            yield Step(f"client: reads {topic}", spent._replace(client=("grow", topic, dump_object(fields))))


def _continue_action(world: World) -> Step:
    tree, (kind, topic, argument, *more) = world.tree, world.client
    exists = paths.topic_path(topic) in tree.nodes
    done = world._replace(client=())
    if kind == "set config":
        doing, tree = ("create", topic, more[0]), tree.put(paths.config_path(topic), argument)
        return Step(f"client: sets the config of {topic}", world._replace(tree=tree, client=doing))
    if kind == "create":
        if exists:
            return Step(f"client: finds that {topic} exists", done)
        # Tools that write to ZooKeeper leave the id to the controller; brokers of 2.8 and later create topics with one.
        topic_id = make_topic_id(topic, 9) if argument == "create with id" else None
        after = tree.put(paths.topic_path(topic), encode_topic([[1]], topic_id))
        return Step(f"client: creates {topic}", done._replace(tree=after))
    path = paths.config_path(topic) if kind == "configure" else paths.topic_path(topic)
    if not exists:
        return Step(f"client: finds no {topic}", done)
    after = tree.put(path, argument)
    label = f"client: sets the config of {topic}" if kind == "configure" else f"client: grows {topic}"
    return Step(label, done._replace(tree=after))


def operator_steps(world: World, scenario: Scenario) -> Iterator[Step]:
    """Yield what people, brokers and a KRaft quorum may do next."""
    tree, controller = world.tree, world.controller
    if paths.MIGRATION in tree.nodes and controller.active is not None:
        # The claim of a KRaft controller: the epoch and the controller's znode in one transaction.
        after = tree.put(paths.CONTROLLER_EPOCH, KRAFT_EPOCH).put(paths.CONTROLLER, _controller_data(7))
        kraft = controller._replace(active=None, step=())
        yield Step("KRaft: its controller takes over", world._replace(tree=after, controller=kraft))
    if not world.budget.operator_actions:
        return
    spent = world._replace(budget=world.budget._replace(operator_actions=world.budget.operator_actions - 1))
    frozen = own_values.encode_freeze(Freeze("maintenance", "anna", "2026-01-01T00:00:00Z"))
    for kind in scenario.operator_actions:
        match kind:
            case "freeze" if tree.nodes[paths.FREEZE].data != frozen:
                yield Step("a person: freezes the cluster", spent._replace(tree=tree.put(paths.FREEZE, frozen)))
            case "migrate" if paths.MIGRATION not in tree.nodes:
                migration = dump_object({"version": 0, "kraft_metadata_offset": -1})
                yield Step("KRaft: its quorum connects", spent._replace(tree=tree.put(paths.MIGRATION, migration)))
            case "unlock":
                for name in tree.children(paths.LOCK):
                    after = tree.remove(f"{paths.LOCK}/{name}")
                    yield Step(f"a person: deletes the lock znode {name}", spent._replace(tree=after))
            case "resign" if controller.active and not controller.step:
                after = tree.remove(paths.CONTROLLER)
                away = controller._replace(known=(), active=False, moving=())
                yield Step("controller: its session ends", spent._replace(tree=after, controller=away))
            case "broker" if paths.broker_path(2) in tree.nodes:
                yield Step("broker 2: goes offline", spent._replace(tree=tree.remove(paths.broker_path(2))))
            case "own":
                for topic in scenario.names:
                    path = paths.record_path(topic)
                    record = own_values.encode_record(OwnershipRecord("other", ()))
                    if path in tree.nodes and tree.nodes[path].data != record:
                        given = spent._replace(tree=tree.put(path, record))
                        yield Step(f"a person: gives {topic} to another owner", given)
            case "move" if paths.REASSIGNMENT_REQUEST not in tree.nodes and paths.topic_path("a") in tree.nodes:
                after = tree.put(paths.REASSIGNMENT_REQUEST, encode_request("a"))
                yield Step("a client: requests a move of a", spent._replace(tree=after))
            case "reassign" if tree.put(paths.REASSIGNMENT_REQUEST, encode_request("a")).nodes != tree.nodes:
                after = tree.put(paths.REASSIGNMENT_REQUEST, encode_request("a"))
                yield Step("a client: requests a reassignment of a", spent._replace(tree=after))
