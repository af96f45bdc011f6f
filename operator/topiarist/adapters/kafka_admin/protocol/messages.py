"""Message classes of Kafka's protocol, made from Kafka's own definitions when a name is imported.

    from topiarist.adapters.kafka_admin.protocol.messages import MetadataRequest

    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="orders")])

``messages.json`` has the definitions of these messages as they are in the jar of Kafka's clients, without comments;
``tools/kafka_messages.py`` writes it. A class has the fields of all versions, with Kafka's defaults, under their names
in snake case, and the classes of its parts by their names. Functions of ``protocol/codec.py`` encode and decode each
version.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Raw, Struct, defstruct
from msgspec import field as struct_field
from msgspec.json import decode

from topiarist.adapters.kafka_admin.protocol.codec import (
    Field,
    MalformedMessage,
    Reader,
    Writer,
    compile_reader,
    compile_writer,
    default_of,
    parse_versions,
    skip_tags,
)

_API_VERSIONS = 18
_HEADER = struct.Struct(">ihhih")  # the size of the frame, API key, version, correlation id, length of the client id
_SIZE_BYTES, _CORRELATION_BYTES = 4, 4


class _Definition(Struct, rename="camel"):
    """The definition of one message."""

    api_key: int
    valid_versions: str
    flexible_versions: str
    fields: list[Field]


class Message(Struct, gc=False):
    """A request or a response; its versions before those of ``messages.json`` have no fields of their own."""

    name: ClassVar[str]
    API_KEY: ClassVar[int]
    max_version: ClassVar[int]
    _definition: ClassVar[_Definition]
    _readers: ClassVar[dict[int, Reader]]
    _writers: ClassVar[dict[int, Writer]]

    def encode(self, version: int) -> bytes:
        """Return the body of the message. Fields that the version does not have are left out."""
        kind = type(self)
        writer = kind._writers.get(version)
        if writer is None:
            fields = kind._definition.fields
            writer = kind._writers[version] = compile_writer(fields, version, is_flexible=is_flexible(kind, version))
        out = bytearray()
        writer(self, out)
        return bytes(out)

    @classmethod
    def decode(cls, data: bytes, version: int, at: int = 0) -> Any:
        """Return the message with its body from ``at`` on; fields that the version does not have are their defaults.

        Raises ``MalformedMessage``.
        """
        reader = cls._readers.get(version)
        if reader is None:
            fields = cls._definition.fields
            reader = cls._readers[version] = compile_reader(cls, fields, version, is_flexible=is_flexible(cls, version))
        try:
            found, end = reader(data, at)
        except (IndexError, ValueError, struct.error) as error:
            raise MalformedMessage(str(error)) from error
        if end > len(data):
            raise MalformedMessage("it ends within a field")
        return found


def is_flexible(kind: type[Message], version: int) -> bool:
    """Return whether a version of a message has tagged fields and short lengths."""
    return version in parse_versions(kind._definition.flexible_versions)


def encode_request(request: Message, version: int, correlation_id: int, client_id: str) -> bytes:
    """Return a request with its header, and the size of both before them."""
    client, kind = client_id.encode(), type(request)
    tags = b"\0" if is_flexible(kind, version) else b""
    body = request.encode(version)
    size = _HEADER.size - _SIZE_BYTES + len(client) + len(tags) + len(body)
    return _HEADER.pack(size, kind.API_KEY, version, correlation_id, len(client)) + client + tags + body


def decode_response(request: Message, version: int, data: bytes) -> Any:
    """Return the response to a request, from its bytes with their header. Raises ``MalformedMessage``."""
    kind: type[Message] = __getattr__(request.name.removesuffix("Request") + "Response")
    at = _CORRELATION_BYTES
    if kind.API_KEY == _API_VERSIONS:
        # Its header is the old one in every version, and with an error it is of the oldest version.
        return kind.decode(data, 0 if data[at : at + 2] != b"\0\0" else version, at)
    if is_flexible(kind, version):
        try:
            at = skip_tags(data, at)
        except IndexError as error:
            raise MalformedMessage("it has no header") from error
    return kind.decode(data, version, at)


def __getattr__(name: str) -> Any:
    """Return the class of a message; make it at the first call."""
    found = _made.get(name)
    if found is None:
        if name not in _definitions():
            raise AttributeError(f"module {__name__} has no attribute {name}")
        found = _made[name] = _make_message(name)
    return found


_made: dict[str, type[Message]] = {}
_raw: dict[str, Raw] = {}


def _definitions() -> Mapping[str, Raw]:
    if not _raw:
        _raw.update(decode(Path(__file__).with_name("messages.json").read_bytes(), type=dict[str, Raw]))
    return _raw


def _make_message(name: str) -> type[Message]:
    definition = decode(_definitions()[name], type=_Definition)
    namespace: dict[str, Any] = {
        "__doc__": f"{name} of Kafka's protocol.",
        "name": name,
        "API_KEY": definition.api_key,
        "max_version": parse_versions(definition.valid_versions)[-1],
        "_definition": definition,
        "_readers": {},
        "_writers": {},
    }
    made: type[Message] = _make_class(name, definition.fields, namespace, Message)
    return made


def _make_class(name: str, fields: Sequence[Field], namespace: dict[str, Any], base: type[Struct] | None) -> Any:
    """Return the class of a message or a part of one; it has the classes of its own parts as attributes."""
    parts = {each.element: _make_class(each.element, each.fields, {}, None) for each in fields if each.fields}
    attributes = []
    for each in fields:
        default = default_of(each)
        if each.fields and not each.is_list and each.default != "null":
            default = struct_field(default_factory=parts[each.element])
        attributes.append((each.attribute, Any, default))
    bases = (base,) if base else None
    return defstruct(name, attributes, bases=bases, namespace={**namespace, **parts}, module=__name__, gc=False)
