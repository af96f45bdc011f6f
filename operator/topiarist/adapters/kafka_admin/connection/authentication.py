"""The login of a connection by SASL, at its start and again before the broker ends the session (KIP-368).

A new mechanism is a value of ``SaslMechanism`` and a class of ``Sasl`` in ``model/access.py``, its fields in
``schemas/cluster.json``, and its messages in ``connection/mechanisms.py``; if it is another way to a token, a
``TokenSource``.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Protocol

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

MIN_ITERATIONS = 4096
"""Fewest iterations of a SCRAM password: fewer would give it away to a server that pretends to know it (RFC 5802)."""

_MAX_STEPS = 4
_RENEWAL_SHARE = 0.85


if TYPE_CHECKING:
    from topiarist.adapters.kafka_admin.connection.mechanisms import Exchange

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
            self.token()

    def token(self, _deadline: float = 0.0, _host: str = "") -> str:
        """Return the token as it is now. Raises ``CredentialsInvalid``."""
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
            raise RefusedByCluster(error.reason, error.args[0], error.hint) from error

    def _exchange(self, connection: Connection, login: Sasl, exchange: Exchange, deadline: float) -> float | None:
        _shake_hands(connection, login.mechanism, deadline)
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
            details = _receive(exchange, bytes(answer.auth_bytes or b""), step, login)
            if exchange.is_done():
                if not exchange.is_authenticated():
                    raise AuthRejected("it answered the login with data that the mechanism does not have")
                lifetime = getattr(answer, "session_lifetime_ms", 0) or 0
                return started_at + _RENEWAL_SHARE * lifetime / 1000 if lifetime > 0 else None
        raise AuthRejected("the login does not end")

    def _build_exchange(self, login: Sasl, host: str, deadline: float) -> Exchange:
        if isinstance(login, SaslPassword):
            return _make_password_exchange(login, tls.read_secret(login.password))
        if isinstance(login, Kerberos):
            return _make_kerberos_exchange(login, host, deadline)
        assert self._tokens
        extensions = () if isinstance(login, SaslAwsIam) else login.extensions
        from topiarist.adapters.kafka_admin.connection.mechanisms import OAuthBearer

        return OAuthBearer(self._tokens.token(deadline, host), dict(extensions))


# What few logins need is imported for them only: HTTP clients, the libraries of extras.
def _make_token_source(login: Sasl | None) -> TokenSource | None:
    if isinstance(login, SaslToken):
        return StoredToken(login)
    if isinstance(login, SaslAwsIam):
        from topiarist.adapters.kafka_admin.connection.aws_tokens import AwsTokens

        return AwsTokens(login)
    if isinstance(login, SaslOAuth):
        from topiarist.adapters.kafka_admin.connection.token_endpoint import TokenEndpoint

        return TokenEndpoint(login)
    return None


def _make_kerberos_exchange(login: Kerberos, host: str, deadline: float) -> Exchange:
    from topiarist.adapters.kerberos import KerberosExchange

    try:
        return tls.run_with_deadline(lambda: KerberosExchange(login, host), deadline, "the KDC did not answer in time")
    except TimeoutError as error:
        raise TopiaristError(Reason.UNREACHABLE, f"no ticket for {login.principal}: {error}") from None


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


def _receive(exchange: Exchange, data: bytes, step: int, login: Sasl) -> str:
    """Give the mechanism the data of the broker; return the error of the broker in the data, if any."""
    is_scram = login.mechanism in (SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512)
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
    return "" if is_scram or isinstance(login, Kerberos) else printable(data.decode("utf-8", "replace"), 200)


def _refusal(code: int, message: str | None, details: str, login: Sasl) -> AuthRejected:
    words = [printable(text, 300) for text in (message, details) if text] or [error_codes.describe_error(code)]
    words += [_ADVICE[type(login)]] if type(login) in _ADVICE else []
    text = f"it refused {login.subject}: {'; '.join(words)}"
    return LoginRefused(text) if code == error_codes.SASL_AUTHENTICATION_FAILED else AuthRejected(text)


def _remaining(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.001)
