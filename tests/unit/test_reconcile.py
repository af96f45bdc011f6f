"""One pass over a cluster that fails at chosen moments: each topic has one outcome, the exit code says the worst."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from support.states import cluster, spec, topic
from topiarist.core.change import Finding, Plan, TopicPlan
from topiarist.core.plan import Run, make_plan
from topiarist.core.spec import ClusterSpec
from topiarist.core.state import ClusterState
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.reconcile import Outcome, Pace, Pass, Report, Result, carry_out, complete, reconcile, survey

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

    def apply(self, plan: Plan, stop: Callable[[], bool], pace: Pace | None = None) -> Iterator[Outcome]:
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


def test_where_nothing_moved_there_is_no_second_look() -> None:
    """A cluster that cannot be read again after the last outcome does not matter any more."""
    report = reconcile(Scripted([DONE, Result.FAILED, DONE], reads=1), job())
    assert (found(report), report.error) == ({"a": DONE, "b": Result.FAILED, "c": DONE}, None)


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
    scripted, heard = Scripted([DONE, MOVED, MOVED]), dict[str, TopicPlan]()
    plan = survey(scripted, ClusterSpec(), SPECS, Run())
    scripted.state = cluster(topic("a"), topic("b", owner="others"), topic("c"))
    listening = replace(job(), settled=lambda topic, outcome: heard.update({outcome.topic: topic}))
    report = carry_out(scripted, listening, plan)
    assert found(report) == {"a": DONE, "b": Result.REFUSED, "c": Result.ALREADY}
    assert [each for each in report.plan.topics if each.refusals] == [heard["b"]]
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
    meant = survey(Scripted(), ClusterSpec(cluster_id=cluster().cluster_id), SPECS, Run())
    assert len(list(meant.to_do())) == len(SPECS)


def test_a_refusal_of_an_observed_topic_is_no_failure() -> None:
    """Nothing was to be done to it: the run ends as if it were not there."""
    plan = make_plan(cluster(topic("a")), ClusterSpec(), [spec("a", partitions=1, mode="Observe")], Run())
    assert plan.topics[0].refusals
    assert Report(plan).exit is Exit.DONE


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


ENDS: dict[str, tuple[list[list[Step]], int, dict[str, Result]]] = {
    "all done": ([[Result.DONE] * 3], 9, {"a": Result.DONE, "b": Result.DONE, "c": Result.DONE}),
    "moved, then done": (
        [[Result.DONE, Result.MOVED, Result.MOVED], [Result.DONE, Result.MOVED]],
        9,
        {"a": Result.DONE, "b": Result.DONE, "c": Result.MOVED},
    ),
    "moved, and not read again": (
        [[Result.MOVED, Result.DONE, Result.DONE]],
        1,
        {"a": Result.MOVED, "b": Result.DONE, "c": Result.DONE},
    ),
    "moved, and then the end": (
        [[Result.MOVED, LOST]],
        9,
        {"a": Result.MOVED, "b": Result.NOT_SENT, "c": Result.NOT_SENT},
    ),
}


@pytest.mark.parametrize(("applies", "reads", "wanted"), ENDS.values(), ids=ENDS.keys())
@pytest.mark.parametrize("asked", [False, True])
def test_every_topic_is_settled_once(
    applies: list[list[Step]], reads: int, wanted: dict[str, Result], asked: bool
) -> None:
    """Whoever listens hears one last word of each topic, the same that the report has."""
    heard: list[tuple[str, Outcome]] = []
    listening = replace(job(asked=asked), settled=lambda topic, outcome: heard.append((topic.topic, outcome)))
    report = reconcile(Scripted(*applies, reads=reads), listening)
    assert sorted(heard) == sorted((outcome.topic, outcome) for outcome in report.outcomes)
    assert asked or found(report) == wanted


def test_a_topic_that_needs_nothing_any_more_is_settled_too() -> None:
    """It moved to where nothing is to be done: that is its last word."""
    seen, heard = Scripted([Result.MOVED, Result.DONE, Result.DONE]), dict[str, Result]()
    listening = replace(job(), settled=lambda topic, outcome: heard.update({topic.topic: outcome.result}))
    plan = survey(seen, ClusterSpec(), SPECS, Run())
    seen.state = cluster(topic("a"))
    carry_out(seen, listening, plan)
    assert heard == {"a": Result.ALREADY, "b": Result.DONE, "c": Result.DONE}


def test_what_was_not_reviewed_has_a_code_of_its_own() -> None:
    """It is for a reviewer, not for the author: 5, also beside other refusals."""
    refusals = tuple(Finding(reason, "no") for reason in (Reason.TOO_LARGE, Reason.NOT_REVIEWED))
    topics = tuple(replace(made, refusals=(refusal,)) for made, refusal in zip(_two(), refusals, strict=True))
    assert Report(replace(_plan(), topics=topics)).exit is Exit.MOVED
    assert Report(replace(_plan(), topics=topics[:1])).exit is Exit.REFUSED


def _plan() -> Plan:
    return make_plan(cluster(), ClusterSpec(), SPECS, Run())


def _two() -> tuple[TopicPlan, ...]:
    return _plan().topics[:2]


def test_a_plan_that_has_lost_a_topic_is_none() -> None:
    """Each topic that was asked for counts once, as something to do, refused or unchanged; else the run fails."""
    plan = make_plan(cluster(topic("a", ours=None)), ClusterSpec(), [*SPECS, spec("d", config={"x": "1"})], Run())
    specs = [*SPECS, spec("d")]
    assert complete(plan, specs) is plan
    for wrong in (
        replace(plan, topics=plan.topics[1:]),
        replace(plan, topics=(plan.topics[1], *plan.topics[1:])),
        replace(plan, unchanged=plan.unchanged + 1),
    ):
        with pytest.raises(TopiaristError, match="topics, wanted one for each of 4") as caught:
            complete(wrong, specs)
        assert caught.value.reason is Reason.INCOMPLETE
    with pytest.raises(TopiaristError, match="found results for 4 topics, wanted one for each of 3"):
        complete(plan, SPECS)


def test_a_survey_is_complete() -> None:
    """A topic that is asked for twice ends the run before anything is shown."""
    with pytest.raises(TopiaristError, match="wanted one for each of 4"):
        survey(Scripted(), ClusterSpec(), [*SPECS, SPECS[0]], Run())


def test_a_notice_is_no_result() -> None:
    """A topic of which there is only something to say counts among the unchanged ones, and once."""
    seen, wanted = cluster(topic("a", config={"segment.ms": "5"})), [spec("a")]
    plan = make_plan(seen, ClusterSpec(), wanted, Run())
    assert (plan.topics[0].notices != (), plan.unchanged) == (True, 1)
    assert complete(plan, wanted) is plan
