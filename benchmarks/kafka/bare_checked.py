"""The least work of creations that keep their promises, as a process: one checked transaction for each topic.

Usage: ``python -m benchmarks.kafka.bare_checked CONNECT WANTED.json``. It does what ``bare`` does for topics that do
not exist, but config, topic and the record of its owner are one transaction, which fails if the controller has changed.
It compares nothing, plans nothing and has no lock.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kazoo.client import KazooClient

from benchmarks.kafka.bare import Topics, assign_replicas, encode_json
from topiarist.adapters.zookeeper.codec import paths


def create_topics(client: KazooClient, wanted: Topics) -> None:
    """Create all topics; raise the first error of a transaction."""
    brokers = sorted(map(int, client.get_children("/brokers/ids")))
    epoch = client.get(paths.CONTROLLER_EPOCH)[1].version
    client.ensure_path(paths.RECORDS)
    answers = []
    for name, topic in wanted.items():
        lists = assign_replicas(name, 0, topic["partitions"], topic["replicationFactor"], brokers)
        node = {"version": 3, "partitions": lists, "adding_replicas": {}, "removing_replicas": {}}
        transaction = client.transaction()
        transaction.check(paths.CONTROLLER_EPOCH, epoch)
        transaction.create(paths.config_path(name), encode_json({"version": 1, "config": topic["config"]}))
        transaction.create(paths.topic_path(name), encode_json(node))
        transaction.create(paths.record_path(name), encode_json({"owner": "none"}))
        answers.append(transaction.commit_async())
    for answer in answers:
        for result in answer.get():
            if isinstance(result, Exception):
                raise result


if __name__ == "__main__":
    session = KazooClient(sys.argv[1])
    session.start()
    create_topics(session, json.loads(Path(sys.argv[2]).read_text()))
    session.stop()
    session.close()
