"""Pages that can be walked through: their commands are run as they stand, and what these print is kept.

The comment directly before a block, which no reader sees, says what to do with it: ``run`` (with ``exit N`` for another
code than 0, or ``in the background``), or ``output of: COMMAND`` for what a command prints.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from support.repo.pages import Block, blocks
from support.waiting import read_until
from topiarist.adapters.devcluster.seed import CLUSTER_ID

ADDRESS = re.compile(r"127\.0\.0\.1:\d+/kafka")
COMMAND = re.compile(r"^(topiarist .*|cat [\w./-]+)$", re.MULTILINE)
SPLIT = "\x1e"
_CLUSTER_ID = re.compile(r"(?<=cluster )[\w-]{22}(?=,)")


class CommandOutput(NamedTuple):
    """What one command of a page printed, and where in the page it stands."""

    command: str
    text: str
    start: int


class PageRun(NamedTuple):
    """A page as it was really run: what was printed, and the exit code of every block beside the expected one."""

    printed: list[CommandOutput]
    codes: list[tuple[str, int, int]]

    def output(self, shown: Block) -> str:
        """What the command of an output block printed: when it was last run before the block, else the first time."""
        command = shown.marker.removeprefix("output of: ")
        runs = [printed for printed in self.printed if printed.command == command]
        before = [printed for printed in runs if printed.start < shown.start]
        return (before[-1] if before else runs[0]).text


@contextmanager
def run_in_background(block: Block, folder: Path) -> Iterator[str]:
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
        try:
            said = read_until(process.stdout, "Ctrl-C")
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


def persistent_lines(text: str) -> str:
    """What of a block stays in force in the same terminal."""
    return "".join(f"{line}\n" for line in text.splitlines() if line.startswith((". ", "export ")))


def echo_commands(text: str) -> str:
    """A block that prints each of its commands before it is run, and stops at the first that fails."""
    return "set -e\n" + COMMAND.sub(rf"printf '{SPLIT}%s\\n' '\1'\n\1", text)


def run_page(page: str, folder: Path) -> PageRun:
    """Run all blocks of a page that are to be run, in their order; one id stands for that of the cluster."""
    printed: list[CommandOutput] = []
    codes: list[tuple[str, int, int]] = []
    marked = [block for block in blocks(page) if block.marker.startswith("run")]
    (server,) = (block for block in marked if "in the background" in block.marker)
    terminal = ""
    with run_in_background(server, folder) as address:
        for block in marked:
            if block is server:
                continue
            text = ADDRESS.sub(address, block.text)
            done = subprocess.run(
                ["bash", "-c", terminal + echo_commands(text)],
                cwd=folder,
                env=environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            terminal += persistent_lines(text)
            codes.append((block.text + done.stdout, int(block.marker.partition("exit ")[2] or 0), done.returncode))
            for part in done.stdout.split(SPLIT)[1:]:
                command, _, output = part.partition("\n")
                printed.append(CommandOutput(command, _CLUSTER_ID.sub(CLUSTER_ID, output), block.start))
    return PageRun(printed, codes)


def output_blocks(page: str) -> list[Block]:
    """The blocks of a page that show what a command prints."""
    return [block for block in blocks(page) if block.marker.startswith("output of: ")]
