"""Replicas of real brokers that hold data, moved by one plan, while a producer and a consumer are at work."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from brokers.moves_fixture import FETCH_BYTES, MESSAGE, RECORD, Lists, MovesFixture, Traffic, check_done, check_traffic

RATE, THROTTLE = 1_048_576, "1MiB"
"""The throttle of the test that measures a copy: in bytes a second, and as the manifest has it."""

WINDOW_S = 11
"""Seconds over which Kafka averages the bytes of a throttled copy."""


def described_lists(moves: MovesFixture, topic: str) -> Lists:
    """Return the lists that Kafka's ``kafka-topics --describe`` shows."""
    words = ("--bootstrap-server", moves.kafka.bootstrap, "--describe", "--topic", topic)
    said = moves.kafka.tool("kafka-topics", *words)
    assert said.code == 0, said
    found = re.findall(r"Partition: (\d+)\s.*Replicas: ([\d,]+)", said.out)
    by_partition = {int(partition): tuple(map(int, replicas.split(","))) for partition, replicas in found}
    return tuple(by_partition[partition] for partition in range(len(by_partition)))


@pytest.mark.core
def test_one_plan_with_every_kind_of_move(moves: MovesFixture) -> None:
    """A raise, a lower, a drain, a rack repair and a reorder: the lists are those of the plan, also by Kafka's own
    ``--describe``; the producer sees no error, the consumer loses no message, and a second run writes nothing.
    """
    before: dict[str, Lists] = {
        "kinds-raised": ((1, 2), (2, 3), (3, 2)),
        "kinds-lowered": ((1, 2, 3), (2, 1, 3), (3, 2, 1)),
        "kinds-drained": ((4, 1), (2, 1), (1, 4)),
        "kinds-racked": ((1, 3), (1, 2), (3, 1)),
        "kinds-reordered": ((1, 2), (2, 3), (2, 1)),
    }
    moves.create(before, messages=3)
    factors = {"kinds-raised": 3, "kinds-lowered": 2, "kinds-drained": 2, "kinds-racked": 2}
    topics: dict[str, dict[str, object]] = {
        name: {"partitions": 3, "replicationFactor": factor} for name, factor in factors.items()
    }
    topics["kinds-reordered"] = {"replicaAssignment": [[2, 1], [2, 3], [1, 2]]}
    moves.declare(topics, drain=[4], batch=3)
    after = moves.plan_lists(before)
    assert all(after[name] != lists for name, lists in before.items())
    with Traffic(moves.kafka.bootstrap, {name: len(lists) for name, lists in before.items()}) as traffic:
        moves.bed.apply_plan()
        rounds = traffic.rounds
        moves.kafka.wait(lambda: traffic.rounds > rounds, "one more message after the moves")
    check_traffic(traffic)
    moves.check_lists(after)
    assert {name: described_lists(moves, name) for name in after} == after
    assert after["kinds-lowered"] == ((1, 2), (2, 1), (3, 2))
    assert not [name for name, lists in after.items() if any(4 in replicas for replicas in lists)]
    writes = moves.kafka.client.get("/topiarist")[1].pzxid
    said = moves.apply()
    check_done(said)
    assert "Applied: nothing to do" in said.out, said
    assert moves.kafka.client.get("/topiarist")[1].pzxid == writes


def sample_size(log: Path) -> tuple[float, int]:
    """Return the time, and the bytes of a partition's segments; 0 if there is no log yet."""
    return time.monotonic(), sum(path.stat().st_size for path in log.glob("*.log"))


@pytest.mark.night(area="moves")
def test_bytes_under_a_throttle(moves: MovesFixture, release: str, report: Callable[[str], None]) -> None:
    """A copy is never faster than the declared rate, measured by the size of the follower's log.

    Kafka compares the rate with the average of the last 11 seconds: after a pause, the bytes of 11 seconds may be
    copied at once. How slow a copy may be is the machine's affair, so the rate is reported.
    """
    size = 24 * RATE
    moves.create({"rated": ((1, 2),)}, messages=size // len(MESSAGE))
    moves.declare({"rated": {"replicaAssignment": [[1, 3]]}}, throttle=THROTTLE)
    log = moves.kafka.brokers[3].folder / "data" / "rated-0"
    samples: list[tuple[float, int]] = []
    process = moves.start()

    def has_copied() -> bool:
        samples.append(sample_size(log))
        return process.poll() is not None

    moves.kafka.wait(has_copied, "the copy to end")
    check_done(moves.finish(process))
    assert samples[-1][1] >= size
    for index, (began, before) in enumerate(samples):
        fastest = max(now_size - before - 1.1 * RATE * (now - began + WINDOW_S) for now, now_size in samples[index:])
        assert fastest <= 0
    first = next(sample for sample in samples if sample[1] >= 12 * RATE)
    last = next(sample for sample in samples if sample[1] >= 23 * RATE)
    rate = (last[1] - first[1]) / max(last[0] - first[0], 0.001)
    report(f"Kafka {release}: {rate:,.0f} bytes/s under a throttle of {RATE:,} (fetches of {FETCH_BYTES:,} bytes)")
    assert moves.kafka.client.exists(RECORD) is None
    moves.check_lists({"rated": ((1, 3),)})
