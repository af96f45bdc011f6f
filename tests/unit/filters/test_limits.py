"""Limits of groups of topics: what counts, what is withheld, and what is shown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import PROD_CLUSTER, change_kinds, plan, replica_lists, spec, state, topic
from topiarist.desired.resolve import Desired
from topiarist.errors import Reason
from topiarist.filters.limits import LimitFilter
from topiarist.model.plan import Issue, Plan
from topiarist.model.policy import Policy
from topiarist.model.spec import Budgets, ClusterSpec, Limit, LimitedResource, LimitScope, LimitUsage, TopicSpec
from topiarist.model.state import ClusterState

TOPICS, PARTITIONS, BYTES = LimitedResource
TWO = replica_lists("12", "23")


def _limit(scope: LimitScope = LimitScope.LABEL, **allowed: int) -> Limit:
    names = {LimitedResource(name): total for name, total in allowed.items()}
    return Limit("limit one", scope, names, "team" if scope is LimitScope.LABEL else "")


def _spec(name: str, team: str = "", **fields: Any) -> TopicSpec:
    made = spec(name, replicationFactor=2, **fields)
    return replace(made, manifest=made.manifest._replace(labels={"team": team} if team else {}))


def _policy(*limits: Limit, **fields: Any) -> Policy:
    return Policy("quotas", "", PROD_CLUSTER.source, (), limits, **fields)  # type: ignore[arg-type]


def _filter(limits: tuple[Limit, ...], *specs: TopicSpec, **fields: Any) -> LimitFilter:
    return LimitFilter(
        [_policy(*limits, **fields)], Desired({PROD_CLUSTER.name: specs}, {PROD_CLUSTER.name: PROD_CLUSTER})
    )


def _kinds(found: Plan) -> dict[str, list[str]]:
    return {each.topic: change_kinds(each) for each in found.topics}


def _messages(found: Plan) -> list[str]:
    return [issue.message for each in found.topics for issue in each.refusals]


def test_a_group_above_its_limit_gets_nothing_more() -> None:
    """All that uses more is withheld in the group; other groups and other changes are left alone."""
    specs = (
        _spec("a", "shop", partitions=4, config={"retention.ms": 3600000}),
        _spec("b", "shop", partitions=3),
        _spec("c", "ads", partitions=4),
    )
    seen = state(topic("a", TWO), topic("c", TWO))
    found = _filter((_limit(partitions=6),), *specs).enforce(plan(seen, *specs))
    assert _kinds(found) == {"a": ["UpdateConfig"], "b": [], "c": ["AddPartitions"]}
    assert _messages(found) == ["team=shop: 7 partitions, 6 partitions allowed (limit one)"] * 2
    assert all(issue.hint for each in found.topics for issue in each.refusals)


def test_a_group_that_is_above_a_new_limit_may_shrink_and_change() -> None:
    """Only what uses more is refused: a group never has to be within its limit to change."""
    specs = (_spec("a", "shop", ensure="Absent"), _spec("b", "shop", partitions=2, config={"retention.ms": 3600000}))
    seen = state(topic("a", TWO), topic("b", TWO))
    limits = _filter((_limit(topics=0, partitions=0),), *specs)
    made = plan(seen, *specs)
    assert limits.enforce(made) == made
    assert {each.after for each in limits.show_usage(made).limits} == {1, 2}


def test_larger_retention_is_withheld_and_smaller_is_not() -> None:
    """Of a group above its limit, only what lowers ``retention.bytes`` is done, and the refusal has both sizes."""
    bigger, smaller = (_spec(name, "shop", partitions=2, config={"retention.bytes": 2048}) for name in "ab")
    seen = state(*(topic(name, TWO, config={"retention.bytes": size}) for name, size in (("a", "1024"), ("b", "2560"))))
    limits = _filter((_limit(retainedBytes=7000),), bigger, smaller)
    found = limits.enforce(plan(seen, bigger, smaller))
    assert _kinds(found) == {"a": [], "b": ["UpdateConfig"]}
    assert _messages(found) == ["team=shop: 8 KiB retained, ~6.8 KiB retained allowed (limit one)"]


def test_a_refused_topic_shows_its_limit() -> None:
    """The use of a limit is shown for a group with only a refused topic, which may be the reason to look at it."""
    wanted = _spec("a", "shop", partitions=1)
    refused = plan(state(topic("a", TWO)), wanted)
    assert (_kinds(refused), len(_messages(refused))) == ({"a": []}, 1)
    limits = _filter((_limit(topics=1),), wanted, _spec("b", "ads"))
    assert limits.show_usage(refused).limits == (LimitUsage("limit one", "team=shop", TOPICS, 1, 1, 1),)


def test_a_topic_with_only_a_notice_shows_no_limit() -> None:
    """Nothing happens to the group, so its use is no part of the plan."""
    wanted = _spec("a", "shop", partitions=2)
    noticed = plan(state(topic("a", TWO, config={"flush.ms": "5"})), wanted)
    assert [len(each.notices) for each in noticed.topics] == [1]
    assert _filter((_limit(topics=1),), wanted).show_usage(noticed) is noticed


def test_a_group_above_its_limit_may_shift_what_it_uses() -> None:
    """A topic may grow by what another one of the group frees in the same plan, also above a new limit."""
    specs = (_spec("a", "shop", partitions=4), _spec("b", "shop", ensure="Absent"))
    made = plan(state(topic("a", TWO), topic("b", TWO)), *specs)
    assert _filter((_limit(partitions=0),), *specs).enforce(made) == made
    more = plan(state(topic("a", TWO)), *specs)
    assert _messages(_filter((_limit(partitions=0),), *specs).enforce(more)) == [
        "team=shop: 4 partitions, 0 partitions allowed (limit one)"
    ]


def test_a_plan_of_a_cluster_without_topics_of_the_run_has_no_limits() -> None:
    """A plan of another cluster, as a file may have it, is left as it is."""
    wanted = _spec("a", "shop", partitions=2)
    other = replace(plan(state(), wanted), cluster="other")
    limits = _filter((_limit(topics=0),), wanted)
    assert limits.show_usage(limits.enforce(other)) == other


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        ({"topics": 1}, "team=shop: 2 topics, 1 topic allowed on cluster prod (limit one)"),
        ({"partitions": 4}, "team=shop: 5 partitions, 4 partitions allowed on cluster prod (limit one)"),
        (
            {"retainedBytes": 4096},
            "team=shop: retained bytes without bound, 4 KiB retained allowed on cluster prod (limit one)",
        ),
        ({"topics": 2, "partitions": 5}, ""),
    ],
)
@pytest.mark.parametrize("deny", [True, False])
def test_manifests_alone_may_ask_for_too_much(allowed: dict[str, int], words: str, deny: bool) -> None:
    """``validate`` sums what the manifests declare, without topics to be deleted, as an error or as a warning."""
    specs = (
        _spec("a", "shop", partitions=2, config={"retention.bytes": 10}),
        _spec("b", "shop", partitions=3),
        _spec("c", "shop", ensure="Absent"),
    )
    limit = replace(_limit(LimitScope.LABEL, **allowed), deny=deny)
    found = [*_filter((limit,), *specs).find_declared_excess()]
    assert [each.message for each in found] == [words] * bool(words)
    assert {each.reason for each in found} <= {"LimitExceeded" if deny else "PolicyWarning"}
    assert [*LimitFilter([_policy(limit)]).find_declared_excess()] == []


def test_topics_without_the_label_are_a_group() -> None:
    """A topic does not get out of a limit by having no label."""
    specs = (_spec("a", partitions=2), _spec("b", partitions=2))
    found = _filter((_limit(topics=1),), *specs).enforce(plan(state(), *specs))
    assert _messages(found) == ["without label team: 2 topics, 1 topic allowed (limit one)"] * 2


def test_topics_without_a_namespace_are_a_group() -> None:
    """A limit for each namespace counts them apart, and those without a namespace together."""
    specs = [_spec(name, partitions=1) for name in "abc"]
    specs[1:] = [replace(each, manifest=each.manifest._replace(namespace="shop")) for each in specs[1:]]
    found = _filter((_limit(LimitScope.NAMESPACE, topics=0),), *specs).enforce(plan(state(), *specs))
    assert _messages(found) == [
        "without namespace: 1 topic, 0 topics allowed (limit one)",
        *["namespace shop: 2 topics, 0 topics allowed (limit one)"] * 2,
    ]


def test_a_plan_without_sizes_may_delete() -> None:
    """A saved plan has no sizes: the deletions in it use nothing more."""
    wanted = _spec("a", "shop", ensure="Absent")
    saved = replace(plan(state(topic("a", TWO)), wanted), sizes={})
    limits = _filter((_limit(topics=0),), wanted)
    assert limits.enforce(saved) == saved
    assert {(each.before, each.after) for each in limits.show_usage(saved).limits} == {(0, 0)}


def test_topics_that_the_run_does_not_select_count() -> None:
    """A selection is no way around a limit."""
    specs = (_spec("a", "shop", partitions=4), _spec("b", "shop", partitions=2))
    seen = state(topic("a", TWO), topic("b", TWO))
    made = plan(seen, specs[0])
    unselected = replace(made, sizes={**made.sizes, "b": made.sizes["a"]})
    assert _kinds(_filter((_limit(partitions=5),), *specs).enforce(unselected)) == {"a": []}


@pytest.mark.parametrize(
    ("retention", "total"),
    [({}, None), ({"retention.bytes": 100}, 400), ({"retention.bytes": -1}, None), ({"retention.bytes": 0}, 0)],
)
def test_retained_bytes_are_retention_times_partitions(retention: dict[str, int], total: int | None) -> None:
    """Without a known default of the brokers a topic has no bound, and is above every limit."""
    wanted = _spec("a", "shop", partitions=4, config=retention)
    limits = _filter((_limit(retainedBytes=399),), wanted)
    made = plan(state(), wanted)
    assert limits.show_usage(made).limits == (LimitUsage("limit one", "team=shop", BYTES, 0, total, 399),)
    assert _kinds(limits.enforce(made)) == {"a": ["CreateTopic"] if total == 0 else []}


def test_the_brokers_retention_counts_for_topics_without_their_own() -> None:
    """A removed override takes the default."""
    wanted = _spec("a", "shop", partitions=4)
    made = replace(plan(state(), wanted), default_retention_bytes="10")
    limits = _filter((_limit(retainedBytes=40),), wanted)
    assert limits.show_usage(made).limits[0].after == 40
    # A default that is no number is no bound.
    assert limits.show_usage(replace(made, default_retention_bytes="x")).limits[0].after is None


def test_a_group_without_bound_gets_nothing_more() -> None:
    """One topic without a bound opens no door for others, and may change otherwise."""
    specs = (_spec("a", "shop", partitions=4, config={"retention.ms": 3600000}), _spec("b", "shop", partitions=1))
    found = _filter((_limit(retainedBytes=40),), *specs).enforce(plan(state(topic("a", TWO)), *specs))
    assert _kinds(found) == {"a": ["UpdateConfig"], "b": []}


def test_an_owner_has_the_topics_of_the_run_and_those_without_a_manifest() -> None:
    """Topics with the owner's record count; a policy for some of the topics counts only those."""
    wanted = _spec("a", partitions=2)
    seen = state(topic("left", TWO))
    made = plan(seen, wanted)
    limit = _limit(LimitScope.OWNER, topics=1)
    assert _messages(_filter((limit,), wanted).enforce(made)) == [
        "owner default: 2 topics, 1 topic allowed (limit one)"
    ]
    some = replace(limit, counts_all=False)
    assert _messages(_filter((some,), wanted, topic_patterns=("a*",)).enforce(made)) == []


def test_a_warning_withholds_nothing() -> None:
    """It is a notice of each topic that uses more, and of no other one of its group."""
    wanted = _spec("a", "shop", partitions=2, config={"retention.ms": 5}), _spec("b", "shop", partitions=2)
    found = _filter((replace(_limit(topics=1), deny=False),), *wanted).enforce(plan(state(topic("a", TWO)), *wanted))
    assert _kinds(found) == {"a": ["UpdateConfig"], "b": ["CreateTopic"]}
    configured, created = found.topics
    assert configured.notices == ()
    # The topic is made: there is nothing to do first.
    message = "team=shop: 2 topics, 1 topic allowed (limit one)"
    assert created.notices == (Issue(Reason.POLICY_WARNING, message, own_message=created.notices[0].own_message),)


def test_the_budgets_of_a_cluster_have_limits_too() -> None:
    """They count all topics of the run on the cluster."""
    cluster: ClusterSpec = replace(PROD_CLUSTER, budgets=Budgets(limits=(_limit(LimitScope.OWNER, partitions=1),)))
    wanted = _spec("a", partitions=2)
    found = LimitFilter([], Desired({cluster.name: (wanted,)}, {cluster.name: cluster})).enforce(plan(state(), wanted))
    assert _messages(found) == ["owner default: 2 partitions, 1 partition allowed (limit one)"]


def test_a_policy_for_other_clusters_limits_nothing() -> None:
    """Its topics are not counted, and nothing is shown."""
    wanted = _spec("a", "shop", partitions=2)
    limits = _filter((_limit(topics=0),), wanted, cluster_names=("other",))
    made = plan(state(), wanted)
    assert limits.show_usage(limits.enforce(made)) == made


SIZES = st.lists(st.tuples(st.sampled_from(["shop", "ads", ""]), st.integers(1, 6), st.booleans()), max_size=6)


@given(SIZES, st.integers(0, 12))
def test_no_group_grows_above_its_limit(sizes: list[tuple[str, int, bool]], allowed: int) -> None:
    """After the filter each group is within its limit, or has no more than before."""
    specs = [_spec(f"t{index}", team, partitions=count) for index, (team, count, _) in enumerate(sizes)]
    seen: ClusterState = state(*(topic(f"t{index}", TWO[:1]) for index, each in enumerate(sizes) if each[2]))
    limits = _filter((_limit(partitions=allowed),), *specs)
    for usage in limits.show_usage(limits.enforce(plan(seen, *specs))).limits:
        assert usage.before is not None
        assert usage.after is not None
        assert usage.after <= max(usage.allowed, usage.before)
