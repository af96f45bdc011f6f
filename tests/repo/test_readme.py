"""A newcomer's test of the README: its commands are run as they stand, and what they print is what it shows.

The comment directly before a block, which no reader sees, says what to do with it: ``run`` (with ``exit N`` for another
code than 0, or ``in the background``), or ``output of: COMMAND`` for what a command prints. ``make golden`` writes the
outputs anew.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from support.pages import ROOT, Block, blocks

README = ROOT / "README.md"
ADDRESS = re.compile(r"127\.0\.0\.1:\d+/kafka")
SPLIT = "\x1e"


class Printed(NamedTuple):
    """What one command of the README printed, and where in the README it stands."""

    command: str
    text: str
    start: int


class Story(NamedTuple):
    """The README as it was really run: what was printed, and the exit code of every block beside the expected one."""

    printed: list[Printed]
    codes: list[tuple[str, int, int]]

    def output(self, shown: Block) -> str:
        """What the command of an output block printed: when it was last run before the block, else the first time."""
        command = shown.mark.removeprefix("output of: ")
        runs = [printed for printed in self.printed if printed.command == command]
        before = [printed for printed in runs if printed.start < shown.start]
        return (before[-1] if before else runs[0]).text


@contextmanager
def background(block: Block, folder: Path) -> Iterator[str]:
    """Run a block that goes on until it is stopped; gives the address that it prints."""
    with subprocess.Popen(
        ["bash", "-c", block.text],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout
        said = ""
        try:
            while "Ctrl-C" not in said:
                line = process.stdout.readline()
                assert line, f"ended too early: {said}"
                said += line
            address = ADDRESS.search(said)
            assert address, said
            yield address[0]
        finally:
            os.killpg(process.pid, signal.SIGINT)
            process.stdout.read()


def environment() -> dict[str, str]:
    """A newcomer's: nothing of ours is set, and nothing but the pages leads to our code."""
    ours = ("TOPIARIST_", "PYTHONPATH", "VIRTUAL_ENV")
    return {key: value for key, value in os.environ.items() if not key.startswith(ours)}


def lasting(text: str) -> str:
    """What of a block stays in force in the same terminal."""
    return "".join(f"{line}\n" for line in text.splitlines() if line.startswith((". ", "export ")))


def announced(text: str) -> str:
    """A block that prints each of our commands before it is run, and stops at the first that fails."""
    return "set -e\n" + re.sub(r"^(topiarist .*)$", rf"printf '{SPLIT}%s\\n' '\1'\n\1", text, flags=re.MULTILINE)


def tell(folder: Path) -> Story:
    """Run all blocks that are to be run, in their order."""
    printed: list[Printed] = []
    codes: list[tuple[str, int, int]] = []
    marked = [block for block in blocks(README.read_text()) if block.mark.startswith("run")]
    (server,) = (block for block in marked if "in the background" in block.mark)
    terminal = ""
    with background(server, folder) as address:
        for block in marked:
            if block is server:
                continue
            text = ADDRESS.sub(address, block.text)
            done = subprocess.run(
                ["bash", "-c", terminal + announced(text)],
                cwd=folder,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            terminal += lasting(text)
            codes.append((block.text + done.stdout, int(block.mark.partition("exit ")[2] or 0), done.returncode))
            for part in done.stdout.split(SPLIT)[1:]:
                command, _, output = part.partition("\n")
                printed.append(Printed(command, output, block.start))
    return Story(printed, codes)


def shown_outputs() -> list[Block]:
    return [block for block in blocks(README.read_text()) if block.mark.startswith("output of: ")]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """The README, run in an empty folder that has the ``.venv`` of this interpreter."""
    folder = tmp_path_factory.mktemp("newcomer")
    (folder / ".venv").symlink_to(sys.prefix)
    story = tell(folder)
    if os.environ.get("TOPIARIST_GOLDEN") == "write":
        text = README.read_text()
        for shown in reversed(shown_outputs()):
            text = text[: shown.start] + story.output(shown) + text[shown.start + len(shown.text) :]
        README.write_text(text)
    return story


def test_every_command_ends_with_the_code_that_the_readme_says(story: Story) -> None:
    """Blocks without a word about it end with 0."""
    assert len(story.codes) >= 5
    for text, expected, found in story.codes:
        assert found == expected, text


def test_every_command_was_run(story: Story) -> None:
    """No block ended before its last command."""
    marked = [block for block in blocks(README.read_text()) if block.mark.startswith("run")]
    wanted = [line for block in marked for line in block.text.splitlines() if line.startswith("topiarist ")]
    assert [printed.command for printed in story.printed] == [line for line in wanted if " dev " not in line]


def test_what_is_shown_is_what_is_printed(story: Story) -> None:
    """Plans and complaints in the README are the product's own words, to the letter."""
    shown = shown_outputs()
    assert len(shown) == 3
    for block in shown:
        assert block.text == story.output(block), f"{block.mark}: not so; make golden writes it anew"


def test_a_second_run_finds_nothing_to_do(story: Story) -> None:
    """What the README says of the plan after both applies."""
    said = [printed.text for printed in story.printed if printed.command == "topiarist plan try-it --exit-code"]
    assert "No changes: 3 topics are as they should be." in said[0]


def test_every_shell_block_is_run_or_says_why_not() -> None:
    """A block without a mark may only call make, whose targets another test knows; others say why they are not run."""
    for block in blocks(README.read_text()):
        if block.kind == "sh" and not block.mark:
            assert all(line.startswith("make ") for line in block.text.splitlines()), block.text
        elif block.kind == "sh":
            assert block.mark.startswith(("run", "not run: ", "checked elsewhere")), block.mark
