"""All actors on one cluster through Kafka's own API: what may happen next, and which property a step violates.

A step of a run is its next request, carried out by the brokers, with an answer that arrives or is lost. Time passes
while all runs sleep or wait; while one of them is busy, that costs one of the scenario's ``stops``: the process stands
still, or its network does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from interleavings.kafka import moves
from interleavings.kafka.product_run import FENCED, LOST, Event, Request, build_state, make_automaton
from interleavings.kafka.properties import check_admin_request, check_commit, check_end, check_records, check_report
from interleavings.kafka.world import (
    FORWARDING_S,
    AdminRequest,
    Budget,
    Delayed,
    Run,
    Scenario,
    Topic,
    World,
    carry_out,
    first_world,
    topic_id,
)
from interleavings.replay import Asking, Ended
from interleavings.search import Transition
from topiarist.adapters.kafka_admin.cluster import view_records
from topiarist.model.plan import Plan
from topiarist.planning.planner import make_plan

_MAX_RUNS = 4
"""Undisturbed runs after which the cluster must be in step."""

_NEEDS_CONTROLLER = frozenset({"admin", "look", "look for moves", "throttles", "topics"})

_LABELS = {
    "read": "reads the records",
    "end": "looks for the end of the records",
    "write": "writes or removes its claim",
    "init": "begins to write records, which fences all others",
    "fence": "asks whether it is the newest",
    "commit": "commits records",
    "topics": "reads the topics",
    "look": "reads its topics again",
    "look at a result": "looks at the result",
    "look for moves": "reads topics and reassignments",
    "throttles": "reads throttles",
    "controller": "asks for the epoch of the controller",
}


_VERBS = {
    **{"create": "creates", "configure": "configures", "grow": "grows", "delete": "deletes by id"},
    **{"move": "moves", "throttle": "sets or removes throttles of"},
}


class KafkaModel:
    """The model of one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._automata = [
            make_automaton(run, index, is_freeze=index in scenario.freezes) for index, run in enumerate(scenario.runs)
        ]
        self._plans: dict[Any, Plan] = {}
        self._endings: dict[Any, Collection[str]] = {}

    @property
    def replays(self) -> int:
        """Return how often the product's code was run."""
        return sum(automaton.replays for automaton in self._automata)

    def first(self) -> World:
        """Return the scenario's first state."""
        return first_world(self.scenario, [automaton.start for automaton in self._automata])

    def digest(self, state: World) -> int:
        """Return the digest of a state."""
        return hash(state)

    def transitions(self, state: World) -> Iterator[Transition[World]]:
        """Yield everything that may happen next."""
        busy = False
        for index in range(len(state.runs)):
            for step in self._run_steps(state, index):
                busy = True
                yield step
        yield from self._broker_steps(state)
        yield from self._client_steps(state)
        yield from self._pass_time(state, busy=busy)

    def _look(self, world: World, index: int) -> Asking | Ended | None:
        """Return the situation of a run, None after its crash."""
        state = world.runs[index].state
        return None if state is None else self._automata[index].look(state)

    def _run_steps(self, world: World, index: int) -> Iterator[Transition[World]]:
        situation = self._look(world, index)
        if not isinstance(situation, Asking):
            return
        run, budget, request = world.runs[index], world.budget, situation.requests[0]
        if request.kind == "sleep":
            if run.wakes is not None and run.wakes <= world.clock:
                yield self._advance(world, index, None, f"run {index}: goes on after a pause")
        elif request.kind not in _NEEDS_CONTROLLER or world.controller > 0:
            yield from self._answered_steps(world, index, situation, request)
        if budget.delays and request.kind == "admin" and world.controller > 0:
            kept = Delayed(index, request.value, world.clock + FORWARDING_S)
            spent = world._replace(
                budget=budget._replace(delays=budget.delays - 1),
                controller=-world.controller,
                delayed=(*world.delayed, kept),
            )
            label = f"run {index}: sends {request.value.kind}; there is no controller, and the answer is lost"
            yield self._advance(spent, index, LOST, label)
        if budget.crashes:
            crashed = run._replace(state=None, wakes=None)
            spent = world._replace(budget=budget._replace(crashes=budget.crashes - 1))
            yield Transition(f"run {index}: crashes", _with_run(spent, index, crashed))

    def _answered_steps(
        self, world: World, index: int, situation: Asking, request: Request
    ) -> Iterator[Transition[World]]:
        """Yield a request that is carried out, with and without its answer; or not carried out, without one."""
        if request.kind == "admin":
            answer, after, finds = self._carry_out(world, index, request.value, situation.plan)
            label = f"run {index}: {_describe(request.value)}"
        else:
            answer, after = _execute(world, index, request)
            label, finds = f"run {index}: {_LABELS[request.kind]}", ()
            if request.kind == "commit" and after != world:
                finds = tuple(check_commit(world, after, index))
                is_held = after.records.lock.run == f"run-{index}"
                leased_at = world.runs[index].asked_at if is_held else None
                after = _with_run(after, index, world.runs[index]._replace(leased_at=leased_at))
        step = self._advance(after, index, answer, label)
        yield step._replace(finds=(*finds, *step.finds))
        if request.kind == "look at a result":  # from a broker that does not serve the change yet
            old: Any = tuple(each for each in world.runs[index].seen if each[0] in request.value)
            if old != answer:
                yield self._advance(world, index, old, f"{label}, and sees what was before")
        if request.kind not in ("admin", "commit") or not world.budget.losses:
            return
        budget = world.budget._replace(losses=world.budget.losses - 1)
        step = self._advance(after._replace(budget=budget), index, LOST, f"{label}, and the answer is lost")
        yield step._replace(finds=(*finds, *step.finds))
        if request.kind == "commit":
            yield self._advance(world._replace(budget=budget), index, LOST, f"run {index}: its commit is lost")

    def _carry_out(
        self, world: World, index: int, request: AdminRequest, plan: Plan | None
    ) -> tuple[tuple[tuple[str, int, int], ...], World, tuple[str, ...]]:
        """Carry out an Admin request of a run, and check it."""
        keeps_records = self.scenario.keeps_records
        finds = tuple(check_admin_request(world, index, request, plan, keeps_records=keeps_records))
        names = {topic_id(topic): name for name, topic in world.topics}
        after, results = _execute_admin(world, request)
        if request.kind == "move" and plan:
            finds += tuple(moves.check_limit(after, plan, self.scenario.runs[index].cluster.moves.batch))
        changed = [names.get(name, name) for name, code, _ in results if not code and request.kind not in moves.KINDS]
        run = after.runs[index]
        run = run._replace(
            touched=tuple(sorted({*run.touched, *changed})),
            overtaken=run.overtaken + (keeps_records and world.newest != index),
        )
        if run.overtaken > 1:
            finds = (*finds, "two requests of a run are carried out after another run has taken over")
        return results, _with_run(after, index, run), finds

    def _advance(self, world: World, index: int, answer: Any, label: str) -> Transition[World]:
        """Return the step in which a run gets an answer."""
        run = world.runs[index]
        assert run.state is not None
        before = self._automata[index].look(run.state)
        assert isinstance(before, Asking)
        state = self._automata[index].after(run.state, Event(answer, world.clock))
        situation = self._automata[index].look(state)
        seen = answer if before.requests[0].kind in ("look", "look for moves") else run.seen
        run = run._replace(state=state, wakes=None, asked_at=world.clock, seen=seen)
        finds: tuple[str, ...] = ()
        if isinstance(situation, Ended):
            finds = tuple(check_report(situation, before.plan, run))
            finds += tuple(moves.check_report(situation.outcomes, before.plan, world))
            finds += tuple(check_end(situation, world, self.scenario))
            run = Run(state, touched=run.touched)
        elif situation.requests[0].kind == "sleep":
            run = run._replace(wakes=world.clock + situation.requests[0].value)
        return Transition(label, _with_run(world, index, run), finds)

    def _broker_steps(self, world: World) -> Iterator[Transition[World]]:
        if world.controller < 0:
            yield Transition("controller: is elected", world._replace(controller=1 - world.controller))
            return
        for partition, after in moves.end_moves(world):
            yield Transition(f"controller: ends the move of {partition}", after)
        for delayed in world.delayed:
            rest = tuple(each for each in world.delayed if each is not delayed)
            _, after, finds = self._carry_out(world._replace(delayed=rest), delayed.run, delayed.request, None)
            yield Transition(f"controller: carries out the request of run {delayed.run} late", after, finds)

    def _client_steps(self, world: World) -> Iterator[Transition[World]]:
        if not world.budget.client_actions or world.controller < 0:
            return
        spent = world._replace(budget=world.budget._replace(client_actions=world.budget.client_actions - 1))
        for kind, name, argument in self.scenario.client_actions:
            topic = world.topic(name)
            if kind == "create" and topic is None:
                after = spent.with_topic(name, Topic(spent.next_number, *argument))
                yield Transition(f"client: creates {name}", after._replace(next_number=spent.next_number + 1))
            if topic is None:
                continue
            if kind == "delete":
                yield Transition(f"client: deletes {name}", spent.with_topic(name, None))
            if kind == "configure":
                after, _ = carry_out(spent, AdminRequest("configure", ((name, argument),)))
                yield Transition(f"client: configures {name}", after)
            if kind == "move" and argument[0] < len(topic.replicas):
                after, _ = moves.begin_move(spent, name, *argument)
                yield Transition(f"client: moves {name}-{argument[0]}", after)
            if kind == "grow" and len(topic.replicas) < argument:
                replicas = (*topic.replicas, *((1,),) * (argument - len(topic.replicas)))
                yield Transition(f"client: grows {name}", spent.with_topic(name, topic._replace(replicas=replicas)))

    @staticmethod
    def _pass_time(world: World, *, busy: bool) -> Iterator[Transition[World]]:
        """Yield the step to the next moment at which a sleep or the time of a delayed request ends."""
        moments = [run.wakes for run in world.runs if run.wakes is not None]
        moments += [each.until for each in world.delayed]
        later = [each for each in moments if each > world.clock]
        busy = busy or any(each <= world.clock for each in moments)
        if not later or (busy and not world.budget.stops):
            return
        clock = min(later)
        budget = world.budget._replace(stops=world.budget.stops - 1) if busy else world.budget
        delayed = tuple(each for each in world.delayed if each.until > clock)
        after = world._replace(clock=clock, budget=budget, delayed=delayed)
        yield Transition(f"{clock - world.clock:g} seconds pass", after)

    def _plan(self, world: World, index: int) -> Plan:
        """Return the plan that topiarist makes of this state, with nothing in between its reads."""
        run = self.scenario.runs[index]
        key = world.topics, world.values, id(run)
        if key not in self._plans:
            state = build_state(world.topics, view_records(world.records))
            self._plans[key] = make_plan(state, run.cluster, run.topics, run.options)
        return self._plans[key]

    def settle(self, state: World) -> Collection[str]:
        """Return how the cluster ends when undisturbed runs follow; empty if it ends in step."""
        if any(isinstance(self._look(state, index), Asking) for index in range(len(state.runs))):
            return ["a run waits, and nothing can happen that ends its wait"]
        stale = () if self.scenario.client_actions else {*check_records(state)}
        return [*stale, *self._settle(state)]

    def _settle(self, state: World) -> Collection[str]:
        quiet = state._replace(runs=(), budget=Budget(), controller=abs(state.controller), newest=-1)
        if quiet not in self._endings:
            specs = {id(run): index for index, run in reversed([*enumerate(self.scenario.runs)])}
            endings = [
                self._settle_spec(quiet, index)
                for index in sorted(specs.values())
                if index not in self.scenario.freezes
            ]
            self._endings[quiet] = sorted({each for each in endings if each})
        return self._endings[quiet]

    def _settle_spec(self, world: World, index: int) -> str:
        for _ in range(_MAX_RUNS):
            plan = self._plan(world, index)
            if not plan.has_changes and (plan.batch is None or plan.write_block.reason):
                reasons = {issue.reason.value for topic in plan.topics for issue in topic.refusals}
                if plan.write_block.reason:
                    reasons.add(plan.write_block.reason.value)
                left = "" if plan.write_block.reason else next(moves.check_left_throttles(world), "")
                if left:
                    return f"steady, and {left}"
                return f"steady, and refused: {', '.join(sorted(reasons))}" if reasons else ""
            ended = self._undisturbed(world, index)
            if isinstance(ended, str):
                return ended
            world = ended
        return f"not in step after {_MAX_RUNS} undisturbed runs"

    def _undisturbed(self, world: World, index: int) -> World | str:
        """Return the state in which one run ends, a sentence if it fails."""
        idle = [Run(None)] * len(self.scenario.runs)
        world = _with_run(world._replace(runs=tuple(idle)), index, Run(self._automata[index].start))
        while not isinstance(situation := self._look(world, index), Ended):
            assert situation is not None
            request = situation.requests[0]
            if request.kind == "sleep":
                world = moves.end_all_moves(world)
                world = self._advance(world._replace(clock=world.clock + request.value), index, None, "").state
            elif request.kind == "admin":
                world, results = _execute_admin(world, request.value)
                world = self._advance(world, index, results, "").state
            else:
                answer, world = _execute(world, index, request)
                world = self._advance(world, index, answer, "").state
        if situation.failure:
            return f"an undisturbed run fails: {situation.failure}"
        return world._replace(runs=())


def _execute(world: World, index: int, request: Request) -> tuple[Any, World]:
    """Return the answer to a request of a run that is no Admin request, and the next state."""
    match request.kind:
        case "read":
            return (world.offset, world.values), world
        case "end":
            return world.offset, world
        case "write":
            return world.offset + 1, world.commit(dict([request.value]))
        case "init":
            return None, world._replace(newest=index)
        case "fence":
            return ("" if world.newest == index else FENCED), world
        case "commit":
            if world.newest != index:
                return FENCED, world
            return "", world.commit(dict(request.value))
        case "topics":
            return world.topics, world
        case "look" | "look at a result":
            return tuple((name, world.topic(name)) for name in request.value), world
        case "look for moves":
            return moves.answer_look(world, request.value), world
        case "throttles":
            return moves.answer_throttles(world, request.value), world
        case "controller":
            return (world.controller if world.controller > 0 else None), world
    raise AssertionError(f"the model has no such request: {request!r}")


def _execute_admin(world: World, request: AdminRequest) -> tuple[World, tuple[tuple[str, int, int], ...]]:
    return moves.carry_out(world, request) if request.kind in moves.KINDS else carry_out(world, request)


def _with_run(world: World, index: int, run: Run) -> World:
    return world._replace(runs=(*world.runs[:index], run, *world.runs[index + 1 :]))


def _describe(request: AdminRequest) -> str:
    """Return an Admin request for a schedule."""
    names: Sequence[str] = [] if request.kind == "delete" else [name for name, _ in request.items]
    if request.kind == "move":
        names = [f"{name}-{partition}" for name, (partition, _) in request.items]
    verb = _VERBS[request.kind]
    return f"{verb} {' and '.join(names)}".strip()
