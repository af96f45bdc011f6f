"""The status of moves as text, and their progress in one line."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from topiarist.inspection.moves import MoveStatus, MovingPartition, RecordedThrottle, Throttle
from topiarist.model.moves import BatchRecord, MoveProgress, OwnValue, ReplicaMove
from topiarist.output.moves import (
    encode_statuses,
    format_elapsed,
    format_move_progress,
    format_recorded_throttles,
    format_statuses,
)
from topiarist.output.text.layout import TextLayout
from topiarist.schema.load import first_error

RATE = "leader.replication.throttled.rate"
BATCH = BatchRecord("team", 2, 3, (ReplicaMove("orders", 0, (1, 2, 3), (4, 2, 3)),), {})
OWN = MovingPartition("orders", 0, (4, 2, 3), (4,), (4, 3))
FOREIGN = MovingPartition("clicks", 1, (5, 6), None, None, is_requested=False)
SENT, CHANGED, NOW = 1_000_000, 2_000_000, 2_060_000
IDLE = MoveStatus("prod", "7sYk")
FULL = replace(
    IDLE,
    warnings=("a broker is offline",),
    batch=BATCH,
    batch_at_ms=SENT,
    changed_at_ms=CHANGED,
    own=(OWN,),
    foreign=(FOREIGN,),
    blocker="broker 4 is not registered",
    stuck=("orders 9: no such partition",),
    throttles=(
        RecordedThrottle("broker 1", RATE, None, "50", "50"),
        RecordedThrottle("broker 2", RATE, "7", "50", "50"),
        RecordedThrottle("broker 3", RATE, None, "50", "60"),
        RecordedThrottle("broker 4", RATE, None, "50", None),
    ),
    unexplained=(Throttle("broker 3", RATE, "60"), Throttle("broker 9", RATE, "1")),
)
TEXT = """\
prod   cluster 7sYk
  warning          a broker is offline
  batch            2 of 3 by owner team, 1 partition, sent 1970-01-01T00:16:40Z, 17m 40s ago
  1 left           orders 0  to [4, 2, 3]: not yet copied to broker 4, broker 3 not in sync
  foreign          clicks 1  to [5, 6] (Admin API): no partition state
  last change      1970-01-01T00:33:20Z, 1m ago
  waits            broker 4 is not registered
  ! stuck          orders 9: no such partition
  throttle         2 values of the batch set; before: 1 with a value of another client, which is put back
  changed          broker 3 leader.replication.throttled.rate: topiarist set 50, and it is 60 now; it stays
  changed          broker 4 leader.replication.throttled.rate: topiarist set 50, and it is not set now; it stays
  throttle         broker 9 leader.replication.throttled.rate = 1: not set by a batch of topiarist
"""


def shown(*statuses: MoveStatus, now: int = NOW, verbose: bool = False) -> str:
    return format_statuses(statuses, now, TextLayout(width=140, verbose=verbose))


def test_a_status_has_a_line_for_each_kind() -> None:
    """The lines go from the batch over its partitions to what keeps them and to the throttles."""
    text = shown(FULL)
    assert text.startswith(TEXT)
    assert text.removeprefix(TEXT).startswith("Stuck: ")
    assert shown(IDLE, IDLE) == "prod   cluster 7sYk\nNothing moves.\n\nprod   cluster 7sYk\nNothing moves.\n"
    assert shown() == ""


CONCLUSIONS = {
    "stuck": (FULL, "Stuck: the controller never ends the request"),
    "own": (replace(FULL, stuck=()), "Moving: 1 partition left of the batch; apply waits for it."),
    "foreign": (replace(IDLE, foreign=(FOREIGN,)), "Another client moves replicas: apply waits for it."),
    "request": (replace(IDLE, changed_at_ms=CHANGED), "Another client moves replicas: apply waits for it."),
    "throttles": (
        replace(IDLE, batch=BATCH, throttles=FULL.throttles),
        "The batch is done, and its throttles are left",
    ),
    "record": (replace(IDLE, batch=BATCH), "The batch is done, and its record is left: unless an apply is running"),
    "idle": (IDLE, "Nothing moves."),
}


@pytest.mark.parametrize(("status", "words"), CONCLUSIONS.values(), ids=CONCLUSIONS)
def test_the_last_sentence_is_the_next_step(status: MoveStatus, words: str) -> None:
    """What needs a person comes first, then what apply waits for, then what a run has left."""
    assert f"\n{words}" in shown(status)


PARTITIONS = {
    "in sync": (OWN._replace(lagging=()), "all in sync"),
    "copies": (OWN._replace(lagging=(4,)), "not yet copied to broker 4"),
    "several": (OWN._replace(adding=(4, 5), lagging=(4, 5)), "not yet copied to brokers 4, 5"),
    "lags": (OWN._replace(lagging=(3,)), "broker 3 not in sync"),
    "no state": (OWN._replace(lagging=None), "no partition state"),
}


@pytest.mark.parametrize(("partition", "words"), PARTITIONS.values(), ids=PARTITIONS)
def test_a_partition_says_what_it_waits_for(partition: MovingPartition, words: str) -> None:
    """A broker that copies is told from a broker that already had a replica and is behind."""
    assert f"  1 left           orders 0  to [4, 2, 3]: {words}\n" in shown(replace(IDLE, own=(partition,)))


@pytest.mark.parametrize(("count", "lines"), [(20, 20), (21, 19)])
def test_many_partitions_are_counted(count: int, lines: int) -> None:
    """Up to twenty are shown; of more, nineteen and the number of the others, or all with ``--verbose``."""
    status = replace(IDLE, foreign=tuple(FOREIGN._replace(partition=number) for number in range(count)))
    text = shown(status)
    assert text.count("clicks") == lines
    assert ("2 more (-v shows them)" in text) is (count > lines)
    assert shown(status, verbose=True).count("clicks") == count


def test_throttles_are_listed_on_request() -> None:
    """With ``--verbose`` each value of the batch is listed; a value of another client is put back."""
    kept = replace(IDLE, throttles=FULL.throttles[:1])
    assert "  throttle         1 value of the batch set; before: none\n" in shown(kept)
    assert f"broker 1 {RATE}  50" not in shown(kept)
    assert f"broker 1 {RATE}  50\n" in shown(kept, verbose=True)
    befores = {"broker 1": None, "broker 2": "7"}
    record = BATCH._replace(throttles={entity: {RATE: OwnValue(each, "50")} for entity, each in befores.items()})
    assert format_recorded_throttles(record, TextLayout(64)) == (
        f"  broker 1 {RATE}  50 -> not set\n  broker 2 {RATE}  50 -> 7"
    )
    whole = f"  broker 2 {RATE}  50 -> 7"
    for width, lines in ((len(whole), 1), (len(whole) - 1, 2)):
        last = BATCH._replace(throttles={"broker 2": record.throttles["broker 2"]})
        assert len(format_recorded_throttles(last, TextLayout(width)).splitlines()) == lines


def test_a_cluster_without_a_name_goes_by_its_id() -> None:
    """Nothing stands before the id."""
    assert shown(MoveStatus("", "7sYk")) == "cluster 7sYk\nNothing moves.\n"


def test_a_clock_that_is_ahead_gives_no_negative_age() -> None:
    """The age of a change that the server dates after the present time is zero."""
    assert "1970-01-01T00:33:20Z, 0s ago" in shown(FULL, now=CHANGED - 5_000)
    assert "1970-01-01T00:33:20Z, 0s ago" in shown(FULL, now=CHANGED)


def test_the_document_has_the_same_facts() -> None:
    """The JSON document is valid by its schema, and has each partition, throttle and time of the text."""
    document = encode_statuses([FULL, IDLE])
    assert first_error("moves", document) == ""
    assert document["formatVersion"] == 1
    full, idle = document["clusters"]
    assert full["batch"] == {
        **{"owner": "team", "batch": 2, "batches": 3, "partitions": 1},
        "sentAt": "1970-01-01T00:16:40.000+00:00",
    }
    assert full["requestChangedAt"] == "1970-01-01T00:33:20.000+00:00"
    assert full["partitions"] == [
        {"topic": "orders", "partition": 0, "target": [4, 2, 3], "adding": [4], "lagging": [4, 3]}
        | {"own": True, "requested": True},
        {"topic": "clicks", "partition": 1, "target": [5, 6], "adding": None, "lagging": None}
        | {"own": False, "requested": False},
    ]
    assert (full["name"], full["clusterId"], full["warnings"]) == ("prod", "7sYk", ["a broker is offline"])
    assert (full["blocker"], full["stuck"]) == ("broker 4 is not registered", ["orders 9: no such partition"])
    assert full["throttles"][1] == {"entity": "broker 2", "config": RATE, "before": "7", "ours": "50", "now": "50"}
    assert full["unexplainedThrottles"][1] == {"entity": "broker 9", "config": RATE, "value": "1"}
    assert (idle["batch"], idle["requestChangedAt"], idle["partitions"]) == (None, None, [])


COPYING = (
    ReplicaMove("orders", 0, (1, 2), (4, 2)),
    ReplicaMove("orders", 1, (1, 3), (4, 3)),
    ReplicaMove("orders", 2, (2, 3), (6, 3)),
)


def test_the_line_of_a_batch() -> None:
    """The line has the batch, the partitions, each pair of brokers with its number of copies, and both durations."""
    line = format_move_progress(MoveProgress(2, 3, 9, 12, COPYING), 200.0, 100.0)
    assert line == ("batch 2 of 3: 9 of 12 partitions, 3 copying (4 <- 1: 2, 6 <- 2: 1), 3m 20s, about 1m 40s left")


def test_many_pairs_are_counted() -> None:
    """Of more than four pairs of brokers the busiest are listed."""
    moves = tuple(ReplicaMove("orders", broker, (broker, 2), (9, 2)) for broker in range(10, 17))
    line = format_move_progress(MoveProgress(1, 1, 0, 7, moves), 0.0, None)
    assert "7 copying (9 <- 10: 1, 9 <- 11: 1, 9 <- 12: 1, 9 <- 13: 1, 3 more), 0s" in line


def test_a_cause_of_waiting_replaces_the_brokers() -> None:
    """The cause is at the end; the brokers that copy would push it out of the terminal."""
    progress = MoveProgress(1, 1, 0, 3, COPYING, waiting_for="broker 4 is not registered\x1b[2J")
    line = format_move_progress(progress, 61.0, None)
    assert line == "batch 1 of 1: 0 of 3 partitions, 3 copying, 1m 1s; waiting: broker 4 is not registered\\x1b[2J"


def test_moves_without_copies_and_a_batch_of_an_earlier_run() -> None:
    """A reorder copies nothing; before the first batch of this run no batch is named."""
    reorder = ReplicaMove("orders", 0, (1, 2), (2, 1))
    assert format_move_progress(MoveProgress(0, 2, 0, 4, (reorder,)), 1.0, None) == (
        "moves: 0 of 4 partitions, 1 in progress, 1s"
    )


def test_a_run_without_moves_of_its_own() -> None:
    """A run that only waits for an earlier batch has no count of partitions."""
    progress = MoveProgress(0, 0, 0, 0, waiting_for="batch 1 of 3 of an earlier run: 2 partitions left")
    assert format_move_progress(progress, 5.0, None) == (
        "moves: 5s; waiting: batch 1 of 3 of an earlier run: 2 partitions left"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.9, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (200, "3m 20s"),
        (3_600, "1h"),
        (7500, "2h 5m"),
        (86_400, "1d"),
        (90_061, "1d 1h"),
    ],
)
def test_durations_have_their_two_largest_units(seconds: float, text: str) -> None:
    """A duration is rounded down."""
    assert format_elapsed(seconds) == text
