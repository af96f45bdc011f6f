"""Every command against services in memory that answer as their documents say: an outcome or a reason, and no lie."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from services.conftest import Recorder
from services.servers import Emulated, Inspector
from services.story import CELLS, Cell, Story
from support.secret_scanner import register_secret

pytestmark = [pytest.mark.core, pytest.mark.usefixtures("at_once", "emulator")]

EMULATED = [name for name, cell in CELLS.items() if cell.server == "emulator"]


def cluster_of(server: Emulated, cell: Cell, secrets: Path) -> dict[str, Any]:
    """Return the ``Cluster`` document of an emulated service."""
    kafka: dict[str, Any] = {"bootstrapServers": server.bootstrap, **cell.kafka}
    if server.login.user:
        password = secrets / "password"
        password.write_text(register_secret(server.login.password))
        kafka["sasl"] = {"mechanism": "PLAIN", "username": server.login.user, "password": {"file": str(password)}}
    return {"kafka": kafka, "clusterId": "emulated"}


def test_each_mode_of_the_emulator_has_a_cell(emulator: Path) -> None:
    """No mode is emulated without being run."""
    modes = json.loads(subprocess.run([emulator, "modes"], capture_output=True, text=True, check=True).stdout)
    assert {CELLS[name].mode for name in EMULATED} == {*modes}


@pytest.mark.parametrize("name", EMULATED)
def test_an_emulated_service(
    name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, record_cell: Recorder
) -> None:
    """Each step ends in its outcome or in a reason, and the inspector reads what was reported."""
    cell = CELLS[name]
    with Emulated(cell.mode, cell.rules) as server, Inspector(server.bootstrap, server.login) as inspector:
        spec = cluster_of(server, cell, tmp_path_factory.mktemp("secrets"))
        story = Story(cell, spec, inspector, tmp_path)
        story.tell()
    assert server.wrongly_sent == []
    record_cell(name, story)
