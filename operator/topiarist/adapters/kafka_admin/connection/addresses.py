"""The addresses of brokers: parsed from text with errors for users, and looked up with a deadline."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from topiarist.errors import Reason, TopiaristError
from topiarist.text import quote

Address = tuple[str, int]
"""A host name or an IP address without brackets, and a port."""

_Value = TypeVar("_Value")
_MAX_PORT = 65_535


def parse_bootstrap_servers(text: str) -> list[Address]:
    """Return the hosts and ports of ``host:port,host:port``; raise ``WrongUsage`` for other text.

    An IPv6 address is in brackets: ``[2001:db8::1]:9092``.
    """

    def malformed(why: str) -> TopiaristError:
        message = f"{quote(text)} is not a list of brokers: {why}"
        return TopiaristError(Reason.WRONG_USAGE, message, "write host1:9092,host2:9092")

    addresses: list[Address] = []
    for part in text.split(","):
        host, colon, port = part.rpartition(":")
        if not part or part != "".join(part.split()):
            raise malformed("a broker is empty or contains blanks")
        if "/" in part:
            raise malformed("it has a scheme or a path; brokers have neither")
        if not colon or not (port.isascii() and port.isdigit() and 1 <= int(port) <= _MAX_PORT):
            raise malformed("each broker needs a port from 1 to 65535")
        if host.startswith("[") and host.endswith("]") and ":" in host:
            host = host[1:-1]
        elif ":" in host or "[" in host or "]" in host:
            raise malformed("an IPv6 address is written in brackets, as in [2001:db8::1]:9092")
        if not host:
            raise malformed("a host is empty")
        addresses.append((host, int(port)))
    return list(dict.fromkeys(addresses))


def format_address(address: Address) -> str:
    """Return an address as text, with brackets around an IPv6 address."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def open_sockets(address: Address, deadline: float) -> list[Callable[[], socket.socket]]:
    """Return for each IP address of a host a function that connects to it.

    ``deadline`` is a time of the monotonic clock. Each attempt takes at most its share of the remaining time, so that
    an IP address without an answer leaves time for the others. Raises ``OSError``, also from the functions.
    """
    try:
        found = run_with_deadline(
            lambda: socket.getaddrinfo(address[0], address[1], type=socket.SOCK_STREAM),
            deadline,
            "the name lookup took too long",
        )
    except (socket.gaierror, UnicodeError) as error:
        why = error.strerror if isinstance(error, socket.gaierror) and error.strerror else "not a host name"
        raise OSError(0, f"{address[0]} has no address ({why.lower()})") from None
    targets = list(dict.fromkeys((family, target) for family, _, _, _, target in found))

    def opener(index: int) -> Callable[[], socket.socket]:
        return lambda: _open_socket(*targets[index], share(deadline, len(targets) - index))

    return [opener(index) for index in range(len(targets))]


def share(deadline: float, attempts: int) -> float:
    """Return the seconds for one of the remaining attempts; raise ``TimeoutError`` after the deadline."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError("no answer in time")
    return max(remaining / attempts, 0.001)


def run_with_deadline(work: Callable[[], _Value], deadline: float, late: str) -> _Value:
    """Return what ``work`` returns, or raise what it raises; raise ``TimeoutError`` after the deadline.

    Late work goes on in its thread: a name lookup, for example, cannot be stopped.
    """
    results: list[_Value] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # raised in the thread of the caller
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True, name="topiarist-deadline")
    thread.start()
    thread.join(max(deadline - time.monotonic(), 0))
    if results:
        return results[0]
    if errors:
        raise errors[0]
    raise TimeoutError(late)


def _open_socket(family: int, target: Any, timeout: float) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.settimeout(timeout)
        opened.connect(target)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        opened.close()
        raise
    return opened
