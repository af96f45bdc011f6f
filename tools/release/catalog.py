"""The entries of the project's schemas for SchemaStore, from which editors find a schema by the name of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ENTRIES = {"project": ["topiarist.yaml"], "topic": [], "cluster": [], "policy": []}
"""The names of files by schema. Manifests may have any name, so that they name their schema in a comment instead."""


def render_catalog(schemas: Path) -> str:
    """Return the entries as JSON, in the form of SchemaStore's catalog."""
    entries = [_entry(schemas / f"{name}.json", patterns) for name, patterns in ENTRIES.items()]
    return json.dumps({"schemas": entries}, indent=2) + "\n"


def _entry(path: Path, patterns: list[str]) -> dict[str, Any]:
    schema = json.loads(path.read_text())
    entry = {"name": f"Topiarist {schema['title'].lower()}", "description": schema["description"].partition(":")[0]}
    return entry | ({"fileMatch": patterns} if patterns else {}) | {"url": schema["$id"]}
