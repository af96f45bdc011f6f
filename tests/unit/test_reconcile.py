"""One pass over a cluster that fails at chosen moments: each topic has one outcome, the exit code says the worst."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from support.states import cluster, spec, topic
from topiarist.core.change import Finding, Plan
from topiarist.core.plan import Run, make_plan
from topiarist.core.spec import ClusterSpec
from topiarist.core.state import ClusterState
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.reconcile import Outcome, Pass, Report, Result, carry_out, reconcile, survey

SPECS = [spec("a"), spec("b"), spec("c")]
LOST = TopiaristError(Reason.SESSION_LOST, "gone")
Step = Result | TopiaristError


class Scripted:
    """A cluster whose state can be read so often, and whose applies go as written: results in order, or an end."""

    def __init__(self, *applies: list[Step], reads: int = 9, state: ClusterState | None = None) -> None:
        self.state = state or cluster()
        self._applies = list(applies)
        self._reads = reads

    def read(self) -> ClusterState:
        """The state, until it cannot be read any more."""
        self._reads -= 1
        if self._reads < 0:
            raise LOST
        return self.state

    def apply(self, plan: Plan, stop: Callable[[], bool]) -> Iterator[Outcome]:
        """The next apply of the script."""
        topics = iter(plan.to_do())
        for step in self._applies.pop(0):
            if isinstance(step, TopiaristError):
                raise step
            reason = Reason.STATE_CONFLICT if step is Result.MOVED else None
            yield Outcome(next(topics).topic, step, reason)


def job(*, asked: bool = False, stop: bool = False, told: list[Outcome] | None = None) -> Pass:
    """A pass over three topics that are to be created."""
    tell = (lambda outcome: None) if told is None else told.append
    return Pass(ClusterSpec(), SPECS, Run(), allow=lambda plan: plan, asked=asked, stop=lambda: stop, tell=tell)


def found(report: Report) -> dict[str, Result]:
    """Results by topic; none may stand twice."""
    assert len(report.outcomes) == len({outcome.topic for outcome in report.outcomes})
    return {outcome.topic: outcome.result for outcome in report.outcomes}


DONE, MOVED, NOT_SENT = Result.DONE, Result.MOVED, Result.NOT_SENT


def test_a_run_that_cannot_begin_says_that_nothing_was_sent() -> None:
    """No lock, no permission: every topic is told as not sent, beside the error."""
    report = reconcile(Scripted([TopiaristError(Reason.LOCKED, "held")]), job())
    assert found(report) == {"a": NOT_SENT, "b": NOT_SENT, "c": NOT_SENT}
    assert report.error is not None
    assert (report.error.reason, report.exit) == (Reason.LOCKED, Exit.ERROR)


def test_outcomes_before_the_end_are_kept() -> None:
    """What is known when a run ends stays known, and was told as it came."""
    told: list[Outcome] = []
    report = reconcile(Scripted([DONE, LOST]), job(told=told))
    assert found(report) == {"a": DONE, "b": NOT_SENT, "c": NOT_SENT}
    assert [outcome.topic for outcome in told] == ["a"]
    assert report.error is LOST


def test_what_moved_is_planned_once_more() -> None:
    """One more time, for those topics alone; what they are then counts."""
    report = reconcile(Scripted([DONE, MOVED, MOVED], [DONE, MOVED]), job())
    assert found(report) == {"a": DONE, "b": DONE, "c": MOVED}
    assert report.exit is Exit.MOVED


def test_nothing_known_is_lost_when_the_second_look_fails() -> None:
    """The cluster cannot be read again: what was done is told, what moved stays moved, and the error too."""
    report = reconcile(Scripted([DONE, MOVED, DONE], reads=1), job())
    assert found(report) == {"a": DONE, "b": MOVED, "c": DONE}
    assert report.error is LOST
    assert report.exit is Exit.ERROR


def test_nothing_known_is_lost_when_the_second_apply_fails() -> None:
    """The session ends under the second apply: the first one's outcomes stand."""
    report = reconcile(Scripted([DONE, MOVED, MOVED], [DONE, LOST]), job())
    assert found(report) == {"a": DONE, "b": DONE, "c": NOT_SENT}
    assert report.error is LOST


@pytest.mark.parametrize("kept", [{"asked": True}, {"stop": True}])
def test_what_moved_is_left_after_an_answer_or_a_stop(kept: dict[str, Any]) -> None:
    """Only what was shown is done, and nothing more after a stop: there is no second look."""
    report = reconcile(Scripted([DONE, MOVED, DONE], reads=1), job(**kept))
    assert found(report) == {"a": DONE, "b": MOVED, "c": DONE}
    assert report.error is None
    assert report.exit is Exit.MOVED


def test_what_others_have_done_meanwhile_is_already_so() -> None:
    """A topic that moved to where it should be has nothing left to do."""
    scripted = Scripted([DONE, MOVED, DONE])
    plan = survey(scripted, ClusterSpec(), SPECS, Run())
    scripted.state = cluster(topic("a"), topic("b"), topic("c"))
    assert found(carry_out(scripted, job(), plan)) == {"a": DONE, "b": Result.ALREADY, "c": DONE}


def test_what_may_not_be_done_any_more_says_why() -> None:
    """A topic that moved to where it is refused: nobody was shown that, so its outcome has the reason."""
    scripted = Scripted([DONE, MOVED, DONE])
    plan = survey(scripted, ClusterSpec(), SPECS, Run())
    scripted.state = cluster(topic("a"), topic("b", owner="others"), topic("c"))
    report = carry_out(scripted, job(), plan)
    assert found(report) == {"a": DONE, "b": Result.REFUSED, "c": DONE}
    (refused,) = report.topics(Result.REFUSED)
    assert refused.reason is Reason.NOT_OWNED
    assert "others" in refused.message
    assert report.exit is Exit.REFUSED


def test_what_was_refused_of_an_older_plan_is_forgotten() -> None:
    """A topic planned again counts with its newer plan only, also if that has nothing to say."""
    scripted = Scripted([DONE, MOVED, DONE])
    plan = survey(scripted, ClusterSpec(), SPECS, Run())
    partly = replace(plan.topics[1], refusals=(Finding(Reason.FEWER_PARTITIONS, "has more"),))
    plan = replace(plan, topics=(plan.topics[0], partly, plan.topics[2]))
    scripted.state = cluster(topic("a"), topic("b"), topic("c"))
    report = carry_out(scripted, job(), plan)
    assert [topic.topic for topic in report.plan.topics] == ["a", "c"]
    assert report.exit is Exit.DONE


def test_another_cluster_at_the_address_ends_the_run() -> None:
    """``clusterId`` is compared before anything is planned."""
    with pytest.raises(TopiaristError, match="wanted other"):
        survey(Scripted(), ClusterSpec(cluster_id="other"), SPECS, Run())


FROZEN, MOVED_ERROR = TopiaristError(Reason.FROZEN, "frozen"), TopiaristError(Reason.STATE_CONFLICT, "moved")


@pytest.mark.parametrize(
    ("results", "error", "refused", "code"),
    [
        ([], None, False, Exit.DONE),
        ([DONE, Result.ALREADY, NOT_SENT], None, False, Exit.DONE),
        ([DONE], None, True, Exit.REFUSED),
        ([Result.REFUSED], None, False, Exit.REFUSED),
        ([MOVED], None, True, Exit.MOVED),
        ([Result.FAILED, MOVED], None, True, Exit.ERROR),
        ([Result.UNKNOWN, MOVED], None, True, Exit.ERROR),
        ([DONE], FROZEN, False, Exit.REFUSED),
        ([MOVED], FROZEN, False, Exit.MOVED),
        ([Result.FAILED], FROZEN, False, Exit.ERROR),
        ([Result.UNKNOWN], FROZEN, False, Exit.ERROR),
        ([Result.UNKNOWN], MOVED_ERROR, False, Exit.ERROR),
        ([], MOVED_ERROR, True, Exit.MOVED),
        ([MOVED], LOST, True, Exit.ERROR),
    ],
)
def test_the_exit_code_is_the_highest_with_errors_before_all(
    results: list[Result], error: TopiaristError | None, refused: bool, code: Exit
) -> None:
    """Unknown counts as an error; an error that ended the run counts by its reason, and hides nothing worse."""
    plan = make_plan(cluster(), ClusterSpec(), SPECS, Run())
    if refused:
        first = replace(plan.topics[0], refusals=(Finding(Reason.NOT_OWNED, "is another's"),))
        plan = replace(plan, topics=(first, *plan.topics[1:]))
    outcomes = tuple(Outcome(f"topic-{number}", result) for number, result in enumerate(results))
    assert Report(plan, outcomes, error).exit is code
