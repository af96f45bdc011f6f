"""F19: a thousand topics, of which thirty-seven cannot be done, each for a reason of its own."""

from __future__ import annotations

from collections import Counter

from kazoo.client import KazooClient
from kazoo.security import make_acl

from faults.conftest import Tally
from integration.scene import REPLICAS, by_result, carried_out, opened
from support import checker
from support.clients import connected
from support.plenty import Mould
from support.proxy import Proxy
from support.wishes import planned, wish
from topiarist.adapters import znodes
from topiarist.adapters.playground.seed import new_topic_id, state_bytes
from topiarist.core.spec import TopicSpec
from topiarist.errors import Exit, Reason
from topiarist.reconcile import Result

NAMES = [f"topic-{number:04}" for number in range(1000)]
EXISTS, CHANGED, DENIED, LARGE = NAMES[7:17], NAMES[100:110], NAMES[500:510], NAMES[990:997]
BAD = sorted({*EXISTS, *CHANGED, *DENIED, *LARGE})
GOOD = sorted({*NAMES} - {*BAD})


def wanted() -> list[TopicSpec]:
    """What a thousand topics are to be; some of them would not fit into a transaction."""
    throttled = {"leader.replication.throttled.replicas": ",".join(f"{partition}:1" for partition in range(4000))}
    return [
        wish(
            name,
            partitions=3 if name in CHANGED or name in DENIED else 1,
            config=throttled if name in LARGE else {"retention.ms": 5},
        )
        for name in NAMES
    ]


def make(client: KazooClient, retention: str, *names: str) -> None:
    """Create topics as another client does, and give each its id and states as the controller does."""
    for name in names:
        client.create(f"/config/topics/{name}", znodes.encode_config({"retention.ms": retention}))
        client.create(f"/brokers/topics/{name}", znodes.encode_topic(REPLICAS, topic_id=new_topic_id()))
        for partition, replicas in enumerate(REPLICAS):
            path = znodes.partition_state_path(name, partition)
            client.create(path, state_bytes(list(replicas), epoch=1), makepath=True)


def test_f19_37_of_1000(mould: Mould, proxy: Proxy, tally: Tally) -> None:
    """Made or configured by others meanwhile, not ours to write, too large: 963 are done, 37 have each their
    reason, the code says so, and a second run asks for nothing but the 37.
    """
    wishes, connect = wanted(), mould.cast()
    with connected(connect) as client:
        make(client, "5", *CHANGED, *DENIED)
        with opened(connect) as port:
            plan = planned(port, *wishes)
            assert [topic.topic for topic in plan.to_do()] == NAMES
        make(client, "1", *EXISTS)
        for name in CHANGED:
            client.set(f"/config/topics/{name}", znodes.encode_config({"retention.ms": "6"}))
        for name in DENIED:
            client.set_acls(f"/brokers/topics/{name}", [make_acl("world", "anyone", read=True, admin=True)])
        before = checker.look(connect)
        with opened(proxy.through(connect), max_buffer=24_000) as port:
            report = carried_out(port, plan)
            assert proxy.requests["multi"] == len(GOOD) + len(DENIED)
            proxy.reset()
            again = carried_out(port, plan)
        assert proxy.requests["multi"] == len(DENIED)
    found = by_result(report.outcomes)
    assert found == {
        Result.DONE: GOOD,
        Result.MOVED: sorted([*EXISTS, *CHANGED]),
        Result.FAILED: DENIED,
        Result.REFUSED: LARGE,
    }
    told = {outcome.topic: outcome for outcome in report.outcomes if outcome.topic in BAD}
    assert Counter(outcome.reason for outcome in told.values()) == {
        Reason.STATE_CONFLICT: 20,
        Reason.NO_PERMISSION: 10,
        Reason.TOO_LARGE: 7,
    }
    assert all(told[name].message == "did not exist, and exists now" for name in EXISTS)
    assert all("retention.ms was 5, and is 6 now" in told[name].message for name in CHANGED)
    assert all(told[name].message == f"no permission to set /brokers/topics/{name}" for name in DENIED)
    assert all("its transaction takes " in told[name].message for name in LARGE)
    assert (report.exit, again.exit) == (Exit.ERROR, Exit.ERROR)
    assert by_result(again.outcomes) == {
        **{result: names for result, names in found.items() if result is not Result.DONE},
        Result.ALREADY: GOOD,
    }
    assert checker.problems(before, checker.look(connect), GOOD) == []
    tally.cases(len(NAMES))
