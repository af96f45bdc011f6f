"""Encode and decode the operator's memory in an ownership record: one form in znodes, records, plans and snapshots."""

from __future__ import annotations

from collections.abc import Mapping

from topiarist.model.state import NO_MEMORY, OperatorMemory


def encode_memory(memory: OperatorMemory) -> dict[str, object]:
    """Return the fields that are set."""
    fields: dict[str, object] = {"consent": memory.consent} if memory.consent else {}
    return fields if memory.step_ms is None else {**fields, "stepMs": memory.step_ms}


def decode_memory(fields: object) -> OperatorMemory | None:
    """Return the memory in ``fields``; None for anything that ``encode_memory`` does not write."""
    if not isinstance(fields, Mapping) or not fields.keys() <= {"consent", "stepMs"}:
        return None
    consent, step_ms = fields.get("consent", ""), fields.get("stepMs")
    if type(consent) is not str or not (step_ms is None or (type(step_ms) is int and step_ms >= 0)):
        return None
    memory = OperatorMemory(consent, step_ms)
    return memory if memory != NO_MEMORY and encode_memory(memory) == fields else None
