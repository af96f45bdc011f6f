"""The pictures of the documentation, from real runs: ``python -m pictures [FOLDER]``, see ``make pictures``.

``session.svg`` shows commands on a terminal, ``session.cast`` the same for asciinema, each made of what the commands
print on a real ZooKeeper with simulated brokers. ``plan.png`` and ``drift.png`` are pages in a headless Chromium. A
test runs the session again and compares both files.
"""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from demo import MANIFESTS
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from topiarist.adapters.devcluster import simulated_kafka
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"

COLUMNS, ROWS = 100, 60
SESSION: Sequence[tuple[str, int]] = (
    ("topiarist plan manifests", 0),
    ("topiarist apply manifests --yes --adopt=clicks", 0),
    ("topiarist plan manifests", 0),
)
"""The commands, with their exit codes."""

_TYPING_S, _READING_S = 0.05, 2.5
_ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PROMPT = "\x1b[1;32m$\x1b[0m "
_THEME = TerminalTheme(
    (13, 17, 23),
    (201, 209, 217),
    [
        *((72, 79, 88), (255, 123, 114), (63, 185, 80), (210, 153, 34)),
        *((88, 166, 255), (188, 140, 255), (57, 197, 207), (177, 186, 196)),
    ],
    [
        *((110, 118, 129), (255, 161, 152), (86, 211, 100), (227, 179, 65)),
        *((121, 192, 255), (210, 168, 255), (86, 212, 221), (255, 255, 255)),
    ],
)
# rich's own frame loads a font from elsewhere.
_SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" class="rich-terminal" viewBox="0 0 {width} {height}" role="img"
  aria-label="A terminal with a plan, its application, and a second plan without changes">
<style>.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
{styles}</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>{lines}</defs>
<rect fill="#0d1117" width="{width}" height="{height}" rx="8"/>
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


class Recorded(NamedTuple):
    """A command, and what it printed on a terminal."""

    command: str
    output: str

    @property
    def text(self) -> str:
        """Return the output without colors."""
        return _ESCAPE.sub("", self.output)


def record_session() -> list[Recorded]:
    """Run the commands of the session on a terminal; raise ``SystemExit`` if one ends with another code."""
    with (
        tempfile.TemporaryDirectory(prefix="topiarist-pictures-") as folder,
        EmbeddedZooKeeper() as server,
        simulated_kafka.run_cluster(f"{server.connect}/kafka") as cluster,
    ):
        shutil.copytree(MANIFESTS, Path(folder, "manifests"))
        environment = {**os.environ, "TOPIARIST_ZOOKEEPER": cluster.connect, "TERM": "xterm-256color"}
        environment |= {"COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
        environment.pop("NO_COLOR", None)
        return [Recorded(command, _run(command, code, folder, environment)) for command, code in SESSION]


def _run(command: str, code: int, folder: str, environment: dict[str, str]) -> str:
    """Run a command on a terminal of its own, and return what it prints there."""
    ours, theirs = pty.openpty()
    subprocess.run(["stty", "cols", str(COLUMNS), "rows", str(ROWS)], stdin=theirs, check=True)
    words = [sys.executable, "-m", *shlex.split(command)]
    with subprocess.Popen(
        words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        parts = []
        while part := _read(ours):
            parts.append(part)
    os.close(ours)
    output = b"".join(parts).decode()
    if process.returncode != code:
        sys.exit(f"{command}: expected exit code {code}, found {process.returncode}:\n{output}")
    return _without_overwritten(output.replace("\r\n", "\n"))


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""  # the program has ended


def _without_overwritten(output: str) -> str:
    """Return the output without the texts of a progress line, which later texts replace."""
    return "\n".join(re.split(r"\r(?:\x1b\[K)?", line)[-1] for line in output.split("\n"))


def draw_session(session: Sequence[Recorded]) -> str:
    """Return the session as an SVG that loads nothing from elsewhere."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor")
    for recorded in session:
        console.print(Text.from_ansi(f"{_PROMPT}{recorded.command}"))
        console.print(Text.from_ansi(recorded.output.rstrip("\n")))
        console.print()
    return console.export_svg(theme=_THEME, code_format=_SVG, unique_id="session")


def list_cast(session: Sequence[Recorded]) -> Iterator[str]:
    """Yield the lines of the session in the format of asciinema, version 2, at the pace of a reader."""
    yield json.dumps({"version": 2, "width": COLUMNS, "height": ROWS, "title": "topiarist: plan, apply, plan"})
    at = 0.5
    for recorded in session:
        yield json.dumps([round(at, 2), "o", _PROMPT])
        for character in recorded.command:
            at += _TYPING_S
            yield json.dumps([round(at, 2), "o", character])
        at += 0.5
        yield json.dumps([round(at, 2), "o", "\r\n" + recorded.output.replace("\n", "\r\n")])
        at += _READING_S


def take_screenshots(to: Path) -> None:
    """Write pictures of the page of a plan and of the page of a drift report."""
    from support.drift.browser import launch_browser

    with tempfile.TemporaryDirectory(prefix="topiarist-pictures-") as name:
        folder = Path(name)
        topiarist = [sys.executable, "-m", "topiarist"]
        subprocess.run([*topiarist, "drift", "--demo", "fleet"], cwd=folder, check=False, capture_output=True)
        with EmbeddedZooKeeper() as server, simulated_kafka.run_cluster(f"{server.connect}/kafka") as cluster:
            shutil.copytree(MANIFESTS, folder / "manifests")
            plan = ["plan", "manifests", "--zookeeper", cluster.connect, "--adopt=*", "--page", "plan.html"]
            subprocess.run([*topiarist, *plan], cwd=folder, check=True, capture_output=True)
        with launch_browser() as browser:
            for picture, page in (("plan", "plan.html"), ("drift", "fleet/report/report.html")):
                opened = browser.new_page(viewport={"width": 1100, "height": 760}, color_scheme="light")
                opened.goto((folder / page).as_uri())
                opened.wait_for_timeout(1000)
                opened.screenshot(path=to / f"{picture}.png")


def main(arguments: list[str]) -> int:
    """Write all pictures into a folder; return the exit code."""
    to = Path(arguments[0]) if arguments else PICTURES
    to.mkdir(parents=True, exist_ok=True)
    session = record_session()
    (to / "session.svg").write_text(draw_session(session), encoding="utf-8")
    (to / "session.cast").write_text("\n".join(list_cast(session)) + "\n", encoding="utf-8")
    take_screenshots(to)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
