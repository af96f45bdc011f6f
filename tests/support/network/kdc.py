"""A Kerberos realm on the loopback interface: MIT's KDC, as Debian has it, until the ``with`` block ends.

``make kerberos`` installs its programs. A test without them is skipped, and fails in CI.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.waiting import wait_until
from topiarist.adapters.devcluster.zookeeper_server import free_port

REALM = "TOPIARIST.TEST"
SKEW_S = 2
"""Maximum difference of a clock from that of the KDC, in seconds."""

_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
_KDC = """\
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/kadm5.acl
  kdc_listen = 127.0.0.1:{port}
  kdc_tcp_listen = 127.0.0.1:{port}
  max_life = 1h
  supported_enctypes = aes256-cts:normal
 }}
"""
_CLIENT = """\
[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
"""


def require_kerberos() -> None:
    """Skip the test, or fail it in CI, if a program of the KDC or the package gssapi is missing."""
    missing = [name for name in _PROGRAMS if not shutil.which(name, path=_PATH)]
    missing += [] if find_spec("gssapi") else ["the Python package gssapi"]
    if missing:
        text = f"there is no {', '.join(missing)}: make kerberos installs them"
        if os.environ.get("CI"):
            pytest.fail(text)
        pytest.skip(text)


class Kdc:
    """The realm ``REALM``; ``environment`` leads programs to it, ``client_config`` is its krb5.conf."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.client_config = folder / "krb5.conf"
        self.client_config.write_text(_CLIENT.format(realm=REALM, port=self.port))
        (folder / "kdc.conf").write_text(_KDC.format(realm=REALM, folder=folder, port=self.port))
        # Servers accept an expired ticket for five more minutes, unless the KDC is told to be exact.
        (folder / "kdc-krb5.conf").write_text(f"[libdefaults]\n clockskew = {SKEW_S}\n default_realm = {REALM}\n")
        (folder / "kadm5.acl").touch()

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of MIT's programs and libraries."""
        return {"KRB5_CONFIG": str(self.client_config), "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf")}

    def add(self, principal: str, *, in_table: bool = True) -> Path:
        """Add a principal with a random key; return the key table that has its key, or only has room for it."""
        self.run("kadmin.local", "-r", REALM, "addprinc", "-randkey", principal)
        table = self.table(principal)
        if in_table:
            self.export(principal, table)
        return table

    def table(self, principal: str) -> Path:
        """Return the path of the key table of a principal."""
        return self.folder / f"{principal.replace('/', '-')}.keytab"

    def export(self, principal: str, table: Path) -> None:
        """Give a principal a new key, and write it into a key table."""
        self.run("kadmin.local", "-r", REALM, "ktadd", "-k", str(table), principal)

    def log_in(self, principal: str, *options: str) -> Path:
        """Return a new ticket cache with a ticket of a principal."""
        cache = self.folder / f"{principal}.cache"
        self.run("kinit", "-c", f"FILE:{cache}", "-k", "-t", str(self.table(principal)), *options, principal)
        return cache

    def run(self, *words: str) -> None:
        """Run one of MIT's programs."""
        environment = {**os.environ, **self.environment, "PATH": _PATH}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"


@contextmanager
def running_kdc(folder: Path) -> Iterator[Kdc]:
    """Start a KDC with its files in ``folder``."""
    kdc = Kdc(folder)
    kdc.run("kdb5_util", "-r", REALM, "create", "-s", "-P", "planted-nothing")
    environment = {**os.environ, **kdc.environment, "KRB5_CONFIG": str(folder / "kdc-krb5.conf"), "PATH": _PATH}
    with (folder / "kdc.log").open("w") as log:
        process = subprocess.Popen(("krb5kdc", "-n", "-r", REALM), env=environment, stdout=log, stderr=log)
    try:
        wait_until(lambda: _answers(kdc.port), "the KDC")
        yield kdc
    finally:
        process.terminate()
        process.wait()


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True
