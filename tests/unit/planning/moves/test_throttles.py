"""Throttle configs by value: what another client set stays, to the byte; and the cause of a stall."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topiarist.errors import Reason
from topiarist.kafka.config_table import RATE_CONFIGS
from topiarist.kafka.types import Replicas
from topiarist.model.moves import UNLIMITED, BatchRecord, OwnThrottles, OwnValue, ReplicaMove, RequestedReassignment
from topiarist.model.state import Reassignment
from topiarist.planning.moves.throttles import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    PartitionInFlight,
    StallWatch,
    explain_stall,
    find_added,
    find_blocker,
    find_needed_throttles,
    find_present_throttles,
    find_stuck_entry,
    update_throttles,
)

TOPIC, BROKER = "topics/orders", "brokers/3"
RATE = RATE_CONFIGS[0]
MOVES = (ReplicaMove("orders", 0, (1, 2), (3, 2)), ReplicaMove("orders", 1, (2, 1), (1, 2)))


def test_a_batch_needs_lists_and_rates_for_what_it_copies() -> None:
    """Partition 1 is only reordered, so it is not throttled."""
    assert find_needed_throttles(MOVES, 1000) == {
        TOPIC: {LEADER_REPLICAS: "0:1,0:2", FOLLOWER_REPLICAS: "0:3"},
        **{f"brokers/{broker}": dict.fromkeys(RATE_CONFIGS, "1000") for broker in (1, 2, 3)},
    }
    assert find_needed_throttles(MOVES, UNLIMITED) == {}
    assert find_needed_throttles(MOVES[1:], 1000) == {}


@pytest.mark.parametrize(
    ("theirs", "after"),
    [(None, "0:3"), ("", "0:3"), ("7:1", "7:1,0:3"), ("*", "*"), ("0:3,7:1", "0:3,7:1"), ("0:31", "0:31,0:3")],
)
def test_their_list_stays_and_comes_back_to_the_byte(theirs: str | None, after: str) -> None:
    """Ours is added; at the end theirs is as it was."""
    before = {"segment.ms": "7"} | ({} if theirs is None else {FOLLOWER_REPLICAS: theirs})
    needed = {TOPIC: {FOLLOWER_REPLICAS: "0:3"}}
    begun = update_throttles(needed, {TOPIC: before}, {})
    config = begun.configs.get(TOPIC, before)
    assert config == {"segment.ms": "7", FOLLOWER_REPLICAS: after}
    ended = update_throttles({}, {TOPIC: config}, begun.own, final=True)
    assert (ended.configs.get(TOPIC, config), ended.own, ended.remarks) == (before, {}, ())


def test_the_next_batch_replaces_our_list_and_keeps_our_rates() -> None:
    """A broker without a part in the next batch keeps its rate until the end."""
    first = update_throttles({TOPIC: {FOLLOWER_REPLICAS: "0:3"}, BROKER: {RATE: "9"}}, {TOPIC: {}, BROKER: {}}, {})
    second = update_throttles({TOPIC: {FOLLOWER_REPLICAS: "5:4"}}, first.configs, first.own)
    assert second.configs == {TOPIC: {FOLLOWER_REPLICAS: "5:4"}}
    assert second.own == {TOPIC: {FOLLOWER_REPLICAS: OwnValue(None, "5:4")}, BROKER: {RATE: OwnValue(None, "9")}}
    ended = update_throttles({}, {**first.configs, **second.configs}, second.own, final=True)
    assert ended.configs == {TOPIC: {}, BROKER: {}}


def test_a_list_of_ours_goes_with_its_batch_and_a_rate_of_theirs_stays_as_it_is() -> None:
    """Before a batch that does not need them: our list is removed, and a rate that a user changed is theirs."""
    own = {TOPIC: {FOLLOWER_REPLICAS: OwnValue("7:1", "7:1,0:3")}, BROKER: {RATE: OwnValue("2", "9")}}
    current = {TOPIC: {FOLLOWER_REPLICAS: "7:1,0:3"}, BROKER: {RATE: "5"}}
    update = update_throttles({}, current, own)
    assert (update.configs, update.own) == ({TOPIC: {FOLLOWER_REPLICAS: "7:1"}}, {})


def test_a_value_of_theirs_that_was_removed_does_not_come_back() -> None:
    """The value of before is put back only if ours is still there."""
    own = {TOPIC: {FOLLOWER_REPLICAS: OwnValue("7:1", "7:1,0:3")}, BROKER: {RATE: OwnValue("2", "9")}}
    update = update_throttles({}, {TOPIC: {}, BROKER: {}}, own, final=True)
    assert (update.configs, update.own) == ({}, {})


def test_another_rate_replaces_ours_and_never_theirs() -> None:
    """A later run may raise the rate; a rate that a user set stays, with a remark."""
    ours = {BROKER: {RATE: OwnValue(None, "9")}}
    raised = update_throttles({BROKER: {RATE: "20"}}, {BROKER: {RATE: "9"}}, ours)
    assert raised.configs == {BROKER: {RATE: "20"}}
    assert raised.own == {BROKER: {RATE: OwnValue(None, "20")}}
    theirs = update_throttles({BROKER: {RATE: "20"}}, {BROKER: {RATE: "5"}}, {})
    assert (theirs.configs, theirs.own) == ({}, {})
    assert theirs.remarks == (f"{BROKER}: {RATE} is 5 already, and stays",)


def test_a_value_that_another_client_changed_is_theirs() -> None:
    """It is not put back at the end; one that was removed is set again by the next batch."""
    own = {BROKER: {RATE: OwnValue(None, "9")}}
    changed = update_throttles({}, {BROKER: {RATE: "5"}}, own, final=True)
    assert (changed.configs, changed.own) == ({}, {})
    assert changed.remarks == (f"{BROKER}: another client changed {RATE} to 5",)
    removed = update_throttles({BROKER: {RATE: "9"}}, {BROKER: {}}, own)
    assert removed.configs == {BROKER: {RATE: "9"}}
    assert removed.remarks == (f"{BROKER}: another client changed {RATE} to no value",)


def test_a_deleted_topic_is_forgotten_with_a_remark() -> None:
    """Nothing is written: its configs were deleted with it."""
    gone = update_throttles({}, {}, {TOPIC: {FOLLOWER_REPLICAS: OwnValue(None, "0:3")}}, final=True)
    assert gone == ({}, {}, (f"{TOPIC} was deleted, with its throttle",))


_LISTS = st.lists(st.sampled_from(["0:1", "0:2", "1:1", "1:2"]), min_size=1, unique=True).map(",".join)
_THEIRS = st.one_of(st.none(), st.just("*"), _LISTS)


@given(st.dictionaries(st.sampled_from([LEADER_REPLICAS, FOLLOWER_REPLICAS]), _THEIRS), st.lists(_LISTS, max_size=4))
def test_after_any_batches_everything_is_as_before(theirs: Mapping[str, str | None], batches: list[str]) -> None:
    """Whatever the lists of the batches were, and whatever another client had set."""
    before = {key: text for key, text in theirs.items() if text is not None}
    config, own = before, {}  # type: Mapping[str, str], Mapping[str, Mapping[str, OwnValue]]
    for added in batches:
        update = update_throttles({TOPIC: {LEADER_REPLICAS: added}}, {TOPIC: config}, own)
        config, own = update.configs.get(TOPIC, config), update.own
        assert config[LEADER_REPLICAS] == "*" or set(added.split(",")) <= set(config[LEADER_REPLICAS].split(","))
    ended = update_throttles({}, {TOPIC: config}, own, final=True)
    assert (ended.configs.get(TOPIC, config), ended.own) == (before, {})


STEPS = st.lists(st.tuples(st.lists(st.sampled_from(["0:3", "1:3", "2:3"]), max_size=3, unique=True), st.booleans()))


@given(st.sampled_from([None, "7:1", "*", "0:3"]), STEPS)
def test_records_that_come_before_their_throttles_lose_none(
    theirs: str | None, steps: list[tuple[list[str], bool]]
) -> None:
    """Each step commits its record; some end before the throttle is written. At the end theirs is as it was."""
    before: Mapping[str, str] = {} if theirs is None else {FOLLOWER_REPLICAS: theirs}
    config = before
    record = BatchRecord("team", 1, 1, (), {})
    for lists, is_written in steps:
        needed = {TOPIC: {FOLLOWER_REPLICAS: ",".join(lists)}} if lists else {}
        present: OwnThrottles = find_present_throttles({TOPIC: config}, record)
        update = update_throttles(needed, {TOPIC: config}, present)
        assert update.remarks == ()
        record = record._replace(throttles=update.own, replaced=present)
        if is_written:
            config = update.configs.get(TOPIC, config)
    ended = update_throttles({}, {TOPIC: config}, find_present_throttles({TOPIC: config}, record), final=True)
    assert (ended.configs.get(TOPIC, config), ended.remarks) == (before, ())


def test_a_value_of_another_client_is_not_taken_for_ours() -> None:
    """It stays, with a remark."""
    record = BatchRecord(
        "team", 1, 1, (), {BROKER: {RATE: OwnValue(None, "1000")}}, {BROKER: {RATE: OwnValue(None, "5")}}
    )
    for found, ours in (("1000", "1000"), ("5", "5")):
        assert find_present_throttles({BROKER: {RATE: found}}, record) == {BROKER: {RATE: OwnValue(None, ours)}}
    assert find_present_throttles({BROKER: {}}, record) == {}
    present = find_present_throttles({BROKER: {RATE: "77"}}, record)
    update = update_throttles({}, {BROKER: {RATE: "77"}}, present, final=True)
    assert (update.configs, update.own) == ({}, {})
    assert update.remarks == (f"{BROKER}: another client changed {RATE} to 77",)


COPYING = PartitionInFlight("orders", 0, (1, 4), (4,), (1,))
UNSYNCED = PartitionInFlight("orders", 1, (2, 4), (4,), (4,))
IN_SYNC = PartitionInFlight("orders", 2, (1, 4), (4,), (1, 4))


@pytest.mark.parametrize(
    ("present", "reassignment", "added"),
    [((1, 2), None, (4,)), ((1, 4, 2), Reassignment((4,), (2,)), (4,)), ((4, 1), None, ())],
)
def test_added_brokers_are_known_before_the_controller_begins(
    present: Replicas, reassignment: Reassignment | None, added: Replicas
) -> None:
    """A broker that will copy is no kept replica, also before the controller has begun with the entry."""
    assert find_added((1, 4), present, reassignment) == added


def test_copies_are_no_blocker() -> None:
    """An added broker that is registered and lags blocks nothing: it copies."""
    assert find_blocker([COPYING, IN_SYNC], {1, 2, 4}) == ""


def test_an_offline_broker_is_named_first() -> None:
    """A broker that is not registered precedes a kept replica that is not in sync."""
    blocker = find_blocker([UNSYNCED, COPYING], {1, 2})
    assert blocker == "broker 4 is not registered: partition orders 0 waits for it"


def test_a_kept_replica_out_of_sync_is_a_blocker() -> None:
    """All partitions that wait for one broker are counted, and the first is named."""
    other = UNSYNCED._replace(partition=3)
    blocker = find_blocker([UNSYNCED, other], {1, 2, 4})
    assert blocker == "broker 2 keeps a replica that is not in sync: 2 partitions wait for it (orders 1 is the first)"


@pytest.mark.parametrize(("rate", "throttled"), [(1_000_000, True), (UNLIMITED, False), (None, False)])
def test_a_stall_names_the_throttle(rate: int | None, throttled: bool) -> None:
    """Copies without a blocker are slow or throttled; the rate is named if there is one."""
    cause = explain_stall([COPYING, IN_SYNC], {1, 4}, rate)
    assert cause.startswith("broker 4 has not copied all of 1 partition yet")
    assert ("1,000,000 bytes/s" in cause) == throttled


def test_a_reassignment_that_the_controller_does_not_end() -> None:
    """If all replicas are in sync, only the log of the controller has the cause."""
    assert "read its log" in explain_stall([IN_SYNC], {1, 4}, None)


@pytest.mark.parametrize(
    ("replicas", "exists", "is_younger", "stuck"),
    [
        ((1, 4), True, False, ""),
        ((1, 4), False, False, "orders, partition 0"),
        ((1, 4), True, True, "orders, partition 0"),
        ((1, 1), True, False, "a broker twice"),
    ],
)
def test_entries_that_the_controller_never_removes(
    replicas: Replicas, exists: bool, is_younger: bool, stuck: str
) -> None:
    """The entry of a deleted or recreated topic stays, and so does a target with a broker twice."""
    found = find_stuck_entry(RequestedReassignment("orders", 0, replicas), exists=exists, is_younger=is_younger)
    assert stuck in found
    assert bool(found) == bool(stuck)


def test_progress_moves_the_deadline() -> None:
    """Fewer partitions, or fewer replicas that lag, are progress; the same again is none. A reset begins a new time."""
    watch = StallWatch(10, 1000)
    found = [([COPYING, COPYING], 0), ([COPYING, IN_SYNC], 9), ([COPYING], 18), ([COPYING], 27.9)]
    assert not any(watch.is_stalled(len(each), each, now) for each, now in found)
    assert watch.is_stalled(1, [COPYING], 28)
    error = watch.error([COPYING], {1, 2, 4})
    assert error.reason is Reason.MOVES_STALLED
    assert "no progress for 10 s: broker 4 has not copied all of 1 partition yet" in str(error)
    assert "2 partitions in flight" in str(watch.error([COPYING, IN_SYNC], {1, 2, 4}))
    watch.reset()
    assert not watch.is_stalled(2, [COPYING, COPYING], 29)
    assert watch.deadline == 39
