"""Writes what is generated: the list of topic configs in ``schemas/``, from the table in ``topiarist.core.configs``.

Usage: ``python tools/generate.py`` writes; ``python tools/generate.py --check`` only says what is out of step, and then
ends with 1.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "operator"))

from topiarist.core.configs import CONFIGS, ConfigDef  # noqa: E402
from topiarist.core.spec import OLDEST  # noqa: E402

SCHEMAS = ("topic.json", "cluster.json")
TRUTH_VALUES = ["true", "false"]


def described(definition: ConfigDef) -> str:
    """What an editor shows for a config: what it does, its default, and the releases that know it."""
    parts = [definition.description, f"Default: {definition.default or 'empty'}."]
    if definition.words:
        parts.append(f"One{' or more' if definition.form == 'words' else ''} of {', '.join(definition.words)}.")
    if definition.since > OLDEST:
        parts.append("Since Kafka {}.{}.".format(*definition.since))
    return " ".join(parts)


def field(definition: ConfigDef) -> dict[str, Any]:
    """The schema of one config: any scalar, since which values are valid depends on the cluster's release."""
    schema: dict[str, Any] = {
        "title": definition.name,
        "description": described(definition),
        "allOf": [{"$ref": "#/definitions/configValue"}],
    }
    examples = definition.words or (TRUTH_VALUES if definition.form == "boolean" else [definition.default])
    if any(examples):
        schema["examples"] = [plain(text) for text in examples]
    if definition.deprecated:
        release, instead = definition.deprecated
        schema["deprecationMessage"] = "Deprecated since Kafka {}.{}: {}.".format(*release, instead)
    return schema


def plain(text: str) -> str | int | bool:
    """A value as a manifest would have it."""
    if text in TRUTH_VALUES:
        return text == "true"
    return int(text) if text.lstrip("-").isdigit() else text


def generated(path: Path) -> str:
    """The text that a schema file should have."""
    schema = json.loads(path.read_text(encoding="utf-8"))
    schema["definitions"]["config"]["properties"] = {name: field(definition) for name, definition in CONFIGS.items()}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Write the files, or with ``--check`` complain about those that differ; returns the exit code."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    paths = [ROOT / "schemas" / name for name in SCHEMAS]
    stale = [path for path in paths if path.read_text(encoding="utf-8") != generated(path)]
    for path in stale:
        if arguments:
            print(f"{path.relative_to(ROOT)}: out of step with core/configs.py; run: make generate", file=sys.stderr)
        else:
            path.write_text(generated(path), encoding="utf-8")
    return 1 if stale and arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
