"""Tokens for OAUTHBEARER: the grant of client credentials (RFC 6749, section 4.4), from an HTTPS endpoint.

The client secret is sent to the endpoint and nowhere else: no redirect is followed, and no message contains the secret
or a token.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, NamedTuple

from topiarist.adapters import tls
from topiarist.adapters.kafka_admin.connection.connector import run_with_deadline
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import SaslOAuth, Tls
from topiarist.text import printable, quote

MAX_ANSWER_BYTES = 1 << 20
"""Maximum size of an answer of the endpoint in bytes."""

_USABLE_SHARE = 0.8
_REFUSAL_STATUSES = range(400, 500)


class _Token(NamedTuple):
    text: str
    usable_until: float


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class TokenEndpoint:
    """The tokens of one session; a token is used until four fifths of its lifetime are over."""

    def __init__(self, login: SaslOAuth) -> None:
        self._login = login
        self._token: _Token | None = None
        self._name = printable(login.token_endpoint, 200)

    def check(self) -> None:
        """Check the address and read the secret and the CA once; raise ``CredentialsInvalid``."""
        self._build_opener()
        tls.read_secret(self._login.client_secret)

    def token(self, deadline: float) -> str:
        """Return a valid token. Raises ``AuthenticationFailed``, ``Unreachable`` and ``CredentialsInvalid``."""
        if self._token is None or time.monotonic() >= self._token.usable_until:
            self._token = self._fetch(deadline)
        return self._token.text

    def forget_token(self) -> None:
        """Ask for another token the next time, because the brokers refuse this one."""
        self._token = None

    def _fetch(self, deadline: float) -> _Token:
        opener = self._build_opener()
        secret = tls.read_secret(self._login.client_secret)
        asked_at = time.monotonic()
        request = self._build_request(secret)

        def ask() -> bytes:
            timeout = max(deadline - time.monotonic(), 0.001)
            with opener.open(request, timeout=timeout) as response:
                return bytes(response.read(MAX_ANSWER_BYTES + 1))

        try:
            data = run_with_deadline(ask, deadline, "no answer in time")
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error, secret) from None
        except (OSError, ValueError) as error:
            why = getattr(error, "reason", None) or error
            why = getattr(why, "verify_message", None) or getattr(why, "strerror", None) or why
            raise self._error(Reason.UNREACHABLE, _without(secret, str(why))) from None
        except Exception as error:  # http.client's exceptions for what is no HTTP
            raise self._error(Reason.UNREACHABLE, f"it does not answer with HTTP ({type(error).__name__})") from None
        return self._read_token(data, asked_at)

    def _build_request(self, secret: str) -> urllib.request.Request:
        fields = {"grant_type": "client_credentials"}
        if self._login.scope:
            fields["scope"] = self._login.scope
        identity = ":".join(urllib.parse.quote_plus(text) for text in (self._login.client_id, secret))
        headers = {
            "Authorization": f"Basic {base64.b64encode(identity.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        return urllib.request.Request(
            self._login.token_endpoint, urllib.parse.urlencode(fields).encode(), headers, method="POST"
        )

    def _build_opener(self) -> urllib.request.OpenerDirector:
        scheme = self._check_address()
        if scheme == "http":  # loopback only: a proxy would be another host
            return urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
        context = tls.build_ssl_context(Tls(ca=self._login.ca))
        return urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))

    def _check_address(self) -> str:
        def invalid(why: str) -> TopiaristError:
            message = f"{self._login.client_secret.location}: tokenEndpoint {quote(self._login.token_endpoint)} {why}"
            return TopiaristError(Reason.CREDENTIALS_INVALID, message, "write https://login.example.com/token")

        try:
            parts = urllib.parse.urlsplit(self._login.token_endpoint)
            has_port = parts.port is None or parts.port > 0
        except ValueError:
            raise invalid("is not an address") from None
        if not parts.hostname or not has_port or parts.scheme not in ("http", "https"):
            raise invalid("is not an HTTPS address")
        if parts.username is not None:
            raise invalid("contains a user; use clientId and clientSecret")
        if parts.scheme == "http" and not _is_loopback(parts.hostname):
            raise invalid("would send the client secret without encryption")
        return parts.scheme

    def _refusal(self, error: urllib.error.HTTPError, secret: str) -> TopiaristError:
        """Return the error for an answer with an HTTP error, with the words of the endpoint (RFC 6749, section 5.2)."""
        try:
            fields = json.loads(error.read(MAX_ANSWER_BYTES))
            words = [str(fields[name]) for name in ("error", "error_description") if fields.get(name)]
        except (OSError, ValueError, AttributeError, TypeError, RecursionError):
            words = []
        is_refusal = error.code in _REFUSAL_STATUSES and error.code not in (404, 408, 429)
        detail = _without(secret, ": ".join(words))
        why = f"it answered with HTTP status {error.code}" + (f" ({detail})" if detail else "")
        return self._error(Reason.AUTHENTICATION_FAILED if is_refusal else Reason.UNREACHABLE, why)

    def _read_token(self, data: bytes, asked_at: float) -> _Token:
        try:
            if len(data) > MAX_ANSWER_BYTES:
                raise ValueError
            fields = json.loads(data)
            token = fields["access_token"]
            lifetime = float(fields.get("expires_in") or 0)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._error(Reason.AUTHENTICATION_FAILED, "its answer has no access_token") from None
        # Other characters would end the token in the SASL message.
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token or " " in token:
            raise self._error(Reason.AUTHENTICATION_FAILED, "its access_token is not a token")
        return _Token(token, asked_at + _USABLE_SHARE * lifetime)

    def _error(self, reason: Reason, why: str) -> TopiaristError:
        return TopiaristError(reason, f"cannot get a token from {self._name} for {self._login.client_id}: {why}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _without(secret: str, text: str) -> str:
    """Return text of the endpoint for a message, or nothing if it contains the secret."""
    return "" if secret in text or urllib.parse.quote_plus(secret) in text else printable(text, 200)
