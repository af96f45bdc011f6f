"""The embedded ZooKeeper: it starts, serves, survives and ends, and says clearly why if it cannot."""

from __future__ import annotations

import importlib.util
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.exceptions import ConnectionLoss

from support.waiting import is_alive, wait_until
from support.zookeeper.client import connect_client
from support.zookeeper.server import RestartableZooKeeper
from topiarist.adapters.devcluster import zookeeper_server
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper, free_port
from topiarist.errors import Reason, TopiaristError

PARENT = """
import sys
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
server = EmbeddedZooKeeper().start()
print(server.pid, server.directory, flush=True)
sys.stdin.read()
"""


def fake_java(folder: Path, said: str) -> None:
    """Put a ``java`` that only says its version under ``folder/bin``."""
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    java.chmod(0o755)


def test_ports_are_not_given_twice_and_not_to_outgoing_connections() -> None:
    """A port stays free between its choice and its use: clients get higher ones, and bound ones are skipped."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", free_port()))
        ports = [free_port() for _ in range(5_000)]
        assert other.getsockname()[1] not in ports
    assert len({*ports}) == len(ports)
    assert 20_000 <= min(ports) <= max(ports) < 32_768


@pytest.mark.slow
def test_it_serves_on_loopback_and_leaves_nothing_behind() -> None:
    """A started server accepts writes; after the end its process and its folder do not exist any more."""
    with EmbeddedZooKeeper() as server:
        pid, directory = server.pid, server.directory
        assert server.connect.startswith("127.0.0.1:")
        with connect_client(server.connect) as client:
            client.create("/here", b"1")
            assert client.get("/here")[0] == b"1"
        assert is_alive(pid)
        assert "clientPortAddress is 127.0.0.1" in (directory / "log").read_text()
    assert not is_alive(pid)
    assert not directory.exists()


@pytest.mark.slow
def test_a_restart_keeps_address_and_data() -> None:
    """After a restart clients find the same address and what they had written."""
    with RestartableZooKeeper() as server:
        address, first = server.connect, server.pid
        with connect_client(address) as client:
            client.create("/kept", b"2")
        server.restart()
        assert (server.connect, is_alive(first)) == (address, False)
        with connect_client(address) as client:
            assert client.get("/kept")[0] == b"2"


@pytest.mark.slow
def test_killed_is_gone_until_restarted() -> None:
    """After kill nothing listens, and stop may come twice."""
    server = EmbeddedZooKeeper().start()
    try:
        server.kill()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", server.port))
    finally:
        server.stop()
        server.stop()


@pytest.mark.slow
def test_settings_and_java_options_reach_the_server() -> None:
    """A line of zoo.cfg and a system property given by the caller are in force."""
    with EmbeddedZooKeeper(settings={"tickTime": "700"}, jvm_options=["-Djute.maxbuffer=2000"]) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(b"conf")
            assert b"tickTime=700\n" in raw.makefile("rb").read()
        with connect_client(server.connect) as client, pytest.raises(ConnectionLoss):
            client.create("/large", bytes(3000))


def test_it_dies_with_its_parent() -> None:
    """A process that is killed without any chance to clean up takes its server along."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout
        pid, directory = parent.stdout.readline().split()
        assert is_alive(int(pid))
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_alive(int(pid)), "the server to end")
    subprocess.run(["rm", "-r", directory], check=True)


@pytest.mark.slow
def test_a_taken_port_is_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """If another process takes the port first, the server tries another one."""
    free = free_port()
    with socket.create_server(("127.0.0.1", 0)) as other:
        ports = iter([other.getsockname()[1], free])
        monkeypatch.setattr(zookeeper_server, "free_port", lambda: next(ports))
        with EmbeddedZooKeeper() as server:
            assert server.port == free


def test_a_server_that_cannot_start_says_why() -> None:
    """The last lines of the server's own log are part of the error, and nothing is left running."""
    server = EmbeddedZooKeeper(jvm_options=["-XX:NoSuchOption"])
    with pytest.raises(TopiaristError, match=r"ended with exit code 1.*\n.*NoSuchOption") as caught:
        server.start()
    assert caught.value.reason is Reason.UNREACHABLE
    assert not server.directory.exists()


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "is version 11.0.2"),
        ('java version "1.8.0_392"', "is version 1.8.0_392"),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.".replace("'", ""), "was not found"),
        (None, "was not found"),
    ],
    ids=["11", "8", "stub", "none"],
)
def test_without_a_java_that_will_do_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str | None, found: str
) -> None:
    """No Java, or too old a one: what is needed, what was found, and how to get it, in one line."""
    if said:
        fake_java(tmp_path, said)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(TopiaristError) as caught:
        EmbeddedZooKeeper().start()
    message = str(caught.value)
    assert caught.value.reason is Reason.PREREQUISITE_MISSING
    assert found in message
    assert "Java 17 or later" in message
    assert "openjdk" in message
    assert "\n" not in message


def test_java_is_looked_for_on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without JAVA_HOME the path decides."""
    fake_java(tmp_path, 'openjdk version "21" 2023-09-19')
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert zookeeper_server.find_java() == str(tmp_path / "bin" / "java")


def test_without_pyspark_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark brings the jars; where it is not installed the message says how to install it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(TopiaristError, match=r"jars of PySpark, needs .* pip install .*'pyspark>=4.1'") as caught:
        zookeeper_server.find_jars()
    assert caught.value.reason is Reason.PREREQUISITE_MISSING


def test_pyspark_itself_is_not_imported() -> None:
    """Finding the jars must not cost the seconds that importing PySpark does."""
    code = (
        "import sys; from topiarist.adapters.devcluster.zookeeper_server import find_jars; "
        "find_jars(); print('pyspark' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "False\n"
