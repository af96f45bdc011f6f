"""Executable pages: a test runs their commands unchanged and keeps the output.

The hidden comment directly before a block gives its use: ``run`` (with ``exit N`` for another code than 0, or ``in the
background``), ``run on brokers`` for one that needs real brokers, or ``output of: COMMAND`` for a command's output.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from support.cli.runs import without_notice
from support.repo.pages import Block, blocks
from support.waiting import read_until
from topiarist.adapters.devcluster.seed import CLUSTER_ID

ADDRESS = re.compile(r"127\.0\.0\.1:\d+/kafka")
COMMAND = re.compile(r"^(topiarist .*|cat [\w./-]+)$", re.MULTILINE)
SPLIT = "\x1e"
_CLUSTER_ID = re.compile(r"(?<=cluster )[\w-]{22}(?=,)")


class CommandOutput(NamedTuple):
    """The output of one command of a page, and its position in the page."""

    command: str
    text: str
    start: int


class PageRun(NamedTuple):
    """An executed page: the output, and the actual and expected exit code of every block."""

    printed: list[CommandOutput]
    codes: list[tuple[str, int, int]]

    def output(self, shown: Block) -> str:
        """Return the output of the command of an output block: from its last run before the block, else from its first
        run.
        """
        command = shown.marker.removeprefix("output of: ")
        runs = [printed for printed in self.printed if printed.command == command]
        before = [printed for printed in runs if printed.start < shown.start]
        return (before[-1] if before else runs[0]).text


@contextmanager
def run_in_background(block: Block, folder: Path) -> Iterator[str]:
    """Run a block until it is stopped; return the address that it prints."""
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
    """Return the environment of a new user: no topiarist settings, and only the page gives access to the code."""
    ours = ("TOPIARIST_", "PYTHONPATH", "VIRTUAL_ENV")
    return {key: value for key, value in os.environ.items() if not key.startswith(ours)}


def persistent_lines(text: str) -> str:
    """Return the lines of a block that stay in effect in the same terminal."""
    return "".join(f"{line}\n" for line in text.splitlines() if line.startswith((". ", "export ")))


def echo_commands(text: str) -> str:
    """Return a block that prints each command before its execution and stops at the first failure."""
    return "set -e\n" + COMMAND.sub(rf"printf '{SPLIT}%s\\n' '\1'\n\1", text)


def run_blocks(page: str) -> list[Block]:
    """Return the blocks of a page that need no real brokers."""
    return [block for block in blocks(page) if block.marker.startswith("run") and "on brokers" not in block.marker]


def run_page(page: str, folder: Path) -> PageRun:
    """Run all executable blocks of a page in order; a fixed id replaces the cluster id."""
    printed: list[CommandOutput] = []
    codes: list[tuple[str, int, int]] = []
    marked = run_blocks(page)
    (server,) = (block for block in marked if "in the background" in block.marker)
    terminal = ""
    with run_in_background(server, folder) as address:
        for block in marked:
            if block is server:
                continue
            text = ADDRESS.sub(address, block.text)
            code, outputs = run_block(terminal + echo_commands(text), folder, environment())
            terminal += persistent_lines(text)
            codes.append((block.text + "".join(output for _, output in outputs), expected_code(block), code))
            for command, output in outputs:
                printed.append(CommandOutput(command, _CLUSTER_ID.sub(CLUSTER_ID, output), block.start))
    return PageRun(printed, codes)


def run_on_brokers(block: Block, folder: Path, shown: Mapping[str, str]) -> tuple[str, int, int, list[CommandOutput]]:
    """Run a block with this interpreter's ``topiarist``; return its text, its expected and actual code, and its output.

    ``shown`` has the text of the page for each text of the real cluster, such as the address that a user would type.
    """
    script = block.text
    for real, text in shown.items():
        script = script.replace(text, real)
    path = f"{Path(sys.prefix) / 'bin'}:{os.environ['PATH']}"
    code, outputs = run_block(echo_commands(script), folder, environment() | {"PATH": path})
    printed = []
    for command, output in outputs:
        for real, text in shown.items():
            command, output = command.replace(real, text), output.replace(real, text)
        printed.append(CommandOutput(command, without_notice(output), block.start))
    return f"{block.text}{outputs}", expected_code(block), code, printed


def run_block(script: str, folder: Path, env: Mapping[str, str]) -> tuple[int, list[tuple[str, str]]]:
    """Run the script of ``echo_commands``; return its exit code, and each command with its output."""
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    parts = (part.partition("\n") for part in done.stdout.split(SPLIT)[1:])
    return done.returncode, [(command, output) for command, _, output in parts]


def expected_code(block: Block) -> int:
    """Return the exit code that the mark of a block names; 0 if it names none."""
    return int(block.marker.partition("exit ")[2] or 0)


def write_outputs(path: Path, page_run: PageRun) -> None:
    """Replace the outputs on a page by those of its run."""
    text = path.read_text()
    for shown in reversed(output_blocks(text)):
        text = text[: shown.start] + page_run.output(shown) + text[shown.start + len(shown.text) :]
    path.write_text(text)


def output_blocks(page: str) -> list[Block]:
    """Return the blocks of a page that show the output of a command."""
    return [block for block in blocks(page) if block.marker.startswith("output of: ")]
