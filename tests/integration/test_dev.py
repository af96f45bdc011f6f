"""``topiarist dev``: the manifests that it writes lead to the cluster that it runs, and to schemas that are there."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
import yaml

from support.waiting import read_until
from support.zookeeper.client import connect_client
from topiarist.adapters.devcluster import simulated_kafka
from topiarist.adapters.devcluster.zookeeper_server import free_port

DEV = [sys.executable, "-m", "topiarist", "dev"]
SCHEMA = re.compile(r"^# yaml-language-server: [$]schema=(\S+)$", re.MULTILINE)


@contextmanager
def running(*args: str) -> Iterator[str]:
    """Run the command until the block ends; gives what it printed."""
    with subprocess.Popen([*DEV, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout
        try:
            yield read_until(process.stdout, "Ctrl-C")
        finally:
            process.send_signal(signal.SIGINT)
            process.stdout.read()


def topiarist(*args: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a terminal of its own."""
    words = [sys.executable, "-m", "topiarist", *args]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_manifests_lead_to_the_cluster(tmp_path: Path) -> None:
    """Its port, its name and its id are those of the Cluster document, so that no other option is needed."""
    port, ids = free_port(), []
    for folder in (tmp_path / "one", tmp_path / "two"):
        with running("--manifests", str(folder), "--name", "local", "--port", str(port)) as said:
            assert f"The test cluster is running at   127.0.0.1:{port}/kafka\n" in said
            document = yaml.safe_load((folder / "cluster.yaml").read_text())
            with connect_client(f"127.0.0.1:{port}/kafka") as client:
                ids.append(json.loads(client.get("/cluster/id")[0])["id"])
            assert (document["metadata"]["name"], document["spec"]["clusterId"]) == ("local", ids[-1])
            assert document["spec"]["zookeeper"] == {"connect": f"127.0.0.1:{port}/kafka"}
            planned = topiarist("plan", str(folder))
            assert (planned.returncode, planned.stderr) == (0, "")
            assert planned.stdout.startswith(f"local   cluster {ids[-1]}, ")
            assert topiarist("apply", str(folder), "--adopt=clicks", "--yes").returncode == 0
    assert ids[0] != ids[1]


def test_editors_find_the_schemas() -> None:
    """Each manifest names a schema by an address that leads to a file, wherever the manifest is."""
    found = simulated_kafka.render_manifests("local", "127.0.0.1:1/kafka", "id")
    assert sorted(found) == ["cluster.yaml", "topics/clicks.yaml", "topics/orders.yaml", "topics/payments.yaml"]
    for name, text in found.items():
        address = urlsplit(SCHEMA.findall(text)[0])
        path = Path(url2pathname(address.path))
        assert (address.scheme, path.name) == ("file", "cluster.json" if name == "cluster.yaml" else "topic.json")
        assert json.loads(path.read_text())["$schema"]


@pytest.mark.slow
def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    """One line and exit 1; nothing is written."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = topiarist("dev", "--port", str(port), "--manifests", str(tmp_path / "new"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: another process uses port {port} of 127.0.0.1\n    give another port")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["Local", "a_b", "-a", "a" * 64, "a\nb"])
def test_a_name_that_no_cluster_may_have_is_wrong_usage(name: str) -> None:
    """It would be refused as soon as the manifests are read."""
    done = topiarist("dev", "--name", name)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "wanted 1 to 63 lowercase letters" in done.stderr


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A file in the way ends in a line, and the server ends too."""
    (tmp_path / "file").write_text("")
    done = topiarist("dev", "--manifests", str(tmp_path / "file" / "below"))
    assert done.returncode == 1
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
