"""Topic ids: 16 bytes in the protocol, and text of 22 characters in Kafka's tools and in topiarist's records."""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64decode, urlsafe_b64encode

NO_ID = uuid.UUID(int=0)
"""The id of no topic: of a topic that is named, in requests that accept either."""


def encode_topic_id(topic_id: object) -> str:
    """Return a topic id as Kafka's tools write it; empty for the id of no topic, and for what is not an id."""
    if not isinstance(topic_id, uuid.UUID) or topic_id == NO_ID:
        return ""
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def decode_topic_id(text: str) -> uuid.UUID:
    """Return the id that ``encode_topic_id`` wrote; raise ``ValueError`` for other text."""
    return uuid.UUID(bytes=urlsafe_b64decode(f"{text}=="))
