"""The login of a connection by SASL, at its start and again before the broker ends the session (KIP-368).

A new mechanism is a value of ``SaslMechanism`` and a class of ``Sasl`` in ``model/access.py``, its fields in
``schemas/cluster.json``, and a class with its messages; if it is another way to a token, a
``TokenSource``.

The mechanisms are PLAIN (RFC 4616), SCRAM (RFC 5802 and 7677) and OAUTHBEARER (RFC 7628).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from topiarist.adapters import tls
from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import Connection
from topiarist.adapters.kafka_admin.protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from topiarist.adapters.tls import AuthRejected
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import (
    KafkaAccess,
    Kerberos,
    Sasl,
    SaslAwsIam,
    SaslMechanism,
    SaslOAuth,
    SaslPassword,
    SaslToken,
)
from topiarist.text import printable

MAX_ITERATIONS = 1_000_000
"""Most iterations of a SCRAM password: more would keep this process busy for a server that is not the right one."""


class Exchange(Protocol):
    """The messages of one login. ``receive`` raises ``ValueError`` or ``KeyError`` for an answer that is not right."""

    def auth_bytes(self) -> bytes:
        """Return the next message to send."""

    def receive(self, data: bytes) -> None:
        """Take the answer to the last message."""

    def is_done(self) -> bool:
        """Return whether the exchange has ended."""

    def is_authenticated(self) -> bool:
        """Return whether it ended as the mechanism says."""


class OneMessage:
    """A mechanism with one message, to which the right answer is empty."""

    def __init__(self, message: bytes) -> None:
        self._message = message
        self._answer: bytes | None = None

    def auth_bytes(self) -> bytes:
        """Return the message."""
        return self._message

    def receive(self, data: bytes) -> None:
        """Take the answer."""
        self._answer = data

    def is_done(self) -> bool:
        """Return whether there was an answer."""
        return self._answer is not None

    def is_authenticated(self) -> bool:
        """Return whether the answer was empty."""
        return self._answer == b""


def make_plain(username: str, password: str) -> OneMessage:
    """Return the exchange of PLAIN, in which the user acts for itself."""
    return OneMessage(f"{username}\0{username}\0{password}".encode())


class OAuthBearer:
    """The exchange of OAUTHBEARER. An answer that is not empty is an error, which a message of its own confirms."""

    def __init__(self, token: str, extensions: Mapping[str, str] = MappingProxyType({})) -> None:
        fields = "".join(f"\x01{key}={value}" for key, value in extensions.items())
        self._message = f"n,,\x01auth=Bearer {token}{fields}\x01\x01".encode()
        self._is_done = False

    def auth_bytes(self) -> bytes:
        """Return the token, or the confirmation of an error."""
        return self._message

    def receive(self, data: bytes) -> None:
        """Take the answer: empty, or an error."""
        if data:
            data.decode()
            self._message = b"\x01"
        else:
            self._is_done = True

    def is_done(self) -> bool:
        """Return whether the token was accepted."""
        return self._is_done

    is_authenticated = is_done


class Scram:
    """The exchange of SCRAM without channel binding; ``mechanism`` is SCRAM-SHA-256 or SCRAM-SHA-512.

    Both sides prove by a signature that they know the password: no message has it.
    """

    def __init__(self, username: str, password: str, mechanism: str) -> None:
        self._hash = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        self._password = password.encode()
        self._nonce = secrets.token_hex(16)
        escaped = username.replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={escaped},r={self._nonce}"
        self._message = f"n,,{self._first}"
        self._signature: bytes | None = None
        self._is_done = False

    def auth_bytes(self) -> bytes:
        """Return the name of the user, and then the proof."""
        return self._message.encode()

    def receive(self, data: bytes) -> None:
        """Take the nonce and the salt of the server, and then its signature."""
        fields = dict(pair.split("=", 1) for pair in data.decode().split(","))
        if self._signature is None:
            self._prove(data.decode(), fields["r"], base64.b64decode(fields["s"]), int(fields["i"]))
        elif hmac.compare_digest(self._signature, base64.b64decode(fields["v"])):
            self._is_done = True
        else:
            raise ValueError("the signature is not that of the password")

    def is_done(self) -> bool:
        """Return whether the server has proved that it knows the password."""
        return self._is_done

    is_authenticated = is_done

    def _prove(self, answer: str, nonce: str, salt: bytes, iterations: int) -> None:
        if not nonce.startswith(self._nonce) or not 0 < iterations <= MAX_ITERATIONS:
            raise ValueError("the answer is not for this login")
        final = f"c=biws,r={nonce}"
        exchanged = f"{self._first},{answer},{final}".encode()
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key, server_key = self._sign(salted, b"Client Key"), self._sign(salted, b"Server Key")
        signature = self._sign(hashlib.new(self._hash, client_key).digest(), exchanged)
        proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
        self._message = f"{final},p={base64.b64encode(proof).decode()}"
        self._signature = self._sign(server_key, exchanged)

    def _sign(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash)


MIN_ITERATIONS = 4096
"""Fewest iterations of a SCRAM password: fewer would give it away to a server that pretends to know it (RFC 5802)."""

_MAX_STEPS = 4
_RENEWAL_SHARE = 0.85


_ADVICE: dict[type, str] = {
    Kerberos: "the broker's log has the cause, such as a keytab without a key for this host name, or another clock",
    SaslAwsIam: "the identity has no kafka-cluster:Connect on this cluster, its credentials have expired, or the clock "
    "of this machine is wrong",
}
"""Causes of a refusal that the words of a broker leave open."""


class LoginRefused(AuthRejected):
    """The brokers refuse the user or the password: another broker would refuse them, too."""


class RefusedByCluster(TopiaristError):
    """A refusal that all brokers of the cluster share, so that no other broker is tried."""


class TokenSource(Protocol):
    """The tokens of one session."""

    def check(self) -> None:
        """Find a missing secret or package before connecting; raise ``TopiaristError``."""

    def token(self, deadline: float, host: str) -> str:
        """Return a valid token for the broker ``host``. Raises ``TopiaristError``."""

    def forget_token(self) -> None:
        """Get another token the next time, because the brokers refuse this one."""


class StoredToken:
    """A token that another program writes: read again at each login."""

    def __init__(self, login: SaslToken) -> None:
        self._reference = login.token

    def check(self) -> None:
        """Read the token once; a command is only looked up. Raises ``CredentialsInvalid``."""
        if self._reference.command:
            tls.check_command(self._reference)
        else:
            self._read()

    def token(self, _deadline: float, _host: str) -> str:
        """Return the token as it is now. Raises ``CredentialsInvalid``."""
        return self._read()

    def _read(self) -> str:
        found = tls.read_secret(self._reference)
        if not is_token(found):
            raise tls.credentials_error(self._reference, "has no token: found blanks or letters that are not ASCII")
        return found

    def forget_token(self) -> None:
        """Do nothing: no token is kept."""


def is_token(text: object) -> bool:
    """Return whether text can be a token: other characters would end the token in the SASL message."""
    return isinstance(text, str) and text.isascii() and text.isprintable() and text != "" and " " not in text


class Authenticator:
    """The login of all connections of one session."""

    def __init__(self, access: KafkaAccess) -> None:
        self._access = access
        self._tokens = _make_token_source(access.sasl)

    def check(self) -> None:
        """Read all secrets once, to report a missing one before connecting; raise ``TopiaristError``."""
        login = self._access.sasl
        if isinstance(login, SaslPassword):
            tls.read_secret(login.password)
        if isinstance(login, Kerberos):
            from topiarist.adapters import kerberos

            kerberos.check(login)
        if isinstance(login, SaslAwsIam) and not self._access.tls:
            message = f"{login.location}: AWS_MSK_IAM without tls would send the token without encryption"
            raise TopiaristError(Reason.CREDENTIALS_INVALID, message, "add tls: {}")
        if self._tokens:
            self._tokens.check()
        if self._access.tls:
            tls.build_ssl_context(self._access.tls)

    def log_in(self, connection: Connection, host: str, deadline: float) -> float | None:
        """Log in if the access has a login; return the time of the monotonic clock to log in again, or None.

        ``host`` is the broker's host name as it was used. Raises ``AuthRejected``, ``Disconnected``, and
        ``RefusedByCluster`` for what is missing on this side: a secret, a token, a ticket.
        """
        login = self._access.sasl
        if login is None:
            return None
        try:
            return self._exchange(connection, login, self._build_exchange(login, host, deadline), deadline)
        except TopiaristError as error:
            raise RefusedByCluster(error.reason, error.message, error.hint) from error

    def _exchange(self, connection: Connection, login: Sasl, exchange: Exchange, deadline: float) -> float | None:
        _shake_hands(connection, login.mechanism, deadline)
        started_at = time.monotonic()
        details = ""
        for step in range(_MAX_STEPS):
            request = SaslAuthenticateRequest(auth_bytes=exchange.auth_bytes())
            answer = connection.call(request, timeout=_remaining(deadline))
            if answer.error_code:
                if self._tokens:
                    self._tokens.forget_token()
                raise _refusal(answer.error_code, answer.error_message, details, login)
            details = _receive(exchange, bytes(answer.auth_bytes or b""), step, login)
            if exchange.is_done():
                if not exchange.is_authenticated():
                    raise AuthRejected("it answered the login with data that the mechanism does not have")
                lifetime = answer.session_lifetime_ms
                return started_at + _RENEWAL_SHARE * lifetime / 1000 if lifetime > 0 else None
        raise AuthRejected("the login does not finish")

    def _build_exchange(self, login: Sasl, host: str, deadline: float) -> Exchange:
        if isinstance(login, SaslPassword):
            return _make_password_exchange(login, tls.read_secret(login.password))
        if isinstance(login, Kerberos):
            return _make_kerberos_exchange(login, host, deadline)
        assert self._tokens
        extensions = () if isinstance(login, SaslAwsIam) else login.extensions
        return OAuthBearer(self._tokens.token(deadline, host), dict(extensions))


# What few logins need is imported for them only: HTTP clients, the libraries of extras.
def _make_token_source(login: Sasl | None) -> TokenSource | None:
    if isinstance(login, SaslToken):
        return StoredToken(login)
    if isinstance(login, SaslAwsIam):
        from topiarist.adapters.kafka_admin.connection.token_endpoint import AwsTokens

        return AwsTokens(login)
    if isinstance(login, SaslOAuth):
        from topiarist.adapters.kafka_admin.connection.token_endpoint import TokenEndpoint

        return TokenEndpoint(login)
    return None


def _make_kerberos_exchange(login: Kerberos, host: str, deadline: float) -> Exchange:
    from topiarist.adapters.kerberos import HINT_KDC, KerberosExchange

    try:
        return tls.run_with_deadline(lambda: KerberosExchange(login, host), deadline, "the KDC did not answer in time")
    except TimeoutError as error:
        raise TopiaristError(Reason.UNREACHABLE, f"no ticket for {login.principal}: {error}", HINT_KDC) from None


def _make_password_exchange(login: SaslPassword, password: str) -> Exchange:
    if login.mechanism is SaslMechanism.PLAIN:
        return make_plain(login.username, password)
    return Scram(login.username, password, login.mechanism.value)


def _shake_hands(connection: Connection, mechanism: SaslMechanism, deadline: float) -> None:
    answer = connection.call(SaslHandshakeRequest(mechanism=mechanism.value), version=1, timeout=_remaining(deadline))
    if answer.error_code == error_codes.ILLEGAL_SASL_STATE:
        raise AuthRejected("this port has no login: use the port of a SASL listener, or remove sasl")
    if answer.error_code == error_codes.UNSUPPORTED_SASL_MECHANISM:
        offered = printable(", ".join(map(str, answer.mechanisms)), 200)
        raise AuthRejected(f"it does not offer the SASL mechanism {mechanism.value}, only {offered or 'none'}")
    if answer.error_code:
        raise AuthRejected(f"it refused to start a login: {error_codes.describe_error(answer.error_code)}")


def _receive(exchange: Exchange, data: bytes, step: int, login: Sasl) -> str:
    """Give the mechanism the data of the broker; return the error of the broker in the data, if any."""
    is_scram = login.mechanism in (SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512)
    if is_scram and step == 0:
        iterations = re.search(rb"(?:^|,)i=(\d{1,9})(?:,|$)", data)
        if iterations and int(iterations[1]) < MIN_ITERATIONS:
            raise AuthRejected(f"it requires {int(iterations[1])} iterations for SCRAM, fewer than {MIN_ITERATIONS}")
    try:
        exchange.receive(data)
    except (ValueError, KeyError, TypeError):
        if is_scram and step:
            raise AuthRejected("it did not prove that it knows the password: it may be another server") from None
        raise AuthRejected("its answer to the login is malformed") from None
    return "" if is_scram or isinstance(login, Kerberos) else printable(data.decode("utf-8", "replace"), 200)


def _refusal(code: int, message: str | None, details: str, login: Sasl) -> AuthRejected:
    words = [printable(text, 300) for text in (message, details) if text] or [error_codes.describe_error(code)]
    words += [_ADVICE[type(login)]] if type(login) in _ADVICE else []
    text = f"it refused {login.subject}: {'; '.join(words)}"
    return LoginRefused(text) if code == error_codes.SASL_AUTHENTICATION_FAILED else AuthRejected(text)


def _remaining(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.001)
