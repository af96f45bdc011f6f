"""Tokens for Amazon MSK: a request ``kafka-cluster:Connect`` that is signed by AWS credentials and never sent.

The only place of the library ``botocore``, which the extra ``aws`` installs. It finds the credentials, and signs as
Amazon's own signer for Python does, which brings boto3 along for the same three calls. The broker sends the request
of the token to AWS, and so learns the identity.
"""

from __future__ import annotations

import base64
import re
from typing import Any

from topiarist import __version__
from topiarist.adapters.tls import run_with_deadline
from topiarist.errors import Reason, TopiaristError, missing_packages_error
from topiarist.model.access import SaslAwsIam
from topiarist.text import printable

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
            return run_with_deadline(self._sign, deadline, "AWS did not answer in time")
        except botocore.exceptions.ClientError as error:
            found = error.response.get("Error", {})
            code, text = str(found.get("Code", "")), printable(str(found.get("Message") or ""), 300)
            message = f"AWS refuses the credentials: {text or code} ({code})"
            raise self._error(Reason.AUTHENTICATION_FAILED, message, _HINTS.get(code, "")) from None
        except (botocore.exceptions.HTTPClientError, botocore.exceptions.ConnectionError, TimeoutError) as error:
            raise self._error(Reason.UNREACHABLE, f"cannot get credentials: {printable(str(error), 300)}") from None
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
        return base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")

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
