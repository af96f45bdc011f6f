"""Tokens for OAUTHBEARER: the grant of client credentials (RFC 6749, section 4.4), from an HTTPS endpoint.

The client proves itself by a secret, or by a statement that its key signs (private_key_jwt, RFC 7523). Both are sent to
the endpoint and nowhere else: no redirect is followed, and no message contains a secret, a statement or a token.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from typing import Any, NamedTuple

from topiarist.adapters import keys, tls
from topiarist.adapters.http_client import MAX_ANSWER_BYTES, NoAnswer, build_opener, exchange
from topiarist.adapters.kafka_admin.connection.authentication import is_token
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import SaslOAuth, Tls
from topiarist.text import printable, quote

_USABLE_SHARE = 0.8
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_REFUSAL_STATUSES = range(400, 500)


class _Token(NamedTuple):
    text: str
    usable_until: float


class TokenEndpoint:
    """The tokens of one session; a token is used until four fifths of its lifetime are over."""

    def __init__(self, login: SaslOAuth) -> None:
        self._login = login
        self._token: _Token | None = None
        self._name = printable(login.token_endpoint, 200)

    def check(self) -> None:
        """Check the address and read the secret and the CA once; raise ``CredentialsInvalid``."""
        self._build_opener()
        self._prove()

    def token(self, deadline: float, _host: str = "") -> str:
        """Return a valid token. Raises ``AuthenticationFailed``, ``Unreachable`` and ``CredentialsInvalid``."""
        if self._token is None or time.monotonic() >= self._token.usable_until:
            self._token = self._fetch(deadline)
        return self._token.text

    def forget_token(self) -> None:
        """Ask for another token the next time, because the brokers refuse this one."""
        self._token = None

    def _fetch(self, deadline: float) -> _Token:
        opener = self._build_opener()
        proof = self._prove()
        asked_at = time.monotonic()
        request = self._build_request(proof)

        try:
            data = exchange(opener, request, deadline)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error, proof) from None
        except NoAnswer as error:
            raise self._error(Reason.UNREACHABLE, _without(proof, str(error))) from None
        return self._read_token(data, asked_at)

    def _prove(self) -> str:
        """Return what the client proves itself with: its secret, or a new statement that its key signs."""
        login = self._login
        if login.client_secret:
            return tls.read_secret(login.client_secret)
        now = int(time.time())
        claims: dict[str, Any] = {"iss": login.client_id, "sub": login.client_id, "aud": login.token_endpoint}
        claims |= {"jti": str(uuid.uuid4()), "iat": now, "exp": now + keys.ASSERTION_LIFETIME_S}
        try:
            key = tls.read_file(login.proof, tls.MAX_CERTIFICATE_BYTES)
            return keys.sign_assertion(key, claims, login.client_key_id)
        except keys.KeyProblem as problem:
            raise tls.credentials_error(login.proof, str(problem)) from None

    def _build_request(self, proof: str) -> urllib.request.Request:
        login = self._login
        fields = {"grant_type": "client_credentials", "scope": login.scope, "audience": login.audience}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if login.client_secret:
            identity = ":".join(urllib.parse.quote_plus(text) for text in (login.client_id, proof))
            headers["Authorization"] = f"Basic {base64.b64encode(identity.encode()).decode()}"
        else:
            fields |= {"client_id": login.client_id, "client_assertion_type": _ASSERTION, "client_assertion": proof}
        given = urllib.parse.urlencode({name: text for name, text in fields.items() if text})
        return urllib.request.Request(login.token_endpoint, given.encode(), headers, method="POST")

    def _build_opener(self) -> urllib.request.OpenerDirector:
        scheme = self._check_address()
        if scheme == "http":  # loopback only: a proxy would be another host
            return build_opener(None, use_proxies=False)
        return build_opener(tls.build_ssl_context(Tls(ca=self._login.ca)))

    def _check_address(self) -> str:
        def invalid(why: str) -> TopiaristError:
            message = f"{self._login.proof.location}: tokenEndpoint {quote(self._login.token_endpoint)} {why}"
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

    def _refusal(self, error: urllib.error.HTTPError, proof: str) -> TopiaristError:
        """Return the error for an answer with an HTTP error, with the words of the endpoint (RFC 6749, section 5.2)."""
        try:
            fields = json.loads(error.read(MAX_ANSWER_BYTES))
            words = [str(fields[name]) for name in ("error", "error_description") if fields.get(name)]
        except (OSError, ValueError, AttributeError, TypeError, RecursionError):
            words = []
        is_refusal = error.code in _REFUSAL_STATUSES and error.code not in (404, 408, 429)
        detail = _without(proof, ": ".join(words))
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
        if not is_token(token):
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
