"""A client of a ZooKeeper that is nobody's but the test's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient


@contextmanager
def connect_client(connect: str) -> Iterator[KazooClient]:
    """A client that is connected until the ``with`` block ends."""
    client = KazooClient(connect)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def expire_session(connect: str, session: tuple[int, bytes]) -> None:
    """End somebody's session: it is taken over, and closed."""
    thief = KazooClient(connect, client_id=session)
    thief.start()
    thief.stop()
    thief.close()
