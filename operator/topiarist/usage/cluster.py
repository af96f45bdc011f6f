"""Adds the usage that was read to the state of a cluster, folded with that of an earlier state.

``snapshot --evidence`` calls it, and a run before its deletions. Usage is read after the topics: of a topic that was
deleted and recreated between the two reads nothing is known yet.
"""

from __future__ import annotations

from msgspec.structs import replace

from topiarist.kafka.config_rules import server_default
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState, TopicState
from topiarist.model.usage import GroupNames, TopicSample, TopicUsage, UsageRead
from topiarist.usage.fold import TopicFacts, fold_usage
from topiarist.usage.samples import count_groups

_CLEANUP_POLICY, _COMPACT = "cleanup.policy", "compact"
_STREAMS_SUFFIXES = ("-changelog", "-repartition")
"""The names of topics that belong to an application of Kafka Streams, and live and die with its group."""


def add_usage(state: ClusterState, read: UsageRead, previous: ClusterState | None, spec: ClusterSpec) -> ClusterState:
    """Return the state with the usage of its topics; ``previous`` is an earlier state of the same cluster."""
    settings = spec.config_rules.for_cluster(state.mode, state.known_configs).merge_dynamic_settings(
        state.broker_defaults
    )
    before_at = previous.evidence.read_at if previous and previous.evidence else None
    usage: dict[str, TopicUsage] = {}
    for name, sample in read.topics.items():
        topic = state.topics.get(name)
        if topic is None or not _is_of_topic(sample, topic):
            continue
        before = previous.usage.get(name) if previous else None
        facts = TopicFacts(
            is_same=before is None or _is_same(previous, topic, before),
            is_compacted=_COMPACT
            in (topic.config.get(_CLEANUP_POLICY) or server_default(_CLEANUP_POLICY, settings) or ""),
            is_protected=spec.is_protected(name) or bool(spec.internal_owner(name)) or name.endswith(_STREAMS_SUFFIXES),
        )
        if spec.evidence.groups is GroupNames.COUNTED:
            sample = count_groups(sample)
        usage[name] = fold_usage(before, before_at, sample, read.evidence, facts, spec.evidence)
    return replace(state, evidence=read.evidence, usage=usage)


def _is_of_topic(sample: TopicSample, topic: TopicState) -> bool:
    return not sample.topic_id or not topic.topic_id or sample.topic_id == topic.topic_id


def _is_same(previous: ClusterState | None, topic: TopicState, before: TopicUsage) -> bool:
    """Return whether a topic is the one of an earlier usage: by its id, and without ids by its identity."""
    if before.sample.topic_id and topic.topic_id:
        return before.sample.topic_id == topic.topic_id
    earlier = previous.topics.get(topic.name) if previous else None
    return earlier is not None and earlier.identity == topic.identity
