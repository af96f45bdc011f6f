"""The page of services: a section and a document for each row, and no result that was not run."""

from __future__ import annotations

import re

import pytest
import service_matrix
import yaml

from services.story import CELLS
from support.checkout import ROOT
from support.repo.pages import anchors, blocks

PAGE = (ROOT / "docs" / "services.md").read_text()
OWN = ("bootstrapServers", "sasl", "tls")
"""The fields of a document that differ between a service and its emulation."""

SHOWN = [name for name, cell in CELLS.items() if cell.page]


def section_of(anchor: str) -> str:
    """Return the section of the page with a heading that a link names."""
    (found,) = (part for part in re.split(r"^(?=## )", PAGE, flags=re.MULTILINE) if anchor in anchors(part))
    return found


def test_the_record_has_all_cells_that_run_and_no_others() -> None:
    """A cell that is read has no results; every other cell has some."""
    assert {*service_matrix.load_results()} == {name for name, cell in CELLS.items() if cell.how != "read"}


@pytest.mark.parametrize("name", [name for name in SHOWN if CELLS[name].section])
def test_each_service_has_its_section(name: str) -> None:
    """The section of a service has the Cluster document that was run, and the word for how it was tried."""
    cell = CELLS[name]
    section = section_of(cell.section)
    documents = [block.text for block in blocks(section) if block.language == "yaml" and "kind: Cluster" in block.text]
    assert len(documents) == 1, cell.title
    kafka = yaml.safe_load(documents[0])["spec"]["kafka"]
    if cell.how != "read":
        assert {key: value for key, value in kafka.items() if key not in OWN} == cell.kafka, cell.title
    assert re.search(rf"\*\*Tried\*\*: {cell.how}\b", section), cell.title


def test_a_row_without_a_run_has_no_results() -> None:
    """The table calls nothing supported that was not run."""
    rows = [row for row in service_matrix.service_rows() if row[1] == "read"]
    assert rows
    assert {cell for row in rows for cell in row[2:]} == {""}
