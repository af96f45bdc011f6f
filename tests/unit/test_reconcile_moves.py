"""Runs with moves: the other changes first, then the moves, and one outcome for each topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from support.builders import CLUSTER_ID, cluster, replica_lists, spec, state, topic
from topiarist.adapters.memory import MemoryCluster
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import BatchRecord, MoveKind, MoveSettings
from topiarist.model.outcome import Outcome, ReconcileReport, Result
from topiarist.model.plan import Plan, RunOptions
from topiarist.model.state import WriteBlock
from topiarist.ports import NO_CONTROL, MoveOptions, WriteControl
from topiarist.reconcile import apply_plan, read_and_plan

SETTINGS = MoveSettings(frozenset(MoveKind), 1000)
DRAINING = cluster("prod", cluster_id=CLUSTER_ID, version=(3, 9), moves=SETTINGS, drain_brokers=frozenset({6}))
FIELDS = {"partitions": 2, "replicationFactor": 2}
LISTS = replica_lists("61", "12")
SPECS = (
    spec("both", DRAINING, config={"retention.ms": 5}, **FIELDS),
    spec("moved", DRAINING, **FIELDS),
    spec("plain", DRAINING, config={"retention.ms": 5}, **FIELDS),
)
FOUND = state(topic("both", LISTS), topic("moved", LISTS), topic("plain", replica_lists("12", "23")))
LOST = TopiaristError(Reason.SESSION_LOST, "gone")
BATCH = BatchRecord("default", 1, 1, (), {})


class Recorded(MemoryCluster):
    """A cluster that records its calls, and raises ``error`` instead of the outcome of the topic ``fails_at``."""

    def __init__(self, fails_at: str = "", moves_error: TopiaristError | None = None) -> None:
        super().__init__(FOUND)
        self.calls: list[str] = []
        self._fails_at = fails_at
        self._moves_error = moves_error

    def apply(
        self,
        plan: Plan,
        stop: Callable[[], bool],
        control: WriteControl = NO_CONTROL,
    ) -> Iterator[Outcome]:
        """Apply the plan up to the topic that fails."""
        for outcome in super().apply(plan, stop, control):
            if outcome.topic == self._fails_at:
                raise LOST
            self.calls.append(f"apply {outcome.topic}")
            yield outcome

    def move(self, plan: Plan, options: MoveOptions, stop: Callable[[], bool]) -> Iterator[Outcome]:
        """Move the topics of the plan, or raise."""
        self.calls.append(f"move {' '.join(each.topic for each in plan.topics)}")
        if self._moves_error:
            raise self._moves_error
        yield from super().move(plan, options, stop)


def run(recorded: Recorded, plan: Plan | None = None, stop: Callable[[], bool] = lambda: False) -> ReconcileReport:
    """Apply the plan of all topics, or another one."""
    plan = plan or read_and_plan(recorded, DRAINING, SPECS, RunOptions())
    return apply_plan(recorded, plan, stop=stop, move_options=MoveOptions(SETTINGS))


def results(report: ReconcileReport) -> dict[str, Result]:
    """Return the results by topic; each topic has one outcome."""
    assert len(report.outcomes) == len({outcome.topic for outcome in report.outcomes})
    return {outcome.topic: outcome.result for outcome in report.outcomes}


def test_moves_follow_all_other_changes() -> None:
    """Each topic has one outcome, when its last change is made."""
    recorded = Recorded()
    report = run(recorded)
    assert results(report) == dict.fromkeys(("plain", "both", "moved"), Result.DONE)
    assert recorded.calls[-1] == "move both moved"
    assert all(call.startswith("apply") for call in recorded.calls[:-1])
    assert not any(6 in replicas for name in ("both", "moved") for replicas in recorded.state.topics[name].replicas)
    assert dict(recorded.state.topics["both"].config) == {"retention.ms": "5"}
    assert not read_and_plan(recorded, DRAINING, SPECS, RunOptions()).has_changes


def test_a_topic_with_a_conflict_is_not_moved() -> None:
    """Its other changes were not made, so its moves were not planned for it."""
    recorded = Recorded()
    plan = read_and_plan(recorded, DRAINING, SPECS, RunOptions())
    changed = replace(FOUND.topics["both"], config={"retention.ms": "7"}, modified_externally=True)
    recorded.state = replace(FOUND, topics={**FOUND.topics, "both": changed})
    report = run(recorded, plan)
    assert results(report) == {"both": Result.CONFLICT, "plain": Result.DONE, "moved": Result.DONE}
    assert recorded.calls[-1] == "move moved"
    assert recorded.state.topics["both"].replicas == LISTS


def test_changes_before_an_error_are_reported() -> None:
    """Of a topic with moves the other changes are known: it is unfinished and not skipped."""
    recorded = Recorded(fails_at="plain")
    report = run(recorded)
    assert report.error is LOST
    assert results(report) == {"both": Result.PENDING, "moved": Result.PENDING, "plain": Result.SKIPPED}
    outcome = next(each for each in report.outcomes if each.topic == "both")
    assert outcome.reason is Reason.MOVES_UNFINISHED
    assert outcome.message.startswith("its other changes were made, and no replica")


def test_an_error_of_the_moves_ends_the_run() -> None:
    """Topics without moves keep their outcome."""
    report = run(Recorded(moves_error=LOST))
    assert report.error is LOST
    assert results(report) == {"plain": Result.DONE, "both": Result.PENDING, "moved": Result.PENDING}


def test_a_stopped_run_moves_nothing() -> None:
    """Every topic is skipped."""
    recorded = Recorded()
    assert set(results(run(recorded, stop=lambda: True)).values()) == {Result.SKIPPED}
    assert recorded.state == FOUND


@pytest.mark.parametrize(
    ("fields", "ends"),
    [
        ({"batch": None}, False),
        ({"batch": BATCH}, True),
        ({"batch": BATCH._replace(owner="other")}, False),
        ({"batch": BATCH, "write_block": WriteBlock(Reason.FROZEN, "frozen")}, False),
    ],
)
def test_an_earlier_batch_of_this_owner_is_ended(fields: dict[str, object], ends: bool) -> None:
    """Also by a run without moves; a batch of another owner is left to that owner, and a blocked cluster as it is."""
    recorded = Recorded()
    plan = replace(read_and_plan(recorded, DRAINING, (), RunOptions()), **fields)
    assert run(recorded, plan).outcomes == ()
    assert recorded.calls == (["move "] if ends else [])


@pytest.mark.parametrize("moved", [Result.UNCHANGED, Result.DONE, Result.FAILED, Result.CONFLICT])
def test_the_outcome_of_a_topic_joins_both_parts(moved: Result) -> None:
    """A change that was made is done although its moves were made before; every other result of the moves counts."""

    class Scripted(Recorded):
        """A cluster with a scripted result of the moves."""

        def move(self, plan: Plan, options: MoveOptions, stop: Callable[[], bool]) -> Iterator[Outcome]:
            """Yield the scripted result."""
            yield from (Outcome(each.topic, moved) for each in plan.topics)

    report = run(Scripted())
    assert results(report)["both"] is (Result.DONE if moved is Result.UNCHANGED else moved)
