"""No ZooKeeper at an address: messages with the address, its origin, and the option that overrides it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from support.cli.runs import connect_string_of, write_manifests
from support.network.listener import Listener
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.cli.main import run
from topiarist.errors import Exit
from topiarist.runs import sessions


class WebServer(Listener):
    """A server that answers every request as a web server answers an invalid one."""

    def serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            client.recv(1000)
            client.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


@contextmanager
def refusing() -> Iterator[str]:
    """An address that refuses connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = connect_string_of(server)
    yield where


@contextmanager
def hanging() -> Iterator[str]:
    """An address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield connect_string_of(server)


@contextmanager
def web() -> Iterator[str]:
    """An address that serves HTTP."""
    with WebServer() as server:
        yield f"127.0.0.1:{server.port}"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the delay of the remark about a slow connection, so that no test waits for it."""
    monkeypatch.setattr(sessions, "_CONNECT_NOTICE_DELAY_S", 0.05)


WHY = {
    refusing: ("Connection refused",),
    hanging: ("no answer within 1.5 s", "no answer in time"),
    web: ("a web server answered: use the servers' clientPort",),
}


@pytest.mark.parametrize("place", WHY, ids=lambda place: place.__name__)
@pytest.mark.parametrize("given", ["option", "variable", "document"])
def test_what_is_tried_and_where_it_is_from(
    place: object, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run prints one line during the attempt, and one error with a hint that names the origin of the address and
    its override.
    """
    with place() as where:  # type: ignore[operator]
        words = ["plan", str(write_manifests(tmp_path / "all", {"prod": where}, "orders")), "--connect-timeout", "1.5"]
        file = tmp_path / "all" / "clusters.yaml"
        column = file.read_text().index(f'"{where}"') + 1
        origin, override = f"Cluster prod at {file}:1:{column}", "--zookeeper HOST:PORT overrides it"
        if given == "option":
            words += ["--zookeeper", where]
            origin, override = "--zookeeper", "correct it there"
        elif given == "variable":
            monkeypatch.setenv("TOPIARIST_ZOOKEEPER", where)
            origin = "TOPIARIST_ZOOKEEPER"
        assert run(words) == Exit.ERROR
    said = capsys.readouterr().err.splitlines()
    first, error, hint = said[:3]
    assert first == f"connecting to {where}, given by {origin}"
    assert error in [f"error: cluster prod: cannot reach ZooKeeper at {where}: {why}" for why in WHY[place]]  # type: ignore[index]
    assert hint == f"    the address was given by {origin}; {override}"
    assert len([line for line in said if line.startswith("connecting")]) == 1


def test_quietly_only_the_error_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``-q`` omits the remark; the error still has the address and its origin."""
    with refusing() as where:
        folder = write_manifests(tmp_path / "all", {"prod": where}, "orders")
        assert run(["plan", str(folder), "-q", "--connect-timeout", "0.3"]) == Exit.ERROR
    said = capsys.readouterr().err
    assert "connecting to" not in said
    assert f"the address was given by Cluster prod at {folder / 'clusters.yaml'}:1:" in said


def test_a_connection_in_time_is_not_talked_about(
    cluster: SimulatedKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fast connection causes no remark, regardless of the duration of the plan."""
    monkeypatch.setattr(sessions, "_CONNECT_NOTICE_DELAY_S", 60.0)
    assert run(["plan", str(write_manifests(tmp_path / "all", {"prod": cluster.connect}, "orders"))]) == Exit.DONE
    assert capsys.readouterr().err == ""


def test_several_clusters_have_a_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each cluster has at most one line; the hint names their documents, since an option could mean any of them."""
    with refusing() as one, hanging() as other:
        folder = write_manifests(tmp_path / "all", {"a": one, "b": other}, "orders")
        assert run(["plan", str(folder), "--connect-timeout", "0.5"]) == Exit.ERROR
    lines = capsys.readouterr().err.splitlines()
    tried = [line.split(",")[0] for line in lines if line.startswith("connecting")]
    assert sorted(tried) == sorted(f"connecting to {where}" for where in (one, other))
    assert len([line for line in lines if line.endswith("; correct it there")]) == 2
