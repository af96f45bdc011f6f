"""A minimal ZooKeeper client that reads a cluster without any code under test.

It uses the standard library only and only reads. ``checker`` uses it.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

GET_DATA, GET_CHILDREN, CLOSE = 4, 8, -11

_STAT = struct.Struct("!qqqqiiiqiiq")


class Node(NamedTuple):
    """A znode: its data (None: null) and the relevant fields of its stat."""

    data: bytes | None
    czxid: int
    mzxid: int
    version: int
    ephemeral_owner: int


def read_tree(connect: str) -> dict[str, Node]:
    """Return every znode below the chroot of ``connect`` (``host:port/chroot``), by its path without the chroot."""
    hosts, slash, chroot = connect.partition("/")
    root = slash + chroot
    with _session(hosts) as wire:
        found: dict[str, Node] = {}
        waiting = [""]
        while waiting:
            path = waiting.pop()
            node = wire.get(root + path or "/")
            if node is None:
                continue  # deleted after its parent was listed
            found[path or "/"] = node
            waiting += [f"{path}/{child}" for child in wire.children(root + path or "/")]
        return found


class _Wire:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._stream = connection.makefile("rb")
        self._xid = 0
        self._call(struct.pack("!iqiqi", 0, 0, 10_000, 0, 16) + bytes(16))

    def get(self, path: str) -> Node | None:
        """Return one znode, or None if it does not exist."""
        reply = self._request(GET_DATA, path)
        if reply is None:
            return None
        (length,) = struct.unpack_from("!i", reply)
        end = 4 + max(length, 0)
        czxid, mzxid, _, _, version, _, _, owner, _, _, _ = _STAT.unpack_from(reply, end)
        return Node(None if length < 0 else reply[4:end], czxid, mzxid, version, owner)

    def children(self, path: str) -> list[str]:
        """Return the names of a znode's children; empty if it does not exist."""
        reply = self._request(GET_CHILDREN, path)
        if reply is None:
            return []
        (count,) = struct.unpack_from("!i", reply)
        names, position = [], 4
        for _ in range(count):
            (length,) = struct.unpack_from("!i", reply, position)
            names.append(reply[position + 4 : position + 4 + length].decode())
            position += 4 + length
        return names

    def close(self) -> None:
        """End the session."""
        self._xid += 1
        self._call(struct.pack("!ii", self._xid, CLOSE))
        self._stream.close()

    def _request(self, opcode: int, path: str) -> bytes | None:
        self._xid += 1
        name = path.encode()
        reply = self._call(struct.pack("!iii", self._xid, opcode, len(name)) + name + b"\0")
        (error,) = struct.unpack_from("!i", reply, 12)
        if error == -101:
            return None
        if error:
            raise OSError(f"ZooKeeper answered {error} for {path}")
        return reply[16:]

    def _call(self, body: bytes) -> bytes:
        self._connection.sendall(struct.pack("!i", len(body)) + body)
        head = self._stream.read(4)
        if len(head) < 4:
            raise ConnectionError("ZooKeeper closed the connection")
        return self._stream.read(struct.unpack("!i", head)[0])


@contextmanager
def _session(hosts: str) -> Iterator[_Wire]:
    host, _, port = hosts.split(",")[0].partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        wire = _Wire(connection)
        yield wire
        wire.close()
