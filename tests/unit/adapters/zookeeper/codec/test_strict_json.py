"""Strict reading of znodes: any bytes give a value or one kind of error, exactly as the rules demand.

``_judge`` is the reference: a second implementation of the rules, slow and without a cache.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from support.zookeeper.decoders import DECODERS
from topiarist.adapters.zookeeper.codec import topics
from topiarist.adapters.zookeeper.codec.topics import ZnodeDecoder
from topiarist.adapters.zookeeper.codec.values import ZnodeError
from unit.adapters.zookeeper.codec.test_topics import ID, _compact, names

# Valid values of a znode, and values that are nearly valid.
_odd = st.one_of(
    st.none(), st.booleans(), st.just(1.0), st.just(1e300), st.integers(-(2**40), 2**40), st.text(max_size=5)
)
_list = st.lists(st.one_of(st.integers(-1, 9), st.integers(-1, 9), _odd), max_size=3)
_key = st.one_of(st.integers(0, 3).map(str), st.sampled_from(["01", "+1", " 1", "-1", "", "x", "2147483648", "٣"]))
_assignment = st.one_of(st.dictionaries(_key, st.one_of(_list, _list, _odd), max_size=4), _odd)
_whole = st.integers(0, 3).map(lambda count: {str(number): [1, 2] for number in range(count)})
_near_topics = st.fixed_dictionaries(
    {},
    optional={
        "version": st.one_of(st.integers(1, 3), st.integers(1, 3), st.integers(0, 5), _odd),
        "partitions": st.one_of(_whole, _whole, _assignment),
        "adding_replicas": st.one_of(st.just({}), _assignment),
        "removing_replicas": st.one_of(st.just({}), _assignment),
        "topic_id": st.one_of(st.just(ID), _odd, st.just(ID + "A"), st.just("x" * 21 + "/")),
        "vendor": st.one_of(_odd, st.dictionaries(names, _odd, max_size=2)),
    },
)


@st.composite
def near_topics(draw: st.DrawFn) -> bytes:
    """Return the bytes of a topic znode, possibly damaged in one place."""
    raw = _compact(draw(_near_topics)) if draw(st.booleans()) else json.dumps(draw(_near_topics)).encode()
    spoil = draw(st.sampled_from(["", "", "trail", "cut", "twice", "nan", "byte", "half"]))
    match spoil:
        case "trail":
            return raw + draw(st.sampled_from([b" ", b"\n", b"{}", b"x", b",", b"\0"]))
        case "cut":
            return raw[: draw(st.integers(0, len(raw)))]
        case "twice":
            return raw[:1] + draw(st.sampled_from([b'"version" :1,', b'"partitions":{"0":[1],"0" :[1]},'])) + raw[1:]
        case "nan":
            return raw.replace(b"1", draw(st.sampled_from([b"NaN", b"Infinity", b"1e999", b"1e0", b"01"])), 1)
        case "byte":
            at = draw(st.integers(0, len(raw)))
            return raw[:at] + draw(st.binary(min_size=1, max_size=1)) + raw[at:]
        case "half":
            return raw.replace(b"version", b"version\\ud800", 1)
        case _:
            return raw


def _reason(decode: Callable[[bytes], object], raw: bytes) -> str:
    try:
        decode(raw)
    except ZnodeError as error:
        return str(error)
    return ""


def _judge(raw: bytes) -> dict[str, Any] | None:
    """Return the znode if the rules accept it as a topic, else None."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in found}) < len(found):
            raise ValueError
        return dict(found)

    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=pairs)
        _compact(value)
    except ValueError:
        return None
    return value if isinstance(value, dict) and _judge_topic(value) else None


def _judge_topic(value: dict[str, Any]) -> bool:
    def whole(number: Any, low: int, high: int) -> bool:
        return isinstance(number, int) and not isinstance(number, bool) and low <= number <= high

    def assignment(found: Any) -> bool:
        return isinstance(found, dict) and all(
            re.fullmatch("0|[1-9][0-9]{0,9}", key)
            and int(key) < 2**31
            and isinstance(brokers, list)
            and all(whole(broker, 0, 2**31 - 1) for broker in brokers)
            for key, brokers in found.items()
        )

    partitions = value.get("partitions", 0)
    if not whole(value.get("version"), 1, 3) or not assignment(partitions):
        return False
    for moving in ("adding_replicas", "removing_replicas"):
        if moving in value and not (assignment(value[moving]) and value[moving].keys() <= partitions.keys()):
            return False
    topic_id = value.get("topic_id", ID)
    return isinstance(topic_id, str) and re.fullmatch("[A-Za-z0-9_-]{22}", topic_id) is not None


@given(st.one_of(st.binary(max_size=60), near_topics()))
def test_any_bytes_are_a_value_or_an_error(raw: bytes) -> None:
    """For any bytes a decoder raises only ``ZnodeError``, with a message without control characters."""
    for decode in DECODERS:
        assert (_reason(decode, raw) or "fine").isprintable()


@examples(500)
@given(st.lists(near_topics(), min_size=1, max_size=4))
def test_topics_are_read_as_strictly_as_the_judge_says(raws: list[bytes]) -> None:
    """A topic znode is accepted exactly if the reference accepts it, without a cache and with a shared cache."""
    pool = ZnodeDecoder()
    for raw in raws * 2:
        expected = _judge(raw)
        if expected is None:
            for decode in (topics.decode_topic, pool.decode_topic):
                with pytest.raises(ZnodeError):
                    decode(raw)
            continue
        node = topics.decode_topic(raw)
        assert pool.decode_topic(raw) == node
        held = {str(partition): list(brokers) for partition, brokers in zip(node[2], node[1], strict=True)}
        assert held == expected["partitions"]
        assert node.topic_id == expected.get("topic_id")
        assert all(type(broker) is int for brokers in node.replicas for broker in brokers)


@pytest.mark.slow
def test_a_reassignment_of_many_partitions_is_looked_up_in_one_pass() -> None:
    """Each reassigned partition is looked up once, also if partition ids are missing.

    Quadratic time would exceed the time limit of a test.
    """
    ids = range(1, 200_000)
    raw = _compact(
        {"version": 1, "partitions": {str(one): [] for one in ids}, "adding_replicas": {str(one): [1] for one in ids}}
    )
    assert tuple(topics.decode_topic(raw).reassignments) == tuple(ids)
