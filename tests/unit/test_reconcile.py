"""One run against a cluster that fails at chosen steps: one outcome for each topic, and the exit code of the worst."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from support.builders import CLUSTER_ID, cluster, replica_lists, spec, state, topic
from support.memory_cluster import MemoryCluster
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.model.moves import BatchRecord, MoveKind, MoveSettings
from topiarist.model.outcome import Outcome, ReconcileReport, Result
from topiarist.model.plan import Issue, Plan, RunOptions, TopicPlan
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState, WriteBlock
from topiarist.planning.planner import make_plan
from topiarist.ports import NO_CONTROL, MoveOptions, WriteControl
from topiarist.reconcile import apply_plan, read_and_plan, require_all_topics_planned

SPECS = [spec("a"), spec("b"), spec("c")]
LOST = TopiaristError(Reason.SESSION_LOST, "gone")
Step = Result | TopiaristError


class Scripted(MemoryCluster):
    """A cluster with one read and a scripted apply: results in order, or an error."""

    def __init__(self, *steps: Step) -> None:
        super().__init__(state())
        self._steps = steps
        self._reads = 1

    def read(self) -> ClusterState:
        """Return the state once, and raise on every further read."""
        self._reads -= 1
        if self._reads < 0:
            raise LOST
        return state()

    def apply(
        self,
        plan: Plan,
        stop: Callable[[], bool],
        control: WriteControl = NO_CONTROL,
    ) -> Iterator[Outcome]:
        """Yield the scripted outcomes."""
        topics = iter(plan.actionable_topics())
        for step in self._steps:
            if isinstance(step, TopiaristError):
                raise step
            reason = Reason.STATE_CONFLICT if step is Result.CONFLICT else None
            yield Outcome(next(topics).topic, step, reason)


def ran(*steps: Step, told: list[tuple[str, Outcome]] | None = None) -> ReconcileReport:
    """Return the report of a run over three topics to create."""
    listener = told if told is not None else []
    scripted = Scripted(*steps)
    plan = read_and_plan(scripted, ClusterSpec(), SPECS, RunOptions())
    return apply_plan(
        scripted,
        plan,
        stop=lambda: False,
        on_outcome=lambda topic, outcome: listener.append((topic.topic, outcome)),
    )


def found(report: ReconcileReport) -> dict[str, Result]:
    """Return the results by topic, and assert that no topic appears twice."""
    assert len(report.outcomes) == len({outcome.topic for outcome in report.outcomes})
    return {outcome.topic: outcome.result for outcome in report.outcomes}


DONE, MOVED, NOT_SENT = Result.DONE, Result.CONFLICT, Result.SKIPPED


def test_a_run_that_cannot_begin_says_that_nothing_was_sent() -> None:
    """A run that fails before its first write reports the error and every topic as skipped."""
    report = ran(TopiaristError(Reason.LOCKED, "held"))
    assert found(report) == {"a": NOT_SENT, "b": NOT_SENT, "c": NOT_SENT}
    assert report.error is not None
    assert (report.error.reason, report.exit_code) == (Reason.LOCKED, Exit.ERROR)


def test_outcomes_before_the_end_are_kept() -> None:
    """The outcomes before an error that ends the run stay in the report."""
    report = ran(DONE, LOST)
    assert found(report) == {"a": DONE, "b": NOT_SENT, "c": NOT_SENT}
    assert report.error is LOST


def test_what_moved_is_reported_and_nothing_else_is_done() -> None:
    """A topic in conflict is reported, and the run does not read or plan it again: the next run does."""
    report = ran(DONE, MOVED, Result.FAILED)
    assert (found(report), report.error) == ({"a": DONE, "b": MOVED, "c": Result.FAILED}, None)
    assert ran(DONE, MOVED, DONE).exit_code is Exit.CONFLICT


def test_another_cluster_at_the_address_ends_the_run() -> None:
    """topiarist compares ``clusterId`` before it plans anything."""
    with pytest.raises(TopiaristError, match="wanted other"):
        read_and_plan(Scripted(), ClusterSpec(cluster_id="other"), SPECS, RunOptions())
    meant = read_and_plan(Scripted(), ClusterSpec(cluster_id=state().cluster_id), SPECS, RunOptions())
    assert len(list(meant.actionable_topics())) == len(SPECS)


def test_a_refusal_of_an_observed_topic_is_no_failure() -> None:
    """A refusal of an observed topic does not change the exit code, because the run would not write the topic."""
    plan = make_plan(state(topic("a")), ClusterSpec(), [spec("a", partitions=1, mode="Observe")], RunOptions())
    assert plan.topics[0].refusals
    assert ReconcileReport(plan).exit_code is Exit.DONE


FROZEN, MOVED_ERROR = TopiaristError(Reason.FROZEN, "frozen"), TopiaristError(Reason.STATE_CONFLICT, "moved")


@pytest.mark.parametrize(
    ("results", "error", "refused", "code"),
    [
        ([], None, False, Exit.DONE),
        ([DONE, Result.UNCHANGED, NOT_SENT], None, False, Exit.DONE),
        ([DONE], None, True, Exit.REFUSED),
        ([Result.REFUSED], None, False, Exit.REFUSED),
        ([MOVED], None, True, Exit.CONFLICT),
        ([Result.FAILED, MOVED], None, True, Exit.ERROR),
        ([Result.UNKNOWN, MOVED], None, True, Exit.ERROR),
        ([DONE], FROZEN, False, Exit.REFUSED),
        ([MOVED], FROZEN, False, Exit.CONFLICT),
        ([Result.FAILED], FROZEN, False, Exit.ERROR),
        ([Result.UNKNOWN], FROZEN, False, Exit.ERROR),
        ([Result.UNKNOWN], MOVED_ERROR, False, Exit.ERROR),
        ([], MOVED_ERROR, True, Exit.CONFLICT),
        ([MOVED], LOST, True, Exit.ERROR),
    ],
)
def test_the_exit_code_is_the_highest_with_errors_before_all(
    results: list[Result], error: TopiaristError | None, refused: bool, code: Exit
) -> None:
    """An unknown outcome counts as an error, and an error that ends the run hides no worse outcome."""
    plan = make_plan(state(), ClusterSpec(), SPECS, RunOptions())
    if refused:
        first = replace(plan.topics[0], refusals=(Issue(Reason.NOT_OWNED, "is another's"),))
        plan = replace(plan, topics=(first, *plan.topics[1:]))
    outcomes = tuple(Outcome(f"topic-{number}", result) for number, result in enumerate(results))
    assert ReconcileReport(plan, outcomes, error).exit_code is code


@pytest.mark.parametrize("steps", [[DONE] * 3, [DONE, MOVED, MOVED], [MOVED, LOST], [LOST]])
def test_every_topic_is_settled_once(steps: list[Step]) -> None:
    """The callback gets exactly the outcomes of the report, one for each topic, including skipped topics."""
    told: list[tuple[str, Outcome]] = []
    report = ran(*steps, told=told)
    assert told == [(outcome.topic, outcome) for outcome in report.outcomes]
    assert [topic for topic, _ in told] == ["a", "b", "c"]


def test_what_was_not_reviewed_has_a_code_of_its_own() -> None:
    """``NotReviewed`` exits with 5, also beside other refusals, because it needs a reviewer and not the author."""
    refusals = tuple(Issue(reason, "no") for reason in (Reason.TOO_LARGE, Reason.NOT_REVIEWED))
    topics = tuple(replace(made, refusals=(refusal,)) for made, refusal in zip(_two(), refusals, strict=True))
    assert ReconcileReport(replace(_plan(), topics=topics)).exit_code is Exit.CONFLICT
    assert ReconcileReport(replace(_plan(), topics=topics[:1])).exit_code is Exit.REFUSED


def _plan() -> Plan:
    return make_plan(state(), ClusterSpec(), SPECS, RunOptions())


def _two() -> tuple[TopicPlan, ...]:
    return _plan().topics[:2]


def test_a_plan_that_has_lost_a_topic_is_none() -> None:
    """A plan must count each topic exactly once, as changed, refused or unchanged; otherwise the run fails."""
    plan = make_plan(
        state(topic("a", record=None)), ClusterSpec(), [*SPECS, spec("d", config={"x": "1"})], RunOptions()
    )
    specs = [*SPECS, spec("d")]
    assert require_all_topics_planned(plan, specs) is plan
    for wrong in (
        replace(plan, topics=plan.topics[1:]),
        replace(plan, topics=(plan.topics[1], *plan.topics[1:])),
        replace(plan, unchanged=plan.unchanged + 1),
    ):
        with pytest.raises(TopiaristError, match="topics, wanted one for each of 4") as caught:
            require_all_topics_planned(wrong, specs)
        assert caught.value.reason is Reason.INCOMPLETE
    with pytest.raises(TopiaristError, match="found results for 4 topics, wanted one for each of 3"):
        require_all_topics_planned(plan, SPECS)


def test_a_survey_is_complete() -> None:
    """A topic that is declared twice ends the run before topiarist prints anything."""
    with pytest.raises(TopiaristError, match="wanted one for each of 4"):
        read_and_plan(Scripted(), ClusterSpec(), [*SPECS, SPECS[0]], RunOptions())


def test_a_notice_is_no_result() -> None:
    """A topic with only a notice counts once, among the unchanged topics."""
    seen, wanted = state(topic("a", config={"segment.ms": "5"})), [spec("a")]
    plan = make_plan(seen, ClusterSpec(), wanted, RunOptions())
    assert (plan.topics[0].notices != (), plan.unchanged) == (True, 1)
    assert require_all_topics_planned(plan, wanted) is plan


SETTINGS = MoveSettings(frozenset(MoveKind), 1000)
DRAINING = cluster("prod", cluster_id=CLUSTER_ID, version=(3, 9), moves=SETTINGS, drain_brokers=frozenset({6}))
FIELDS = {"partitions": 2, "replicationFactor": 2}
LISTS = replica_lists("61", "12")
MOVED_SPECS = (
    spec("both", DRAINING, config={"retention.ms": 5}, **FIELDS),
    spec("moved", DRAINING, **FIELDS),
    spec("plain", DRAINING, config={"retention.ms": 5}, **FIELDS),
)
FOUND = state(topic("both", LISTS), topic("moved", LISTS), topic("plain", replica_lists("12", "23")))
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
    plan = plan or read_and_plan(recorded, DRAINING, MOVED_SPECS, RunOptions())
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
    assert not read_and_plan(recorded, DRAINING, MOVED_SPECS, RunOptions()).has_changes


def test_a_topic_with_a_conflict_is_not_moved() -> None:
    """Its other changes were not made, so its moves were not planned for it."""
    recorded = Recorded()
    plan = read_and_plan(recorded, DRAINING, MOVED_SPECS, RunOptions())
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
