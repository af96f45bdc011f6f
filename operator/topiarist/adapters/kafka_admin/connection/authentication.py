"""The login of a connection by SASL, at its start and again before the broker ends the session (KIP-368).

A new mechanism is a value of ``SaslMechanism`` (or a class beside ``SaslOAuth``) in ``model/access.py``, its fields in
``schemas/cluster.json``, and its messages in ``connection/mechanisms.py``.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from topiarist.adapters import tls
from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import Connection
from topiarist.adapters.kafka_admin.protocol.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from topiarist.adapters.tls import AuthRejected
from topiarist.model.access import KafkaAccess, SaslMechanism, SaslOAuth, SaslPassword
from topiarist.text import printable

if TYPE_CHECKING:
    from topiarist.adapters.kafka_admin.connection.mechanisms import Exchange
    from topiarist.adapters.kafka_admin.connection.token_endpoint import TokenEndpoint

MIN_ITERATIONS = 4096
"""Fewest iterations of a SCRAM password: fewer would give it away to a server that pretends to know it (RFC 5802)."""

_MAX_STEPS = 4
_RENEWAL_SHARE = 0.85


class LoginRefused(AuthRejected):
    """The brokers refuse the user or the password: another broker would refuse them, too."""


class Authenticator:
    """The login of all connections of one session."""

    def __init__(self, access: KafkaAccess) -> None:
        self._access = access
        self._tokens = _make_token_endpoint(access.sasl) if isinstance(access.sasl, SaslOAuth) else None

    def check(self) -> None:
        """Read all secrets once, to report a missing one before connecting; raise ``CredentialsInvalid``."""
        if isinstance(self._access.sasl, SaslPassword):
            tls.read_secret(self._access.sasl.password)
        if self._tokens:
            self._tokens.check()
        if self._access.tls:
            tls.build_ssl_context(self._access.tls)

    def log_in(self, connection: Connection, deadline: float) -> float | None:
        """Log in if the access has a login; return the time of the monotonic clock to log in again, or None.

        Raises ``AuthRejected``, ``Disconnected``, and ``TopiaristError`` for a secret or a token that is not there.
        """
        login = self._access.sasl
        if login is None:
            return None
        mechanism = SaslMechanism.OAUTHBEARER if isinstance(login, SaslOAuth) else login.mechanism
        is_scram = mechanism in (SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512)
        exchange = self._build_exchange(login, deadline)
        _shake_hands(connection, mechanism, deadline)
        started_at = time.monotonic()
        details = ""
        for step in range(_MAX_STEPS):
            request = SaslAuthenticateRequest(auth_bytes=exchange.auth_bytes())
            version = connection.version_of(request)
            answer = connection.call(request, version=version, timeout=_remaining(deadline))
            if answer.error_code:
                if self._tokens:
                    self._tokens.forget_token()
                raise _refusal(answer.error_code, answer.error_message, details, login)
            details = _receive(exchange, bytes(answer.auth_bytes or b""), step, is_scram=is_scram)
            if exchange.is_done():
                if not exchange.is_authenticated():
                    raise AuthRejected("it answered the login with data that the mechanism does not have")
                lifetime = getattr(answer, "session_lifetime_ms", 0) or 0
                return started_at + _RENEWAL_SHARE * lifetime / 1000 if lifetime > 0 else None
        raise AuthRejected("the login does not end")

    def _build_exchange(self, login: SaslPassword | SaslOAuth, deadline: float) -> Exchange:
        if isinstance(login, SaslPassword):
            return _make_password_exchange(login, tls.read_secret(login.password))
        assert self._tokens
        from topiarist.adapters.kafka_admin.connection.mechanisms import OAuthBearer

        return OAuthBearer(self._tokens.token(deadline))


def _make_token_endpoint(login: SaslOAuth) -> TokenEndpoint:
    from topiarist.adapters.kafka_admin.connection.token_endpoint import TokenEndpoint  # imports an HTTP client

    return TokenEndpoint(login)


def _make_password_exchange(login: SaslPassword, password: str) -> Exchange:
    from topiarist.adapters.kafka_admin.connection.mechanisms import Scram, make_plain

    if login.mechanism is SaslMechanism.PLAIN:
        return make_plain(login.username, password)
    return Scram(login.username, password, login.mechanism.value)


def _shake_hands(connection: Connection, mechanism: SaslMechanism, deadline: float) -> None:
    answer = connection.call(SaslHandshakeRequest(mechanism=mechanism.value), version=1, timeout=_remaining(deadline))
    if answer.error_code == error_codes.ILLEGAL_SASL_STATE:
        raise AuthRejected("this port has no login: use the port of a SASL listener, or remove sasl")
    if answer.error_code == error_codes.UNSUPPORTED_SASL_MECHANISM:
        offered = printable(", ".join(map(str, answer.mechanisms or [])), 200)
        raise AuthRejected(f"it does not offer the SASL mechanism {mechanism.value}, only {offered or 'none'}")
    if answer.error_code:
        raise AuthRejected(f"it refused to begin a login: {error_codes.describe_error(answer.error_code)}")


def _receive(exchange: Exchange, data: bytes, step: int, *, is_scram: bool) -> str:
    """Give the mechanism the data of the broker; return the error of the broker in the data, if any."""
    if is_scram and step == 0:
        iterations = re.search(rb"(?:^|,)i=(\d{1,9})(?:,|$)", data)
        if iterations and int(iterations[1]) < MIN_ITERATIONS:
            raise AuthRejected(f"it wants {int(iterations[1])} iterations for SCRAM, fewer than {MIN_ITERATIONS}")
    try:
        exchange.receive(data)
    except (ValueError, KeyError, TypeError):
        if is_scram and step:
            raise AuthRejected("it did not prove that it knows the password: it may be another server") from None
        raise AuthRejected("its answer to the login is malformed") from None
    return "" if is_scram else printable(data.decode("utf-8", "replace"), 200)


def _refusal(code: int, message: str | None, details: str, login: SaslPassword | SaslOAuth) -> AuthRejected:
    user = f"the client {login.client_id}" if isinstance(login, SaslOAuth) else f"the user {login.username}"
    words = [printable(text, 300) for text in (message, details) if text]
    text = f"it refused {user}: {'; '.join(words) or error_codes.describe_error(code)}"
    return LoginRefused(text) if code == error_codes.SASL_AUTHENTICATION_FAILED else AuthRejected(text)


def _remaining(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.001)
