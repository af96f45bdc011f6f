"""A process that commits records in a loop, for tests of several runs on one cluster.

    python -m support.kafka.records_process BOOTSTRAP TOPIC OWNER SECONDS [STEP]

Each round acquires the records, reads a counter, commits an intent with the lock held, checks the fence twice, and
commits the counter plus one. With a step (acquired, intents, fenced), the process kills itself there in its first
round. It prints the number of rounds, of rounds that another run took, and the counters that it wrote.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from msgspec.structs import replace

from support.kafka.records_suite import count_of
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.records.codec import Intent, IntentKind, TopicRecord
from topiarist.adapters.kafka_admin.records.run import ClusterView, RecordsRun
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import KafkaAccess, RecordsTopic
from topiarist.model.state import AppliedSpec, OwnershipRecord

TOPIC = "counter"


def main(bootstrap: str, topic: str, owner: str, seconds: str, step: str = "") -> None:
    """Run rounds for some seconds, and print the result as JSON."""
    end, written, lost, longest = time.monotonic() + float(seconds), [], 0, 0.0
    session = Session(KafkaAccess(bootstrap), 5.0)

    def reach(name: str) -> None:
        if step == name:
            os.kill(os.getpid(), signal.SIGKILL)

    while time.monotonic() < end:
        began = time.monotonic()
        run = RecordsRun(
            session, owner, ClusterView(dict.fromkeys, lambda: 1), topic=RecordsTopic(topic), lock_timeout=120
        )
        try:
            record = run.acquire().topics.get(TOPIC)
            reach("acquired")
            intent = Intent(IntentKind.CHANGE, None)
            before = record or TopicRecord(OwnershipRecord("nobody"))
            run.commit({TOPIC: before._replace(intent=intent)}, hold=True)
            reach("intents")
            run.require_fence()
            reach("fenced")
            run.require_fence()
            ownership = OwnershipRecord(owner, applied=AppliedSpec(count_of(record) + 1, ()))
            run.commit({TOPIC: TopicRecord(replace(ownership))}, hold=False)
            written.append(count_of(record) + 1)
        except TopiaristError as error:
            if step or error.reason is not Reason.SESSION_LOST:
                raise
            lost += 1
        longest = max(longest, time.monotonic() - began)
    print(json.dumps({"owner": owner, "written": written, "lost": lost, "longest": round(longest, 1)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
