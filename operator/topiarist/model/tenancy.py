"""Permissions of a ``Cluster`` in Kubernetes: namespaces that may declare topics, operator actions.

This module has only the values; ``kubernetes/cache.py`` compares them with the namespaces and their labels. The
command line reads these fields and ignores them: the options of a run give its permissions.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct


class NamespacesFrom(str, Enum):
    """The namespaces that a rule applies to; ``SAME`` is the namespace of the ``Cluster``."""

    SAME = "Same"
    ALL = "All"
    SELECTOR = "Selector"


class SelectorOperator(str, Enum):
    """The comparison of a label, as in any Kubernetes selector."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class LabelSelectorRequirement(Struct, frozen=True):
    """A requirement of a selector's ``matchExpressions``; ``values`` is empty if only the key is compared."""

    key: str
    operator: SelectorOperator
    values: tuple[str, ...] = ()

    def is_met_by(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the requirement; ``NOT_IN`` is met without the label, too."""
        match self.operator:
            case SelectorOperator.IN:
                return labels.get(self.key) in self.values
            case SelectorOperator.NOT_IN:
                return labels.get(self.key) not in self.values
            case SelectorOperator.EXISTS:
                return self.key in labels
            case SelectorOperator.DOES_NOT_EXIST:
                return self.key not in labels


class LabelSelector(Struct, frozen=True):
    """A label selector: a namespace must meet all of its conditions. Never empty."""

    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class AllowedTopics(Struct, frozen=True):
    """A rule: these namespaces may declare topics with names that match one of ``name_patterns`` (glob patterns).

    ``selector`` is set if and only if ``namespaces`` is ``SELECTOR``.
    """

    namespaces: NamespacesFrom = NamespacesFrom.SAME
    selector: LabelSelector | None = None
    name_patterns: tuple[str, ...] = ("*",)


class DriftPolicy(str, Enum):
    """The operator's action for an external change: report it, or correct it."""

    REPORT = "Report"
    CORRECT = "Correct"


DEFAULT_ALLOWED_RISKS = frozenset({"Disruptive"})
"""The allowed risks if a ``Cluster`` gives none."""

DEFAULT_ALLOWED_TOPICS = (AllowedTopics(),)
"""The rules if a ``Cluster`` gives none: its own namespace, and any name."""
