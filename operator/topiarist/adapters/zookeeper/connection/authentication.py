"""Getting in: a connection to a server, encrypted or not, a login, and what stood in the way, in words.

kazoo takes a refusal for a broken network and tries for ever, or says nothing at all. Here a server that refuses us is
remembered: when all have been tried and its turn comes again, it is over. Below stand ``tls``, ``sasl`` and
``credentials``; above, ``sockets`` (which connects) and ``session`` (which raises ``refusal``).
"""

from __future__ import annotations

import errno
import secrets
import socket
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import AuthFailedError, ConnectionDropped, SessionClosedRequireSaslError
from kazoo.protocol.connection import AUTH_XID, ConnectionHandler
from kazoo.protocol.serialization import SASL, Auth
from kazoo.retry import RetryFailedError

from topiarist.adapters.zookeeper.connection import sasl, tls
from topiarist.adapters.zookeeper.connection.secrets import read_password
from topiarist.errors import Reason, TopiaristError
from topiarist.model.credentials import Credentials, UserPassword

SaslExchange = Callable[[bytes], bytes | None]
"""Sends a SASL token and gives the server's, None for none."""

_SASL_XID = 1

_REFUSED_CODES = (AuthFailedError.code, SessionClosedRequireSaslError.code)


class Authenticator:
    """One session's way in. ``refusal`` is what the last server had against us, None as long as none has anything."""

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials
        self.refusal: TopiaristError | None = None
        self._refusing_servers: set[tls.Address] = set()
        self._server = ""
        self._is_accepted = False

    def connect(self, address: tls.Address, hostname: str, timeout: float, no_response: bool) -> socket.socket:
        """A connection to one server, which was ``no_response`` if it said nothing before it closed the last one.

        Raises ``RetryFailedError``, which ends kazoo's trying, if it has refused us before, and ``OSError``.
        """
        self._server = f"{hostname}:{address[1]}"
        if address in self._refusing_servers:
            raise RetryFailedError("every server has been tried")
        self._is_accepted = False
        try:
            found = self._open_socket(address, hostname, timeout, no_response)
        except (tls.AuthRejected, TopiaristError) as error:
            self._refusing_servers.add(address)
            raise OSError(errno.ECONNABORTED, str(self._record_refusal(error))) from None
        except TimeoutError:
            raise OSError(errno.ETIMEDOUT, "no answer in time") from None
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found

    def on_connected(self) -> None:
        """Note that a server has let us in: what others had against us before is over."""
        self.refusal = None
        self._is_accepted = True
        self._refusing_servers.clear()

    def log_in(self, login: UserPassword, exchange: SaslExchange) -> None:
        """Log in by SASL. Raises kazoo's ``AuthFailedError`` if that was refused."""
        challenge = exchange(b"")
        if challenge is None:
            raise self.login_error("it has no SASL: its JAAS configuration knows no users")
        try:
            ours = sasl.build_response(challenge, login.username, read_password(login), secrets.token_hex(16))
        except ValueError as error:
            raise self.login_error(str(error)) from None
        try:
            reply = exchange(ours.token)
        except AuthFailedError:
            reply = None
        if reply is None:
            raise self.login_error(f"it refused SASL user {login.username} or the password, it does not say which")
        if not sasl.is_server_proof_valid(reply, ours):
            raise self.login_error("it does not know our password: it is not the server that it should be")

    def credential_error(self, error: TopiaristError) -> ConnectionDropped:
        """What to raise where a secret can no longer be read: it may come back before the session is over."""
        self._record_refusal(error)
        return ConnectionDropped(str(error))

    def on_login_required(self) -> None:
        """Note that the server has ended the session because it wants another login than ours."""
        self._record_refusal(tls.AuthRejected(f"it wants another login; ours is {self.credentials.principal}"))

    def login_error(self, why: str) -> AuthFailedError:
        """What to raise where a server has refused a login."""
        self._record_refusal(tls.AuthRejected(why))
        return AuthFailedError(why)

    def _open_socket(self, address: tls.Address, hostname: str, timeout: float, silent: bool) -> socket.socket:
        ours = self.credentials.tls
        if ours:
            encrypted = tls.connect(address, hostname, timeout, ours)
            encrypted.on_alert = lambda error: self._on_tls_alert(address, tls.describe_alert(error, ours))
            return encrypted
        if silent and tls.accepts_tls(address):
            raise tls.AuthRejected("this port speaks TLS only: add tls, or take the servers' clientPort")
        return socket.create_connection(address, timeout)

    def _on_tls_alert(self, address: tls.Address, why: str) -> None:
        """A server has broken the connection and said why; once it has let us in, it may break as any other."""
        if not self._is_accepted:
            self._record_refusal(tls.AuthRejected(why))
            self._refusing_servers.add(address)

    def _record_refusal(self, error: Exception) -> TopiaristError:
        if not isinstance(error, TopiaristError):
            message = f"no entry to ZooKeeper at {self._server}: {error}"
            error = TopiaristError(Reason.AUTHENTICATION_FAILED, message)
        self.refusal = error
        return error


class LoginConnection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's connection with a login of ours.

    Its own asks a server that has no SASL again and again, without end, and keeps a password for as long as it lives.
    """

    def __init__(self, client: Any, authenticator: Authenticator) -> None:
        # Options that are not None make kazoo call the method below, at every connection.
        super().__init__(client, client._conn_retry.copy(), logger=client.logger, sasl_options={})
        self._authenticator = authenticator

    def _authenticate_with_sasl(self, _host: str, timeout: float) -> None:
        credentials = self._authenticator.credentials
        try:
            if credentials.sasl:
                self._authenticator.log_in(credentials.sasl, lambda token: self._exchange_sasl_token(token, timeout))
            if credentials.digest:
                self._log_in_digest(credentials.digest, timeout)
        except TopiaristError as error:
            raise self._authenticator.credential_error(error) from None

    def _log_in_digest(self, login: UserPassword, timeout: float) -> None:
        try:
            self._invoke(timeout, Auth(0, "digest", f"{login.username}:{read_password(login)}"), xid=AUTH_XID)
        except AuthFailedError:
            raise self._authenticator.login_error("it takes no logins by digest") from None

    def _exchange_sasl_token(self, token: bytes, timeout: float) -> bytes | None:
        self._submit(SASL(token), timeout, _SASL_XID)
        header, buffer, offset = self._read_header(timeout)
        if header.err in _REFUSED_CODES:
            raise AuthFailedError
        if header.err or header.xid != _SASL_XID:
            raise ConnectionDropped(f"unexpected answer to SASL: error {header.err}")
        found: bytes | None = SASL.deserialize(buffer, offset)[0]
        return found
