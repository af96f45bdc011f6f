"""F19: a thousand topics with thirty-seven that cannot be done, each for its own reason."""

from __future__ import annotations

from collections import Counter

from kazoo.client import KazooClient
from kazoo.security import make_acl

from faults.conftest import FaultStatistics
from integration.write_fixtures import REPLICAS, apply_without_hooks, connect_cluster, topics_by_result
from support.builders import plan_specs, topic_spec
from support.zookeeper import write_checker
from support.zookeeper.busy_cluster import ClusterTemplate
from support.zookeeper.client import connect_client
from support.zookeeper.proxy import Proxy
from topiarist.adapters.devcluster.seed import new_topic_id, state_bytes, topic_bytes
from topiarist.adapters.zookeeper.codec import paths, topics
from topiarist.errors import Exit, Reason
from topiarist.model.outcome import Result
from topiarist.model.spec import TopicSpec

NAMES = [f"topic-{number:04}" for number in range(1000)]
EXISTS, CHANGED, DENIED, LARGE = NAMES[7:17], NAMES[100:110], NAMES[500:510], NAMES[990:997]
BAD = sorted({*EXISTS, *CHANGED, *DENIED, *LARGE})
GOOD = sorted({*NAMES} - {*BAD})


def wanted() -> list[TopicSpec]:
    """Return the specs of a thousand topics; some of them do not fit into a transaction."""
    throttled = {"leader.replication.throttled.replicas": ",".join(f"{partition}:1" for partition in range(4000))}
    return [
        topic_spec(
            name,
            partitions=3 if name in CHANGED or name in DENIED else 1,
            config=throttled if name in LARGE else {"retention.ms": 5},
        )
        for name in NAMES
    ]


def make(client: KazooClient, retention: str, *names: str) -> None:
    """Create topics as another client does, and give each its id and states as the controller does."""
    for name in names:
        client.create(f"/config/topics/{name}", topics.encode_config({"retention.ms": retention}))
        client.create(
            f"/brokers/topics/{name}",
            topic_bytes({str(at): list(ids) for at, ids in enumerate(REPLICAS)}, new_topic_id()),
        )
        for partition, replicas in enumerate(REPLICAS):
            path = paths.partition_state_path(name, partition)
            client.create(path, state_bytes(list(replicas), epoch=1), makepath=True)


def test_f19_37_of_1000(mould: ClusterTemplate, proxy: Proxy, tally: FaultStatistics) -> None:
    """Created or configured by another client meanwhile, not permitted, too large: 963 are done, 37 have their reasons,
    the exit code shows it, and a second run reports only the 37.
    """
    wishes, connect = wanted(), mould.create_copy()
    with connect_client(connect) as client:
        make(client, "5", *CHANGED, *DENIED)
        with connect_cluster(connect) as port:
            plan = plan_specs(port, *wishes)
            assert [topic.topic for topic in plan.actionable_topics()] == NAMES
        make(client, "1", *EXISTS)
        for name in CHANGED:
            client.set(f"/config/topics/{name}", topics.encode_config({"retention.ms": "6"}))
        for name in DENIED:
            client.set_acls(f"/brokers/topics/{name}", [make_acl("world", "anyone", read=True, admin=True)])
        before = write_checker.read_nodes(connect)
        with connect_cluster(proxy.through(connect), max_buffer=24_000) as port:
            report = apply_without_hooks(port, plan)
            assert proxy.requests["multi"] == len(GOOD) + len(DENIED)
            proxy.reset()
            again = apply_without_hooks(port, plan)
        assert proxy.requests["multi"] == len(DENIED)
    found = topics_by_result(report.outcomes)
    assert found == {
        Result.DONE: GOOD,
        Result.CONFLICT: sorted([*EXISTS, *CHANGED]),
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
    assert all("its transaction has " in told[name].message for name in LARGE)
    assert (report.exit_code, again.exit_code) == (Exit.ERROR, Exit.ERROR)
    assert topics_by_result(again.outcomes) == {
        **{result: names for result, names in found.items() if result is not Result.DONE},
        Result.UNCHANGED: GOOD,
    }
    assert write_checker.find_problems(before, write_checker.read_nodes(connect), GOOD) == []
    tally.set_cases(len(NAMES))
