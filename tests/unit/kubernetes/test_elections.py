"""Elections by the operator: planned in every pass, and sent once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from support import states
from support.kubernetes import resource_bodies
from topiarist.adapters.memory import MemoryCluster
from topiarist.kubernetes.reconciler import PlanCache, SyncState, reconcile_cluster
from topiarist.kubernetes.status.writer import topic_events
from topiarist.model.moves import LeaderChange
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan
from topiarist.model.state import PartitionState, TopicInspection, TopicState
from topiarist.ports import MoveOptions
from unit.kubernetes.reconcile_requests import make_request, owned_topic


class LedCluster(MemoryCluster):
    """A cluster in memory with partitions that their second replica leads, until an election is done."""

    elected = False

    def inspect_all(self, topics: Collection[TopicState]) -> Mapping[str, TopicInspection]:
        """Return the partitions of each topic, with their leaders."""
        return {topic.name: self._inspect(topic) for topic in topics}

    def move(self, plan: Plan, options: MoveOptions, stop: object) -> Iterator[Outcome]:
        """Elect all leaders."""
        assert not options.wait
        self.elected = True
        yield from (Outcome(topic.topic, Result.DONE) for topic in plan.actionable_topics())

    def _inspect(self, topic: TopicState) -> TopicInspection:
        lists = dict(zip(topic.partition_ids, topic.replicas, strict=True))
        leads = 0 if self.elected else 1
        led = {partition: PartitionState(replicas[leads], replicas) for partition, replicas in lists.items()}
        return TopicInspection(topic.identity, lists, led)


def test_leaders_are_compared_in_every_pass() -> None:
    """A topic that allows elections is never skipped: its znode does not show its leaders."""
    port = LedCluster(states.cluster(owned_topic("orders")))
    port.elected = True
    cache = PlanCache()
    request = make_request(
        resource_bodies.cluster(moves={"allow": ["Leaders"]}),
        resource_bodies.topic("orders"),
        plan_cache=cache,
    )
    (quiet,) = reconcile_cluster(port, request, lambda: False).topic_results
    assert (quiet.state, quiet.plan) == (SyncState.SYNCED, None)
    port.elected = False
    (elected,) = reconcile_cluster(port, request, lambda: False).topic_results
    assert elected.plan is not None
    lists = port.state.topics["orders"].replicas
    assert elected.plan.elections() == tuple(
        LeaderChange(partition, replicas[1], replicas[0]) for partition, replicas in enumerate(lists)
    )
    assert elected.outcome == Outcome("orders", Result.DONE)
    (event,) = topic_events("prod", {}, elected)
    assert (event.reason, event.message) == (
        "LeadersElected",
        f"prod: elect the preferred leaders of {len(lists)} partitions",
    )
    (done,) = reconcile_cluster(port, request, lambda: False).topic_results
    assert done.plan is None
