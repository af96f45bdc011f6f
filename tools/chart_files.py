"""Generator of the chart's files: ``values.yaml`` from its schema, templates from ``manifests/``.

The schema states the meaning, type and default of each value once; ``tools/reference.py`` makes the table in the
chart's README from it. Definitions and admission policies become templates: a condition is put around each, and labels
and annotations into it. ``generate.py`` calls ``build_files``.
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

_METADATA_NAME = re.compile(r"^metadata:\n  name: (.*)\n", re.MULTILINE)
_KEEP_ANNOTATION = '(ternary (dict "helm.sh/resource-policy" "keep") dict .Values.crds.keep)'
_LABELS_TEMPLATE = '  {{{{- include "topiarist.marks" (list . dict {}) | nindent 2 }}}}\n'


def build_files(manifests: Mapping[str, str]) -> dict[Path, str]:
    """Return the chart's generated files with their text; ``manifests`` are the generated manifests by name."""
    made = {CHART / "values.yaml": values_yaml(json.loads(SCHEMA.read_text(encoding="utf-8")))}
    for name, text in manifests.items():
        folder, _, file = name.partition("/")
        if folder == "crds":
            made[CHART / "templates" / name] = to_template(text, ".Values.crds.enabled", _KEEP_ANNOTATION)
        elif file == "config.yaml":  # the other policies are samples
            made[CHART / "templates" / name] = to_template(text, ".Values.admissionPolicies.enabled", "dict")
    return made


def to_template(text: str, condition: str, annotations: str) -> str:
    """Return a manifest as a template; raise ``ValueError`` for text that contains template syntax."""
    if "{{" in text:
        raise ValueError("a manifest that becomes a template contains {{")
    head, _, body = text.partition("\n")
    marked = _METADATA_NAME.sub(lambda found: found[0] + _LABELS_TEMPLATE.format(annotations), body)
    return f"{head}\n{{{{- if {condition} }}}}\n{marked}{{{{- end }}}}\n"


def values_yaml(schema: Mapping[str, Any]) -> str:
    """Return ``values.yaml``: every value with its default, below a comment with its description."""
    parts = ["# Made by tools/generate.py from values.schema.json; to change it, change that and run: make generate\n"]
    parts += ["".join(_value_lines(name, inner, "")) for name, inner in schema["properties"].items()]
    return "\n".join(parts)


def _value_lines(name: str, schema: Mapping[str, Any], indent: str) -> Iterator[str]:
    yield textwrap.fill(schema["description"], WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
    yield "\n"
    for example in schema.get("examples", ()):
        yield textwrap.indent(_to_yaml({name: example}), f"{indent}# ")
    if "properties" in schema:
        yield f"{indent}{name}:\n"
        for inner, about in schema["properties"].items():
            yield from _value_lines(inner, about, f"{indent}  ")
    else:
        yield textwrap.indent(_to_yaml({name: schema["default"]}), indent)


def _to_yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, width=WIDTH)
