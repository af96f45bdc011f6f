"""The short ways for znodes of the usual form: the same values and bytes as the ways that check everything."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topiarist.adapters.zookeeper.codec import configs, own_znodes
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError, dump_object, dump_texts
from topiarist.model.state import AppliedSpec, OwnershipRecord

texts = st.one_of(
    st.sampled_from(["", "a", "b", "retention.ms", "0:1,1:2", "ü", "\\", '"', "\x00", "\ud800"]), st.text()
)
scalars = st.one_of(texts, st.none(), st.booleans(), st.integers(-3, 2**33), st.sampled_from([1.0, 2.5, 1e300]))
maps = st.dictionaries(texts, st.one_of(texts, scalars), max_size=4)
objects = st.one_of(
    st.fixed_dictionaries(
        {"version": st.sampled_from([1, 2, 2.0, "2"])},
        optional={
            "owner": scalars,
            "config": st.one_of(maps, scalars),
            "partitions": scalars,
            "ensure": st.sampled_from(["Absent", "Present"]),
            "unmanagedConfig": st.sampled_from(["Remove", "Keep"]),
            "other": scalars,
        },
    ),
    st.builds(
        lambda owner, keys, size: (
            {"version": 2, "owner": owner, "config": keys} | ({"partitions": size} if size else {})
        ),
        st.sampled_from(["team", ""]),
        st.dictionaries(st.sampled_from("abc"), texts).flatmap(
            lambda found: st.sampled_from([found, dict(sorted(found.items()))])
        ),
        st.sampled_from([None, 1, 3, 2**31, 3.0]),
    ),
)


@st.composite
def znodes(draw: st.DrawFn) -> bytes:
    """Return bytes like those of a znode: as topiarist writes them, with blanks, escapes, a change, or a part twice."""
    value = draw(objects)
    escaped = draw(st.booleans())
    raw = json.dumps(value, separators=draw(st.sampled_from([(",", ":"), (", ", ": ")])), ensure_ascii=escaped).encode(
        errors="surrogatepass"
    )
    match draw(st.integers(0, 5)):
        case 0:
            position = draw(st.integers(0, len(raw)))
            return raw[:position] + draw(st.binary(max_size=2)) + raw[position + draw(st.integers(0, 2)) :]
        case 1:
            return raw[:-1] + draw(st.sampled_from([b',"owner":"x"}', b',"config":{}}', b',"version":1}', b"} ", b""]))
    return raw


def _outcome(decode: Callable[[bytes], Any], raw: bytes) -> object:
    try:
        found = decode(raw)
    except ZnodeError as error:
        return str(error)
    return list(found.items()) if isinstance(found, dict) else found


@given(znodes())
def test_a_record_has_one_meaning(raw: bytes) -> None:
    """Whichever way decodes it, the record or the error is the same."""
    expected = _outcome(own_znodes.decode_any_record, raw)
    assert _outcome(own_znodes.decode_record, raw) == expected
    assert own_znodes.decode_usual_record(raw) in (None, expected)


@given(znodes())
def test_a_config_has_one_meaning(raw: bytes) -> None:
    """Whichever way decodes it, the overrides or the error are the same, in the same order."""
    expected = _outcome(configs.decode_any_config, raw)
    assert _outcome(configs.decode_config, raw) == expected
    usual = configs.decode_usual_config(raw)
    assert usual is None or list(usual.items()) == expected


@pytest.mark.parametrize(
    "record",
    [
        OwnershipRecord("team", ("a", "b"), applied=AppliedSpec(3, (("a", "1"), ("b", "ü")))),
        OwnershipRecord("team", (), applied=AppliedSpec(None, ())),
    ],
)
def test_records_of_topiarist_take_the_short_way(record: OwnershipRecord) -> None:
    """The property above would hold too if no record took it."""
    assert own_znodes.decode_usual_record(own_znodes.encode_record(record)) == record


def test_configs_of_topiarist_take_the_short_way() -> None:
    """A config with a colon in a value takes the long way."""
    assert configs.decode_usual_config(configs.encode_config({"a": "1", "b": "ü"})) == {"a": "1", "b": "ü"}
    assert configs.decode_usual_config(configs.encode_config({})) == {}
    assert configs.decode_usual_config(configs.encode_config({"a": "0:1"})) is None


@given(st.dictionaries(texts, st.one_of(texts, st.none(), st.integers(-(2**31), 2**31), st.dictionaries(texts, texts))))
def test_both_encoders_write_the_same_bytes(value: dict[str, object]) -> None:
    """Equal records always have equal bytes, also those that an earlier version wrote."""
    try:
        expected = dump_object(value)
    except ZnodeError:
        with pytest.raises(ZnodeError, match="surrogate"):
            dump_texts(value)
    else:
        assert dump_texts(value) == expected
