"""The tutorial pages, executed as by a new user: every command works and prints the shown output.

``make golden`` updates the outputs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.cli.runs import without_notice
from support.repo.pages import blocks, links
from support.repo.walkthrough import COMMAND, PageRun, output_blocks, run_blocks, run_page, write_outputs

DOCS = ROOT / "docs"
WALKED = tuple(DOCS / f"{name}.md" for name in ("tutorial", "adopting", "move-replicas"))
FRONT = (ROOT / "README.md", *(DOCS / f"{name}.md" for name in ("quickstart", "add-a-topic")))
"""The pages for new users; ``tests/brokers/test_quickstart.py`` runs them with real brokers."""

MOST_LINES = {"README.md": 130, "add-a-topic.md": 80}
"""The lines of the pages that are read first and in one go."""

pytestmark = [pytest.mark.core, pytest.mark.slow, pytest.mark.xdist_group("walked pages")]

each_page = pytest.mark.parametrize("page", WALKED, ids=lambda page: page.stem)


@pytest.fixture(scope="module")
def stories() -> dict[Path, PageRun]:
    """Return the pages that were executed so far."""
    return {}


@pytest.fixture
def story(page: Path, stories: dict[Path, PageRun], tmp_path_factory: pytest.TempPathFactory) -> PageRun:
    """Return a page, executed once in an empty folder with the ``.venv`` of this interpreter."""
    if page not in stories:
        folder = tmp_path_factory.mktemp("newcomer")
        (folder / ".venv").symlink_to(sys.prefix)
        stories[page] = run_page(page.read_text(), folder)
        if os.environ.get("TOPIARIST_GOLDEN") == "write":
            write_outputs(page, stories[page])
    return stories[page]


@each_page
def test_every_command_ends_with_the_code_that_the_page_says(page: Path, story: PageRun) -> None:
    """Every block exits with the code of its mark, or with 0 without a mark."""
    assert len(story.codes) >= 5, page
    for text, expected, found in story.codes:
        assert found == expected, text


@each_page
def test_every_command_was_run(page: Path, story: PageRun) -> None:
    """Every block ran up to its last command."""
    wanted = [line for block in run_blocks(page.read_text()) for line in COMMAND.findall(block.text)]
    assert [printed.command for printed in story.printed] == [line for line in wanted if "topiarist dev" not in line]


@each_page
def test_what_is_shown_is_what_is_printed(page: Path, story: PageRun) -> None:
    """Plans, manifests and errors on the pages equal the output of the product exactly."""
    shown = output_blocks(page.read_text())
    assert len(shown) >= 3
    for block in shown:
        printed = without_notice(story.output(block))
        assert without_notice(block.text) == printed, f"{block.marker}: not so; make golden writes it anew"


@each_page
def test_a_second_run_finds_nothing_to_do(page: Path, story: PageRun) -> None:
    """The plan after the applies of each page has no changes."""
    said = [printed.text for printed in story.printed if printed.command.endswith(" --exit-code")]
    assert "No changes: 3 topics match their manifests." in said[0], page


@pytest.mark.parametrize("page", [*WALKED, *FRONT], ids=lambda page: page.stem)
def test_every_shell_block_is_run_or_says_why_not(page: Path) -> None:
    """A block without a mark calls only make, and every other unexecuted block gives its reason."""
    for block in blocks(page.read_text()):
        if block.language == "sh" and not block.marker:
            assert all(line.startswith("make ") for line in block.text.splitlines()), block.text
        elif block.language == "sh":
            assert block.marker.startswith(("run", "not run: ", "checked elsewhere")), block.marker


def test_the_pages_that_are_read_first_are_short() -> None:
    """The README and the page for developers have a limit of lines."""
    lines = {page.name: page.read_text().count("\n") for page in FRONT if page.name in MOST_LINES}
    assert {name: count for name, count in lines.items() if count > MOST_LINES[name]} == {}
    assert lines.keys() == MOST_LINES.keys()


def test_the_page_for_developers_needs_no_other_page() -> None:
    """``topiarist init`` writes it into repositories where no other page is, so it has no relative link."""
    assert links((DOCS / "add-a-topic.md").read_text()) == []
