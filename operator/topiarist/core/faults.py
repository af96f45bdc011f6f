"""What is wrong with a topic already: no change is refused for it, but somebody should know.

Called by ``plan`` once ``differences`` has found what there is to do: what a change mends, or is refused for, is not
said again.
"""

from __future__ import annotations

from collections.abc import Sequence

from topiarist.core.change import UpdateConfig
from topiarist.core.differences import config_after, narrowest_of
from topiarist.core.draft import Draft
from topiarist.core.rules import config_faults, min_isr_above
from topiarist.core.sizes import some, unequal_widths
from topiarist.core.state import TopicState
from topiarist.core.units import count
from topiarist.errors import Reason


def find(draft: Draft, topic: TopicState) -> None:
    """What is wrong with the topic already and is not touched now: said once, never refused."""
    context = draft.context
    judged = draft.refused(Reason.CONFIG_INVALID) or any(isinstance(change, UpdateConfig) for change in draft.changes)
    # Where the topic has what the manifest asks for, that has been judged before anything was connected to.
    if not judged and topic.config != draft.spec.config:
        for fault in config_faults(topic.config, context.cluster, context.releases, context.settings):
            draft.notice(Reason.STANDING_FAULT, f"on the cluster is {fault.message}", ("config",))
    malformed = draft.refused(Reason.PARTITIONS_MALFORMED)
    if not topic.whole and not malformed:
        message = f"found partition ids {some(topic.partition_ids)}, wanted 0 to n-1: it cannot grow"
        draft.notice(Reason.STANDING_FAULT, message, ("partitions",))
    if () in topic.replicas and (empty := _without_replicas(topic, first=1 if malformed else 0)):
        draft.notice(Reason.STANDING_FAULT, f"no replicas on the cluster for partition {some(empty)}", ("partitions",))
    # Where the manifest has a replication factor, the partitions with another one are refused or ignored by name.
    if draft.spec.replication_factor is None and (unequal := unequal_widths(topic)):
        draft.notice(Reason.STANDING_FAULT, unequal, ("replicationFactor",))
    config = config_after(topic.config, draft.changes)
    if "min.insync.replicas" in config and min_isr_above(config, narrowest := narrowest_of(topic)):
        wanted, there = config["min.insync.replicas"], count(narrowest, "replica")
        message = f"min.insync.replicas {wanted}: the narrowest partition has {there}: writes with acks=all fail"
        draft.notice(Reason.STANDING_FAULT, message, ("config", "min.insync.replicas"))


def _without_replicas(topic: TopicState, first: int) -> Sequence[int]:
    """The partitions from ``first`` on that nobody holds."""
    pairs = zip(topic.partition_ids, topic.replicas, strict=True)
    return [partition for partition, replicas in pairs if not replicas and partition >= first]
