"""What of a difference is drift: changed on the cluster since the topic was as its spec asks."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.states import cluster, spec, topic
from topiarist.core.change import AddPartitions, CreateTopic, Plan, UpdateConfig
from topiarist.core.drift import Asked, asked, report_only
from topiarist.core.plan import EVERY, Run, make_plan
from topiarist.core.spec import ClusterSpec, TopicSpec
from topiarist.core.state import ClusterState
from topiarist.errors import Reason

DAY, WEEK = "86400000", "604800000"


def planned(state: ClusterState, wanted: TopicSpec, was: Asked | None, **run: Any) -> Plan:
    """The plan for one topic, with drift only reported."""
    plan = make_plan(state, ClusterSpec(), [wanted], Run(**run))
    return report_only(plan, {} if was is None else {wanted.topic: was})


def held(plan: Plan) -> list[object]:
    """What was held back as drift."""
    return [
        change
        for found in plan.topics
        for refusal in found.refusals
        if refusal.reason is Reason.DRIFT_DETECTED
        for change in refusal.held
    ]


def keys(changes: object) -> list[str]:
    """The config keys of updates among changes."""
    return [item.key for change in changes if isinstance(change, UpdateConfig) for item in change.items]  # type: ignore[attr-defined]


def test_what_was_never_as_asked_is_the_specs_doing() -> None:
    """A topic that is new to us is brought into its shape."""
    wanted = spec("orders", config={"retention.ms": DAY})
    plan = planned(cluster(topic("orders", config={"retention.ms": WEEK}, ours=["retention.ms"])), wanted, None)
    assert not held(plan)
    assert keys(plan.topics[0].changes) == ["retention.ms"]


def test_a_value_changed_outside_is_only_reported() -> None:
    """The record keeps naming the key: it is ours still."""
    wanted = spec("orders", config={"retention.ms": DAY})
    state = cluster(topic("orders", config={"retention.ms": WEEK}, ours=["retention.ms"]))
    plan = planned(state, wanted, asked(wanted))
    assert keys(held(plan)) == ["retention.ms"]
    assert not plan.pending


def test_a_value_that_the_spec_changes_is_done() -> None:
    """Whatever is there by now: the spec says anew what it is to be."""
    was = asked(spec("orders", config={"retention.ms": WEEK}))
    state = cluster(topic("orders", config={"retention.ms": "1"}, ours=["retention.ms"]))
    plan = planned(state, spec("orders", config={"retention.ms": DAY}), was)
    assert not held(plan)
    assert keys(plan.topics[0].changes) == ["retention.ms"]


def test_each_key_counts_by_itself() -> None:
    """One key of the spec's doing is done while the other, changed outside, is reported."""
    was = asked(spec("orders", config={"retention.ms": WEEK, "segment.ms": DAY}))
    state = cluster(
        topic("orders", config={"retention.ms": WEEK, "segment.ms": "1"}, ours=["retention.ms", "segment.ms"])
    )
    plan = planned(state, spec("orders", config={"retention.ms": DAY, "segment.ms": DAY}), was)
    assert keys(held(plan)) == ["segment.ms"]
    assert keys(plan.topics[0].changes) == ["retention.ms"]
    assert plan.topics[0].record_after is not None


def test_a_key_that_leaves_the_spec_is_removed() -> None:
    """It was ours; that the spec asks for it no more is the spec's doing."""
    was = asked(spec("orders", config={"retention.ms": WEEK}))
    plan = planned(cluster(topic("orders", config={"retention.ms": WEEK}, ours=["retention.ms"])), spec("orders"), was)
    assert not held(plan)
    assert keys(plan.topics[0].changes) == ["retention.ms"]


def test_unmanaged_keys_come_from_outside_unless_the_spec_is_new() -> None:
    """With unmanagedConfig: Remove a key that turns up later is drift; at the switch to it, it is not."""
    state = cluster(topic("orders", config={"retention.ms": WEEK}))
    wanted = spec("orders", unmanagedConfig="Remove")
    assert keys(held(planned(state, wanted, asked(wanted)))) == ["retention.ms"]
    assert not held(planned(state, wanted, asked(spec("orders"))))


def test_growth_is_the_specs_doing_when_its_number_is_new() -> None:
    """Partitions cannot go, so a topic with fewer than it was asked for is another one."""
    state = cluster(topic("orders", 3))
    grown = planned(state, spec("orders", partitions=6), asked(spec("orders", partitions=3)))
    assert [type(change) for change in grown.topics[0].changes] == [AddPartitions]
    drifted = planned(state, spec("orders", partitions=6), asked(spec("orders", partitions=6)))
    assert [type(change) for change in held(drifted)] == [AddPartitions]


def test_a_topic_that_is_gone_is_not_made_again() -> None:
    """It was there as asked, so somebody deleted it, and our record with it."""
    plan = planned(cluster(), spec("orders", partitions=3, replicationFactor=2), Asked(3))
    assert [type(change) for change in held(plan)] == [CreateTopic]
    assert not plan.pending


def test_what_is_only_observed_stays_as_planned() -> None:
    """Nothing of it is done anyway."""
    wanted = spec("orders", config={"retention.ms": DAY}, mode="Observe")
    state = cluster(topic("orders", config={"retention.ms": WEEK}, ours=["retention.ms"]))
    assert not held(planned(state, wanted, asked(wanted)))


CONFIGS = st.dictionaries(st.sampled_from(["retention.ms", "segment.ms", "flush.ms"]), st.sampled_from(["1", "2", DAY]))


@given(was=CONFIGS, wants=CONFIGS, there=CONFIGS, remove=st.booleans())
def test_nothing_is_lost_and_nothing_new_comes(
    was: dict[str, str], wants: dict[str, str], there: dict[str, str], remove: bool
) -> None:
    """Done and held together are what the plan had; what is held has not changed in the spec."""
    fields: dict[str, Any] = {"unmanagedConfig": "Remove"} if remove else {}
    wanted, before = spec("orders", config=wants, **fields), spec("orders", config=was, **fields)
    state = cluster(topic("orders", config=there, ours=sorted(was)))
    whole = make_plan(state, ClusterSpec(), [wanted], Run(adopt=EVERY))
    plan = report_only(whole, {"orders": asked(before)})
    done = keys(change for found in plan.topics for change in found.changes)
    assert sorted([*done, *keys(held(plan))]) == sorted(keys(c for found in whole.topics for c in found.changes))
    assert all(was.get(key) == wants.get(key) for key in keys(held(plan)))
    assert all(was.get(key) != wants.get(key) for key in done)
