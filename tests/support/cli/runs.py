"""Runs of topiarist, in this process and in processes of their own, and the manifests for these runs."""

from __future__ import annotations

import contextlib
import io
import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.secret_scanner import assert_no_secrets
from topiarist.cli.main import run


class RunResult(NamedTuple):
    """The result of a run: its exit code and the output on both streams."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """Return the standard output on one line, with one blank between words."""
        return " ".join(self.out.split())


def start_topiarist(*words: str | Path) -> subprocess.Popen[str]:
    """Start a run that handles signals, even if the test process ignores them."""
    return subprocess.Popen(
        [sys.executable, "-m", "topiarist", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def run_process(*words: str | Path, timeout: float = 60.0) -> RunResult:
    """Run topiarist in a process of its own; one that exceeds this number of seconds counts as hung."""
    running = start_topiarist(*words)
    out, err = running.communicate(timeout=timeout)
    return RunResult(running.returncode, out, without_notice(err))


def run_topiarist(*words: str | Path) -> RunResult:
    """Run topiarist in this process, as a command without a terminal and with nothing on standard input.

    A thread has no signals, so its run gets a process of its own. A test of signals, kills, closed streams or terminals
    needs ``start_topiarist``.
    """
    if threading.current_thread() is not threading.main_thread():
        return run_process(*words, timeout=300.0)
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(3)]
    with (
        contextlib.redirect_stdout(streams[0]),
        contextlib.redirect_stderr(streams[1]),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "stdin", streams[2])
        code = run([str(word) for word in words])
    out, err = (stream.buffer.getvalue().decode() for stream in streams[:2])
    assert_no_secrets(out + err, "the output of a run")
    return RunResult(code, out, without_notice(err))


def without_notice(err: str) -> str:
    """Return what a run printed on standard error, without the notice of a busy machine that connecting takes long."""
    return re.sub(r"^connecting to .*\n", "", err, flags=re.MULTILINE)


def connect_string_of(server: socket.socket) -> str:
    """Return the connect string of a server, or of a port without a server."""
    return f"127.0.0.1:{server.getsockname()[1]}"


def document(kind: str, name: str, **spec: Any) -> str:
    """Return a manifest on one line; JSON is valid YAML."""
    return json.dumps({"apiVersion": "topiarist.dev/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})


def write_manifests(folder: Path, connects: Mapping[str, str], *topics: str) -> Path:
    """Write a folder with clusters by connect string in ``clusters.yaml``, and topics that select all clusters."""
    folder.mkdir(exist_ok=True)
    found = [document("Cluster", name, zookeeper={"connect": at}) for name, at in connects.items()]
    (folder / "clusters.yaml").write_text("\n---\n".join(found))
    spec = {"clusters": list(connects), "partitions": 3, "replicationFactor": 3, "config": {"retention.ms": 5000}}
    (folder / "topics.yaml").write_text("\n---\n".join(document("Topic", name, **spec) for name in topics))
    return folder
