"""The pictures of the documentation, from real runs: ``python -m pictures [FOLDER]``, see ``make pictures``.

``session.svg`` shows commands on a terminal, ``session.cast`` the same for asciinema, each made of what the commands
print on a real ZooKeeper with simulated brokers. A test runs the session again and compares both files. The others are
pages in a headless Chromium: ``comment.png`` and ``plan.png`` of a plan on a real Kafka, ``drift.png`` of a report.
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
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from io import StringIO
from itertools import product
from pathlib import Path
from typing import NamedTuple

from demo import MANIFESTS
from markdown_it import MarkdownIt
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from topiarist.adapters.devcluster import simulated_kafka
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"

COLUMNS, ROWS = 64, 25
SESSION: Sequence[tuple[str, int]] = (
    ("topiarist plan manifests -q", 0),
    ("topiarist apply manifests --yes --adopt=clicks -q --summary", 0),
    ("topiarist plan manifests -q", 0),
)
"""The commands, with their exit codes."""

PAGE_WIDTH = 600
"""Pixels, so that a phone, which has some 400, still shows text that can be read."""

REPORTED = datetime(2026, 1, 31, 12)
"""The UTC time of the newest snapshots of the sample fleet."""

TEAMS = ("shop", "billing", "fraud", "search", "web", "logistics")
ENTITIES = ("orders", "payments", "clicks", "sessions", "carts", "prices", "stock", "audits", "emails", "refunds")

_DEFAULTS: Mapping[str, object] = {"partitions": 6, "retention.ms": "7d", "min.insync.replicas": 2}
_CHANGES: Mapping[str, Mapping[str, object]] = {
    "shop.clicks": {"retention.ms": "1d"},
    "web.sessions": {"retention.ms": "12h"},
    "search.clicks": {"retention.ms": "3d"},
    "shop.orders": {"partitions": 12},
    "shop.payments": {"partitions": 3},
    "billing.audits": {"retention.ms": "30d"},
    **{f"fraud.{entity}": {"retention.ms": "14d"} for entity in ENTITIES},
    **{f"logistics.{entity}": {"partitions": 9} for entity in ENTITIES[:6]},
}
"""What the plan of the pictures changes, by topic: three may lose data, and one is refused."""

_NEW = frozenset({"shop.refunds", "web.audits"})
_TOPIC = """\
apiVersion: topiarist.dev/v1
kind: Topic
metadata: {{name: {name}}}
spec:
  partitions: {partitions}
  replicationFactor: 3
  config:
    retention.ms: {retention}
    min.insync.replicas: {minimum}
"""
_CLUSTER = """\
apiVersion: topiarist.dev/v1
kind: Cluster
metadata: {{name: prod-eu}}
spec:
  clusterId: {cluster_id}
  kafka: {{bootstrapServers: "{bootstrap}"}}
"""
_COMMENT = """\
<!doctype html>
<meta charset="utf-8">
<style>
body {{ font: 14px/1.5 "Noto Sans", Helvetica, Arial, sans-serif; color: #1f2328; margin: 16px; }}
article {{ border: 1px solid #d1d9e0; border-radius: 6px; overflow: hidden; }}
header {{ background: #f6f8fa; border-bottom: 1px solid #d1d9e0; padding: 8px 16px; color: #59636e; }}
header b {{ color: #1f2328; }}
main {{ padding: 4px 16px; overflow-wrap: anywhere; }}
h3 {{ margin: 16px 0; }}
table {{ border-collapse: collapse; display: block; overflow: auto; margin-bottom: 16px; }}
th, td {{ border: 1px solid #d1d9e0; padding: 6px 13px; overflow-wrap: normal; }}
tr:nth-child(2n) {{ background: #f6f8fa; }}
code {{ background: #818b981f; border-radius: 6px; padding: 0.2em 0.4em; }}
pre {{ background: #f6f8fa; border-radius: 6px; padding: 16px; overflow: auto; }}
pre code {{ background: none; padding: 0; }}
ins {{ background: #dafbe1; color: #116329; text-decoration: none; }}
del {{ background: #ffebe9; color: #82071e; text-decoration: none; }}
code, pre {{ font: 85%/1.45 ui-monospace, "DejaVu Sans Mono", monospace; }}
</style>
<article><header><b>github-actions</b> bot commented 2 minutes ago</header><main>{body}</main></article>
"""

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


class Picture(NamedTuple):
    """A page that a picture shows from its top, and words that are typed into its search before."""

    name: str
    page: Path
    height: int
    search: str = ""


def take_screenshots(to: Path) -> None:
    """Write pictures of the comment and the page of a plan, and of the page of a drift report."""
    from support.drift.browser import launch_browser

    with tempfile.TemporaryDirectory(prefix="topiarist-pictures-") as name, launch_browser() as browser:
        folder = Path(name)
        write_plan(folder)
        for picture in (
            Picture("comment", folder / "comment.html", 1010),
            Picture("plan", folder / "plan.html", 1010, search="will be deleted"),
            Picture("drift", write_report(folder), 1330),
        ):
            size = {"width": PAGE_WIDTH, "height": picture.height}
            page = browser.new_page(viewport=size, color_scheme="light")
            page.clock.set_fixed_time(f"{REPORTED.isoformat()}Z")
            page.goto(picture.page.as_uri())
            if picture.search:
                page.locator("#search").fill(picture.search)
            page.wait_for_timeout(1000)
            page.screenshot(path=to / f"{picture.name}.png")


def write_plan(folder: Path) -> None:
    """Plan 60 topics on a real Kafka in KRaft mode: write ``plan.html``, and ``comment.html`` for the first team."""
    from support.kafka.jars import RELEASES
    from support.kafka.kraft import KraftCluster

    with KraftCluster(RELEASES[-1], {1: "a", 2: "b", 3: "c"}) as kafka:
        cluster = _CLUSTER.format(cluster_id=kafka.cluster_id, bootstrap=kafka.bootstrap)
        (folder / "cluster.yaml").write_text(cluster, encoding="utf-8")
        run = partial(_run_topiarist, folder)
        write_manifests(folder / "topics", {}, leaving_out=_NEW)
        run("apply", "topics", "cluster.yaml", "--yes")
        write_manifests(folder / "topics", _CHANGES)
        run("plan", "topics", "cluster.yaml", "--page", "plan.html")
        comment = run("plan", "topics", "cluster.yaml", "--topic", f"{TEAMS[0]}.*", "--format", "markdown")
    body = MarkdownIt("gfm-like", {"linkify": False}).render(comment)
    body = re.sub(r"(?m)^((?:<pre><code[^>]*>)?)(\+.*)$", r"\1<ins>\2</ins>", body)
    body = re.sub(r"(?m)^((?:<pre><code[^>]*>)?)(-.*)$", r"\1<del>\2</del>", body)
    (folder / "comment.html").write_text(_COMMENT.format(body=body), encoding="utf-8")


def write_manifests(
    folder: Path, changes: Mapping[str, Mapping[str, object]], *, leaving_out: frozenset[str] = frozenset()
) -> None:
    """Write the manifests of all topics but some, with changes of their default values by topic."""
    folder.mkdir(exist_ok=True)
    for name in {".".join(words) for words in product(TEAMS, ENTITIES)} - leaving_out:
        partitions, retention, minimum = ({**_DEFAULTS, **changes.get(name, {})}[key] for key in _DEFAULTS)
        text = _TOPIC.format(name=name, partitions=partitions, retention=retention, minimum=minimum)
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")


def write_report(folder: Path) -> Path:
    """Report on the sample fleet in five weeks, with more teams each time, and return the page of the last week."""
    run = partial(_run_topiarist, folder, codes=(0, 1))
    run("drift", "--demo", "fleet")
    options = ("--history", "history", "--owner-label", "team", "--upgrade-to", "4.4")
    manifests, snapshots = folder / "fleet" / "manifests", folder / "fleet" / "snapshots"
    for weeks, absent in enumerate(((), ("web",), (), ("marketing",), ("marketing", "logistics"))[::-1]):
        taken_at = f"{(REPORTED - timedelta(weeks=4 - weeks)).isoformat()}Z"
        for snapshot in snapshots.iterdir():
            text = snapshot.read_text(encoding="utf-8")
            snapshot.write_text(re.sub(r'"takenAt":"[^"]*"', f'"takenAt":"{taken_at}"', text), encoding="utf-8")
        topics = shutil.copytree(manifests, folder / f"manifests-{weeks}") / "topics"
        for team in absent:
            (topics / f"{team}.yaml").unlink()
        run("drift", f"manifests-{weeks}", "--snapshots", "fleet/snapshots", "--out", f"report-{weeks}", *options)
    return folder / f"report-{weeks}" / "report.html"


def _run_topiarist(folder: Path, *words: str, codes: Sequence[int] = (0,)) -> str:
    """Run a command in a folder and return its output; raise ``SystemExit`` if it ends with another code."""
    command = [sys.executable, "-m", "topiarist", *words]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if run.returncode not in codes:
        sys.exit(f"topiarist {shlex.join(words)}: exit code {run.returncode}:\n{run.stdout}{run.stderr}")
    return run.stdout


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
