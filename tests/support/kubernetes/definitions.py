"""The definitions of topiarist's resources, as ``manifests/crds`` has them."""

from __future__ import annotations

from functools import cache
from typing import Any

import yaml

from support.checkout import ROOT


@cache
def read_definition(name: str) -> dict[str, Any]:
    """Return a definition by its name, such as ``topics.topiarist.dev``; every caller gets the same object.

    The reader is that of libyaml where there is one: the other one takes half a second for these files.
    """
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with (ROOT / "manifests" / "crds" / f"{name}.yaml").open(encoding="utf-8") as file:
        definition: dict[str, Any] = yaml.load(file, loader)
    return definition
