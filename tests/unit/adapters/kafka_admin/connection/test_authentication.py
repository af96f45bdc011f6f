"""The login of a connection: the steps of a mechanism, what a broker refuses, and when the login is renewed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from topiarist.adapters.kafka_admin.connection import authentication
from topiarist.adapters.kafka_admin.connection.authentication import (
    MIN_ITERATIONS,
    Authenticator,
    LoginRefused,
    RefusedByCluster,
    StoredToken,
)
from topiarist.adapters.kafka_admin.connection.token_endpoint import AwsTokens
from topiarist.adapters.tls import AuthRejected
from topiarist.errors import Location, Reason, TopiaristError
from topiarist.model.access import (
    KafkaAccess,
    Kerberos,
    SaslAwsIam,
    SaslMechanism,
    SaslOAuth,
    SaslPassword,
    SaslToken,
    SecretReference,
    Tls,
)
from unit.adapters.kafka_admin.scripted_session import FakeTime, ScriptedSession, reply

SCRAM = SaslMechanism.SCRAM_SHA_512


class Exchange:
    """A mechanism that is done after some messages; ``error`` is raised by the last one."""

    def __init__(self, steps: int = 1, *, is_authenticated: bool = True, error: Exception | None = None) -> None:
        self.steps = steps
        self.authenticated = is_authenticated
        self.error = error
        self.received: list[bytes] = []

    def auth_bytes(self) -> bytes:
        return b"step %d" % len(self.received)

    def receive(self, data: bytes) -> None:
        self.received.append(data)
        if self.error and self.is_done():
            raise self.error

    def is_done(self) -> bool:
        return len(self.received) >= self.steps

    def is_authenticated(self) -> bool:
        return self.authenticated


def authenticated(data: bytes = b"", code: int = 0, message: str | None = None, lifetime: int = 0) -> Any:
    """Return an answer to SaslAuthenticate."""
    return reply(error_code=code, error_message=message, auth_bytes=data, session_lifetime_ms=lifetime)


def handshake(code: int = 0, *mechanisms: str) -> Any:
    """Return an answer to SaslHandshake."""
    return reply(error_code=code, mechanisms=list(mechanisms))


class Login:
    """A login over a script."""

    def __init__(self, patch: pytest.MonkeyPatch, exchange: Exchange, mechanism: SaslMechanism = SCRAM) -> None:
        self.clock = FakeTime()
        self.exchange = exchange
        patch.setattr(authentication, "time", self.clock)
        access = KafkaAccess("kafka:9092", sasl=SaslPassword(mechanism, "ada", None))  # type: ignore[arg-type]
        self.authenticator = Authenticator(access)
        patch.setattr(self.authenticator, "_build_exchange", lambda login, host, deadline: exchange)
        self.session = ScriptedSession({"SaslHandshake": handshake(), "SaslAuthenticate": authenticated()})

    def run(self, **script: Any) -> float | None:
        """Log in within ten seconds."""
        self.session.script.update(script)
        return self.authenticator.log_in(self.session.any_broker(), "kafka", self.clock.current + 10)


def test_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mechanism is named, and each message of one side is given to the other, within the deadline."""
    login = Login(monkeypatch, Exchange(2))
    assert login.run(SaslAuthenticate=[authenticated(b"r=1,i=4096"), authenticated(b"v=1")]) is None
    first, second, third = login.session.sent
    assert (first.name, first.version, first.request.mechanism, first.timeout) == (
        "SaslHandshake",
        1,
        "SCRAM-SHA-512",
        10.0,
    )
    assert [bytes(each.request.auth_bytes) for each in (second, third)] == [b"step 0", b"step 1"]
    assert second.timeout == 10.0
    assert login.exchange.received == [b"r=1,i=4096", b"v=1"]
    login = Login(monkeypatch, Exchange())
    login.authenticator.log_in(login.session.any_broker(), "kafka", login.clock.current - 1)
    assert [each.timeout for each in login.session.sent] == [0.001, 0.001]  # a socket takes no time that has passed


@pytest.mark.parametrize(("lifetime", "seconds"), [(0, None), (-1, None), (1, 0.00085), (60_000, 51.0)])
def test_the_time_of_the_next_login(monkeypatch: pytest.MonkeyPatch, lifetime: int, seconds: float | None) -> None:
    """It is 85 % of the lifetime of the session, from the begin of the login on."""
    login = Login(monkeypatch, Exchange())
    found = login.run(SaslAuthenticate=authenticated(lifetime=lifetime))
    assert (found and found - login.clock.current) == (seconds and pytest.approx(seconds, abs=1e-6))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (handshake(34), "this port has no login: use the port of a SASL listener, or remove sasl"),
        (handshake(33, "PLAIN", "GSSAPI"), "does not offer the SASL mechanism SCRAM-SHA-512, only PLAIN, GSSAPI"),
        (handshake(33), r"it does not offer the SASL mechanism SCRAM-SHA-512, only none$"),
        (handshake(35), r"it refused to start a login: UNSUPPORTED_VERSION \(35\)"),
    ],
)
def test_a_mechanism_that_is_refused(monkeypatch: pytest.MonkeyPatch, answer: Any, message: str) -> None:
    """The error says which port or mechanism to use; no password is sent."""
    login = Login(monkeypatch, Exchange())
    with pytest.raises(AuthRejected, match=message):
        login.run(SaslHandshake=answer)
    assert login.session.names() == ["SaslHandshake"]


@pytest.mark.parametrize(
    ("code", "message", "is_refusal", "words"),
    [
        (58, "wrong password", True, "it refused the user ada: wrong password"),
        (58, None, True, r"it refused the user ada: SASL_AUTHENTICATION_FAILED \(58\)"),
        (34, "state", False, "it refused the user ada: state"),
    ],
)
def test_a_user_that_is_refused(
    monkeypatch: pytest.MonkeyPatch, code: int, message: str | None, is_refusal: bool, words: str
) -> None:
    """All brokers would refuse a wrong password; other errors may be those of one broker."""
    login = Login(monkeypatch, Exchange())
    with pytest.raises(AuthRejected, match=words) as caught:
        login.run(SaslAuthenticate=authenticated(code=code, message=message))
    assert isinstance(caught.value, LoginRefused) is is_refusal


def test_details_of_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without SCRAM, the data before the refusal are its cause; those of SCRAM are no text."""
    answers = [authenticated(b"expired \xff"), authenticated(code=58, message="no")]
    login = Login(monkeypatch, Exchange(2), SaslMechanism.PLAIN)
    with pytest.raises(LoginRefused, match="it refused the user ada: no; expired \ufffd"):
        login.run(SaslAuthenticate=list(answers))
    login = Login(monkeypatch, Exchange(2))
    with pytest.raises(LoginRefused, match=r"it refused the user ada: no$"):
        login.run(SaslAuthenticate=list(answers))


@pytest.mark.parametrize("login", [Kerberos("ada@X", "kafka"), SaslAwsIam("eu-west-1", Location("cluster.yaml", 1))])
def test_advice_for_a_refusal(login: Any) -> None:
    """What the words of a broker leave open is named for the logins that need it."""
    advice = authentication._ADVICE[type(login)]
    refused = authentication._refusal(58, "no", "", login)
    assert str(refused) == f"it refused {login.subject}: no; {advice}"
    assert isinstance(refused, LoginRefused)


def test_long_words_of_a_refusal_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message of a broker has at most 300 signs in an error, and the data before it 200."""
    login = Login(monkeypatch, Exchange(2), SaslMechanism.PLAIN)
    with pytest.raises(LoginRefused, match=rf"; {'a' * 197}\.\.\.$"):
        login.run(SaslAuthenticate=[authenticated(b"a" * 400), authenticated(code=58, message="no")])
    login = Login(monkeypatch, Exchange())
    with pytest.raises(LoginRefused) as caught:
        login.run(SaslAuthenticate=authenticated(code=58, message="a" * 400))
    assert str(caught.value).endswith("a" * 297 + "...")
    assert "a" * 298 not in str(caught.value)


@pytest.mark.parametrize(
    ("mechanism", "first"),
    [
        (SaslMechanism.PLAIN, b"ada\0ada\0secret"),
        (SaslMechanism.SCRAM_SHA_256, b"n,,n=ada,r="),
        (SaslMechanism.SCRAM_SHA_512, b"n,,n=ada,r="),
    ],
)
def test_each_mechanism_with_a_password_has_its_exchange(
    monkeypatch: pytest.MonkeyPatch, mechanism: SaslMechanism, first: bytes
) -> None:
    """Only PLAIN sends the password; SCRAM is made with the name, the password and the mechanism."""
    made: list[tuple[str, ...]] = []
    make = authentication.Scram

    def note(*arguments: str) -> Any:
        made.append(arguments)
        return make(*arguments)

    monkeypatch.setattr(authentication, "Scram", note)
    exchange = authentication._make_password_exchange(SaslPassword(mechanism, "ada", None), "secret")  # type: ignore[arg-type]
    assert exchange.auth_bytes().startswith(first)
    assert made == ([] if mechanism is SaslMechanism.PLAIN else [("ada", "secret", mechanism.value)])


def test_a_ticket_is_for_the_host_of_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login by Kerberos waits for the KDC until the deadline."""
    login = Kerberos("ada@X", "kafka")
    monkeypatch.setattr(authentication, "_make_kerberos_exchange", lambda *given: given)
    authenticator = Authenticator(KafkaAccess("kafka:9092", sasl=login))
    made: Any = authenticator._build_exchange(login, "b1", 7.0)
    assert made == (login, "b1", 7.0)


def test_a_ticket_of_kerberos(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exchange is made for the login and the host; a KDC that is too slow is named with the principal."""
    login = Kerberos("ada@X", "kafka")
    monkeypatch.setattr("topiarist.adapters.kerberos.KerberosExchange", lambda login, host: (login, host))
    made: Any = authentication._make_kerberos_exchange(login, "b1", time.monotonic() + 60)
    assert made == (login, "b1")

    def wait(_login: Kerberos, _host: str) -> None:
        raise TimeoutError("the KDC did not answer in time")

    monkeypatch.setattr("topiarist.adapters.kerberos.KerberosExchange", wait)
    with pytest.raises(TopiaristError) as caught:
        authentication._make_kerberos_exchange(login, "b1", time.monotonic() + 60)
    assert (caught.value.reason, caught.value.message, caught.value.hint) == (
        Reason.UNREACHABLE,
        "no ticket for ada@X: the KDC did not answer in time",
        "check krb5.conf and the network to the KDC",
    )


@pytest.mark.parametrize(("steps", "is_done"), [(4, True), (5, False)])
def test_a_login_that_does_not_end(monkeypatch: pytest.MonkeyPatch, steps: int, is_done: bool) -> None:
    """No mechanism has more than four steps."""
    login = Login(monkeypatch, Exchange(steps))
    if is_done:
        login.run()
    else:
        with pytest.raises(AuthRejected, match="the login does not finish"):
            login.run()
    assert login.session.names().count("SaslAuthenticate") == 4


def test_a_login_that_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mechanism that ends without authentication is refused."""
    with pytest.raises(AuthRejected, match="data that the mechanism does not have"):
        Login(monkeypatch, Exchange(is_authenticated=False)).run()


@pytest.mark.parametrize(
    ("data", "is_refused"),
    [
        (b"r=x,s=y,i=%d" % (MIN_ITERATIONS - 1), True),
        (b"r=x,s=y,i=%d" % MIN_ITERATIONS, False),
        (b"i=1,r=x", True),
        (b"r=x", False),
    ],
)
def test_few_iterations(monkeypatch: pytest.MonkeyPatch, data: bytes, is_refused: bool) -> None:
    """A server that wants fewer than 4,096 iterations could guess the password; other mechanisms have none."""
    assert MIN_ITERATIONS == 4096
    for mechanism in (SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512):
        login = Login(monkeypatch, Exchange(), mechanism)
        if is_refused:
            with pytest.raises(AuthRejected, match="iterations for SCRAM, fewer than 4096"):
                login.run(SaslAuthenticate=authenticated(data))
        else:
            login.run(SaslAuthenticate=authenticated(data))
    Login(monkeypatch, Exchange(), SaslMechanism.PLAIN).run(SaslAuthenticate=authenticated(data))
    # Only the first message of the server has the number.
    Login(monkeypatch, Exchange(2)).run(SaslAuthenticate=[authenticated(b"i=%d" % MIN_ITERATIONS), authenticated(data)])


@pytest.mark.parametrize("error", [ValueError(), KeyError(), TypeError()])
@pytest.mark.parametrize(
    ("steps", "mechanism", "message"),
    [
        (1, SCRAM, "its answer to the login is malformed"),
        (2, SCRAM, "it did not prove that it knows the password: it may be another server"),
        (2, SaslMechanism.PLAIN, "its answer to the login is malformed"),
    ],
)
def test_malformed_answers(
    monkeypatch: pytest.MonkeyPatch, error: Exception, steps: int, mechanism: SaslMechanism, message: str
) -> None:
    """The last message of SCRAM proves that the server knows the password."""
    with pytest.raises(AuthRejected, match=message):
        Login(monkeypatch, Exchange(steps, error=error), mechanism).run()


HERE = Location("clusters.yaml", 3, 5)


def test_what_is_missing_ends_the_search() -> None:
    """A secret that is not there would be missing for every broker: the error is one of the cluster."""
    login = SaslPassword(SCRAM, "ada", SecretReference("/nowhere", "", HERE))
    session = ScriptedSession({})
    with pytest.raises(RefusedByCluster, match="the file /nowhere does not exist") as caught:
        Authenticator(KafkaAccess("kafka:9092", login)).log_in(session.any_broker(), "kafka", 0)
    assert caught.value.reason is Reason.CREDENTIALS_INVALID
    assert session.sent == []


def test_a_stored_token(tmp_path: Path) -> None:
    """It is sent with its extensions, and read again at each login; what is no token is refused before."""
    (tmp_path / "token").write_text("abc\n")
    reference = SecretReference(str(tmp_path / "token"), "", HERE)
    login = SaslToken(reference, (("a", "1"), ("b", "2")))
    authenticator = Authenticator(KafkaAccess("kafka:9092", login))
    session = ScriptedSession({"SaslHandshake": handshake(), "SaslAuthenticate": authenticated()})
    clock = FakeTime()
    authenticator.log_in(session.any_broker(), "kafka", clock.current + 10)
    assert session.sent[0].request.mechanism == "OAUTHBEARER"
    assert session.sent[1].request.auth_bytes == b"n,,\x01auth=Bearer abc\x01a=1\x01b=2\x01\x01"
    (tmp_path / "token").write_text("a b")
    for work in (authenticator.check, lambda: StoredToken(login).token(0, "kafka")):
        with pytest.raises(TopiaristError, match="has no token: found blanks or letters that are not ASCII"):
            work()


def test_a_token_is_for_the_host_of_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS signs the address for which a token is made."""
    asked: list[tuple[float, str]] = []

    def make_token(_tokens: AwsTokens, deadline: float, host: str) -> str:
        asked.append((deadline, host))
        return "abc"

    monkeypatch.setattr(AwsTokens, "token", make_token)
    authenticator = Authenticator(KafkaAccess("kafka:9092", SaslAwsIam("eu-west-1", HERE)))
    session = ScriptedSession({"SaslHandshake": handshake(), "SaslAuthenticate": authenticated()})
    deadline = time.monotonic() + 10
    authenticator.log_in(session.any_broker(), "b-1.kafka", deadline)
    assert asked == [(deadline, "b-1.kafka")]


def test_secrets_are_looked_for_before_the_first_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reference of a login is checked, whatever its mechanism, and those of TLS are."""
    checked: list[Kerberos] = []
    monkeypatch.setattr("topiarist.adapters.kerberos.check", checked.append)
    missing, ticket = SecretReference("/nowhere", "", HERE), Kerberos("a@B", "kafka")
    for access in (
        *(KafkaAccess("kafka:9092", login) for login in (SaslPassword(SCRAM, "ada", missing), SaslToken(missing))),
        KafkaAccess("kafka:9092", SaslOAuth("https://localhost/token", "ada", missing)),
        KafkaAccess("kafka:9092", tls=Tls(ca=missing)),
    ):
        with pytest.raises(TopiaristError, match="/nowhere"):
            Authenticator(access).check()
    Authenticator(KafkaAccess("kafka:9092", ticket)).check()
    assert checked == [ticket]


def test_a_command_runs_at_the_login_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check before the first connection finds the variable, and runs nothing."""
    source = StoredToken(SaslToken(SecretReference("", "", HERE, command="TOPIARIST_TOKEN_COMMAND")))
    with pytest.raises(TopiaristError, match="TOPIARIST_TOKEN_COMMAND is not set"):
        source.check()
    monkeypatch.setenv("TOPIARIST_TOKEN_COMMAND", "false")
    source.check()
    with pytest.raises(TopiaristError, match="has a command that failed with exit code 1"):
        source.token(0, "kafka")


def test_iam_needs_encryption() -> None:
    """A token is worth a login for a quarter of an hour, so it is sent by TLS only."""
    authenticator = Authenticator(KafkaAccess("kafka:9092", SaslAwsIam("eu-west-1", HERE)))
    with pytest.raises(
        TopiaristError, match="AWS_MSK_IAM without tls would send the token without encryption"
    ) as caught:
        authenticator.check()
    assert caught.value.hint == "add tls: {}"


def test_an_access_without_a_login() -> None:
    """Nothing is sent."""
    session = ScriptedSession({})
    assert Authenticator(KafkaAccess("kafka:9092")).log_in(session.any_broker(), "kafka", 0) is None
    assert session.sent == []
