"""Kafka versions: the text of each supported version, and the list in the schema."""

from __future__ import annotations

from topiarist.kafka.types import MAX_KAFKA_VERSION, MIN_KAFKA_VERSION, format_version, parse_version
from topiarist.schema.load import load_schema


def test_the_schema_has_exactly_the_supported_versions() -> None:
    """The schema accepts every version from the oldest to the newest supported one, and no other."""
    texts = load_schema("Cluster")["properties"]["spec"]["properties"]["kafkaVersion"]["enum"]
    versions = [parse_version(text) for text in texts]
    assert versions == sorted(versions)
    assert (versions[0], versions[-1]) == (MIN_KAFKA_VERSION, MAX_KAFKA_VERSION)
    assert [format_version(version) for version in versions] == texts
