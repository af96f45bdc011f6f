"""A ZooKeeper client for the use of the test only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kazoo.client import KazooClient


@contextmanager
def connect_client(connect: str) -> Iterator[KazooClient]:
    """Yield a client that is connected until the ``with`` block ends."""
    client = KazooClient(connect)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def expire_session(connect: str, session: tuple[int, bytes]) -> None:
    """Expire the session of another client: reattach to the session and close it."""
    thief = KazooClient(connect, client_id=session)
    thief.start()
    thief.stop()
    thief.close()
