"""The limit of copied replicas in one run: the first ones stay, whole partitions only, and the rest says so."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from support.builders import PROD_CLUSTER, RACKLESS_BROKERS, plan, replica_lists, spec, state, topic
from topiarist.cli.settings import Settings
from topiarist.desired.resolve import Desired
from topiarist.errors import Exit, Reason
from topiarist.filters.move_limit import limit_moves
from topiarist.model.moves import UNLIMITED, MoveKind, MoveSettings
from topiarist.model.plan import Plan
from topiarist.model.spec import Budgets
from topiarist.planning.preconditions import simulate
from topiarist.runs.inputs import RunInputs

ON = replace(PROD_CLUSTER, moves=MoveSettings(frozenset({MoveKind.FACTOR, MoveKind.ASSIGNMENT}), UNLIMITED))
SEEN = state(
    topic("a", replica_lists("12", "23", "34")),
    topic("b", replica_lists("12", "23")),
    topic("c", replica_lists("34", "12")),
    brokers=RACKLESS_BROKERS,
)
SPECS = (
    spec("a", ON, partitions=3, replicationFactor=3, config={"retention.ms": 5}),
    spec("b", ON, partitions=2, replicationFactor=3),
    spec("c", ON, replicaAssignment=[[1, 2], [2, 1]]),
)
MOVES = plan(SEEN, *SPECS, on=ON)
COPIES = ("a/0", "a/1", "a/2", "b/0", "b/1", "c/0", "c/0")
"""Each copied replica of ``MOVES``; partition 0 of topic ``c`` gets two. Its partition 1 is reordered."""


def _moved(found: Plan) -> list[str]:
    return [f"{move.topic}/{move.partition}" for each in found.actionable_topics() for move in each.moves()]


def _copies(found: Plan) -> int:
    return sum(len(move.added) for each in found.actionable_topics() for move in each.moves())


def _held(found: Plan) -> dict[str, str]:
    return {
        each.topic: f"{issue.message}; {issue.hint}"
        for each in found.topics
        for issue in each.refusals
        if issue.reason is Reason.MOVES_LIMITED
    }


@pytest.mark.parametrize("limit", range(8))
def test_the_first_copies_stay(limit: int) -> None:
    """Each limit keeps the first copies that fit with their partitions, and every reordered list."""
    expected = list(COPIES[:limit]) if limit != 6 else list(COPIES[:5])
    moved = _moved(limit_moves(MOVES, limit))
    assert moved.count("c/1") == 1
    assert [name for name in moved if name != "c/1"] == list(dict.fromkeys(expected))


def test_no_limit_and_a_large_one() -> None:
    """Without a limit, and with one that nothing exceeds, the plan is the same."""
    assert limit_moves(MOVES, None) is MOVES
    assert limit_moves(MOVES, 7) == MOVES


def test_the_rest_says_how_much_remains() -> None:
    """Each withheld topic has the number of replicas and partitions that remain, and a run may be repeated."""
    held = _held(limit_moves(MOVES, 4))
    text = "3 replicas of 2 partitions remain to be copied: --max-moves is 4; run again for the next ones"
    assert held == {"b": text, "c": text}
    assert Reason.MOVES_LIMITED.retryable
    assert Reason.MOVES_LIMITED.exit_code is Exit.REFUSED


def test_a_limit_below_the_first_partition_names_the_number_that_it_needs() -> None:
    """A limit under which no run would ever copy anything says which limit would."""
    only = plan(SEEN, spec("c", ON, replicaAssignment=[[1, 2], [3, 4]]), on=ON)
    assert _held(limit_moves(only, 1)) == {
        "c": "4 replicas of 2 partitions remain to be copied: --max-moves is 1; "
        "pass at least --max-moves 2: partition 0 of c needs that many"
    }


def test_other_changes_of_a_topic_stay() -> None:
    """The config of a topic is changed although its moves wait."""
    first = next(limit_moves(MOVES, 0).actionable_topics())
    assert (first.topic, [type(change).__name__ for change in first.changes]) == ("a", ["UpdateConfig"])


def test_withheld_moves_cost_no_budget() -> None:
    """A plan above the budget of copied replicas passes if the limit of the run keeps it below."""
    on = replace(ON, budgets=Budgets(moved_replicas=4))
    desired = Desired({"prod": SPECS}, {"prod": on})
    assert _copies(RunInputs(desired).filter_plan(MOVES, Settings(max_moves=4))) == 4
    assert _copies(RunInputs(desired).filter_plan(MOVES, Settings(max_moves=5))) == 0


@pytest.mark.parametrize("limit", range(1, 9))
def test_repeated_runs_do_all(limit: int) -> None:
    """Runs with one limit, each applied, end with the lists of the whole plan or at a partition that never fits."""
    seen = SEEN
    for _ in range(8):
        limited = limit_moves(plan(seen, *SPECS, on=ON), limit)
        assert _copies(limited) <= limit
        seen = simulate(seen, limited.topics)
    left = _moved(plan(seen, *SPECS, on=ON))
    assert left == (["c/0"] if limit == 1 else [])
