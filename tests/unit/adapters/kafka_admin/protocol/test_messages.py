"""Messages of Kafka's protocol, compared with another encoder and decoder: that of kafka-python."""

from __future__ import annotations

import gc
import random
import struct
import uuid
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.api_message import ApiMessage

from support.examples import examples
from topiarist.adapters.kafka_admin.protocol import messages
from topiarist.adapters.kafka_admin.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreatePartitionsRequest,
    FetchResponse,
    Field,
    MalformedMessage,
    MetadataRequest,
    MetadataResponse,
    decode_response,
    default_of,
    encode_request,
    parse_versions,
)

NAMES = sorted(messages._definitions())
ALONE = {
    f"{name}{kind}"
    for name in ("ConsumerGroupDescribe", "DescribeShareGroupOffsets", "ShareGroupDescribe", "StreamsGroupDescribe")
    for kind in ("Request", "Response")
}
"""Messages that kafka-python does not have."""

NEWER = {"ApiVersionsRequest": 5, "ApiVersionsResponse": 5}
"""Messages with a newer version than kafka-python has."""

for module in ("admin.cluster", "admin.configs", "admin.groups", "admin.topics", "consumer", "metadata", "sasl"):
    import_module(f"kafka.protocol.{module}")
import_module("kafka.protocol.producer")
THEIRS: dict[str, Any] = {each.__name__: each for each in ApiMessage.__subclasses__()}

SIZES = {"int8": 7, "int16": 15, "uint16": 16, "int32": 31, "uint32": 32, "int64": 63}


def is_compared(field: Field, version: int) -> bool:
    """Return whether a field is there; kafka-python has other names and types for authorized operations."""
    return version in parse_versions(field.versions) and "AuthorizedOperations" not in field.name


def make_value(field: Field, version: int, chance: random.Random, *, is_tagged: bool) -> Any:
    """Return a value of a simple type; one of a tagged field is not its default."""
    if field.element == "bool":
        return is_tagged or chance.random() < 0.5
    if field.element in SIZES:
        return chance.randrange(2, 1 << SIZES[field.element])
    if field.element == "uuid":
        return uuid.UUID(int=chance.getrandbits(128) | 1)
    if not is_tagged and version in parse_versions(field.nullable_versions) and chance.random() < 0.3:
        return None
    text = "é" * chance.choice([1, 2, 60, 64, 200] if is_tagged else [0, 1, 60, 64, 200])
    return text if field.element == "string" else text.encode()


def make_pair(ours: Any, theirs: Any, fields: list[Field], version: int, chance: random.Random) -> tuple[Any, Any]:
    """Return the same message, or part of one, as an object of each of the two."""
    values: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    for field in fields:
        is_tagged = version in parse_versions(field.tagged_versions)
        if not is_compared(field, version) or (is_tagged and chance.random() < 0.3):
            continue

        def make(field: Field = field, is_tagged: bool = is_tagged) -> tuple[Any, Any]:
            if field.fields:
                own, other = getattr(ours, field.element), getattr(theirs, field.element)
                return make_pair(own, other, field.fields, version, chance)
            value = make_value(field, version, chance, is_tagged=is_tagged)
            return value, value

        if field.is_list:
            pairs = [
                make()
                for _ in range(chance.choice([1, 2, 130] if not field.fields else [1, 2] if is_tagged else [0, 1, 2]))
            ]
            pair: tuple[Any, Any] = [own for own, _ in pairs], [other for _, other in pairs]
        else:
            pair = make()
        values[0][field.attribute], values[1][field.attribute] = pair
    return ours(**values[0]), theirs(**values[1])


class Parts:
    """A class with parts of every name, in the place of a message of kafka-python."""

    def __call__(self, **_: Any) -> None: ...

    def __getattr__(self, name: str) -> Parts:
        return self


def assert_same(own: Any, other: Any, fields: list[Field], version: int) -> None:
    """Assert that two objects have the same values in all fields of the version."""
    for field in (each for each in fields if is_compared(each, version)):
        mine, theirs = getattr(own, field.attribute), getattr(other, field.attribute)
        if field.fields and field.is_list:
            assert len(mine) == len(theirs)
            for left, right in zip(mine, theirs, strict=True):
                assert_same(left, right, field.fields, version)
        elif field.fields and mine is not None and theirs not in (None, ""):
            assert_same(mine, theirs, field.fields, version)
        elif not field.fields:
            assert mine == theirs or (not mine and not theirs), (field.name, mine, theirs)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ALONE])
@given(seed=st.integers(0, 1 << 32))
@examples(100)
def test_messages_are_those_of_another_encoder_and_decoder(name: str, seed: int) -> None:
    """Every version of every message has the bytes that kafka-python makes, and is read as kafka-python reads it."""
    ours, theirs, chance = getattr(messages, name), THEIRS[name], random.Random(seed)
    fields = ours._definition.fields
    newest = min(ours.max_version, NEWER.get(name, 99) - 1)
    assert newest == theirs.max_version
    version = chance.choice([each for each in parse_versions(ours._definition.valid_versions) if each <= newest])
    own, other = make_pair(ours, theirs, fields, version, chance)
    if name == "ApiVersionsResponse":
        own.error_code = other.error_code = 0  # an answer with an error is of the oldest version
    data = own.encode(version)
    assert data == other.encode(version=version)
    assert_same(ours.decode(data, version), theirs.decode(data, version=version), fields, version)


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 1 << 32))
@examples(100)
def test_what_was_encoded_is_decoded_and_a_part_of_it_is_refused(name: str, seed: int) -> None:
    """A message comes back as it was, and one that is cut off raises nothing but ``MalformedMessage``."""
    kind, chance = getattr(messages, name), random.Random(seed)
    version = chance.randint(0, kind.max_version)
    own, _ = make_pair(kind, Parts(), kind._definition.fields, version, chance)
    data = own.encode(version)
    assert kind.decode(data, version).encode(version) == data
    cut = data[: chance.randrange(len(data))] if data else b""
    if cut != data:
        with pytest.raises(MalformedMessage):
            kind.decode(cut, version)


@given(data=st.binary(max_size=60), name=st.sampled_from(NAMES))
@examples(2000)
def test_other_bytes_raise_one_error(data: bytes, name: str) -> None:
    """Bytes that are no message are read as one, or raise ``MalformedMessage``."""
    kind = getattr(messages, name)
    with suppress(MalformedMessage):
        kind.decode(data, kind.max_version)


def test_a_request_has_kafkas_header() -> None:
    """Before the body are size, key, version, correlation id and client, and tagged fields from some version on."""
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    old = "00000013 0003 0008 00000007 0002 6d65 00000000 00 00 00"
    assert encode_request(request, 8, 7, "me") == bytes.fromhex(old)
    new = "00000011 0003 000c 00000007 0002 6d65 00 01 00 00 00"
    assert encode_request(request, 12, 7, "me") == bytes.fromhex(new)


def test_the_answer_about_versions_has_an_old_header_and_with_an_error_an_old_body() -> None:
    """A broker that does not know the version of ApiVersions can be read."""
    key = ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=2)
    refused = ApiVersionsResponse(error_code=35, api_keys=[key]).encode(0)
    found = decode_response(ApiVersionsRequest(), 3, struct.pack(">i", 7) + refused)
    assert (found.error_code, found.api_keys) == (35, [key])
    answer = ApiVersionsResponse(api_keys=[key], finalized_features_epoch=9).encode(3)
    assert decode_response(ApiVersionsRequest(), 3, struct.pack(">i", 7) + answer).finalized_features_epoch == 9


def test_the_header_of_an_answer_may_have_tagged_fields() -> None:
    """Tagged fields of a header are skipped; a header that is cut off is refused."""
    answer = MetadataResponse(cluster_id="here").encode(12)
    for tags in ("00", "02 05 02 aabb 06 00"):
        assert decode_response(MetadataRequest(), 12, bytes.fromhex(f"00000007{tags}") + answer).cluster_id == "here"
    with pytest.raises(MalformedMessage):
        decode_response(MetadataRequest(), 12, bytes(4))


def test_a_list_that_is_null() -> None:
    """It is refused, with the name of its field, where Kafka has no null; else it is None."""
    partition = FetchResponse.FetchableTopicResponse.PartitionData
    topic = FetchResponse.FetchableTopicResponse
    for version in (11, 12):
        answer = FetchResponse(responses=[topic(topic="a", partitions=[partition(aborted_transactions=None)])])
        (found,) = FetchResponse.decode(answer.encode(version), version).responses
        assert found.partitions[0].aborted_transactions is None
        answer = FetchResponse(responses=[topic(topic="a", partitions=None)])
        with pytest.raises(MalformedMessage, match="Partitions is null, wanted a list"):
            FetchResponse.decode(answer.encode(version), version)


def test_defaults_are_those_of_kafka() -> None:
    """Fields that are not given have Kafka's own defaults: -1, null, or an empty list of their own."""
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name="orders", count=3)
    assert (topic.assignments, CreatePartitionsRequest().topics) == (None, [])
    partition = FetchResponse.FetchableTopicResponse.PartitionData()
    assert (partition.last_stable_offset, partition.current_leader.leader_id, partition.records) == (-1, -1, None)
    assert MetadataRequest().topics is not MetadataRequest().topics


@pytest.mark.parametrize("kind", ["int8", "int16", "uint16", "int32", "uint32", "int64"])
def test_a_number_without_a_default_is_zero(kind: str) -> None:
    """So it is in Kafka, for each type of a number; one that is given counts, also in hexadecimal."""
    assert default_of(Field("Value", kind, "0+")) == 0
    assert default_of(Field("Value", kind, "0+", default="-1")) == -1
    assert default_of(Field("Value", kind, "0+", default="0x7f")) == 127


def test_the_garbage_collector_does_not_look_at_messages() -> None:
    """An answer has no cycles, and as many parts as the cluster has partitions."""
    topic = MetadataResponse.MetadataResponseTopic
    answer = MetadataResponse(topics=[topic(partitions=[topic.MetadataResponsePartition(replica_nodes=[1, 2])])])
    (found,) = MetadataResponse.decode(answer.encode(12), 12).topics
    assert not any(map(gc.is_tracked, (answer, found, found.partitions[0])))


def test_an_unknown_name_is_an_error_of_the_import() -> None:
    """A message without a definition, and a field that a message does not have, are errors at once."""
    with pytest.raises(AttributeError, match="WriteTxnMarkersRequest"):
        _ = messages.WriteTxnMarkersRequest
    with pytest.raises(TypeError, match="topic"):
        MetadataRequest(topic=[])
