"""Message classes of Kafka's protocol, made from Kafka's own definitions when a name is imported.

    from topiarist.adapters.kafka_admin.protocol.messages import MetadataRequest

    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="orders")])

``messages.json`` has the definitions of these messages as they are in the jar of Kafka's clients, without comments;
``tools/kafka_messages.py`` writes it. A class has the fields of all versions, with Kafka's defaults, under their names
in snake case, and the classes of its parts by their names. Compiled functions encode and
decode each version.

Such a function is made from the definition of one version, as text: one statement for each field, since an answer about
ten thousand topics has half a million values. Fields of a fixed size that follow each other are one call of ``struct``.
All text comes from definitions that belong to topiarist; none comes from a broker.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

from msgspec import Raw, Struct, defstruct
from msgspec import field as struct_field
from msgspec.json import decode

Reader = Callable[[bytes, int], tuple[Any, int]]
"""Returns what begins at a position of some bytes, and the position after it."""

Writer = Callable[[Any, bytearray], None]
"""Appends a value to some bytes."""

FORMATS: Mapping[str, str] = {
    **{"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q"},
    "bool": "?",
}
"""The types of a fixed size, with their letters of ``struct``."""

_LENGTHS: Mapping[str, str] = {"string": "h", "bytes": "i", "records": "i"}
"""The letter of the length of other types in versions without short lengths."""

_NO_UUID = bytes(16)
_NEWEST = 32_767


class MalformedMessage(ValueError):
    """The bytes are not the message, or the batch of records, that they should be."""


class Field(Struct, rename="camel"):
    """The definition of a field: its type, and the versions in which it is there, may be null, and is tagged.

    The type ``[]T`` is a list of ``T``; ``fields`` are those of a type that is no simple one.
    """

    name: str
    type: str
    versions: str
    nullable_versions: str = "none"
    tagged_versions: str = "none"
    tag: int = -1
    default: str = ""
    fields: list[Field] = []

    @property
    def attribute(self) -> str:
        """Return the name of the attribute that holds the field."""
        return re.sub("(?<!^)(?=[A-Z])", "_", self.name).lower()

    @property
    def element(self) -> str:
        """Return the type of an element of a list, and the type of any other field."""
        return self.type.removeprefix("[]")

    @property
    def is_list(self) -> bool:
        """Return whether the field is a list."""
        return self.type.startswith("[]")


@cache
def parse_versions(text: str) -> range:
    """Return the versions that Kafka writes as ``3``, ``0-3``, ``2+`` or ``none``."""
    if text == "none":
        return range(0)
    first, dash, last = text.removesuffix("+").partition("-")
    return range(int(first), (_NEWEST if text.endswith("+") else int(last if dash else first)) + 1)


def default_of(field: Field) -> Any:
    """Return the default of a field; None for a structure that has its own defaults."""
    if field.default == "null" or (field.fields and not field.is_list):
        return None
    if field.is_list:
        return []
    if field.type in FORMATS:
        if field.type == "bool":
            return field.default == "true"
        return int(field.default or "0", 0)
    return {"string": field.default, "bytes": b"", "records": None, "uuid": None}[field.type]


class _Source:
    """The text of a function for one version of a message, and the values that it uses by name."""

    def __init__(self, head: str, version: int, *, is_flexible: bool) -> None:
        self.version = version
        self.is_flexible = is_flexible
        self._lines = [head]
        self._names: dict[str, Any] = {}

    def add(self, depth: int, *lines: str) -> None:
        self._lines += [f"{'  ' * depth}{line}" for line in lines]

    def new(self) -> str:
        """Return a name that is not used yet."""
        self._names[name := f"v{len(self._names)}"] = None
        return name

    def keep(self, value: Any) -> str:
        """Return the name of a value."""
        self._names[name := f"v{len(self._names)}"] = value
        return name

    def compile(self) -> Any:
        """Return the function."""
        namespace = {**_HELPERS, **self._names}
        exec("\n".join(self._lines), namespace)
        return namespace["function"]


# Readers


def compile_reader(kind: Any, fields: Sequence[Field], version: int, *, is_flexible: bool) -> Reader:
    """Return the reader of a version of a message of the class ``kind``."""
    source = _Source("def function(data, at):", version, is_flexible=is_flexible)
    found = _read_struct(source, 1, kind, fields)
    source.add(1, f"return {found}, at")
    reader: Reader = source.compile()
    return reader


def _read_struct(source: _Source, depth: int, kind: Any, fields: Sequence[Field]) -> str:
    """Add what reads a structure; return the name of the result."""
    values: dict[str, str] = {}
    run: list[tuple[str, str]] = []
    for field in fields:
        if source.version not in parse_versions(field.versions) or _is_tagged(field, source.version):
            continue
        name = values[field.name] = source.new()
        if field.type in FORMATS:
            run.append((name, FORMATS[field.type]))
            continue
        if not source.is_flexible and not field.fields and field.type in _LENGTHS:
            run.append((length := source.new(), _LENGTHS[field.type]))
            _read_run(source, depth, run)
            _read_span(source, depth, field, name, length)
            continue
        _read_run(source, depth, run)
        _read_field(source, depth, kind, field, name)
    _read_run(source, depth, run)
    if source.is_flexible:
        values |= _read_tags(source, depth, kind, fields)
    arguments = (values.get(each.name) or _default_text(source, kind, each) for each in fields)
    source.add(depth, f"{(result := source.new())} = {source.keep(kind)}({', '.join(arguments)})")
    return result


def _default_text(source: _Source, kind: Any, field: Field) -> str:
    """Return an expression for the default of a field."""
    if field.is_list and field.default != "null":
        return "[]"
    if field.fields and field.default != "null":
        return f"{source.keep(getattr(kind, field.element))}()"
    return source.keep(default_of(field))


def _read_run(source: _Source, depth: int, run: list[tuple[str, str]]) -> None:
    """Add what reads fields of a fixed size, and empty their list."""
    if run:
        layout = struct.Struct(">" + "".join(letter for _, letter in run))
        names = ", ".join(name for name, _ in run)
        source.add(depth, f"{names}, = {source.keep(layout.unpack_from)}(data, at)", f"at += {layout.size}")
        run.clear()


def _read_field(source: _Source, depth: int, kind: Any, field: Field, name: str) -> None:
    """Add what reads a field into the variable ``name``."""
    if field.is_list:
        _read_list(source, depth, kind, field, name)
    elif field.fields:
        is_nullable = source.version in parse_versions(field.nullable_versions)
        if is_nullable:
            source.add(depth, "at += 1", f"{name} = None", "if data[at - 1] < 128:")
        part = getattr(kind, field.element)
        found = _read_struct(source, depth + is_nullable, part, field.fields)
        source.add(depth + is_nullable, f"{name} = {found}")
    else:
        _read_simple(source, depth, field, name)


def _read_simple(source: _Source, depth: int, field: Field, name: str) -> None:
    """Add what reads an element of a list, or a field alone, of a type that has no fields."""
    kind = field.element
    if kind in FORMATS:
        _read_run(source, depth, [(name, FORMATS[kind])])
    elif kind == "uuid":
        source.add(depth, f"{name} = data[at:at + 16]", "at += 16")
        source.add(depth, f"{name} = None if {name} == NO_UUID else UUID(bytes={name})")
    elif source.is_flexible:
        length = _read_length(source, depth, "")
        _read_span(source, depth, field, name, length)
    else:
        length = _read_length(source, depth, _LENGTHS[kind])
        _read_span(source, depth, field, name, length)


def _read_length(source: _Source, depth: int, letter: str) -> str:
    """Add what reads a length of the letter of ``struct``, or a short one; return its name. It is -1 for null."""
    name = source.new()
    if letter:
        _read_run(source, depth, [(name, letter)])
    else:
        source.add(depth, f"{name} = data[at] - 1", "at += 1")
        source.add(depth, f"if {name} > 126:", f"  {name}, at = read_varint(data, at - 1)", f"  {name} -= 1")
    return name


def _read_span(source: _Source, depth: int, field: Field, name: str, length: str) -> None:
    """Add what reads text or bytes of a length."""
    found = f"data[at:at + {length}]" + (".decode()" if field.element == "string" else "")
    source.add(depth, f"if {length} < 0:", f"  {name} = None", "else:")
    source.add(depth + 1, f"{name} = {found}", f"at += {length}")


def _read_list(source: _Source, depth: int, kind: Any, field: Field, name: str) -> None:
    """Add what reads a list. Each element takes a byte at least, so that a false length ends at the end of the data."""
    length = _read_length(source, depth, "" if source.is_flexible else "i")
    is_nullable = source.version in parse_versions(field.nullable_versions)
    refusal = f"raise {source.keep(MalformedMessage)}('{field.name} is null, wanted a list')"
    source.add(depth, f"if {length} < 0:", f"  {name} = None" if is_nullable else f"  {refusal}", "else:")
    letter = FORMATS.get(field.element)
    if letter:
        size = struct.calcsize(f">{letter}")
        source.add(depth + 1, f"{name} = list(unpack_from('>%d{letter}' % {length}, data, at))")
        source.add(depth + 1, f"at += {size} * {length}")
        return
    source.add(depth + 1, f"{name} = []", f"for _ in range({length}):")
    if field.fields:
        part = getattr(kind, field.element)
        element = _read_struct(source, depth + 2, part, field.fields)
    else:
        _read_simple(source, depth + 2, field, element := source.new())
    source.add(depth + 2, f"{name}.append({element})")


def _read_tags(source: _Source, depth: int, kind: Any, fields: Sequence[Field]) -> dict[str, str]:
    """Add what reads the tagged fields that are known, and skips others; return the names of the values by field."""
    tagged = [each for each in fields if _is_tagged(each, source.version)]
    if not tagged:
        source.add(depth, "at = at + 1 if not data[at] else skip_tags(data, at)")
        return {}
    tags = source.new()
    source.add(depth, f"{tags}, at = ({{}}, at + 1) if not data[at] else read_tags(data, at)")
    values = {}
    for field in tagged:
        name = values[field.name] = source.new()
        inner = _Source("def function(data, at):", source.version, is_flexible=True)
        _read_field(inner, 1, kind, field, "found")
        inner.add(1, "return found")
        reader = source.keep(inner.compile())
        default = _default_text(source, kind, field)
        source.add(depth, f"{name} = {reader}({tags}[{field.tag}], 0) if {field.tag} in {tags} else {default}")
    return values


def _is_tagged(field: Field, version: int) -> bool:
    return version in parse_versions(field.tagged_versions)


def read_varint(data: bytes, at: int, most: int = 5) -> tuple[int, int]:
    """Return a number of seven bits in each byte, the lowest first, at ``most`` so many, and the position after it."""
    value = data[at]
    if value < 128:  # nearly all lengths
        return value, at + 1
    value &= 127
    for shift in range(7, 7 * most, 7):
        at += 1
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + 1
    raise MalformedMessage(f"a number has more than {most} bytes")


def read_tags(data: bytes, at: int) -> tuple[dict[int, bytes], int]:
    """Return the bytes of tagged fields by tag, and the position after them."""
    count, at = read_varint(data, at)
    found = {}
    for _ in range(count):
        tag, at = read_varint(data, at)
        size, at = read_varint(data, at)
        found[tag] = data[at : at + size]
        at += size
        if at > len(data):
            raise MalformedMessage("a tagged field ends after the message")
    return found, at


def skip_tags(data: bytes, at: int) -> int:
    """Return the position after tagged fields."""
    return read_tags(data, at)[1] if data[at] else at + 1


# Writers


def compile_writer(fields: Sequence[Field], version: int, *, is_flexible: bool) -> Writer:
    """Return the writer of a version of a message."""
    source = _Source("def function(value, out):", version, is_flexible=is_flexible)
    _write_struct(source, 1, fields, "value")
    source.add(1, "return")  # some messages have no fields
    writer: Writer = source.compile()
    return writer


def _write_struct(source: _Source, depth: int, fields: Sequence[Field], value: str) -> None:
    """Add what writes a structure that the variable ``value`` holds."""
    run: list[tuple[str, str]] = []
    for field in fields:
        if source.version not in parse_versions(field.versions) or _is_tagged(field, source.version):
            continue
        name = f"{value}.{field.attribute}"
        if field.type in FORMATS:
            run.append((name, FORMATS[field.type]))
            continue
        _write_run(source, depth, run)
        _write_field(source, depth, field, name)
    _write_run(source, depth, run)
    if source.is_flexible:
        _write_tags(source, depth, fields, value)


def _write_run(source: _Source, depth: int, run: list[tuple[str, str]]) -> None:
    if run:
        pack = source.keep(struct.Struct(">" + "".join(letter for _, letter in run)).pack)
        source.add(depth, f"out += {pack}({', '.join(name for name, _ in run)})")
        run.clear()


def _write_field(source: _Source, depth: int, field: Field, name: str) -> None:
    """Add what writes the value of the expression ``name``."""
    if field.is_list:
        element = source.new()
        source.add(depth, f"write_length(out, {name}, {'None' if source.is_flexible else repr('>i')})")
        source.add(depth, f"for {element} in {name} or ():")
        if field.fields:
            _write_struct(source, depth + 1, field.fields, element)
        else:
            _write_simple(source, depth + 1, field.element, element)
    elif field.fields:
        if source.version in parse_versions(field.nullable_versions):
            source.add(depth, f"out.append(255 if {name} is None else 1)", f"if {name} is not None:")
            depth += 1
        _write_struct(source, depth, field.fields, name)
    else:
        _write_simple(source, depth, field.element, name)


def _write_simple(source: _Source, depth: int, kind: str, name: str) -> None:
    if kind in FORMATS:
        _write_run(source, depth, [(name, FORMATS[kind])])
    elif kind == "uuid":
        source.add(depth, f"out += NO_UUID if {name} is None else {name}.bytes")
    else:
        size = "None" if source.is_flexible else repr(f">{_LENGTHS[kind]}")
        encoded = f"{name} if {name} is None else {name}.encode()" if kind == "string" else name
        source.add(depth, f"write_bytes(out, {encoded}, {size})")


def _write_tags(source: _Source, depth: int, fields: Sequence[Field], value: str) -> None:
    """Add what writes the tagged fields that are not their defaults."""
    tagged = sorted((each for each in fields if _is_tagged(each, source.version)), key=lambda each: each.tag)
    if not tagged:
        source.add(depth, "out.append(0)")
        return
    parts = source.new()
    source.add(depth, f"{parts} = []")
    for field in tagged:
        inner = _Source("def function(value, out):", source.version, is_flexible=True)
        _write_field(inner, 1, field, "value")
        name = f"{value}.{field.attribute}"
        default = "type(x := " + name + ")()" if field.fields and not field.is_list else source.keep(default_of(field))
        source.add(depth, f"if {name} is not None and {name} != {default}:")
        source.add(depth + 1, f"{parts}.append(({field.tag}, {source.keep(inner.compile())}, {name}))")
    source.add(depth, f"write_tags(out, {parts})")


def write_varint(out: bytearray, value: int) -> None:
    """Append a number of seven bits in each byte."""
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def write_length(out: bytearray, value: Sequence[Any] | None, layout: str | None) -> None:
    """Append the length of a value (None: null) in a layout of ``struct``, or as a short length."""
    if layout is None:
        write_varint(out, 0 if value is None else len(value) + 1)
    else:
        out += struct.pack(layout, -1 if value is None else len(value))


def write_bytes(out: bytearray, value: bytes | None, layout: str | None) -> None:
    """Append bytes with their length."""
    write_length(out, value, layout)
    out += value or b""


def write_tags(out: bytearray, parts: Sequence[tuple[int, Writer, Any]]) -> None:
    """Append tagged fields, each with its tag, its writer and its value."""
    write_varint(out, len(parts))
    for tag, writer, value in parts:
        content = bytearray()
        writer(value, content)
        write_varint(out, tag)
        write_varint(out, len(content))
        out += content


_HELPERS: Mapping[str, Any] = {
    "NO_UUID": _NO_UUID,
    "UUID": UUID,
    "read_tags": read_tags,
    "read_varint": read_varint,
    "skip_tags": skip_tags,
    "unpack_from": struct.unpack_from,
    "write_bytes": write_bytes,
    "write_length": write_length,
    "write_tags": write_tags,
}


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
