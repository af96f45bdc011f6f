"""Tokens for Amazon MSK: where credentials come from, what a token has, and what is wrong with them."""

from __future__ import annotations

import base64
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import botocore.exceptions
import pytest
from msgspec.structs import replace

from support.secret_scanner import register_secret
from topiarist.adapters.kafka_admin.connection.token_endpoint import TOKEN_LIFETIME_S, AwsTokens
from topiarist.errors import Location, Reason, TopiaristError
from topiarist.model.access import SaslAwsIam

SECRET = register_secret("planted-Hedge25-aws")
ROLE = "arn:aws:iam::123456789012:role/topiarist"
LOGIN = SaslAwsIam("eu-west-1", Location("clusters.yaml", 3, 5))
BROKER = "b-1.demo.abcde1.c2.kafka.eu-west-1.amazonaws.com"
ASSUMED = """<{name}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{name}Result><Credentials>
<AccessKeyId>ASIAASSUMED{number}</AccessKeyId><SecretAccessKey>x</SecretAccessKey><SessionToken>y</SessionToken>
<Expiration>{end}</Expiration></Credentials></{name}Result></{name}Response>"""
REFUSED = """<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"""


class Sts:
    """A token service of AWS that answers each request with credentials, or with ``error``; it keeps the fields."""

    def __init__(self) -> None:
        self.requests: list[dict[str, str]] = []
        self.error: tuple[int, str, str] | None = None
        sts = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                fields = self.rfile.read(int(self.headers["Content-Length"])).decode()
                sts.requests.append(dict(urllib.parse.parse_qsl(fields)))
                status, body = sts.answer(sts.requests[-1]["Action"])
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def answer(self, action: str) -> tuple[int, bytes]:
        """Return the status and the body for an action."""
        if self.error:
            return self.error[0], REFUSED.format(code=self.error[1], message=self.error[2]).encode()
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
        return 200, ASSUMED.format(name=action, number=len(self.requests), end=end).encode()


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Sts]:
    """Start the service, let botocore use it, and set credentials in the environment."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    sts = Sts()
    settings = {
        "ACCESS_KEY_ID": "AKIAENVIRONMENT",
        "SECRET_ACCESS_KEY": SECRET,
        "EC2_METADATA_DISABLED": "true",
        "CONFIG_FILE": str(tmp_path / "config"),
        "SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "ENDPOINT_URL_STS": f"http://127.0.0.1:{sts.server.server_address[1]}",
        "MAX_ATTEMPTS": "1",
    }
    for name, text in settings.items():
        monkeypatch.setenv(f"AWS_{name}", text)
    thread = threading.Thread(target=sts.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield sts
    sts.server.shutdown()
    sts.server.server_close()
    thread.join()


def parts(tokens: AwsTokens) -> dict[str, str]:
    """Return the fields of the request in a token."""
    text = tokens.token(time.monotonic() + 30, BROKER)
    url = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
    assert url.startswith("https://kafka.eu-west-1.amazonaws.com/?")
    assert "=" not in text
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))


def failure(login: SaslAwsIam, host: str = BROKER) -> TopiaristError:
    """Return the error of a login."""
    with pytest.raises(TopiaristError) as caught:
        AwsTokens(login).token(time.monotonic() + 30, host)
    assert str(caught.value).startswith("clusters.yaml:3:5: ")
    assert SECRET not in str(caught.value)
    return caught.value


@pytest.mark.usefixtures("sts")
def test_a_token() -> None:
    """It is a signed request to connect, by the key of the environment, for a quarter of an hour."""
    found = parts(AwsTokens(LOGIN))
    assert found["Action"] == "kafka-cluster:Connect"
    assert found["X-Amz-Expires"] == str(TOKEN_LIFETIME_S) == "900"
    key, _, region, service, end = found["X-Amz-Credential"].split("/")
    assert (key, region, service, end) == ("AKIAENVIRONMENT", "eu-west-1", "kafka-cluster", "aws4_request")
    assert found["User-Agent"].startswith("topiarist-")


def test_a_profile(sts: Sts, tmp_path: Path) -> None:
    """A profile has credentials of its own; one that does not exist is named."""
    lines = ("[profile admin]", "aws_access_key_id=AKIAPROFILE", "aws_secret_access_key=x")
    (tmp_path / "config").write_text("\n".join(lines))
    assert parts(AwsTokens(replace(LOGIN, profile="admin")))["X-Amz-Credential"].startswith("AKIAPROFILE/")
    error = failure(replace(LOGIN, profile="nobody"))
    assert error.reason is Reason.CREDENTIALS_INVALID
    assert error.hint == "write profile as the AWS configuration has it"
    assert sts.requests == []


def test_a_role(sts: Sts) -> None:
    """The credentials assume the role once for a session; after a refusal of a broker they do so again."""
    tokens = AwsTokens(replace(LOGIN, role_arn=ROLE, session_name="deploy"))
    for _ in range(2):
        assert parts(tokens)["X-Amz-Credential"].startswith("ASIAASSUMED1/")
    assert [(each["Action"], each["RoleArn"], each["RoleSessionName"]) for each in sts.requests] == [
        ("AssumeRole", ROLE, "deploy")
    ]
    tokens.forget_token()
    assert parts(tokens)["X-Amz-Credential"].startswith("ASIAASSUMED2/")


def test_a_web_identity(sts: Sts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A pod's token from its environment is exchanged for credentials of its role."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    (tmp_path / "token").write_text("identity")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
    assert parts(AwsTokens(LOGIN))["X-Amz-Credential"].startswith("ASIAASSUMED1/")
    assert (sts.requests[0]["Action"], sts.requests[0]["WebIdentityToken"]) == ("AssumeRoleWithWebIdentity", "identity")


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        *((code, "log in to AWS again") for code in ("ExpiredToken", "ExpiredTokenException")),
        *((code, "correct the clock of this machine") for code in ("RequestTimeTooSkewed", "RequestExpired")),
        ("AccessDenied", "let the credentials assume roleArn: its trust policy, and sts:AssumeRole"),
        ("SignatureDoesNotMatch", "correct the clock of this machine, or the secret key"),
        ("Odd", ""),
    ],
)
def test_a_refusal_of_aws(sts: Sts, code: str, hint: str) -> None:
    """The words of AWS are shown with what to do."""
    sts.error = 403, code, "some words"
    error = failure(replace(LOGIN, role_arn=ROLE))
    assert error.reason is Reason.AUTHENTICATION_FAILED
    assert error.message.endswith(f"AWS refuses the credentials: some words ({code})")
    assert error.hint == hint


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("TokenRetrievalError", "log in to AWS again: aws sso login"),
        ("UnauthorizedSSOTokenError", "log in to AWS again: aws sso login"),
        ("SSOTokenLoadError", "log in to AWS: aws sso login"),
        ("ProfileNotFound", "write profile as the AWS configuration has it"),
        ("PartialCredentialsError", ""),
    ],
)
def test_credentials_that_are_not_found(monkeypatch: pytest.MonkeyPatch, name: str, hint: str) -> None:
    """The error of the library has its remedy by the name of its class."""
    kind = getattr(botocore.exceptions, name)
    broken = kind(provider="p", error_msg="m", profile="x", profile_name="x", cred_var="v")

    def fail(_: AwsTokens) -> str:
        raise broken

    monkeypatch.setattr(AwsTokens, "_sign", fail)
    error = failure(LOGIN)
    assert (error.reason, error.hint) == (Reason.CREDENTIALS_INVALID, hint)
    assert error.message == f"clusters.yaml:3:5: cannot get credentials of AWS: {broken}"


@pytest.mark.usefixtures("sts")
def test_a_refusal_of_aws_without_a_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that names no error is a refusal all the same."""

    def fail(_: AwsTokens) -> str:
        raise botocore.exceptions.ClientError({}, "AssumeRole")

    monkeypatch.setattr(AwsTokens, "_sign", fail)
    error = failure(LOGIN)
    assert (error.reason, error.hint) == (Reason.AUTHENTICATION_FAILED, "")
    assert error.message == "clusters.yaml:3:5: AWS refuses the credentials: it names no cause"


def test_long_words_of_aws_are_cut(sts: Sts) -> None:
    """A message has at most 300 signs, and a refusal without one has its code."""
    sts.error = 403, "Odd", "a" * 400
    assert f"credentials: {'a' * 297}... (Odd)" in failure(replace(LOGIN, role_arn=ROLE)).message
    sts.error = 403, "Odd", ""
    assert failure(replace(LOGIN, role_arn=ROLE)).message.endswith("AWS refuses the credentials: Odd")


def test_no_credentials(sts: Sts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says where they were looked for; an unreachable service is no refusal."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1")
    error = failure(replace(LOGIN, role_arn=ROLE))
    assert (error.reason, error.hint) == (Reason.UNREACHABLE, "check the network to AWS")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    error = failure(LOGIN)
    assert error.reason is Reason.CREDENTIALS_INVALID
    assert "found no AWS credentials in the environment" in str(error)
    assert sts.requests == []


@pytest.mark.parametrize(
    ("host", "found"),
    [
        (BROKER.replace("eu-west-1", "us-east-2"), "us-east-2"),
        ("boot-abc.c1.kafka-serverless.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("b-1.demo.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        (BROKER, ""),
        ("kafka.example.com", ""),
    ],
)
@pytest.mark.usefixtures("sts")
def test_the_region_of_the_broker(host: str, found: str) -> None:
    """A broker with another region in its name is named, since it would only refuse the token."""
    if not found:
        assert AwsTokens(LOGIN).token(time.monotonic() + 30, host)
        return
    error = failure(LOGIN, host)
    assert error.message.endswith(f"region: found eu-west-1, but {host} is in {found}")
    assert error.hint == f"write region: {found}"


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra."""
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.setitem(sys.modules, "botocore.exceptions", None)
    with pytest.raises(TopiaristError, match=r"a login by AWS_MSK_IAM needs packages .*extra aws") as caught:
        AwsTokens(LOGIN).check()
    assert caught.value.reason is Reason.PREREQUISITE_MISSING
