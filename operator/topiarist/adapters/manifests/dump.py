"""Documents as YAML that every reader takes the same way, the strict loader and kubectl among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import yaml

from topiarist.adapters.manifests.scalars import Ambiguous, meaning
from topiarist.schema import schema


class _Dumper(yaml.CSafeDumper):
    """Quotes what would have no single meaning without quotes, and never uses anchors."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    try:
        style = None if meaning(text) is text else '"'
    except Ambiguous:
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


def _fraction(dumper: _Dumper, value: Decimal) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:float", format(value, "f"))


_Dumper.add_representer(str, _text)
_Dumper.add_representer(Decimal, _fraction)


def dump(documents: Iterable[Mapping[str, Any]]) -> str:
    """Documents as one YAML text, each begun with ``---``, fields in their order; reading it gives them back."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, explicit_start=True, width=120)


def dump_file(document: Mapping[str, Any]) -> str:
    """One document as the text of a file of its own; the first line tells editors which schema it follows."""
    head = f"# yaml-language-server: $schema={schema(document['kind'])['$id']}\n"
    return head + yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
