"""Runs of topiarist in a process of their own, and the manifests that they are given."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple


class RunResult(NamedTuple):
    """How a run ended, and what it said on both streams."""

    code: int
    out: str
    err: str


def start_topiarist(*words: str | Path) -> subprocess.Popen[str]:
    """Begin a run that hears signals, even if we were started to ignore them."""
    return subprocess.Popen(
        [sys.executable, "-m", "topiarist", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def run_topiarist(*words: str | Path, timeout: float = 60.0) -> RunResult:
    """A whole run; one that takes longer than so many seconds hangs."""
    running = start_topiarist(*words)
    out, err = running.communicate(timeout=timeout)
    return RunResult(running.returncode, out, err)


def connect_string_of(server: socket.socket) -> str:
    """The connect string of a server, or of a port where there is none."""
    return f"127.0.0.1:{server.getsockname()[1]}"


def document(kind: str, name: str, **spec: Any) -> str:
    """A manifest on a line of its own; JSON is YAML too."""
    return json.dumps({"apiVersion": "topiarist.dev/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})


def write_manifests(folder: Path, connects: Mapping[str, str], *topics: str) -> Path:
    """A folder with clusters by their connect strings, in ``clusters.yaml``, and topics meant for all of them."""
    folder.mkdir(exist_ok=True)
    found = [document("Cluster", name, zookeeper={"connect": at}) for name, at in connects.items()]
    (folder / "clusters.yaml").write_text("\n---\n".join(found))
    spec = {"clusters": list(connects), "partitions": 3, "replicationFactor": 3, "config": {"retention.ms": 5000}}
    (folder / "topics.yaml").write_text("\n---\n".join(document("Topic", name, **spec) for name in topics))
    return folder
