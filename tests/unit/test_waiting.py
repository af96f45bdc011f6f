"""Waiting for the controller: what a look at a topic means, and how ``apply --wait`` ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from support.states import cluster, spec, topic
from topiarist.cli import waiting
from topiarist.core.change import Plan, TopicPlan
from topiarist.core.plan import Run, make_plan
from topiarist.core.spec import ClusterSpec
from topiarist.core.state import ClusterState
from topiarist.core.waiting import DISABLED, FINISHED, Sight, awaited, sight, stage
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.reconcile import Outcome, Report, Result
from topiarist.settings import Settings

SEEN = cluster(topic("orders"), topic("clicks", identity=2))
WORKING = "still marked for deletion: the controller is at it"


def plan(state: ClusterState = SEEN, *names: str, ensure: str = "Absent") -> Plan:
    """A plan for these topics, by default one that deletes ``orders``."""
    specs = [spec(name, ensure=ensure) for name in names or ("orders",)]
    return make_plan(state, ClusterSpec(), specs, Run())


def only(found: Plan) -> TopicPlan:
    """The plan of the only topic."""
    (topic,) = found.topics
    return topic


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (Sight(1, True), WORKING),
        (Sight(None, True), WORKING),
        (Sight(1, True, (4,)), "still marked for deletion: broker 4, with replicas of it, is not registered"),
        (Sight(1, True, (4, 5)), "still marked for deletion: brokers 4, 5, with replicas of it, are not registered"),
        (Sight(1, True, (), True), "still marked for deletion: its replicas are being reassigned"),
    ],
)
def test_a_mark_is_waited_for(now: Sight, words: str) -> None:
    """As long as it is there the controller has not finished; what keeps it is said where it can be seen."""
    found = stage(only(plan()), now)
    assert (found.final, found.reason, found.message) == (False, Reason.DELETION_IN_PROGRESS, words)


@pytest.mark.parametrize("now", [Sight(None, False), Sight(7, False)])
def test_a_topic_that_has_gone_is_finished(now: Sight) -> None:
    """Also if others have made another one of its name, and if the plan knew only of the mark."""
    assert stage(only(plan()), now) == FINISHED
    assert stage(TopicPlan("orders"), now) == FINISHED


def test_a_topic_that_stays_without_its_mark_was_not_deleted() -> None:
    """That is how brokers with ``delete.topic.enable=false`` show themselves (contract 6.5)."""
    found = stage(only(plan()), Sight(1, False))
    assert (found.final, found.reason, found.message) == (True, Reason.DELETION_DISABLED, DISABLED)
    assert "delete.topic.enable=false" in DISABLED


def test_only_deletions_are_waited_for() -> None:
    """Those that the plan asks for and those under way; no other change, and nothing that is only observed."""
    under_way = cluster(topic("orders"), deleting=frozenset({"orders"}))
    observed = make_plan(SEEN, ClusterSpec(), [spec("orders", ensure="Absent", mode="Observe")], Run())
    assert awaited(only(plan()))
    assert awaited(only(plan(under_way)))
    assert not awaited(only(plan(SEEN, "new", ensure="Present")))
    assert not awaited(only(observed))


def test_a_sight_of_a_whole_cluster() -> None:
    """Brokers with replicas that are not registered, the mark, the reassignment; nothing of an absent topic."""
    state = cluster(
        topic("orders", ((1, 9), (8, 1))),
        deleting=frozenset({"orders", "gone"}),
        reassigning=frozenset({"orders"}),
    )
    assert sight(state, "orders") == Sight(1, True, (8, 9), True)
    moving = cluster(topic("orders", ((8, 9),), reassigning=(0,)))
    assert sight(moving, "orders").reassigning
    assert sight(state, "gone") == Sight(None, True)
    assert sight(state, "none") == Sight(None, False)


class Played:
    """A cluster of which each look shows the next sights; the last ones stay."""

    def __init__(self, *looks: Mapping[str, Sight] | TopiaristError) -> None:
        self.looks = list(looks)
        self.asked: list[list[str]] = []

    def look(self, topics: Sequence[str]) -> Mapping[str, Sight]:
        """The next ones."""
        self.asked.append(list(topics))
        found = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(found, TopiaristError):
            raise found
        return {name: found[name] for name in topics}


def report(*names: str, result: Result = Result.DONE) -> Report:
    """A run that has set the marks of these topics."""
    return Report(plan(SEEN, *names), tuple(Outcome(name, result) for name in names))


def waited(played: Played, found: Report, *, seconds: float = 30.0, stop: bool = False) -> Report:
    """What ``apply --wait`` makes of one report."""
    settings = Settings(wait_timeout=seconds, verbosity=-1)
    (after,) = waiting.wait({"": played}, [found], settings, lambda: stop)
    return after


def test_it_looks_until_all_have_gone() -> None:
    """Topics that have gone are not asked for again; the outcomes stay what they were."""
    played = Played(
        {"orders": Sight(1, True), "clicks": Sight(None, False)},
        {"orders": Sight(None, True)},
        {"orders": Sight(None, False)},
    )
    found = report("clicks", "orders")
    assert waited(played, found) == found
    assert played.asked == [["clicks", "orders"], ["orders"], ["orders"]]


def test_what_is_not_finished_in_time_is_an_error() -> None:
    """Said with what it waits for; a run that should wait has not got what it waited for."""
    after = waited(Played({"orders": Sight(1, True, (4,))}), report("orders"), seconds=0)
    (outcome,) = after.outcomes
    assert (outcome.result, outcome.reason) == (Result.UNFINISHED, Reason.DELETION_IN_PROGRESS)
    assert "broker 4" in outcome.message
    assert after.exit is Exit.ERROR


def test_a_deletion_that_is_disabled_ends_the_waiting() -> None:
    """At once, as a refusal: no patience helps."""
    after = waited(Played({"orders": Sight(1, False)}), report("orders"))
    assert after.outcomes == (Outcome("orders", Result.REFUSED, Reason.DELETION_DISABLED, DISABLED),)
    assert after.exit is Exit.REFUSED


def test_a_deletion_that_was_under_way_is_waited_for_too() -> None:
    """An earlier run has set the mark: this one writes nothing, waits, and has an outcome for it."""
    under_way = Report(plan(cluster(topic("orders"), deleting=frozenset({"orders"}))))
    after = waited(Played({"orders": Sight(1, True)}, {"orders": Sight(None, False)}), under_way)
    assert after.outcomes == (Outcome("orders", Result.ALREADY),)
    late = waited(Played({"orders": Sight(1, True)}), under_way, seconds=0)
    assert [outcome.result for outcome in late.outcomes] == [Result.UNFINISHED]


@pytest.mark.parametrize("result", [Result.MOVED, Result.FAILED, Result.NOT_SENT, Result.UNKNOWN, Result.REFUSED])
def test_what_was_not_written_is_not_waited_for(result: Result) -> None:
    """Nothing is under way for it."""
    played, found = Played({}), report("orders", result=result)
    assert waited(played, found) == found
    assert played.asked == []


def test_somebody_who_stops_ends_the_waiting_not_the_work() -> None:
    """The outcomes stay: it was written."""
    played, found = Played({"orders": Sight(1, True)}), report("orders")
    assert waited(played, found, stop=True) == found
    assert played.asked == []


def test_a_run_that_ended_early_is_not_waited_for() -> None:
    """Its session may be gone; its error is what has to be said."""
    error = TopiaristError(Reason.SESSION_LOST, "gone")
    played, found = Played({}), report("orders")
    ended = Report(found.plan, found.outcomes, error)
    assert waited(played, ended) == ended
    assert played.asked == []


def test_an_error_while_waiting_is_the_reports() -> None:
    """What was seen before it counts; what was not is done, as far as we know, and the error says the rest."""
    error = TopiaristError(Reason.SESSION_LOST, "gone")
    played = Played({"orders": Sight(1, False), "clicks": Sight(2, True)}, error)
    after = waited(played, report("clicks", "orders"))
    assert after.error is error
    assert [outcome.result for outcome in after.outcomes] == [Result.UNFINISHED, Result.REFUSED]
    assert after.exit is Exit.ERROR
