"""The znodes below ``/topiarist``, and the config notification that goes with our writes."""

from __future__ import annotations

from functools import lru_cache

from topiarist.adapters.znodes.paths import GATE
from topiarist.adapters.znodes.strict import ZnodeError, dump_object, load_object, show, want_text, want_version
from topiarist.core.state import Freeze, TopicRecord

_VERSION = 1
_ABSENT = "Absent"


@lru_cache(maxsize=4096)
def encode_record(record: TopicRecord) -> bytes:
    """The record's bytes: equal records have equal bytes, whoever writes them and when."""
    fields: dict[str, object] = {"version": _VERSION, "owner": record.owner, "config": list(record.config)}
    if record.absent:
        fields["ensure"] = _ABSENT
    return dump_object(fields)


def decode_record(raw: bytes) -> TopicRecord:
    """A record as ``encode_record`` wrote it: keys sorted, nothing else in it."""
    fields = load_object(raw)
    want_version(fields, _VERSION)
    _only(fields, {"version", "owner", "config", "ensure"})
    keys = fields.get("config")
    if type(keys) is not list or not all(type(key) is str for key in keys) or keys != sorted(set(keys)):
        raise ZnodeError(f'"config" must be a sorted list of config names, not {show(keys)}')
    if fields.get("ensure", _ABSENT) != _ABSENT:
        raise ZnodeError(f'"ensure" can only be "{_ABSENT}", not {show(fields["ensure"])}')
    return TopicRecord(want_text(fields, "owner"), tuple(keys), "ensure" in fields)


def encode_gate(freeze: Freeze | None) -> bytes:
    """The gate: open for None, else frozen."""
    said = {} if freeze is None else {name: text for name, text in freeze._asdict().items() if text}
    return dump_object({"version": _VERSION, "state": "open" if freeze is None else "frozen", **said})


def decode_gate(raw: bytes) -> Freeze | None:
    """None if the gate is open, else who froze it, why and since when (each may be empty)."""
    fields = load_object(raw)
    want_version(fields, _VERSION)
    _only(fields, {"version", "state", *Freeze._fields})
    state = fields.get("state")
    said = {name: text for name in Freeze._fields if type(text := fields.get(name, "")) is str}
    if state not in ("open", "frozen") or len(said) < len(Freeze._fields) or (state == "open" and any(said.values())):
        raise ZnodeError(f'"state" must be "open", or "frozen" with a "reason", not {show(fields)}')
    return None if state == "open" else Freeze(**said)


def read_gate(raw: bytes) -> Freeze | None:
    """What the gate says, safely: one that cannot be read is closed, as it may have meant that."""
    try:
        return decode_gate(raw)
    except ZnodeError as error:
        return Freeze(f"{GATE} cannot be read, which counts as that; topiarist thaw mends it: {error}")


def encode_change_notification(entity_path: str) -> bytes:
    """Tells the brokers to read a config again; ``entity_path`` is ``topics/T`` or ``brokers/N`` (contract 4.6)."""
    kind, slash, name = entity_path.partition("/")
    if kind not in ("topics", "brokers") or not slash or not name or "/" in name:
        raise ZnodeError(f"a config notification names topics/T or brokers/N, not {show(entity_path)}")
    return dump_object({"version": 2, "entity_path": entity_path})


def _only(fields: dict[str, object], known: set[str]) -> None:
    unknown = sorted(fields.keys() - known)
    if unknown:
        raise ZnodeError(f"unknown fields: {', '.join(map(show, unknown))}")
