"""What of ``charts/topiarist`` is made: ``values.yaml`` from its schema, and templates from what is in ``manifests/``.

The schema says each value's meaning, type and default once; ``tools/reference.py`` makes the table of the chart's
README from it. Definitions and admission policies become templates by a condition around them and marks in each.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parent.parent / "charts" / "topiarist"

SCHEMA = CHART / "values.schema.json"

WIDTH = 120

_NAME = re.compile(r"^metadata:\n  name: (.*)\n", re.MULTILINE)
_KEPT = '(ternary (dict "helm.sh/resource-policy" "keep") dict .Values.crds.keep)'
_MARKS = '  {{{{- include "topiarist.marks" (list . dict {}) | nindent 2 }}}}\n'


def files(manifests: Mapping[str, str]) -> dict[Path, str]:
    """Files of the chart with their text; ``manifests`` are the made ones of ``manifests/``, by their names there."""
    made = {CHART / "values.yaml": values(json.loads(SCHEMA.read_text(encoding="utf-8")))}
    for name, text in manifests.items():
        folder, _, file = name.partition("/")
        if folder == "crds":
            made[CHART / "templates" / name] = template(text, ".Values.crds.enabled", _KEPT)
        elif file == "config.yaml":  # the others are samples
            made[CHART / "templates" / name] = template(text, ".Values.admissionPolicies.enabled", "dict")
    return made


def template(text: str, condition: str, annotations: str) -> str:
    """A manifest as a template. Raises ``ValueError`` for text that would itself be a template."""
    if "{{" in text:
        raise ValueError("a manifest of which a template is to be made holds {{")
    head, _, body = text.partition("\n")
    marked = _NAME.sub(lambda found: found[0] + _MARKS.format(annotations), body)
    return f"{head}\n{{{{- if {condition} }}}}\n{marked}{{{{- end }}}}\n"


def values(schema: Mapping[str, Any]) -> str:
    """``values.yaml``: every value with its default, below what it means."""
    parts = ["# Made by tools/generate.py from values.schema.json; to change it, change that and run: make generate\n"]
    parts += ["".join(_value(name, inner, "")) for name, inner in schema["properties"].items()]
    return "\n".join(parts)


def _value(name: str, schema: Mapping[str, Any], indent: str) -> Iterator[str]:
    yield textwrap.fill(schema["description"], WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
    yield "\n"
    for example in schema.get("examples", ()):
        yield textwrap.indent(_dumped({name: example}), f"{indent}# ")
    if "properties" in schema:
        yield f"{indent}{name}:\n"
        for inner, about in schema["properties"].items():
            yield from _value(inner, about, f"{indent}  ")
    else:
        yield textwrap.indent(_dumped({name: schema["default"]}), indent)


def _dumped(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=WIDTH)
