"""Seeds of fuzzing: the inputs of the examples, small inputs of every kind, and dictionaries of each format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kafka.protocol.admin import DescribeConfigsResponse
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse
from kafka.record.default_records import DefaultRecordBatchBuilder

from support import builders
from support import snapshots as snapshot_examples
from support.kafka.releases import encode_response
from topiarist.adapters import own_values
from topiarist.adapters.devcluster.seed import topic_bytes
from topiarist.adapters.kafka_admin.read.metadata import OVERRIDE, VERSION
from topiarist.adapters.kafka_admin.records import codec
from topiarist.adapters.kafka_admin.records.codec import Intent, IntentKind, Lock, Meta, Moved, TopicRecord
from topiarist.adapters.zookeeper.codec import topics
from topiarist.model.moves import BatchRecord, OwnValue, ReplicaMove
from topiarist.model.state import AppliedSpec, Freeze, OwnershipRecord

EXAMPLES = Path(__file__).parents[1] / "examples"


def example_files(pattern: str) -> Iterator[bytes]:
    """Return all files of the examples with matching names."""
    return (path.read_bytes() for path in sorted(EXAMPLES.rglob(pattern)) if path.is_file())


def snapshot_seeds() -> Iterator[bytes]:
    """Return a snapshot in which no field has its default."""
    yield b"".join(snapshot_examples.snapshot_lines())


def znode_seeds() -> Iterator[bytes]:
    """Return one znode of every kind, as Kafka and topiarist write it."""
    for state in (snapshot_examples.FULL_STATE, builders.state(builders.topic("orders"))):
        for topic in state.topics.values():
            yield topic_bytes({str(at): list(ids) for at, ids in enumerate(topic.replicas)}, topic.topic_id)
            yield topics.encode_config(topic.config)
            if topic.record:
                yield own_values.encode_record(topic.record)
        yield own_values.encode_freeze(None)
    yield (
        b'{"version":3,"partitions":{"1":[1,2,3],"0":[1]},"adding_replicas":{"1":[3]},'
        b'"removing_replicas":{"1":[1]},"topic_id":"IvlLS4OaQluDznKjP0kYgQ","vendor":{"a":[1.5]}}'
    )
    yield b'{"version":1,"state":"frozen","reason":"r","by":"b","since":"s"}'
    yield b'{"version":"1","id":"7sYkPq0hTmWZkS3m1oX9Lw"}'
    yield b'{"version":2,"brokerid":1,"timestamp":"1","kraftControllerEpoch":-1}'
    yield b'{"features":{},"version":2,"status":1}'
    yield b'{"version":0,"kraft_metadata_offset":5,"kraft_controller_id":1}'
    yield b'{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[1,2]}]}'
    yield b'{"version":5,"host":"h","port":9092,"endpoints":["PLAINTEXT://h:9092"],"rack":"a","features":{}}'
    yield b"42"


def rule_seeds() -> Iterator[bytes]:
    """Return every expression of the examples, and some that use much of the language."""
    for text in example_files("*.yaml"):
        yield from re.findall(rb"expression: *(.+)", text)
    yield b'topic.labels[?"a"].orValue("x") == "x" || has(topic.labels.b)'
    yield b'topic.config.all(k, topic.config[k] != "") && [1,2].map(x, x * 2).exists(y, y > 3)'
    yield b'topic.name.matches("^[a-z]+$") && change.keys.filter(k, k.startsWith("r")).size() < 3'
    yield b"int(topic.config['retention.ms']) <= 7 * 24 * 3600 * 1000 ? true : {'a': 1.0}.a > 2.0"
    yield b"duration('168h') > duration('1h') && timestamp('2024-01-01T00:00:00Z').getFullYear() == 2024"


def answer_seeds() -> Iterator[bytes]:
    """Return the number of a request in ``targets.REQUESTS`` and what a broker sends for it, for each request."""
    topic = MetadataResponse.MetadataResponseTopic
    partition = topic.MetadataResponsePartition(replica_nodes=[1], isr_nodes=[1], offline_replicas=[], leader_id=1)
    node = MetadataResponse.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092)
    orders = topic(name="orders", partitions=[partition])
    offered = ApiVersionsResponse.ApiVersion(api_key=3, min_version=0, max_version=12)
    coordinator = FindCoordinatorResponse.Coordinator(key="topiarist", node_id=1, host="127.0.0.1", port=9092)
    responses = (
        (12, MetadataResponse(brokers=[node], cluster_id="seed", controller_id=1, topics=[orders])),
        (3, ApiVersionsResponse(api_keys=[offered], finalized_features_epoch=7)),
        (4, FindCoordinatorResponse(coordinators=[coordinator])),
        (1, SaslHandshakeResponse(mechanisms=["PLAIN"])),
        (2, SaslAuthenticateResponse(auth_bytes=b"r=x,s=c2FsdA==,i=4096")),
    )
    for number, (version, response) in enumerate(responses):
        yield bytes([number]) + encode_response(response, version, correlation_id=1)
    yield b"\0HTTP/1.1 400 Bad Request"


def override_seeds() -> Iterator[bytes]:
    """Return answers to DescribeConfigs after their sizes: without topics, and with overrides, defaults and errors."""
    result = DescribeConfigsResponse.DescribeConfigsResult
    entry = result.DescribeConfigsResourceResult
    synonym = entry.DescribeConfigsSynonym(name="log.retention.ms", value="5", source=4)
    values = (("retention.ms", "5", OVERRIDE), ("cleanup.policy", "compact", 5), ("segment.ms", None, OVERRIDE))
    entries = [
        entry(name=name, value=value, config_source=source, synonyms=[synonym], config_type=5)
        for name, value, source in values
    ]
    described = result(error_code=0, resource_type=2, resource_name="orders", configs=entries)
    hidden = result(error_code=29, error_message="denied", resource_type=2, resource_name="hidden", configs=[])
    for results in ([], [described], [hidden, described]):
        yield encode_response(DescribeConfigsResponse(results=results), VERSION, 1)[4:]


def batch_seeds() -> Iterator[bytes]:
    """Return the batches that a broker sends: none, some with values and tombstones, and a compressed one."""
    yield b""
    for compression, number in ((0, 1), (0, 4), (1, 4)):
        builder = DefaultRecordBatchBuilder(2, compression, True, 5, 0, 0, 1 << 20)
        for offset in range(number):
            value = None if offset == 2 else b'{"version":1}'
            builder.append(offset, 1000, b"topic/t%d" % offset, value, [])
        yield bytes(builder.build())


def record_seeds() -> Iterator[bytes]:
    """Return a key, a zero byte and a value, for each kind of record."""
    applied = AppliedSpec(3, (("retention.ms", "5"),))
    ownership = OwnershipRecord("team", ("retention.ms",), applied=applied)
    intent = Intent(IntentKind.CHANGE, ownership, ((1, 2),), 3, {"retention.ms": None})
    move = ReplicaMove("orders", 0, (1, 2), (3, 2))
    batch = BatchRecord("team", 1, 2, (move,), {"topics/orders": {"key": OwnValue(None, "0:3")}})
    values = {
        codec.LOCK: own_values.encode_value(Lock("run", "team", "host", 30_000, 7, 3)),
        codec.META: own_values.encode_value(Meta("cluster", "id")),
        codec.GATE: own_values.encode_freeze(Freeze("why", "ada")),
        codec.MOVED: own_values.encode_value(Moved("/kafka", 2, ("old",))),
        codec.MOVES: own_values.encode_batch(batch),
        f"{codec.TOPIC_PREFIX}orders": codec.encode_topic(TopicRecord(ownership, "id", intent)),
    }
    for key, value in values.items():
        yield key.encode() + b"\0" + value


YAML_TOKENS = (
    "apiVersion: topiarist.dev/v1 kind: Topic Cluster Policy metadata: name: labels: spec: config: overrides: \
    clusters: clusterSelector: matchLabels: partitions: replicationFactor: replicaAssignment: retention.ms: ensure: \
    Absent zookeeper: connect: defaults: kafkaVersion: rules: expression: message: field: List items: --- ... - : ? & \
    * ! !! | > %TAG %YAML << yes 0x1 1e3 1:2 0.5 010 ~ null true { } [ ] \" ' # \u2028 \x85 \ufeff \x07 \\u2028"
)
JSON_TOKENS = '{ } [ ] : , " null true false -1 0 1 1e5 1.5 NaN 9223372036854775808 \\ud800 \\u0000 \\n'
ZNODE_TOKENS = (
    f"{JSON_TOKENS} version partitions adding_replicas removing_replicas topic_id config owner ensure Absent state "
    "open frozen"
)
CEL_TOKENS = (
    "topic. change. cluster. labels config name has( size() all( exists( map( filter( matches( optMap( in == != && \
    || ? : ! [? .orValue( int( string( double( timestamp( duration( bytes( dyn( type( null r'' b'' \\u0000 1u 0x1 //"
)
