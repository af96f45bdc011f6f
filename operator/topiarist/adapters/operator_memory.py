"""Encode and decode the operator's memory in an ownership record: one form in znodes, records, plans and snapshots."""

from __future__ import annotations

from collections.abc import Mapping

from topiarist.model.state import NO_MEMORY, OperatorMemory

_FIELDS = frozenset({"consent", "stepMs", "deletionsMs"})


def encode_memory(memory: OperatorMemory) -> dict[str, object]:
    """Return the fields that are set."""
    fields: dict[str, object] = {"consent": memory.consent} if memory.consent else {}
    if memory.step_ms is not None:
        fields["stepMs"] = memory.step_ms
    return {**fields, "deletionsMs": [*memory.deletions_ms]} if memory.deletions_ms else fields


def decode_memory(fields: object) -> OperatorMemory | None:
    """Return the memory in ``fields``; None for anything that ``encode_memory`` does not write."""
    if not isinstance(fields, Mapping) or not fields.keys() <= _FIELDS:
        return None
    consent, step_ms, deletions = fields.get("consent", ""), fields.get("stepMs"), fields.get("deletionsMs", [])
    if type(consent) is not str or not (step_ms is None or _is_time(step_ms)):
        return None
    if not isinstance(deletions, list) or not all(map(_is_time, deletions)):
        return None
    memory = OperatorMemory(consent, step_ms, tuple(deletions))
    return memory if memory != NO_MEMORY and encode_memory(memory) == fields else None


def _is_time(value: object) -> bool:
    return type(value) is int and value >= 0
