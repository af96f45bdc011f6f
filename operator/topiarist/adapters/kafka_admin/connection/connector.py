"""Open a connection to a broker: name lookup, TLS, versions, login; and find out why a server refuses.

A broker that gets what it does not expect closes the connection and gives no reason. After a failure, a second
connection finds out what the port is: one with TLS, one without, one with a login, a web server, or a ZooKeeper.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from topiarist.adapters import tls
from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.authentication import Authenticator, LoginRefused, RefusedByCluster
from topiarist.adapters.kafka_admin.connection.connection import (
    TOPIC_IDS_VERSION,
    UPDATE_METADATA_KEY,
    Connection,
    Disconnected,
)
from topiarist.adapters.kafka_admin.protocol.messages import MetadataRequest, SaslHandshakeRequest
from topiarist.adapters.tls import run_with_deadline
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import KafkaAccess
from topiarist.text import quote

# The addresses of brokers: parsed from text with errors for users, and looked up with a deadline.

Address = tuple[str, int]
"""A host name or an IP address without brackets, and a port."""

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


_CLOSED_AT_LOGIN = "as some do for a wrong user or password, and for a login at a listener that has none"


class UnknownHostError(OSError):
    """An error for a host name without an address."""


def open_sockets(address: Address, deadline: float) -> list[Callable[[], socket.socket]]:
    """Return for each IP address of a host a function that connects to it.

    ``deadline`` is a time of the monotonic clock. Each attempt takes at most its share of the remaining time, so that
    an IP address without an answer leaves time for the others. Raises ``OSError``, also from the functions.
    """
    try:
        found = run_with_deadline(
            lambda: socket.getaddrinfo(*address),
            deadline,
            "the name lookup took too long",
        )
    except (socket.gaierror, UnicodeError) as error:
        why = error.strerror if isinstance(error, socket.gaierror) and error.strerror else "not a host name"
        raise UnknownHostError(0, f"{address[0]} has no address ({why.lower()})") from None
    targets = list(dict.fromkeys((family, target) for family, _, _, _, target in found))

    def opener(index: int) -> Callable[[], socket.socket]:
        return lambda: _open_socket(*targets[index], share(deadline, len(targets) - index))

    return [opener(index) for index in range(len(targets))]


def share(deadline: float, attempts: int) -> float:
    """Return the seconds for one of the remaining attempts; raise ``TimeoutError`` after the deadline."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError("no answer in time")
    return remaining / attempts


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


class Connector:
    """Opens the connections of one session. ``connect_timeout`` is for everything until a connection can be used.

    Brokers of Kafka before 2.8 are refused, unless ``accepts_old_brokers`` is true. Services that are no such brokers
    may have no topic ids either.
    """

    def __init__(
        self,
        access: KafkaAccess,
        connect_timeout: float,
        requests: Counter[tuple[str, str]],
        *,
        accepts_old_brokers: bool = False,
    ) -> None:
        self._accepts_old_brokers = accepts_old_brokers
        self._access = access
        self._connect_timeout = connect_timeout
        self._requests = requests
        self._authenticator = Authenticator(access)

    def check_credentials(self) -> None:
        """Read all secrets once, to report a missing one before connecting; raise ``CredentialsInvalid``."""
        self._authenticator.check()

    def open(self, address: Address) -> Connection:
        """Return a connection to a broker that is ready for requests; every IP address of the host is tried.

        Raises ``OSError`` and ``Disconnected`` for a failure that may be temporary, and ``TopiaristError`` for a
        refusal.
        """
        deadline = time.monotonic() + self._connect_timeout
        openers = open_sockets(address, deadline)
        for index, opener in enumerate(openers):
            is_last = index == len(openers) - 1
            try:
                return self._open(address, opener, time.monotonic() + share(deadline, len(openers) - index))
            except (OSError, Disconnected):
                if is_last:
                    raise
            except tls.AuthRejected as error:
                if is_last or isinstance(error, LoginRefused):
                    raise _authentication_error(address, error) from None
        raise UnknownHostError(0, f"{address[0]} has no address")

    def _open(self, address: Address, opener: Callable[[], socket.socket], deadline: float) -> Connection:
        plain = opener()
        peer: Address = plain.getpeername()[:2]
        try:
            plain.settimeout(share(deadline, 1))
            settings = self._access.tls
            opened = tls.wrap_socket(plain, peer, address[0], settings, _plaintext_port()) if settings else plain
        except BaseException:
            plain.close()
            raise
        connection = Connection(opened, timeout=self._access.request_timeout, requests=self._requests)
        try:
            self._greet(connection, peer, deadline)
            self._log_in(connection, address, deadline)
        except BaseException:
            connection.close()
            raise
        return connection

    def _greet(self, connection: Connection, peer: Address, deadline: float) -> None:
        """Ask for the versions of the broker, and explain why it does not answer."""
        try:
            answer = connection.read_versions(timeout=share(deadline, 1))
        except Disconnected as error:
            if self._access.tls:
                if isinstance(error.__cause__, ssl.SSLError):
                    raise tls.AuthRejected(
                        tls.describe_alert(error.__cause__, self._access.tls, _plaintext_port())
                    ) from None
                raise
            if tls.accepts_tls(peer):
                raise tls.AuthRejected(
                    "this port accepts TLS only: add tls, or use the brokers' port without TLS"
                ) from None
            if other := _identify(peer):
                raise OSError(0, f"{other} answered: use the brokers' port") from None
            raise
        if answer.error_code == error_codes.UNSUPPORTED_VERSION:
            raise _too_old()
        if answer.error_code:
            raise OSError(0, f"it answered ApiVersions with {error_codes.describe_error(answer.error_code)}")
        if MetadataRequest.API_KEY not in connection.versions:
            message = "it is a controller of a KRaft cluster: use the brokers' port (it does not offer Metadata)"
            raise OSError(0, message)
        newest = connection.versions[MetadataRequest.API_KEY][1]
        is_old = newest < TOPIC_IDS_VERSION and UPDATE_METADATA_KEY in connection.versions
        if is_old and not self._accepts_old_brokers:
            raise _too_old(f"they offer Metadata up to version {newest}, not {TOPIC_IDS_VERSION}, which has topic ids")

    def _log_in(self, connection: Connection, address: Address, deadline: float) -> None:
        if self._access.sasl:
            try:
                connection.log_in_again_at = self._authenticator.log_in(connection, address[0], deadline)
            except Disconnected as error:
                if not isinstance(error.__cause__, OSError):
                    raise
                message = f"{error} at the login by {self._access.sasl.mechanism.value}, {_CLOSED_AT_LOGIN}"
                raise Disconnected(message, was_sent=error.was_sent) from error
            connection.log_in_again = lambda: self._renew(connection, address)
            return
        request = MetadataRequest(allow_auto_topic_creation=False)
        try:
            connection.call(request, timeout=share(deadline, 1))
        except Disconnected as error:
            if self._access.tls and isinstance(error.__cause__, ssl.SSLError):
                message = tls.describe_alert(error.__cause__, self._access.tls, _plaintext_port())
                raise tls.AuthRejected(message) from None
            if mechanisms := self._required_mechanisms(address, deadline):
                raise tls.AuthRejected(f"it requires a login by {mechanisms}: add sasl") from None
            raise

    def _renew(self, connection: Connection, address: Address) -> float | None:
        deadline = time.monotonic() + self._access.request_timeout
        try:
            return self._authenticator.log_in(connection, address[0], deadline)
        except tls.AuthRejected as error:
            raise _authentication_error(address, error) from None

    def _required_mechanisms(self, address: Address, deadline: float) -> str:
        """Return the SASL mechanisms of a listener that closes a connection without a login; empty without them."""
        try:
            opener = open_sockets(address, deadline)[0]
            plain = opener()
            settings = self._access.tls
            opened = tls.wrap_socket(plain, address, address[0], settings, _plaintext_port()) if settings else plain
        except (OSError, tls.AuthRejected, TopiaristError):
            return ""
        connection = Connection(opened, timeout=tls.PROBE_TIMEOUT_S, requests=self._requests)
        try:
            answer = connection.call(SaslHandshakeRequest(), version=1)
        except Disconnected:
            return ""
        finally:
            connection.close()
        is_sasl = answer.error_code in (error_codes.NONE, error_codes.UNSUPPORTED_SASL_MECHANISM)
        return ", ".join(sorted(map(str, answer.mechanisms))) if is_sasl else ""


def accepts_plaintext(address: Address) -> bool:
    """Return True if a broker answers at the port without TLS."""
    try:
        opened = socket.create_connection(address, tls.PROBE_TIMEOUT_S)
    except OSError:
        return False
    connection = Connection(opened, timeout=tls.PROBE_TIMEOUT_S)
    try:
        connection.read_versions()
    except Disconnected:
        return False
    finally:
        connection.close()
    return True


def _plaintext_port() -> tls.PlaintextPort:
    message = "this port does not accept TLS: use the port of the brokers' TLS listener, or remove tls"
    return tls.PlaintextPort(accepts_plaintext, message)


def _identify(address: Address) -> str:
    """Return what other server answers at the port; empty if none is recognized.

    ZooKeeper takes the first four bytes for a command, a web server the whole line for a malformed request.
    """
    try:
        with socket.create_connection(address, tls.PROBE_TIMEOUT_S) as probe:
            probe.sendall(b"srvr\r\n\r\n")
            answer = probe.recv(64)
    except OSError:
        return ""
    if answer.startswith((b"HTTP/", b"<")):
        return "a web server"
    return "a ZooKeeper" if b"ookeeper" in answer or b"whitelist" in answer else ""


def _authentication_error(address: Address, error: tls.AuthRejected) -> TopiaristError:
    message = f"cannot log in to Kafka at {format_address(address)}: {error}"
    kind = RefusedByCluster if isinstance(error, LoginRefused) else TopiaristError
    return kind(Reason.AUTHENTICATION_FAILED, message)


def _too_old(why: str = "they cannot read version 3 of ApiVersions") -> RefusedByCluster:
    return RefusedByCluster(
        Reason.PREREQUISITE_MISSING,
        f"the brokers are older than Kafka 2.8, or answer as if they were: {why}",
        "reach Apache Kafka before 2.8 with via: ZooKeeper",
    )
