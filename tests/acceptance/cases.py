"""Acceptance cases: folders below ``tests/examples`` with manifests, cluster state and expected output.

``case.yaml`` has ``about``, one sentence on the purpose of the case; ``commands``, each the arguments after
``topiarist`` (``< FILE`` at the end is standard input), by default ``plan .`` where there is a ``state.yaml``, else
``validate .``; and ``manifests``, the paths of the manifests for a plan before the first command, by default the whole
folder (empty: no such plan). ``validates`` stands for many small cases in one folder: each file or folder of manifests
is validated by itself, and has its own sentence. ``links`` are created in the copy in which a case runs. ``written`` is
a folder that the commands write: its files are printed at the end.

``state.yaml`` describes a cluster (or several, under ``clusters``), which is created in a real ZooKeeper; if there is
only one, every command gets its address from the environment. ``expected.txt`` is the whole output of all commands with
their exit codes. Cases that ``all_forms.yaml`` names also have ``plan.json`` and ``plan.md``, the plan before the first
command, as JSON and as a comment; ``plan_forms`` compares both forms with the plan in all other cases. ``make golden``
rewrites all of them. ``ZOOKEEPER`` replaces the server's real address everywhere, also in manifests.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from kazoo.client import KazooClient

from support.cli.runs import without_notice
from support.zookeeper.client import connect_client
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.saved_plans.encode import compute_fingerprint
from topiarist.cli.main import run
from topiarist.kafka.types import Broker

EXAMPLES = Path(__file__).parents[1] / "examples"
ZOOKEEPER = "zookeeper.example:2181"

GOLDEN_FILES = ("expected.txt", "plan.json", "plan.md")
"""The names of all golden files; ``compare`` in ``test_examples.py`` writes them."""

_CASE_FILES = ("case.yaml", "state.yaml", *GOLDEN_FILES)
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Case(NamedTuple):
    """A case in one folder."""

    folder: Path
    about: tuple[str, ...]
    commands: tuple[str, ...]
    manifests: str
    links: dict[str, str]
    written: str
    has_state: bool
    has_all_forms: bool

    @property
    def name(self) -> str:
        """Return the path below ``examples``."""
        return _name(self.folder)

    def read_state(self) -> dict[str, Any]:
        """Read ``state.yaml``; empty if there is no cluster."""
        return dict(_load(self.folder / "state.yaml")) if self.has_state else {}

    def golden_files(self) -> set[Path]:
        """Return the golden files that the case may have: those of an empty output do not exist."""
        return {self.folder / name for name in (GOLDEN_FILES if self.has_all_forms else GOLDEN_FILES[:1])}

    def copy(self, to: Path, address: str) -> Path:
        """Copy the case's manifests to the empty folder ``to``, with ZooKeeper's real address in them."""
        ignored = shutil.ignore_patterns(*_CASE_FILES)
        shutil.copytree(self.folder, to, ignore=ignored, dirs_exist_ok=True)
        for name, target in self.links.items():
            (to / name).symlink_to(target)
        for path in to.rglob("*.yaml"):
            if address and path.is_file() and not path.is_symlink():
                path.write_bytes(path.read_bytes().replace(ZOOKEEPER.encode(), address.encode()))
        return to


@cache
def find_cases() -> tuple[Case, ...]:
    """Return every case: each folder that has a ``case.yaml``."""
    return tuple(_read_case(path.parent) for path in sorted(EXAMPLES.rglob("case.yaml")))


@cache
def read_all_forms() -> Mapping[str, str]:
    """Return the names of the cases with golden files of all forms, each with what only this case shows."""
    return dict(_load(EXAMPLES / "all_forms.yaml"))


def find_stale_files(folder: Path, cases: Iterable[Case]) -> list[Path]:
    """Return the golden files below ``folder`` that none of ``cases`` writes, sorted."""
    written = {path for case in cases for path in case.golden_files()}
    return sorted({path for name in GOLDEN_FILES for path in folder.rglob(name)} - written)


def _name(folder: Path) -> str:
    return folder.relative_to(EXAMPLES).as_posix()


def _read_case(folder: Path) -> Case:
    told, has_state = _load(folder / "case.yaml"), (folder / "state.yaml").exists()
    parts = told.get("validates", {})
    default = [f"validate {part}" for part in parts] or ["plan ." if has_state else "validate ."]
    return Case(
        folder,
        (told["about"], *parts.values()),
        tuple(told.get("commands", default)),
        told.get("manifests", "."),
        told.get("links", {}),
        told.get("written", ""),
        has_state,
        _name(folder) in read_all_forms(),
    )


def _load(path: Path) -> Any:
    return yaml.load(path.read_bytes(), _Loader) or {}


@contextmanager
def create_clusters(state: dict[str, Any], connect: str) -> Iterator[Callable[[], None]]:
    """Create the clusters of a ``state.yaml``; return a function that waits until their controllers are idle.

    ``clusters``: name to the following keys, each at ``connect`` with ``-NAME`` appended. ``kafka: false``: no cluster,
    only ``znodes``. ``brokers``: id to rack (default six in three racks); ``release``: the Kafka release (default 3.9);
    ``deletion``: false for brokers with ``delete.topic.enable=false``; ``earlier``: records that are older than the
    topics; ``topics``: name to ``replicas`` and ``config``; ``records``: name to the record's text, written after the
    topics; ``gone``: brokers that go offline; ``znodes``: path to text, set or created at the very end (null: deleted).
    """
    with ExitStack() as stack:
        parts = {f"{connect}-{name}": part for name, part in state.get("clusters", {}).items()} or {connect: state}
        found = [stack.enter_context(_create_cluster(part, address)) for address, part in parts.items()]

        def settle() -> None:
            for cluster in found:
                if cluster:
                    cluster.wait_idle()

        yield settle


@contextmanager
def _create_cluster(state: dict[str, Any], connect: str) -> Iterator[SimulatedKafka | None]:
    if not state.get("kafka", True):
        address, _, chroot = connect.partition("/")
        with connect_client(address) as client:
            for path, text in state.get("znodes", {}).items():
                _write_node(client, f"/{chroot}{path}", text)
        yield None
        return
    racks = state.get("brokers", dict(enumerate("abcabc", start=1)))
    release = tuple(map(int, str(state.get("release", "3.9")).split(".")))
    with SimulatedKafka(connect, [Broker(*pair) for pair in racks.items()], (release[0], release[1])) as cluster:
        cluster.deletion_enabled = state.get("deletion", True)
        _fill(cluster, state)
        yield cluster


def _fill(cluster: SimulatedKafka, state: dict[str, Any]) -> None:
    for path in ("/topiarist", "/topiarist/topics") if state.get("records") or state.get("earlier") else ():
        cluster.client.create(path, b"")
    for name, record in state.get("earlier", {}).items():
        cluster.client.create(f"/topiarist/topics/{name}", record.encode())
    for name, topic in state.get("topics", {}).items():
        replicas = tuple(map(tuple, topic["replicas"]))
        cluster.add_topics(Topic(name, replicas, {key: str(text) for key, text in topic.get("config", {}).items()}))
    for name, record in state.get("records", {}).items():
        cluster.client.create(f"/topiarist/topics/{name}", record.encode())
    for broker in state.get("gone", []):
        cluster.remove_broker(broker)
    for path, text in state.get("znodes", {}).items():
        _write_node(cluster.client, path, text)


def _write_node(client: KazooClient, path: str, text: str | None) -> None:
    if text is None:
        client.delete(path)
    elif client.exists(path):
        client.set(path, text.encode())
    else:
        client.create(path, text.encode(), makepath=True)


def run_command(command: str) -> str:
    """Return both output streams and the exit code of a command line, like a copy of a terminal.

    The time of a freeze and the topic ids differ from run to run: one fixed time and one fixed id replace them.
    """
    out, err, words, stdin = io.StringIO(), io.StringIO(), shlex.split(command), sys.stdin
    if "<" in words:
        *words, _, name = words
        sys.stdin = io.TextIOWrapper(io.BytesIO(Path(name).read_bytes()))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = run(words)
    finally:
        sys.stdin = stdin
    parts = [f"$ topiarist {command}", out.getvalue().rstrip("\n")]
    # This message appears only if a machine under load connects slowly.
    if said := without_notice(err.getvalue()):
        parts += ["--- stderr", said.rstrip("\n")]
    text = "\n".join(filter(None, [*parts, f"--- exit {code}"])) + "\n"
    text = re.sub(r'(topic id +|"topicId": ")[\w-]{22}\b', rf"\g<1>{'A' * 22}", text)
    # A line may be broken before the time.
    return re.sub(r"(since\s+)[-0-9]+T[:0-9]+Z", r"\g<1>2026-01-31T12:00:00Z", text)


def written_files(folder: str) -> Iterator[str]:
    """Return the files below ``folder``, each under its name; empty if no folder is given."""
    for path in sorted(Path(folder).rglob("*")) if folder else ():
        if path.is_file():
            yield f"=== {path}\n{path.read_text(encoding='utf-8')}"


def render_plan(manifests: str, form: str) -> str:
    """Return the plan as ``plan --format FORM`` prints it; empty if there is none."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        run(["plan", *shlex.split(manifests), "--format", form])
    return out.getvalue()


def plan_json(manifests: str) -> str:
    """Return the plan as JSON; empty if there is none.

    Identities (ZooKeeper's transaction numbers) and topic ids differ from run to run: 0 and a fixed text replace them.
    The fingerprint, which covers them, is checked here and then computed from the replaced content.
    """
    text = render_plan(manifests, "json")
    if not text:
        return ""
    content = json.loads(text)
    assert content["fingerprint"] == compute_fingerprint(content)
    plain = re.sub(r'"identity": "[0-9]+"', '"identity": "0"', text)
    plain = re.sub(r'"topicId": "[^"]{22}"', f'"topicId": "{"A" * 22}"', plain)
    return plain.replace(content["fingerprint"], compute_fingerprint(json.loads(plain)))
