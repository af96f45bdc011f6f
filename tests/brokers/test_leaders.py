"""Elections of preferred leaders with real controllers: after a restart of a broker, and while one is away."""

from __future__ import annotations

import json

from support.kafka.kafka_fixture import KafkaFixture
from topiarist.errors import Exit

REQUEST = "/admin/preferred_replica_election"
LISTS = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2]]


def _leaders(bed: KafkaFixture) -> list[int]:
    """Return the leader of each partition as the controller has written it."""
    states = (bed.kafka.client.get(f"/brokers/topics/led/partitions/{number}/state")[0] for number in range(4))
    return [json.loads(state)["leader"] for state in states]


def _restart(bed: KafkaFixture, broker: int) -> None:
    """Restart a broker, and wait until its replicas are in sync: other brokers then lead its partitions."""
    bed.kafka.restart(broker)
    bed.describe_in_sync(["led"])


def test_leaders_are_elected_after_a_restart(bare: KafkaFixture) -> None:
    """The plan has the partitions of the broker, the controller elects them, and no request is left.

    While a broker is away its partitions are not listed; the controller gives such an entry up without a message.
    """
    bed = bare
    bed.declare({"led": {"replicaAssignment": LISTS}}, moves={"allow": ["Leaders"], "stallAfter": "1m"})
    bed.apply("--wait")
    bed.describe_in_sync(["led"])
    assert (_leaders(bed), bed.plan()) == ([1, 2, 3, 1], {})
    _restart(bed, 1)
    (change,) = bed.plan()["led"]
    assert (change["kind"], change["risk"]) == ("ElectLeaders", "Disruptive")
    assert [(each["partition"], each["after"]) for each in change["partitions"]] == [(0, 1), (3, 1)]
    bed.apply_plan()
    assert (_leaders(bed), bed.kafka.client.exists(REQUEST)) == ([1, 2, 3, 1], None)
    assert bed.plan() == {}

    _restart(bed, 2)
    bed.kafka.stop(1)
    bed.kafka.wait(lambda: 1 not in _leaders(bed), "other leaders than broker 1")
    (change,) = bed.plan()["led"]
    assert [(each["partition"], each["after"]) for each in change["partitions"]] == [(1, 2)]
    planned = bed.run("plan").out
    assert "the first replica of 2 partitions cannot be elected as leader" in " ".join(planned.split())
    entry = {"topic": "led", "partition": 0}
    bed.kafka.client.create(REQUEST, json.dumps({"version": 1, "partitions": [entry]}).encode())
    bed.kafka.wait(lambda: bed.kafka.client.exists(REQUEST) is None, "the end of the election")
    assert _leaders(bed)[0] != 1
    bed.apply_plan()
    assert _leaders(bed)[1] == 2
    bed.kafka.start(1)
    bed.describe_in_sync(["led"])
    said = bed.run("apply", "--yes")
    assert said.code == Exit.DONE, said
    assert _leaders(bed) == [1, 2, 3, 1]
