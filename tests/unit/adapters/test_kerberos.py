"""Logins by Kerberos without a KDC: what is missing, and the words for each error. Tests of brokers have a KDC."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from topiarist.adapters import kerberos
from topiarist.adapters.kerberos import KerberosExchange
from topiarist.adapters.tls import AuthRejected
from topiarist.errors import Location, Reason, TopiaristError
from topiarist.model.access import Kerberos, SecretReference

TABLE = SecretReference("/run/own.keytab", "", Location("clusters.yaml", 7, 9))
LOGIN = Kerberos("topiarist@EXAMPLE.COM", "kafka", key_tab=TABLE)
BASE = (1 << 32) - 1765328384


class GssError(Exception):
    """An error of the library, with a code of Kerberos as the library has it: 32 bits without a sign."""

    def __init__(self, code: int) -> None:
        self.min_code = code

    def gen_message(self) -> str:
        return f"Major (851968): Unspecified GSS failure, Minor ({self.min_code}): some \n words"


class Context:
    """A security context that is complete after one token of the server, and offers ``layers``."""

    def __init__(self, layers: bytes = b"\x01\x00\x00\x00", error: GssError | None = None, **made: Any) -> None:
        self.layers, self.error, self.made = layers, error, made
        self.complete = False

    def step(self, token: bytes | None = None) -> bytes | None:
        if self.error:
            raise self.error
        self.complete = token is not None
        return None if token else b"first"

    def unwrap(self, token: bytes) -> Any:
        return SimpleNamespace(message=self.layers)

    def wrap(self, message: bytes, encrypt: bool) -> Any:
        assert not encrypt
        return SimpleNamespace(message=b"wrapped " + message)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replace the library; ``made`` has the last context, ``credentials`` what the last ones were made of."""
    found: Any = SimpleNamespace(context=Context, made=None, credentials=None)

    def make_context(**given: Any) -> Context:
        found.made = found.context(**given)
        return found.made  # type: ignore[no-any-return]

    def make_credentials(**given: Any) -> str:
        found.credentials = given
        return "credentials"

    found.Name = lambda text, kind: (text, kind)
    found.NameType = SimpleNamespace(kerberos_principal="principal")
    found.MechType = SimpleNamespace(kerberos="kerberos")
    found.RequirementFlag = SimpleNamespace(mutual_authentication=2)
    found.SecurityContext, found.Credentials = make_context, make_credentials
    found.exceptions = SimpleNamespace(GSSError=GssError)
    found.raw = SimpleNamespace(MissingCredentialsError=type("MissingCredentialsError", (GssError,), {}))
    monkeypatch.setitem(sys.modules, "gssapi", found)
    return found


def test_an_exchange(library: Any) -> None:
    """The context is for the service of the host, as it is written; no security layer is chosen, and no other user."""
    exchange = KerberosExchange(LOGIN, "b1.example.com")
    made = library.made.made
    assert made["name"] == ("kafka/b1.example.com@EXAMPLE.COM", "principal")
    assert (made["creds"], made["flags"], made["usage"]) == ("credentials", 2, "initiate")
    sent = []
    for answer in (b"proof", b"layers", b""):
        assert not exchange.is_done()
        sent.append((exchange.auth_bytes(), exchange.is_last))
        exchange.receive(answer)
    assert sent == [(b"first", False), (b"", False), (b"wrapped \x01\x00\x00\x00", True)]
    assert exchange.is_done()
    assert exchange.is_authenticated()


@pytest.mark.parametrize(
    ("login", "service", "store"),
    [
        (LOGIN, "kafka/b1@EXAMPLE.COM", {"client_keytab": "FILE:/run/own.keytab"}),
        (replace(LOGIN, key_tab=None), "kafka/b1@EXAMPLE.COM", None),
        (replace(LOGIN, realm="OTHER.COM"), "kafka/b1@OTHER.COM", {"client_keytab": "FILE:/run/own.keytab"}),
        (Kerberos("topiarist", "zookeeper", ticket_cache=TABLE), "zookeeper/b1", {"ccache": "FILE:/run/own.keytab"}),
    ],
)
def test_credentials(library: Any, login: Kerberos, service: str, store: dict[str, str] | None) -> None:
    """A key table has its tickets in memory; a cache is used as it is; the realm is that of the principal."""
    KerberosExchange(login, "b1")
    assert library.made.made["name"][0] == service
    given = library.credentials
    assert given["name"] == (login.principal, "principal")
    if login.key_tab:
        assert given["store"].pop("ccache").startswith("MEMORY:")
    assert given["store"] == store


@pytest.mark.parametrize("layers", [b"\x06\x00\x00\x00", b"\x01\x00", b""])
def test_a_server_that_requires_a_layer(library: Any, layers: bytes) -> None:
    """Integrity and encryption of GSSAPI are refused: TLS has both."""
    library.context = lambda **given: Context(layers, **given)
    exchange = KerberosExchange(LOGIN, "b1")
    exchange.receive(b"proof")
    with pytest.raises(AuthRejected, match="it requires a security layer of GSSAPI"):
        exchange.receive(b"layers")


PLACE = "clusters.yaml:7:9: cannot log in by GSSAPI: "
NAME = "topiarist@EXAMPLE.COM"


@pytest.mark.parametrize(
    ("code", "reason", "words"),
    [
        (BASE + 181, Reason.CREDENTIALS_INVALID, f"clusters.yaml:7:9: the file /run/own.keytab has no key of {NAME}"),
        (BASE + 195, Reason.CREDENTIALS_INVALID, f"clusters.yaml:7:9: the file /run/own.keytab has no key of {NAME}"),
        (BASE + 156, Reason.UNREACHABLE, f"no KDC for {NAME} and kafka/b1@EXAMPLE.COM answers: some words"),
        (BASE + 6, Reason.AUTHENTICATION_FAILED, f"{PLACE}the KDC does not know the principal {NAME}"),
        (BASE + 7, Reason.AUTHENTICATION_FAILED, f"{PLACE}the KDC does not know the service kafka/b1@EXAMPLE.COM"),
        (BASE + 24, Reason.AUTHENTICATION_FAILED, f"{PLACE}the KDC refuses the key of {NAME}"),
        (BASE + 32, Reason.AUTHENTICATION_FAILED, f"{PLACE}the ticket of {NAME} has expired"),
        (BASE + 37, Reason.AUTHENTICATION_FAILED, f"{PLACE}the clock differs from that of the KDC"),
        (100001, Reason.AUTHENTICATION_FAILED, f"{PLACE}Kerberos failed: some words"),
    ],
)
def test_each_error(library: Any, code: int, reason: Reason, words: str) -> None:
    """The code of Kerberos has words of its own, with the place of the field."""
    library.context = lambda **given: Context(error=GssError(code), **given)
    with pytest.raises(TopiaristError) as caught:
        KerberosExchange(LOGIN, "b1")
    assert caught.value.reason is reason
    assert str(caught.value).startswith(words)
    assert (caught.value.hint == kerberos.HINT_KDC) is (reason is Reason.UNREACHABLE)


def test_no_tickets(library: Any) -> None:
    """Without a key table, what is missing are tickets: in the file, or in the cache of the user."""
    library.context = lambda **given: Context(error=library.raw.MissingCredentialsError(39756032), **given)
    in_file = replace(LOGIN, key_tab=None, ticket_cache=TABLE)
    table = {
        in_file: "the file /run/own.keytab has no ticket of",
        replace(LOGIN, key_tab=None): "cache of this user has",
    }
    for login, words in table.items():
        with pytest.raises(TopiaristError, match=words) as caught:
            KerberosExchange(login, "b1")
        assert caught.value.reason is Reason.CREDENTIALS_INVALID
        assert "kinit" in caught.value.hint


@pytest.mark.usefixtures("library")
def test_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A missing file, package or library is found before connecting."""
    (tmp_path / "own.keytab").touch()
    there = replace(LOGIN, key_tab=replace(TABLE, file=str(tmp_path / "own.keytab")))
    kerberos.check(there)
    with pytest.raises(TopiaristError, match=r"/run/own.keytab does not exist"):
        kerberos.check(LOGIN)
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(TopiaristError, match=r"a login by GSSAPI needs packages .*extra kerberos") as caught:
        kerberos.check(there)
    assert caught.value.reason is Reason.PREREQUISITE_MISSING
