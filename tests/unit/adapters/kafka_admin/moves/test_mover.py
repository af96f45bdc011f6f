"""Moves over brokers in memory: what is sent when, what is waited for, and what each answer means for its topic."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from topiarist.adapters.kafka_admin.connection.error_codes import error_name
from topiarist.adapters.kafka_admin.moves.batch_writer import HINT_CONTINUE
from topiarist.adapters.kafka_admin.moves.look import MoveReader
from topiarist.adapters.kafka_admin.moves.mover import clear_moves
from topiarist.adapters.kafka_admin.records.codec import Records
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import BatchLimits, BatchRecord, MoveKind, MoveProgress, OwnValue, ReplicaMove
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import MoveReplicas
from unit.adapters.kafka_admin.moves.moving_brokers import LISTS, OWNER, RATE, RATES, MovingBrokers
from unit.adapters.kafka_admin.scripted_session import LOST, NOT_SENT, reply

ONE = BatchLimits(partitions=1)


def test_all_kinds_of_moves(brokers: MovingBrokers) -> None:
    """Each move is sent once, throttles are there meanwhile, and nothing is left; a second run has nothing to do."""
    brokers.create("drained", (3, 1), (1, 2))
    brokers.create("reordered", (1, 2))
    brokers.create("raised", (1,), (2,))
    targets = {"drained": [(2, 1), (1, 2)], "raised": [(1, 2), (2, 3)], "reordered": [(2, 1)]}
    plan = brokers.plan(targets)
    assert sorted(brokers.run(plan)) == [Outcome(name, Result.DONE) for name in sorted(targets)]
    assert {name: brokers.lists(name) for name in targets} == targets
    assert brokers.throttles() == {}
    assert brokers.records.batch is None
    assert not brokers.records.is_held
    (sent,) = brokers.reassignments()
    counts = {topic.name: len(topic.partitions) for topic in sent.request.topics}
    assert counts == {"drained": 1, "raised": 2, "reordered": 1}
    assert (sent.broker, sent.timeout) == (4, 70)
    assert sorted(brokers.run(plan)) == [Outcome(name, Result.UNCHANGED) for name in sorted(targets)]


def test_the_record_and_the_throttles_of_a_batch(brokers: MovingBrokers) -> None:
    """While brokers copy, the record names the moves and the values, and the lock is free."""
    brokers.create("a", (1, 2))
    seen: list[Any] = []

    def stop() -> bool:
        if brokers.seen and brokers.seen[-1].copying and not seen:
            seen.extend((brokers.records.batch, {key: dict(value) for key, value in brokers.throttles().items()}))
            assert not brokers.records.is_held
        return False

    brokers.run(brokers.plan({"a": [(1, 3)]}), stop=stop)
    rates = dict.fromkeys(RATES, str(RATE))
    assert seen[1] == {
        "topics/a": {LISTS[0]: "0:3", LISTS[1]: "0:1,0:2"},
        **{f"brokers/{broker}": rates for broker in (1, 2, 3)},
    }
    record = seen[0]
    assert (record.owner, record.batch, record.batches) == (OWNER, 1, 1)
    assert record.moves == (ReplicaMove("a", 0, (1, 2), (1, 3)),)
    assert record.throttles["brokers/3"] == {key: OwnValue(None, str(RATE)) for key in RATES}
    assert record.replaced == {}
    # Before the throttles are put back, the record has the values that they have; then it is deleted.
    assert [each and len(each.moves) for each in brokers.records.batches] == [1, 0, None]


def test_batches_and_polls(brokers: MovingBrokers) -> None:
    """One partition at a time is in flight; progress counts the batches, and the polls begin quick."""
    brokers.create("a", (1, 2), (1, 2), (1, 2))
    assert brokers.run(brokers.plan({"a": [(1, 3)] * 3}), batch=ONE) == [Outcome("a", Result.DONE)]
    assert max(len(each.copying) for each in brokers.seen) == 1
    assert [(each.batch, each.batches) for each in brokers.seen if each.copying][::2] == [(1, 3), (2, 3), (3, 3)]
    assert {(each.done, each.total) for each in brokers.seen} >= {(0, 3), (1, 3), (2, 3), (3, 3)}


def test_the_pauses_of_a_long_copy(brokers: MovingBrokers) -> None:
    """Two quick polls, then one each second, then one each three seconds; further moves begin anew."""
    brokers.create("a", (1, 2))
    brokers.copies_at_sleep = False
    reports: dict[int, float] = {}

    def stop() -> bool:
        if brokers.are_copying():
            reports.setdefault(len(brokers.seen), brokers.clock.current)
        if len(brokers.seen) > 25:
            brokers.finish()
        return False

    assert brokers.run(brokers.plan({"a": [(1, 3)]}), stop=stop) == [Outcome("a", Result.DONE)]
    pauses = [round(later - earlier, 3) for earlier, later in pairwise(reports.values())]
    assert pauses == [0.0, 0.1, 0.1, *[1.0] * 17, *[3.0] * (len(pauses) - 20)]
    assert len(pauses) > 21
    assert max(brokers.clock.slept) <= 0.1 + 1e-6


def test_the_reports_of_a_run(brokers: MovingBrokers) -> None:
    """Each has the batch, what is done, what brokers copy, and what is waited for; a held move is a batch to come."""
    brokers.create("a", (1, 2), (2, 1))
    brokers.create("b", (1, 2))
    plan = brokers.plan({"a": [(1, 3), (2, 3)], "b": [(1, 3)]})
    brokers.topics["b"][0].isr = (2,)
    done, refused = brokers.run(plan, batch=ONE)
    held = "broker 1 keeps a replica of partition 0 that is not in sync"
    first, second = ReplicaMove("a", 0, (1, 2), (1, 3)), ReplicaMove("a", 1, (2, 1), (2, 3))
    assert [*dict.fromkeys(brokers.seen)] == [
        MoveProgress(1, 3, 0, 3, (first,)),
        MoveProgress(2, 3, 1, 3, (second,), (first,)),
        MoveProgress(2, 3, 1, 3, (second,)),
        MoveProgress(2, 3, 2, 3, (), (second,), waiting_for=held),
        MoveProgress(2, 3, 2, 3, waiting_for=held),
    ]
    assert (done, refused) == (
        Outcome("a", Result.DONE),
        Outcome("b", Result.REFUSED, Reason.NOT_IN_SYNC, f"{held}; 1 partition not moved"),
    )


def test_the_record_has_all_that_is_in_flight(brokers: MovingBrokers) -> None:
    """Moves that join those in flight are recorded with them, without their kinds; each batch has its number."""
    brokers.create("a", *[(1, 2)] * 3)
    brokers.copies_at_sleep = False
    limits = BatchLimits(partitions=2)

    def stop() -> bool:
        if len(brokers.seen) == 3 and brokers.topics["a"][0].target:
            part = brokers.topics["a"][0]
            part.replicas, part.isr, part.target = (1, 3), (1, 3), ()
        return len(brokers.seen) > 5

    plan = brokers.plan({"a": [(1, 3)] * 3})
    (change,) = plan.topics[0].changes
    assert isinstance(change, MoveReplicas)
    marked = replace(change, moves=tuple(move._replace(kinds=(MoveKind.DRAIN,)) for move in change.moves))
    brokers.run(replace(plan, topics=(replace(plan.topics[0], changes=(marked,)),)), batch=limits, stop=stop)
    moves = [ReplicaMove("a", number, (1, 2), (1, 3)) for number in range(3)]
    assert [(each and (each.batch, each.batches, each.moves)) for each in brokers.records.batches] == [
        (1, 2, (moves[0], moves[1])),
        (2, 2, (moves[1], moves[2])),
    ]


def test_a_stop_while_brokers_copy(brokers: MovingBrokers) -> None:
    """What is in flight continues, with its throttles and its record; the next run finishes it."""
    plan = brokers.plan_move("a")
    brokers.copies_at_sleep = False
    (outcome,) = brokers.run(plan, stop=brokers.are_copying)
    assert (outcome.result, outcome.reason) == (Result.PENDING, Reason.MOVES_UNFINISHED)
    assert brokers.throttles()
    assert brokers.records.batch
    with pytest.raises(TopiaristError, match="1 partition in flight") as caught:
        clear_moves(brokers.session, brokers.reader(), brokers.records)
    assert (caught.value.reason, caught.value.hint) == (Reason.REASSIGNMENT_IN_PROGRESS, HINT_CONTINUE)
    assert not brokers.records.is_held
    brokers.copies_at_sleep = True
    assert brokers.run(plan) == [Outcome("a", Result.DONE)]
    assert brokers.throttles() == {}
    assert brokers.records.batch is None
    assert len(brokers.reassignments()) == 1


def test_clear_after_a_killed_run(brokers: MovingBrokers) -> None:
    """Throttles are put back by value, and the record is deleted; without a record nothing is written."""
    assert clear_moves(brokers.session, brokers.reader(), brokers.records) is None
    plan = brokers.plan_move("a")
    brokers.copies_at_sleep = False
    brokers.run(plan, stop=brokers.are_copying)
    record = brokers.records.batch
    brokers.finish()
    brokers.session.unreachable.add(2)
    cleared = clear_moves(brokers.session, brokers.reader(), brokers.records)
    assert cleared is not None
    assert cleared.record == record
    assert cleared.remarks == ("brokers/2: its throttle cannot be changed now: broker 2 cannot be reached",)
    assert [*brokers.throttles()] == ["brokers/2"]
    left = brokers.records.batch
    assert left is not None
    assert ([*left.throttles], left.moves, left.replaced) == (["brokers/2"], (), {})
    brokers.session.unreachable.clear()
    assert clear_moves(brokers.session, brokers.reader(), brokers.records)
    assert brokers.throttles() == {}
    assert brokers.records.batch is None


def test_a_throttle_of_another_client_stays(brokers: MovingBrokers) -> None:
    """A rate that is set is not replaced, with a remark, and is there at the end."""
    plan = brokers.plan_move("a")
    brokers.configs["brokers/3"] = {RATES[0]: "7"}
    brokers.run(plan)
    assert brokers.throttles() == {"brokers/3": {RATES[0]: "7"}}
    written = [
        {config.name for config in resource.configs}
        for sent in brokers.session.sent
        if sent.name == "IncrementalAlterConfigs"
        for resource in sent.request.resources
        if resource.resource_name == "3"
    ]
    assert written == [{RATES[1]}, {RATES[1]}]  # it is not even repeated
    remarks = [remark for each in brokers.seen for remark in each.remarks]
    assert any("is 7 already" in remark for remark in remarks)
    assert len(remarks) == len({*remarks})


def test_a_throttle_that_another_client_changes_is_reported_at_the_end(brokers: MovingBrokers) -> None:
    """It is left as it is, and the last report says so."""
    plan = brokers.plan_move("a")
    stop = brokers.while_copying(lambda: brokers.configs["brokers/3"].update({RATES[0]: "7"}))
    assert brokers.run(plan, stop=stop) == [Outcome("a", Result.DONE)]
    assert brokers.throttles() == {"brokers/3": {RATES[0]: "7"}}
    assert any("brokers/3" in remark for remark in brokers.seen[-1].remarks)


@pytest.mark.parametrize(("throttle", "target"), [(None, (2, 1)), (0, (1, 3))])
def test_moves_without_a_rate(brokers: MovingBrokers, throttle: int | None, target: Any) -> None:
    """A move that copies nothing needs no rate, and the rate 0 sets no throttle."""
    brokers.create("a", (1, 2))
    assert brokers.run(brokers.plan({"a": [target]}), throttle=throttle) == [Outcome("a", Result.DONE)]
    assert "IncrementalAlterConfigs" not in brokers.session.names()


def test_a_copy_without_a_declared_throttle(brokers: MovingBrokers) -> None:
    """Nothing is sent, and the error counts the replicas."""
    brokers.create("a", (1, 2), (2, 1))
    with pytest.raises(TopiaristError, match="2 replicas to copy, and no throttle is declared") as caught:
        brokers.run(brokers.plan({"a": [(1, 3), (2, 3)]}), throttle=None)
    assert caught.value.reason is Reason.THROTTLE_MISSING
    assert brokers.reassignments() == []


@pytest.mark.parametrize(
    ("code", "result", "reason"),
    [
        (3, Result.CONFLICT, Reason.STATE_CONFLICT),
        (38, Result.CONFLICT, Reason.STATE_CONFLICT),
        (39, Result.REFUSED, Reason.UNKNOWN_BROKERS),
        (60, Result.REFUSED, Reason.REASSIGNMENT_IN_PROGRESS),
        (29, Result.FAILED, Reason.NO_PERMISSION),
        (31, Result.FAILED, Reason.NO_PERMISSION),
        (42, Result.FAILED, Reason.WRITE_FAILED),
        (89, Result.FAILED, Reason.WRITE_FAILED),
        (41, Result.FAILED, Reason.WRITE_FAILED),
    ],
)
def test_refused_partitions(brokers: MovingBrokers, code: int, result: Result, reason: Reason) -> None:
    """A refusal closes its topic with the reason of its code; another topic is moved, and throttles are put back."""
    plan = brokers.plan_move("a", "b")
    brokers.refusals["a", 0] = (code, "said the broker")
    outcomes = {each.topic: each for each in brokers.run(plan)}
    assert outcomes["b"] == Outcome("b", Result.DONE)
    assert (outcomes["a"].result, outcomes["a"].reason) == (result, reason)
    words = f"partition 0 was not moved: the brokers answered {error_name(code)} ({code}): said the broker"
    right = "no permission: it needs Alter on the cluster; " if code in (29, 31) else ""
    assert outcomes["a"].message == f"{right}{words}"
    assert brokers.throttles() == {}


@pytest.mark.parametrize("is_moved", [True, False])
@pytest.mark.parametrize("code", [None, 7, 13, -1])
def test_a_partition_in_doubt(brokers: MovingBrokers, code: int | None, is_moved: bool) -> None:
    """No element, a timeout and a server error leave it open whether the move began: the cluster tells.

    It is sent again only when the request cannot be carried out any more.
    """
    plan = brokers.plan_move("a")
    sent_at: list[float] = []

    def alter(broker: int, request: Any) -> Any:
        sent_at.append(brokers.clock.current)
        if is_moved:
            brokers.reassign("a", 0, (1, 3))
        brokers.refusals["a", 0] = (code if len(sent_at) == 1 else 0, "")
        return brokers.on_alter(broker, request)

    brokers.session.script["AlterPartitionReassignments"] = alter
    assert brokers.run(plan) == [Outcome("a", Result.DONE)]
    assert [round(each - sent_at[0], -1) for each in sent_at] == ([0] if is_moved else [0, 70])
    assert brokers.throttles() == {}


def test_a_stop_while_a_partition_is_in_doubt(brokers: MovingBrokers) -> None:
    """The request may still be carried out: its throttles and its record stay for the next run."""
    plan = brokers.plan_move("a")
    brokers.refusals["a", 0] = (None, "")
    brokers.run(plan, stop=lambda: bool(brokers.seen))
    assert brokers.throttles()
    assert brokers.records.batch
    assert brokers.records.batch.moves == (ReplicaMove("a", 0, (1, 2), (1, 3)),)


def test_a_topic_that_another_client_moves_while_throttles_are_written(brokers: MovingBrokers) -> None:
    """Topics are compared once more, directly before the moves are sent: a reassignment of another client stays."""
    plan = brokers.plan_move("a")

    def configure(broker: int, request: Any) -> Any:
        if not brokers.topics["a"][0].target and brokers.session.names().count("IncrementalAlterConfigs") == 1:
            brokers.reassign("a", 0, (1, 4))
        return brokers.on_configure(broker, request)

    brokers.session.script["IncrementalAlterConfigs"] = configure
    (outcome,) = brokers.run(plan)
    assert outcome.result is Result.CONFLICT
    assert brokers.reassignments() == []
    assert brokers.topics["a"][0].target == (1, 4)


@pytest.mark.parametrize("failure", [NOT_SENT, LOST, reply(error_code=41)])
def test_a_request_that_fails_once(brokers: MovingBrokers, failure: Any) -> None:
    """What was not sent, or reached another broker than the controller, is sent again at once."""
    plan, began = brokers.plan_move("a"), brokers.clock.current
    brokers.session.script["AlterPartitionReassignments"] = [failure, brokers.on_alter]
    assert brokers.run(plan) == [Outcome("a", Result.DONE)]
    assert len(brokers.reassignments()) == 2
    assert brokers.session.forgotten == (0 if failure is LOST else 1)
    assert (brokers.clock.current - began > 60) is (failure is LOST)


def test_a_request_that_cannot_be_sent(brokers: MovingBrokers) -> None:
    """After two attempts the run ends; the next one continues."""
    plan = brokers.plan_move("a")
    brokers.session.script["AlterPartitionReassignments"] = NOT_SENT
    with pytest.raises(TopiaristError) as caught:
        brokers.run(plan)
    message = "cannot send to the brokers: the connection was closed"
    assert (caught.value.reason, caught.value.message) == (Reason.UNREACHABLE, message)
    assert len(brokers.reassignments()) == 2
    brokers.session.script["AlterPartitionReassignments"] = brokers.on_alter
    assert brokers.run(plan) == [Outcome("a", Result.DONE)]
    assert brokers.throttles() == {}


def test_a_reader_that_is_no_controller_any_more(brokers: MovingBrokers) -> None:
    """The reassignments are asked for again at the controller of now, not at the old one for ever."""
    brokers.create("a", (1, 2))
    plan, answered = brokers.plan({"a": [(1, 3)]}), []

    def answer(broker: int, request: Any) -> Any:
        answered.append(broker)
        return reply(error_code=41, error_message="no") if len(answered) == 1 else brokers.on_list(broker, request)

    brokers.session.script["ListPartitionReassignments"] = answer
    assert brokers.run(plan) == [Outcome("a", Result.DONE)]
    assert brokers.session.forgotten == 1


def test_no_controller_at_all(brokers: MovingBrokers) -> None:
    """A second broker that is not the controller refuses each partition."""
    plan = brokers.plan_move("a")
    brokers.session.script["AlterPartitionReassignments"] = reply(error_code=41, error_message="no")
    (outcome,) = brokers.run(plan)
    assert (outcome.result, outcome.reason) == (Result.FAILED, Reason.WRITE_FAILED)
    assert "NOT_CONTROLLER (41): no" in (outcome.message or "")


def test_a_move_that_another_client_cancels(brokers: MovingBrokers) -> None:
    """It is reported as dropped, and neither it nor the partitions that wait for their batch are sent any more."""
    brokers.create("a", (1, 2), (1, 2))
    brokers.copies_at_sleep = False

    def cancel() -> None:
        part = brokers.topics["a"][0]
        part.replicas, part.target = (1, 2), ()

    plan, stop = brokers.plan({"a": [(1, 3)] * 2}), brokers.while_copying(cancel)
    (outcome,) = brokers.run(plan, batch=ONE, stop=stop)
    assert (outcome.result, outcome.reason) == (Result.FAILED, Reason.MOVE_DROPPED)
    assert len(brokers.reassignments()) == 1
    assert brokers.throttles() == {}
    assert brokers.records.acquisitions == 2  # the lock is taken to send, and to end


def test_only_accepted_moves_are_expected(brokers: MovingBrokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look waits for the end of moves that were accepted; a refused one never begins."""
    plan = brokers.plan_move("a", "b")
    brokers.refusals["b", 0] = (39, "no")
    expected: list[str] = []
    monkeypatch.setattr(MoveReader, "expect", lambda _, moves: expected.extend(move.topic for move in moves))
    brokers.run(plan)
    assert expected == ["a"]


def test_a_copy_to_the_target_that_is_not_in_the_record_keeps_the_throttles(brokers: MovingBrokers) -> None:
    """An end was interrupted, and another client begins the move of the plan: a stopped run leaves its throttles."""
    plan = interrupted(brokers)
    assert brokers.records.batch
    brokers.records.batch = brokers.records.batch._replace(moves=())
    batch, throttles = brokers.records.batch, dict(brokers.throttles())
    brokers.run(plan, stop=lambda: True)
    assert (brokers.records.batch, brokers.throttles()) == (batch, throttles)


def test_rates_that_were_being_replaced_are_put_back(brokers: MovingBrokers) -> None:
    """A run was killed before it wrote its last values: the record names the entities that have older ones."""
    interrupted(brokers)
    brokers.finish()
    assert brokers.records.batch
    brokers.records.batch = brokers.records.batch._replace(
        moves=(), throttles={}, replaced=brokers.records.batch.throttles
    )
    older = brokers.records.batch.replaced
    brokers.session.unreachable.add(3)
    assert clear_moves(brokers.session, brokers.reader(), brokers.records)
    assert brokers.throttles().keys() == {"brokers/3"}
    before, left = brokers.records.batches[-2:]  # before the first is put back, and after the last
    assert before
    assert left
    assert (before.throttles, left.throttles) == (older, {"brokers/3": older["brokers/3"]})
    brokers.session.unreachable.clear()
    assert clear_moves(brokers.session, brokers.reader(), brokers.records)
    assert brokers.throttles() == {}


def test_a_reassignment_of_another_client(brokers: MovingBrokers) -> None:
    """Its partition is a conflict, its copies count for the limits, and its throttles stay."""
    brokers.create("ours", (1, 2))
    brokers.create("theirs", (1, 2))
    plan = brokers.plan({"ours": [(1, 3)], "theirs": [(2, 3)]})
    brokers.configs["topics/theirs"] = {LISTS[0]: "*"}
    brokers.reassign("theirs", 0, (1, 3))
    outcomes = {each.topic: each for each in brokers.run(plan, batch=BatchLimits(5, 1, 5))}
    assert outcomes["theirs"].result is Result.CONFLICT
    assert outcomes["ours"] == Outcome("ours", Result.DONE)
    assert "a reassignment of 1 partition by another client" in {each.waiting_for for each in brokers.seen}
    assert brokers.throttles() == {"topics/theirs": {LISTS[0]: "*"}}


def test_a_reassignment_in_the_same_topic_is_waited_for(brokers: MovingBrokers) -> None:
    """Another client moves a partition of the topic, so that no other one may move; other topics do not count.

    Without a wait nothing is sent, the run returns at once, and its outcome has what it would wait for.
    """
    brokers.create("a", (1, 2), (1, 2))
    brokers.create("theirs", (1, 2), (1, 2))
    plan = brokers.plan({"a": [(1, 3), (1, 2)]})
    for name, number in (("a", 1), ("theirs", 0), ("theirs", 1)):
        brokers.reassign(name, number, (1, 3))
    (outcome,) = brokers.run(plan, wait=False)
    waits_for = "a reassignment of 1 partition by another client"
    assert outcome.message == f"0 of 1 partition moved: {waits_for}; run again for the rest"
    assert brokers.reassignments() == []
    brokers.seen.clear()
    assert brokers.run(plan) == [Outcome("a", Result.DONE)]
    assert brokers.seen[0].waiting_for == waits_for


def test_a_reassignment_that_cannot_end_is_waited_for_with_its_cause(brokers: MovingBrokers) -> None:
    """The broker that keeps it from ending is named, in place of its client."""
    brokers.create("a", (1, 2), (1, 2))
    plan = brokers.plan({"a": [(1, 3), (1, 2)]})
    brokers.copies_at_sleep = False
    brokers.reassign("a", 1, (1, 9))
    reports: dict[int, float] = {}

    def stop() -> bool:
        reports.setdefault(len(brokers.seen), brokers.clock.current)
        return len(brokers.seen) > 3

    brokers.run(plan, stop=stop)
    assert [round(later - earlier, 3) for earlier, later in pairwise(reports.values())][1:] == [0.1, 0.1, 1.0]
    assert brokers.seen[0].waiting_for == "broker 9 is not registered: partition a 1 waits for it"


def test_a_topic_that_is_deleted_meanwhile(brokers: MovingBrokers) -> None:
    """The other topic is moved, and a remark names the throttle that was deleted with the topic."""
    plan, stop = brokers.plan_move("a", "b"), brokers.while_copying(lambda: brokers.topics.pop("a", None))
    outcomes = {each.topic: each.result for each in brokers.run(plan, stop=stop)}
    assert outcomes == {"a": Result.CONFLICT, "b": Result.DONE}
    assert any("topics/a was deleted, with its throttle" in remark for each in brokers.seen for remark in each.remarks)


def test_without_wait_one_batch_is_sent(brokers: MovingBrokers) -> None:
    """Each run sends one batch and returns, with the number of the batch; nothing is sent while one is in flight."""
    brokers.create("a", (1, 2), (1, 2))
    plan = brokers.plan({"a": [(1, 3)] * 2})
    (outcome,) = brokers.run(plan, wait=False, batch=ONE)
    assert outcome.result is Result.PENDING
    assert brokers.clock.slept == []
    assert len(brokers.reassignments()) == 1
    (outcome,) = brokers.run(plan, wait=False, batch=ONE)
    assert outcome.result is Result.PENDING
    assert outcome.message == "0 of 2 partitions moved, 1 in flight; run again for the rest"
    assert len(brokers.reassignments()) == 1
    brokers.create("b", (1, 2))
    both = brokers.plan({"a": [(1, 3)] * 2, "b": [(1, 3)]})
    (_, other) = sorted(brokers.run(both, wait=False, batch=ONE))  # what this owner has in flight is no obstacle
    assert other.message == "0 of 1 partition moved; run again for the rest"
    brokers.finish()
    brokers.seen.clear()
    brokers.run(plan, wait=False, batch=ONE)
    assert len(brokers.reassignments()) == 2
    assert brokers.records.batch
    assert (brokers.records.batch.batch, brokers.records.batch.batches) == (2, 2)
    assert (brokers.seen[-1].batch, brokers.seen[-1].batches) == (2, 2)
    brokers.finish()
    assert brokers.run(plan, wait=False, batch=ONE) == [Outcome("a", Result.UNCHANGED)]
    assert brokers.throttles() == {}


def interrupted(brokers: MovingBrokers, owner: str = OWNER) -> Any:
    """Leave a move in flight with its record, of this or another owner; return the plan."""
    plan = brokers.plan_move("a")
    brokers.copies_at_sleep = False
    brokers.run(plan, stop=brokers.are_copying)
    brokers.seen.clear()
    if owner != OWNER:
        assert brokers.records.batch
        brokers.records.batch = brokers.records.batch._replace(owner=owner)
    return plan


def test_another_rate_of_a_batch_in_flight(brokers: MovingBrokers) -> None:
    """The next run gives the moves of the earlier one the declared rate, once; equal rates write nothing."""
    plan = interrupted(brokers)
    commits, acquisitions = len(brokers.records.batches), brokers.records.acquisitions
    brokers.run(plan, stop=lambda: len(brokers.seen) > 1)
    assert (len(brokers.records.batches), brokers.records.acquisitions) == (commits, acquisitions)
    brokers.seen.clear()
    held: list[bool] = []

    def stop() -> bool:
        held.append(brokers.records.is_held)
        return len(brokers.seen) > 1

    brokers.run(plan, throttle=5, stop=stop)
    assert not held[-1]  # brokers copy without the lock
    assert brokers.throttles()["brokers/3"] == dict.fromkeys(RATES, "5")
    assert len(brokers.records.batches) == commits + 1
    assert not brokers.records.is_held
    brokers.copies_at_sleep = True
    assert brokers.run(plan, throttle=5) == [Outcome("a", Result.DONE)]
    assert brokers.throttles() == {}


def with_rate(batch: BatchRecord, rate: int) -> BatchRecord:
    """Return a record with this rate in its throttles."""
    throttles = {
        entity: {key: OwnValue(None, str(rate)) if key in RATES else value for key, value in values.items()}
        for entity, values in batch.throttles.items()
    }
    return batch._replace(throttles=throttles)


@pytest.mark.parametrize(
    "change", [lambda batch: None, lambda batch: batch._replace(owner="other"), lambda batch: with_rate(batch, 5)]
)
def test_a_record_that_changes_before_its_rate_is_written(
    brokers: MovingBrokers, monkeypatch: pytest.MonkeyPatch, change: Callable[[BatchRecord], BatchRecord | None]
) -> None:
    """The record is compared again under the lock: one of another owner, or with the rate, stays as it is."""
    plan = interrupted(brokers)
    commits, throttles = len(brokers.records.batches), brokers.throttles()
    acquire = brokers.records.acquire

    def change_first(stop: Callable[[], bool]) -> Records:
        assert brokers.records.batch
        brokers.records.batch = change(brokers.records.batch)
        monkeypatch.setattr(brokers.records, "acquire", acquire)
        return acquire(stop)

    monkeypatch.setattr(brokers.records, "acquire", change_first)
    brokers.run(plan, throttle=5, stop=lambda: len(brokers.seen) > 1)
    assert (len(brokers.records.batches), brokers.throttles()) == (commits, throttles)


def test_a_batch_of_another_owner(brokers: MovingBrokers) -> None:
    """Nothing joins it and its rate stays; the run waits for it by name, and sends its own moves afterwards."""
    interrupted(brokers, "other")
    brokers.create("b", (1, 2))
    plan = brokers.plan({"b": [(1, 3)]})

    def stop() -> bool:
        brokers.copies_at_sleep = len(brokers.seen) > 3
        return False

    assert brokers.run(plan, throttle=5, stop=stop) == [Outcome("b", Result.DONE)]
    assert brokers.seen[0].waiting_for == "1 partition of owner other"
    assert len(brokers.reassignments()) == 2


def test_a_batch_that_another_owner_begins_meanwhile(brokers: MovingBrokers) -> None:
    """A run that finds it under the lock sends nothing, and leaves the record as it is, until that batch is done."""
    brokers.create("a", (1, 2))
    brokers.create("b", (1, 2))
    plan, acquire = brokers.plan({"b": [(1, 3)]}), brokers.records.acquire
    begun = BatchRecord("other", 1, 1, (ReplicaMove("a", 0, (1, 2), (1, 3)),), {})

    def begin(stop: Callable[[], bool]) -> Records:
        if brokers.records.batch is None:
            brokers.records.batch = begun
            brokers.reassign("a", 0, (1, 3))
        return acquire(stop)

    brokers.records.acquire = begin  # type: ignore[method-assign]
    brokers.run(plan, stop=lambda: bool(brokers.seen))
    assert brokers.seen[0].waiting_for == "1 partition of owner other"
    assert brokers.records.batch is begun
    assert brokers.run(plan) == [Outcome("b", Result.DONE)]


def test_a_batch_of_an_earlier_run_of_the_owner(brokers: MovingBrokers) -> None:
    """A plan without its topic waits for it, and ends it with its throttles."""
    interrupted(brokers)
    brokers.create("b", (1, 2))
    brokers.copies_at_sleep = True
    assert brokers.run(brokers.plan({"b": [(1, 2)]})) == []
    assert brokers.seen[0].waiting_for == "1 partition of an earlier run"
    assert brokers.seen[-1].remarks == ("ended batch 1 of 1 of an earlier run, and put its throttles back",)
    assert brokers.throttles() == {}
    assert brokers.records.batch is None


def test_a_batch_of_an_earlier_run_that_cannot_end(brokers: MovingBrokers) -> None:
    """A plan without its topic names the broker that it waits for, and ends when nothing changes for long."""
    interrupted(brokers)
    brokers.create("b", (1, 2))
    brokers.session.brokers = (1, 2, 4)
    began = brokers.clock.current
    with pytest.raises(TopiaristError, match="no progress for 20 s: broker 3 is not registered") as caught:
        brokers.run(brokers.plan({"b": [(1, 2)]}), stall_after=20)
    assert caught.value.reason is Reason.MOVES_STALLED
    assert 20 <= brokers.clock.current - began <= 25
    assert brokers.seen[0].waiting_for == "broker 3 is not registered: partition a 0 waits for it"


def test_an_unhealthy_partition_is_held(brokers: MovingBrokers) -> None:
    """A partition with a replica that stays and is not in sync is refused at once by a run that does not wait."""
    plan, began = brokers.plan_move("a"), brokers.clock.current
    brokers.topics["a"][0].isr = (2,)
    (outcome,) = brokers.run(plan, wait=False)
    assert outcome.result is Result.REFUSED
    assert brokers.reassignments() == []
    assert brokers.clock.current == began


def test_a_partition_below_its_minimum_is_moved(brokers: MovingBrokers) -> None:
    """A dead broker is replaced: at the end more replicas are in sync than before."""
    plan = brokers.plan_move("a")
    brokers.topics["a"][0].isr = (1,)
    brokers.configs["topics/a"]["min.insync.replicas"] = "2"
    assert brokers.run(plan) == [Outcome("a", Result.DONE)]


def test_a_stop_before_anything(brokers: MovingBrokers) -> None:
    """Nothing is sent, and nothing is known of the moves."""
    plan = brokers.plan_move("a")
    assert brokers.run(plan, stop=lambda: True) == [Outcome("a", Result.SKIPPED)]
    assert brokers.reassignments() == []


@pytest.mark.parametrize(
    ("code", "reason", "message"),
    [
        (31, Reason.NO_PERMISSION, ": it needs AlterConfigs on the cluster: CLUSTER_AUTHORIZATION_FAILED (31)"),
        (42, Reason.WRITE_FAILED, ": INVALID_REQUEST (42)"),
        (None, Reason.WRITE_FAILED, ": no answer"),
    ],
)
def test_a_throttle_that_a_broker_refuses(
    brokers: MovingBrokers, code: int | None, reason: Reason, message: str
) -> None:
    """No move is sent, and the error names broker, right and answer; the next run begins anew."""
    plan = brokers.plan_move("a")
    brokers.refusals["brokers/2", 0] = (code, "")
    with pytest.raises(TopiaristError) as caught:
        brokers.run(plan)
    assert (caught.value.reason, caught.value.hint) == (reason, "no replica was moved")
    assert caught.value.message == f"the throttle of brokers/2 was not written{message}"
    assert brokers.reassignments() == []
    brokers.refusals.clear()
    assert brokers.run(plan) == [Outcome("a", Result.DONE)]
    assert (brokers.throttles(), brokers.records.batch) == ({}, None)


def test_a_broker_that_does_not_describe_its_throttle(brokers: MovingBrokers) -> None:
    """No move is sent: it might copy without a throttle, or with that of another client."""
    plan = brokers.plan_move("a")
    brokers.errors["DescribeConfigs", "1"] = -1
    with pytest.raises(TopiaristError, match="the configs of brokers/1 cannot be read: UNKNOWN_SERVER_ERROR"):
        brokers.run(plan)
    assert brokers.reassignments() == []


@pytest.mark.parametrize(
    ("code", "reason", "message"),
    [
        (29, Reason.NO_PERMISSION, ": it needs AlterConfigs on the topic: TOPIC_AUTHORIZATION_FAILED (29)"),
        (44, Reason.WRITE_FAILED, ": POLICY_VIOLATION (44)"),
        (None, Reason.WRITE_FAILED, ": no answer"),
    ],
)
def test_a_throttle_that_brokers_refuse_one_topic(
    brokers: MovingBrokers, code: int | None, reason: Reason, message: str
) -> None:
    """That topic alone is not moved, with the cause; the others are, and no throttle is left."""
    plan = brokers.plan_move("a", "b")
    brokers.refusals["topics/a", 0] = (code, "")
    outcomes = brokers.run(plan)
    failed = Outcome("a", Result.FAILED, reason, f"the throttle of topics/a was not written{message}")
    assert sorted(outcomes) == [failed, Outcome("b", Result.DONE)]
    assert (brokers.lists("a"), brokers.lists("b")) == ([(1, 2)], [(1, 3)])
    assert (brokers.throttles(), brokers.records.batch) == ({}, None)


@pytest.mark.parametrize("name", ["Metadata", "DescribeConfigs"])
def test_a_topic_that_is_not_described_during_its_moves(brokers: MovingBrokers, name: str) -> None:
    """It ends with its cause, and the others are moved; its throttle stays in the record until it can be put back."""
    plan = brokers.plan_move("a", "b")
    brokers.copies_at_sleep = False

    def hide() -> None:
        brokers.errors |= {(name, "a"): 29, ("DescribeConfigs", "a"): 29}
        brokers.finish()

    refused, moved = sorted(brokers.run(plan, stop=brokers.while_copying(hide)))
    assert (refused.topic, refused.result, refused.reason) == ("a", Result.CONFLICT, Reason.NO_PERMISSION)
    assert "TOPIC_AUTHORIZATION_FAILED (29)" in refused.message
    assert (moved, brokers.lists("b")) == (Outcome("b", Result.DONE), [(1, 3)])
    assert brokers.throttles().keys() == {"topics/a"}
    left = brokers.records.batch
    assert left
    assert left.throttles.keys() == {"topics/a"}
    brokers.errors.clear()
    assert clear_moves(brokers.session, brokers.reader(), brokers.records)
    assert (brokers.throttles(), brokers.records.batch) == ({}, None)


@pytest.mark.parametrize("entity", ["topics/a", "brokers/2"])
def test_a_throttle_that_is_not_put_back(brokers: MovingBrokers, entity: str) -> None:
    """The others are; what is left stays in the record with its values, until a later run puts it back."""
    plan, stop = (
        brokers.plan_move("a", "b"),
        brokers.while_copying(lambda: brokers.refusals.update({(entity, 0): (44, "")})),
    )
    assert sorted(brokers.run(plan, stop=stop)) == [Outcome(name, Result.DONE) for name in "ab"]
    remarks = [each for seen in brokers.seen for each in seen.remarks]
    assert remarks == [f"the throttle of {entity} was not written: POLICY_VIOLATION (44)"]
    assert brokers.throttles().keys() == {entity}
    left = brokers.records.batch
    assert left
    assert left.throttles.keys() == {entity}
    brokers.refusals.clear()
    assert brokers.run(brokers.plan({name: [(1, 3)] for name in "ab"})) == []
    assert (brokers.throttles(), brokers.records.batch) == ({}, None)


def test_a_hidden_topic_of_a_batch_keeps_its_throttles(brokers: MovingBrokers) -> None:
    """What is hidden, and still moves, is in flight: neither the next run nor ``moves clear`` ends its throttles."""
    brokers.create("a", (1, 2))
    brokers.create("b", (1, 2))
    brokers.copies_at_sleep = False
    brokers.run(brokers.plan({"a": [(1, 3)]}), stop=brokers.are_copying)
    plan = brokers.plan({"b": [(1, 2)]})
    kept = {key: dict(value) for key, value in brokers.throttles().items()}
    brokers.errors["Metadata", "a"] = 29
    assert brokers.run(plan, wait=False) == []
    with pytest.raises(TopiaristError, match="1 partition in flight"):
        clear_moves(brokers.session, brokers.reader(), brokers.records)
    assert brokers.throttles() == kept


def test_throttles_that_cannot_be_sent_to_a_broker(brokers: MovingBrokers) -> None:
    """A broker takes its own configs alone: no other one is tried, and the run ends."""
    plan = brokers.plan_move("a")

    def refuse(broker: int, request: Any) -> Any:
        if request.resources[0].resource_type == 4:
            raise NOT_SENT
        return brokers.on_configure(broker, request)

    brokers.session.script["IncrementalAlterConfigs"] = refuse
    with pytest.raises(TopiaristError, match="cannot send to the brokers: the connection was closed") as caught:
        brokers.run(plan)
    assert caught.value.reason is Reason.UNREACHABLE
    sent = [each.broker for each in brokers.session.sent if each.name == "IncrementalAlterConfigs"]
    assert (sent, brokers.session.forgotten) == ([4, 1], 0)


def test_a_broker_that_is_away_before_its_first_throttle(brokers: MovingBrokers) -> None:
    """It has no throttle to put back: each other one gets its own, and a remark names it."""
    plan = brokers.plan_move("a")
    brokers.session.unreachable.add(2)
    records: list[Any] = []

    def stop() -> bool:
        records.append(brokers.records.batch)
        return False

    assert brokers.run(plan, stop=stop) == [Outcome("a", Result.DONE)]
    assert sorted(next(each for each in records if each).throttles) == ["brokers/1", "brokers/3", "topics/a"]
    assert [remark for each in brokers.seen for remark in each.remarks] == [
        "brokers/2: its throttle cannot be changed now: broker 2 cannot be reached"
    ]
    assert brokers.throttles() == {}


def test_a_lost_answer_to_throttles(brokers: MovingBrokers) -> None:
    """The run ends, with three of the topics: it is not known whether they are there; the next one continues."""
    plan = brokers.plan_move(*"abcd")
    brokers.session.script["IncrementalAlterConfigs"] = [LOST, brokers.on_configure]
    with pytest.raises(TopiaristError, match="no answer to the throttles of topics/a, topics/b, topics/c\n") as caught:
        brokers.run(plan)
    assert (caught.value.reason, caught.value.hint) == (Reason.UNREACHABLE, "no replica was moved")
    assert sorted(brokers.run(plan)) == [Outcome(name, Result.DONE) for name in "abcd"]
    assert brokers.throttles() == {}


def test_k21_a_run_that_ends_at_any_request(brokers: MovingBrokers) -> None:
    """The next run, or ``moves clear``, finds every throttle that was written, and nothing is moved twice."""

    class Ended(Exception):
        pass

    brokers.create("a", (1, 2), (2, 1))
    number, is_back = 1, False
    while True:
        targets = [(1, 2), (2, 1)] if is_back else [(3, 2), (2, 3)]
        plan = brokers.plan({"a": targets})
        last = brokers.records.fence_checks + number

        def end(count: int, last: int = last) -> None:
            if count == last:
                raise Ended

        brokers.records.before_fence = end
        try:
            brokers.run(plan, batch=ONE)
        except Ended:
            brokers.records.before_fence = lambda number: None
        else:
            break
        (outcome,) = brokers.run(plan)
        assert outcome.result in (Result.DONE, Result.UNCHANGED), number
        assert (brokers.throttles(), brokers.records.batch) == ({}, None), number
        assert brokers.lists("a") == targets
        number, is_back = number + 1, not is_back
    assert number > 8


def test_a_record_is_given_up_by_its_owner_only(brokers: MovingBrokers) -> None:
    """A run without moves leaves the record of another owner as it is."""
    brokers.create("a", (1, 2))
    record = BatchRecord("other", 1, 1, (), {})
    brokers.records.batch = record
    assert brokers.run(brokers.plan({"a": [(1, 2)]})) == []
    assert brokers.records.batch is record
    assert brokers.records.acquisitions == 0  # nor does the run wait for the lock of that owner


def test_a_record_that_another_owner_writes_at_the_end(brokers: MovingBrokers) -> None:
    """It stays, with its throttles: a run that has done its moves gives up only its own record."""
    brokers.create("a", (1, 2))
    plan, acquire = brokers.plan({"a": [(1, 3)]}), brokers.records.acquire
    other = BatchRecord("other", 1, 1, (), {})

    def take(stop: Callable[[], bool]) -> Records:
        if brokers.records.acquisitions == 1:
            brokers.records.batch = other
        return acquire(stop)

    brokers.records.acquire = take  # type: ignore[method-assign]
    assert brokers.run(plan) == [Outcome("a", Result.DONE)]
    assert brokers.records.batch is other
    assert brokers.throttles()


def test_the_last_run_waits_for_the_lock(brokers: MovingBrokers) -> None:
    """Neither the end of a stopped run, nor a record that is cleared, is given up because another run is writing."""
    plan = interrupted(brokers)
    brokers.finish()
    brokers.run(plan, stop=lambda: True)
    assert not brokers.records.stop()
    assert (brokers.throttles(), brokers.records.batch) == ({}, None)
    brokers.records.batch = BatchRecord(OWNER, 1, 1, (), {})
    assert clear_moves(brokers.session, brokers.reader(), brokers.records)
    assert not brokers.records.stop()
    brokers.records.batch, brokers.records.read = None, lambda: Records(moves=BatchRecord(OWNER, 1, 1, (), {}))  # type: ignore[method-assign]
    acquire = brokers.records.acquire
    brokers.records.acquire = lambda stop: acquire(stop)._replace(moves=None)  # type: ignore[method-assign]
    assert clear_moves(brokers.session, brokers.reader(), brokers.records) is None
    assert not brokers.records.is_acquired
