"""The definitions of Kafka's messages are those in the jar of Kafka's clients."""

from __future__ import annotations

import kafka_messages


def test_the_definitions_are_those_of_kafka() -> None:
    """``protocol/messages.json`` is the file that the tool writes from the jar of the release that it names."""
    assert kafka_messages.main(["--check"]) == 0
