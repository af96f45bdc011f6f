"""Kafka's topic configs as data: the 40 names of all supported versions, with type, range and default.

Each entry also has the broker settings of the same meaning. ``config_values`` and ``config_rules`` read values by this
table. Bounds and defaults are those of Kafka's own ``LogConfig`` (compared with releases from 2.4.1 to 4.4.0). Names
that Kafka marks as internal, which brokers do not show, are not in the table.

To add a topic config of a new Kafka version, such as 4.5:

1. Add a ``ConfigDef`` to ``_CONFIG_DEFS``, sorted by name, with ``since=(4, 5)``. Set ``removed`` where the version
   drops a config, and ``earlier_minimum`` or ``earlier_default`` where it changes one.
2. Add the risks of its changes to ``RISK_TABLE`` in ``planning/risk.py``, and rows to ``MATRIX`` and
   ``EFFECTS`` in ``tests/unit/planning/test_risk.py``.
3. Correct the number of configs in the first sentence above and in ``tests/unit/kafka/test_config_table.py``.
4. Run ``make generate``, which writes the config to ``schemas/topic.json`` and ``cluster.json``, to the resource
   definitions and the admission policy in ``manifests/`` and ``charts/``, and to ``docs/manifest-fields.md``. Run
   ``make check``.

A manifest may use the config where ``Cluster.spec.kafkaVersion`` has it. The recipe for a new version is in
``kafka/types.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from topiarist.kafka.types import INT_MAX, LONG_MAX, MIN_KAFKA_VERSION, KafkaVersion

ConfigType = Literal["boolean", "int", "long", "double", "word", "words", "throttle", "version"]
"""The type of a value: ``word`` is one of a list, ``words`` any of them, ``throttle`` is ``*`` or ``P:B,P:B``."""


class ConfigDef(Struct, frozen=True):
    """The definition of one topic config.

    ``minimum`` and ``maximum`` bound a number (None: only the range of its type); ``also_allowed`` is a number that is
    accepted outside the bounds. ``valid_values`` lists the words of a ``word`` or ``words`` config.

    ``server_defaults`` has the broker settings that give the value if a topic has no override; the first that is set
    counts. A setting that ends in ``.minutes`` or ``.hours`` has that unit (``MS_BY_UNIT``), and the topic config ms.

    ``since`` is the Kafka version that introduced the config, and ``removed`` the first version without it (None: the
    newest version has it). Only some patch releases of the versions ``partly_in`` have it.
    ``deprecated`` has the version that deprecated it and the advice. ``earlier_minimum`` and ``earlier_default`` apply
    before the version that they name. ``min_loadable`` is the smallest number with which a broker can host a log, for a
    config that Kafka accepts with smaller numbers.
    """

    name: str
    type: ConfigType
    default: str
    description: str
    minimum: int | None = None
    maximum: int | None = None
    also_allowed: int | None = None
    valid_values: tuple[str, ...] = ()
    server_defaults: tuple[str, ...] = ()
    since: KafkaVersion = MIN_KAFKA_VERSION
    removed: KafkaVersion | None = None
    partly_in: tuple[KafkaVersion, ...] = ()
    deprecated: tuple[KafkaVersion, str] | None = None
    earlier_minimum: tuple[KafkaVersion, int] | None = None
    earlier_default: tuple[KafkaVersion, str] | None = None
    min_loadable: int | None = None

    def minimum_for(self, release: KafkaVersion) -> int | None:
        """Return the smallest number that a Kafka version accepts; None if there is no lower bound."""
        if self.earlier_minimum is not None and release < self.earlier_minimum[0]:
            return self.earlier_minimum[1]
        return self.minimum


MESSAGE_FORMAT_VERSIONS: Mapping[str, int | None] = {
    **dict.fromkeys(("0.8.0", "0.8.1", "0.8.2", "0.9.0")),
    **{"0.10.0": 1, "0.10.1": 2, "0.10.2": 0, "0.11.0": 2, "1.0": 0, "1.1": 0, "2.0": 1, "2.1": 2, "2.2": 1, "2.3": 1},
    **{"2.4": 1, "2.5": 0, "2.6": 0, "2.7": 2, "2.8": 1, "3.0": 1, "3.1": 0, "3.2": 0, "3.3": 3, "3.4": 0, "3.5": 2},
    **{"3.6": 2, "3.7": 4, "3.8": 0, "3.9": 0},
}
"""The versions that ``message.format.version`` accepts, each with its last ``-IV`` number (None: there is none)."""

MAX_BY_TYPE: Mapping[str, int] = {"int": INT_MAX, "long": LONG_MAX}
"""The largest number of an integer type; the smallest is ``-largest - 1``."""

MS_BY_UNIT: Mapping[str, int] = {"minutes": 60_000, "hours": 3_600_000}
"""Milliseconds of the units in the names of broker settings, such as ``log.retention.hours``."""

MIN_SEGMENT_BYTES = 1_048_576
"""The smallest ``segment.bytes`` from Kafka 4.1 on: a broker does not start if a topic has less."""

_TIERED_STORAGE_SINCE = (3, 0)
_REFUSED_IN_ZOOKEEPER_MODE = "Kafka refuses true in ZooKeeper mode"
_REMOVED_WITH_4_0 = (4, 0)

_CONFIG_DEFS = (
    ConfigDef(
        "cleanup.policy",
        "words",
        "delete",
        "What happens to old segments: deleted by age and size, compacted to the newest message of each key, or both.",
        valid_values=("compact", "delete"),
        server_defaults=("log.cleanup.policy",),
    ),
    ConfigDef(
        "compression.gzip.level",
        "int",
        "-1",
        "Compression level of gzip, 1 to 9, if compression.type is gzip; -1 is gzip's own default.",
        minimum=1,
        maximum=9,
        also_allowed=-1,
        server_defaults=("compression.gzip.level",),
        since=(3, 8),
    ),
    ConfigDef(
        "compression.lz4.level",
        "int",
        "9",
        "Compression level of lz4, 1 to 17, if compression.type is lz4.",
        minimum=1,
        maximum=17,
        server_defaults=("compression.lz4.level",),
        since=(3, 8),
    ),
    ConfigDef(
        "compression.type",
        "word",
        "producer",
        "How brokers store batches: with this compression, uncompressed, or (producer) as the producer sent them.",
        valid_values=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        server_defaults=("compression.type",),
    ),
    ConfigDef(
        "compression.zstd.level",
        "int",
        "3",
        "Compression level of zstd, -131072 to 22, if compression.type is zstd.",
        minimum=-131072,
        maximum=22,
        server_defaults=("compression.zstd.level",),
        since=(3, 8),
    ),
    ConfigDef(
        "delete.retention.ms",
        "long",
        "86400000",
        "How long a compacted topic keeps tombstones, so that slow readers still see that a key was deleted.",
        minimum=0,
        server_defaults=("log.cleaner.delete.retention.ms",),
    ),
    ConfigDef(
        "errors.deadletterqueue.group.enable",
        "boolean",
        "false",
        "Whether share groups may use the topic as a dead-letter queue.",
        since=(4, 4),
    ),
    ConfigDef(
        "file.delete.delay.ms",
        "long",
        "60000",
        "How long the file of a deleted segment stays on disk.",
        minimum=0,
        server_defaults=("log.segment.delete.delay.ms",),
    ),
    ConfigDef(
        "flush.messages",
        "long",
        str(LONG_MAX),
        "After how many messages a broker forces its log to disk; best left to replication and the operating system.",
        minimum=1,
        server_defaults=("log.flush.interval.messages",),
        earlier_minimum=((3, 3), 0),
    ),
    ConfigDef(
        "flush.ms",
        "long",
        str(LONG_MAX),
        "Time after which a broker forces its log to disk; best left to replication and the operating system.",
        minimum=0,
        server_defaults=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ),
    ConfigDef(
        "follower.replication.throttled.replicas",
        "throttle",
        "",
        "Replicas (partition:broker) with throttled fetching as followers, or * for all; reassignments set it.",
    ),
    ConfigDef(
        "index.interval.bytes",
        "int",
        "4096",
        "After how many bytes of messages an entry is added to the offset index.",
        minimum=0,
        server_defaults=("log.index.interval.bytes",),
    ),
    ConfigDef(
        "leader.replication.throttled.replicas",
        "throttle",
        "",
        "Replicas (partition:broker) with throttled traffic as leaders, or * for all; reassignments set it.",
    ),
    ConfigDef(
        "local.retention.bytes",
        "long",
        "-2",
        "With remote storage: how many bytes of a partition stay on the brokers' disks; -2 takes retention.bytes.",
        minimum=-2,
        server_defaults=("log.local.retention.bytes",),
        since=_TIERED_STORAGE_SINCE,
    ),
    ConfigDef(
        "local.retention.ms",
        "long",
        "-2",
        "With remote storage: how long segments stay on the brokers' disks; -2 takes retention.ms.",
        minimum=-2,
        server_defaults=("log.local.retention.ms",),
        since=_TIERED_STORAGE_SINCE,
    ),
    ConfigDef(
        "max.compaction.lag.ms",
        "long",
        str(LONG_MAX),
        "Time after which a message of a compacted topic must become eligible for compaction.",
        minimum=1,
        server_defaults=("log.cleaner.max.compaction.lag.ms",),
    ),
    ConfigDef(
        "max.decompressed.message.bytes",
        "int",
        "2147483639",
        "The largest single message that a broker accepts, before compression.",
        minimum=1,
        maximum=2147483639,
        server_defaults=("max.decompressed.message.bytes",),
        since=(4, 4),
        partly_in=((4, 2),),
    ),
    ConfigDef(
        "max.message.bytes",
        "int",
        "1048588",
        "The largest batch of messages that a broker accepts, after compression.",
        minimum=0,
        server_defaults=("message.max.bytes",),
        earlier_default=((2, 5), "1000012"),
    ),
    ConfigDef(
        "message.downconversion.enable",
        "boolean",
        "true",
        "Whether brokers convert messages for consumers that know only an older format.",
        server_defaults=("log.message.downconversion.enable",),
        removed=_REMOVED_WITH_4_0,
    ),
    ConfigDef(
        "message.format.version",
        "version",
        "3.0-IV1",
        "The format in which brokers store messages, named after the Kafka version that introduced it.",
        server_defaults=("log.message.format.version",),
        removed=_REMOVED_WITH_4_0,
        deprecated=((3, 0), "ignored where inter.broker.protocol.version is 3.0 or later, removed in 4.0"),
    ),
    ConfigDef(
        "message.timestamp.after.max.ms",
        "long",
        "3600000",
        "How far the timestamp of a message may lie ahead of the broker's clock.",
        minimum=0,
        server_defaults=("log.message.timestamp.after.max.ms",),
        since=(3, 6),
        earlier_default=((4, 0), str(LONG_MAX)),
    ),
    ConfigDef(
        "message.timestamp.before.max.ms",
        "long",
        str(LONG_MAX),
        "How far the timestamp of a message may lie behind the broker's clock.",
        minimum=0,
        server_defaults=("log.message.timestamp.before.max.ms",),
        since=(3, 6),
    ),
    ConfigDef(
        "message.timestamp.difference.max.ms",
        "long",
        str(LONG_MAX),
        "How far the timestamp of a message may lie from the broker's clock, either way.",
        minimum=0,
        server_defaults=("log.message.timestamp.difference.max.ms",),
        removed=_REMOVED_WITH_4_0,
        deprecated=((3, 6), "use message.timestamp.before.max.ms and message.timestamp.after.max.ms; removed in 4.0"),
    ),
    ConfigDef(
        "message.timestamp.type",
        "word",
        "CreateTime",
        "The clock that gives a message its timestamp: the producer's (CreateTime) or the broker's (LogAppendTime).",
        valid_values=("CreateTime", "LogAppendTime"),
        server_defaults=("log.message.timestamp.type",),
    ),
    ConfigDef(
        "min.cleanable.dirty.ratio",
        "double",
        "0.5",
        "How much of a compacted log must be uncompacted before it is cleaned, 0 to 1; lower costs more disk traffic.",
        minimum=0,
        maximum=1,
        server_defaults=("log.cleaner.min.cleanable.ratio",),
    ),
    ConfigDef(
        "min.compaction.lag.ms",
        "long",
        "0",
        "How long a message of a compacted topic is protected from compaction.",
        minimum=0,
        server_defaults=("log.cleaner.min.compaction.lag.ms",),
    ),
    ConfigDef(
        "min.insync.replicas",
        "int",
        "1",
        "How many replicas must be in sync for a write with acks=all to be accepted.",
        minimum=1,
        server_defaults=("min.insync.replicas",),
    ),
    ConfigDef(
        "preallocate",
        "boolean",
        "false",
        "Whether the file of a new segment is given its full size at once.",
        server_defaults=("log.preallocate",),
    ),
    ConfigDef(
        "remote.copy.lag.bytes",
        "long",
        "-1",
        "With remote storage: a segment is copied after so many bytes of newer data; -1 takes local.retention.bytes.",
        minimum=-1,
        server_defaults=("log.remote.copy.lag.bytes",),
        since=(4, 4),
    ),
    ConfigDef(
        "remote.copy.lag.ms",
        "long",
        "0",
        "With remote storage: a segment is copied after this time; 0 copies it at once, -1 takes local.retention.ms.",
        minimum=-1,
        server_defaults=("log.remote.copy.lag.ms",),
        since=(4, 4),
    ),
    ConfigDef(
        "remote.log.copy.disable",
        "boolean",
        "false",
        f"Whether segments are no longer copied to remote storage; {_REFUSED_IN_ZOOKEEPER_MODE}.",
        since=(3, 9),
    ),
    ConfigDef(
        "remote.log.delete.on.disable",
        "boolean",
        "false",
        f"Whether remote data is deleted when remote storage is switched off; {_REFUSED_IN_ZOOKEEPER_MODE}.",
        since=(3, 9),
    ),
    ConfigDef(
        "remote.storage.enable",
        "boolean",
        "false",
        "Whether old segments move to remote storage, on clusters that have it; cannot be switched off again.",
        since=_TIERED_STORAGE_SINCE,
    ),
    ConfigDef(
        "retention.bytes",
        "long",
        "-1",
        "How large a partition may become before its oldest segments are deleted; negative means no limit.",
        server_defaults=("log.retention.bytes",),
    ),
    ConfigDef(
        "retention.ms",
        "long",
        "604800000",
        "How long messages are kept before they are deleted; -1 means forever.",
        minimum=-1,
        server_defaults=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ),
    ConfigDef(
        "segment.bytes",
        "int",
        "1073741824",
        "How large a segment becomes before a new one starts; whole segments are deleted or compacted.",
        minimum=MIN_SEGMENT_BYTES,
        server_defaults=("log.segment.bytes",),
        earlier_minimum=((4, 1), 14),
    ),
    ConfigDef(
        "segment.index.bytes",
        "int",
        "10485760",
        "How large the index of a segment may become; at least 12, the size of one entry.",
        minimum=4,
        server_defaults=("log.index.size.max.bytes",),
        earlier_minimum=((3, 3), 0),
        min_loadable=12,
    ),
    ConfigDef(
        "segment.jitter.ms",
        "long",
        "0",
        "Random variation of the start of new segments, so that not all start at once.",
        minimum=0,
        server_defaults=("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ),
    ConfigDef(
        "segment.ms",
        "long",
        "604800000",
        "Time after which a new segment starts even if the old one is not full.",
        minimum=1,
        server_defaults=("log.roll.ms", "log.roll.hours"),
    ),
    ConfigDef(
        "unclean.leader.election.enable",
        "boolean",
        "false",
        "Whether a lagging replica may become leader if no other is left; acknowledged messages are then lost.",
        server_defaults=("unclean.leader.election.enable",),
    ),
)

TOPIC_CONFIGS: Mapping[str, ConfigDef] = {definition.name: definition for definition in _CONFIG_DEFS}
"""All topic configs by name, sorted by name."""

THROTTLE_CONFIGS = frozenset({"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"})
"""Configs that Kafka's own reassignments set and remove: topiarist manages them only if a spec names them."""

RATE_CONFIGS = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
"""The configs of a broker that limit the throttled replicas, in bytes a second."""
