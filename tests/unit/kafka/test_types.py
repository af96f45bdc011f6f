"""Kafka versions: the text of each supported version, and the list in the schema."""

from __future__ import annotations

from topiarist.kafka.types import KAFKA_VERSIONS, METADATA_LEVELS, format_version, parse_version
from topiarist.schema.load import load_schema


def test_the_schema_has_exactly_the_supported_versions() -> None:
    """The schema accepts every version from the oldest to the newest supported one, and no other."""
    texts = load_schema("Cluster")["properties"]["spec"]["properties"]["kafkaVersion"]["enum"]
    assert [*map(parse_version, texts)] == [*KAFKA_VERSIONS] == sorted(KAFKA_VERSIONS)
    assert [*map(format_version, KAFKA_VERSIONS)] == texts


def test_brokers_of_each_version_in_kraft_mode_are_told_from_older_ones() -> None:
    """Each has a level of its own: without one, a broker of a new version would count as the version before."""
    levels = [level for version, level in METADATA_LEVELS.items() if version >= (3, 3)]
    assert levels == sorted({level for level in levels if level is not None})
