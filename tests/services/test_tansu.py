"""Every command against the real broker Tansu, which is no Kafka: refusals with a reason, and nothing left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from services.conftest import Recorder
from services.servers import Inspector, MissingToolError, Tansu
from services.story import CELLS, Story


@pytest.mark.core
@pytest.mark.usefixtures("at_once", "emulator")
def test_tansu(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, record_cell: Recorder) -> None:
    """Each step ends in its outcome or in a reason, and the inspector reads what was reported."""
    try:
        server = Tansu(tmp_path_factory.mktemp("tansu"))
    except MissingToolError as error:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(str(error))
    with server, Inspector(server.bootstrap) as inspector:
        kafka = {"bootstrapServers": server.bootstrap, **CELLS["tansu"].kafka}
        story = Story(CELLS["tansu"], {"kafka": kafka}, inspector, tmp_path)
        story.tell()
    record_cell("tansu", story)
