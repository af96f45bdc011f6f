"""The reassignment request and the batch record: exact bytes, and every malformed record is an error."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topiarist.adapters.zookeeper.codec.moves import (
    decode_batch_record,
    encode_batch_record,
    encode_election_request,
    encode_reassignment_request,
)
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError
from topiarist.model.moves import BatchRecord, OwnValue, ReplicaMove

MOVES = (ReplicaMove("orders", 0, (1, 2), (3, 2)), ReplicaMove("orders", 1, (2,), (2, 1)))
LIST, RATE = "leader.replication.throttled.replicas", "leader.replication.throttled.rate"
OWN_RATE = {RATE: {"before": None, "ours": "9"}}
RECORD = BatchRecord(
    "default",
    2,
    5,
    MOVES,
    {"topics/orders": {LIST: OwnValue("7:1", "7:1,0:3")}, "brokers/3": {RATE: OwnValue(None, "9")}},
)


def test_a_request_has_the_fields_that_kafka_reads() -> None:
    """Version, and for each partition its target."""
    assert encode_reassignment_request(MOVES) == (
        b'{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3,2]},'
        b'{"topic":"orders","partition":1,"replicas":[2,1]}]}'
    )


def test_an_election_has_the_fields_that_kafka_reads() -> None:
    """Version, and each partition in the given order."""
    assert encode_election_request([("orders", 3), ("audit", 0)]) == (
        b'{"version":1,"partitions":[{"topic":"orders","partition":3},{"topic":"audit","partition":0}]}'
    )


def test_a_record_comes_back() -> None:
    """All of its parts, and the same bytes for an equal record."""
    raw = encode_batch_record(RECORD)
    assert decode_batch_record(raw) == RECORD
    assert encode_batch_record(decode_batch_record(raw)) == raw


def _changed(**fields: Any) -> bytes:
    content = json.loads(encode_batch_record(RECORD))
    return json.dumps({key: value for key, value in {**content, **fields}.items() if value is not ...}).encode()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        _changed(version=2),
        _changed(owner=...),
        _changed(owner=7),
        _changed(extra=1),
        _changed(batch="2"),
        _changed(moves={}),
        _changed(moves=[7]),
        _changed(moves=[{"topic": "t", "partition": 0, "before": [1]}]),
        _changed(moves=[{"topic": "t", "partition": 0, "before": [1], "after": []}]),
        _changed(moves=[{"topic": "t", "partition": 0, "before": [1], "after": [-1]}]),
        _changed(moves=[{"topic": "t", "partition": 0, "before": [1], "after": "2"}]),
        _changed(moves=[{"topic": "t", "partition": 0, "before": [1], "after": 7}]),
        _changed(moves=[{"topic": "t", "partition": 0, "before": [1], "after": {"2": 1}}]),
        _changed(moves=[{"topic": "t", "partition": 0, "before": [1], "after": [True]}]),
        _changed(moves=[{"topic": "t", "partition": 0, "before": [1], "after": [2.5]}]),
        _changed(throttles=[]),
        _changed(throttles={"topics/t": 7}),
        _changed(throttles={"topics/t": {LIST: "9"}}),
        _changed(throttles={"topics/t": {LIST: {"before": 7, "ours": "9"}}}),
        _changed(throttles={"topics/t": {LIST: {"before": None, "ours": None}}}),
        _changed(throttles={"topics/t": {LIST: {"ours": "9"}}}),
        _changed(throttles={"topics/t": {"retention.ms": {"before": "1", "ours": "9"}}}),
        _changed(throttles={"topics/t": OWN_RATE}),
        _changed(throttles={"users/t": OWN_RATE}),
        _changed(throttles={"topics/": {}}),
        _changed(throttles={"topics/a/b": {}}),
        _changed(moves=[{"topic": "a/b", "partition": 0, "before": [1], "after": [2]}]),
        _changed(throttles={"brokers/<default>": OWN_RATE}),
    ],
)
def test_a_malformed_record_is_an_error(raw: bytes) -> None:
    """Nothing is guessed: a run that cannot read the record stops."""
    with pytest.raises(ZnodeError):
        decode_batch_record(raw)


@given(st.binary())
def test_any_bytes_are_a_record_or_an_error(raw: bytes) -> None:
    """No other exception."""
    with suppress(ZnodeError):
        decode_batch_record(raw)
