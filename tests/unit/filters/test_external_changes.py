"""What of a difference is drift: changed on the cluster since the topic was as its spec asks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.states import cluster, spec, topic
from topiarist.adapters.zookeeper.codec.own_znodes import encode_record
from topiarist.errors import Reason
from topiarist.filters.external_changes import withhold_external_changes
from topiarist.model.plan import AddPartitions, CreateTopic, Plan, TakeOwnership, UpdateConfig
from topiarist.model.run_options import ALL_TOPICS, RunOptions
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import AppliedSpec, OwnershipRecord, TopicState
from topiarist.planning.planner import make_plan
from topiarist.planning.simulate import simulate

DAY, WEEK = "86400000", "604800000"


def planned(there: TopicState, wanted: TopicSpec, **run: Any) -> Plan:
    """The plan for one topic, with drift only reported."""
    return withhold_external_changes(make_plan(cluster(there), ClusterSpec(), [wanted], RunOptions(**run)))


def held(plan: Plan) -> list[object]:
    """What was held back as drift."""
    return [
        change
        for found in plan.topics
        for refusal in found.refusals
        if refusal.reason is Reason.DRIFT_DETECTED
        for change in refusal.withheld
    ]


def keys(changes: object) -> list[str]:
    """The config keys of updates among changes."""
    return [item.key for change in changes if isinstance(change, UpdateConfig) for item in change.items]  # type: ignore[attr-defined]


def test_what_was_never_as_asked_is_the_specs_doing() -> None:
    """A topic that is new to us is brought into its shape, and so is one whose record has never known the key."""
    wanted = spec("orders", config={"retention.ms": DAY})
    new = topic("orders", config={"retention.ms": WEEK}, managed_keys=None)
    known = topic("orders", config={"retention.ms": WEEK}, applied_spec=spec("orders"))
    for there in (new, known):
        plan = planned(there, wanted, adopt=ALL_TOPICS)
        assert not held(plan)
        assert keys(plan.topics[0].changes) == ["retention.ms"]


def test_a_value_changed_outside_is_only_reported() -> None:
    """The record keeps naming the key, and its value: it is ours still. Also where others have removed it."""
    wanted = spec("orders", config={"retention.ms": DAY})
    for config in ({"retention.ms": WEEK}, {}):
        plan = planned(topic("orders", config=config, applied_spec=wanted), wanted)
        assert keys(held(plan)) == ["retention.ms"]
        assert not plan.has_changes
        assert plan.topics[0].record_after == plan.topics[0].record_before


def test_a_value_in_other_words_is_the_same() -> None:
    """What means the same to Kafka is no change of the spec, and nothing is written because of it."""
    before, wanted = (spec("orders", config={"min.cleanable.dirty.ratio": text}) for text in ("0.5", "0.50"))
    ratio = {"min.cleanable.dirty.ratio": "0.5"}
    assert not make_plan(
        cluster(topic("orders", config=ratio, applied_spec=before)), ClusterSpec(), [wanted], RunOptions()
    ).has_changes
    drifted = topic("orders", config={"min.cleanable.dirty.ratio": "0.7"}, applied_spec=before)
    assert keys(held(planned(drifted, wanted))) == ["min.cleanable.dirty.ratio"]


def test_a_value_that_the_spec_changes_is_done() -> None:
    """Whatever is there by now: the spec says anew what it is to be."""
    was = spec("orders", config={"retention.ms": WEEK})
    plan = planned(
        topic("orders", config={"retention.ms": "1"}, applied_spec=was), spec("orders", config={"retention.ms": DAY})
    )
    assert not held(plan)
    assert keys(plan.topics[0].changes) == ["retention.ms"]


def test_a_spec_that_follows_the_cluster_is_noted() -> None:
    """Nothing of Kafka's changes, the record does: set back to what it was before, the value is drift."""
    was, wanted = (spec("orders", config={"retention.ms": text}) for text in (WEEK, DAY))
    state = cluster(topic("orders", config={"retention.ms": DAY}, applied_spec=was))
    plan = make_plan(state, ClusterSpec(), [wanted], RunOptions())
    assert [type(change) for change in plan.topics[0].changes] == [TakeOwnership]
    after = simulate(state, plan.topics)
    assert not make_plan(after, ClusterSpec(), [wanted], RunOptions()).topics
    back = replace(after.topics["orders"], config={"retention.ms": WEEK})
    assert keys(held(planned(back, wanted))) == ["retention.ms"]


def test_what_the_spec_meets_is_noted_beside_drift() -> None:
    """One key is held as drift; that the spec has followed the cluster in the other is known from then on."""
    was = spec("orders", config={"retention.ms": WEEK, "segment.ms": DAY})
    wanted = spec("orders", config={"retention.ms": DAY, "segment.ms": DAY})
    plan = planned(topic("orders", config={"retention.ms": DAY, "segment.ms": "1"}, applied_spec=was), wanted)
    assert keys(held(plan)) == ["segment.ms"]
    assert [type(change) for change in plan.topics[0].changes] == [TakeOwnership]
    record = plan.topics[0].record_after
    assert record is not None
    assert record.applied is not None
    assert record.applied.config == (("retention.ms", DAY), ("segment.ms", DAY))


def test_each_key_counts_by_itself() -> None:
    """One key of the spec's doing is done while the other, changed outside, is reported, and stays known."""
    was = spec("orders", config={"retention.ms": WEEK, "segment.ms": DAY})
    there = topic("orders", config={"retention.ms": WEEK}, applied_spec=was)
    plan = planned(there, spec("orders", config={"retention.ms": DAY, "segment.ms": DAY}))
    assert keys(held(plan)) == ["segment.ms"]
    assert keys(plan.topics[0].changes) == ["retention.ms"]
    record = plan.topics[0].record_after
    assert record is not None
    assert record.applied is not None
    assert record.applied.config == (("retention.ms", DAY), ("segment.ms", DAY))


def test_a_key_that_leaves_the_spec_is_removed() -> None:
    """It was ours; that the spec asks for it no more is the spec's doing."""
    was = spec("orders", config={"retention.ms": WEEK})
    plan = planned(topic("orders", config={"retention.ms": WEEK}, applied_spec=was), spec("orders"))
    assert not held(plan)
    assert keys(plan.topics[0].changes) == ["retention.ms"]


def test_unmanaged_keys_come_from_outside_unless_the_spec_is_new() -> None:
    """With unmanagedConfig: Remove a key that turns up later is drift; at the switch to it, it is not."""
    wanted = spec("orders", unmanagedConfig="Remove")
    assert keys(held(planned(topic("orders", config={"retention.ms": WEEK}, applied_spec=wanted), wanted))) == [
        "retention.ms"
    ]
    assert not held(planned(topic("orders", config={"retention.ms": WEEK}, applied_spec=spec("orders")), wanted))


def test_a_switch_to_remove_is_noted_where_there_is_nothing_to_remove() -> None:
    """Else the first key that others set would be taken for the spec's doing."""
    state, wanted = cluster(topic("orders", applied_spec=spec("orders"))), spec("orders", unmanagedConfig="Remove")
    plan = make_plan(state, ClusterSpec(), [wanted], RunOptions())
    after = simulate(state, plan.topics).topics["orders"]
    assert keys(held(planned(replace(after, config={"retention.ms": WEEK}), wanted))) == ["retention.ms"]


def test_growth_is_the_specs_doing_when_its_number_is_new() -> None:
    """Partitions cannot go, so a topic with fewer than it was asked for is another one: made again by others."""
    grown = planned(topic("orders", 3, applied_spec=spec("orders", partitions=3)), spec("orders", partitions=6))
    assert [type(change) for change in grown.topics[0].changes] == [AddPartitions]
    again = topic("orders", 3, applied_spec=spec("orders", partitions=6), record_valid=False)
    drifted = planned(again, spec("orders", partitions=6), adopt=ALL_TOPICS)
    assert [type(change) for change in held(drifted)] == [AddPartitions]
    more = planned(again, spec("orders", partitions=9), adopt=ALL_TOPICS)
    assert [type(change) for change in more.topics[0].changes] == [AddPartitions]


def test_a_topic_that_is_gone_is_made_again_by_an_answer_only() -> None:
    """The record says that it was there: that is refused. An answer to that counts, whatever becomes of drift."""
    wanted = spec("orders", partitions=3, replicationFactor=2)
    state = cluster(dangling_records={"orders": OwnershipRecord("default", applied=AppliedSpec(3))})
    refused = withhold_external_changes(make_plan(state, ClusterSpec(), [wanted], RunOptions()))
    assert [refusal.reason for refusal in refused.topics[0].refusals] == [Reason.DELETED_EXTERNALLY]
    answered = withhold_external_changes(make_plan(state, ClusterSpec(), [wanted], RunOptions(recreate=ALL_TOPICS)))
    assert [type(change) for change in answered.topics[0].changes] == [CreateTopic]


def test_a_record_that_knows_no_values_speaks_against_whatever_others_have_written_since() -> None:
    """Nobody knows whose doing a difference is then; as long as others have written nothing, it is the spec's."""
    wanted = spec("orders", config={"retention.ms": DAY})
    cases: list[tuple[dict[str, Any], bool]] = [
        ({}, False),
        ({"modified_externally": True}, True),
        ({"record_valid": False}, True),
    ]
    for fields, outside in cases:
        there = topic("orders", config={"retention.ms": WEEK}, managed_keys=["retention.ms"], **fields)
        assert keys(held(planned(there, wanted, adopt=ALL_TOPICS))) == ["retention.ms"] * outside


def test_a_topic_that_is_taken_over_is_brought_into_its_shape() -> None:
    """What its former owner knew is no objection to what both have agreed to."""
    wanted = spec("orders", config={"retention.ms": DAY})
    there = topic("orders", config={"retention.ms": WEEK}, owner="team", applied_spec=wanted)
    plan = planned(there, wanted, take_ownership=ALL_TOPICS)
    assert keys(plan.topics[0].changes) == ["retention.ms"]


def test_what_others_changed_is_named_by_key() -> None:
    """As far as the record remembers what we set; a long value is remembered by its digest."""
    long = ",".join(f"{number}:{number}" for number in range(100))
    throttle = "follower.replication.throttled.replicas"
    was = spec("orders", config={"retention.ms": WEEK, throttle: long, "flush.ms": "7"})
    made = simulate(
        cluster(topic("orders", managed_keys=None)),
        make_plan(
            cluster(topic("orders", managed_keys=None)), ClusterSpec(), [was], RunOptions(adopt=ALL_TOPICS)
        ).topics,
    )
    found = replace(made.topics["orders"], config={"retention.ms": DAY, throttle: long}, modified_externally=True)
    (notice,) = make_plan(cluster(found), ClusterSpec(), [was], RunOptions()).topics[0].notices
    assert notice.message.endswith(f": flush.ms was 7, and is not set now, retention.ms was {WEEK}, and is {DAY} now")
    record = found.record
    assert record is not None
    assert len(encode_record(record)) < 300


def test_what_is_only_observed_stays_as_planned() -> None:
    """Nothing of it is done anyway."""
    wanted = spec("orders", config={"retention.ms": DAY}, mode="Observe")
    assert not held(planned(topic("orders", config={"retention.ms": WEEK}, applied_spec=wanted), wanted))


CONFIGS = st.dictionaries(st.sampled_from(["retention.ms", "segment.ms", "flush.ms"]), st.sampled_from(["1", "2", DAY]))


@given(was=CONFIGS, wants=CONFIGS, there=CONFIGS, remove=st.booleans())
def test_nothing_is_lost_and_nothing_new_comes(
    was: dict[str, str], wants: dict[str, str], there: dict[str, str], remove: bool
) -> None:
    """Done and held together are what the plan had; what is held has not changed in the spec."""
    fields: dict[str, Any] = {"unmanagedConfig": "Remove"} if remove else {}
    wanted, before = spec("orders", config=wants, **fields), spec("orders", config=was, **fields)
    state = cluster(topic("orders", config=there, applied_spec=before))
    whole = make_plan(state, ClusterSpec(), [wanted], RunOptions(adopt=ALL_TOPICS))
    plan = withhold_external_changes(whole)
    done = keys(change for found in plan.topics for change in found.changes)
    assert sorted([*done, *keys(held(plan))]) == sorted(keys(c for found in whole.topics for c in found.changes))
    assert all(was.get(key) == wants.get(key) for key in keys(held(plan)))
    assert all(was.get(key) != wants.get(key) for key in done)
