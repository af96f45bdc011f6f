"""Who may declare which topics on a cluster in Kubernetes, and what its operator may do by itself.

Values only: what a ``Cluster`` says. Whoever knows the namespaces and their labels decides by them. The command line
reads these fields and does nothing with them: there a run says what it may do.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple


class NamespacesFrom(str, Enum):
    """Which namespaces a rule is for; ``SAME`` is the namespace of the ``Cluster``."""

    SAME = "Same"
    ALL = "All"
    SELECTOR = "Selector"


class SelectorOperator(str, Enum):
    """How a label is compared, as in any selector of Kubernetes."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class LabelSelectorRequirement(NamedTuple):
    """One of a selector's ``matchExpressions``; ``values`` is empty where only the key counts."""

    key: str
    operator: SelectorOperator
    values: tuple[str, ...] = ()


class LabelSelector(NamedTuple):
    """Labels that a namespace must have, all of them. Never empty."""

    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class AllowedTopics(NamedTuple):
    """One rule: these namespaces may declare topics whose names fit one of ``names`` (glob patterns).

    ``selector`` is there if and only if ``namespaces`` is ``SELECTOR``.
    """

    namespaces: NamespacesFrom = NamespacesFrom.SAME
    selector: LabelSelector | None = None
    name_patterns: tuple[str, ...] = ("*",)


class DriftPolicy(str, Enum):
    """What is done about a change that was made outside: say so, or undo it."""

    REPORT = "Report"
    CORRECT = "Correct"


DEFAULT_ALLOWED_RISKS = frozenset({"Disruptive"})
"""The risks that changes may have where a ``Cluster`` says nothing."""

DEFAULT_ALLOWED_TOPICS = (AllowedTopics(),)
"""What holds where a ``Cluster`` says nothing: its own namespace, and any name."""
