"""Guards the deletions of one run on one cluster: reads who uses the topics, for the plan and again before the write.

``runs.sessions`` and the operator make a ``DeletionGuard`` for each cluster. ``add_usage`` adds the usage of planned
topics to a plan, so that ``filter_usage`` can refuse a deletion. The adapters call ``check`` directly before a topic
is deleted: a consumer may have joined, and a producer may have written, since the plan was made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from msgspec.structs import replace

from topiarist.errors import Reason, TopiaristError
from topiarist.filters.chain import filter_changes
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Change, DeleteTopic, Issue, Plan, TopicPlan
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState
from topiarist.model.usage import DeletionCheck, TopicUsage, UsageRead, UsageSettings
from topiarist.ports import UsageReader
from topiarist.usage import (
    DeletionVerdict,
    add_usage,
    describe_change,
    describe_missing,
    describe_users,
    judge_deletion,
    name_groups,
)

MAX_AGE_S = 5.0
"""Seconds for which one look before deletions is used: a run deletes many topics, and reads all of them at once."""


class DeletionGuard:
    """The usage of the topics that a run deletes.

    ``open_reader`` opens a session that reads usage, and returns None if the cluster has no address of its brokers.
    ``earlier`` is an earlier state of the cluster with usage. ``is_allowed`` returns whether a topic may be deleted
    although it is in use.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        open_reader: Callable[[], UsageReader | None],
        *,
        earlier: ClusterState | None = None,
        is_allowed: Callable[[str], bool] = lambda topic: False,
    ) -> None:
        self._spec = spec
        self._open_reader = open_reader
        self._earlier = earlier
        self._is_allowed = is_allowed
        self._state: ClusterState | None = None
        self._deleted: frozenset[str] = frozenset()
        self._current: ClusterState | None = None
        self._read_at = 0.0

    def add_usage(self, plan: Plan, state: ClusterState) -> Plan:
        """Return the plan with the usage of its topics: of deleted ones as it is now, of others that of ``earlier``.

        Raises ``TopiaristError`` if the brokers cannot be asked, or are those of another cluster.
        """
        earlier = self._earlier
        self._deleted = frozenset(topic.topic for topic in plan.topics if _deletes(topic))
        self._state = known = replace(state, evidence=None, usage={})
        if earlier and earlier.evidence:
            same = {name for name in earlier.usage if _is_same_topic(name, earlier, state)}
            usage = {name: each for name, each in earlier.usage.items() if name in same}
            known = replace(state, evidence=earlier.evidence, usage=usage)
        if current := self._look():
            known = replace(current, usage={**known.usage, **current.usage})
        planned = {topic.topic for topic in plan.topics}
        usage = {name: each for name, each in known.usage.items() if name in planned}
        return replace(plan, evidence=known.evidence, usage=usage)

    def check(self, topic: TopicPlan) -> Outcome | None:
        """Return the outcome of a topic that must not be deleted after all; None if it may be written."""
        if not _deletes(topic) or self._is_allowed(topic.topic):
            return None
        try:
            if self._current is None or time.monotonic() - self._read_at > MAX_AGE_S:
                self._look()
        except TopiaristError as error:
            message = f"whether it is in use is unknown: {error.message}"
            return Outcome(topic.topic, Result.FAILED, error.reason, message)
        current = self._current
        if current is None or current.evidence is None:
            return None
        usage, read_at = current.usage.get(topic.topic), current.evidence.read_at
        if usage is None or judge_deletion(usage, read_at, self._spec.evidence) is not DeletionVerdict.IN_USE:
            return None
        message = f"it is used since it was planned: {describe_users(usage, read_at)}"
        return Outcome(topic.topic, Result.CONFLICT, Reason.TOPIC_IN_USE, message)

    def _look(self) -> ClusterState | None:
        """Return the state with the usage of the deleted topics as it is now; None if no broker is asked."""
        state = self._state
        if state is None or not self._deleted or self._spec.evidence.deletion is DeletionCheck.IGNORE:
            return None
        before = self._current or self._earlier
        read = _read(self._open_reader, state.cluster_id, self._deleted)
        if read is None:
            return None
        self._read_at = time.monotonic()
        self._current = add_usage(state, read, before, self._spec)
        return self._current


def _read(open_reader: Callable[[], UsageReader | None], cluster_id: str, topics: Collection[str]) -> UsageRead | None:
    reader = open_reader()
    if reader is None:
        return None
    with reader:
        found = reader.read_cluster_id()
        if found != cluster_id:
            raise TopiaristError(
                Reason.WRONG_CLUSTER,
                f"the brokers are of cluster {found}, and the topics of {cluster_id}",
                "correct spec.kafka of the Cluster",
            )
        return reader.read(topics)


def _deletes(topic: TopicPlan) -> bool:
    return topic.is_actionable and any(isinstance(change, DeleteTopic) for change in topic.changes)


def _is_same_topic(name: str, earlier: ClusterState, state: ClusterState) -> bool:
    one, other = earlier.topics.get(name), state.topics.get(name)
    if one is None or other is None:
        return False
    return one.topic_id == other.topic_id if one.topic_id and other.topic_id else one.identity == other.identity


# Refuses deletions of topics in use, and adds to each topic of a plan what its changes mean for data and users.
#
# ``RunInputs.filter_plan`` calls ``filter_usage`` with the usage that a snapshot has, or that the guard has read.
# A person overrides it by the exact name of a topic. Only what is known to be in use is refused, unless the cluster
# requires proof that a topic is not.

_SEGMENT_BYTES = "segment.bytes"

IsAllowed = Callable[[str, TopicUsage | None], bool]
"""Returns whether a topic may be deleted although it is in use, or its use is not known."""


def allow_none(_topic: str, _usage: TopicUsage | None) -> bool:
    """Allow no topic."""
    return False


def filter_usage(plan: Plan, settings: UsageSettings, is_allowed: IsAllowed = allow_none) -> Plan:
    """Return the plan without deletions that its usage forbids, with the meaning of each topic's changes."""
    read_at = plan.evidence.read_at if plan.evidence else 0

    def find_issue(topic: TopicPlan, change: Change) -> Issue | None:
        usage = plan.usage.get(topic.topic)
        if not isinstance(change, DeleteTopic) or is_allowed(topic.topic, usage):
            return None
        verdict = judge_deletion(usage, read_at, settings)
        if verdict is DeletionVerdict.IN_USE and usage:
            return Issue(
                Reason.TOPIC_IN_USE,
                f"is in use: {describe_change(change, usage, read_at)}",
                hint=f"ask its users to stop first; or --allow-in-use {topic.topic}",
                own_message=f"is in use, with {name_groups(usage)}",
            )
        if verdict is DeletionVerdict.UNKNOWN and settings.deletion is DeletionCheck.REQUIRE_NOT_SEEN:
            return Issue(
                Reason.USAGE_UNKNOWN,
                f"is not proven to be out of use: {_describe_unknown(plan, usage, read_at)}",
                own_message="is not proven to be out of use",
                hint=f"take snapshots with --evidence, and give them by --evidence; or --allow-in-use {topic.topic}",
            )
        return None

    allowed = filter_changes(plan, find_issue)
    return replace(allowed, topics=tuple(_describe(topic, plan, read_at) for topic in allowed.topics))


def _describe(topic: TopicPlan, plan: Plan, read_at: int) -> TopicPlan:
    usage = plan.usage.get(topic.topic)
    if usage is None:
        return topic
    segment = topic.before.config.get(_SEGMENT_BYTES) if topic.before else None
    texts = [describe_change(change, usage, read_at, segment) for change in topic.changes]
    if plan.evidence and any(isinstance(change, DeleteTopic) for change in topic.changes):
        texts.append(describe_missing(plan.evidence))
    return replace(topic, usage=tuple(filter(None, texts)))


def _describe_unknown(plan: Plan, usage: TopicUsage | None, read_at: int) -> str:
    if usage is None:
        return "its usage was not read"
    missing = describe_missing(plan.evidence) if plan.evidence else ""
    return "; ".join(filter(None, [describe_users(usage, read_at), missing]))
