"""Three-way diff of configs, and the managed keys of the ownership record.

topiarist sets the keys of the spec, removes managed keys that the spec no longer has, and keeps all other keys. The
ownership record lists the keys that topiarist set.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import (
    CLUSTER_ID,
    PROD_CLUSTER,
    UNCAPPED_CLUSTER,
    change_kinds,
    cluster,
    config_changes,
    notice_reasons,
    plan,
    plan_single_topic,
    record_without_values,
    refusal_reasons,
    replan,
    replica_lists,
    spec,
    state,
    topic,
)
from topiarist.kafka.types import KafkaVersion
from topiarist.model.plan import ALL_TOPICS, RunOptions, UpdateConfig
from topiarist.model.spec import ClusterSpec, RetentionStep
from topiarist.model.state import OwnershipRecord

ALL = RunOptions(adopt=("*",))
UNDECLARED = cluster("prod", cluster_id=CLUSTER_ID)
"""A cluster without a declared release."""


def _stands(*keys: str, **config: str) -> Any:
    """Return a cluster with the topic ``orders``, these overrides (``retention_ms`` is ``retention.ms``) and managed
    keys.
    """
    named = {key.replace("_", "."): text for key, text in config.items()}
    return state(topic("orders", replica_lists("12", "23", "34"), *keys, config=named))


# managed keys, stored config, spec -> changes, notices, managed keys afterwards
THREE_WAYS: dict[str, Any] = {
    "set": ((), {}, {"config": {"retention.ms": 5}}, {"retention.ms": (None, "5")}, [], ("retention.ms",)),
    "changed": (
        *(("retention.ms",), {"retention.ms": "4"}, {"config": {"retention.ms": 5}}),
        *({"retention.ms": ("4", "5")}, [], ("retention.ms",)),
    ),
    "set over what others set": (
        *((), {"retention.ms": "4"}, {"config": {"retention.ms": 5}}),
        *({"retention.ms": ("4", "5")}, [], ("retention.ms",)),
    ),
    "left the spec, ours": (("retention.ms",), {"retention.ms": "4"}, {}, {"retention.ms": ("4", None)}, [], ()),
    "left the spec, ours, Kafka's default": (
        *(("retention.ms",), {"retention.ms": "604800000"}, {}),
        *({"retention.ms": ("604800000", None)}, [], ()),
    ),
    "left the spec, gone already": (("retention.ms",), {}, {}, {}, [], ()),
    "never ours": ((), {"retention.ms": "4"}, {}, {}, ["Unmanaged"], ()),
    "never ours, Remove": (
        *((), {"retention.ms": "4", "x.y": "1"}, {"unmanagedConfig": "Remove"}),
        *({"retention.ms": ("4", None)}, ["Unmanaged"], ()),
    ),
    "equal, written otherwise": (
        *(("retention.ms",), {"retention.ms": "05"}, {"config": {"retention.ms": 5}}),
        *({}, [], ("retention.ms",)),
    ),
    "equal, set by others": ((), {"retention.ms": "5"}, {"config": {"retention.ms": 5}}, {}, [], ("retention.ms",)),
    "throttles of others": (
        *((), {"leader.replication.throttled.replicas": "*"}, {"unmanagedConfig": "Remove"}),
        *({}, [], ()),
    ),
    "throttles that were ours": (
        *(("leader.replication.throttled.replicas",), {"leader.replication.throttled.replicas": "*"}, {}),
        *({}, [], ("leader.replication.throttled.replicas",)),
    ),
    "throttles that the spec names": (
        *((), {}, {"config": {"follower.replication.throttled.replicas": "*"}}),
        *({"follower.replication.throttled.replicas": (None, "*")}, []),
        ("follower.replication.throttled.replicas",),
    ),
    "ignored, set": ((), {}, {"config": {"retention.ms": 5}, "ignore": ["config.retention.ms"]}, {}, ["Ignored"], ()),
    "ignored, ours, differs": (
        *(("retention.ms",), {"retention.ms": "4"}, {"config": {"retention.ms": 5}, "ignore": ["config.retention.ms"]}),
        *({}, ["Ignored"], ("retention.ms",)),
    ),
    "ignored, ours, left the spec": (
        *(("retention.ms",), {"retention.ms": "4"}, {"ignore": ["config.retention.ms"]}),
        *({}, ["Ignored"], ("retention.ms",)),
    ),
    "ignored, equal": (
        *((), {"retention.ms": "5"}, {"config": {"retention.ms": 5}, "ignore": ["config.retention.ms"]}),
        *({}, [], ()),
    ),
}


@pytest.mark.parametrize("case", THREE_WAYS.values(), ids=THREE_WAYS.keys())
def test_three_ways(case: Any) -> None:
    """A key in the spec is set; a managed key that has left the spec is removed; an unmanaged key is kept and
    reported.
    """
    ours, stands, fields, done, said, record = case
    seen = state(topic("orders", replica_lists("12", "23", "34"), *ours, config=stands))
    wanted = spec(on=cluster("prod", version=(3, 9), allow_unknown_configs=("x.*",)), **fields)
    found = plan_single_topic(seen, wanted)
    assert (config_changes(found), notice_reasons(found), refusal_reasons(found)) == (done, said, [])
    if found.changes:
        assert record_without_values(found) == OwnershipRecord("default", record)
    else:
        assert ours == record
    assert list(replan(seen, [wanted]).actionable_topics()) == []


@pytest.mark.parametrize(
    ("key", "stored", "wanted"),
    [
        ("cleanup.policy", "compact,delete", "delete,compact"),
        ("cleanup.policy", "delete , compact", "compact,delete"),
        ("min.cleanable.dirty.ratio", "0.50", "0.5"),
        ("min.cleanable.dirty.ratio", "5e-1", ".5"),
        ("retention.ms", "+604800000", "604800000"),
        ("unclean.leader.election.enable", "TRUE", "true"),
        ("compression.type", " zstd ", "zstd"),
        ("message.format.version", "2.8.1", "2.8"),
        ("leader.replication.throttled.replicas", "1:2,0:1", "0:1,1:2"),
    ],
)
def test_equal_values_are_no_difference(key: str, stored: str, wanted: str) -> None:
    """A stored value with the same meaning is not rewritten, and its key becomes a managed key."""
    found = plan_single_topic(state(topic(record=None, config={key: stored})), spec(config={key: wanted}))
    assert change_kinds(found) == ["TakeOwnership"]
    assert record_without_values(found) == OwnershipRecord("default", (key,))


def test_one_change_holds_all_keys_in_order() -> None:
    """Keys to set and to remove are one sorted ``UpdateConfig``; keys that come from defaults only are marked."""
    on = cluster("prod", version=(3, 9), default_config={"segment.ms": "7", "min.insync.replicas": "2"})
    found = plan_single_topic(
        _stands("retention.ms", retention_ms="4"), spec(on=on, config={"cleanup.policy": "compact"})
    )
    change = found.changes[0]
    assert isinstance(change, UpdateConfig)
    assert [(item.key, item.before, item.after, item.inherited) for item in change.items] == [
        ("cleanup.policy", None, "compact", False),
        ("min.insync.replicas", None, "2", True),
        ("retention.ms", "4", None, False),
        ("segment.ms", None, "7", True),
    ]


def test_without_config_takes_a_default_away() -> None:
    """A default that topiarist set and that ``withoutConfig`` now names is removed."""
    on = cluster("prod", version=(3, 9), default_config={"segment.ms": "7"})
    assert change_kinds(plan_single_topic(_stands(), spec(on=on))) == ["UpdateConfig"]
    assert plan_single_topic(_stands(), spec(on=on, withoutConfig=["segment.ms"])).is_empty
    found = plan_single_topic(_stands("segment.ms", segment_ms="7"), spec(on=on, withoutConfig=["segment.ms"]))
    assert config_changes(found) == {"segment.ms": ("7", None)}


def test_a_new_topic_gets_what_is_ignored_but_its_record_does_not_claim_it() -> None:
    """``ignore`` concerns changes to an existing topic only: a new topic gets ignored keys, and its record omits
    them.
    """
    found = plan_single_topic(
        state(), spec(config={"retention.ms": 5, "segment.ms": 7}, ignore=["config.retention.ms"])
    )
    assert record_without_values(found) == OwnershipRecord("default", ("segment.ms",))
    assert found.changes[0].config == {"retention.ms": "5", "segment.ms": "7"}  # type: ignore[union-attr]


def test_a_record_that_would_differ_is_a_change_of_its_own() -> None:
    """Keys that the spec adopts or that were removed change the record alone: ``TakeOwnership``, Safe."""
    taken = plan_single_topic(_stands(retention_ms="5"), spec(config={"retention.ms": 5}))
    assert (change_kinds(taken), record_without_values(taken)) == (
        ["TakeOwnership"],
        OwnershipRecord("default", ("retention.ms",)),
    )
    gone = plan_single_topic(_stands("retention.ms"), spec())
    assert (change_kinds(gone), record_without_values(gone)) == (["TakeOwnership"], OwnershipRecord("default"))


def test_a_stale_record_removes_nothing() -> None:
    """Keys of a record that belongs to an earlier topic are not managed, so none is removed."""
    old = topic(record=OwnershipRecord("default", ("retention.ms",)), record_valid=False, config={"retention.ms": "4"})
    found = plan_single_topic(state(old), spec(), ALL)
    assert (change_kinds(found), notice_reasons(found)) == (["TakeOwnership"], ["StaleOwnershipRecord", "Unmanaged"])
    assert record_without_values(found) == OwnershipRecord("default")


def test_keys_of_an_earlier_owner_are_removed_with_the_topic_taken_over() -> None:
    """After taking ownership, the keys in the record of the previous owner are managed keys."""
    theirs = topic(record=OwnershipRecord("team", ("retention.ms",)), config={"retention.ms": "4"})
    found = plan_single_topic(state(theirs), spec(), RunOptions(take_ownership=ALL_TOPICS))
    assert config_changes(found) == {"retention.ms": ("4", None)}


# declared release, detected minimum release, stored config -> refusals for a key of 3.6
TOO_NEW: dict[str, tuple[KafkaVersion | None, KafkaVersion, dict[str, str], list[str]]] = {
    "undeclared, nothing known": (None, (2, 4), {}, ["ConfigTooNew"]),
    "undeclared, proven enough": (None, (3, 6), {}, []),
    "undeclared, proven too little": (None, (3, 4), {}, ["ConfigTooNew"]),
    "undeclared, stored there": (None, (2, 4), {"message.timestamp.after.max.ms": "4"}, []),
    "declared": ((3, 6), (2, 4), {}, []),
}


def test_a_key_that_the_declared_release_does_not_know() -> None:
    """A key unknown to the declared release is reported as invalid, without the advice to set ``kafkaVersion``."""
    on = cluster("prod", cluster_id=CLUSTER_ID, version=(2, 8))
    wanted = spec(on=on, config={"message.timestamp.after.max.ms": 5})
    assert refusal_reasons(plan_single_topic(state(topic()), wanted)) == ["ConfigInvalid"]
    assert refusal_reasons(plan_single_topic(state(), wanted)) == ["ConfigInvalid"]


@pytest.mark.parametrize("case", TOO_NEW.values(), ids=TOO_NEW.keys())
def test_a_key_that_the_cluster_may_not_know(
    case: tuple[KafkaVersion | None, KafkaVersion, dict[str, str], list[str]],
) -> None:
    """Without ``kafkaVersion``, a key newer than the certain release is refused, unless that topic has the key
    already.
    """
    declared, seen, stands, refusals = case
    on = cluster("prod", cluster_id=CLUSTER_ID, version=declared)
    wanted = spec(on=on, config={"message.timestamp.after.max.ms": 5, "retention.ms": 7})
    found = plan_single_topic(state(topic(config=stands), min_version=seen), wanted)
    assert refusal_reasons(found) == refusals
    assert "retention.ms" in config_changes(found)
    created = plan_single_topic(state(min_version=seen), wanted)
    assert refusal_reasons(created) == (refusals or (["ConfigTooNew"] if stands else []))
    for refusal in (*found.refusals, *created.refusals):
        assert "kafkaVersion" in refusal.hint


# stored config beside the change of segment.ms, declared release -> field of the refusal, empty if valid
WHOLE: dict[str, tuple[dict[str, str], KafkaVersion | None, str]] = {
    "a value that is none": ({"retention.ms": "abc"}, (3, 9), "retention.ms"),
    "out of bounds": ({"min.insync.replicas": "0"}, (3, 9), "min.insync.replicas"),
    "two that contradict": ({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "5"}, (3, 9), "min.compaction.lag"),
    "unknown to Kafka": ({"no.such": "1"}, (3, 9), "no.such"),
    "unknown, allowed": ({"confluent.tier": "1"}, (3, 9), ""),
    "newer than declared": ({"message.timestamp.after.max.ms": "1"}, (2, 8), "message.timestamp.after.max.ms"),
    "newer, nothing declared": ({"message.timestamp.after.max.ms": "1"}, None, ""),
    "strict since 3.3, nothing declared": ({"flush.messages": "0"}, None, "flush.messages"),
    "strict since 3.3, older declared": ({"flush.messages": "0"}, (2, 8), ""),
}


@pytest.mark.parametrize("case", WHOLE.values(), ids=WHOLE.keys())
def test_the_whole_map_must_be_valid(case: tuple[dict[str, str], KafkaVersion | None, str]) -> None:
    """Kafka also validates unmanaged keys: a change that would leave the map invalid is refused, and no other change
    is.
    """
    stands, release, wrong = case
    on = cluster("prod", cluster_id=CLUSTER_ID, version=release, allow_unknown_configs=("confluent.*",))
    seen = state(topic(config=stands))
    found = plan_single_topic(seen, spec(on=on, partitions=4, config={"segment.ms": 5000}))
    assert refusal_reasons(found) == (["ConfigInvalid"] if wrong else [])
    assert change_kinds(found) == (["AddPartitions"] if wrong else ["AddPartitions", "UpdateConfig"])
    assert all(wrong in refusal.message for refusal in found.refusals)
    assert "ExistingProblem" not in notice_reasons(found)
    standing = plan_single_topic(seen, spec(on=on))
    assert refusal_reasons(standing) == []
    assert [notice for notice in notice_reasons(standing) if notice != "Unmanaged"] == (
        ["ExistingProblem"] if wrong else []
    )


def test_a_change_that_mends_the_map_is_done() -> None:
    """The plan validates the map as it will be written, so a change that corrects the map is applied."""
    found = plan_single_topic(_stands(retention_ms="abc"), spec(config={"retention.ms": 5, "segment.ms": 7}))
    assert (change_kinds(found), notice_reasons(found)) == (["UpdateConfig"], [])
    found = plan_single_topic(_stands(retention_ms="abc"), spec(unmanagedConfig="Remove", config={"segment.ms": 7}))
    assert change_kinds(found) == ["UpdateConfig"]


def test_a_new_topics_config_is_judged_with_the_brokers_own_settings() -> None:
    """Rules between fields use the known settings of the brokers, also at creation."""
    wanted = spec(config={"min.compaction.lag.ms": 9})
    brokers = {"log.cleaner.max.compaction.lag.ms": "5"}
    assert refusal_reasons(plan_single_topic(state(broker_defaults=brokers), wanted)) == ["ConfigInvalid"]
    assert refusal_reasons(plan_single_topic(state(), wanted)) == []
    assert refusal_reasons(plan_single_topic(state(topic(), broker_defaults=brokers), wanted)) == ["ConfigInvalid"]


def test_remote_storage_is_not_switched_off() -> None:
    """Kafka in ZooKeeper mode refuses to disable remote storage; the plan refuses it too, by value and by removal."""
    seen = _stands("remote.storage.enable", remote_storage_enable="true")
    assert refusal_reasons(plan_single_topic(seen, spec(config={"remote.storage.enable": False}))) == ["ConfigInvalid"]
    assert refusal_reasons(plan_single_topic(seen, spec())) == ["ConfigInvalid"]
    assert refusal_reasons(plan_single_topic(seen, spec(on=UNDECLARED))) == ["ConfigInvalid"]
    assert (
        refusal_reasons(plan_single_topic(seen, spec(on=cluster("prod", cluster_id=CLUSTER_ID, version=(3, 5))))) == []
    )


def test_min_insync_replicas_above_the_narrowest_partition() -> None:
    """The plan refuses the key where it would be written, and changes the other keys; an existing problem is a
    notice.
    """
    on = UNCAPPED_CLUSTER
    free: dict[str, Any] = {"partitions": 2, "replicationFactor": None}
    seen = state(topic(replicas=replica_lists("123", "12")))
    found = plan_single_topic(seen, spec(on=on, **free, config={"min.insync.replicas": 3, "segment.ms": 7}))
    assert (refusal_reasons(found), list(config_changes(found))) == (["MinIsrAboveReplicas"], ["segment.ms"])
    stands = state(
        topic("orders", replica_lists("123", "12"), "min.insync.replicas", config={"min.insync.replicas": "3"})
    )
    found = plan_single_topic(stands, spec(on=on, **free, config={"min.insync.replicas": 3}))
    assert (change_kinds(found), refusal_reasons(found), notice_reasons(found)) == ([], [], ["ExistingProblem"] * 2)
    small: dict[str, Any] = {"partitions": 1, "replicationFactor": 2, "config": {"min.insync.replicas": 3}}
    created = plan_single_topic(state(), spec(on=on, **small))
    assert (change_kinds(created), refusal_reasons(created)) == ([], ["MinIsrAboveReplicas"])


def test_since_3_7_min_insync_replicas_stops_no_write() -> None:
    """Brokers ask for no more replicas in sync than there are: nothing is refused, and no problem is seen."""
    small: dict[str, Any] = {"partitions": 2, "replicationFactor": None, "config": {"min.insync.replicas": 3}}
    stands = topic("orders", replica_lists("123", "12"), "min.insync.replicas", config={"min.insync.replicas": "3"})
    created = plan_single_topic(state(), spec(**small | {"replicationFactor": 1}))
    assert (change_kinds(created), refusal_reasons(created)) == (["CreateTopic"], [])
    raised = plan_single_topic(state(topic(replicas=replica_lists("123", "12"))), spec(**small))
    assert (refusal_reasons(raised), [*config_changes(raised)]) == ([], ["min.insync.replicas"])
    assert notice_reasons(plan_single_topic(state(stands), spec(**small))) == ["ExistingProblem"]
    unknown = replace(PROD_CLUSTER, version=None)
    oldest = {
        version: refusal_reasons(
            plan_single_topic(
                replace(state(), min_version=version), spec(on=unknown, **small | {"replicationFactor": 1})
            )
        )
        for version in ((3, 6), (3, 7))
    }
    assert oldest == {(3, 6): ["MinIsrAboveReplicas"], (3, 7): []}


def test_a_broker_that_is_listed_twice_has_one_replica() -> None:
    """The factor and the fewest replicas of a partition count brokers, as the write path of Kafka does."""
    doubled = topic("orders", ((1, 1), (2, 3)), "min.insync.replicas", config={"min.insync.replicas": "2"})
    wanted = spec(on=UNCAPPED_CLUSTER, partitions=2, replicationFactor=None, config={"min.insync.replicas": 2})
    found = plan_single_topic(state(doubled), wanted)
    assert [notice.message for notice in found.notices] == [
        "partitions have different numbers of replicas: 1 in partition 0, and 2 in partition 1",
        "min.insync.replicas 2: a partition has only 1 replica: writes with acks=all fail",
    ]


def test_no_topic_without_all_its_partitions_is_well() -> None:
    """A topic without partitions, or with a gap between them, has a notice; a wanted growth is refused instead."""
    for seen, ids in ((topic(replicas=()), "none"), (topic(partition_ids=(0, 2, 3)), "0, 2, 3")):
        (notice,) = plan_single_topic(state(seen), spec(partitions=None)).notices
        assert notice.message == f"found partition ids {ids}, wanted 0 to n-1: it cannot grow"
        grown = plan_single_topic(state(seen), spec(partitions=7))
        assert (refusal_reasons(grown), notice_reasons(grown)) == (["PartitionsMalformed"], [])


def test_ignored_differences_read_well() -> None:
    """The notice of an ignored difference calls a key without value "not set"."""
    found = plan_single_topic(_stands(), spec(config={"retention.ms": 5}, ignore=["config.retention.ms"]))
    assert found.notices[0].message == "retention.ms: not set on the cluster, 5 in the manifest"


def test_findings_name_their_field() -> None:
    """Every refusal of a key has the path of that key, so that users find it in the file."""
    found = plan_single_topic(
        state(topic("connect-x", replica_lists("12"))),
        spec("connect-x", partitions=1, config={"cleanup.policy": "compact"}),
    )
    assert found.refusals[0].field == ("config", "cleanup.policy")
    assert [type(change).__name__ for change in found.refusals[0].withheld] == ["UpdateConfig"]


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_may_stand_on_a_cluster(key: str, text: str) -> None:
    """A plan never fails because of stored text of other clients, and never changes that text."""
    seen = state(topic(config={key: text}))
    found = plan(seen, spec(config={"retention.ms": 5}), on=ClusterSpec("prod", version=(3, 9))).topics
    assert all(list(config_changes(each)) == ["retention.ms"] for each in found if each.changes)


HALF: ClusterSpec = replace(PROD_CLUSTER, retention_step=RetentionStep(50, 3_600_000))
WITH_DEFAULT = replace(HALF, broker_config={"log.retention.ms": "1000"})


def _step(
    before: dict[str, str], wanted: dict[str, object], on: ClusterSpec = HALF, **fields: object
) -> tuple[dict[str, tuple[str | None, str | None]], list[str]]:
    """Return the changes of the next run on a topic with ``before``, and its notices."""
    seen = state(topic("a", config=before, record=OwnershipRecord("default", tuple(before))))
    found = plan_single_topic(seen, spec("a", on, config=wanted, **fields))
    return config_changes(found), [notice.message for notice in found.notices]


def test_a_larger_cut_is_made_in_steps() -> None:
    """The notice has the step, the end and the number of steps that follow."""
    changes, notices = _step({"retention.ms": "8000"}, {"retention.ms": 1000})
    assert changes == {"retention.ms": ("8000", "4000")}
    assert notices == ["retention.ms 4s is a step to 1s: 2 more, of 50% at most"]


@pytest.mark.parametrize(
    ("before", "wanted"),
    [("8000", 4000), ("8000", 9000), ("8000", -1), ("-1", 1000), ("8000", 8000)],
)
def test_other_changes_are_made_at_once(before: str, wanted: int) -> None:
    """A cut within the step, a longer retention, and one from no bound, which has no share."""
    changes, notices = _step({"retention.ms": before}, {"retention.ms": wanted})
    assert changes == ({} if before == str(wanted) else {"retention.ms": (before, str(wanted))})
    assert notices == []


def test_a_cluster_without_the_field_cuts_at_once() -> None:
    """Steps are asked for by the platform team."""
    assert _step({"retention.ms": "8000"}, {"retention.ms": 1}, PROD_CLUSTER) == ({"retention.ms": ("8000", "1")}, [])


def test_a_removed_override_is_a_cut_to_the_default() -> None:
    """The override stays for a step, and topiarist still owns it; without a known default it is removed at once."""
    changes, _ = _step({"retention.ms": "8000"}, {}, WITH_DEFAULT)
    assert changes == {"retention.ms": ("8000", "4000")}
    seen = state(topic("a", config={"retention.ms": "8000"}, record=OwnershipRecord("default", ("retention.ms",))))
    found = plan_single_topic(seen, spec("a", WITH_DEFAULT))
    assert found.record_after
    assert found.record_after.config_keys == ("retention.ms",)
    assert notice_reasons(found) == ["RetentionStepped"]
    assert _step({"retention.ms": "8000"}, {})[0] == {"retention.ms": ("8000", None)}
    assert _step({"retention.ms": "2000"}, {}, WITH_DEFAULT)[0] == {"retention.ms": ("2000", None)}


def test_a_cut_from_the_default_is_made_in_steps_if_it_is_known() -> None:
    """The brokers' value is the value before."""
    assert _step({}, {"retention.ms": 10}, WITH_DEFAULT)[0] == {"retention.ms": (None, "500")}
    assert _step({}, {"retention.ms": 10})[0] == {"retention.ms": (None, "10")}


def test_an_ignored_field_and_an_unmanaged_key_have_no_steps() -> None:
    """What is not changed is not stepped either."""
    changes, notices = _step({"retention.ms": "8000"}, {"retention.ms": 1}, ignore=["config.retention.ms"])
    assert changes == {}
    assert notices == ["retention.ms: 8000 on the cluster, 1 in the manifest"]
    seen = state(topic("a", config={"retention.ms": "8000"}, record=OwnershipRecord("default")))
    found = plan_single_topic(seen, spec("a", WITH_DEFAULT))
    assert config_changes(found) == {}
    assert notice_reasons(found) == ["Unmanaged"]


@given(st.integers(0, 1 << 62), st.integers(0, 1 << 62), st.integers(1, 99))
def test_steps_end_at_the_manifest(before: int, target: int, share: int) -> None:
    """Each step is at most the share, or one if that is less than one; after the counted steps nothing is left."""
    on = replace(PROD_CLUSTER, retention_step=RetentionStep(share, 1))
    actual, left = before, None
    while actual != target:
        changes, notices = _step({"retention.bytes": str(actual)}, {"retention.bytes": target}, on)
        value = int(changes["retention.bytes"][1] or "")
        if value > actual:
            assert value == target
        else:
            assert target <= value < actual
            assert (actual - value) * 100 <= actual * share or actual - value == 1
        more = int(notices[0].split(": ")[1].split(" ")[0].replace(",", "")) if notices else 0
        assert left is None or more == left - 1
        actual, left = value, more
        if left and left > 300:
            return
    assert not left
