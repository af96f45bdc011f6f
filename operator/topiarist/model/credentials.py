"""Credentials for a cluster: references to secrets and certificates, never their contents.

A ``Cluster`` manifest names files, environment variables and, in Kubernetes, keys of Secrets. The adapter reads the
contents for each connection, so that a replaced secret takes effect, and never stores them.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from topiarist.errors import Location


class SecretKeyRef(NamedTuple):
    """A key of a Secret in the operator's own namespace."""

    name: str
    key: str


class SecretReference(Struct, frozen=True):
    """A reference to one file, one environment variable or one key of a Secret, with its location in the manifest.

    Only the operator can read a key of a Secret; an adapter that connects to ZooKeeper treats it as an error.
    """

    file: str
    env: str
    location: Location
    secret: SecretKeyRef | None = None


class UserPassword(Struct, frozen=True):
    """A user name and a reference to the password."""

    username: str
    password: SecretReference


class Tls(Struct, frozen=True):
    """The TLS settings of a connection.

    ``ca`` signs the server's certificate (None: the CAs that the system trusts); ``certificate`` is topiarist's client
    certificate. If ``key`` is None, the certificate's file has the private key. ``server_name`` replaces the host names
    of the address when the server's certificate is verified.
    """

    ca: SecretReference | None = None
    certificate: SecretReference | None = None
    key: SecretReference | None = None
    key_password: SecretReference | None = None
    server_name: str = ""


class Credentials(Struct, frozen=True):
    """All credentials that a ZooKeeper may require; by default there is no login and no encryption."""

    sasl: UserPassword | None = None
    digest: UserPassword | None = None
    tls: Tls | None = None

    @property
    def principal(self) -> str:
        """Return the identity that topiarist has in ZooKeeper, for messages."""
        identities = [f"SASL user {self.sasl.username}"] if self.sasl else []
        identities += [f"digest user {self.digest.username}"] if self.digest else []
        identities += ["the subject of topiarist's TLS certificate"] if self.tls and self.tls.certificate else []
        return " and ".join(identities) or "world:anyone (no Cluster document names credentials)"


ANONYMOUS = Credentials()
