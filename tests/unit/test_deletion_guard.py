"""The look at the usage of topics before their deletion: for the plan, and again before the write.

A deletion of a topic in use is refused, and each topic of a plan says what its changes mean for its data.
"""

from __future__ import annotations

from collections.abc import Collection

import pytest
from msgspec.structs import replace

from support.builders import change_kinds, plan, refusal_reasons, spec, state, topic, topic_spec
from topiarist import deletion_guard
from topiarist.deletion_guard import DeletionGuard, filter_usage
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Broker
from topiarist.model.outcome import Result
from topiarist.model.plan import DeleteTopic, Plan, RunOptions, TopicPlan
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState, OwnershipRecord, TopicState
from topiarist.model.usage import (
    DAY_S,
    DEFAULT_USAGE_SETTINGS,
    DeletionCheck,
    Evidence,
    GroupType,
    GroupUsage,
    Side,
    TopicSample,
    TopicUsage,
    UsageRead,
    UsageSettings,
    UsageState,
)
from topiarist.planning.planner import make_plan
from topiarist.ports import Closable
from topiarist.usage import TopicGroup, add_groups, add_usage

NOW = 1_763_800_000
SPEC = ClusterSpec("prod")
SAMPLE = TopicSample("id-old", (5,), (0,), (700,), 700, (1,), (2,))
STATE = ClusterState(
    "7sYk",
    (Broker(1),),
    {
        name: TopicState(
            name, name, ((1,),), topic_id=f"id-{name}", record=OwnershipRecord("default"), record_valid=True
        )
        for name in ("old", "kept")
    },
)


class Brokers(Closable):
    """Brokers that answer with the next read each time, and raise ``error`` if there is one."""

    def __init__(self, *samples: TopicSample, cluster_id: str = "7sYk", complete: bool = True) -> None:
        self.samples = [*samples]
        self.asked: list[Collection[str] | None] = []
        self.error: TopiaristError | None = None
        self._cluster_id = cluster_id
        self._complete = complete

    def open(self) -> Brokers:
        """Return the reader itself."""
        if self.error:
            raise self.error
        return self

    def close(self) -> None:
        """Close nothing."""

    def read_cluster_id(self) -> str:
        """Return the cluster id."""
        return self._cluster_id

    def read(self, topics: Collection[str] | None = None) -> UsageRead:
        """Return the next sample."""
        self.asked.append(topics)
        evidence = Evidence(NOW + len(self.asked), 1, 1, groups_complete=self._complete, retention_minutes=7 * 24 * 60)
        return UsageRead(evidence, {"old": self.samples.pop(0)})


def plan_deletion(guard: DeletionGuard, settings: UsageSettings = SPEC.evidence) -> Plan:
    """Return the filtered plan that deletes ``old`` and configures ``kept``."""
    specs = [
        topic_spec("old", ensure="Absent"),
        topic_spec("kept", partitions=1, replicationFactor=1, config={"flush.ms": 7}),
    ]
    plan = make_plan(STATE, SPEC, specs, RunOptions())
    return filter_usage(guard.add_usage(plan, STATE), settings)


def deleted(plan: Plan) -> bool:
    """Return whether a plan deletes a topic."""
    return any(isinstance(change, DeleteTopic) for topic in plan.topics for change in topic.changes)


@pytest.fixture(autouse=True)
def _no_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every check look again."""
    monkeypatch.setattr(deletion_guard, "MAX_AGE_S", -1.0)


def test_only_topics_that_are_deleted_are_asked_about() -> None:
    """The usage of other topics is not worth a request of every run."""
    brokers = Brokers(SAMPLE)
    plan = plan_deletion(DeletionGuard(SPEC, brokers.open))
    assert brokers.asked == [frozenset({"old"})]
    assert deleted(plan)
    (topic,) = [topic for topic in plan.topics if topic.topic == "old"]
    assert topic.usage[0].startswith("deletes 700 bytes in all replicas")


def test_a_run_without_deletions_asks_no_broker() -> None:
    """A plan without deletions opens no session."""
    brokers = Brokers()
    guard = DeletionGuard(SPEC, brokers.open)
    plan = make_plan(STATE, SPEC, [topic_spec("kept", partitions=2, replicationFactor=1)], RunOptions())
    assert guard.add_usage(plan, STATE).evidence is None
    assert brokers.asked == []


def test_a_member_refuses_the_deletion_and_a_name_allows_it() -> None:
    """The refusal names the groups; the exact name of the topic overrides it in the filter and in the guard."""
    used = add_groups(SAMPLE, [TopicGroup("billing", GroupType.CLASSIC, 2, {0: 3})])
    plan = plan_deletion(DeletionGuard(SPEC, Brokers(used).open))
    assert not deleted(plan)
    (refusal,) = [issue for topic in plan.topics for issue in topic.refusals]
    assert refusal.reason is Reason.TOPIC_IN_USE
    assert "billing (2 members, " in refusal.message
    guard = DeletionGuard(SPEC, Brokers(used, used).open, is_allowed=lambda topic: topic == "old")
    specs = [topic_spec("old", ensure="Absent")]
    allowed = filter_usage(
        guard.add_usage(make_plan(STATE, SPEC, specs, RunOptions()), STATE),
        SPEC.evidence,
        lambda topic, _: topic == "old",
    )
    assert deleted(allowed)
    assert guard.check(allowed.topics[0]) is None


def test_what_happened_since_the_plan_stops_the_deletion() -> None:
    """A member that joined, a record that was written, an offset that was committed: each is a conflict."""
    joined = add_groups(SAMPLE, [TopicGroup("late", GroupType.CLASSIC, 1, {})])
    written = replace(SAMPLE, ends=(6,))
    committed = add_groups(SAMPLE, [TopicGroup("batch", GroupType.SIMPLE, 0, {0: 5})])
    for sample, text in ((joined, "late (1 member)"), (written, "written between"), (committed, "batch")):
        guard = DeletionGuard(SPEC, Brokers(SAMPLE, sample).open)
        plan = plan_deletion(guard)
        (topic,) = [topic for topic in plan.topics if topic.topic == "old"]
        outcome = guard.check(topic)
        assert outcome is not None
        assert (outcome.result, outcome.reason) == (Result.CONFLICT, Reason.TOPIC_IN_USE)
        assert text in outcome.message
    guard = DeletionGuard(SPEC, Brokers(SAMPLE, SAMPLE).open)
    plan = plan_deletion(guard)
    assert [guard.check(topic) for topic in plan.topics] == [None, None]


def test_brokers_that_do_not_answer_any_more_stop_the_deletion() -> None:
    """Without an answer nothing is deleted; the outcome names the cause."""
    brokers = Brokers(SAMPLE)
    guard = DeletionGuard(SPEC, brokers.open)
    plan = plan_deletion(guard)
    brokers.error = TopiaristError(Reason.UNREACHABLE, "cannot reach Kafka")
    (outcome,) = [outcome for topic in plan.topics if (outcome := guard.check(topic))]
    assert (outcome.topic, outcome.result, outcome.reason) == ("old", Result.FAILED, Reason.UNREACHABLE)


def test_brokers_of_another_cluster_end_the_plan() -> None:
    """The address in spec.kafka may be wrong: an answer about other topics would allow the deletion."""
    guard = DeletionGuard(SPEC, Brokers(SAMPLE, cluster_id="other").open)
    with pytest.raises(TopiaristError) as raised:
        plan_deletion(guard)
    assert raised.value.reason is Reason.WRONG_CLUSTER


def test_a_cluster_without_an_address_of_brokers_has_no_guard() -> None:
    """Nothing is known, so nothing is refused unless the cluster requires proof."""
    guard = DeletionGuard(SPEC, lambda: None)
    plan = plan_deletion(guard)
    assert deleted(plan)
    assert [guard.check(topic) for topic in plan.topics] == [None, None]
    required = plan_deletion(guard, UsageSettings(DeletionCheck.REQUIRE_NOT_SEEN))
    assert [issue.reason for topic in required.topics for issue in topic.refusals] == [Reason.USAGE_UNKNOWN]


def test_proof_comes_from_earlier_snapshots() -> None:
    """With proof required, a topic may be deleted that was observed for the window without a use, and no other."""
    spec = replace(SPEC, evidence=UsageSettings(DeletionCheck.REQUIRE_NOT_SEEN, window=10 * DAY_S))
    for days, allowed in ((11, True), (9, False)):
        earlier: ClusterState | None = None
        for day in range(days, 0, -3):
            evidence = Evidence(NOW - day * DAY_S, 1, 1, groups_complete=True, retention_minutes=7 * 24 * 60)
            earlier = add_usage(STATE, UsageRead(evidence, {"old": SAMPLE}), earlier, spec)
        plan = plan_deletion(DeletionGuard(spec, Brokers(SAMPLE).open, earlier=earlier), spec.evidence)
        assert deleted(plan) is allowed


def test_the_usage_of_an_earlier_topic_of_the_name_is_not_used() -> None:
    """A snapshot of a topic that was deleted and recreated since says nothing of the new one."""
    other = replace(STATE, topics={"kept": replace(STATE.topics["kept"], topic_id="id-before")})
    evidence = Evidence(NOW - 60, 1, 1, groups_complete=True)
    earlier = add_usage(other, UsageRead(evidence, {"kept": replace(SAMPLE, topic_id="id-before")}), None, SPEC)
    assert earlier.usage
    guard = DeletionGuard(SPEC, lambda: None, earlier=earlier)
    plan = make_plan(STATE, SPEC, [topic_spec("kept", partitions=2, replicationFactor=1)], RunOptions())
    assert guard.add_usage(plan, STATE).usage == {}


def test_nothing_is_asked_if_the_cluster_ignores_usage() -> None:
    """``deletion: Ignore`` opens no session."""
    spec = replace(SPEC, evidence=UsageSettings(DeletionCheck.IGNORE))
    brokers = Brokers()
    assert deleted(plan_deletion(DeletionGuard(spec, brokers.open), spec.evidence))
    assert brokers.asked == []


READ_AT = 100 * DAY_S
DATA = TopicSample(ends=(5, 5, 5), begins=(0, 0, 0), sizes=(500, 500, 500))
UNSEEN = Side(UsageState.NOT_SEEN, observed_since=READ_AT - 40 * DAY_S)
UNUSED = TopicUsage(DATA, UNSEEN, UNSEEN)
READ = replace(UNUSED, sample=replace(DATA, groups=(GroupUsage("billing", GroupType.CLASSIC, members=2),)))
WRITTEN = replace(UNUSED, written=Side(UsageState.USED, READ_AT - 7200, READ_AT - 3600, READ_AT - 40 * DAY_S))
NEW = replace(UNUSED, read=Side(UsageState.UNKNOWN, why=("FirstSample",)))
COMPLETE = Evidence(READ_AT, groups_complete=True)
PROOF = UsageSettings(DeletionCheck.REQUIRE_NOT_SEEN)


def _deletion(usage: TopicUsage | None, evidence: Evidence | None = COMPLETE) -> Plan:
    """Return the plan that deletes ``a``, with its usage."""
    made = plan(state(topic("a")), spec("a", ensure="Absent"))
    return replace(made, usage={"a": usage} if usage else {}, evidence=evidence)


def _filtered(found: Plan, settings: UsageSettings = DEFAULT_USAGE_SETTINGS) -> TopicPlan:
    (left,) = filter_usage(found, settings).topics
    return left


@pytest.mark.parametrize("usage", [READ, WRITTEN], ids=["members", "a write of today"])
def test_a_topic_in_use_is_not_deleted(usage: TopicUsage) -> None:
    """The refusal says who uses the topic and names the override, which needs no proof of anything."""
    left = _filtered(_deletion(usage))
    assert (change_kinds(left), refusal_reasons(left)) == ([], ["TopicInUse"])
    assert left.refusals[0].message.startswith("is in use: deletes 1.5 KiB of data, 15 offsets; ")
    assert left.refusals[0].hint.endswith("--allow-in-use a")
    (allowed,) = filter_usage(_deletion(usage), PROOF, lambda name, known: (name, known) == ("a", usage)).topics
    assert (change_kinds(allowed), allowed.refusals) == (["DeleteTopic"], ())


def test_only_the_deletion_is_refused() -> None:
    """A topic that is read may be changed, and only topics of the plan with usage get a text."""
    made = plan(
        state(topic("a"), topic("b", config={"segment.bytes": "100"})),
        spec("a", ensure="Absent"),
        spec("b", config={"retention.bytes": 300}),
    )
    first, second = filter_usage(replace(made, usage={"b": READ}, evidence=COMPLETE), DEFAULT_USAGE_SETTINGS).topics
    assert (change_kinds(first), first.usage) == (["DeleteTopic"], ())
    assert change_kinds(second) == ["UpdateConfig"]
    # Of each partition 200 bytes are too many, and Kafka keeps up to a segment of 100 of them.
    assert second.usage == (
        "retention.bytes deletes between 300 bytes and 600 bytes of 1.5 KiB; "
        "perhaps read by 1 group: billing (2 members)",
    )


PROOFS: dict[str, tuple[TopicUsage | None, Evidence | None, str]] = {
    "not read": (None, COMPLETE, "its usage was not read"),
    "first look": (
        NEW,
        COMPLETE,
        "no write seen since 1970-03-02 (40 days); its readers are unknown (this is the first observation)",
    ),
    "no evidence": (
        NEW,
        None,
        "no write seen since 1970-03-02 (0 days); its readers are unknown (this is the first observation)",
    ),
    "incomplete": (
        NEW,
        replace(COMPLETE, groups=4, groups_unread=3),
        "no write seen since 1970-03-02 (40 days); its readers are unknown (this is the first observation);"
        " 3 of 4 groups could not be read",
    ),
}


@pytest.mark.parametrize(("usage", "evidence", "words"), PROOFS.values(), ids=PROOFS.keys())
def test_a_cluster_may_require_proof(usage: TopicUsage | None, evidence: Evidence | None, words: str) -> None:
    """Where proof is required, unknown usage refuses a deletion with what is missing; elsewhere it does not."""
    left = _filtered(_deletion(usage, evidence), PROOF)
    assert (change_kinds(left), refusal_reasons(left)) == ([], ["UsageUnknown"])
    assert left.refusals[0].message == f"is not proven to be out of use: {words}"
    assert left.refusals[0].hint.endswith("--evidence; or --allow-in-use a")
    assert change_kinds(_filtered(_deletion(usage, evidence))) == ["DeleteTopic"]


def test_a_whole_window_without_use_is_proof() -> None:
    """The deletion is made, and says what it deletes and which readers may be unknown."""
    left = _filtered(_deletion(UNUSED, replace(COMPLETE, groups_opaque=2)), PROOF)
    assert (change_kinds(left), left.refusals) == (["DeleteTopic"], ())
    meaning, missing = left.usage
    assert meaning.startswith("deletes 1.5 KiB of data, 15 offsets; no write seen since 1970-03-02 (40 days); ")
    assert missing == "2 groups without a readable subscription"
