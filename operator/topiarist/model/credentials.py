"""With what a cluster's ZooKeeper is entered: references to secrets and certificates, never their contents.

A ``Cluster`` manifest names files, environment variables and, in Kubernetes, keys of Secrets. What is in them is read
by the adapter that connects, at each connection anew, so that what was replaced meanwhile counts, and is kept nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from topiarist.errors import Location


class SecretKeyRef(NamedTuple):
    """A key of a Secret in the operator's own namespace."""

    name: str
    key: str


@dataclass(frozen=True, slots=True)
class SecretReference:
    """A file, an environment variable or a key of a Secret, one of the three; ``place`` is where the manifest says so.

    A key of a Secret can be read by whoever talks to Kubernetes only; an adapter that connects takes it for an error.
    """

    file: str
    env: str
    location: Location
    secret: SecretKeyRef | None = None


@dataclass(frozen=True, slots=True)
class UserPassword:
    """A user and where the password is."""

    username: str
    password: SecretReference


@dataclass(frozen=True, slots=True)
class Tls:
    """Encryption: ``ca`` signs the server's certificate (None: whom the system trusts), ``certificate`` is ours.

    Without ``key`` the certificate's file holds it. ``server_name`` stands in for the host names of the address.
    """

    ca: SecretReference | None = None
    certificate: SecretReference | None = None
    key: SecretReference | None = None
    key_password: SecretReference | None = None
    server_name: str = ""


@dataclass(frozen=True, slots=True)
class Credentials:
    """All that a ZooKeeper may want of its clients; by default nothing, in plain text."""

    sasl: UserPassword | None = None
    digest: UserPassword | None = None
    tls: Tls | None = None

    @property
    def principal(self) -> str:
        """Who we are to ZooKeeper, in words."""
        found = [f"SASL user {self.sasl.username}"] if self.sasl else []
        found += [f"digest user {self.digest.username}"] if self.digest else []
        found += ["the subject of our TLS certificate"] if self.tls and self.tls.certificate else []
        return " and ".join(found) or "world:anyone (no Cluster document names credentials)"


ANONYMOUS = Credentials()
"""No login, and no encryption."""
