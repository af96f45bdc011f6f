"""Writes what is generated: the topic configs in ``schemas/``, definitions and admission policies in ``manifests/``.

The configs come from the table in ``topiarist.core.configs``, the definitions from ``schemas/``, the admission policies
from ``topiarist.crd`` and from the samples in ``manifests/policies``. ``chart_files`` makes what the chart has of it.

Usage: ``python tools/generate.py`` writes; ``python tools/generate.py --check`` only says what is out of step, and then
ends with 1.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "operator"))

import chart_files  # noqa: E402

from topiarist.adapters.manifests import load  # noqa: E402
from topiarist.core.configs import CONFIGS, ConfigDef  # noqa: E402
from topiarist.core.guardrails import Policy  # noqa: E402
from topiarist.core.spec import OLDEST  # noqa: E402
from topiarist.crd import definition_files, policy_files  # noqa: E402
from topiarist.schema import policy  # noqa: E402

MANIFESTS = ROOT / "manifests"
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


def policies() -> dict[str, Policy]:
    """The samples of policies, by the names of their files."""
    found = {}
    for path in sorted((MANIFESTS / "policies").glob("*.yaml")):
        (manifest,) = load([str(path)]).manifests
        found[str(path.relative_to(ROOT))] = policy(manifest)
    return found


def manifests() -> dict[Path, str]:
    """The files below ``manifests/`` and in the chart that are made, with the text that they should have."""
    found = definition_files() | policy_files(policies())
    return {MANIFESTS / name: text for name, text in found.items()} | chart_files.files(found)


def stray(wanted: Collection[Path]) -> list[Path]:
    """Files in folders of which all is made, that nothing makes."""
    folders = {path.parent for path in wanted} - {chart_files.CHART}
    return sorted(path for folder in folders for path in folder.glob("*") if path not in wanted)


def main(arguments: list[str]) -> int:
    """Write the files, or with ``--check`` complain about those that differ; returns the exit code."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    # The schemas first: the definitions are made from them.
    stale = settle({ROOT / "schemas" / name: generated(ROOT / "schemas" / name) for name in SCHEMAS}, bool(arguments))
    made = manifests()
    stale += settle(made, bool(arguments))
    for path in stray(made):
        print(f"{path.relative_to(ROOT)}: nothing makes it; delete it", file=sys.stderr)
        stale += 1
    return 1 if stale and arguments else 0


def settle(wanted: Mapping[Path, str], check: bool) -> int:
    """Write the files that differ, or only say which they are; returns how many."""
    stale = [path for path in wanted if not path.exists() or path.read_text(encoding="utf-8") != wanted[path]]
    for path in stale:
        if check:
            print(
                f"{path.relative_to(ROOT)}: out of step with what it is made from; run: make generate", file=sys.stderr
            )
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
    return len(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
