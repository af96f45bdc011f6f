"""Kubernetes API documents: custom resource definitions from ``schemas/``, and admission policies.

This package returns text and sends nothing. ``tools/generate.py`` writes the text into ``manifests/``, and a test
checks that both agree. It reads the schemas with ``topiarist.schema``; the user applies the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from crd.configs import config_policies
from crd.definitions import definition
from crd.policies import admission_policies
from topiarist.model.policy import Policy
from topiarist.schema import load

_HEADER = "# Made by tools/generate.py from {}; to change it, change that and run: make generate\n"


class _Dumper(yaml.SafeDumper):
    """A YAML dumper with block style: expressions without doubled quotes, multi-line text as it is."""


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else ">" if "'" in text and " " in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
_Dumper.ignore_aliases = lambda *_: True  # type: ignore[method-assign]


def to_yaml(documents: Iterable[Mapping[str, Any]], source: str) -> str:
    """Return documents as YAML, the same text for the same documents; ``source`` names their source in the header."""
    dumped = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    return _HEADER.format(source) + dumped


def definition_files() -> dict[str, str]:
    """Return the files below ``manifests/`` that define topiarist's kinds for an API server, by name."""
    files = {}
    for kind in load.KINDS:
        document = definition(kind)
        sources = f"schemas/{kind.lower()}.json and schemas/status.json"
        files[f"crds/{document['metadata']['name']}.yaml"] = to_yaml([document], sources)
    files["admission/config.yaml"] = to_yaml(config_policies(), "tools/crd/configs.py")
    return files


def policy_files(policies: Mapping[str, Policy]) -> dict[str, str]:
    """Return admission policies of ``Policy`` documents by file name; ``policies`` are by source file.

    A policy without a translatable rule has no file.
    """
    documents_by_source = {source: admission_policies(policy) for source, policy in policies.items()}
    return {
        f"admission/policy-{policies[source].name}.yaml": to_yaml(documents, source)
        for source, documents in documents_by_source.items()
        if documents
    }
