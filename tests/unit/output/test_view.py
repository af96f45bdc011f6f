"""The view of moves: what moves and why, new leaders, batches and pace; and places relative to the repository."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import (
    PROD_CLUSTER,
    RACKED_BROKERS,
    RACKLESS_BROKERS,
    DocumentSource,
    plan,
    replica_lists,
    spec,
    state,
    topic,
)
from topiarist.errors import Reason
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import UNLIMITED, BatchLimits, MoveKind, MoveSettings, ReplicaMove
from topiarist.model.plan import SAFE_ASSESSMENT, Issue, MoveReplicas, Plan, RunOptions, TopicPlan
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.output.text.layout import TextLayout
from topiarist.output.text.plan import format_plans
from topiarist.output.view import ChangeView, describe_pace, relative_path, summarize_moves, view_changes, view_issue

KINDS = MoveSettings(allow=frozenset(MoveKind) - {MoveKind.SPREAD}, throttle=50 << 20)
SOURCE = DocumentSource("prod.yaml", {"kind": "Cluster", "spec": {"drainBrokers": [4]}})
DRAINING = replace(PROD_CLUSTER, moves=KINDS, drain_brokers=frozenset({4}), source=SOURCE)
LISTS = replica_lists("41", "24", "12")


def move(before: str, after: str, *kinds: MoveKind, partition: int = 0) -> ReplicaMove:
    """Return a move from strings of broker ids."""
    lists: list[Replicas] = [tuple(map(int, text)) for text in (before, after)]
    return ReplicaMove("orders", partition, lists[0], lists[1], kinds or (MoveKind.ASSIGNMENT,))


def view_of(moves: Sequence[ReplicaMove], wanted: TopicSpec | None = None) -> ChangeView:
    """Return the view of moves."""
    (view,) = view_changes([MoveReplicas(tuple(moves), SAFE_ASSESSMENT)], wanted)
    return view


def text_of(found: Plan, **layout: Any) -> str:
    """Return the text of a plan."""
    return format_plans([found], TextLayout(**layout))


@pytest.mark.parametrize(
    ("moves", "count", "words"),
    [
        ([move("12", "123")], 1, "factor 2 -> 3, 1 partition, 1 copy"),
        ([move("12", "123"), move("1", "123")], 5, "factor 1 and 2 -> 3, 2 of 5 partitions, 3 copies"),
        ([move("123", "12")], 2, "factor 3 -> 2, 1 of 2 partitions"),
        ([move("12", "21"), move("12", "21")], 0, "reorder the replicas of 2 partitions"),
        ([move("12", "21"), move("12", "32")], 9, "move 2 of 9 partitions, 1 copy"),
        ([move("12", "13"), move("12", "123")], 2, "move 2 partitions, 2 copies"),
    ],
)
def test_moves_in_a_few_words(moves: list[ReplicaMove], count: int, words: str) -> None:
    """The heading names the factor if it changes for all partitions, and how many of the topic's are moved."""
    assert summarize_moves(moves, count) == words


def test_a_drain_names_its_brokers_and_where_they_are_declared() -> None:
    """The reason has the broker, the field or the option that drains it, and the line of the field."""
    seen = state(topic(replicas=LISTS), brokers=RACKLESS_BROKERS)
    wanted = spec(on=DRAINING, partitions=3, replicationFactor=2)
    (found,) = plan(seen, wanted).topics
    assert view_of(found.moves(), wanted).cause == "broker 4 is drained (Cluster.spec.drainBrokers)"
    assert (origin := view_of(found.moves(), wanted).cause_origin)
    assert str(origin.locate()) == "prod.yaml:4:3"
    assert view_of(found.moves()).cause == "Drain (2)"
    (found,) = plan(seen, wanted, run=RunOptions(drain_brokers=frozenset({1}))).topics
    assert view_of(found.moves(), wanted).cause == (
        "broker 4 is drained (Cluster.spec.drainBrokers) and broker 1 is drained (--drain-brokers)"
    )
    by_option = spec(on=replace(DRAINING, drain_brokers=frozenset()), partitions=3, replicationFactor=2)
    (found,) = plan(seen, by_option, run=RunOptions(drain_brokers=frozenset({4, 1}))).topics
    assert view_of(found.moves(), by_option).cause == "brokers 1, 4 are drained (--drain-brokers)"
    assert view_of(found.moves(), by_option).cause_origin is None


def test_several_reasons_count_their_partitions() -> None:
    """Each reason has its own number of partitions; a broker that leaves for its rack is not called drained."""
    seen = state(topic(replicas=replica_lists("412", "123")), brokers=RACKED_BROKERS)
    wanted = spec(on=DRAINING, partitions=2, replicationFactor=4)
    (found,) = plan(seen, wanted).topics
    assert view_of(found.moves(), wanted).cause == (
        "broker 4 is drained (Cluster.spec.drainBrokers): 1 partition; replicationFactor is 4: 2 partitions"
    )
    two = spec(on=replace(DRAINING, drain_brokers=frozenset({3, 4})), partitions=2, replicationFactor=2)
    assert view_of([move("14", "12", MoveKind.DRAIN)], two).cause == ("broker 4 is drained (Cluster.spec.drainBrokers)")
    both = [move("145", "126", MoveKind.DRAIN, MoveKind.RACKS)]
    assert view_of(both, wanted).cause == (
        "broker 4 is drained (Cluster.spec.drainBrokers): 1 partition; "
        "replicas are in fewer racks than they could be: 1 partition"
    )


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ((MoveKind.FACTOR,), ""),
        ((MoveKind.RACKS,), "replicas are in fewer racks than they could be"),
        ((MoveKind.ASSIGNMENT,), "replicaAssignment lists these brokers"),
        ((MoveKind.SPREAD,), "replicas or leaders are uneven (spread: Kafka)"),
    ],
)
def test_every_reason_has_words(kinds: tuple[MoveKind, ...], words: str) -> None:
    """Each kind of move has a sentence; a changed factor, which the heading has, needs none."""
    assert view_of([move("12", "13", *kinds)], spec()).cause == words


def test_new_leaders_are_counted() -> None:
    """A partition with another first replica counts, whether the earlier leader stays or leaves."""
    assert view_of([move("12", "13")]).new_leaders == ""
    assert view_of([move("12", "21")]).new_leaders == "1 partition gets another preferred leader"
    assert view_of([move("12", "21"), move("12", "32")]).new_leaders == "2 partitions get another preferred leader"


def test_a_hint_names_its_topic_unless_topics_share_it() -> None:
    """The option in the hint of a shared refusal has TOPIC in place of a name."""
    issue = Issue(Reason.NOT_ADOPTED, "no", hint="if it is meant: --adopt=orders")
    assert view_issue(TopicPlan("orders"), issue).hint == "if it is meant: --adopt=orders"
    assert view_issue(TopicPlan("orders"), issue, is_shared=True).hint == "if it is meant: --adopt=TOPIC"


def _limited(moves: MoveSettings) -> ClusterSpec:
    return replace(DRAINING, moves=moves)


@pytest.mark.parametrize(
    ("on", "words"),
    [
        (DRAINING, "2 partitions, 2 copies, 1 batch, at most 50 MiB/s a broker"),
        (_limited(replace(KINDS, throttle=UNLIMITED)), "2 partitions, 2 copies, 1 batch, not throttled"),
        (
            _limited(replace(KINDS, throttle=1536, batch=BatchLimits(partitions=1))),
            "2 partitions, 2 copies, 2 batches, at most ~1.5 KiB/s a broker",
        ),
    ],
)
def test_the_pace_is_that_of_the_cluster(on: ClusterSpec, words: str) -> None:
    """The line counts partitions, copies and batches, and has the throttle of the cluster or of the run."""
    seen = state(topic(replicas=LISTS), brokers=RACKLESS_BROKERS)
    assert describe_pace(plan(seen, spec(on=on, partitions=3, replicationFactor=2))) == words


def test_no_moves_have_no_pace() -> None:
    """A plan without moves has no such line; one that copies nothing says so."""
    assert describe_pace(plan(state(), spec())) == ""
    seen = state(topic(replicas=replica_lists("12")), brokers=RACKLESS_BROKERS)
    reordered = plan(seen, spec(on=DRAINING, replicaAssignment=[[2, 1]]))
    assert describe_pace(reordered) == "1 partition, nothing is copied, 1 batch"


def test_many_brokers_sum_what_they_copy_by_rack() -> None:
    """With many brokers a row is a rack, with the sums of its brokers, and with what is left on its drained ones."""
    brokers = tuple(Broker(number, "abc"[number % 3]) for number in range(30))
    seen = state(topic(replicas=((0, 1), (0, 2))), brokers=brokers)
    on = replace(DRAINING, drain_brokers=frozenset({0}))
    text = text_of(plan(seen, spec(on=on, partitions=2, replicationFactor=2)))
    (row,) = [line for line in text.splitlines() if "rack a (10 brokers)" in line]
    assert row.split()[-4:] == ["1", "2", "1", "drained"]


def test_what_a_drained_broker_keeps_is_a_warning() -> None:
    """Topics without a manifest are counted for each drained broker; topics marked for deletion are not."""
    seen = state(
        topic(replicas=LISTS),
        topic("a", replica_lists("42", "14")),
        topic("b", replica_lists("4")),
        topic("c", replica_lists("4")),
        brokers=RACKLESS_BROKERS,
        pending_deletions=frozenset({"c"}),
    )
    wanted = spec(on=DRAINING, partitions=3, replicationFactor=2)
    found = [text for text in plan(seen, wanted).warnings if "drained" in text]
    assert found == ["drained broker 4 keeps 3 replicas of 2 topics without a manifest"]
    assert not [text for text in plan(seen, replace(wanted, cluster=PROD_CLUSTER)).warnings if "drained" in text]


@pytest.mark.parametrize(("brokers", "warned"), [(RACKLESS_BROKERS, False), (RACKLESS_BROKERS[:3], True)])
def test_the_logs_of_an_offline_broker_are_a_warning(brokers: tuple[Broker, ...], warned: bool) -> None:
    """Replicas that leave an offline broker leave their logs on its disk; a registered one deletes them (S12)."""
    seen = state(topic(replicas=LISTS), brokers=brokers)
    wanted = spec(on=DRAINING, partitions=3, replicationFactor=2)
    assert any("stay on its disk" in text for text in plan(seen, wanted).warnings) is warned
    done = state(topic(replicas=replica_lists("31", "23", "12")), brokers=brokers)
    assert not any("stay on its disk" in text for text in plan(done, wanted).warnings)


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        ("topics/a.yaml", "topics/a.yaml"),
        ("./topics/../a.yaml", "a.yaml"),
        ("/repo/topics/a.yaml", "topics/a.yaml"),
        ("../other/a.yaml", "../other/a.yaml"),
        ("/repository/a.yaml", "/repository/a.yaml"),
        ("<stdin>", "<stdin>"),
    ],
)
def test_files_are_named_as_git_names_them(file: str, wanted: str) -> None:
    """Files below the working folder have the path that git has."""
    assert relative_path(file, "/repo") == wanted
