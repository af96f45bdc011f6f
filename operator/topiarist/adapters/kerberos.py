"""The client's side of SASL GSSAPI (RFC 4752) by Kerberos, for brokers and for ZooKeeper.

The only place of the library ``gssapi``, which the extra ``kerberos`` installs, over MIT's Kerberos of the system. A
server must prove who it is (mutual authentication), and no security layer is used: TLS encrypts.

Host names are used as they are written: after a look-up in DNS, as ``krb5.conf`` may ask for, DNS would choose the
server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from topiarist.adapters.tls import AuthRejected, credentials_error, read_file
from topiarist.errors import Reason, TopiaristError, missing_packages_error
from topiarist.model.access import Kerberos, SecretReference
from topiarist.text import printable

MAX_KEY_TAB_BYTES = 1 << 20
"""Maximum size of a key table or a ticket cache in bytes."""

_WITHOUT_LAYER = 1
_LAYERS_BYTES = 4

# Error codes of MIT's Kerberos (krb5.h), with the words for each; {principal}, {service} and {cache} are filled in.
_BASE = -1765328384
_NO_KEY = frozenset({_BASE + 181, _BASE + 198})  # KRB5_KT_NOTFOUND, KRB5_KT_KVNONOTFOUND
_NO_CACHE = frozenset({_BASE + 195, _BASE + 141, _BASE + 193})  # KRB5_FCC_NOFILE, KRB5_CC_NOTFOUND, KRB5_CC_FORMAT
_UNREACHABLE = frozenset({_BASE + 156, _BASE + 154, _BASE + 220})  # KDC_UNREACH, REALM_UNKNOWN, REALM_CANT_RESOLVE
_SKEW, _EXPIRED = _BASE + 37, _BASE + 32
HINT_KDC = "check krb5.conf and the network to the KDC"
_CAUSES = {
    _BASE + 6: "the KDC does not know the principal {principal}: write principal as the KDC lists it",
    _BASE + 7: "the KDC does not know the service {service}: the host name of the address, serviceName or realm is not "
    "that of the servers' keytab",
    _BASE + 18: "the KDC has locked the principal {principal}",
    _BASE + 23: "the key of {principal} has expired at the KDC",
    _BASE + 24: "the KDC refuses the key of {principal}: keyTab is older than the last change of the key",
    _BASE + 31: "the KDC refuses the key of {principal}: keyTab is older than the last change of the key",
    _EXPIRED: "the ticket of {principal} has expired: run kinit, or give keyTab",
    _SKEW: "the clock differs from that of the KDC by more than it allows: set the clocks by NTP",
}


class KerberosExchange:
    """One login as ``login.principal`` to the service of ``host``: tokens out and in, until ``is_done``.

    ``is_last`` is true when the next token is the last one, after which a server has nothing to say.

    Creating it and ``receive`` may ask the KDC, which takes as long as ``krb5.conf`` says. Raises ``AuthRejected`` for
    a server that cannot be used, and ``TopiaristError`` for what no other server would accept either.
    """

    def __init__(self, login: Kerberos, host: str) -> None:
        gssapi = _library()
        self._login = login
        realm = login.realm or login.principal.partition("@")[2]
        self._service = f"{login.service_name}/{host}" + (f"@{realm}" if realm else "")
        with self._translated():
            service = gssapi.Name(self._service, gssapi.NameType.kerberos_principal)
            self._context: Any = gssapi.SecurityContext(
                name=service,
                creds=_acquire(login),
                usage="initiate",
                mech=gssapi.MechType.kerberos,
                flags=gssapi.RequirementFlag.mutual_authentication,
            )
            self._token: bytes = self._context.step() or b""
        self.is_last = self._is_done = False

    def auth_bytes(self) -> bytes:
        """Return the next token for the server."""
        return self._token

    def receive(self, data: bytes) -> None:
        """Take a token of the server: its proof, the security layers that it offers, or its last, empty word."""
        if self.is_last:
            self._is_done = True
        elif not self._context.complete:
            with self._translated():
                self._token = self._context.step(data) or b""
        else:
            self._choose_layer(data)

    def is_done(self) -> bool:
        """Return whether both sides have sent all."""
        return self._is_done

    def is_authenticated(self) -> bool:
        """Return whether the server has proved who it is."""
        return bool(self._context.complete)  # with mutual authentication, only a token of the server completes it

    def _choose_layer(self, data: bytes) -> None:
        with self._translated():
            offer = self._context.unwrap(data).message
        if len(offer) != _LAYERS_BYTES or not offer[0] & _WITHOUT_LAYER:
            raise AuthRejected("it requires a security layer of GSSAPI, which topiarist does not have: use TLS")
        with self._translated():
            self._token = self._context.wrap(bytes([_WITHOUT_LAYER, 0, 0, 0]), False).message
        self.is_last = True

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _library().exceptions.GSSError as error:
            raise _describe(error, self._login, self._service) from None


def check(login: Kerberos) -> None:
    """Read the key table once, and look for the library, before connecting. Raises ``TopiaristError``."""
    _library()
    for reference in (login.key_tab, login.ticket_cache):
        if reference:
            read_file(reference, MAX_KEY_TAB_BYTES)


def _library() -> Any:
    try:
        import gssapi
    except ModuleNotFoundError:
        raise missing_packages_error("kerberos", "a login by GSSAPI") from None
    except (ImportError, OSError):  # the package is there, and the library of the system is not
        message = "a login by GSSAPI needs MIT's Kerberos, and its library libgssapi_krb5 is missing"
        raise TopiaristError(
            Reason.PREREQUISITE_MISSING, message, "install it (Debian and Ubuntu: apt install libgssapi-krb5-2)"
        ) from None
    return gssapi


def _acquire(login: Kerberos) -> Any:
    """Return the credentials: by the key of a key table, with tickets in memory alone, or by the tickets of a cache."""
    gssapi = _library()
    name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
    store = {"ccache": f"FILE:{login.ticket_cache.file}"} if login.ticket_cache else None
    if login.key_tab:
        # A cache for each login: an exported key takes effect at the next one.
        store = {"client_keytab": f"FILE:{login.key_tab.file}", "ccache": f"MEMORY:topiarist-{os.urandom(8).hex()}"}
    return gssapi.Credentials(name=name, usage="initiate", mechs=[gssapi.MechType.kerberos], store=store)


def _describe(error: Any, login: Kerberos, service: str) -> Exception:
    """Return the error for one of GSSAPI, by the code of Kerberos in it."""
    code = error.min_code - (1 << 32) if error.min_code >= 1 << 31 else error.min_code
    words = printable(" ".join(str(error.gen_message()).rpartition("): ")[2].split()), 300)
    source = login.key_tab or login.ticket_cache
    names = {"principal": login.principal, "service": service}
    if login.key_tab and code in _NO_KEY | _NO_CACHE:
        return credentials_error(login.key_tab, f"has no key of {login.principal}: klist -k lists those that it has")
    if code in _UNREACHABLE:
        message = f"no KDC for {login.principal} and {service} answers: {words}"
        return TopiaristError(Reason.UNREACHABLE, message, HINT_KDC)
    if not login.key_tab and (code in _NO_CACHE or isinstance(error, _library().raw.MissingCredentialsError)):
        return _no_ticket(login, source)
    cause = _CAUSES.get(code, f"Kerberos failed: {words}").format(**names)
    place = f"{source.location}: " if source else ""
    return TopiaristError(Reason.AUTHENTICATION_FAILED, f"{place}cannot log in by GSSAPI: {cause}")


def _no_ticket(login: Kerberos, source: SecretReference | None) -> TopiaristError:
    message = f"has no ticket of {login.principal}"
    if source:
        return credentials_error(source, message, "run kinit -c FILE, or give keyTab")
    message = f"the ticket cache of this user {message}"
    return TopiaristError(Reason.CREDENTIALS_INVALID, message, "run kinit, or give keyTab or ticketCache")
