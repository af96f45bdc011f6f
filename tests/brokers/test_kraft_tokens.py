"""Logins by tokens, long passwords and stores to a real broker: IAM of AWS, signed tokens of an issuer, renewals."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from support.kafka.kraft import KafkaListener, KraftCluster, KraftOptions, plain_and_scram, tls_of
from support.network.certificates import Authority
from support.network.token_server import SigningKey, TokenServer
from support.secret_scanner import register_secret
from topiarist.adapters.devcluster.zookeeper_server import find_java
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.errors import Location, Reason, TopiaristError
from topiarist.model.access import (
    KafkaAccess,
    Sasl,
    SaslAwsIam,
    SaslMechanism,
    SaslOAuth,
    SaslPassword,
    SaslToken,
    SecretReference,
    Tls,
)

HERE = Location("clusters.yaml", 3, 5)
HOST = "127.0.0.1"
REGION = "eu-west-1"
SESSION_S = 2
KEY_ID, AWS_SECRET = "AKIATOPIARISTTEST001", register_secret("planted-Hedge17-aws")
LONG_PASSWORD = register_secret("planted-Hedge18-" + "long" * 1000)
CLIENT_SECRET = register_secret("planted-Hedge19-client")
STORE_PASSWORD = register_secret("planted-Hedge20-store")
MODULE = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker"'
)

pytestmark = pytest.mark.night(area="security")


class Bed:
    """A node with a listener for each kind of token, and the files of its clients."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.authority = folder, Authority(folder / "authority")
        self.seen = folder / "extensions"
        self.key = SigningKey("first")
        (folder / "keys.json").write_text(json.dumps(self.key.published()))
        self.kafka: KraftCluster

    def file(self, name: str, content: str | bytes) -> SecretReference:
        """Return a reference to a file with this content."""
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return SecretReference(str(path), "", HERE)

    def tls(self) -> Tls:
        """Return TLS settings that trust the authority of the broker."""
        return Tls(ca=SecretReference(str(self.authority.ca), "", HERE))

    def session(self, listener: str, sasl: Sasl | None, tls: Tls | None = None, host: str = HOST) -> Session:
        """Return a session over one listener, with the address twice: a refusal must end the search at the first."""
        address = self.kafka.bootstrap_of(listener, host)
        return Session(KafkaAccess(f"{address},{self.kafka.bootstrap}", sasl, tls, request_timeout=15.0), 10.0)

    def brokers(self, listener: str, sasl: Sasl | None, tls: Tls | None = None) -> list[int]:
        """Return the brokers that a session finds."""
        session = self.session(listener, sasl, tls)
        try:
            return [each.node_id for each in session.read_metadata([]).brokers]
        finally:
            session.close()

    def refusal(self, listener: str, sasl: Sasl, tls: Tls | None = None) -> TopiaristError:
        """Return the error of a session; the second address was not tried."""
        with pytest.raises(TopiaristError) as caught:
            self.session(listener, sasl, tls).read_metadata([])
        return caught.value

    def listeners(self) -> dict[str, KafkaListener]:
        """Return the listeners of the node."""
        certificate = self.authority.issue("broker", HOST, "localhost")
        iam = {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "oauthbearer.sasl.server.callback.handler.class": "SignedAwsTokens",
            "oauthbearer.sasl.jaas.config": (
                f'{MODULE} region="{REGION}" lifetime="{SESSION_S}" "secret_{KEY_ID}"="{AWS_SECRET}" '
                f'"secret_ASIATOPIARISTTEST001"="{AWS_SECRET}";'
            ),
            "connections.max.reauth.ms": 60_000,
            **tls_of(certificate, self.authority.ca),
        }
        signed = {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "oauthbearer.sasl.server.callback.handler.class": "SeenExtensions",
            "oauthbearer.sasl.jaas.config": f'{MODULE} seen="{self.seen}";',
            "sasl.oauthbearer.jwks.endpoint.url": (self.folder / "keys.json").as_uri(),
            "sasl.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.expected.issuer": "https://issuer.test",
        }
        users = plain_and_scram({"alice": LONG_PASSWORD}, ("PLAIN",))
        mutual = tls_of(certificate, self.authority.ca, client_certificate="required")
        return {
            "IAM": KafkaListener("SASL_SSL", iam),
            "SIGNED": KafkaListener("SASL_PLAINTEXT", signed),
            "LONG": KafkaListener("SASL_PLAINTEXT", users),
            "MUTUAL": KafkaListener("SSL", mutual),
        }


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory, kraft_release: str) -> Iterator[Bed]:
    """Start the node."""
    bed = Bed(tmp_path_factory.mktemp("tokens"))
    allowed = "org.apache.kafka.sasl.oauthbearer.allowed"
    url = (bed.folder / "keys.json").as_uri()
    jvm = (f"-D{allowed}.urls={url}", f"-D{allowed}.files={bed.folder / 'keys.json'}")
    with KraftCluster(
        kraft_release, {1: None}, KraftOptions(controllers=0, listeners=bed.listeners(), jvm=jvm)
    ) as kafka:
        bed.kafka = kafka
        yield bed


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Set AWS credentials in the environment, and let botocore find no others."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", AWS_SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("CONFIG_FILE", "SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(f"AWS_{name}", str(tmp_path / name))
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"):
        monkeypatch.delenv(name, raising=False)


IAM = SaslAwsIam(REGION, HERE)


@pytest.mark.usefixtures("aws")
def test_a_signed_request_logs_in(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker computes the same signature, also of temporary credentials, which have a session token."""
    assert bed.brokers("IAM", IAM, bed.tls()) == [1]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ASIATOPIARISTTEST001")
    monkeypatch.setenv("AWS_SESSION_TOKEN", register_secret("planted-Hedge21/session+token=="))
    assert bed.brokers("IAM", IAM, bed.tls()) == [1]


@pytest.mark.usefixtures("aws")
def test_a_session_by_iam_is_renewed(bed: Bed) -> None:
    """The connection outlives the end that the broker set for the first token."""
    session = bed.session("IAM", IAM, bed.tls())
    connection = session.any_broker()
    for _ in range(2):
        time.sleep(SESSION_S)
        assert session.read_metadata([]).brokers
        assert session.any_broker() is connection
    assert session.requests["SaslHandshake", "ok"] == 3
    session.close()


@pytest.mark.usefixtures("aws")
def test_refusals_of_iam_are_explained(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown key and a wrong secret are the broker's words; no TLS, profile or credentials are found before."""
    error = bed.refusal("IAM", replace(IAM, region="us-east-1"), bed.tls())
    assert error.reason is Reason.AUTHENTICATION_FAILED
    assert "wrong host kafka.us-east-1.amazonaws.com" in str(error)
    assert "the identity has no kafka-cluster:Connect on this cluster" in str(error)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", register_secret("planted-Hedge22-wrong"))
    assert "wrong signature" in str(bed.refusal("IAM", IAM, bed.tls()))
    error = bed.refusal("IAM", IAM)
    assert str(error) == (
        "clusters.yaml:3:5: AWS_MSK_IAM without tls would send the token without encryption\n    add tls: {}"
    )
    error = bed.refusal("IAM", replace(IAM, profile="nobody"), bed.tls())
    assert error.reason is Reason.CREDENTIALS_INVALID
    assert "The config profile (nobody) could not be found" in str(error)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    error = bed.refusal("IAM", IAM, bed.tls())
    assert error.reason is Reason.CREDENTIALS_INVALID
    assert "found no AWS credentials" in str(error)


def test_a_token_from_a_file_is_read_again(bed: Bed) -> None:
    """The token of the moment logs in, with its extensions; after a rotation of the file the new one does."""
    extensions = (("identityPoolId", "pool-1"), ("logicalCluster", "lkc-1"))
    login = SaslToken(bed.file("token", bed.key.sign("ada", lifetime=60) + "\n"), extensions)
    assert bed.brokers("SIGNED", login) == [1]
    assert bed.seen.read_text() == "{identityPoolId=pool-1, logicalCluster=lkc-1}"
    bed.file("token", bed.key.sign("ada", lifetime=-60))
    error = bed.refusal("SIGNED", login)
    assert error.reason is Reason.AUTHENTICATION_FAILED
    assert "it refused the token of clusters.yaml:3:5" in str(error)
    bed.file("token", SigningKey("other").sign("ada", lifetime=60))
    assert "it refused the token" in str(bed.refusal("SIGNED", login))
    bed.file("token", bed.key.sign("ada", lifetime=60))
    assert bed.brokers("SIGNED", login) == [1]


def test_a_session_by_a_short_token_is_renewed(bed: Bed) -> None:
    """Before the token ends, the connection logs in with the token that the file has by then."""
    login = SaslToken(bed.file("short", bed.key.sign("ada", lifetime=4)))
    session = bed.session("SIGNED", login)
    connection = session.any_broker()
    bed.file("short", bed.key.sign("ada", lifetime=60))
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        time.sleep(0.5)
        assert session.read_metadata([]).brokers
    assert session.any_broker() is connection
    assert session.requests["SaslHandshake", "ok"] == 2
    session.close()


def test_a_token_of_a_command(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command in the variable that the document names prints the token; it runs at each login, not before."""
    bed.file("printed", bed.key.sign("ada", lifetime=60, is_planted=False))
    login = SaslToken(SecretReference("", "", HERE, command="TOPIARIST_TOKEN_COMMAND"))
    monkeypatch.setenv("TOPIARIST_TOKEN_COMMAND", f"cat '{bed.folder}/printed'")
    assert bed.brokers("SIGNED", login) == [1]


@pytest.mark.parametrize("kind", ["RS256", "ES256"])
def test_a_signed_statement_gets_a_token(bed: Bed, kind: str) -> None:
    """The endpoint verifies what the client's key has signed, and its token, for the audience asked for, logs in."""
    server_certificate = bed.authority.issue(f"endpoint-{kind}", HOST)
    client = SigningKey("client", kind)
    with TokenServer("topiarist", CLIENT_SECRET, server_certificate, issuer=bed.key, client_key=client) as server:
        login = SaslOAuth(
            server.url,
            "topiarist",
            client_key=bed.file(f"client-{kind}.pem", client.private_pem()),
            client_key_id="client",
            audience="kafka",
            ca=SecretReference(str(bed.authority.ca), "", HERE),
        )
        assert bed.brokers("SIGNED", login) == [1]
        assert server.requests == 1
        wrong = bed.file(f"wrong-{kind}.pem", SigningKey("client", kind).private_pem())
        error = bed.refusal("SIGNED", replace(login, client_key=wrong))
        assert "HTTP status 401 (invalid_client: wrong signature)" in str(error)
        error = bed.refusal("SIGNED", replace(login, audience="other"))
        assert "it refused the client topiarist" in str(error)


def test_a_long_password(bed: Bed) -> None:
    """A key of 4,000 bytes logs in by PLAIN."""
    assert bed.brokers("LONG", SaslPassword(SaslMechanism.PLAIN, "alice", bed.file("long", LONG_PASSWORD))) == [1]


@pytest.mark.parametrize("kind", ["pkcs12", "jks"])
def test_stores_of_java(bed: Bed, kind: str) -> None:
    """Stores that keytool has written log in by mutual TLS; a wrong password is named with its file."""
    keys, trusted = stores(bed, kind)
    password = bed.file("store.password", STORE_PASSWORD)
    tls = Tls(key_store=keys, key_store_password=password, trust_store=trusted, trust_store_password=password)
    assert bed.brokers("MUTUAL", None, tls) == [1]
    wrong = bed.file("wrong.password", register_secret("planted-Hedge23-store"))
    for field in ("key_store", "trust_store"):
        with pytest.raises(TopiaristError, match="cannot be opened with its password") as caught:
            bed.session("MUTUAL", None, replace(tls, **{f"{field}_password": wrong}))
        assert caught.value.reason is Reason.CREDENTIALS_INVALID


def stores(bed: Bed, kind: str) -> tuple[SecretReference, SecretReference]:
    """Return a key store and a trust store of this kind, which keytool has written."""
    keytool = str(Path(find_java()).resolve().with_name("keytool"))
    pem, both = str(bed.authority.issue(f"client-{kind}", "client")), str(bed.folder / f"client-{kind}.p12")
    keys, trusted = str(bed.folder / f"keys.{kind}"), str(bed.folder / f"trusted.{kind}")

    def run(*words: str) -> None:
        subprocess.run(words, check=True, capture_output=True)

    run("openssl", "pkcs12", "-export", "-in", pem, "-name", "own", "-out", both, "-passout", f"pass:{STORE_PASSWORD}")
    source = ("-srckeystore", both, "-srcstorepass", STORE_PASSWORD, "-srcstoretype", "pkcs12")
    target = ("-destkeystore", keys, "-deststorepass", STORE_PASSWORD, "-deststoretype", kind)
    run(keytool, "-importkeystore", "-noprompt", *source, *target)
    store = ("-keystore", trusted, "-storepass", STORE_PASSWORD, "-storetype", kind)
    run(keytool, "-importcert", "-noprompt", "-file", str(bed.authority.ca), "-alias", "ca", *store)
    return SecretReference(keys, "", HERE), SecretReference(trusted, "", HERE)
