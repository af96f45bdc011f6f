"""Values for the tests of the chart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "everything": yaml.safe_load((Path(__file__).parent / "everything.yaml").read_text()),
    "namespaces": {"watchNamespaces": ["payments", "kafka"], "crds": {"enabled": False}},
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return each of the values."""
    return CASES[request.param]


@pytest.fixture
def everything() -> dict[str, Any]:
    """Return values with every switch on."""
    return CASES["everything"]
