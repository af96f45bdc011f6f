"""The beginning of docs/drift.md: a newcomer's first report, executed as the page says."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.repo.pages import blocks
from support.repo.walkthrough import (
    CommandOutput,
    PageRun,
    echo_commands,
    environment,
    expected_code,
    output_blocks,
    run_block,
    write_outputs,
)

PAGE = ROOT / "docs" / "drift.md"


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> PageRun:
    """Return the page, executed once in an empty folder, with topiarist on the path."""
    env = environment() | {"PATH": f"{sys.prefix}/bin:{os.environ['PATH']}"}
    folder = tmp_path_factory.mktemp("newcomer")
    run = PageRun([], [])
    for block in blocks(PAGE.read_text()):
        if block.marker.startswith("run"):
            code, outputs = run_block(echo_commands(block.text), folder, env)
            run.codes.append((block.text + "".join(text for _, text in outputs), expected_code(block), code))
            run.printed.extend(CommandOutput(command, text, block.start) for command, text in outputs)
    assert Path(folder, "fleet", "report", "report.html").exists()
    if os.environ.get("TOPIARIST_GOLDEN") == "write":
        write_outputs(PAGE, run)
    return run


def test_the_page_begins_with_a_report() -> None:
    """The first command of the page is the demo, and its output is shown."""
    first, shown = blocks(PAGE.read_text())[:2]
    assert first.text == "topiarist drift --demo fleet\n"
    assert shown.marker == "output of: topiarist drift --demo fleet"


def test_every_command_ends_with_the_code_that_the_page_says(story: PageRun) -> None:
    """Every executed block exits with the code of its mark."""
    assert story.codes
    for text, expected, found in story.codes:
        assert found == expected, text


def test_what_is_shown_is_what_is_printed(story: PageRun) -> None:
    """The output on the page is that of the product exactly."""
    shown = output_blocks(PAGE.read_text())
    assert shown
    for block in shown:
        assert block.text == story.output(block), f"{block.marker}: not so; make golden writes it anew"
