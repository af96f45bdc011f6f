"""Connect to a server, log in, and record why a server refuses.

kazoo takes a refusal for a network failure and retries forever, or reports nothing. ``Authenticator`` remembers each
server that refuses the credentials; once kazoo would try such a server again, connecting ends. ``session`` raises
``Authenticator.refusal``.
"""

from __future__ import annotations

import errno
import hmac
import os
import re
import socket
import ssl
from collections.abc import Callable
from hashlib import md5
from typing import Any

from kazoo.exceptions import AuthFailedError, ConnectionDropped, SessionClosedRequireSaslError
from kazoo.protocol.connection import AUTH_XID, ConnectionHandler
from kazoo.protocol.serialization import SASL, Auth
from kazoo.retry import RetryFailedError
from msgspec import Struct

from topiarist.adapters import tls
from topiarist.adapters.tls import build_ssl_context, read_secret
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import Credentials, Kerberos, UserPassword

# The client's side of SASL DIGEST-MD5 (RFC 2831): answer a challenge, check the server's proof.
#
# kazoo leaves this mechanism to a library that is no longer maintained, and kazoo's loop around the library never ends
# with a server that has no SASL. Pure: ``Authenticator`` has the connection and the password.

DIGEST_URI = b"zookeeper/zk-sasl-md5"
"""Service and host, which ZooKeeper has hard-coded for this mechanism."""

_FIELD = re.compile(rb'\s*,*\s*([a-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^",\s]+))\s*(?=,|$)', re.DOTALL)


class DigestResponse(Struct, frozen=True):
    """The token to send, and the proof that a server returns if it knows the password."""

    token: bytes
    server_proof: bytes


def build_response(challenge: bytes, username: str, password: str, nonce: str) -> DigestResponse:
    """Return the response to a challenge.

    ``nonce`` is the client's, new for each login. Raises ``ValueError`` if the challenge is malformed or of another
    mechanism.
    """
    fields = parse_fields(challenge)
    qops = fields.get(b"qop", b"auth").replace(b" ", b"").split(b",")
    supported = fields.get(b"algorithm") == b"md5-sess" and fields.get(b"charset") == b"utf-8" and b"auth" in qops
    if b"nonce" not in fields or not supported:
        raise ValueError("the server's SASL challenge is not one of DIGEST-MD5 with qop auth")
    realm, server_nonce, client_nonce = fields.get(b"realm", b""), fields[b"nonce"], nonce.encode()
    text = f"{username}:{realm.decode()}:{password}"
    # RFC 2831 hashes Latin-1 if it has all characters, else UTF-8. The token itself is always UTF-8.
    charset = "latin-1" if all(character <= "\xff" for character in text) else "utf-8"
    secret = md5(text.encode(charset), usedforsecurity=False).digest()
    session = _md5_hex(b":".join((secret, server_nonce, client_nonce)))
    response, proof = (
        _md5_hex(b":".join((session, server_nonce, b"00000001", client_nonce, b"auth", _md5_hex(method + DIGEST_URI))))
        for method in (b"AUTHENTICATE:", b":")
    )
    names = {
        b"username": username.encode(),
        b"realm": realm,
        b"nonce": server_nonce,
        b"cnonce": client_nonce,
        b"digest-uri": DIGEST_URI,
    }
    parts = [name + b'="' + re.sub(rb'(["\\])', rb"\\\1", value) + b'"' for name, value in names.items()]
    parts += [b"charset=utf-8", b"nc=00000001", b"qop=auth", b"response=" + response]
    return DigestResponse(b",".join(parts), proof)


def is_server_proof_valid(reply: bytes, expected: DigestResponse) -> bool:
    """Return True if the server's reply proves that the server knows the password."""
    return hmac.compare_digest(parse_fields(reply).get(b"rspauth", b""), expected.server_proof)


def parse_fields(text: bytes) -> dict[bytes, bytes]:
    """Return the fields of a challenge, unquoted; of equal names the first counts.

    Raises ``ValueError`` if the challenge is malformed.
    """
    fields: dict[bytes, bytes] = {}
    end = 0
    while match := _FIELD.match(text, end):
        quoted, plain = match[2], match[3]
        fields.setdefault(match[1], plain if quoted is None else re.sub(rb"\\(.)", rb"\1", quoted, flags=re.DOTALL))
        end = match.end()
    if text[end:].strip(b", \t\r\n"):
        raise ValueError("the server's SASL challenge is malformed")
    return fields


def _md5_hex(text: bytes) -> bytes:
    return md5(text, usedforsecurity=False).hexdigest().encode()


SaslExchange = Callable[[bytes], bytes | None]
"""A function that sends a SASL token and returns the server's token, None if the server sends none."""

_SASL_XID = 1
_KERBEROS_ADVICE = "its log has the cause, such as a keytab without a key for this host name, or another clock"
_REFUSED_CODES = (AuthFailedError.code, SessionClosedRequireSaslError.code)


def check_credentials(credentials: Credentials) -> None:
    """Read all secrets once, to report a missing one before connecting; raise ``CredentialsInvalid``."""
    for login in (credentials.sasl, credentials.digest):
        if isinstance(login, UserPassword):
            read_secret(login.password)
        elif login:
            from topiarist.adapters import kerberos

            kerberos.check(login)
    if credentials.tls:
        build_ssl_context(credentials.tls)


def accepts_plaintext(address: tls.Address) -> bool:
    """Return True if the port answers ZooKeeper's four-letter words, which means that it has no TLS."""
    try:
        with socket.create_connection(address, tls.PROBE_TIMEOUT_S) as probe:
            probe.sendall(b"srvr")
            return bool(probe.recv(1))
    except OSError:
        return False


PLAINTEXT_PORT = tls.PlaintextPort(
    accepts_plaintext, "this port does not accept TLS: use the servers' secureClientPort, or remove tls"
)


class Authenticator:
    """The login of one session.

    ``refusal`` is the error of the last server that refused the credentials, None if no server has.
    """

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials
        self.refusal: TopiaristError | None = None
        self._refusing_servers: set[tls.Address] = set()
        self._server = ""
        self._is_accepted = False

    def connect(self, address: tls.Address, hostname: str, timeout: float, no_response: bool) -> socket.socket:
        """Return a connection to one server.

        ``no_response`` is True if the server sent nothing before it closed the previous connection. Raises
        ``RetryFailedError``, which ends kazoo's retries, if this server has refused the credentials before, and
        ``OSError``.
        """
        self._server = f"{hostname}:{address[1]}"
        if address in self._refusing_servers:
            raise RetryFailedError("every server has been tried")
        self._is_accepted = False
        try:
            connection = self._open_socket(address, hostname, timeout, no_response)
        except (tls.AuthRejected, TopiaristError) as error:
            self._refusing_servers.add(address)
            raise OSError(errno.ECONNABORTED, str(self.record_refusal(error))) from None
        except TimeoutError:
            raise OSError(errno.ETIMEDOUT, "no answer in time") from None
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def on_connected(self) -> None:
        """Record that a server has accepted the credentials, and clear earlier refusals."""
        self.refusal = None
        self._is_accepted = True
        self._refusing_servers.clear()

    def log_in(self, login: UserPassword, exchange: SaslExchange) -> None:
        """Log in by SASL; raise kazoo's ``AuthFailedError`` if the server refuses."""
        challenge = exchange(b"")
        if challenge is None:
            raise self.login_error("it does not offer SASL: its JAAS configuration has no users")
        try:
            response = build_response(challenge, login.username, read_secret(login.password), os.urandom(16).hex())
        except ValueError as error:
            raise self.login_error(str(error)) from None
        try:
            reply = exchange(response.token)
        except AuthFailedError:
            reply = None
        if reply is None:
            raise self.login_error(f"it refused the SASL user {login.username} or the password, without saying which")
        if not is_server_proof_valid(reply, response):
            raise self.login_error("it did not prove that it knows the password: it may be another server")

    def log_in_by_kerberos(self, login: Kerberos, host: str, exchange: SaslExchange) -> None:
        """Log in by SASL GSSAPI; raise kazoo's ``AuthFailedError`` if the server refuses or is another one."""
        from topiarist.adapters.kerberos import KerberosExchange

        try:
            client = KerberosExchange(login, host)
            while not client.is_done():
                try:
                    token = exchange(client.auth_bytes())
                except AuthFailedError:
                    token = None
                if token is None and not client.is_last:
                    raise tls.AuthRejected(f"it refused {login.subject}, or has no Kerberos: {_KERBEROS_ADVICE}")
                client.receive(token or b"")
            if not client.is_authenticated():
                raise tls.AuthRejected("it did not prove who it is")
        except (tls.AuthRejected, TopiaristError) as error:
            raise AuthFailedError(str(self.record_refusal(error))) from None

    def on_login_required(self) -> None:
        """Record that the server has ended the session because it requires another login."""
        self.record_refusal(tls.AuthRejected(f"it requires another login than {self.credentials.principal}"))

    def login_error(self, why: str) -> AuthFailedError:
        """Record that a server has refused a login, and return the error to raise."""
        self.record_refusal(tls.AuthRejected(why))
        return AuthFailedError(why)

    def _open_socket(self, address: tls.Address, hostname: str, timeout: float, silent: bool) -> socket.socket:
        tls_settings = self.credentials.tls
        if tls_settings:

            def on_alert(error: ssl.SSLError) -> None:
                # A connection that the server had accepted may break like any other: that is no refusal.
                if not self._is_accepted:
                    self.record_refusal(tls.AuthRejected(tls.describe_alert(error, tls_settings, PLAINTEXT_PORT)))
                    self._refusing_servers.add(address)

            plain = socket.create_connection(address, timeout)
            encrypted = tls.wrap_socket(plain, address, hostname, tls_settings, PLAINTEXT_PORT)
            encrypted.on_alert = on_alert
            return encrypted
        if silent and tls.accepts_tls(address):
            raise tls.AuthRejected("this port accepts TLS only: add tls, or use the servers' clientPort")
        return socket.create_connection(address, timeout)

    def record_refusal(self, error: Exception) -> TopiaristError:
        """Keep the error of a server that refused, or of a secret that cannot be read, and return it."""
        if not isinstance(error, TopiaristError):
            message = f"cannot log in to ZooKeeper at {self._server}: {error}"
            error = TopiaristError(Reason.AUTHENTICATION_FAILED, message)
        self.refusal = error
        return error


class LoginConnection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """A kazoo connection with topiarist's own login.

    kazoo's own login sends requests to a server without SASL in an endless loop, and keeps a password as long as the
    client exists.
    """

    def __init__(self, client: Any, authenticator: Authenticator) -> None:
        # With options that are not None, kazoo calls the method below at every connection.
        super().__init__(client, client._conn_retry.copy(), logger=client.logger, sasl_options={})
        self._authenticator = authenticator

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        credentials = self._authenticator.credentials

        def exchange(token: bytes) -> bytes | None:
            return self._exchange_sasl_token(token, timeout)

        try:
            if isinstance(credentials.sasl, Kerberos):
                self._authenticator.log_in_by_kerberos(credentials.sasl, host, exchange)
            elif credentials.sasl:
                self._authenticator.log_in(credentials.sasl, exchange)
            if login := credentials.digest:
                try:
                    self._invoke(
                        timeout, Auth(0, "digest", f"{login.username}:{read_secret(login.password)}"), xid=AUTH_XID
                    )
                except AuthFailedError:
                    raise self._authenticator.login_error("it does not accept digest logins") from None
        except TopiaristError as error:
            # A secret can no longer be read. kazoo retries after a dropped connection, and the secret may return.
            self._authenticator.record_refusal(error)
            raise ConnectionDropped(str(error)) from None

    def _exchange_sasl_token(self, token: bytes, timeout: float) -> bytes | None:
        self._submit(SASL(token), timeout, _SASL_XID)
        header, buffer, offset = self._read_header(timeout)
        if header.err in _REFUSED_CODES:
            raise AuthFailedError
        if header.err or header.xid != _SASL_XID:
            raise ConnectionDropped(f"unexpected answer to SASL: error {header.err}")
        reply_token: bytes | None = SASL.deserialize(buffer, offset)[0]
        return reply_token
