"""Messages that tests send and topiarist does not, from the definitions in the jar of Kafka's clients."""

from __future__ import annotations

from typing import Any

import kafka_messages
from msgspec import Raw
from msgspec.json import encode

from support.kafka.jars import fetch_jars
from topiarist.adapters.kafka_admin.protocol import messages


def load_request(name: str) -> Any:
    """Return the class of a request, such as ``JoinGroup``; its answer can be decoded from now on."""
    (jar,) = fetch_jars(kafka_messages.RELEASE).glob("kafka-clients-*.jar")
    found = kafka_messages.read_definitions(jar, [name])
    messages._definitions()
    messages._raw.update({each: Raw(encode(definition)) for each, definition in found.items()})
    return getattr(messages, f"{name}Request")
