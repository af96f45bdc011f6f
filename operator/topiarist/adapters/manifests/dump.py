"""Documents as YAML that every YAML version reads alike, including topiarist's parser and kubectl.

``topiarist export`` and ``topiarist render`` write their documents with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import yaml

from topiarist.adapters.manifests.scalars import AmbiguousScalar, parse_plain_scalar
from topiarist.schema.load import load_schema


class _ManifestDumper(yaml.CSafeDumper):
    """A YAML dumper that quotes ambiguous text and never uses anchors."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _represent_text(dumper: _ManifestDumper, text: str) -> yaml.ScalarNode:
    try:
        style = None if parse_plain_scalar(text) is text else '"'
    except AmbiguousScalar:
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


def _represent_fraction(dumper: _ManifestDumper, value: Decimal) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:float", format(value, "f"))


_ManifestDumper.add_representer(str, _represent_text)
_ManifestDumper.add_representer(Decimal, _represent_fraction)


def dump_documents(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return documents as one YAML text, each after ``---``, with fields in their order.

    Parsing the text returns equal documents.
    """
    return yaml.dump_all(
        documents, Dumper=_ManifestDumper, sort_keys=False, allow_unicode=True, explicit_start=True, width=120
    )


def dump_file(document: Mapping[str, Any], kind: str = "") -> str:
    """Return one document as the text of its own file; ``kind`` is that of a document without the field.

    The first line names the document's schema for editors.
    """
    head = f"# yaml-language-server: $schema={load_schema(kind or document['kind'])['$id']}\n"
    return head + yaml.dump(document, Dumper=_ManifestDumper, sort_keys=False, allow_unicode=True, width=120)
