"""The values of the topic of records: what is written is read again, and anything else never costs a record."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topiarist.adapters.kafka_admin.records import codec
from topiarist.adapters.kafka_admin.records.codec import Claim, Intent, IntentKind, Lock, Meta, Moved, TopicRecord
from topiarist.adapters.own_values import encode_batch, encode_freeze, encode_value
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.config_table import RATE_CONFIGS, THROTTLE_CONFIGS
from topiarist.model.moves import BatchRecord, OwnValue, ReplicaMove
from topiarist.model.state import AppliedSpec, Freeze, OperatorMemory, OwnershipRecord

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NUMBER = st.integers(0, 2**31 - 1)
NAME = st.text("aZ0._-", min_size=3, max_size=9).filter(lambda name: name != "..")
REPLICAS = st.lists(NUMBER, min_size=1, max_size=4).map(tuple)
CONFIG = st.dictionaries(TEXT, st.none() | TEXT, max_size=4).map(lambda config: dict(sorted(config.items())))
OWNERSHIP = st.builds(
    lambda owner, config, partitions, flags, memory: OwnershipRecord(
        owner,
        tuple(config),
        flags[0],
        AppliedSpec(partitions, tuple((key, text) for key, text in config.items() if text is not None), flags[1])
        if flags[2]
        else None,
        memory,
    ),
    TEXT,
    CONFIG,
    st.none() | st.integers(1, 10_000),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.builds(OperatorMemory, TEXT, st.none() | NUMBER, st.lists(NUMBER, max_size=2).map(tuple)),
)
INTENT = st.builds(
    Intent,
    st.sampled_from(IntentKind),
    st.none() | OWNERSHIP,
    st.lists(REPLICAS, max_size=3).map(tuple),
    NUMBER,
    st.dictionaries(TEXT, st.none() | TEXT, max_size=4),
)
RECORD = st.builds(TopicRecord, st.none() | OWNERSHIP, st.none() | TEXT, st.none() | INTENT)
LEASE = st.integers(0, 86_400_000)
LOCK = st.builds(Lock, st.none() | TEXT, TEXT, TEXT, LEASE, NUMBER, st.none() | NUMBER)
CLAIM = st.builds(Claim, st.text("a1-", min_size=1), TEXT, TEXT, LEASE, NUMBER)
OWN = st.builds(OwnValue, st.none() | TEXT, TEXT)
ENTITIES = st.dictionaries(
    NAME.map("topics/{}".format), st.dictionaries(st.sampled_from(sorted(THROTTLE_CONFIGS)), OWN), max_size=2
) | st.dictionaries(NUMBER.map("brokers/{}".format), st.dictionaries(st.sampled_from(RATE_CONFIGS), OWN), max_size=2)
BATCH = st.builds(
    BatchRecord,
    TEXT,
    NUMBER,
    NUMBER,
    st.lists(st.builds(ReplicaMove, NAME, NUMBER, REPLICAS, REPLICAS, st.just(())), max_size=3).map(tuple),
    ENTITIES,
    ENTITIES,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
SAMPLES: dict[str, bytes] = {
    "meta": encode_value(Meta("cluster", "topic")),
    "lock": encode_value(Lock("run", "owner", "host", 30_000, 7, 3)),
    "gate": encode_freeze(Freeze("why", "who", "when")),
    "claim/run": encode_value(Claim("run", "owner", "host", 30_000, 1)),
    "moved": encode_value(Moved("/kafka", 3, ("a",))),
    "moves": encode_batch(
        BatchRecord(
            "team",
            1,
            2,
            (ReplicaMove("a", 0, (1, 2), (2, 3)),),
            {"topics/a": {sorted(THROTTLE_CONFIGS)[0]: OwnValue(None, "*")}},
            {"brokers/1": {RATE_CONFIGS[0]: OwnValue("5", "7")}},
        )
    ),
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
    BATCH,
    st.lists(CLAIM, max_size=3, unique_by=lambda claim: claim.run),
)
def test_what_is_written_is_read_again(
    topics: dict[str, TopicRecord], lock: Lock, freeze: Freeze | None, batch: BatchRecord, claims: list[Claim]
) -> None:
    """Every record, lock, freeze, batch of moves and claim comes back equal; so do the two notes."""
    meta, moved = Meta("c", "t"), Moved("/x", 2, ("b",))
    values = {f"topic/{name}".encode(): codec.encode_topic(record) for name, record in topics.items()}
    values |= {
        b"lock": encode_value(lock),
        b"gate": encode_freeze(freeze),
        b"moves": encode_batch(batch),
    }
    values |= {b"meta": encode_value(meta), b"moved": encode_value(moved)}
    values |= {codec.claim_key(claim.run).encode(): encode_value(claim) for claim in claims}
    found = codec.decode_records(values)
    assert found == (topics, lock, freeze, meta, moved, batch, {}, tuple(claims))


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
    assert len(found.errors) == 1


@pytest.mark.parametrize(
    ("entity", "key"),
    [
        ("topics/a", "retention.ms"),
        ("brokers/1", "log.dirs"),
        ("brokers/x", ""),
        ("users/1", ""),
        ("topics/", ""),
        ("", ""),
    ],
)
def test_throttles_of_other_configs_are_refused(entity: str, key: str) -> None:
    """The end of the moves writes what the record says: only throttles."""
    fields = json.loads(SAMPLES["moves"])
    for field in ("throttles", "replaced"):
        require_error("moves", compact({**fields, field: {entity: {key: {"before": None, "ours": "1"}}}}))


@pytest.mark.parametrize("key", ["lock", "claim/run"])
def test_a_lease_is_a_day_at_most(key: str) -> None:
    """No value of another client makes a run wait for ever."""
    fields = json.loads(SAMPLES[key])
    for lease in (24 * 3600 * 1000 + 1, 10**400):
        require_error(key, compact({**fields, "leaseMs": lease}))
