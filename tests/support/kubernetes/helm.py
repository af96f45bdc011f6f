"""The chart, rendered by Helm's own code: documents for values, and Helm's errors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import helm_python
import yaml

from support.checkout import ROOT

Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

CHART = ROOT / "charts" / "topiarist"

Document = dict[str, Any]
Values = Mapping[str, Any]


@cache
def _load_chart(chart: Path) -> helm_python.Chart:
    return helm_python.Chart.load(chart)


@cache
def _render_cached(values: str, name: str, namespace: str, chart: Path) -> tuple[Document, ...]:
    found = _load_chart(chart).render(json.loads(values), name=name, namespace=namespace)
    texts = (text for path, text in sorted(found.items()) if path.endswith(".yaml"))
    return tuple(one for text in texts for one in yaml.load_all(text, Loader) if one)


def render(
    values: Values | None = None, *, name: str = "topiarist", namespace: str = "kafka", chart: Path = CHART
) -> list[Document]:
    """Return the documents of a release, which callers must not modify.

    Raises ``helm_python.HelmError`` with the message of Helm.
    """
    return [*_render_cached(json.dumps(values or {}), name, namespace, chart)]


def documents_of_kind(documents: Iterable[Document], kind: str) -> list[Document]:
    """Return the documents of a kind."""
    return [one for one in documents if one["kind"] == kind]


def only_document(documents: Iterable[Document], kind: str) -> Document:
    """Return the only document of a kind."""
    (found,) = documents_of_kind(documents, kind)
    return found
