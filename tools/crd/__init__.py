"""What an API server gets to know of us: definitions of our kinds from ``schemas/``, and admission policies.

Documents in, text out: nothing is sent anywhere. ``tools/generate.py`` writes what this module gives into
``manifests/``, and a test holds both in step. Before it stands ``schema``; after it whoever applies the files.
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
    """Block style throughout: expressions without doubled quotes, text of several lines as it is."""


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else ">" if "'" in text and " " in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)
_Dumper.ignore_aliases = lambda *_: True  # type: ignore[method-assign]


def to_yaml(documents: Iterable[Mapping[str, Any]], source: str) -> str:
    """Documents as YAML, always the same for the same; ``source`` is what they are made from."""
    dumped = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    return _HEADER.format(source) + dumped


def definition_files() -> dict[str, str]:
    """The files below ``manifests/`` that make an API server know our kinds, by their names."""
    files = {}
    for kind in load.KINDS:
        made = definition(kind)
        sources = f"schemas/{kind.lower()}.json and schemas/status.json"
        files[f"crds/{made['metadata']['name']}.yaml"] = to_yaml([made], sources)
    files["admission/config.yaml"] = to_yaml(config_policies(), "tools/crd/configs.py")
    return files


def policy_files(policies: Mapping[str, Policy]) -> dict[str, str]:
    """Admission policies from ``Policy`` documents, by the files that they stand in; none where no rule can be one."""
    made = {source: admission_policies(policy) for source, policy in policies.items()}
    return {
        f"admission/policy-{policies[source].name}.yaml": to_yaml(documents, source)
        for source, documents in made.items()
        if documents
    }
