"""Znode codecs: everything that Kafka writes is decoded without loss, and anything else is an error with a reason."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topiarist.adapters import own_values
from topiarist.adapters.zookeeper.codec import paths, topics, values
from topiarist.adapters.zookeeper.codec import topics as configs_
from topiarist.adapters.zookeeper.codec.topics import ZnodeDecoder
from topiarist.adapters.zookeeper.codec.values import ZnodeError, dump_object, dump_texts
from topiarist.kafka.types import Replicas
from topiarist.model.moves import ReplicaMove
from topiarist.model.state import OwnershipRecord, PartitionState, Reassignment

ID = "UXyU9i5ARn6W00ON2taeWA"

replica_lists = st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple)
names = st.text("abcdefghijklmnopqrstuvwxyz.", min_size=1, max_size=12)
configs = st.dictionaries(names, st.text(st.characters(codec="utf-8"), max_size=12), max_size=5)


def _compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _with_id(raw: bytes, topic_id: str) -> bytes:
    """Return the znode as the controller writes it after it has assigned a topic id."""
    return _compact(json.loads(raw) | {"topic_id": topic_id})


@given(st.lists(replica_lists, max_size=14), st.sampled_from([None, ID]))
def test_a_topic_survives_encoding(replicas: list[Replicas], topic_id: str | None) -> None:
    """An encoded topic is decoded equal, with ascending partition ids as integers."""
    raw = topics.encode_topic(replicas)
    node = topics.decode_topic(_with_id(raw, topic_id) if topic_id else raw)
    assert (node.replicas, node.partition_ids) == (tuple(replicas), range(len(replicas)))
    assert (node.version, node.topic_id, node.reassignments, node.unknown_fields) == (3, topic_id, {}, ())
    assert list(json.loads(raw)["partitions"]) == [str(number) for number in range(len(replicas))]


def test_a_pool_is_not_fooled_by_ids_in_other_places() -> None:
    """The cache for topics that differ only in their topic id is not used if the id occurs elsewhere in the znode."""
    pool = ZnodeDecoder()
    template = '{"version":3,"partitions":{"0":[1]},"vendor":{"topic_id":"%s"},"topic_id":"%s"}'
    other = "A" * 22
    for first, second in ((ID, ID), (other, ID), (ID, other)):
        raw = (template % (first, second)).encode()
        assert pool.decode_topic(raw) == topics.decode_topic(raw)
        assert pool.decode_topic(raw).topic_id == second
    whole = b'{"version":3,"partitions":{"0":[1]},"topic_id":"%s"}'
    assert pool.decode_topic(whole % ID.encode()).topic_id == ID
    for bad in (b"", b"?", b"A" * 23):
        with pytest.raises(ZnodeError):
            pool.decode_topic(whole % bad)


def test_topics_share_what_is_equal() -> None:
    """Ten topics with one assignment share one tuple, and equal configs and records are one object."""
    pool = ZnodeDecoder()
    replicas = [(1, 2, 3), (2, 3, 1)]
    nodes = [pool.decode_topic(_with_id(topics.encode_topic(replicas), f"{number}" * 22)) for number in range(10)]
    assert {node.topic_id for node in nodes} == {f"{number}" * 22 for number in range(10)}
    assert len({id(node.replicas) for node in nodes}) == 1
    grown = pool.decode_topic(topics.encode_topic([*replicas, (9,)]))
    assert grown.replicas[0] is nodes[0].replicas[0]
    assert pool.decode_config(configs_.encode_config({"a": "1"})) is pool.decode_config(
        configs_.encode_config({"a": "1"})
    )
    record = own_values.encode_record(OwnershipRecord("default"))
    assert pool.decode_record(record) is pool.decode_record(bytes(bytearray(record)))


def test_kafka_bytes_are_written() -> None:
    """The written bytes are those of the contract: compact, in the specified order."""
    assert topics.encode_topic([(1, 2), (2, 1)]) == (
        b'{"version":3,"partitions":{"0":[1,2],"1":[2,1]},"adding_replicas":{},"removing_replicas":{}}'
    )
    assert configs_.encode_config({"b": "2", "a": "é"}) == '{"version":1,"config":{"a":"é","b":"2"}}'.encode()
    assert configs_.encode_config({}) == b'{"version":1,"config":{}}'
    assert configs_.encode_change_notification("topics/T") == b'{"version":2,"entity_path":"topics/T"}'
    moves = (ReplicaMove("orders", 0, (1, 2), (3, 2)), ReplicaMove("orders", 1, (2,), (2, 1)))
    assert values.encode_reassignment_request(moves) == (
        b'{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3,2]},'
        b'{"topic":"orders","partition":1,"replicas":[2,1]}]}'
    )
    assert values.encode_election_request([("orders", 3), ("audit", 0)]) == (
        b'{"version":1,"partitions":[{"topic":"orders","partition":3},{"topic":"audit","partition":0}]}'
    )


GROWTHS = {
    "version 1": (
        '{"version":1,"partitions":{"0":[1,2]}}',
        '{"version":2,"partitions":{"0":[1,2],"1":[2,1]},"adding_replicas":{},"removing_replicas":{}}',
    ),
    "reassigning": (
        '{"removing_replicas":{"0":[2]},"partitions":{"0":[1,2]},"topic_id":"ID","adding_replicas":{"0":[1]},"version":3}',
        '{"version":3,"partitions":{"0":[1,2],"1":[2,1]},"adding_replicas":{"0":[1]},"removing_replicas":{"0":[2]},'
        '"topic_id":"ID"}',
    ),
    "fields of others": (
        '{"version":2,"vendor":{"z":[1,{"a":null}],"y":"ID"},"partitions":{"0":[1,2]},"topic_id":"ID"}',
        '{"version":3,"partitions":{"0":[1,2],"1":[2,1]},"adding_replicas":{},"removing_replicas":{},'
        '"topic_id":"ID","vendor":{"z":[1,{"a":null}],"y":"ID"}}',
    ),
}


@pytest.mark.parametrize("name", GROWTHS)
def test_growth_keeps_everything_else(name: str) -> None:
    """Growth adds the partition, and keeps the topic id, the reassignment and unknown fields."""
    before, after = (text.replace("ID", ID) for text in GROWTHS[name])
    assert topics.add_partitions(before.encode(), [(2, 1)]).decode() == after


@pytest.mark.parametrize("partitions", ['{"0":[1],"2":[1]}', '{"1":[1]}', '{"4":[1],"7":[2]}'])
def test_holes_are_read_but_never_grown(partitions: str) -> None:
    """Missing partition ids are read as they are, and growth is refused, because the next id would be wrong."""
    raw = f'{{"version":2,"partitions":{partitions}}}'.encode()
    assert isinstance(topics.decode_topic(raw).partition_ids, tuple)
    with pytest.raises(ZnodeError, match="holes"):
        topics.add_partitions(raw, [(1,)])


@given(configs, st.dictionaries(st.sampled_from(["vendor", "x"]), st.integers() | st.text("ab"), max_size=2))
def test_a_config_survives_encoding_and_change(config: dict[str, str], extra: dict[str, object]) -> None:
    """Overrides are decoded equal, and unknown fields are kept in a change."""
    assert configs_.decode_config(configs_.encode_config(config)) == config
    raw = _compact({"version": 1, "config": {"old": "1"}, **extra})
    changed = configs_.replace_config(raw, config)
    assert json.loads(changed) == {"version": 1, "config": config, **extra}
    assert configs_.decode_config(changed) == config


ODD: dict[Callable[[bytes], object], list[tuple[bytes, str]]] = {
    topics.decode_topic: [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"\xff{}", "it is not UTF-8 (byte 0)"),
        (b"[]", "it is not a JSON object"),
        (b"{} x", "it is not JSON (Extra data at character 4)"),
        (b"{'a':1}", "it is not JSON (Expecting property name enclosed in double quotes"),
        (b'{"version":NaN}', "it contains NaN, which is not JSON"),
        (b'{"version":1e999}', "it contains a number that is too large"),
        (b'{"version":%s}' % (b"9" * 5000), "it contains a number that is too large"),
        (b'{"a":' * 200_000, "it is nested too deeply"),
        (b'{"version":1,"version":2}', 'the key "version" appears twice'),
        (b'{"version" :1,"version":2,"a:b":1}', 'the key "version" appears twice'),
        (b'{"v":{"w":{"x":1,"x":1}}}', 'the key "x" appears twice'),
        (b'{"v":"\\udc00"}', "it contains a lone surrogate (half of a character)"),
        (b'{"version":4}', '"version" is 4, and topiarist supports at most 3'),
        (b'{"version":true}', '"version" must be a positive integer, not true'),
        (b'{"version":1}', '"partitions" must be an object, not missing or null'),
        (b'{"version":1,"partitions":{"01":[1]}}', '"01" is not an id (a decimal number from 0 to 2147483647)'),
        (
            b'{"version":1,"partitions":{"0":[1],"1":[1,true]}}',
            "partition 1 must have a list of broker ids, not [1, true]",
        ),
        (
            b'{"version":1,"partitions":{"0":[2147483648]}}',
            "partition 0 has an id that no broker can have: [2147483648]",
        ),
        (
            b'{"version":1,"partitions":{},"adding_replicas":{"0":[1]}}',
            '"adding_replicas" names partition 0, which the topic does not have',
        ),
        (
            b'{"version":1,"partitions":{},"adding_replicas":null}',
            '"adding_replicas" must be an object, not missing or null',
        ),
        (b'{"version":3,"partitions":{},"topic_id":null}', '"topic_id" must be text, not missing or null'),
        (
            b'{"version":3,"partitions":{},"topic_id":"51fc94f6-2e40-467e-96d3-438ddad69e58"}',
            'a topic id has 22 characters of base64url, not "51fc94f6-2e40-467e-96d3-438ddad69e58"',
        ),
    ],
    configs_.decode_config: [
        (b'{"version":1}', '"config" must be an object, not missing or null'),
        (b'{"version":1,"config":{"retention.ms":1}}', 'the value of "retention.ms" must be text, not 1'),
        (b'{"version":2,"config":{}}', '"version" is 2, and topiarist supports at most 1'),
    ],
    values.decode_controller_epoch: [(b"4 2", '"4 2" is not an id (a decimal number from 0 to 2147483647)')],
    values.decode_cluster_id: [(b'{"version":"1"}', '"id" must be text, not missing or null')],
}


@pytest.mark.parametrize(("decode", "raw", "why"), [(decode, *row) for decode, rows in ODD.items() for row in rows])
def test_odd_znodes_are_named(decode: Callable[[bytes], object], raw: bytes, why: str) -> None:
    """Each invalid znode gives an error that names the value that was found and the value that was wanted."""
    with pytest.raises(ZnodeError) as caught:
        decode(raw)
    assert str(caught.value).startswith(why)


@pytest.mark.parametrize(
    ("raw", "rack", "endpoints"),
    [
        ('{"version":1,"host":"h","port":9091,"jmx_port":-1}', None, ("PLAINTEXT://h:9091",)),
        ('{"version":3,"endpoints":["SSL://h:1"],"rack":"dc1","host":null,"port":-1}', "dc1", ("SSL://h:1",)),
        ('{"version":4,"endpoints":[],"rack":null}', None, ()),
        ('{"version":5,"endpoints":[],"rack":"","features":{"f":{"min_version":1}}}', "", ()),
        ('{"foo":"bar","version":100,"endpoints":["SSL://localhost:9093"]}', None, ("SSL://localhost:9093",)),
    ],
)
def test_brokers_of_all_ages_are_read(raw: str, rack: str | None, endpoints: tuple[str, ...]) -> None:
    """Broker registrations of every version are read, also future ones; no rack differs from an empty rack."""
    node = values.decode_broker(7, raw.encode())
    assert (node.id, node.rack, node.endpoints) == (7, rack, endpoints)


def test_controllers_tell_kraft_from_zookeeper() -> None:
    """Only a KRaft controller epoch of 0 or more marks a KRaft controller."""
    old = values.decode_controller(b'{"version":1,"brokerid":3,"timestamp":"1"}')
    new = values.decode_controller(b'{"version":2,"brokerid":3,"timestamp":"1","kraftControllerEpoch":-1}')
    kraft = values.decode_controller(b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":0}')
    assert [node.is_kraft for node in (old, new, kraft)] == [False, False, True]
    assert (old.broker, old.version, new.version) == (3, 1, 2)
    copied = b'{"version":0,"kraft_controller_id":3000,"kraft_metadata_offset":%d}'
    assert [values.decode_migration_copied(copied % offset) for offset in (-1, 0, 1234)] == [False, False, True]


def test_reassignments_are_read_in_their_order() -> None:
    """A reassignment request is a list of topic, partition and target, read in order.

    Any extra field makes the whole request invalid.
    """
    raw = (
        b'{"version":1,"partitions":[{"topic":"b","partition":1,"replicas":[2,1]},'
        b'{"topic":"a","partition":0,"replicas":[]}]}'
    )
    assert values.decode_requested_reassignments(raw) == (("b", 1, (2, 1)), ("a", 0, ()))
    extra = raw.replace(b'"topic"', b'"log_dirs":[],"topic"')
    for odd in (extra, raw.replace(b":0", b":false"), raw[:-1] + b',"x":1}'):
        with pytest.raises(ZnodeError):
            values.decode_requested_reassignments(odd)


def test_entries_that_the_controller_never_removes_are_read() -> None:
    """Kafka reads negative and duplicate ids, so that topiarist can name the stuck entry; larger numbers are no ids."""
    entry = '{"version":1,"partitions":[{"topic":"a","partition":%s,"replicas":%s}]}'
    for partition, replicas in ((0, (1, 1)), (-1, (1, -5)), (0, (-(2**31), 2**31 - 1))):
        raw = (entry % (partition, list(replicas))).encode()
        assert values.decode_requested_reassignments(raw) == (("a", partition, replicas),)
    for odd in (entry % (0, [2**31]), entry % (-(2**31) - 1, [1]), entry % (0, "[1.0]"), entry % (0, "[true]")):
        with pytest.raises(ZnodeError):
            values.decode_requested_reassignments(odd.encode())


@pytest.mark.parametrize("entity", ["/topics/T", "topics", "topics/", "config/topics/T", "/config/topics/T", "users/u"])
def test_notifications_that_brokers_would_skip_are_not_written(entity: str) -> None:
    """A change notification with a leading slash or a prefix is refused, because brokers would skip it."""
    with pytest.raises(ZnodeError):
        configs_.encode_change_notification(entity)


def test_topic_ids_are_checked_for_their_form() -> None:
    """Only 22 characters of base64url are a valid topic id."""
    raw = topics.encode_topic([(1,)])
    for good in ("A" * 22, ID):
        assert topics.decode_topic(_with_id(raw, good)).topic_id == good
    for bad in ("AAAAAA", "A" * 24, "A" * 21 + "=", "A" * 21 + "/", "A" * 22 + "\n", ""):
        with pytest.raises(ZnodeError):
            topics.decode_topic(_with_id(raw, bad))


@given(st.text())
def test_a_name_is_one_path_component_or_an_error(name: str) -> None:
    """Any name gives a path directly below the parent znode, or an error."""
    for make, parent in ((paths.topic_path, paths.TOPICS), (paths.record_path, paths.RECORDS)):
        try:
            path = make(name)
        except ZnodeError:
            assert "/" in name or "\0" in name or name in ("", ".", "..")
        else:
            assert path.rpartition("/")[::2] == (parent, name)


def test_bad_values_are_never_written() -> None:
    """Encoders refuse numbers as config values, lone surrogates and invalid replica lists."""
    with pytest.raises(ZnodeError):
        configs_.encode_config({"retention.ms": 1})  # type: ignore[dict-item]
    with pytest.raises(ZnodeError):
        configs_.encode_config({"retention.ms": "\ud800"})
    with pytest.raises(ZnodeError):
        topics.encode_topic([(1, "2")])  # type: ignore[list-item]
    with pytest.raises(ZnodeError):
        topics.encode_topic([(-1,)])


KAFKAS = b'{"controller_epoch":7,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}'


def state(**fields: Any) -> bytes:
    """Return a partition state with changed fields; a field with the value None is removed."""
    found = json.loads(KAFKAS) | fields
    return json.dumps({name: value for name, value in found.items() if value is not None}).encode()


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        (KAFKAS, PartitionState(1, (1, 2), 0, 7)),
        (state(leader=-1, isr=[3]), PartitionState(-1, (3,), 0, 7)),
        (state(leader=-2, isr=[]), PartitionState(-2, (), 0, 7)),
        (state(leader_recovery_state=1, isr=[1]), PartitionState(1, (1,), 0, 7, recovering=True)),
        (state(leader_recovery_state=0), PartitionState(1, (1, 2), 0, 7)),
        (state(vendor="x"), PartitionState(1, (1, 2), 0, 7)),
    ],
)
def test_a_state_is_read(raw: bytes, wanted: PartitionState) -> None:
    """Partition states of every release are read, also without a leader, during a deletion and after an unclean
    election.

    Contract 4.4 specifies them.
    """
    assert topics.decode_partition_state(raw) == wanted


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "it is empty"),
        (b"null", "it is not a JSON object"),
        (state(version=2), '"version" is 2, and topiarist supports at most 1'),
        (state(version=None), '"version" must be a positive integer'),
        (state(leader="1"), '"leader" must be an integer'),
        (state(leader=-3), '"leader" must be a broker id, -1 or -2, not -3'),
        (state(leader=True), '"leader" must be an integer'),
        (state(isr=None), '"isr" must be a list of broker ids, not missing or null'),
        (state(isr=[1, "2"]), '"isr" must be a list of broker ids, not [1, "2"]'),
        (state(isr=[-1]), '"isr" must be a list of broker ids'),
        (state(isr=[True]), '"isr" must be a list of broker ids'),
        (state(isr=[2**31]), '"isr" must be a list of broker ids'),
        (state(leader_epoch=None), '"leader_epoch" must be an integer'),
        (state(controller_epoch="7"), '"controller_epoch" must be an integer'),
        (state(leader_recovery_state=2), '"leader_recovery_state" must be 0 or 1, not 2'),
    ],
)
def test_an_odd_state_says_why(raw: bytes, why: str) -> None:
    """A partition state that Kafka does not write is an error with its reason."""
    with pytest.raises(ZnodeError, match=re.escape(why)):
        topics.decode_partition_state(raw)


def test_what_moves_is_read_from_the_topic() -> None:
    """Added and removed replicas are read once for each partition, in order; empty lists are no reassignment."""
    raw = (
        b'{"version":3,"partitions":{"10":[4],"2":[5,6,1],"3":[1]},'
        b'"adding_replicas":{"10":[4],"2":[5,6]},"removing_replicas":{"2":[1],"3":[]}}'
    )
    found = topics.decode_topic(raw).reassignments
    assert [*found.items()] == [(2, Reassignment((5, 6), (1,))), (10, Reassignment((4,), ()))]
    assert topics.decode_topic(b'{"version":1,"partitions":{"0":[1]}}').reassignments == {}


@given(
    st.binary(max_size=60)
    | st.builds(
        lambda fields: state(**fields),
        st.dictionaries(
            st.sampled_from(["leader", "isr", "version", "leader_epoch", "leader_recovery_state"]),
            st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=3) | st.booleans(),
        ),
    )
)
def test_no_bytes_do_more_than_say_why(raw: bytes) -> None:
    """Any bytes give a partition state or a ``ZnodeError``."""
    with suppress(ZnodeError):
        topics.decode_partition_state(raw)


# The short ways for znodes of the usual form: the same values and bytes as the ways that check everything.

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
