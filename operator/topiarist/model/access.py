"""How a cluster is reached: through its brokers, by Kafka's own protocol, or through its ZooKeeper; with credentials.

A ``Cluster`` manifest has these values under ``spec.kafka`` and ``spec.zookeeper``. It names files, environment
variables and, in Kubernetes, keys of Secrets: these values are references, never the contents. The adapter reads the
contents for each connection, so that a replaced secret takes effect, and never stores them.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import ClassVar, NamedTuple, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from topiarist.errors import Location


class SecretKeyRef(NamedTuple):
    """A key of a Secret in the operator's own namespace."""

    name: str
    key: str


class SecretReference(Struct, frozen=True):
    """A reference to one file, one environment variable or one key of a Secret, with its location in the manifest.

    Only the operator can read a key of a Secret, and writes it to a ``file`` for the adapters. Their errors name the
    Secret, and they refuse a key without a file.
    ``command`` is the name of an environment variable with a command that prints the secret.
    """

    file: str
    env: str
    location: Location
    secret: SecretKeyRef | None = None
    command: str = ""


class UserPassword(Struct, frozen=True):
    """A user name and a reference to the password."""

    username: str
    password: SecretReference


class Tls(Struct, frozen=True):
    """The TLS settings of a connection.

    ``ca`` signs the server's certificate (None: the CAs that the system trusts); ``certificate`` is topiarist's client
    certificate. If ``key`` is None, the certificate's file has the private key. ``server_name`` replaces the host names
    of the address when the server's certificate is verified. A ``key_store`` (PKCS12 or JKS) has topiarist's
    certificate and key in place of ``certificate``, a ``trust_store`` the authorities in place of ``ca``.
    """

    ca: SecretReference | None = None
    certificate: SecretReference | None = None
    key: SecretReference | None = None
    key_password: SecretReference | None = None
    server_name: str = ""
    key_store: SecretReference | None = None
    key_store_password: SecretReference | None = None
    trust_store: SecretReference | None = None
    trust_store_password: SecretReference | None = None

    @property
    def has_certificate(self) -> bool:
        """Return whether topiarist has a client certificate."""
        return bool(self.certificate or self.key_store)


class SaslMechanism(str, Enum):
    """A SASL mechanism of a ``Cluster``, by its registered name; brokers know ``AWS_MSK_IAM`` as ``OAUTHBEARER``."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"
    AWS_MSK_IAM = "AWS_MSK_IAM"
    GSSAPI = "GSSAPI"


class Kerberos(Struct, frozen=True):
    """A login by SASL ``GSSAPI``: as ``principal``, to the service ``service_name/HOST@realm``.

    ``key_tab`` has the key of the principal. Without it the tickets are those in ``ticket_cache``, None: in the cache
    of the user (``KRB5CCNAME``). An empty ``realm`` is that of the principal.
    """

    principal: str
    service_name: str
    realm: str = ""
    key_tab: SecretReference | None = None
    ticket_cache: SecretReference | None = None

    mechanism: ClassVar[SaslMechanism] = SaslMechanism.GSSAPI

    @property
    def subject(self) -> str:
        """Return who logs in, for messages."""
        return f"the principal {self.principal}"

    @property
    def kafka_principal(self) -> str:
        """Return who topiarist is for the brokers by their default rules."""
        return f"User:{self.principal.partition('@')[0].partition('/')[0]}"


class Credentials(Struct, frozen=True):
    """All credentials that a ZooKeeper may require; by default there is no login and no encryption."""

    sasl: UserPassword | Kerberos | None = None
    digest: UserPassword | None = None
    tls: Tls | None = None

    @property
    def principal(self) -> str:
        """Return the identity that topiarist has in ZooKeeper, for messages."""
        identities = [f"SASL user {self.sasl.username}"] if isinstance(self.sasl, UserPassword) else []
        identities += [self.sasl.subject] if isinstance(self.sasl, Kerberos) else []
        identities += [f"digest user {self.digest.username}"] if self.digest else []
        identities += ["the subject of topiarist's TLS certificate"] if self.tls and self.tls.has_certificate else []
        return " and ".join(identities) or "world:anyone (no Cluster document names credentials)"


ANONYMOUS = Credentials()


T = TypeVar("T")


class Via(str, Enum):
    """The way to a cluster: Kafka's own protocol, or ZooKeeper."""

    KAFKA = "Kafka"
    ZOOKEEPER = "ZooKeeper"


def via_of(*, bypasses_brokers: bool) -> Via:
    """Return the way to a cluster: ZooKeeper is the one where no broker checks a change."""
    return Via.ZOOKEEPER if bypasses_brokers else Via.KAFKA


class SaslPassword(Struct, frozen=True):
    """A login by user name and password: ``PLAIN`` or one of the SCRAM mechanisms."""

    mechanism: SaslMechanism
    username: str
    password: SecretReference

    @property
    def subject(self) -> str:
        """Return who logs in, for messages."""
        return f"the user {self.username}"

    @property
    def kafka_principal(self) -> str:
        """Return who topiarist is for the brokers."""
        return f"User:{self.username}"


Extensions = tuple[tuple[str, str], ...]
"""The SASL extensions that go with a token (KIP-342), by name."""


class SaslOAuth(Struct, frozen=True):
    """A login by ``OAUTHBEARER``: a token for the client credentials, from ``token_endpoint`` (an HTTPS address).

    The client proves itself with ``client_secret``, or with a statement that ``client_key`` signs (private_key_jwt);
    ``client_key_id`` names that key to the endpoint. ``ca`` signs the certificate of the endpoint; None: the CAs that
    the system trusts.
    """

    token_endpoint: str
    client_id: str
    client_secret: SecretReference | None = None
    scope: str = ""
    ca: SecretReference | None = None
    audience: str = ""
    client_key: SecretReference | None = None
    client_key_id: str = ""
    extensions: Extensions = ()

    mechanism: ClassVar[SaslMechanism] = SaslMechanism.OAUTHBEARER

    @property
    def proof(self) -> SecretReference:
        """Return the reference to what the client proves itself with."""
        found = self.client_secret or self.client_key
        assert found, "the schema requires one of them"
        return found

    @property
    def subject(self) -> str:
        """Return who logs in, for messages."""
        return f"the client {self.client_id}"

    @property
    def kafka_principal(self) -> str:
        """Return who topiarist is for the brokers."""
        return f"the principal in the token of {self.client_id}"


class SaslToken(Struct, frozen=True):
    """A login by ``OAUTHBEARER`` with a token that another program writes, read again at each login."""

    token: SecretReference
    extensions: Extensions = ()

    mechanism: ClassVar[SaslMechanism] = SaslMechanism.OAUTHBEARER

    @property
    def subject(self) -> str:
        """Return who logs in, for messages."""
        return f"the token of {self.token.location}"

    @property
    def kafka_principal(self) -> str:
        """Return who topiarist is for the brokers."""
        return "the principal in the token"


class SaslAwsIam(Struct, frozen=True):
    """A login to Amazon MSK by IAM: a token signed with AWS credentials, which travels as ``OAUTHBEARER``.

    The credentials are those of ``profile``, empty: of botocore's default chain, or those of ``role_arn``, which they
    assume as the session ``session_name``. ``location`` is that of the login in the manifest.
    """

    region: str
    location: Location
    profile: str = ""
    role_arn: str = ""
    session_name: str = "topiarist"

    mechanism: ClassVar[SaslMechanism] = SaslMechanism.OAUTHBEARER

    @property
    def subject(self) -> str:
        """Return who logs in, for messages."""
        return "the AWS identity " + (self.role_arn or (f"of the profile {self.profile}" if self.profile else "found"))

    @property
    def kafka_principal(self) -> str:
        """Return who topiarist is for the brokers."""
        return f"the AWS identity {self.role_arn or 'of the credentials'}, to which IAM policies grant permissions"


Sasl = SaslPassword | SaslOAuth | SaslToken | SaslAwsIam | Kerberos
"""A login to brokers by SASL. Each kind has ``mechanism`` (as brokers name it), ``subject`` and ``kafka_principal``."""


class Placement(str, Enum):
    """Who chooses the brokers of new replicas: the plan, by explicit replica lists, or the brokers."""

    EXPLICIT = "Explicit"
    BROKERS = "Brokers"


class RecordsTopic(NamedTuple):
    """The compacted topic of topiarist's records, and the replication factor that it is created with.

    ``known_id`` is the topic id that an earlier run has seen, empty if none is known. A topic with another id does not
    have the records of that run. The records are written in transactions of ``transactional_id``.
    """

    name: str = "__topiarist"
    replication_factor: int = 3
    known_id: str = ""
    transactional_id: str = "topiarist"


DEFAULT_RECORDS_TOPIC = RecordsTopic()


class KafkaAccess(Struct, frozen=True):
    """The access to a cluster through its brokers.

    ``bootstrap_servers`` is ``host:port,host:port``. Without ``sasl`` there is no login, without ``tls`` no encryption.
    ``request_timeout`` is in seconds. Without ``records`` the cluster keeps none: no lock, and no owners.
    ``placement`` is None if the cluster decides by what it can do.
    """

    bootstrap_servers: str
    sasl: Sasl | None = None
    tls: Tls | None = None
    records: RecordsTopic | None = DEFAULT_RECORDS_TOPIC
    request_timeout: float = 30.0
    placement: Placement | None = None

    @property
    def servers(self) -> str:
        """Return the addresses, for messages."""
        return self.bootstrap_servers

    @property
    def principal(self) -> str:
        """Return who topiarist is for the brokers, for messages."""
        if self.sasl:
            return self.sasl.kafka_principal
        if self.tls and self.tls.has_certificate:
            return "the subject of topiarist's TLS certificate"
        return "User:ANONYMOUS (no Cluster document names a login)"


class ZooKeeperAccess(Struct, frozen=True):
    """The access to a cluster through the ZooKeeper that holds its metadata.

    ``connect`` is ``host:port,host:port/chroot``, and empty if neither the manifest nor an option gives it.
    ``jute_max_buffer`` is the smallest ``jute.maxbuffer`` of brokers and servers, in bytes.
    """

    connect: str = ""
    jute_max_buffer: int = 1_048_575
    credentials: Credentials = ANONYMOUS

    @property
    def servers(self) -> str:
        """Return the addresses without the chroot, for messages."""
        return self.connect.partition("/")[0]


Access = KafkaAccess | ZooKeeperAccess
"""An access of either kind."""


def map_references(value: T, convert: Callable[[SecretReference], SecretReference]) -> T:
    """Return an access, or a part of one, with each reference to a secret or a file converted."""
    if isinstance(value, SecretReference):
        return cast("T", convert(value))
    if not isinstance(value, Struct):
        return value
    return replace(value, **{name: map_references(getattr(value, name), convert) for name in value.__struct_fields__})
