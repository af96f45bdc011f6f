"""The codec of topiarist's own values (records, batches of moves, freezes), and strict JSON for files.

Each value has one JSON shape, in the znodes and in the topic of records, in snapshots, plans, reports and descriptions.
A stored value (a znode, a record of the topic) begins with its version. It is accepted only if its bytes are exactly
those that topiarist writes for the decoded value: that rejects duplicate keys, other spacing and order, fractions and
half characters. The fields of a document are checked by the schema of the document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from sys import intern
from typing import Annotated, Any, Literal, NoReturn, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, convert
from msgspec.json import Decoder, Encoder

from topiarist.kafka.config_table import RATE_CONFIGS, THROTTLE_CONFIGS
from topiarist.kafka.types import topic_name_problem
from topiarist.model.moves import BatchRecord, OwnThrottles, OwnValue, ReplicaMove
from topiarist.model.state import NO_MEMORY, AppliedSpec, Freeze, OperatorMemory, OwnershipRecord
from topiarist.text import printable, quote

# Strict JSON for files: valid UTF-8, no duplicate keys, no fractions, no lone surrogates.
#
# ``saved_plans`` and ``snapshots`` decode their files with it. ``zookeeper.codec`` has a decoder of its own, because
# znodes follow the rules of Kafka.


class JsonError(ValueError):
    """JSON that topiarist never writes; the message says what was found."""


def decode_json(data: bytes, parse_int: Callable[[str], int] = int) -> Any:
    """Decode a JSON document; raise ``JsonError`` if it is not strict JSON.

    ``parse_int`` may raise ``JsonError``. The default is the fast one: C code without a call for each number.
    """
    try:
        value = _make_decoder(parse_int).decode(data.decode())
        if b"\\u" in data:  # only an escape can produce a lone surrogate
            json.dumps(value, ensure_ascii=False).encode()
    except JsonError:
        raise
    except UnicodeEncodeError:
        raise JsonError("found half of a character (a lone surrogate)") from None
    except UnicodeDecodeError as error:
        raise JsonError(f"found the byte 0x{data[error.start]:02x} at byte {error.start + 1:,}, not UTF-8") from None
    except json.JSONDecodeError as error:
        line = f"line {error.lineno:,}, " if error.lineno > 1 else ""
        raise JsonError(f"found invalid JSON at {line}column {error.colno:,} ({error.msg})") from None
    except RecursionError:
        raise JsonError("found JSON that is nested too deeply") from None
    except ValueError:  # CPython's limit on the digits of an integer
        raise JsonError("found a number with too many digits") from None
    return value


def _reject_duplicate_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise JsonError("found a duplicate key in an object")
    return fields


def _reject_number(text: str) -> NoReturn:
    raise JsonError(f"found the number {quote(text)}, wanted only integers")


@cache
def _make_decoder(parse_int: Callable[[str], int]) -> json.JSONDecoder:
    return json.JSONDecoder(
        parse_int=parse_int,
        parse_float=_reject_number,
        parse_constant=_reject_number,
        object_pairs_hook=_reject_duplicate_keys,
    )


VERSION = 1
"""The version of every stored value."""

Int32 = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Number = Annotated[int, Meta(ge=0)]
ReplicaList = Annotated[list[Int32], Meta(min_length=1)]
NonEmptyText = Annotated[str, Meta(min_length=1)]

T = TypeVar("T")

_encode = Encoder().encode
_encode_sorted = Encoder(order="deterministic").encode  # sorts maps, and keeps the order of fields
_START = b'{"version":%d,' % VERSION
_THROTTLES = {"topics": THROTTLE_CONFIGS, "brokers": frozenset(RATE_CONFIGS)}
"""The configs that throttle moves, by the kind of their entity."""


class NewerVersionError(JsonError):
    """A value of a later release."""


class Wire(Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A value as JSON: every field that differs from its default, and no other."""


class Applied(Wire):
    """The applied spec in an ownership record."""

    partitions: Annotated[int, Meta(ge=1)] | None
    config: dict[str, str]
    remove_unmanaged: bool


class Memory(Wire):
    """The operator's memory in an ownership record."""

    consent: NonEmptyText | UnsetType = UNSET
    step_ms: Number | UnsetType = UNSET
    deletions_ms: Annotated[list[Number], Meta(min_length=1)] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.consent is UNSET and self.step_ms is UNSET and self.deletions_ms is UNSET:
            raise ValueError("found no field")


class Record(Wire):
    """An ownership record in a document, or in a record of the topic."""

    owner: str
    config: list[str]
    absent: bool
    applied: Applied | None = None
    memory: Memory | None = None


class _RecordZnode(Wire):
    """An ownership record in its znode, with the field of a manifest in place of ``absent``."""

    owner: NonEmptyText
    config: list[str] | None = None
    applied: Applied | None = None
    memory: Memory | None = None
    ensure: Literal["Absent"] | UnsetType = UNSET


class _Throttle(Wire):
    before: str | None
    ours: str


class _Move(Wire):
    topic: NonEmptyText
    partition: Int32
    before: ReplicaList
    after: ReplicaList


class _Batch(Wire):
    owner: str
    batch: Int32
    batches: Int32
    moves: list[_Move]
    throttles: dict[str, dict[str, _Throttle]]
    replaced: dict[str, dict[str, _Throttle]] = {}


class _Gate(Wire):
    state: Literal["open", "frozen"]
    reason: str = ""
    by: str = ""
    since: str = ""


_RECORD_ZNODE, _BATCH, _GATE = Decoder(_RecordZnode), Decoder(_Batch), Decoder(_Gate)


def encode_value(value: Struct | Mapping[str, object]) -> bytes:
    """Return the stored bytes of a value, or of its fields in order, with each map sorted.

    Raises ``JsonError`` for text with half of a character.
    """
    try:
        return _START + _encode(value)[1:]
    except UnicodeEncodeError:
        raise JsonError("it contains a lone surrogate (half of a character)") from None


def decode_value(raw: bytes, decoder: Decoder[T]) -> T:
    """Return the value in stored bytes; raise ``JsonError`` for bytes that ``encode_value`` would not write."""
    error: Exception | None = None
    if raw.startswith(_START):
        fields = b"{" + raw[len(_START) :]
        try:
            value = decoder.decode(fields)
            if _encode_sorted(value) == fields:
                return value
        except (ValueError, RecursionError) as found:
            error = found
    raise _explain(raw, error) from None


def encode_record(record: OwnershipRecord) -> bytes:
    """Return the bytes of the znode of an ownership record."""
    fields = record_fields(record)
    if fields.pop("absent"):
        fields["ensure"] = "Absent"
    return encode_value(fields)


def decode_record(raw: bytes) -> OwnershipRecord:
    """Return the ownership record of a znode. Raises ``JsonError``."""
    found = decode_value(raw, _RECORD_ZNODE)
    return stored_record(found, is_deleted=found.ensure is not UNSET)


def record_fields(record: OwnershipRecord) -> dict[str, Any]:
    """Return the fields of an ownership record in a document, or in a record of the topic."""
    fields: dict[str, Any] = {"owner": record.owner, "config": [*record.config_keys], "absent": record.deleted}
    if applied := record.applied:
        fields["applied"] = {
            "partitions": applied.partitions,
            "config": dict(applied.config),
            "removeUnmanaged": applied.remove_unmanaged,
        }
    if (memory := record.memory) != NO_MEMORY:
        known = {"consent": memory.consent, "stepMs": memory.step_ms, "deletionsMs": [*memory.deletions_ms]}
        fields["memory"] = {name: value for name, value in known.items() if value not in ("", None, [])}
    return fields


def record_of(fields: object) -> OwnershipRecord:
    """Return the ownership record of fields that match their schema."""
    found = convert(fields, Record)
    spec, memory = None, NO_MEMORY if found.memory is None else _memory_from_wire(found.memory)
    if applied := found.applied:
        spec = AppliedSpec(applied.partitions, tuple(sorted(applied.config.items())), applied.remove_unmanaged)
    return OwnershipRecord(found.owner, tuple(map(intern, found.config)), found.absent, spec, memory)


def stored_record(found: Record | _RecordZnode, *, is_deleted: bool) -> OwnershipRecord:
    """Return the ownership record in a stored value, which ``decode_value`` has returned.

    Raises ``JsonError`` if the record lists a config twice, in another order, or has a value of one that it does not
    list. The applied values are sorted, because they are sorted in the bytes of a stored value.
    """
    applied, spec = found.applied, None
    keys = tuple(applied.config) if applied else ()
    if found.config != [*keys]:
        listed, values = found.config, keys
        if listed is None or listed != sorted(set(listed)):
            text = "missing or null" if listed is None else printable(json.dumps(listed), 60)
            raise JsonError(f'"config" must be a sorted list of config names, not {text}')
        keys = tuple(map(intern, listed))
        if not set(keys).issuperset(values):
            raise JsonError('"applied.config": found a config that "config" does not name')
    if applied:
        spec = AppliedSpec(applied.partitions, tuple(applied.config.items()), applied.remove_unmanaged)
    memory = NO_MEMORY if found.memory is None else _memory_from_wire(found.memory)
    return OwnershipRecord(intern(found.owner), keys, is_deleted, spec, memory)


def _memory_from_wire(found: Memory) -> OperatorMemory:
    step = None if found.step_ms is UNSET else found.step_ms
    return OperatorMemory(found.consent or "", step, tuple(found.deletions_ms or ()))


def encode_batch(batch: BatchRecord) -> bytes:
    """Return the stored bytes of a batch of moves."""
    return encode_value(batch_fields(batch))


def decode_batch(raw: bytes) -> BatchRecord:
    """Return the batch of moves in stored bytes. Raises ``JsonError``."""
    batch = _batch_from_wire(decode_value(raw, _BATCH))
    for move in batch.moves:
        if problem := topic_name_problem(move.topic):
            raise JsonError(f'"moves": {problem}')
    for entity, configs in (*batch.throttles.items(), *batch.replaced.items()):
        kind, _, name = entity.partition("/")
        is_name = not topic_name_problem(name) if kind == "topics" else name.isascii() and name.isdigit()
        # The end of the moves writes these configs: another config could change more than a throttle.
        if not is_name or not _THROTTLES.get(kind, frozenset()).issuperset(configs):
            raise JsonError(f"found throttles of {quote(entity)} that topiarist does not set")
    return batch


def batch_fields(batch: BatchRecord) -> dict[str, Any]:
    """Return the fields of a batch in a document, or in a stored value."""
    moves = [
        {"topic": move.topic, "partition": move.partition, "before": [*move.before], "after": [*move.after]}
        for move in batch.moves
    ]
    numbers = {"owner": batch.owner, "batch": batch.batch, "batches": batch.batches}
    throttles, replaced = map(_throttle_fields, (batch.throttles, batch.replaced))
    return {**numbers, "moves": moves, "throttles": throttles, **({"replaced": replaced} if replaced else {})}


def batch_of(fields: object) -> BatchRecord:
    """Return the batch of fields that match their schema."""
    return _batch_from_wire(convert(fields, _Batch))


def _batch_from_wire(found: _Batch) -> BatchRecord:
    moves = (ReplicaMove(move.topic, move.partition, tuple(move.before), tuple(move.after)) for move in found.moves)
    throttles, replaced = map(_throttles_from_wire, (found.throttles, found.replaced))
    return BatchRecord(found.owner, found.batch, found.batches, tuple(moves), throttles, replaced)


def _throttle_fields(throttles: OwnThrottles) -> dict[str, Any]:
    return {
        entity: {key: own._asdict() for key, own in sorted(values.items())}
        for entity, values in sorted(throttles.items())
    }


def _throttles_from_wire(found: dict[str, dict[str, _Throttle]]) -> OwnThrottles:
    return {entity: {key: OwnValue(own.before, own.ours) for key, own in own.items()} for entity, own in found.items()}


def encode_freeze(freeze: Freeze | None) -> bytes:
    """Return the stored bytes of a freeze; None means not frozen."""
    return encode_value(_Gate("open") if freeze is None else _Gate("frozen", *freeze))


def decode_freeze(raw: bytes) -> Freeze | None:
    """Return the freeze, None if the cluster is not frozen. Raises ``JsonError``."""
    gate = decode_value(raw, _GATE)
    freeze = Freeze(gate.reason, gate.by, gate.since)
    if gate.state == "frozen":
        return freeze
    if any(freeze):
        raise JsonError('"state": found "open" beside the reason, user or time of a freeze')
    return None


class _Version(Struct):
    version: int


_VERSION_DECODER = Decoder(_Version)
_TYPES = {
    "str": "text",
    "int": "a number",
    "float": "a fraction",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
_WORDS = (
    (r"Object missing required field `(.*)`", r'found no field "\1"'),
    (r"Object contains unknown field `(.*)`", r'found the unknown field "\1"'),
    (r"Invalid enum value '(.*)'", r'found the unknown word "\1"'),
    (r"Expected (.*), got (.*)", r"found \2, wanted \1"),
    (r"Expected (.*)", r"wanted \1"),
    (r"JSON is malformed: (.*) \(byte \d+\)", r"found invalid JSON (\1)"),
    (r"(Integer value|Number) out of range", "found a number that is too large"),
)
"""The messages of msgspec, and what topiarist says."""


def _explain(raw: bytes, error: Exception | None) -> JsonError:
    """Return the error of bytes that are no value: of their version, else ``error``, else of their form."""
    if not raw or raw.isspace():
        return JsonError("it is empty")
    try:
        json.loads(raw.decode())
    except UnicodeDecodeError as invalid:
        return JsonError(f"it is not UTF-8 (byte {invalid.start})")
    except json.JSONDecodeError as invalid:
        return JsonError(f"it is not JSON ({invalid.msg} at character {invalid.pos + 1})")
    except (ValueError, RecursionError):
        pass  # too many digits or too deep, which msgspec finds at its field
    try:
        version = _VERSION_DECODER.decode(raw).version
    except (ValueError, RecursionError) as invalid:
        return JsonError(_describe(error or invalid))
    if version > VERSION:
        return NewerVersionError(
            f"version {version} is of a later release of topiarist; this one knows version {VERSION}"
        )
    if version != VERSION:
        return JsonError(f'"version": found {version}, wanted {VERSION}')
    if error is None:
        return JsonError("found other JSON than topiarist writes: another order or spacing, or a key twice")
    return JsonError(_describe(error))


def _describe(error: Exception) -> str:
    """Return msgspec's message in topiarist's words, with the field that it is about."""
    if isinstance(error, RecursionError):
        return "found JSON that is nested too deeply"
    text, _, path = str(error).partition(" - at `$")
    for pattern, words in _WORDS:
        if found := re.fullmatch(pattern, text):
            text = found.expand(words)
            break
    text = re.sub(
        "`([^`]+)`", lambda types: " or ".join(_TYPES.get(each, each) for each in types[1].split(" | ")), text
    )
    field = path.strip("`.")
    return printable(f'"{field}": {text}' if field else text, 200)
