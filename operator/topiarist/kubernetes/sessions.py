"""One open session a cluster, from pass to pass; a new one when its address or its secrets have changed, or after an
error.

Secrets come from the API server, only those that a Cluster names. They are kept in files that nobody else can read, in
a folder that goes with the process: what makes TLS wants files.
"""

from __future__ import annotations

import base64
import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from topiarist.adapters.zookeeper import ZooKeeperCluster
from topiarist.core.credentials import Credentials, Login, Reference, SecretKey
from topiarist.core.spec import ClusterSpec
from topiarist.errors import Reason, TopiaristError

Secrets = Mapping[SecretKey, str]
"""What is in the Secrets that a Cluster names, in base64 as the API server gives it."""

CONNECT_TIMEOUT, LOCK_TIMEOUT = 10.0, 30.0


class Session:
    """The session with one cluster. Every method blocks: call it in a thread, one at a time."""

    def __init__(self, owner: str, folder: Path) -> None:
        self._owner = owner
        self._folder = folder
        self._open: ZooKeeperCluster | None = None
        self._opened_for: tuple[object, ...] = ()
        self._requests: Counter[tuple[str, str]] = Counter()

    def cluster(self, spec: ClusterSpec, secrets: Secrets) -> ZooKeeperCluster:
        """The open session. Raises what opening it raises."""
        wanted = (spec.connect, spec.max_buffer, spec.credentials, tuple(sorted(secrets.items())))
        if self._open is None or wanted != self._opened_for:
            self.close()
            self._open = ZooKeeperCluster(
                spec.connect,
                owner=self._owner,
                max_buffer=spec.max_buffer,
                connect_timeout=CONNECT_TIMEOUT,
                lock_timeout=LOCK_TIMEOUT,
                credentials=in_files(spec.credentials, secrets, self._folder),
            ).remember()
            self._opened_for = wanted
        return self._open

    def close(self) -> None:
        """End the session, if there is one."""
        if self._open is not None:
            self._requests.update(self._open.requests)
            self._open.close()
            self._open = None

    def requests(self) -> Counter[tuple[str, str]]:
        """What was asked of ZooKeeper until now, by operation and result."""
        return self._requests + Counter(self._open.requests if self._open else {})


def references(credentials: Credentials) -> Iterator[Reference]:
    """All references to secrets and files in credentials."""
    for login in (credentials.sasl, credentials.digest):
        if login:
            yield login.password
    if tls := credentials.tls:
        yield from filter(None, (tls.ca, tls.certificate, tls.key, tls.key_password))


def secret_keys(credentials: Credentials) -> frozenset[SecretKey]:
    """The keys of Secrets that credentials name."""
    return frozenset(found.secret for found in references(credentials) if found.secret)


def in_files(credentials: Credentials, secrets: Secrets, folder: Path) -> Credentials:
    """The same credentials with files in place of Secrets.

    Raises ``CredentialsInvalid`` for a Secret that is not there, and for a reference to anything else.
    """

    def written(reference: Reference) -> Reference:
        return _written(reference, secrets, folder)

    tls = credentials.tls
    return Credentials(
        sasl=_with(credentials.sasl, written),
        digest=_with(credentials.digest, written),
        tls=tls
        and replace(
            tls,
            ca=tls.ca and written(tls.ca),
            certificate=tls.certificate and written(tls.certificate),
            key=tls.key and written(tls.key),
            key_password=tls.key_password and written(tls.key_password),
        ),
    )


def _with(login: Login | None, written: Callable[[Reference], Reference]) -> Login | None:
    return login and replace(login, password=written(login.password))


def _written(reference: Reference, secrets: Secrets, folder: Path) -> Reference:
    key = reference.secret
    if key is None:
        # The schema of resources has refused it. Here is the one door through which every secret of a session comes.
        raise TopiaristError(
            Reason.CREDENTIALS_INVALID,
            f"{reference.place}: the operator reads no {'file' if reference.file else 'environment variable'} that a "
            "Cluster names",
            "put the value into a Secret of the operator's namespace and name it by secretKeyRef",
        )
    if key not in secrets:
        raise TopiaristError(
            Reason.CREDENTIALS_INVALID,
            f"{reference.place}: there is no key {key.key} in a Secret {key.name} of the operator's namespace",
            "make it there; the operator needs the right to get this Secret",
        )
    path = folder / hashlib.sha256(f"{key.name}/{key.key}".encode()).hexdigest()[:16]
    fresh = path.with_name(f"{path.name}-{threading.get_ident()}")  # another cluster may be reading the old one
    fresh.touch(0o600)
    fresh.write_bytes(base64.b64decode(secrets[key]))
    fresh.replace(path)
    return replace(reference, file=str(path), secret=None)
