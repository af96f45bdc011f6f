"""Errors in one table: a machine-readable reason, its exit code, and whether a retry may help.

Every package may import this module; it imports nothing of topiarist. A *refusal* (a requested change that is not made)
and a *notice* are values and use the same reasons. Exceptions are only for errors that end a run or the work on one
cluster or topic.

To add a reason:

1. Add a row to ``Reason``, in the group of its use, with its exit code; True if a retry without other input may help.
2. Use it in a ``TopiaristError``, an ``Issue`` or a ``WriteBlock``, with a hint that says what to do.
3. Add its row to the table of ``docs/reasons.md``, with cause and remedy. Where the operator advises otherwise, add its
   advice to ``_HINTS`` in ``kubernetes/approval.py``.
4. Run ``make generate``, which writes ``reasons.json`` (the texts of ``topiarist explain``) and the reference of the
   Python interface, and ``make golden``, which writes ``tests/unit/api/interface.txt``.
5. Run ``make check``: its tests compare all of these with the table below.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import NamedTuple

from msgspec import Struct

FieldPath = tuple[str | int, ...]
"""A path of keys and indexes in a document: ``("spec", "overrides", 0, "partitions")``."""


class FieldKey(str):
    """A last step of a path that refers to the key itself and not to its value, for an unknown field, for example."""


class Exit(IntEnum):
    """The exit codes of the command line."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    CHANGES = 3
    REFUSED = 4
    CONFLICT = 5


class Location(NamedTuple):
    """A position in a file; line and column count from 1. Line 0 means the file as a whole."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class SchemaError(Struct, frozen=True):
    """An error in a document: a message with the found and the wanted value, and a hint (may be empty)."""

    path: FieldPath
    message: str
    hint: str = ""


class Diagnostic(NamedTuple):
    """An error or warning with its location, as users see it. Sorts by location; ``reason`` is for machines."""

    location: Location
    message: str
    hint: str = ""
    reason: str = "InvalidManifest"

    def __str__(self) -> str:
        return f"{self.location}: {self.message}" + (f"\n    {self.hint}" if self.hint else "")


class Reason(str, Enum):
    """A reason of a failure, refusal or notice: a CamelCase name, an exit code, and whether a retry may help."""

    exit_code: Exit
    retryable: bool

    def __new__(cls, value: str, code: Exit, retryable: bool = False) -> Reason:
        member = str.__new__(cls, value)
        member._value_ = value
        member.exit_code = code
        member.retryable = retryable
        return member

    def __str__(self) -> str:
        return str(self.value)

    # The run cannot start, or ends early.
    INVALID_MANIFEST = "InvalidManifest", Exit.ERROR
    WRONG_USAGE = "WrongUsage", Exit.USAGE
    UNREACHABLE = "Unreachable", Exit.ERROR, True
    NOT_A_KAFKA_CLUSTER = "NotAKafkaCluster", Exit.ERROR
    WRONG_CLUSTER = "WrongCluster", Exit.ERROR
    SESSION_LOST = "SessionLost", Exit.ERROR, True
    LOCKED = "Locked", Exit.ERROR, True
    AUTHENTICATION_FAILED = "AuthenticationFailed", Exit.ERROR
    CREDENTIALS_INVALID = "CredentialsInvalid", Exit.ERROR
    NO_PERMISSION = "NoPermission", Exit.ERROR
    PREREQUISITE_MISSING = "PrerequisiteMissing", Exit.ERROR
    UNREADABLE = "Unreadable", Exit.ERROR
    UNWRITABLE = "Unwritable", Exit.ERROR
    NOT_A_PLAN = "NotAPlan", Exit.ERROR
    PLAN_EDITED = "PlanEdited", Exit.ERROR
    PLAN_TOO_NEW = "PlanTooNew", Exit.ERROR
    UNKNOWN_CLUSTER = "UnknownCluster", Exit.ERROR
    SNAPSHOT_UNUSABLE = "SnapshotUnusable", Exit.ERROR
    SPARK_FAILED = "SparkFailed", Exit.ERROR, True
    INCOMPLETE = "Incomplete", Exit.ERROR
    MOVES_STALLED = "MovesStalled", Exit.ERROR, True
    STUCK_REASSIGNMENT = "StuckReassignment", Exit.ERROR
    THROTTLED = "Throttled", Exit.ERROR, True
    RECORDS_BLOCKED = "RecordsBlocked", Exit.ERROR, True
    RECORDS_LOST = "RecordsLost", Exit.ERROR
    RECORDS_REFUSED = "RecordsRefused", Exit.ERROR

    # The cluster has a write block.
    KRAFT_CONTROLLER = "KRaftController", Exit.REFUSED
    KRAFT_MIGRATION = "KRaftMigration", Exit.REFUSED
    FROZEN = "Frozen", Exit.REFUSED
    RECORDS_NOT_MOVED = "RecordsNotMoved", Exit.REFUSED
    MOVED_BACK = "MovedBack", Exit.REFUSED
    NO_CONTROLLER = "NoController", Exit.REFUSED, True

    # A topic, or a part of its spec, is refused.
    AFTER_MOVES = "AfterMoves", Exit.REFUSED, True
    BROKERS_MISSING = "BrokersMissing", Exit.REFUSED, True
    BUDGET_EXCEEDED = "BudgetExceeded", Exit.REFUSED
    CLUSTER_CONFLICT = "ClusterConflict", Exit.REFUSED
    CO_PARTITIONS_DIFFER = "CoPartitionsDiffer", Exit.REFUSED
    CONFIG_INVALID = "ConfigInvalid", Exit.REFUSED
    CONFIG_TOO_NEW = "ConfigTooNew", Exit.REFUSED
    DATA_LOSS = "DataLoss", Exit.REFUSED
    DELETED_EXTERNALLY = "DeletedExternally", Exit.REFUSED
    DELETION_DISABLED = "DeletionDisabled", Exit.REFUSED
    DELETION_HELD = "DeletionHeld", Exit.REFUSED
    DELETION_IN_PROGRESS = "DeletionInProgress", Exit.REFUSED, True
    DISRUPTIVE = "Disruptive", Exit.REFUSED
    DRIFT_DETECTED = "DriftDetected", Exit.REFUSED
    EXCLUDED_BROKERS = "ExcludedBrokers", Exit.REFUSED
    FEWER_PARTITIONS = "FewerPartitions", Exit.REFUSED
    INTERNAL_TOPIC = "InternalTopic", Exit.REFUSED
    MIN_ISR_ABOVE_REPLICAS = "MinIsrAboveReplicas", Exit.REFUSED
    MOVE_NOT_ALLOWED = "MoveNotAllowed", Exit.REFUSED
    MOVES_LIMITED = "MovesLimited", Exit.REFUSED, True
    NOT_IN_SYNC = "NotInSync", Exit.REFUSED, True
    NAME_COLLISION = "NameCollision", Exit.REFUSED
    RETENTION_WAITS = "RetentionWaits", Exit.REFUSED, True
    LIMIT_EXCEEDED = "LimitExceeded", Exit.REFUSED
    NOT_ADOPTED = "NotAdopted", Exit.REFUSED
    NOT_ALLOWED = "NotAllowed", Exit.REFUSED
    NOT_OWNED = "NotOwned", Exit.REFUSED
    NOT_INITIALIZED = "NotInitialized", Exit.REFUSED, True
    NOT_OFFERED = "NotOffered", Exit.REFUSED
    PLACED_BY_BROKERS = "PlacedByBrokers", Exit.REFUSED
    PARTITIONS_MALFORMED = "PartitionsMalformed", Exit.REFUSED
    POLICY_DENIED = "PolicyDenied", Exit.REFUSED
    POLICY_VIOLATION = "PolicyViolation", Exit.REFUSED
    PROTECTED_TOPIC = "ProtectedTopic", Exit.REFUSED
    RACKS_INCOMPLETE = "RacksIncomplete", Exit.REFUSED
    REASSIGNMENT_IN_PROGRESS = "ReassignmentInProgress", Exit.REFUSED, True
    RESOURCE_CONFLICT = "ResourceConflict", Exit.REFUSED
    STRIMZI_ACTIVE = "StrimziActive", Exit.REFUSED
    TAKING_OVER = "TakingOver", Exit.REFUSED, True
    REPLICATION_FACTOR_DIFFERS = "ReplicationFactorDiffers", Exit.REFUSED
    THROTTLE_DECLARED = "ThrottleDeclared", Exit.REFUSED
    THROTTLE_MISSING = "ThrottleMissing", Exit.REFUSED
    TOO_FEW_BROKERS = "TooFewBrokers", Exit.REFUSED
    TOO_LARGE = "TooLarge", Exit.REFUSED
    TOPIC_IN_USE = "TopicInUse", Exit.REFUSED
    TOPIC_UNREADABLE = "TopicUnreadable", Exit.REFUSED
    UNKNOWN_BROKERS = "UnknownBrokers", Exit.REFUSED
    UNKNOWN_FIELDS = "UnknownFields", Exit.REFUSED
    USAGE_UNKNOWN = "UsageUnknown", Exit.REFUSED

    # Notices: nothing is refused.
    MODIFIED_EXTERNALLY = "ModifiedExternally", Exit.DONE
    IGNORED = "Ignored", Exit.DONE
    POLICY_WARNING = "PolicyWarning", Exit.DONE
    REPLICAS_DIFFER = "ReplicasDiffer", Exit.DONE
    STALE_OWNERSHIP_RECORD = "StaleOwnershipRecord", Exit.DONE
    EXISTING_PROBLEM = "ExistingProblem", Exit.DONE
    MAY_NEED_PROTECTION = "MayNeedProtection", Exit.DONE
    RETENTION_STEP = "RetentionStepped", Exit.DONE
    UNMANAGED = "Unmanaged", Exit.DONE

    # A change is not in the reviewed plan and must be reviewed first.
    NOT_REVIEWED = "NotReviewed", Exit.CONFLICT

    # Outcomes of a topic in an apply.
    STATE_CONFLICT = "StateConflict", Exit.CONFLICT, True
    MADE_OTHERWISE = "MadeOtherwise", Exit.CONFLICT
    MOVES_UNFINISHED = "MovesUnfinished", Exit.ERROR, True
    MOVE_DROPPED = "MoveDropped", Exit.ERROR, True
    NOT_ELECTED = "NotElected", Exit.ERROR, True
    NOT_SENT = "NotSent", Exit.DONE, True
    OUTCOME_UNKNOWN = "OutcomeUnknown", Exit.ERROR, True
    WRITE_FAILED = "WriteFailed", Exit.ERROR


REASONS = {reason.value: reason for reason in Reason}
"""The reasons by name."""


class TopiaristError(Exception):
    """An error that ends a run, or the work on one cluster.

    It has a reason from the table, a message for the user, and a hint (may be empty).
    """

    def __init__(self, reason: Reason, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n    {self.hint}" if self.hint else self.message


class InvalidManifests(TopiaristError):
    """An error for invalid manifests.

    ``errors`` are the diagnostics, sorted by location; ``suppressed_count`` is the number of errors that are only
    counted. ``warnings`` were found beside them.
    """

    def __init__(
        self, errors: Sequence[Diagnostic], suppressed_count: int = 0, warnings: Sequence[Diagnostic] = ()
    ) -> None:
        self.errors = sorted(errors)
        self.suppressed_count = suppressed_count
        self.warnings = warnings
        super().__init__(Reason.INVALID_MANIFEST, "\n".join(map(str, self.errors)))


# Errors for missing optional packages, with the ``pip`` command that installs them.
#
# Only some commands need these packages. topiarist is installed from a checkout or a wheel and is on no package
# registry: ``pip install 'topiarist[EXTRA]'`` would find nothing, or an unrelated package of the same name. The
# optional packages are on a registry, so the error names their requirements, taken from the metadata of the installed
# project.

_REQUIREMENT = re.compile(r"""([A-Za-z0-9._-]+)([^;]*);.*\bextra\s*==\s*['"]([^'"]+)['"]""")


def missing_packages_error(extra: str, feature: str, hint: str = "") -> TopiaristError:
    """Return the error for ``feature``, which needs an extra with packages that are not all installed."""
    needed = read_requirements(extra)
    absent = [requirement for name, requirement in needed.items() if not _is_installed(name)] or [*needed.values()]
    command = " ".join(f"'{requirement}'" for requirement in absent)
    remedy = f"pip install {command}" if command else f"install topiarist with its extra {extra}"
    return TopiaristError(
        Reason.PREREQUISITE_MISSING, f"{feature} needs packages that are not installed: {remedy} (extra {extra})", hint
    )


def read_requirements(extra: str) -> dict[str, str]:
    """Return the requirements of an extra by package; empty if the project is not installed but only unpacked."""
    from importlib import metadata  # not above: it imports email and zipfile, which no plan needs

    try:
        lines = metadata.requires("topiarist") or []
    except metadata.PackageNotFoundError:
        return {}
    matches = filter(None, map(_REQUIREMENT.match, lines))
    return {match[1]: f"{match[1]}{match[2].strip()}" for match in matches if match[3] == extra}


def _is_installed(name: str) -> bool:
    from importlib import metadata

    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
