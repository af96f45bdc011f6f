"""The short ways for znodes of the usual form: the same values and bytes as the ways that check everything."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topiarist.adapters.zookeeper.codec import topics
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError, dump_object, dump_texts

texts = st.one_of(
    st.sampled_from(["", "a", "b", "retention.ms", "0:1,1:2", "ü", "\\", '"', "\x00", "\ud800"]), st.text()
)
scalars = st.one_of(texts, st.none(), st.booleans(), st.integers(-3, 2**33), st.sampled_from([1.0, 2.5, 1e300]))
maps = st.dictionaries(texts, st.one_of(texts, scalars), max_size=4)
objects = st.fixed_dictionaries(
    {"version": st.sampled_from([1, 2, 1.0, "1"]), "config": st.one_of(maps, scalars)}, optional={"other": scalars}
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
            return raw[:-1] + draw(st.sampled_from([b',"config":{}}', b',"version":1}', b"} ", b""]))
    return raw


def _outcome(decode: Callable[[bytes], Any], raw: bytes) -> object:
    try:
        found = decode(raw)
    except ZnodeError as error:
        return str(error)
    return list(found.items()) if isinstance(found, dict) else found


@given(znodes())
def test_a_config_has_one_meaning(raw: bytes) -> None:
    """Whichever way decodes it, the overrides or the error are the same, in the same order."""
    expected = _outcome(topics.decode_any_config, raw)
    assert _outcome(topics.decode_config, raw) == expected
    usual = topics.decode_usual_config(raw)
    assert usual is None or list(usual.items()) == expected


def test_configs_of_topiarist_take_the_short_way() -> None:
    """A config with an escape takes the long way."""
    assert topics.decode_usual_config(topics.encode_config({"a": "1", "b": "ü"})) == {"a": "1", "b": "ü"}
    assert topics.decode_usual_config(topics.encode_config({})) == {}
    assert topics.decode_usual_config(topics.encode_config({"a": "0:1"})) == {"a": "0:1"}
    assert topics.decode_usual_config(b'{"version":1,"config":{"a":"\\u0031"}}') is None


@given(st.dictionaries(texts, st.one_of(texts, st.none(), st.integers(-(2**31), 2**31), st.dictionaries(texts, texts))))
def test_both_encoders_write_the_same_bytes(value: dict[str, object]) -> None:
    """Equal configs always have equal bytes."""
    try:
        expected = dump_object(value)
    except ZnodeError:
        with pytest.raises(ZnodeError, match="surrogate"):
            dump_texts(value)
    else:
        assert dump_texts(value) == expected
