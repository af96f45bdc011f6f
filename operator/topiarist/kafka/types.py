"""Rules between fields: what is wrong with a merged spec although every field by itself passes the schema.

``complaints`` runs over every spec of a run before anything is connected to; ``warnings`` has what is only worth a
word. Whether a cluster's *state* allows what a spec asks is the business of ``plan``.
"""

from __future__ import annotations

from typing import NamedTuple


def format_version(kafka_version: KafkaVersion) -> str:
    """A release as people write it: ``3.9``."""
    return f"{kafka_version[0]}.{kafka_version[1]}"


MAX_KAFKA_VERSION: KafkaVersion = (3, 9)

MIN_KAFKA_VERSION: KafkaVersion = (2, 4)

Replicas = tuple[int, ...]
"""Broker ids of one partition; the first is the preferred leader."""


KafkaVersion = tuple[int, int]
"""A Kafka release: ``(3, 9)``."""


class Broker(NamedTuple):
    """A registered broker. ``rack`` is None where it has none; the empty string is a rack."""

    id: int
    rack: str | None = None
