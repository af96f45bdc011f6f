"""External changes: differences that arose on the cluster after the topic last matched its spec."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support import builders
from support.builders import state
from support.memory_cluster import simulate
from topiarist.adapters.own_values import encode_record
from topiarist.errors import Reason
from topiarist.filters.limits import withhold_external_changes
from topiarist.model.plan import ALL_TOPICS, AddPartitions, Change, Plan, RunOptions, TakeOwnership, UpdateConfig
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import OwnershipRecord, TopicState
from topiarist.planning.planner import make_plan

DAY, WEEK = "86400000", "604800000"


def planned(there: TopicState, wanted: TopicSpec, **run: Any) -> Plan:
    """Return the plan for one topic with external changes withheld."""
    return withhold_external_changes(make_plan(state(there), ClusterSpec(), [wanted], RunOptions(**run)))


def held(plan: Plan) -> list[object]:
    """Return the changes that were withheld as drift."""
    return [
        change
        for found in plan.topics
        for refusal in found.refusals
        if refusal.reason is Reason.DRIFT_DETECTED
        for change in refusal.withheld
    ]


def keys(changes: object) -> list[str]:
    """Return the config keys of the updates among the changes."""
    return [item.key for change in changes if isinstance(change, UpdateConfig) for item in change.items]  # type: ignore[attr-defined]


def test_what_was_never_as_asked_is_the_specs_doing() -> None:
    """A key that never matched is a change of the spec, for a newly adopted topic and for a record without the key."""
    wanted = builders.spec("orders", config={"retention.ms": DAY})
    new = builders.topic("orders", config={"retention.ms": WEEK}, record=None)
    known = builders.topic("orders", config={"retention.ms": WEEK}, applied_spec=builders.spec("orders"))
    for there in (new, known):
        plan = planned(there, wanted, adopt=ALL_TOPICS)
        assert not held(plan)
        assert keys(plan.topics[0].changes) == ["retention.ms"]


def test_a_value_changed_outside_is_only_reported() -> None:
    """A value that another client changed or removed is only reported, and the record keeps the key and its value."""
    wanted = builders.spec("orders", config={"retention.ms": DAY})
    for config in ({"retention.ms": WEEK}, {}):
        plan = planned(builders.topic("orders", config=config, applied_spec=wanted), wanted)
        assert keys(held(plan)) == ["retention.ms"]
        assert not plan.has_changes
        assert plan.topics[0].record_after == plan.topics[0].record_before
        assert "driftPolicy: Correct" in plan.topics[0].refusals[0].hint


def test_a_value_in_other_words_is_the_same() -> None:
    """An equivalent text of a value is no change of the spec, and causes no write."""
    before, wanted = (builders.spec("orders", config={"min.cleanable.dirty.ratio": text}) for text in ("0.5", "0.50"))
    ratio = {"min.cleanable.dirty.ratio": "0.5"}
    assert not make_plan(
        state(builders.topic("orders", config=ratio, applied_spec=before)), ClusterSpec(), [wanted], RunOptions()
    ).has_changes
    drifted = builders.topic("orders", config={"min.cleanable.dirty.ratio": "0.7"}, applied_spec=before)
    assert keys(held(planned(drifted, wanted))) == ["min.cleanable.dirty.ratio"]


def test_a_spec_that_follows_the_cluster_is_noted() -> None:
    """A spec that adopts the value of the cluster changes only the record. A later return to the old value is drift."""
    was, wanted = (builders.spec("orders", config={"retention.ms": text}) for text in (WEEK, DAY))
    cluster_state = state(builders.topic("orders", config={"retention.ms": DAY}, applied_spec=was))
    plan = make_plan(cluster_state, ClusterSpec(), [wanted], RunOptions())
    assert [type(change) for change in plan.topics[0].changes] == [TakeOwnership]
    after = simulate(cluster_state, plan.topics)
    assert not make_plan(after, ClusterSpec(), [wanted], RunOptions()).topics
    back = replace(after.topics["orders"], config={"retention.ms": WEEK})
    assert keys(held(planned(back, wanted))) == ["retention.ms"]


@pytest.mark.parametrize(
    ("config", "kind"),
    [({"retention.ms": DAY, "segment.ms": "1"}, TakeOwnership), ({"retention.ms": WEEK}, UpdateConfig)],
    ids=["as on the cluster", "to be written"],
)
def test_what_the_spec_changes_is_done_beside_drift(config: dict[str, str], kind: type[Change]) -> None:
    """While a key that another client changed is withheld, one that the spec changed is written, and the record notes
    both values of the spec.
    """
    was = builders.spec("orders", config={"retention.ms": WEEK, "segment.ms": DAY})
    wanted = builders.spec("orders", config={"retention.ms": DAY, "segment.ms": DAY})
    plan = planned(builders.topic("orders", config=config, applied_spec=was), wanted)
    assert keys(held(plan)) == ["segment.ms"]
    assert [type(change) for change in plan.topics[0].changes] == [kind]
    assert keys(plan.topics[0].changes) == ["retention.ms"] * (kind is UpdateConfig)
    record = plan.topics[0].record_after
    assert record is not None
    assert record.applied is not None
    assert record.applied.config == (("retention.ms", DAY), ("segment.ms", DAY))


def test_a_key_that_leaves_the_spec_is_removed() -> None:
    """A managed key that the spec no longer has is removed as a change of the spec."""
    was = builders.spec("orders", config={"retention.ms": WEEK})
    plan = planned(builders.topic("orders", config={"retention.ms": WEEK}, applied_spec=was), builders.spec("orders"))
    assert not held(plan)
    assert keys(plan.topics[0].changes) == ["retention.ms"]


def test_a_record_without_values_gets_none_while_all_is_withheld() -> None:
    """The record does not note that a spec was applied while every change of the topic waits."""
    there = builders.topic("orders", 3, "retention.ms", config={"retention.ms": WEEK}, modified_externally=True)
    plan = planned(there, builders.spec("orders", config={"retention.ms": DAY}))
    assert keys(held(plan)) == ["retention.ms"]
    assert not plan.has_changes
    assert plan.topics[0].record_after == there.record


def test_a_managed_key_without_a_recorded_value_is_only_reported() -> None:
    """A record that lists a key without its value does not say that the spec caused the difference."""
    there = builders.topic(
        "orders", 3, "retention.ms", config={"retention.ms": WEEK}, applied_spec=builders.spec("orders")
    )
    assert keys(held(planned(there, builders.spec("orders", config={"retention.ms": DAY})))) == ["retention.ms"]


def test_a_deletion_record_is_no_memory_of_the_topic() -> None:
    """A topic that another client made after a deletion by topiarist is adopted with the values of its spec."""
    record = OwnershipRecord("default", deleted=True)
    there = replace(builders.topic("orders", config={"retention.ms": WEEK}, record_valid=False), record=record)
    plan = planned(there, builders.spec("orders", config={"retention.ms": DAY}), adopt=ALL_TOPICS)
    assert (held(plan), keys(plan.topics[0].changes)) == ([], ["retention.ms"])


def test_a_saved_plan_is_not_judged_again() -> None:
    """A topic without its spec comes from a plan that was judged when it was made."""
    wanted = builders.spec("orders", config={"retention.ms": DAY})
    there = builders.topic("orders", config={"retention.ms": WEEK}, applied_spec=wanted)
    whole = make_plan(state(there), ClusterSpec(), [wanted], RunOptions())
    saved = replace(whole, topics=tuple(replace(each, spec=None) for each in whole.topics))
    assert withhold_external_changes(saved) == saved


def test_unmanaged_keys_come_from_outside_unless_the_spec_is_new() -> None:
    """With unmanagedConfig: Remove, a key that appears later is drift, and a key from before the switch is not."""
    wanted = builders.spec("orders", unmanagedConfig="Remove")
    assert keys(
        held(planned(builders.topic("orders", config={"retention.ms": WEEK}, applied_spec=wanted), wanted))
    ) == ["retention.ms"]
    assert not held(
        planned(builders.topic("orders", config={"retention.ms": WEEK}, applied_spec=builders.spec("orders")), wanted)
    )


def test_a_switch_to_remove_is_noted_where_there_is_nothing_to_remove() -> None:
    """The record notes the switch to Remove without any key to remove. Otherwise the first key of another client would
    count as a change of the spec.
    """
    cluster_state, wanted = (
        state(builders.topic("orders", applied_spec=builders.spec("orders"))),
        builders.spec("orders", unmanagedConfig="Remove"),
    )
    plan = make_plan(cluster_state, ClusterSpec(), [wanted], RunOptions())
    after = simulate(cluster_state, plan.topics).topics["orders"]
    assert keys(held(planned(replace(after, config={"retention.ms": WEEK}), wanted))) == ["retention.ms"]


def test_growth_is_the_specs_doing_when_its_number_is_new() -> None:
    """Growth to a new number is a change of the spec. With an unchanged number, another client recreated the topic."""
    grown = planned(
        builders.topic("orders", 3, applied_spec=builders.spec("orders", partitions=3)),
        builders.spec("orders", partitions=6),
    )
    assert [type(change) for change in grown.topics[0].changes] == [AddPartitions]
    again = builders.topic("orders", 3, applied_spec=builders.spec("orders", partitions=6), record_valid=False)
    drifted = planned(again, builders.spec("orders", partitions=6), adopt=ALL_TOPICS)
    assert [type(change) for change in held(drifted)] == [AddPartitions]
    more = planned(again, builders.spec("orders", partitions=9), adopt=ALL_TOPICS)
    assert [type(change) for change in more.topics[0].changes] == [AddPartitions]


def test_a_record_that_knows_no_values_speaks_against_whatever_others_have_written_since() -> None:
    """With a record without values, a difference is drift if another client has written the topic since, and otherwise
    a change of the spec.
    """
    wanted = builders.spec("orders", config={"retention.ms": DAY})
    cases: list[tuple[dict[str, Any], bool]] = [
        ({}, False),
        ({"modified_externally": True}, True),
        ({"record_valid": False}, True),
    ]
    for fields, outside in cases:
        there = builders.topic("orders", 3, "retention.ms", config={"retention.ms": WEEK}, **fields)
        assert keys(held(planned(there, wanted, adopt=ALL_TOPICS))) == ["retention.ms"] * outside


def test_a_topic_that_is_taken_over_is_brought_into_its_shape() -> None:
    """Taking ownership applies the spec: the applied values of the former owner do not make a difference drift."""
    wanted = builders.spec("orders", config={"retention.ms": DAY})
    there = builders.topic("orders", config={"retention.ms": WEEK}, owner="team", applied_spec=wanted)
    plan = planned(there, wanted, take_ownership=ALL_TOPICS)
    assert keys(plan.topics[0].changes) == ["retention.ms"]


def test_what_others_changed_is_named_by_key() -> None:
    """The notice has each changed key with both values, and the record keeps a long value only as a digest."""
    long = ",".join(f"{number}:{number}" for number in range(100))
    throttle = "follower.replication.throttled.replicas"
    was = builders.spec("orders", config={"retention.ms": WEEK, throttle: long, "flush.ms": "7"})
    made = simulate(
        state(builders.topic("orders", record=None)),
        make_plan(
            state(builders.topic("orders", record=None)), ClusterSpec(), [was], RunOptions(adopt=ALL_TOPICS)
        ).topics,
    )
    found = replace(made.topics["orders"], config={"retention.ms": DAY, throttle: long}, modified_externally=True)
    (notice,) = make_plan(state(found), ClusterSpec(), [was], RunOptions()).topics[0].notices
    assert notice.message.endswith(f": flush.ms was 7, and is not set now, retention.ms was {WEEK}, and is {DAY} now")
    record = found.record
    assert record is not None
    assert len(encode_record(record)) < 400


def test_what_is_only_observed_stays_as_planned() -> None:
    """The plan of an observed topic stays unchanged, because the run does not write it."""
    wanted = builders.spec("orders", config={"retention.ms": DAY}, mode="Observe")
    assert not held(planned(builders.topic("orders", config={"retention.ms": WEEK}, applied_spec=wanted), wanted))


CONFIGS = st.dictionaries(st.sampled_from(["retention.ms", "segment.ms", "flush.ms"]), st.sampled_from(["1", "2", DAY]))


@given(was=CONFIGS, wants=CONFIGS, there=CONFIGS, remove=st.booleans())
def test_nothing_is_lost_and_nothing_new_comes(
    was: dict[str, str], wants: dict[str, str], there: dict[str, str], remove: bool
) -> None:
    """Remaining and withheld changes together are those of the plan, and no withheld key has changed in the spec."""
    fields: dict[str, Any] = {"unmanagedConfig": "Remove"} if remove else {}
    wanted, before = builders.spec("orders", config=wants, **fields), builders.spec("orders", config=was, **fields)
    cluster_state = state(builders.topic("orders", config=there, applied_spec=before))
    whole = make_plan(cluster_state, ClusterSpec(), [wanted], RunOptions(adopt=ALL_TOPICS))
    plan = withhold_external_changes(whole)
    done = keys(change for found in plan.topics for change in found.changes)
    assert sorted([*done, *keys(held(plan))]) == sorted(keys(c for found in whole.topics for c in found.changes))
    assert all(was.get(key) == wants.get(key) for key in keys(held(plan)))
    assert all(was.get(key) != wants.get(key) for key in done)
