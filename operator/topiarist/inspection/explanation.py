"""Explanations of a word that a user meets: a reason, a topic config, or a field of a manifest.

``cli.commands.describe`` shows them. The texts are those of the documentation: ``reasons.json``, which is generated
from ``docs/reasons.md``, the table of configs, and the schemas of manifests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from topiarist.errors import Reason
from topiarist.kafka.config_table import TOPIC_CONFIGS, ConfigDef
from topiarist.kafka.config_values import units_of
from topiarist.kafka.types import MIN_KAFKA_VERSION, format_version
from topiarist.schema.load import MANIFEST_KINDS, Field, FieldTable, load_schema

EXPLAINED_KINDS = (*MANIFEST_KINDS, "Project")
"""The kinds of documents with fields that ``explain`` knows: manifests, and the project file."""


class Explanation(NamedTuple):
    """The explanation of a word: what it is, its meaning, and labelled facts in the order in which they are shown."""

    title: str
    meaning: str
    facts: tuple[tuple[str, str], ...] = ()


def explain(word: str) -> list[Explanation]:
    """Return the explanations of a word; none if it is unknown.

    A reason and a config match without regard to case. A field matches by its path (``Topic.spec.moves``), or by the
    end of its path (``moves.allow``); the explanation of a map lists its fields.
    """
    lower = word.lower().replace("[]", "")
    found = [_explain_reason(reason) for reason in Reason if reason.value.lower() == lower]
    found += [_explain_config(definition) for name, definition in TOPIC_CONFIGS.items() if name == lower]
    return [*found, *_explain_fields(lower)]


def list_words() -> list[str]:
    """Return every word that ``explain`` knows, a field by its path: for suggestions and completion."""
    fields = (f"{kind}.{field.path}" for kind in EXPLAINED_KINDS for field in _list_fields(kind))
    return [*(reason.value for reason in Reason), *TOPIC_CONFIGS, *fields]


def _explain_reason(reason: Reason) -> Explanation:
    cause, remedy = _reason_texts().get(reason.value, ("", ""))
    facts = (
        ("remedy", remedy),
        ("exit code", str(int(reason.exit_code))),
        ("retry", "may succeed without any change by a user" if reason.retryable else "does not help"),
    )
    return Explanation(f"reason {reason.value}", cause, tuple(fact for fact in facts if fact[1]))


@cache
def _reason_texts() -> dict[str, list[str]]:
    """Return cause and remedy of each reason."""
    texts: dict[str, list[str]] = json.loads((files("topiarist") / "reasons.json").read_bytes())
    return texts


def _explain_config(definition: ConfigDef) -> Explanation:
    facts = [("type", definition.type), ("default", definition.default or "empty")]
    if definition.valid_values:
        facts.append(("values", ", ".join(definition.valid_values)))
    if units := units_of(definition.name):
        facts.append(("units", ", ".join(units)))
    if definition.server_defaults:
        facts.append(("broker settings", ", ".join(definition.server_defaults)))
    if definition.since > MIN_KAFKA_VERSION:
        facts.append(("since", f"Kafka {format_version(definition.since)}"))
    if definition.removed:
        facts.append(("ignored from", f"Kafka {format_version(definition.removed)}"))
    if definition.deprecated:
        since, advice = definition.deprecated
        facts.append(("deprecated since", f"Kafka {format_version(since)}: {advice}"))
    return Explanation(f"topic config {definition.name}", definition.description, tuple(facts))


def _explain_fields(word: str) -> Iterator[Explanation]:
    for kind in EXPLAINED_KINDS:
        fields = _list_fields(kind)
        for field in fields:
            path = f"{kind}.{field.path}"
            plain = path.replace("[]", "").lower()
            if plain == word or plain.endswith(f".{word}"):
                facts = (("takes", field.kind.replace("`", "")), *_list_inner(fields, field))
                yield Explanation(f"field {path}", field.meaning.replace("`", ""), facts)


def _list_inner(fields: tuple[Field, ...], outer: Field) -> Iterator[tuple[str, str]]:
    """Yield name and values of the fields directly inside a field."""
    for field in fields:
        name = field.path.removeprefix(outer.path).removeprefix("[]")
        if field.path.startswith(outer.path) and name[:1] == "." and "." not in name[1:]:
            yield name, field.kind.replace("`", "")


@cache
def _list_fields(kind: str) -> tuple[Field, ...]:
    schema = load_schema(kind)
    return tuple(FieldTable(schema, linked=False).list_fields(schema))
