"""``topiarist nudge`` with real controllers: a topic that the controller missed because of an undecodable znode."""

from __future__ import annotations

import json
import time

from support.cli.runs import run_topiarist
from support.kafka.kafka_fixture import KafkaFixture
from topiarist.errors import Exit

LOST = ("nudged", "nudged-too")
ASSIGNMENT = {"version": 2, "partitions": {"0": [1, 2], "1": [2, 3]}, "adding_replicas": {}, "removing_replicas": {}}
ODD = b'{"version":2,"partitions":{"0":["x"]},"adding_replicas":{},"removing_replicas":{}}'
LONG_ENOUGH = 3.0
"""Seconds within which a controller that reads a topic would have initialized it."""


def test_a_topic_that_the_controller_has_lost_is_taken_over(bare: KafkaFixture) -> None:
    """Only ``nudge`` makes the controller initialize the missed topic, and brokers then host it.

    The removal of the undecodable znode does not, and neither does another topic next to it.
    """
    client = bare.kafka.client
    transaction = client.transaction()
    for name in LOST:
        transaction.create(f"/config/topics/{name}", b'{"version":1,"config":{}}')
        transaction.create(f"/brokers/topics/{name}", json.dumps(ASSIGNMENT).encode())
    transaction.create("/brokers/topics/nudged-odd", ODD)
    assert not [result for result in transaction.commit() if isinstance(result, Exception)]
    time.sleep(LONG_ENOUGH)
    client.delete("/brokers/topics/nudged-odd")
    time.sleep(LONG_ENOUGH)
    assert not [name for name in LOST if client.exists(f"/brokers/topics/{name}/partitions/0/state")]
    where = ("--zookeeper", bare.kafka.connect, "--yes")
    said = run_topiarist("nudge", *LOST, *where)
    assert said.code == Exit.DONE, said
    described = bare.describe_in_sync(LOST)
    assert all(topic is not None and len(topic.partitions) == 2 for topic in described.values())
    again = run_topiarist("nudge", *LOST, *where)
    assert (again.code, again.err.count("no nudge is needed")) == (Exit.DONE, 2)
    client.create("/admin/delete_topics/nudged", b"")
    client.create("/admin/delete_topics/nudged-too", b"")
    bare.kafka.wait(lambda: not any(client.exists(f"/brokers/topics/{name}") for name in LOST), "the topics to go")
