"""``apply --wait``: throttling during the run, and the end of the wait."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

from support.builders import spec, state, topic
from topiarist import throttle
from topiarist.cli.terminal import Settings, TerminalListener
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.model.outcome import (
    DELETION_DISABLED_MESSAGE,
    Outcome,
    ReconcileReport,
    Result,
    TopicProgress,
    partitions_to_initialize,
)
from topiarist.model.plan import AddPartitions, Plan, RunOptions, TopicPlan
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState
from topiarist.planning.planner import make_plan
from topiarist.runs import modes

SEEN = state(topic("orders"), topic("clicks", identity="2"))


def untold(plan: TopicPlan, outcome: Outcome) -> None:
    """Ignore the outcome."""


def plan(state: ClusterState = SEEN, *names: str, ensure: str = "Absent") -> Plan:
    """Return a plan for these topics; by default it deletes ``orders``."""
    specs = [spec(name, ensure=ensure) for name in names or ("orders",)]
    return make_plan(state, ClusterSpec(), specs, RunOptions())


class Played:
    """A cluster with scripted poll results; the last result repeats."""

    def __init__(self, *looks: Mapping[str, TopicProgress] | TopiaristError) -> None:
        self.looks = list(looks)
        self.asked: list[list[str]] = []
        self.partitions: list[dict[str, list[int]]] = []

    def poll(self, topics: Mapping[str, Collection[int]]) -> Mapping[str, TopicProgress]:
        """Return the next poll result."""
        self.asked.append(list(topics))
        self.partitions.append({name: list(asked) for name, asked in topics.items()})
        found = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(found, TopiaristError):
            raise found
        return {name: found[name] for name in topics}


def report(*names: str, result: Result = Result.DONE) -> ReconcileReport:
    """Return the report of a run that requested the deletion of these topics."""
    return ReconcileReport(plan(SEEN, *names), tuple(Outcome(name, result) for name in names))


def waited(played: Played, found: ReconcileReport, *, seconds: float = 30.0, stop: bool = False) -> ReconcileReport:
    """Return the report after ``apply --wait``."""
    settings = Settings(wait_timeout=seconds)
    (after,) = modes.wait_for_controllers(
        {"": modes.make_controller_wait(played, settings, lambda: stop, untold)}, [found], settings, lambda: stop
    )
    return after


def test_it_looks_until_all_have_gone() -> None:
    """The wait does not poll deleted topics again, and leaves the outcomes unchanged."""
    played = Played(
        {"orders": TopicProgress("1", True), "clicks": TopicProgress(None, False)},
        {"orders": TopicProgress(None, True)},
        {"orders": TopicProgress(None, False)},
    )
    found = report("clicks", "orders")
    assert waited(played, found) == found
    assert played.asked == [["clicks", "orders"], ["orders"], ["orders"]]


def test_the_id_of_a_created_topic_is_told_as_soon_as_it_is_known() -> None:
    """The wait reports the topic id once, after the controller has initialized the topic, and never the id of another
    topic of that name.
    """
    specs = [spec(name) for name in ("early", "late", "other", "without")]
    made = make_plan(state(), ClusterSpec(), specs, RunOptions())
    lists = {topic.topic: dict(enumerate(topic.new_replicas())) for topic in made.topics}

    def sight(name: str, *, taken: bool, **more: Any) -> TopicProgress:
        return TopicProgress(
            "7", False, replicas=lists[name], initialized=frozenset(lists[name]) if taken else frozenset(), **more
        )

    first = {
        "early": sight("early", taken=True, topic_id="E"),
        "late": sight("late", taken=False, topic_id="L"),
        "other": sight("other", taken=True, topic_id="O", record_stale=True),
        "without": sight("without", taken=True),
    }
    played = Played(first, {"late": sight("late", taken=True, topic_id="L")})
    told: list[tuple[str, str | None, int]] = []
    settings = Settings(wait_timeout=30.0)
    watch = modes.make_controller_wait(
        played,
        settings,
        lambda: False,
        lambda topic, outcome: told.append((outcome.topic, outcome.topic_id, len(played.asked))),
    )
    run = ReconcileReport(made, tuple(Outcome(name, Result.DONE) for name in lists))
    (after,) = modes.wait_for_controllers({"": watch}, [run], settings, lambda: False)
    assert told == [("early", "E", 1), ("other", None, 1), ("late", "L", 2)]
    assert {outcome.topic: (outcome.result, outcome.topic_id) for outcome in after.outcomes} == {
        "early": (Result.DONE, "E"),
        "late": (Result.DONE, "L"),
        "other": (Result.FAILED, None),
        "without": (Result.DONE, None),
    }


def test_an_id_that_was_known_before_is_nothing_new() -> None:
    """The wait does not report the id of a growing topic that already had its id in the plan."""
    seen = state(topic("orders", topic_id="A"))
    grown = make_plan(seen, ClusterSpec(), [spec("orders", partitions=9)], RunOptions())
    (change,) = grown.topics[0].changes
    assert isinstance(change, AddPartitions)
    lists = dict(enumerate((*seen.topics["orders"].replicas, *change.replicas)))
    sight = TopicProgress(
        seen.topics["orders"].identity, False, replicas=lists, initialized=frozenset(lists), topic_id="A"
    )
    run = ReconcileReport(grown, (Outcome("orders", Result.DONE),))
    assert waited(Played({"orders": sight}), run) == run


def test_what_is_not_finished_in_time_is_an_error() -> None:
    """A deletion that is unfinished after the timeout is an error that names the broker it waits for."""
    after = waited(Played({"orders": TopicProgress("1", True, (4,))}), report("orders"), seconds=0)
    (outcome,) = after.outcomes
    assert (outcome.result, outcome.reason) == (Result.PENDING, Reason.DELETION_IN_PROGRESS)
    assert "broker 4" in outcome.message
    assert after.exit_code is Exit.ERROR


def test_a_deletion_that_is_disabled_ends_the_waiting() -> None:
    """A disabled deletion ends the wait at once as a refusal, because waiting longer cannot help."""
    after = waited(Played({"orders": TopicProgress("1", False)}), report("orders"))
    assert after.outcomes == (Outcome("orders", Result.REFUSED, Reason.DELETION_DISABLED, DELETION_DISABLED_MESSAGE),)
    assert after.exit_code is Exit.REFUSED


def test_a_deletion_that_was_under_way_is_waited_for_too() -> None:
    """A run without changes waits for the deletion that an earlier run requested, and reports an outcome for it."""
    under_way = ReconcileReport(plan(state(topic("orders"), pending_deletions=frozenset({"orders"}))))
    after = waited(Played({"orders": TopicProgress("1", True)}, {"orders": TopicProgress(None, False)}), under_way)
    assert after.outcomes == (Outcome("orders", Result.UNCHANGED),)
    late = waited(Played({"orders": TopicProgress("1", True)}), under_way, seconds=0)
    assert [outcome.result for outcome in late.outcomes] == [Result.PENDING]


@pytest.mark.parametrize("result", [Result.CONFLICT, Result.FAILED, Result.SKIPPED, Result.UNKNOWN, Result.REFUSED])
def test_what_was_not_written_is_not_waited_for(result: Result) -> None:
    """The wait skips topics without a write, because no change of theirs is in progress."""
    played, found = Played({}), report("orders", result=result)
    assert waited(played, found) == found
    assert played.asked == []


def test_somebody_who_stops_ends_the_waiting_not_the_work() -> None:
    """A stop request ends the wait and keeps the outcomes, because the changes were written."""
    played, found = Played({"orders": TopicProgress("1", True)}), report("orders")
    assert waited(played, found, stop=True) == found
    assert played.asked == []


def test_a_run_that_ended_early_is_not_waited_for() -> None:
    """A run that ended with an error does not wait: its session may have ended, and the report keeps the error."""
    error = TopiaristError(Reason.SESSION_LOST, "gone")
    played, found = Played({}), report("orders")
    ended = ReconcileReport(found.plan, found.outcomes, error)
    assert waited(played, ended) == ended
    assert played.asked == []


def test_an_error_while_waiting_is_the_reports() -> None:
    """An error during the wait becomes the error of the report. Outcomes that were observed before it count; all other
    topics stay done.
    """
    error = TopiaristError(Reason.SESSION_LOST, "gone")
    played = Played({"orders": TopicProgress("1", False), "clicks": TopicProgress("2", True)}, error)
    after = waited(played, report("clicks", "orders"))
    assert after.error is error
    assert [outcome.result for outcome in after.outcomes] == [Result.PENDING, Result.REFUSED]
    assert after.exit_code is Exit.ERROR


GROWN = make_plan(SEEN, ClusterSpec(), [spec("orders", partitions=5), spec("new", partitions=2)], RunOptions())
"""A plan with a topic that grows by two partitions and a topic that is created with two."""


def new(name: str, *taken: int, **fields: Any) -> TopicProgress:
    """Return the progress of a topic of ``GROWN`` as planned, with these of its new partitions initialized."""
    (found,) = (topic for topic in GROWN.topics if topic.topic == name)
    lists = (found.before.replicas if found.before else ()) + found.new_replicas()
    return TopicProgress("1", False, replicas=dict(enumerate(lists)), initialized=frozenset(taken))._replace(**fields)


def written(result: Result = Result.DONE) -> ReconcileReport:
    """Return the report of a run that has written ``GROWN``."""
    return ReconcileReport(GROWN, tuple(Outcome(topic.topic, result) for topic in GROWN.topics))


@pytest.mark.parametrize("result", [Result.DONE, Result.UNCHANGED])
def test_it_looks_until_new_partitions_are_taken_over(result: Result) -> None:
    """Each poll asks only for partitions that are not yet initialized, in any order of initialization."""
    played = Played(
        {"new": new("new", 1), "orders": new("orders")},
        {"new": new("new", 0), "orders": new("orders", 3)},
        {"orders": new("orders", 4)},
    )
    assert waited(played, written(result)) == written(result)
    assert played.partitions == [{"new": [0, 1], "orders": [3, 4]}, {"new": [0], "orders": [3, 4]}, {"orders": [4]}]


def test_new_partitions_that_are_not_taken_over_in_time_are_an_error() -> None:
    """New partitions that are not initialized in time are an error with their number and the missing controller."""
    played = Played({"new": new("new", 0, 1), "orders": new("orders", 3, has_controller=False)})
    after = waited(played, written(), seconds=0)
    late, done = after.outcomes[::-1]
    assert done == Outcome("new", Result.DONE)
    assert (late.result, late.reason) == (Result.PENDING, Reason.NOT_INITIALIZED)
    assert late.message == ("the controller has not initialized 1 of 2 new partitions; the cluster has no controller")
    assert after.exit_code is Exit.ERROR


def test_what_was_lost_meanwhile_is_a_failure() -> None:
    """A topic that was deleted or lost its new partitions fails after the first poll, with its own reason."""
    lost = new("orders", replicas=dict(enumerate(SEEN.topics["orders"].replicas)))
    played = Played({"new": TopicProgress(None, False), "orders": lost})
    after = waited(played, written())
    assert len(played.asked) == 1
    assert {outcome.result for outcome in after.outcomes} == {Result.FAILED}
    assert {outcome.reason for outcome in after.outcomes} == {Reason.STATE_CONFLICT}
    assert after.exit_code is Exit.ERROR


def test_partitions_that_nobody_waits_for_are_told_and_no_failure() -> None:
    """A topic is done, with a notice, if no broker of its remaining partitions is registered."""
    alone = new("new", 0, missing_brokers=(*partitions_to_initialize(GROWN.topics[0])[1],))
    after = waited(Played({"new": alone, "orders": new("orders", 3, 4)}), written())
    outcome = after.outcomes[0]
    assert (outcome.topic, outcome.result, outcome.reason) == ("new", Result.DONE, Reason.NOT_INITIALIZED)
    assert outcome.message.startswith("partition 1: not waited for")
    assert after.exit_code is Exit.DONE


class Clock:
    """A clock that advances only on sleep, or where a test sets it."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Return the present time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Advance the time."""
        self.now += seconds


def test_progress_gives_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout restarts with each progress, so each of any number of steps may take the full time."""
    clock, nothing = Clock(), {"new": new("new"), "orders": new("orders")}

    class Slow(Played):
        def poll(self, topics: Mapping[str, Collection[int]]) -> Mapping[str, TopicProgress]:
            clock.now += 10
            return super().poll(topics)

    def ended(*steps: tuple[int, ...]) -> Exit:
        looks = [nothing | {"orders": new("orders", *taken)} for taken in steps]
        everything = {"new": new("new", 0, 1), "orders": new("orders", 3, 4)}
        return waited(Slow(*looks, everything), written(), seconds=30).exit_code

    for module in (throttle, modes):
        monkeypatch.setattr(module, "time", clock)
    assert ended((), (3,), (), (4,), ()) is Exit.DONE
    assert clock.now > 60
    assert ended((), (), (), ()) is Exit.ERROR


@pytest.mark.parametrize(("comes", "looks"), [(0.0, 1), (0.3, 10), (0.65, 15), (1.3, 20), (10.0, 30), (100.0, 80)])
def test_an_end_is_noticed_soon_after_it_has_come(comes: float, looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait detects the end after at most a quarter of the elapsed time and at most two seconds, with few polls."""
    clock = Clock()
    for module in (throttle, modes):
        monkeypatch.setattr(module, "time", clock)

    class Slow(Played):
        def poll(self, topics: Mapping[str, Collection[int]]) -> Mapping[str, TopicProgress]:
            self.looks = [{"orders": TopicProgress(None, clock.now < comes)}]
            return super().poll(topics)

    slow = Slow({})
    waited(slow, report("orders"), seconds=300)
    assert comes <= clock.now <= min(comes * 1.25 + 0.02, comes + 2.0) + 1e-6
    assert len(slow.asked) <= looks


def test_zookeeper_is_left_alone_most_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause between two polls is four times as long as one poll, also if the run writes more during the pause."""
    clock, starts = Clock(), []

    class Slow(Played):
        def poll(self, topics: Mapping[str, Collection[int]]) -> Mapping[str, TopicProgress]:
            starts.append(clock.now)
            clock.now += 0.25
            return super().poll(topics)

    for module in (throttle, modes):
        monkeypatch.setattr(module, "time", clock)
    first, second = GROWN.topics
    watch = paced(Slow({"new": new("new", 0)}, {"new": new("new", 1), "orders": new("orders")}))
    watch.on_outcome(first, Outcome("new", Result.DONE))
    watch.wait()
    watch.on_outcome(second, Outcome("orders", Result.DONE))
    watch.wait()
    assert starts[1] - starts[0] == pytest.approx(0.25 + 4 * 0.25)


def paced(
    played: Played, *, ahead: int = 6, seconds: float = 30.0, stop: Callable[[], bool] = lambda: False, loud: int = -1
) -> throttle.ControllerWait:
    """Return the controller wait of a run."""
    settings = Settings(wait_timeout=seconds, max_inflight_replicas=ahead, verbosity=loud)
    return modes.make_controller_wait(played, settings, stop, untold, TerminalListener(settings))


def test_a_run_is_held_back_until_the_controller_has_gone_on(capsys: pytest.CaptureFixture[str]) -> None:
    """The run writes only the allowed replicas in flight, and prints one message.

    Initialized partitions make room.
    """
    first, second = GROWN.topics
    watch = paced(Played({"new": new("new")}, {"new": new("new", 0)}, {"new": new("new", 1)}), ahead=1, loud=0)
    assert watch.try_acquire(first)
    watch.on_outcome(first, Outcome("new", Result.DONE))
    rests = 0
    while not watch.try_acquire(second):
        watch.wait()
        rests += 1
    assert rests == 3
    assert capsys.readouterr().err == (
        "throttled: the controller has to initialize earlier partitions first, 1 replica per broker at a time\n"
    )


def test_a_controller_that_does_nothing_ends_the_run() -> None:
    """A controller without progress ends the run at the deadline. Written changes are pending, and the run does not
    wait for them a second time.
    """
    first, second = GROWN.topics
    played = Played({"new": new("new", has_controller=False)})
    watch = paced(played, ahead=1, seconds=0)
    assert watch.try_acquire(first)
    watch.on_outcome(first, Outcome("new", Result.DONE))
    assert not watch.try_acquire(second)
    with pytest.raises(TopiaristError, match="has made no progress for 0 s: nothing more is sent") as raised:
        watch.wait()
    outcomes = (Outcome("new", Result.DONE), Outcome("orders", Result.SKIPPED))
    found = ReconcileReport(GROWN, outcomes, raised.value)
    (after,) = modes.wait_for_controllers({"": watch}, [found], Settings(wait_timeout=30.0), lambda: False)
    assert [outcome.result for outcome in after.outcomes] == [Result.PENDING, Result.SKIPPED]
    assert "no controller" in after.outcomes[0].message
    assert (after.error, after.exit_code) == (raised.value, Exit.ERROR)
    assert len(played.asked) == 1


def test_somebody_who_stops_is_not_held_back() -> None:
    """After a stop request, the run ends without another poll."""
    played = Played({})
    paced(played, stop=lambda: True).wait()
    assert played.asked == []


def test_what_was_seen_while_writing_counts_if_the_run_ends_early() -> None:
    """A run that ends early reports a topic that another client deleted. A topic that is not initialized yet stays
    done, because the run has no further information.
    """
    first, second = GROWN.topics
    watch = paced(Played({"new": TopicProgress(None, False), "orders": new("orders")}))
    for topic_plan in (first, second):
        watch.on_outcome(topic_plan, Outcome(topic_plan.topic, Result.DONE))
    watch.wait()
    ended = ReconcileReport(GROWN, written().outcomes, TopiaristError(Reason.FROZEN, "frozen"))
    (after,) = modes.wait_for_controllers({"": watch}, [ended], Settings(verbosity=-1), lambda: False)
    assert [outcome.result for outcome in after.outcomes] == [Result.FAILED, Result.DONE]


def test_what_is_waited_for_is_said_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    """The messages use initialized, never usable or ready, and a quiet run prints none."""
    cluster_state = state(topic("gone"), topic("orders"))
    specs = [spec("gone", ensure="Absent"), spec("orders", partitions=5), spec("new", partitions=2)]
    found = make_plan(cluster_state, ClusterSpec(), specs, RunOptions())
    sights = {"gone": TopicProgress(None, False), "new": new("new", 0, 1), "orders": new("orders", 3, 4)}
    for verbosity in (0, -1):
        settings = Settings(verbosity=verbosity)
        run = ReconcileReport(found, tuple(Outcome(topic.topic, Result.DONE) for topic in found.topics))
        modes.wait_for_controllers(
            {"": modes.make_controller_wait(Played(sights), settings, lambda: False, untold)},
            [run],
            settings,
            lambda: False,
            TerminalListener(settings),
        )
    assert capsys.readouterr().err == (
        "waiting for the controller to initialize 2 topics and delete 1 topic, at most 300 s without progress\n"
        "2 topics initialized by the controller, 1 topic deleted\n"
    )
