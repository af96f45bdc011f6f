"""Values for every topic config, from topiarist's config table.

The values are ordinary values, limits, and texts that are hard to parse.
"""

from __future__ import annotations

from collections.abc import Iterator

from topiarist.kafka.config_rules import kafka_default
from topiarist.kafka.config_table import MAX_BY_TYPE, MESSAGE_FORMAT_VERSIONS, TOPIC_CONFIGS, ConfigDef
from topiarist.kafka.types import KafkaVersion

ONLY_FALSE = ("remote.log.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable")
"""Configs that ZooKeeper mode, or a cluster without remote storage, does not allow to be true."""

_ORDINARY_VALUES = {
    "cleanup.policy": "compact",
    "compression.type": "zstd",
    "message.timestamp.type": "LogAppendTime",
    "min.insync.replicas": "2",
    "min.cleanable.dirty.ratio": "0.25",
    "follower.replication.throttled.replicas": "0:1,1:2",
    "leader.replication.throttled.replicas": "*",
    "local.retention.ms": "1000",
    "local.retention.bytes": "1000000",
    "retention.bytes": "50000000",
    "max.compaction.lag.ms": "8000000",
    "min.compaction.lag.ms": "7000000",
    "segment.bytes": "1048576",
    "segment.jitter.ms": "5000",
    "compression.gzip.level": "4",
}


def non_default_value(definition: ConfigDef, release: KafkaVersion) -> str:
    """Return an ordinary value that is not the default."""
    if definition.name in ONLY_FALSE:
        return "false"
    if definition.name in _ORDINARY_VALUES:
        return _ORDINARY_VALUES[definition.name]
    if definition.type == "version":
        return "2.1"
    usual = kafka_default(definition.name, release)
    if definition.type == "boolean":
        return "false" if usual == "true" else "true"
    return str(int(usual) // 3 + 1)


def edge_values(definition: ConfigDef, release: KafkaVersion) -> Iterator[str]:
    """Return the limits of a config's valid values in a release."""
    match definition.type:
        case "int" | "long":
            largest = MAX_BY_TYPE[definition.type]
            lowest = definition.minimum_for(release)
            yield str(-largest - 1 if lowest is None else lowest)
            yield str(largest if definition.maximum is None else definition.maximum)
            if definition.also_allowed is not None:
                yield str(definition.also_allowed)
        case "double":
            yield from ("0", "1", "1e-300")
        case "boolean":
            yield from ("true", "false")
        case "word":
            yield from definition.valid_values
        case "words":
            yield from ("", *definition.valid_values, ",".join(definition.valid_values))
        case "throttle":
            yield from ("", "*", "0:0", "2147483647:2147483647,0:1")
        case "version":
            yield from (
                "0.8.0",
                "0.10.0",
                "0.11.0",
                [version for version in MESSAGE_FORMAT_VERSIONS if _is_supported(release, version)][-1],
            )


def _is_supported(release: KafkaVersion, version: str) -> bool:
    return version.startswith("0.") or tuple(map(int, version.split("."))) <= release


BOUNDARY_NUMBERS = (
    "0",
    "-0",
    "1",
    "-1",
    "-2",
    "-3",
    "2",
    "3",
    "4",
    "11",
    "12",
    "13",
    "14",
    "9",
    "10",
    "17",
    "18",
    "22",
    "23",
)
"""Every limit of the config table, and its neighbours."""

# fmt: off
UNUSUAL_TEXTS = (
    "", " ", "  14\t", "014", "+14", "--1", "+-1", "1_000", "1e3", "1E3", "14.0", "0x10", "14L", "14l",
    "1,000", "abc", "\u0663", "\uff11\uff14", "\u00a014", "14\u00a0", "\u200314", "-", "+", ".", ".5", "5.",
    "0.50", "0.5f", "0.5D", "0x1p-1", "0x.8p0", "NaN", "-NaN", "+NaN", "nan", "Infinity", "-Infinity", "inf",
    "1.0000001", "-1e-400", "4.9e-324", "1e-500", "-0.0", "true", "TRUE", "True", " tRuE ", "yes", "on", "1 ",
    "null", "None", "false", "FALSE", "fal\u017fe", "truE\n", "compact", "delete", "COMPACT", "delete,compact",
    "delete , compact", "compact,", ",compact", "delete,,compact", ",", ",,", "compact;delete",
    "delete,delete", " delete", "delete\u00a0", "gzip", "GZIP", " gzip ", "none", "zstd", "lz4", "snappy",
    "uncompressed", "producer", "CreateTime", "createtime", "LogAppendTime", "Log", "*", "**", "* ", ",*",
    "*,", "*,1:2", "1:2", "1:2,", ",1:2", "1:2,,3:4", "1:2 , 3:4", "1:2:3", "a:b", "1", "-1:2", "0:-1",
    "100:10,,12:10,", "\u0661:\u0662", "1 :2", "0.8", "0.8.0", "0.8.1.1", "0.9.0", "0.10", "0.10.0",
    "0.10.0-IV0", "0.10.0-IV1", "0.10.2-IV1", "0.11.0-IV2", "0.11", "0.11.0.0", "1.0", "1", "2", "2.0",
    "2.0-IV2", "2.4", "2.4-IV1", "2.4-IV2", "2.4.1", "2.8", "2.8.2", "2.8-IV1", "2.8-IV2", "2.8.1-anything",
    "3.0", "3.0-IV1", "3.0-IV2", "3.1-IV0", "3.3-IV3", "3.4", "3.5-IV2", "3.6-IV2", "3.7-IV4", "3.7-IV5",
    "3.8", "3.9", "3.9-IV0", "3.9-IV1", "4.0", "4.0-IV0", "4.0-IV1", "4.0-IV3", "4.1", "10.0", "v2.8", "2.8-",
    "2.8-IV", "2.8-IV01", "2.8-iv1", "2.8-IV1 ", "-IV1", "2.8..1",
)
# fmt: on
"""Texts of every form that are hard to parse."""


def all_candidate_values(definition: ConfigDef, release: KafkaVersion) -> list[str]:
    """Return all values to test for a config: limits with their neighbours, and unusual texts."""
    found = [
        *BOUNDARY_NUMBERS,
        *UNUSUAL_TEXTS,
        *edge_values(definition, release),
        non_default_value(definition, release),
    ]
    limits = [*MAX_BY_TYPE.values(), *(-largest - 1 for largest in MAX_BY_TYPE.values())]
    bounds = [definition.minimum, definition.maximum, definition.also_allowed, *limits]
    found += [str(bound + step) for bound in bounds if bound is not None for step in (-1, 0, 1)]
    found += [text for other in TOPIC_CONFIGS.values() for text in (*other.valid_values, other.default)]
    return list(dict.fromkeys(found))
