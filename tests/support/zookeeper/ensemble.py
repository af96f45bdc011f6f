"""Three ZooKeeper servers that elect a leader, each a separate process, from the same jars as the single server."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Self

from support.network.relay import Relay, forward
from support.waiting import wait_until
from support.zookeeper.proxy import Proxy
from support.zookeeper.server import RestartableZooKeeper
from topiarist.adapters.devcluster.zookeeper_server import MAIN_CLASS, free_port

MEMBER_COUNT = 3

LISTEN_TIMEOUT_S = 10.0
"""Seconds after its election in which a leader listens."""


class PausableRelay(Relay):
    """A relay from a leader to a follower; a closed relay delays all data and loses nothing."""

    def __init__(self, upstream: tuple[str, int]) -> None:
        super().__init__(upstream)
        self.flowing = threading.Event()
        self.flowing.set()

    def serve(self, client: socket.socket) -> None:
        """Forward bytes until one side closes.

        A leader may not listen yet when its follower connects. A refused follower connects again, but a follower with
        an accepted and then broken connection starts a new vote, and the leader waits for it for 20 seconds without
        result.
        """
        with client, suppress(OSError), self._connect_upstream() as server:
            self._ends += [client, server]
            back = threading.Thread(target=forward, args=(server, client, self.flowing.wait), daemon=True)
            back.start()
            forward(client, server)
            back.join()

    def _connect_upstream(self) -> socket.socket:
        """Connect to the leader once it listens."""
        deadline = time.monotonic() + LISTEN_TIMEOUT_S
        while True:
            try:
                return socket.create_connection(self._upstream)
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


class Member(RestartableZooKeeper):
    """One server of the ensemble.

    It responds only after it has found another server, so a test does not wait for its start.
    """

    def __init__(self, number: int, ports: Sequence[tuple[int, int]]) -> None:
        """``ports`` are the ports of each server for followers and for elections.

        The connections to the other servers use relays.
        """
        self.number = number
        self.relays = {
            n: PausableRelay(("127.0.0.1", peer)) for n, (peer, _) in enumerate(ports, start=1) if n != number
        }
        servers = {
            f"server.{n}": f"127.0.0.1:{peer if n == number else self.relays[n].port}:{vote}"
            for n, (peer, vote) in enumerate(ports, start=1)
        }
        super().__init__(settings={**servers, "initLimit": "20", "syncLimit": "20", "cnxTimeout": "1"})

    def start(self) -> Self:
        """Start the server; its service depends on the other servers."""
        for valve in self.relays.values():
            valve.__enter__()
        return super().start()

    def stop(self) -> None:
        """Stop the server and its relays."""
        super().stop()
        for valve in self.relays.values():
            valve.flowing.set()
            valve.__exit__()

    def _launch(self, port: int) -> bool:
        data = self.directory / "data"
        data.mkdir(exist_ok=True)
        (data / "myid").write_text(f"{self.number}\n")
        return super()._launch(port)

    def _build_command(self) -> list[str]:
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return [main if word == MAIN_CLASS else word for word in super()._build_command()]

    def _is_ready(self) -> bool:
        return True

    @property
    def role(self) -> str:
        """``leader``, ``follower``, or empty while it serves no clients."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(b"srvr")
                with connection.makefile("rb") as reply:
                    said = reply.read().decode()
        except OSError:
            return ""
        return said.partition("Mode: ")[2].partition("\n")[0]


class Ensemble:
    """``with Ensemble() as ensemble: connect_to(ensemble.connect)``; all three serve when the block begins."""

    def __init__(self) -> None:
        # None that the system gives to others: they could take the port of a server that is down, and keep it down.
        ports = [(free_port(), free_port()) for _ in range(MEMBER_COUNT)]
        self.members = [Member(number, ports) for number in range(1, MEMBER_COUNT + 1)]

    def __enter__(self) -> Self:
        for member in self.members:
            member.start()
        self.restore_members()
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.stop()

    @property
    def connect(self) -> str:
        """The connect string of all servers."""
        return ",".join(member.connect for member in self.members)

    @property
    def leader(self) -> Member:
        """Return the present leader."""
        return next(member for member in self.members if member.role == "leader")

    @property
    def followers(self) -> list[Member]:
        """Return the followers."""
        return [member for member in self.members if member.role == "follower"]

    def restore_members(self) -> None:
        """Start all stopped servers, and wait until all three serve."""
        for member in self.members:
            if not member.alive:
                member.restart()
        wait_until(
            lambda: sorted(member.role for member in self.members) == ["follower", "follower", "leader"], "a leader"
        )


class EnsembleProxies:
    """A proxy in front of each server: ``with Gates(ensemble) as gates: connect_to(gates.connect)``."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.proxies = {member.number: Proxy(member.connect) for member in ensemble.members}
        self.triggered = threading.Event()

    def __enter__(self) -> Self:
        for proxy in self.proxies.values():
            proxy.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        for proxy in self.proxies.values():
            proxy.__exit__()

    @property
    def connect(self) -> str:
        """The connect string with all of them."""
        return ",".join(proxy.connect for proxy in self.proxies.values())

    def hold(self, write: int, action: Callable[[int], None]) -> None:
        """Run ``action`` once, with the number of the write, before the given write on any client's server."""

        def once(number: int) -> None:
            if not self.triggered.is_set():
                self.triggered.set()
                action(number)

        for number, proxy in self.proxies.items():
            proxy.hold(write, partial(once, number))
