"""Who may declare which topics on a cluster in Kubernetes, and what its operator may do by itself.

Values only: what a ``Cluster`` says. Whoever knows the namespaces and their labels decides by them. The command line
reads these fields and does nothing with them: there a run says what it may do.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple


class From(str, Enum):
    """Which namespaces a rule is for; ``SAME`` is the namespace of the ``Cluster``."""

    SAME = "Same"
    ALL = "All"
    SELECTOR = "Selector"


class Operator(str, Enum):
    """How a label is compared, as in any selector of Kubernetes."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class Requirement(NamedTuple):
    """One of a selector's ``matchExpressions``; ``values`` is empty where only the key counts."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


class LabelSelector(NamedTuple):
    """Labels that a namespace must have, all of them. Never empty."""

    labels: Mapping[str, str] = {}
    requirements: tuple[Requirement, ...] = ()


class AllowedTopics(NamedTuple):
    """One rule: these namespaces may declare topics whose names fit one of ``names`` (glob patterns).

    ``selector`` is there if and only if ``namespaces`` is ``SELECTOR``.
    """

    namespaces: From = From.SAME
    selector: LabelSelector | None = None
    names: tuple[str, ...] = ("*",)


class DriftPolicy(str, Enum):
    """What is done about a change that was made outside: say so, or undo it."""

    REPORT = "Report"
    CORRECT = "Correct"


DISRUPTIVE_ONLY = frozenset({"Disruptive"})
"""The risks that changes may have where a ``Cluster`` says nothing."""

OWN_NAMESPACE = (AllowedTopics(),)
"""What holds where a ``Cluster`` says nothing: its own namespace, and any name."""
