"""Tokens for OAUTHBEARER, from an endpoint or by AWS credentials.

``TokenEndpoint`` asks by the grant of client credentials (RFC 6749, section 4.4), from an HTTPS endpoint.

The client proves itself by a secret, or by a statement that its key signs (private_key_jwt, RFC 7523). Both are sent to
the endpoint and nowhere else: no redirect is followed, and no message contains a secret, a statement or a token.

``AwsTokens`` makes those of Amazon MSK: a request ``kafka-cluster:Connect`` that is signed by AWS credentials and never
sent.

The only place of the library ``botocore``, which the extra ``aws`` installs. It finds the credentials, and signs as
Amazon's own signer for Python does, which brings boto3 along for the same three calls. The broker sends the request
of the token to AWS, and so learns the identity.
"""

from __future__ import annotations

import ipaddress
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from typing import Any, NamedTuple

from topiarist import __version__
from topiarist.adapters import tls
from topiarist.adapters.http_client import MAX_ANSWER_BYTES, NoAnswer, authorize, build_opener, exchange, split_address
from topiarist.adapters.kafka_admin.connection.authentication import is_token
from topiarist.errors import Reason, TopiaristError, missing_packages_error
from topiarist.model.access import SaslAwsIam, SaslOAuth, Tls
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

    def token(self, deadline: float, _host: str) -> str:
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
            why = _without(proof, str(error)) or "it did not answer"
            raise self._error(Reason.UNREACHABLE, why) from None
        return self._read_token(data, asked_at)

    def _prove(self) -> str:
        """Return what the client proves itself with: its secret, or a new statement that its key signs."""
        login = self._login
        if login.client_secret:
            return tls.read_secret(login.client_secret)
        now = int(time.time())
        claims: dict[str, Any] = {"iss": login.client_id, "sub": login.client_id, "aud": login.token_endpoint}
        claims |= {"jti": str(uuid.uuid4()), "iat": now, "exp": now + tls.ASSERTION_LIFETIME_S}
        try:
            key = tls.read_file(login.proof, tls.MAX_CERTIFICATE_BYTES)
            return tls.sign_assertion(key, claims, login.client_key_id)
        except tls.KeyProblem as problem:
            raise tls.credentials_error(login.proof, str(problem)) from None

    def _build_request(self, proof: str) -> urllib.request.Request:
        login = self._login
        fields = {"grant_type": "client_credentials", "scope": login.scope, "audience": login.audience}
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if login.client_secret:
            headers |= authorize(*map(urllib.parse.quote_plus, (login.client_id, proof)))
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

        parts = split_address(self._login.token_endpoint)
        if parts is None:
            raise invalid("is not an HTTPS address")
        if parts.username is not None:
            raise invalid("contains a user; use clientId and clientSecret")
        if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
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
            fields = json.loads(data)  # an answer that is too large is cut, and no JSON
            token = fields["access_token"]
            lifetime = float(fields.get("expires_in") or 0)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._error(Reason.AUTHENTICATION_FAILED, "its answer has no access_token") from None
        if not is_token(token):
            raise self._error(Reason.AUTHENTICATION_FAILED, "its access_token is not a token")
        return _Token(token, asked_at + _USABLE_SHARE * lifetime)

    def _error(self, reason: Reason, why: str) -> TopiaristError:
        hint = "check tokenEndpoint and the network" if reason is Reason.UNREACHABLE else ""
        return TopiaristError(reason, f"cannot get a token from {self._name} for {self._login.client_id}: {why}", hint)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _without(secret: str, text: str) -> str:
    """Return text of the endpoint for a message, or nothing if it contains the secret."""
    return "" if secret in text or urllib.parse.quote_plus(secret) in text else printable(text, 200)


TOKEN_LIFETIME_S = 900
"""Seconds for which a token is valid: the maximum that MSK accepts."""

_SERVICE, _ACTION = "kafka-cluster", "kafka-cluster:Connect"
_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?\.?$")
_HINTS = {
    "ProfileNotFound": "write profile as the AWS configuration has it",
    "ExpiredToken": "log in to AWS again",
    "ExpiredTokenException": "log in to AWS again",
    "TokenRetrievalError": "log in to AWS again: aws sso login",
    "UnauthorizedSSOTokenError": "log in to AWS again: aws sso login",
    "SSOTokenLoadError": "log in to AWS: aws sso login",
    "AccessDenied": "let the credentials assume roleArn: its trust policy, and sts:AssumeRole",
    "SignatureDoesNotMatch": "correct the clock of this machine, or the secret key",
    "RequestTimeTooSkewed": "correct the clock of this machine",
    "RequestExpired": "correct the clock of this machine",
}
"""Remedies for errors of AWS, by their code or class."""


class AwsTokens:
    """The tokens of one session: each login has its own, and the credentials are renewed before they expire."""

    def __init__(self, login: SaslAwsIam) -> None:
        self._login = login
        self._credentials: Any = None

    def check(self) -> None:
        """Raise ``PrerequisiteMissing`` without the library; credentials may need AWS, and are found at the login."""
        _import_botocore()

    def token(self, deadline: float, host: str) -> str:
        """Return a token. Raises ``CredentialsInvalid``, ``AuthenticationFailed`` and ``Unreachable``."""
        region = _REGION.search(host.lower())
        if region and region[1] != self._login.region:
            message = f"region: found {self._login.region}, but {host} is in {region[1]}"
            raise self._error(Reason.CREDENTIALS_INVALID, message, f"write region: {region[1]}")
        botocore = _import_botocore()
        try:
            return tls.run_with_deadline(self._sign, deadline, "AWS did not answer in time")
        except botocore.exceptions.ClientError as error:
            found = error.response.get("Error", {})
            code, text = str(found.get("Code", "")), printable(str(found.get("Message") or ""), 300)
            cause = f"{text} ({code})" if text and code else text or code or "it names no cause"
            message = f"AWS refuses the credentials: {cause}"
            raise self._error(Reason.AUTHENTICATION_FAILED, message, _HINTS.get(code, "")) from None
        except (botocore.exceptions.HTTPClientError, botocore.exceptions.ConnectionError, TimeoutError) as error:
            message = f"cannot get credentials: {printable(str(error), 300)}"
            raise self._error(Reason.UNREACHABLE, message, "check the network to AWS") from None
        except (botocore.exceptions.BotoCoreError, RuntimeError) as error:
            # A RuntimeError says that credentials have expired although they were renewed.
            hint = _HINTS.get(type(error).__name__, "")
            message = f"cannot get credentials of AWS: {printable(str(error), 300)}"
            raise self._error(Reason.CREDENTIALS_INVALID, message, hint) from None

    def forget_token(self) -> None:
        """Find the credentials again at the next login."""
        self._credentials = None

    def _sign(self) -> str:
        from botocore.auth import SigV4QueryAuth
        from botocore.awsrequest import AWSRequest

        region = self._login.region
        if self._credentials is None:
            self._credentials = self._find_credentials()
        request = AWSRequest("GET", f"https://kafka.{region}.amazonaws.com/", params={"Action": _ACTION})
        signed = self._credentials.get_frozen_credentials()
        SigV4QueryAuth(signed, _SERVICE, region, expires=TOKEN_LIFETIME_S).add_auth(request)
        url = f"{request.url}&User-Agent=topiarist-{__version__}"
        return tls.base64url(url.encode())

    def _find_credentials(self) -> Any:
        """Return the credentials of the profile or of the default chain, or those of the role that they assume."""
        from botocore import credentials, session

        login = self._login
        found = session.Session(profile=login.profile or None)
        found.set_config_variable("region", login.region)
        source = found.get_credentials()
        if source is None:
            message = "found no AWS credentials in the environment, the AWS configuration, or of this machine"
            raise self._error(Reason.CREDENTIALS_INVALID, message, "set AWS_PROFILE or profile, or run where a role is")
        if not login.role_arn:
            return source
        fetcher = credentials.AssumeRoleCredentialFetcher(
            found.create_client, source, login.role_arn, extra_args={"RoleSessionName": login.session_name}
        )
        return credentials.DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")

    def _error(self, reason: Reason, message: str, hint: str = "") -> TopiaristError:
        return TopiaristError(reason, f"{self._login.location}: {message}", hint)


def _import_botocore() -> Any:
    try:
        import botocore.exceptions
        import botocore.session
    except ImportError:
        raise missing_packages_error("aws", "a login by AWS_MSK_IAM") from None
    return botocore
