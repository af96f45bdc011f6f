"""The table of supported Kafka versions decides everywhere: a new row needs its level, and no list is forgotten."""

from __future__ import annotations

import click

from topiarist.cli.options import kafka_version
from topiarist.kafka.types import KAFKA_VERSIONS, METADATA_LEVELS, format_version, parse_version
from topiarist.schema.load import load_schema

FIRST_KRAFT_VERSION = (3, 3)


def test_levels() -> None:
    """Every version that brokers may have in KRaft mode has a level, higher than that of the version before it."""
    levels = [level for version, level in METADATA_LEVELS.items() if version >= FIRST_KRAFT_VERSION]
    assert levels == sorted({level for level in levels if level})
    assert sorted(METADATA_LEVELS) == list(METADATA_LEVELS)


def test_the_schema_has_exactly_the_supported_versions() -> None:
    """The schema accepts every version of the table, and no other."""
    texts = load_schema("Cluster")["properties"]["spec"]["properties"]["kafkaVersion"]["enum"]
    assert texts == [format_version(version) for version in KAFKA_VERSIONS]
    assert tuple(map(parse_version, texts)) == KAFKA_VERSIONS


def test_help() -> None:
    """The help of ``--kafka-version`` names the oldest and the newest version of the table."""
    command = click.command()(kafka_version(lambda: None))
    (option,) = (param for param in command.params if isinstance(param, click.Option))
    oldest, newest = map(format_version, (KAFKA_VERSIONS[0], KAFKA_VERSIONS[-1]))
    assert f"{oldest} to {newest}" in (option.help or "")
