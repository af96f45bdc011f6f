"""Generator of topic configs in ``schemas/``, of definitions and policies in ``manifests/``, and of the reasons' texts.

The configs are from ``topiarist.kafka.config_table``, the definitions from ``schemas/``, the admission policies from
``crd`` and from the samples in ``manifests/policies``. ``chart_files`` derives the chart's files from the manifests,
and ``monitoring_files`` the alert rules and the dashboard of drift reports from the chart. The package's texts of
reasons are from ``docs/reasons.md``. The settings of Argo CD have the health check that is in Argo CD's own form, and
the sample for GitLab the jobs of the component.

Usage: ``python tools/generate.py`` writes the files; ``python tools/generate.py --check`` only reports stale files, and
exits with 1 if there are any.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from textwrap import indent
from typing import Any

import chart_files
import monitoring_files
import yaml
from crd import definition_files, policy_files

from topiarist.adapters.manifests.loader import load_manifests
from topiarist.desired.parse import parse_policy
from topiarist.kafka.config_table import TOPIC_CONFIGS, ConfigDef
from topiarist.kafka.types import KAFKA_VERSIONS, MIN_KAFKA_VERSION, format_version
from topiarist.model.policy import Policy

ROOT = Path(__file__).resolve().parent.parent

MANIFESTS = ROOT / "manifests"
ARGOCD = MANIFESTS / "gitops" / "argocd"
GITLAB_COMPONENT = ROOT / "tools" / "ci" / "gitlab" / "templates" / "topiarist.yml"
HEALTH = ARGOCD / "resource_customizations" / "topiarist.dev" / "_" / "health.lua"
SCHEMAS = ("topic.json", "cluster.json")
TRUTH_VALUES = ["true", "false"]

LINK = re.compile(r"\[([^]]*)\]\(([^)]*)\)")
REASON_ROW = re.compile(r"\| `(?P<name>\w+)` \| \d \| (?:yes|no) \| (?P<cause>.*?) \| (?P<remedy>.*?) \|")


def describe_config(definition: ConfigDef) -> str:
    """Return the text that an editor shows for a config: meaning, default, and releases that have it."""
    parts = [definition.description, f"Default: {definition.default or 'empty'}."]
    if definition.valid_values:
        parts.append(f"One{' or more' if definition.type == 'words' else ''} of {', '.join(definition.valid_values)}.")
    if definition.since > MIN_KAFKA_VERSION:
        parts.append("Since Kafka {}.{}.".format(*definition.since))
    return " ".join(parts)


def config_schema(definition: ConfigDef) -> dict[str, Any]:
    """Return the schema of one config, which allows any scalar.

    The valid values depend on the release of the cluster, which a schema does not know.
    """
    schema: dict[str, Any] = {
        "title": definition.name,
        "description": describe_config(definition),
        # Editors show the first title of all schemas of a value, and begin with those of ``allOf``: this one has none.
        "allOf": [{"$ref": "#/definitions/configScalar"}],
    }
    examples = definition.valid_values or (TRUTH_VALUES if definition.type == "boolean" else [definition.default])
    if any(examples):
        schema["examples"] = [plain(text) for text in examples]
    if definition.deprecated:
        release, replacement = definition.deprecated
        schema["deprecationMessage"] = "Deprecated since Kafka {}.{}: {}.".format(*release, replacement)
    return schema


def plain(text: str) -> str | int | bool:
    """Return a value as it is written in a manifest."""
    if text in TRUTH_VALUES:
        return text == "true"
    return int(text) if text.lstrip("-").isdigit() else text


def generate_schema(path: Path) -> str:
    """Return the wanted text of a schema file."""
    schema = json.loads(path.read_text(encoding="utf-8"))
    definitions = schema["definitions"]
    definitions["configScalar"] = {
        keyword: value
        for keyword, value in definitions["configValue"].items()
        if keyword not in ("title", "description")
    }
    definitions["config"]["properties"] = {
        name: config_schema(definition) for name, definition in TOPIC_CONFIGS.items()
    }
    if path.name == "cluster.json":
        fields = schema["properties"]["spec"]["properties"]
        fields["kafkaVersion"]["enum"] = [*map(format_version, KAFKA_VERSIONS)]
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def generate_argocd_settings() -> str:
    """Return the ConfigMap of Argo CD with the text of the health check."""
    text = (ARGOCD / "argocd-cm.yaml").read_text(encoding="utf-8")
    script = indent(HEALTH.read_text(encoding="utf-8"), "    ")
    return re.sub(r"(?<=&health [|]\n)(    .*\n)+", lambda _: script, text)


def generate_gitlab_sample() -> str:
    """Return the sample for GitLab: its own first part, then the jobs of the component."""
    own, last, _ = (ROOT / "docs" / "ci" / "gitlab-ci.yml").read_text(encoding="utf-8").partition(" of its inputs.\n")
    return own + last + render_component(GITLAB_COMPONENT.read_text(encoding="utf-8"), {})


def render_component(component: str, given: dict[str, str]) -> str:
    """Return the jobs of a GitLab component with the values of its inputs, as GitLab interpolates them."""
    head, _, jobs = component.partition("\n---\n")
    values = {name: each["default"] for name, each in yaml.safe_load(head)["spec"]["inputs"].items()} | given
    # GitLab interpolates values, and not text: what would be nothing in YAML is an empty text.
    return re.sub(r"\$\[\[ inputs\.([\w-]+) \]\]", lambda name: values[name[1]] or '""', jobs)


def generate_reasons() -> str:
    """Return cause and remedy of each reason, as JSON; a link is followed by its page."""
    rows = REASON_ROW.finditer((ROOT / "docs" / "reasons.md").read_text(encoding="utf-8"))
    texts = {row["name"]: [to_plain_text(row["cause"]), to_plain_text(row["remedy"])] for row in rows}
    return json.dumps(texts, indent=2, ensure_ascii=False) + "\n"


def to_plain_text(markdown: str) -> str:
    """Return a cell of a table without backquotes and links."""
    text = LINK.sub(lambda link: link[1] if link[2].startswith("#") else f"{link[1]} (docs/{link[2]})", markdown)
    return text.replace("`", "")


def load_policies() -> dict[str, Policy]:
    """Return the sample policies by file name, relative to the repository."""
    policies = {}
    for path in sorted((MANIFESTS / "policies").glob("*.yaml")):
        (manifest,) = load_manifests([str(path)]).manifests
        policies[str(path.relative_to(ROOT))] = parse_policy(manifest)
    return policies


def generate_manifests() -> dict[Path, str]:
    """Return the generated files below ``manifests/`` and in the chart, with their wanted text."""
    manifests = definition_files() | policy_files(load_policies())
    made = {MANIFESTS / name: text for name, text in manifests.items()}
    return made | chart_files.build_files(manifests) | monitoring_files.build_files()


def stray_files(wanted: Collection[Path]) -> list[Path]:
    """Return the files that nothing generates, in folders where all files are generated."""
    folders = {path.parent for path in wanted} - {chart_files.CHART}
    return sorted(path for folder in folders for path in folder.glob("*") if path not in wanted)


def main(arguments: list[str]) -> int:
    """Write the files, or with ``--check`` report those that differ; return the exit code."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    # The schemas first: the definitions are generated from the files.
    stale = write_or_check(
        {ROOT / "schemas" / name: generate_schema(ROOT / "schemas" / name) for name in SCHEMAS}, bool(arguments)
    )
    generated = generate_manifests()
    others = {
        ROOT / "operator" / "topiarist" / "reasons.json": generate_reasons(),
        ARGOCD / "argocd-cm.yaml": generate_argocd_settings(),
        ROOT / "docs" / "ci" / "gitlab-ci.yml": generate_gitlab_sample(),
    }
    stale += write_or_check(generated | others, bool(arguments))
    for path in stray_files(generated):
        print(f"{path.relative_to(ROOT)}: no source generates it; delete it", file=sys.stderr)
        stale += 1
    return 1 if stale and arguments else 0


def write_or_check(wanted: Mapping[Path, str], check: bool) -> int:
    """Write the files that differ, or with ``check`` report them; return their number."""
    stale = [path for path in wanted if not path.exists() or path.read_text(encoding="utf-8") != wanted[path]]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)}: differs from its source; run: make generate", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
    return len(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
