"""The values of the topic of records: what is written is read again, and anything else never costs a record."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.strategies import ownership_records
from topiarist.adapters.kafka_admin.records import codec
from topiarist.adapters.kafka_admin.records.codec import (
    Claim,
    Intent,
    IntentKind,
    Lock,
    Meta,
    Moved,
    NoRecords,
    Records,
    TopicRecord,
    build_partial_record,
    forget_intent,
    has_late_write,
    merge_moved,
    resolve,
)
from topiarist.adapters.own_values import encode_batch, encode_freeze, encode_value
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.config_table import RATE_CONFIGS, THROTTLE_CONFIGS
from topiarist.kafka.types import Replicas
from topiarist.model.moves import BatchRecord, OwnValue, ReplicaMove
from topiarist.model.state import (
    AppliedSpec,
    ClosedRecords,
    Freeze,
    IdentifiedRecord,
    MovedRecords,
    OperatorMemory,
    OwnershipRecord,
    ReadError,
    TopicState,
)

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NUMBER = st.integers(0, 2**31 - 1)
NAME = st.text("aZ0._-", min_size=3, max_size=9).filter(lambda name: name != "..")
REPLICAS = st.lists(NUMBER, min_size=1, max_size=4).map(tuple)
INTENT = st.builds(
    Intent,
    st.sampled_from(IntentKind),
    st.none() | ownership_records(),
    st.lists(REPLICAS, max_size=3).map(tuple),
    NUMBER,
    st.dictionaries(TEXT, st.none() | TEXT, max_size=4),
)
RECORD = st.builds(TopicRecord, st.none() | ownership_records(), st.none() | TEXT, st.none() | INTENT)
LEASE = st.integers(0, 86_400_000)
LOCK = st.builds(Lock, st.none() | TEXT, TEXT, TEXT, LEASE, NUMBER, st.none() | NUMBER)
CLAIM = st.builds(Claim, st.text("a1-", min_size=1), TEXT, TEXT, LEASE, NUMBER)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
BATCH = BatchRecord(
    "team",
    1,
    2,
    (ReplicaMove("a", 0, (1, 2), (2, 3)),),
    {"topics/a": {sorted(THROTTLE_CONFIGS)[0]: OwnValue(None, "*")}},
    {"brokers/1": {RATE_CONFIGS[0]: OwnValue("5", "7")}},
)
SAMPLES: dict[str, bytes] = {
    "meta": encode_value(Meta("cluster", "topic")),
    "lock": encode_value(Lock("run", "owner", "host", 30_000, 7, 3)),
    "gate": encode_freeze(Freeze("why", "who", "when")),
    "claim/run": encode_value(Claim("run", "owner", "host", 30_000, 1)),
    "moved": encode_value(Moved("/kafka", 3, ("a",))),
    "moves": encode_batch(BATCH),
    "topic/a": codec.encode_topic(
        TopicRecord(
            OwnershipRecord("team", ("k",), applied=AppliedSpec(3, (("k", "1"),), remove_unmanaged=True)),
            "id",
            Intent(IntentKind.CHANGE, OwnershipRecord("team"), ((1, 2),), 3, {"k": "2", "l": None}),
        )
    ),
    "topic/b": codec.encode_topic(
        TopicRecord(OwnershipRecord("k8s/a/b", memory=OperatorMemory("sha256:0123456789abcdef", 7, (5,))), "id")
    ),
}


@given(
    st.dictionaries(NAME, RECORD, max_size=3),
    LOCK,
    st.none() | st.builds(Freeze, TEXT, TEXT, TEXT),
    st.lists(CLAIM, max_size=3, unique_by=lambda claim: claim.run),
)
def test_what_is_written_is_read_again(
    topics: dict[str, TopicRecord], lock: Lock, freeze: Freeze | None, claims: list[Claim]
) -> None:
    """Every record, lock, freeze, batch of moves and claim comes back equal; so do the two notes."""
    meta, moved = Meta("c", "t"), Moved("/x", 2, ("b",))
    values = {f"topic/{name}".encode(): codec.encode_topic(record) for name, record in topics.items()}
    values |= {
        b"lock": encode_value(lock),
        b"gate": encode_freeze(freeze),
        b"moves": encode_batch(BATCH),
    }
    values |= {b"meta": encode_value(meta), b"moved": encode_value(moved)}
    values |= {codec.claim_key(claim.run).encode(): encode_value(claim) for claim in claims}
    found = codec.decode_records(values)
    assert found == (topics, lock, freeze, meta, moved, BATCH, {}, tuple(claims))


def compact(value: object) -> bytes:
    """Return JSON in the form that topiarist writes."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def require_error(key: str, raw: bytes) -> None:
    """Demand that a value is an error: of its topic alone, or of the whole read."""
    values = {b"topic/other": codec.encode_topic(TopicRecord(OwnershipRecord("team"), "id")), key.encode(): raw}
    if key.startswith("topic/"):
        found = codec.decode_records(values)
        assert found.topics.keys() == {"other"}
        assert found.errors.keys() == {key.removeprefix("topic/")}
    else:
        with pytest.raises(TopiaristError) as error:
            codec.decode_records(values)
        assert error.value.reason is Reason.UNREADABLE


BREAKS: dict[str, Callable[[dict[str, Any]], object]] = {
    "newer version": lambda fields: {**fields, "version": 2},
    "version 0": lambda fields: {**fields, "version": 0},
    "no version": lambda fields: {key: value for key, value in fields.items() if key != "version"},
    "version true": lambda fields: {**fields, "version": True},
    "unknown field": lambda fields: {**fields, "more": 1},
    "missing field": lambda fields: dict(list(fields.items())[:1] + list(fields.items())[2:]),
    "no object": lambda fields: [fields],
    "null": lambda fields: None,
}


@pytest.mark.parametrize("key", SAMPLES)
@pytest.mark.parametrize("name", BREAKS)
def test_a_value_that_topiarist_does_not_write_is_an_error(key: str, name: str) -> None:
    """A newer version, an unknown or missing field, another kind of value: never an absent record."""
    require_error(key, compact(BREAKS[name](json.loads(SAMPLES[key]))))


@pytest.mark.parametrize("key", SAMPLES)
def test_every_field_with_another_type_is_an_error(key: str) -> None:
    """Each field at each depth is replaced by a value of a wrong type."""

    def variants(value: Any) -> Any:
        if isinstance(value, dict):
            for name, inner in value.items():
                for other in variants(inner):
                    yield {**value, name: other}
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                for other in variants(inner):
                    yield [*value[:index], other, *value[index + 1 :]]
        yield from (1.5, -1, [[]])

    for fields in variants(json.loads(SAMPLES[key])):
        require_error(key, compact(fields))


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b'{"version":1,"version":1}', b"[" * 100_000, b"9" * 5000])
@pytest.mark.parametrize("key", SAMPLES)
def test_what_is_no_json_is_an_error(key: str, raw: bytes) -> None:
    """Empty, cut off, not UTF-8, with a duplicate key, too deep, too long."""
    require_error(key, raw)


@given(st.sampled_from(sorted(SAMPLES)), JSON)
def test_any_json_is_read_or_refused(key: str, value: object) -> None:
    """No value raises another error than those that a caller expects."""
    with suppress(TopiaristError):
        codec.decode_records({key.encode(): compact(value)})


@pytest.mark.parametrize("key", ["other", "topic", "", "lock2", "\udcff"])
def test_an_unknown_key_ends_the_read(key: str) -> None:
    """A later release may keep something there that this one must respect: the error has the remedy for both causes."""
    with pytest.raises(TopiaristError, match="does not know") as error:
        codec.decode_records({key.encode(errors="surrogateescape"): b"{}"})
    assert error.value.hint
    assert "upgrade topiarist" in error.value.hint
    assert "this key and a null value" in error.value.hint


@pytest.mark.parametrize("name", ["", "a/b", "..", "x" * 250, "\udcff"])
def test_a_name_that_no_topic_can_have_is_an_error_of_this_name(name: str) -> None:
    """Such a record is neither shown as one of a topic nor dropped."""
    found = codec.decode_records({b"topic/" + name.encode(errors="surrogateescape"): SAMPLES["topic/a"]})
    assert not found.topics
    (error,) = found.errors.values()
    assert error.path == f"topic/{name}".encode(errors="surrogateescape").decode(errors="backslashreplace")
    assert error.message
    assert "topic/" not in error.message


@pytest.mark.parametrize("key", ["lock", "claim/run"])
def test_a_lease_is_a_day_at_most(key: str) -> None:
    """No value of another client makes a run wait for ever."""
    fields = json.loads(SAMPLES[key])
    for lease in (24 * 3600 * 1000 + 1, 10**400):
        require_error(key, compact({**fields, "leaseMs": lease}))


# The merge of records from ZooKeeper with those of the topic of records.

OURS, THEIRS = OwnershipRecord("team", ("retention.ms",)), OwnershipRecord("other")
ADA, BOB = Freeze("incident", "ada"), Freeze("disks", "bob")
CLOSED = ClosedRecords(
    "cluster",
    "/kafka",
    {
        "orders": IdentifiedRecord(OURS, "id-1"),
        "clicks": IdentifiedRecord(THEIRS, "id-2"),
        "gone": IdentifiedRecord(OwnershipRecord("team", (), deleted=True), None),
    },
    ("recreated",),
    ADA,
)


def test_all_records_move_with_the_ids_of_their_topics() -> None:
    """An empty topic of records takes everything, the deletion record and the freeze included."""
    merged = merge_moved(CLOSED, Records())
    assert merged.topics == {name: TopicRecord(*found) for name, found in CLOSED.records.items()}
    assert (merged.moved, merged.gate) == (Moved("/kafka", 3, ("recreated",)), ADA)
    assert merged.result == MovedRecords("/kafka", 3, ("recreated",))


def test_a_freeze_of_the_brokers_side_stays() -> None:
    """A freeze that was set through the brokers is not replaced by the one of ZooKeeper."""
    assert merge_moved(CLOSED, Records(gate=BOB)).gate == BOB


def test_records_that_the_topic_has_already_stay() -> None:
    """A record of the same owner stays as it is, and records of other topics do not matter."""
    newer = TopicRecord(OwnershipRecord("team", ("flush.ms",)), "id-1")
    merged = merge_moved(CLOSED, Records({"orders": newer, "elsewhere": TopicRecord(THEIRS, "id-9")}))
    assert merged.topics.keys() == {"clicks", "gone"}
    assert (merged.result.records, merged.result.kept, merged.moved.total) == (2, ("orders",), 2)


@pytest.mark.parametrize(
    "record", [TopicRecord(THEIRS, "id-1"), TopicRecord(None, None, Intent(IntentKind.CREATE, THEIRS))], ids=str
)
def test_a_topic_of_two_owners_is_refused(record: TopicRecord) -> None:
    """The owners are named; a change under way counts too."""
    with pytest.raises(TopiaristError, match="1 topic with records of two owners: orders") as raised:
        merge_moved(CLOSED, Records({"orders": record}))
    assert raised.value.reason is Reason.NOT_OWNED
    owner = record.record.owner if record.record else "another"
    assert raised.value.message.endswith(f" in ZooKeeper and to {owner} in Kafka")
    assert raised.value.hint == (
        "remove the wrong record with topiarist unmanage, through ZooKeeper or through the brokers"
    )


def test_two_topics_of_two_owners() -> None:
    """The first by name is the example, with the owners of this topic."""
    records = Records({"orders": TopicRecord(THEIRS, "id-1"), "clicks": TopicRecord(OURS, "id-2")})
    with pytest.raises(TopiaristError) as raised:
        merge_moved(CLOSED, records)
    message = (
        "2 topics with records of two owners: clicks, for example, belongs to other in ZooKeeper and to team in Kafka"
    )
    assert raised.value.message == message


def test_a_record_that_cannot_be_read_is_not_replaced() -> None:
    """The unreadable record is named; that of a topic without a record in ZooKeeper does not matter."""
    error = ReadError("topic/orders", "found no object")
    assert merge_moved(CLOSED, Records(errors={"elsewhere": error})).result.records == 3
    with pytest.raises(TopiaristError, match="topic/orders cannot be read") as raised:
        merge_moved(CLOSED, Records(errors={"orders": error}))
    assert raised.value.reason is Reason.UNREADABLE


def test_a_repeated_move_writes_nothing() -> None:
    """The note is returned as it was, with the topics that have a record in ZooKeeper only."""
    note = Moved("/kafka", 2, ("recreated",))
    merged = merge_moved(CLOSED, Records({"orders": TopicRecord(OURS, "id-1")}, gate=BOB, moved=note))
    assert (merged.topics, merged.moved, merged.gate) == ({}, note, BOB)
    assert merged.result == MovedRecords("/kafka", 2, ("recreated",), repeated=True, unmatched=("clicks",))


# What an intent stands for, from what its topic shows: every branch, and a property over all partial outcomes.

LISTS: tuple[Replicas, ...] = ((1, 2), (2, 3))
AFTER = OwnershipRecord("team", ("k",), applied=AppliedSpec(2, (("k", "1"),), remove_unmanaged=True))
MADE = OwnershipRecord("team", ("k",), applied=AppliedSpec(None, (), remove_unmanaged=True))
"""``AFTER`` as an intent leaves it: the next plan completes it."""

BEFORE = OwnershipRecord("old", ("k", "gone"), applied=AppliedSpec(1, (("k", "0"),)))
DELETED = OwnershipRecord("team", deleted=True)
UNREADABLE = ReadError("topic a", "no permission")
CREATE = TopicRecord(None, None, Intent(IntentKind.CREATE, AFTER, LISTS, config={"k": "1"}))
GONE = CREATE._replace(intent=Intent(IntentKind.GONE, AFTER, LISTS, config={"k": "1"}))
RECREATE = CREATE._replace(record=DELETED)
CHANGE = TopicRecord(BEFORE, "id", Intent(IntentKind.CHANGE, AFTER, LISTS[1:], 1, {"k": "1", "gone": None}))
ADOPT = CHANGE._replace(record=None)
DELETE = TopicRecord(BEFORE, "id", Intent(IntentKind.DELETE, DELETED))


def topic(*replicas: Replicas, topic_id: str = "id", **config: str) -> TopicState:
    """Return a topic as the brokers show it."""
    return TopicState("a", topic_id, replicas, config, topic_id=topic_id)


@pytest.mark.parametrize(
    ("record", "shown", "expected"),
    [
        (CREATE, topic(*LISTS, topic_id="new", k="1"), TopicRecord(MADE, "new")),
        (CREATE, topic(*LISTS, topic_id="new", k="2"), None),
        (CREATE, topic(*LISTS, topic_id="new", k="1", more="2"), TopicRecord(MADE, "new")),
        (CREATE, topic((1, 2), topic_id="new", k="1"), None),
        (CREATE, topic((2, 1), (2, 3), topic_id="new", k="1"), None),
        (CREATE, topic(*LISTS, topic_id="new"), None),
        (RECREATE, topic((1, 2), topic_id="new", k="1"), TopicRecord(DELETED)),
        (GONE, topic(*LISTS, topic_id="late", k="1"), TopicRecord(MADE, "late")),
        (GONE, topic((3, 1), topic_id="other"), None),
        (CHANGE, topic(*LISTS, k="1"), TopicRecord(MADE, "id")),
        (CHANGE, topic((1, 2), k="0", gone="x"), TopicRecord(BEFORE, "id")),
        (CHANGE, topic((1, 2), k="1", gone="x"), TopicRecord(replace(MADE, config_keys=("gone", "k")), "id")),
        (CHANGE, topic((1, 2), k="1"), TopicRecord(MADE, "id")),
        (CHANGE, topic((1, 2), (3, 1), k="0", gone="x"), TopicRecord(BEFORE, "id")),
        (CHANGE, topic(*LISTS, k="1", topic_id="recreated"), TopicRecord(BEFORE, "id")),
        (CHANGE, None, TopicRecord(BEFORE, "id")),
        (ADOPT, topic((1, 2), k="0", gone="x"), None),
        (ADOPT, topic(*LISTS, k="1"), TopicRecord(MADE, "id")),
        (ADOPT, None, None),
        (DELETE, None, TopicRecord(DELETED)),
        (DELETE, topic((1, 2)), TopicRecord(BEFORE, "id")),
        (DELETE, topic((1, 2), topic_id="recreated"), TopicRecord(DELETED)),
        (DELETE._replace(intent=Intent(IntentKind.DELETE, None)), None, None),
        (TopicRecord(BEFORE, "id"), None, TopicRecord(BEFORE, "id")),
    ],
)
def test_a_topic_decides_what_its_intent_was(
    record: TopicRecord, shown: TopicState | None, expected: TopicRecord | None
) -> None:
    """Created equal or different, changed in whole, in part or not, recreated, deleted."""
    for has_waited in (False, True):
        assert resolve(record, shown, has_waited=has_waited) == expected


def test_a_creation_without_effect_is_given_up_in_two_steps() -> None:
    """Until no request can be carried out any more, its topic is recognized if it appears."""
    for record, before in ((CREATE, None), (RECREATE, TopicRecord(DELETED))):
        given_up = resolve(record, None, has_waited=False)
        assert given_up
        assert given_up.intent
        assert given_up.intent.kind is IntentKind.GONE
        assert forget_intent(given_up) == before
        assert resolve(given_up, None, has_waited=False) == given_up
        assert resolve(given_up, None, has_waited=True) == before
        assert resolve(record, None, has_waited=True) == before
        assert resolve(given_up, topic(*LISTS, topic_id="late", k="1"), has_waited=False) == TopicRecord(MADE, "late")


@pytest.mark.parametrize("record", [CREATE, GONE, CHANGE, DELETE])
def test_a_topic_that_cannot_be_read_keeps_its_intent(record: TopicRecord) -> None:
    """It is resolved by a run that can read it, and no run waits for it."""
    assert resolve(record, UNREADABLE, has_waited=True) == record
    assert not has_late_write(record, UNREADABLE)


@pytest.mark.parametrize(
    ("record", "shown", "expected"),
    [
        (CREATE, None, True),
        (CREATE, topic(*LISTS), False),
        (GONE, None, False),
        (GONE, replace(topic((3, 1)), topic_id=None), False),
        (CHANGE, topic((1, 2), k="0", gone="x"), True),
        (CHANGE, topic(*LISTS, k="1"), False),
        (CHANGE, None, False),
        (CHANGE, topic((1, 2), topic_id="recreated"), False),
        (DELETE, topic((1, 2)), True),
        (DELETE, None, False),
        (DELETE, topic((1, 2), topic_id="recreated"), False),
        (TopicRecord(BEFORE, "id"), None, False),
    ],
)
def test_a_run_waits_only_for_what_may_still_happen(
    record: TopicRecord, shown: TopicState | None, *, expected: bool
) -> None:
    """A name that is taken, a count that has changed, and an id that no topic has make a late request harmless."""
    assert has_late_write(record, shown) is expected


KEYS = ("a", "b", "c")
CONFIGS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(("1", "2")))


@given(
    config=CONFIGS,
    wanted=st.dictionaries(st.sampled_from(KEYS), st.none() | st.sampled_from(("3", "4"))),
    made=st.sets(st.sampled_from(KEYS)),
    grows=st.booleans(),
    is_owned=st.booleans(),
)
def test_a_partial_record_lists_only_what_is_set(
    config: dict[str, str], wanted: dict[str, str | None], made: set[str], *, grows: bool, is_owned: bool
) -> None:
    """Any subset of a change is there: each key of the record is set, each value that it has is the topic's."""
    before = OwnershipRecord("team", tuple(sorted(config)), applied=AppliedSpec(1, tuple(sorted(config.items()))))
    final = {key: text for key, text in {**config, **wanted}.items() if text is not None}
    after = OwnershipRecord("team", tuple(sorted(final)), applied=AppliedSpec(2, tuple(sorted(final.items()))))
    intent = Intent(IntentKind.CHANGE, after, ((2, 3),) if grows else (), 1, wanted)
    shown = dict(config)
    for key in made & wanted.keys():
        text = wanted[key]
        if text is None:
            shown.pop(key, None)
        else:
            shown[key] = text
    partial = build_partial_record(before if is_owned else None, intent, topic((1, 2), **shown))
    if partial is None:
        assert not is_owned
        return
    assert is_owned or any(shown.get(key) == text for key, text in wanted.items())
    assert set(partial.config_keys) <= shown.keys()
    assert partial.applied
    values = dict(partial.applied.config)
    assert values.keys() <= set(partial.config_keys)
    assert all(shown[key] == value for key, value in values.items())
    if is_owned:
        assert set(partial.config_keys) >= shown.keys() & config.keys()
        assert partial.applied.partitions == (1 if grows or partial == before else 2)
    if is_owned and not any(shown.get(key) == text for key, text in wanted.items()):
        assert partial == before


def test_a_partial_record_of_a_change_without_applied_values_has_none() -> None:
    """A record that keeps no values, as a file of another program may have it, gets none."""
    intent = Intent(IntentKind.CHANGE, OwnershipRecord("team", ("a",)), config={"a": "3"})
    partial = build_partial_record(None, intent, topic((1, 2), a="3"))
    assert partial == OwnershipRecord("team", ("a",))


def test_a_part_of_a_change_that_ends_the_ownership_leaves_the_record() -> None:
    """It has no record afterwards that could list what was made."""
    intent = Intent(IntentKind.CHANGE, None, config={"a": "3", "b": "4"})
    assert build_partial_record(BEFORE, intent, topic((1, 2), a="3")) == BEFORE


def test_a_run_without_records_waits_for_nobody() -> None:
    """It has no records, and ends before its first request if it is stopped."""
    assert NoRecords().acquire(lambda: False) == Records()
    with pytest.raises(TopiaristError, match="stopped before anything was sent") as caught:
        NoRecords().acquire(lambda: True)
    assert caught.value.reason is Reason.LOCKED
