"""Files that a forked process parses: the same result as without it, also if the process fails."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from topiarist.adapters.manifests import loader
from topiarist.adapters.manifests.loader import Loaded, load_manifests
from topiarist.adapters.manifests.source import Document, File

TOPIC = """\
apiVersion: topiarist.dev/v1
kind: Topic
metadata:
  name: {name}
  labels: {{team: shop}}
spec:
  partitions: 3
  config: {{retention.ms: 7d, min.cleanable.dirty.ratio: 0.5}}
"""
CLUSTER = """\
apiVersion: topiarist.dev/v1
kind: Cluster
metadata: {name: eu}
spec: {zookeeper: {connect: "zk:2181"}}
"""
FILES = {
    "two": f"# é\n{TOPIC.format(name='a')}---\n{TOPIC.format(name='b')}",
    "cluster": CLUSTER,
    "invalid": TOPIC.format(name="c").replace("partitions: 3", "partitions: 0"),
    "one-of-two-is-invalid": f"{TOPIC.format(name='d')}---\n{TOPIC.format(name='e')}  typo: 1\n",
    "ambiguous": TOPIC.format(name="f").replace("7d", "yes"),
    "foreign": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
    "foreign-and-own": f"apiVersion: v1\nkind: ConfigMap\n---\n{TOPIC.format(name='g')}",
    "empty": "",
    "comment": "# nothing\n",
    "no-yaml": "a: [",
    "no-text": "\udcff",
    "text": "just text\n",
    "topiarist": "manifests: [topics]\n",
    "unnamed": TOPIC.format(name="h").replace("  name: h\n", ""),
    "plain": TOPIC.format(name="z"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of files of every kind, four of each, so that both processes get some."""
    for number in range(4):
        for name, text in FILES.items():
            path = (
                tmp_path / f"{number}-{name}.yaml" if name != "topiarist" else tmp_path / f"{number}" / f"{name}.yaml"
            )
            path.parent.mkdir(exist_ok=True)
            changed = text.replace("name: ", f"name: t{number}") if name != "unnamed" else text
            path.write_bytes(changed.encode(errors="surrogateescape"))
    return tmp_path


def _describe(loaded: Loaded) -> object:
    """Return everything that was loaded, with the text and the place of each document instead of its source."""
    manifests = [
        (each[:-1], source.locate(("spec",)), source.file, source.start, source.end, source.line)
        for each in loaded.manifests
        if isinstance(source := each.source, Document)
    ]
    return manifests, loaded._replace(manifests=())


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Fork for any number of files; return a list that gets the numbers of files that a process parsed."""
    started: list[int] = []
    parse = loader.start_parsing

    def start(files: Sequence[File]) -> object:
        found = parse(files)
        started.extend([len(files)] if found else [])
        return found

    monkeypatch.setattr(loader, "MIN_FILES", 1)
    monkeypatch.setattr(loader, "start_parsing", start)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # pytest's own threads hold no lock that the parser takes
    return started


def test_a_forked_process_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch, forks: list[int]) -> None:
    """Manifests, errors, warnings and counts are the same in the same order, with their places."""
    forked = _describe(load_manifests([str(folder)], may_fork=True))
    assert forks == [28]
    monkeypatch.setattr(loader, "start_parsing", lambda files: None)
    assert forked == _describe(load_manifests([str(folder)], may_fork=True))
    assert len(load_manifests([str(folder)], may_fork=True).manifests) == 5 * 4 + 4


@pytest.mark.parametrize("way", ["killed", "raised", "ended", "interrupted", "no status"])
def test_files_of_a_process_that_fails_are_parsed_here(
    folder: Path, monkeypatch: pytest.MonkeyPatch, forks: list[int], way: str
) -> None:
    """Whatever ends the process, the result is that of one process."""
    here = os.getpid()
    parse = loader._parse_valid

    def fail(*given: object) -> object:
        if os.getpid() == here:
            return parse(*given)  # type: ignore[arg-type]
        if way == "killed":
            os.kill(os.getpid(), 9)
        if way == "interrupted":
            os.kill(os.getpid(), signal.SIGINT)
        if way == "no status":
            return parse(*given)  # type: ignore[arg-type]
        if way == "raised":
            raise KeyboardInterrupt
        os._exit(1)

    def find_no_status(process: int, _: int) -> tuple[int, int]:
        os.waitid(os.P_PID, process, os.WEXITED)
        raise ChildProcessError(10, "No child processes")

    monkeypatch.setattr(loader, "_parse_valid", fail)
    if way == "no status":
        monkeypatch.setattr(os, "waitpid", find_no_status)
    handlers = signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    forked = _describe(load_manifests([str(folder)], may_fork=True))
    assert forks == [28]
    assert handlers == (signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    monkeypatch.setattr(loader, "start_parsing", lambda files: None)
    assert forked == _describe(load_manifests([str(folder)], may_fork=True))


@pytest.mark.parametrize("reason", ["few files", "one processor", "threads", "another system", "no process"])
def test_nothing_is_forked_where_it_gains_nothing_or_is_not_safe(
    folder: Path, monkeypatch: pytest.MonkeyPatch, forks: list[int], reason: str
) -> None:
    """The files are parsed here then."""
    match reason:
        case "few files":
            monkeypatch.setattr(loader, "MIN_FILES", 29)
        case "one processor":
            monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
        case "threads":
            monkeypatch.setattr(threading, "active_count", lambda: 2)
        case "another system":
            monkeypatch.setattr(sys, "platform", "darwin")
        case "no process":

            def refuse() -> int:
                raise BlockingIOError(11, "Resource temporarily unavailable")

            monkeypatch.setattr(os, "fork", refuse)
    assert len(load_manifests([str(folder)], may_fork=True).manifests) == 24
    assert forks == []


def test_only_a_process_that_allows_it_forks(folder: Path, forks: list[int]) -> None:
    """A process that imports topiarist for its own work is never forked."""
    assert len(load_manifests([str(folder)]).manifests) == 24
    assert forks == []


@pytest.mark.slow
def test_large_files_are_parsed_before_all_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, forks: list[int]
) -> None:
    """What waits is bounded, and the result does not depend on it."""
    whole = _describe(load_manifests([str(folder)], may_fork=True))
    monkeypatch.setattr(loader, "_MAX_WAITING_BYTES", 600)
    forks.clear()
    assert _describe(load_manifests([str(folder)], may_fork=True)) == whole
    assert len(forks) > 5
