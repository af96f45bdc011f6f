"""All actors on one ZooKeeper: what may happen next in a state, and which property a step violates.

A step of a run is the execution of the next request in its queue, with an answer that arrives or is lost; or a dropped
connection, an expired session, a crash. Reads of znodes that no actor of the scenario writes take no step of their own:
they commute with every other step.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from interleavings.replay import Asking, Ended
from interleavings.search import Transition
from interleavings.zookeeper import actors
from interleavings.zookeeper.product_run import DROP, EXPIRE, Event, make_automaton, read_whole
from interleavings.zookeeper.properties import (
    BATCH,
    Commit,
    check_batch,
    check_commit,
    check_left_throttles,
    check_moves_report,
    check_other_writer,
    check_report,
    is_of_batch,
    is_of_planned_topic,
    topic_of_transaction,
)
from interleavings.zookeeper.tree import Tree, TreeOperation, decode_transaction, execute, read_paths, topic_of
from interleavings.zookeeper.world import KRAFT_EPOCH, Budget, Run, Scenario, World, Written, first_world, partitions_of
from topiarist.adapters.zookeeper.codec import paths
from topiarist.model.plan import Plan
from topiarist.planning.planner import make_plan

_MAX_RUNS = 4
"""Undisturbed runs after which the cluster must be in step."""

_WRITES = frozenset({"MultiRequest", "Create", "Delete", "SetData"})

_VOLATILE = {
    "failovers": (paths.CONTROLLER_EPOCH,),
    "freeze": (paths.FREEZE,),
    "migrate": (paths.MIGRATION, paths.CONTROLLER_EPOCH, paths.CONTROLLER),
    "resign": (paths.CONTROLLER_EPOCH, paths.CONTROLLER),
    "broker": (paths.BROKER_IDS,),
    "reassign": (paths.REASSIGNMENT_REQUEST,),
    "moves": (paths.REASSIGNMENT_REQUEST, paths.MOVES, paths.BROKER_CONFIGS),
}
_ALWAYS_VOLATILE = (paths.TOPICS, paths.TOPIC_CONFIGS, paths.DELETION_REQUESTS, paths.RECORDS, paths.LOCK)


class ZooKeeperModel:
    """The model of one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._automata = [
            make_automaton(run, str(index), multiread=scenario.multiread) for index, run in enumerate(scenario.runs)
        ]
        self._plans: dict[tuple[int, int], Plan] = {}
        self._endings: dict[int, Collection[str]] = {}
        kinds = {*scenario.operator_actions, *(("failovers",) if scenario.budget.failovers else ())}
        if scenario.moves:
            kinds.add("moves")
        self._volatile = (*_ALWAYS_VOLATILE, *(path for kind in sorted(kinds) for path in _VOLATILE.get(kind, ())))

    @property
    def replays(self) -> int:
        """Return how often the product's code was run."""
        return sum(automaton.replays for automaton in self._automata)

    def first(self) -> World:
        """Return the scenario's first state."""
        world = first_world(self.scenario, [automaton.start for automaton in self._automata])
        for index in range(len(world.runs)):
            world = self._execute_independent(world, index)
        return world

    def digest(self, state: World) -> int:
        """Return the digest of a state."""
        return state.digest

    def transitions(self, state: World) -> Iterator[Transition[World]]:
        """Yield everything that may happen next."""
        for index in range(len(state.runs)):
            yield from self._run_steps(state, index)
        yield from self._actor_steps(state)

    def _actor_steps(self, state: World) -> Iterator[Transition[World]]:
        for actor in (actors.controller_steps, actors.client_steps, actors.operator_steps):
            for step in actor(state, self.scenario):
                yield Transition(step.label, step.world, tuple(check_other_writer(state, step)))

    def _run_steps(self, world: World, index: int) -> Iterator[Transition[World]]:
        run, budget, automaton = world.runs[index], world.budget, self._automata[index]
        if run.state is None:
            if self._own_locks(world.tree, index):
                after = world._replace(tree=self._expire(world.tree, index))
                yield Transition(f"run {index}: its session expires after the crash", after)
            return
        situation = automaton.look(run.state)
        if isinstance(situation, Ended):
            return
        head = self.next_request(world, index)
        spent = world if run.lost else world._replace(budget=budget._replace(drops=budget.drops - 1))
        if head is not None and self._is_enabled(world.tree, head):
            yield from self._head_steps(world, spent, index, situation, head)
        writes = any(type(each).__name__ in _WRITES for each in situation.requests)
        if run.lost or (budget.drops and writes):
            yield self._advance(spent, index, DROP, f"run {index}: the connection drops")
        if budget.crashes:
            spent = world._replace(budget=budget._replace(crashes=budget.crashes - 1))
            expired = spent._replace(tree=self._expire(world.tree, index))
            yield self._advance(expired, index, EXPIRE, f"run {index}: its session expires")
            yield Transition(f"run {index}: crashes", _with_run(spent, index, run._replace(state=None, lost=0)))

    def next_request(self, world: World, index: int) -> Any:
        """Return the request of a run that the server executes next, None if there is none."""
        situation = self._look(world, index)
        requests = situation.requests if isinstance(situation, Asking) else ()
        return next(iter(requests[world.runs[index].lost :]), None)

    def _look(self, world: World, index: int) -> Asking | Ended | None:
        """Return the situation of a run, None after its crash."""
        state = world.runs[index].state
        return None if state is None else self._automata[index].look(state)

    def _head_steps(
        self, world: World, spent: World, index: int, situation: Asking, head: Any
    ) -> Iterator[Transition[World]]:
        """Yield the execution of the next request of a run, with and without its answer."""
        run, name = world.runs[index], type(head).__name__
        answer, tree = execute(world.tree, head, str(index))
        label, written = f"run {index}: {_describe(head)}", run.written
        finds: tuple[str, ...] = ()
        if name == "MultiRequest" and is_of_batch(operations := decode_transaction(head.serialize())):
            label, finds = self._describe_batch(world, index, situation.plan, operations, tree)
            if tree is not world.tree:
                written = tuple(sorted({*written, BATCH}))
        elif name == "MultiRequest":
            label, written, finds = self._describe_transaction(world, index, situation.plan, head, tree)
        done = world._replace(tree=tree)
        if not run.lost:
            answered = _with_run(done, index, run._replace(written=written))
            step = self._advance(answered, index, answer, label)
            yield step._replace(finds=(*finds, *step.finds))
        if name in (*_WRITES, "Exists") and (run.lost or world.budget.drops):
            unanswered = run._replace(lost=run.lost + 1, written=written)
            lost = _with_run(spent._replace(tree=tree), index, unanswered)
            yield Transition(f"{label}, and the answer is lost", lost, finds)

    def _describe_transaction(
        self, world: World, index: int, plan: Plan | None, request: Any, after: Tree
    ) -> tuple[str, tuple[Written, ...], tuple[str, ...]]:
        operations = decode_transaction(request.serialize())
        topic, written = topic_of_transaction(operations), world.runs[index].written
        if after is world.tree:
            return f"run {index}: its transaction for {topic} is refused", written, ()
        assert plan is not None
        planned = next(each for each in plan.topics if each.topic == topic)
        commit = Commit(topic, operations, world.tree, after, operations[0].path)
        finds = [*check_commit(commit, planned, self._plan(world.tree, index))]
        if any(each.topic == topic for each in written):
            finds.append("a run makes the same change twice")
        entry = after.nodes.get(paths.topic_path(topic))
        count = len(partitions_of(after, topic))
        new = Written(topic, is_of_planned_topic(commit, planned), entry.czxid if entry else 0, count)
        others = (each for each in written if each.topic != topic)
        return f"run {index}: its transaction for {topic} commits", tuple(sorted((*others, new))), tuple(finds)

    def _describe_batch(
        self, world: World, index: int, plan: Plan | None, operations: Sequence[TreeOperation], after: Tree
    ) -> tuple[str, tuple[str, ...]]:
        what = "puts the throttles back" if operations[-1].kind == "delete" else "sends a batch of moves"
        if after is world.tree:
            return f"run {index}: {what}, which is refused", ()
        assert plan is not None
        commit = Commit("", operations, world.tree, after, operations[0].path)
        return f"run {index}: {what}", tuple(check_batch(commit, plan))

    def _advance(self, world: World, index: int, event: Event, label: str) -> Transition[World]:
        """Return the step in which a run learns of an event."""
        run = world.runs[index]
        assert run.state is not None
        state = self._automata[index].after(run.state, event)
        after = self._execute_independent(_with_run(world, index, run._replace(state=state, lost=0)), index)
        situation = self._automata[index].look(after.runs[index].state or 0)
        finds: tuple[str, ...] = ()
        if isinstance(situation, Ended):
            finds = tuple(check_report(situation.outcomes, run.written))
            before = self._automata[index].look(run.state)
            if self.scenario.moves and isinstance(before, Asking) and before.plan:
                finds = tuple(check_moves_report(situation.outcomes, before.plan, after.tree, run.written))
        return Transition(label, after, finds)

    def _execute_independent(self, world: World, index: int) -> World:
        """Execute the requests of a run, as long as they commute with every step of every other actor."""
        while True:
            run, automaton = world.runs[index], self._automata[index]
            assert run.state is not None
            situation = automaton.look(run.state)
            if isinstance(situation, Ended) or not self._is_independent(situation.requests[0]):
                return world
            answer, _ = execute(world.tree, situation.requests[0], str(index))
            world = _with_run(world, index, run._replace(state=automaton.after(run.state, answer)))

    def _is_independent(self, request: Any) -> bool:
        name = type(request).__name__
        if name in ("Sync", "GetACL"):
            return True
        if name not in ("_MultiRead", "_SingleRead"):
            return False
        return not any(path.startswith(self._volatile) for path in read_paths(request))

    @staticmethod
    def _is_enabled(tree: Tree, request: Any) -> bool:
        """Return whether a wait is over: for the deletion of a znode, or for a controller."""
        match type(request).__name__:
            case "AwaitDeletion":
                return request.path not in tree.nodes
            case "AwaitController":
                return paths.CONTROLLER in tree.nodes
            case "AwaitRequest":
                return _is_request_news(tree, request.seen)
        return True

    @staticmethod
    def _own_locks(tree: Tree, index: int) -> list[str]:
        return [path for path, entry in tree.nodes.items() if entry.owner == str(index)]

    def _expire(self, tree: Tree, index: int) -> Tree:
        return tree.remove(*self._own_locks(tree, index))

    def _plan(self, tree: Tree, index: int) -> Plan:
        """Return the plan that topiarist makes of this tree, with nothing in between its reads."""
        key = tree.digest, id(self.scenario.runs[index])
        if key not in self._plans:
            run = self.scenario.runs[index]
            state = read_tree(tree)
            self._plans[key] = make_plan(state, run.cluster, run.topics, run.options)
        return self._plans[key]

    def settle(self, state: World) -> Collection[str]:
        """Return how the cluster ends when the controller and undisturbed runs follow, in every order of both.

        For each spec, up to ``_MAX_RUNS`` runs follow, until a plan has no change. Empty if every order ends in step;
        otherwise sentences: the refusals that remain by design, or the failure.
        """
        if any(isinstance(self._look(state, index), Asking) for index in range(len(state.runs))):
            return ["a run waits, and nothing can happen that ends its wait"]
        tree = state.tree
        for index in range(len(state.runs)):
            tree = self._expire(tree, index)
        quiet = state._replace(tree=tree, runs=(), client=(), budget=Budget())
        if quiet.digest not in self._endings:
            specs = {id(run): index for index, run in reversed([*enumerate(self.scenario.runs)])}
            endings = [self._settle_spec(quiet, index) for index in sorted(specs.values())]
            self._endings[quiet.digest] = sorted({each for each in endings if each})
        return self._endings[quiet.digest]

    def _settle_spec(self, quiet: World, index: int) -> str:
        worlds, reasons = {quiet.digest: quiet}, set[str]()
        for _ in range(_MAX_RUNS):
            following: dict[int, World] = {}
            for world in worlds.values():
                plan = self._plan(self._rest(world).tree, index)
                if plan.has_changes or (plan.batch and not plan.write_block.reason):
                    ended = self._undisturbed(world, index)
                    if isinstance(ended, str):
                        return ended
                    following |= {each.digest: each for each in ended}
                reasons |= {issue.reason.value for topic in plan.topics for issue in topic.refusals}
                if plan.write_block.reason:
                    reasons.add(plan.write_block.reason.value)
            if not following:
                left = [find for world in worlds.values() for find in check_left_throttles(world.tree)]
                if left and not reasons:
                    return f"steady, and {left[0]}"
                return f"steady, and refused: {', '.join(sorted(reasons))}" if reasons else ""
            worlds, reasons = following, set()
        return f"not in step after {_MAX_RUNS} undisturbed runs"

    def _rest(self, world: World) -> World:
        """Return the state after the controller has finished its work."""
        for _ in range(100):
            step = next(iter(actors.controller_steps(world, self.scenario)), None)
            if step is None:
                return world
            world = step.world
        raise AssertionError("the controller never rests")

    def _undisturbed(self, quiet: World, index: int) -> Sequence[World] | str:
        """Return the states in which one run beside the controller ends, in every order; a sentence if it fails."""
        automaton = self._automata[index]
        runs = tuple(Run(automaton.start if each == index else None) for each in range(len(self.scenario.runs)))
        first = self._execute_independent(quiet._replace(runs=runs), index)
        seen, open_worlds, ended = {first.digest}, [first], {}
        while open_worlds:
            world = open_worlds.pop()
            steps = [step.world for step in actors.controller_steps(world, self.scenario)]
            situation = automaton.look(world.runs[index].state or 0)
            if isinstance(situation, Ended):
                if situation.failure:
                    return f"an undisturbed run fails: {situation.failure}"
                after = world._replace(runs=())
                ended[after.digest] = after
                continue
            if self._is_enabled(world.tree, situation.requests[0]):
                answer, tree = execute(world.tree, situation.requests[0], str(index))
                steps.append(self._advance(world._replace(tree=tree), index, answer, "").state)
            elif not steps:
                return "an undisturbed run waits, and nothing can happen that ends its wait"
            for each in steps:
                if each.digest not in seen:
                    seen.add(each.digest)
                    open_worlds.append(each)
        return [*ended.values()]


def _is_request_news(tree: Tree, seen: bytes | None) -> bool:
    """Return whether a poll finds the request changed, or nothing left in it that the controller can carry out."""
    node = tree.nodes.get(paths.REASSIGNMENT_REQUEST)
    if node is None or node.data != seen or tree.nodes[paths.CONTROLLER_EPOCH].data == KRAFT_EPOCH:
        return True
    topics = {each["topic"] for each in json.loads(node.data)["partitions"]}
    return not any(paths.topic_path(topic) in tree.nodes for topic in topics)


def _with_run(world: World, index: int, run: Run) -> World:
    return world._replace(runs=(*world.runs[:index], run, *world.runs[index + 1 :]))


def read_tree(tree: Tree) -> Any:
    """Return the state that topiarist reads of a tree."""
    return read_whole(lambda request: execute(tree, request, "")[0])


def _describe(request: Any) -> str:
    """Return what a request of a run does, for a schedule."""
    match type(request).__name__:
        case "Create":
            return "queues for the lock"
        case "Delete":
            return "releases the lock"
        case "Exists":
            return f"checks that {topic_of(request.path)} is the same topic"
        case "AwaitDeletion":
            return "sees that the lock before its own was deleted"
        case "AwaitController":
            return "waits for a controller"
    read = read_paths(request)
    if f"{paths.LOCK}/*" in read:
        return "looks at the queue for the lock"
    if f"{paths.TOPICS}/*" in read:
        return "lists the topics"
    topics = sorted({topic_of(path) for path in read} - {"", "*"})
    if not topics:
        return "reads the metadata of the cluster"
    states = all(path.endswith("/state") or not topic_of(path) for path in read)
    return f"reads {'the states of ' * states}{' and '.join(topics)}"
