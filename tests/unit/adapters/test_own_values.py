"""Topiarist's own values: what is written is read again, to the byte, and anything else is an error with a reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.strategies import ownership_records
from topiarist.adapters import own_values
from topiarist.adapters.own_values import JsonError, decode_json
from topiarist.kafka.config_table import RATE_CONFIGS, THROTTLE_CONFIGS
from topiarist.model.moves import BatchRecord, OwnValue, ReplicaMove
from topiarist.model.state import AppliedSpec, Freeze, OperatorMemory, OwnershipRecord

LIST, RATE = "leader.replication.throttled.replicas", "leader.replication.throttled.rate"
RECORD = OwnershipRecord(
    "default",
    ("flush.ms", "retention.ms"),
    applied=AppliedSpec(3, (("retention.ms", "7"),), remove_unmanaged=True),
    memory=OperatorMemory("sha256:0123456789abcdef", 7, (5, 6)),
)
BATCH = BatchRecord(
    "default",
    2,
    5,
    (ReplicaMove("orders", 0, (1, 2), (3, 2)), ReplicaMove("orders", 1, (2,), (2, 1))),
    {"brokers/3": {RATE: OwnValue(None, "9")}, "topics/orders": {LIST: OwnValue("7:1", "7:1,0:3")}},
    {"brokers/4": {RATE: OwnValue("5", "7")}},
)
FREEZE = Freeze("upgrade", "ada", "2026-01-31T12:00:00Z")

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
NUMBER = st.integers(0, 2**31 - 1)
NAME = st.text("aZ0._-", min_size=3, max_size=9).filter(lambda name: name != "..")
REPLICAS = st.lists(NUMBER, min_size=1, max_size=4).map(tuple)
OWN = st.builds(OwnValue, st.none() | TEXT, TEXT)
ENTITIES = st.dictionaries(
    NAME.map("topics/{}".format), st.dictionaries(st.sampled_from(sorted(THROTTLE_CONFIGS)), OWN), max_size=2
) | st.dictionaries(NUMBER.map("brokers/{}".format), st.dictionaries(st.sampled_from(RATE_CONFIGS), OWN), max_size=2)
BATCHES = st.builds(
    BatchRecord,
    TEXT,
    NUMBER,
    NUMBER,
    st.lists(st.builds(ReplicaMove, NAME, NUMBER, REPLICAS, REPLICAS, st.just(())), max_size=3).map(tuple),
    ENTITIES,
    ENTITIES,
)


@given(ownership_records())
def test_a_record_comes_back(record: OwnershipRecord) -> None:
    """From its znode, and from the fields of a document."""
    assert own_values.decode_record(own_values.encode_record(record)) == record
    assert own_values.record_of(json.loads(json.dumps(own_values.record_fields(record)))) == record


@given(st.none() | st.builds(Freeze, TEXT, TEXT, TEXT))
def test_a_freeze_comes_back(frozen: Freeze | None) -> None:
    """With reason, user and time, also if they are empty; the absence of a freeze comes back as None."""
    assert own_values.decode_freeze(own_values.encode_freeze(frozen)) == frozen


@given(BATCHES)
def test_a_batch_comes_back(batch: BatchRecord) -> None:
    """From stored bytes, and from the fields of a document."""
    assert own_values.decode_batch(own_values.encode_batch(batch)) == batch
    assert own_values.batch_of(json.loads(json.dumps(own_values.batch_fields(batch)))) == batch


BYTES = {
    own_values.encode_record(OwnershipRecord("o", ("cleanup.policy", "retention.ms"))): (
        '{"version":1,"owner":"o","config":["cleanup.policy","retention.ms"]}'
    ),
    own_values.encode_record(
        OwnershipRecord("o", deleted=True)
    ): '{"version":1,"owner":"o","config":[],"ensure":"Absent"}',
    own_values.encode_record(RECORD): (
        '{"version":1,"owner":"default","config":["flush.ms","retention.ms"],'
        '"applied":{"partitions":3,"config":{"retention.ms":"7"},"removeUnmanaged":true},'
        '"memory":{"consent":"sha256:0123456789abcdef","stepMs":7,"deletionsMs":[5,6]}}'
    ),
    own_values.encode_record(OwnershipRecord("ü", applied=AppliedSpec())): (
        '{"version":1,"owner":"ü","config":[],"applied":{"partitions":null,"config":{},"removeUnmanaged":false}}'
    ),
    own_values.encode_freeze(None): '{"version":1,"state":"open"}',
    own_values.encode_freeze(Freeze("why")): '{"version":1,"state":"frozen","reason":"why"}',
    own_values.encode_batch(BATCH._replace(moves=BATCH.moves[:1], replaced={})): (
        '{"version":1,"owner":"default","batch":2,"batches":5,'
        '"moves":[{"topic":"orders","partition":0,"before":[1,2],"after":[3,2]}],'
        '"throttles":{"brokers/3":{"leader.replication.throttled.rate":{"before":null,"ours":"9"}},'
        '"topics/orders":{"leader.replication.throttled.replicas":{"before":"7:1","ours":"7:1,0:3"}}}}'
    ),
}


@pytest.mark.parametrize(("found", "wanted"), BYTES.items(), ids=range(len(BYTES)))
def test_the_bytes_of_a_value(found: bytes, wanted: str) -> None:
    """The version comes first, then the fields that differ from their default; maps are sorted."""
    assert found.decode() == wanted


def test_the_fields_of_a_document_say_whether_a_topic_was_deleted() -> None:
    """Plans, reports, descriptions, snapshots and the topic of records have ``absent`` in every record."""
    assert own_values.record_fields(OwnershipRecord("o")) == {"owner": "o", "config": [], "absent": False}
    assert own_values.record_fields(OwnershipRecord("o", deleted=True))["absent"] is True


def test_equal_batches_have_equal_bytes() -> None:
    """Whatever the order in which their throttles were set."""
    turned = BATCH._replace(throttles=dict(reversed([*BATCH.throttles.items()])))
    assert own_values.encode_batch(turned) == own_values.encode_batch(BATCH)


def test_half_a_character_is_never_written() -> None:
    """Neither as text nor as a key."""
    for record in (OwnershipRecord("\ud800"), OwnershipRecord("o", ("\udc00",))):
        with pytest.raises(JsonError, match="half of a character"):
            own_values.encode_record(record)


DECODERS: dict[str, tuple[Callable[[bytes], Any], bytes]] = {
    "record": (own_values.decode_record, own_values.encode_record(RECORD)),
    "batch": (own_values.decode_batch, own_values.encode_batch(BATCH)),
    "freeze": (own_values.decode_freeze, own_values.encode_freeze(FREEZE)),
}
ANOTHER_FORM = "found other JSON than topiarist writes"
CORRUPTIONS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda raw: b"", "it is empty"),
    "cut off": (lambda raw: raw[:-3], "it is not JSON"),
    "a list": (lambda raw: b"[%s]" % raw, "found a list, wanted an object"),
    "deep": (lambda raw: b'{"version":1,"more":' + b"[" * 100_000, "unknown field|not JSON"),
    "a key twice": (lambda raw: raw[:-1] + b",%s}" % raw[1:-1].split(b",", 2)[1], ANOTHER_FORM),
    "the version twice": (lambda raw: raw[:-1] + b',"version":1}', "unknown field"),
    "a space": (lambda raw: raw.replace(b",", b", ", 1), ANOTHER_FORM),
    "another order": (lambda raw: json.dumps(dict(reversed(json.loads(raw).items()))).encode(), ANOTHER_FORM),
    "an escape": (lambda raw: raw.replace(b"a", b"\\u0061", 1), ANOTHER_FORM),
    "half a character": (
        lambda raw: raw.replace(b'"default"', b'"\\ud800"').replace(b'"ada"', b'"\\ud800"'),
        "invalid",
    ),
    "no UTF-8": (lambda raw: raw.replace(b"a", b"\xff", 1), "it is not UTF-8"),
    "a line after it": (lambda raw: raw + b"\n", ANOTHER_FORM),
    "more after it": (lambda raw: raw + b"x", "it is not JSON .Extra data"),
    "a later release": (lambda raw: b'{"version":2,"new":[]}', "version 2 is of a later release of topiarist"),
    "version 0": (lambda raw: raw.replace(b":1,", b":0,", 1), '"version": found 0, wanted 1'),
    "a fraction": (lambda raw: raw.replace(b":1,", b":1.0,", 1), '"version": found a fraction, wanted a number'),
    "no version": (lambda raw: raw.replace(b'"version":1,', b""), 'found no field "version"'),
}


@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_other_bytes_are_an_error(kind: str, name: str) -> None:
    """Nothing is guessed and nothing is repaired: the error has what was found."""
    decode, raw = DECODERS[kind]
    corrupt, why = CORRUPTIONS[name]
    with pytest.raises(JsonError, match=why) as caught:
        decode(corrupt(raw))
    assert str(caught.value).isprintable()


def _changed(raw: bytes, **fields: Any) -> bytes:
    content = json.loads(raw) | fields
    kept = {key: value for key, value in content.items() if value is not ...}
    return json.dumps(kept, separators=(",", ":")).encode()


def _move(**fields: Any) -> dict[str, Any]:
    return {"moves": [{"topic": "t", "partition": 0, "before": [1], "after": [2]} | fields]}


def _throttle(entity: str, key: str, **fields: Any) -> dict[str, Any]:
    return {"throttles": {entity: {key: {"before": None, "ours": "9"} | fields}}}


APPLIED = {"partitions": 3, "config": {}, "removeUnmanaged": False}
UNSORTED = '"config" must be a sorted list of config names, not'
ODD: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("record", {"owner": ...}, 'found no field "owner"'),
    ("record", {"owner": ""}, '"owner": wanted text of length >= 1'),
    ("record", {"owner": 7}, '"owner": found a number, wanted text'),
    ("record", {"since": "x"}, 'found the unknown field "since"'),
    ("record", {"config": ["b", "a"], "applied": ...}, f'{UNSORTED} ["b", "a"]'),
    ("record", {"config": ["a", "a"], "applied": ...}, f'{UNSORTED} ["a", "a"]'),
    ("record", {"config": ...}, f"{UNSORTED} missing or null"),
    ("record", {"config": {}}, '"config": found an object, wanted a list or null'),
    ("record", {"config": []}, '"applied.config": found a config that "config" does not name'),
    ("record", {"ensure": "Present"}, '"ensure": found the unknown word "Present"'),
    ("record", {"applied": APPLIED | {"partitions": 0}}, '"applied.partitions": wanted a number >= 1'),
    ("record", {"applied": APPLIED | {"partitions": True}}, "wanted a number or null"),
    ("record", {"applied": APPLIED | {"config": {"b": "1", "a": "1"}}, "config": ["a", "b"]}, ANOTHER_FORM),
    ("record", {"applied": APPLIED | {"config": {"a": 1}}}, "found a number, wanted text"),
    ("record", {"applied": None}, ANOTHER_FORM),
    ("record", {"memory": {}}, '"memory": found no field'),
    ("record", {"memory": {"stepMs": "7"}}, '"memory.stepMs": found text, wanted a number'),
    ("record", {"memory": {"deletionsMs": []}}, '"memory.deletionsMs"'),
    ("record", {"memory": {"consent": ""}}, '"memory.consent"'),
    ("batch", {"owner": ...}, 'found no field "owner"'),
    ("batch", {"batch": "2"}, '"batch": found text, wanted a number'),
    ("batch", {"batch": -1}, '"batch": wanted a number >= 0'),
    ("batch", {"moves": {}}, '"moves": found an object, wanted a list'),
    ("batch", _move(after=[]), '"moves[0].after"'),
    ("batch", _move(after=[-1]), '"moves[0].after[0]": wanted a number >= 0'),
    ("batch", _move(after=[True]), "found true or false, wanted a number"),
    ("batch", _move(after=[2.5]), "found a fraction, wanted a number"),
    ("batch", _move(topic="a/b"), '"moves":'),
    ("batch", {"throttles": []}, '"throttles": found a list, wanted an object'),
    ("batch", _throttle("topics/t", LIST, before=7), "wanted text or null"),
    ("batch", _throttle("topics/t", LIST, ours=None), "found null, wanted text"),
    ("batch", _throttle("topics/t", "retention.ms"), 'found throttles of "topics/t" that topiarist does not set'),
    ("batch", _throttle("topics/t", RATE), 'found throttles of "topics/t" that topiarist does not set'),
    ("batch", _throttle("users/t", RATE), 'found throttles of "users/t" that topiarist does not set'),
    ("batch", _throttle("brokers/<default>", RATE), "that topiarist does not set"),
    ("batch", {"throttles": {"topics/": {}}}, "that topiarist does not set"),
    ("batch", {"replaced": {"topics/a/b": {}}}, "that topiarist does not set"),
    ("freeze", {"state": "ajar"}, '"state": found the unknown word "ajar"'),
    ("freeze", {"state": "open"}, '"state": found "open" beside the reason, user or time of a freeze'),
)


@pytest.mark.parametrize(("kind", "fields", "why"), ODD, ids=range(len(ODD)))
def test_an_odd_value_is_named(kind: str, fields: dict[str, Any], why: str) -> None:
    """The error has the field, what was found and what was wanted."""
    decode, raw = DECODERS[kind]
    with pytest.raises(JsonError) as caught:
        decode(_changed(raw, **fields))
    assert why in str(caught.value)


@given(st.sampled_from(sorted(DECODERS)), st.binary(max_size=60) | st.binary(max_size=40).map(b'{"version":1,'.__add__))
def test_any_bytes_are_a_value_or_an_error(kind: str, raw: bytes) -> None:
    """No other exception, and a value is written back as it was read."""
    with suppress(JsonError):
        DECODERS[kind][0](raw)


INVALID = {
    "nothing": (b"", "found invalid JSON at column 1 (Expecting value)"),
    "a second line": (b'{"a":\n}', "found invalid JSON at line 2, column 1"),
    "text after the document": (b"{} {}", "found invalid JSON at column 4 (Extra data)"),
    "a byte that is not UTF-8": (b'{"a": "\xff"}', "found the byte 0xff at byte 8, not UTF-8"),
    "a lone surrogate": (b'{"a": "\\ud800"}', "found half of a character (a lone surrogate)"),
    "a duplicate key": (b'{"a": {"b": 1, "b": 1}}', "found a duplicate key in an object"),
    "a fraction": (b"[1.0]", 'found the number "1.0", wanted only integers'),
    "an exponent": (b"[1e3]", 'found the number "1e3", wanted only integers'),
    "no number": (b"[NaN]", 'found the number "NaN", wanted only integers'),
    "a long number": (b"9" * 5000, "found a number with too many digits"),
    "deep nesting": (b"[" * 100_000, "found JSON that is nested too deeply"),
}


@pytest.mark.parametrize(("data", "message"), INVALID.values(), ids=INVALID.keys())
def test_invalid_json(data: bytes, message: str) -> None:
    """Each error names the invalid content."""
    with pytest.raises(JsonError) as caught:
        decode_json(data)
    assert message in str(caught.value)


def test_valid_json() -> None:
    """Values of every type are decoded, with escapes, and integers of any size unless ``parse_int`` rejects them."""
    data = b'{"a": [1, -2, true, null, "\\u00e9 \\ud83d\\ude00"], "b": 99999999999999999999}'
    assert decode_json(data) == {"a": [1, -2, True, None, "\u00e9 \U0001f600"], "b": 10**20 - 1}


def test_integers_are_parsed_by_the_caller() -> None:
    """An exception of ``parse_int`` reaches the caller unchanged."""

    def reject(digits: str) -> int:
        raise JsonError(f"found {digits}")

    with pytest.raises(JsonError, match=r"^found 5$"):
        decode_json(b"[5]", reject)
