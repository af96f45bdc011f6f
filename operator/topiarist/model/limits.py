"""Limits on what the topics of a label, a namespace or an owner may use together, as values.

``desired.parse`` builds them from a ``Policy`` or the budgets of a ``Cluster``, and ``filters.limits`` enforces them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from topiarist.errors import FieldPath, Location

if TYPE_CHECKING:
    from topiarist.model.spec import Source


class LimitScope(str, Enum):
    """The property that the topics of one group of a limit have in common."""

    LABEL = "Label"
    NAMESPACE = "Namespace"
    OWNER = "Owner"


class LimitedResource(str, Enum):
    """The resource that a limit counts, by its field in a document.

    ``RETAINED_BYTES`` is ``retention.bytes`` times the partitions, for one copy of the data.
    """

    TOPICS = "topics"
    PARTITIONS = "partitions"
    RETAINED_BYTES = "retainedBytes"


class Limit(Struct, frozen=True):
    """The limit of each group of topics on each cluster.

    ``title`` names it in messages. ``label`` is the label with the names of the groups, empty for other scopes.
    ``allowed`` has the largest allowed total of each limited resource. If ``deny`` is false an excess is only reported.
    ``counts_all`` is false if the policy selects some of the topics. ``path`` leads to the limit in its document,
    ``source``.
    """

    title: str
    scope: LimitScope
    allowed: Mapping[LimitedResource, int]
    label: str = ""
    deny: bool = True
    counts_all: bool = True
    source: Source | None = None
    path: FieldPath = ()

    def locate(self) -> Location | None:
        """Return the place of the limit in its document."""
        return self.source.locate(self.path) if self.source else None


class TopicSize(NamedTuple):
    """The number of partitions of a topic, and its override of ``retention.bytes`` (None: the brokers' default)."""

    partitions: int
    retention_bytes: str | None = None


class LimitUsage(NamedTuple):
    """The use of a limited resource by a group of topics, before and after a plan; None is without bound."""

    limit: str
    group: str
    resource: LimitedResource
    before: int | None
    after: int | None
    allowed: int
