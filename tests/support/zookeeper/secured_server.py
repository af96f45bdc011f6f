"""A real ZooKeeper with authentication: SASL, digest and client certificates, in plain text and by TLS.

It listens on two ports. ``connect`` accepts plain text; ``secure`` accepts TLS, with the certificate ``server.pem`` for
``localhost``. Clients may log in as ``KAFKA``, ``READER`` or the super user; the passwords are planted (``planted``).
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha1
from pathlib import Path

from support.network.certificates import Authority
from support.secret_scanner import register_secret
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper, free_port

KAFKA, READER = "kafka", "reader"
PASSWORDS = {KAFKA: register_secret("planted-Hedge7-kafka"), READER: register_secret('planted-Hedge8-"reader\\ü"')}
SUPER = "super:planted-Hedge9-super"
KEY_PASSWORD = register_secret("planted-Hedge6-key")

_PROVIDERS = ("SASLAuthenticationProvider", "X509AuthenticationProvider")


class SecuredZooKeeper(EmbeddedZooKeeper):
    """A server with its files in ``folder``; ``client_auth`` is ``need``, ``want`` or ``none``."""

    def __init__(self, folder: Path, client_auth: str = "want", **settings: str) -> None:
        self.folder = folder
        self.authority = Authority(folder / "authority")
        self.secure_port = 0
        server = str(self.authority.issue("server", "localhost"))
        tls = {"keyStore.location": server, "trustStore.location": str(self.authority.ca)}
        tls |= {"keyStore.type": "PEM", "trustStore.type": "PEM", "clientAuth": client_auth}
        providers = {
            f"authProvider.{number}": f"org.apache.zookeeper.server.auth.{name}"
            for number, name in enumerate(_PROVIDERS, 1)
        }
        settings = {
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "secureClientPortAddress": "127.0.0.1",
            **{f"ssl.{name}": value for name, value in tls.items()},
            **providers,
            **settings,
        }
        super().__init__(settings=settings, jvm_options=self._java())

    @property
    def secure(self) -> str:
        """The connect string for TLS, without a chroot."""
        return f"localhost:{self.secure_port}"

    def password(self, user: str) -> Path:
        """Return a file with the password of a user."""
        path = self.folder / f"{user}.password"
        path.write_text(PASSWORDS[user] + "\n")
        return path

    def _java(self) -> tuple[str, ...]:
        escaped = {user: text.replace("\\", "\\\\").replace('"', '\\"') for user, text in PASSWORDS.items()}
        users = " ".join(f'user_{user}="{text}"' for user, text in escaped.items())
        jaas = self.folder / "jaas.conf"
        jaas.write_text(f"Server {{ org.apache.zookeeper.server.auth.DigestLoginModule required {users}; }};")
        digest = b64encode(sha1(SUPER.encode()).digest()).decode()
        return (
            f"-Djava.security.auth.login.config={jaas}",
            f"-Dzookeeper.DigestAuthenticationProvider.superDigest=super:{digest}",
            "-Dfile.encoding=UTF-8",
        )

    def _launch(self, port: int) -> bool:
        # Another process may take the free port before the server binds it: each launch selects a new port.
        self.secure_port = free_port()
        self._settings["secureClientPort"] = str(self.secure_port)
        return super()._launch(port)
