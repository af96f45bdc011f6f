"""Selection of some topics of a run: by patterns of their names, and by labels of their manifests.

``runs.inputs`` selects after all manifests are validated together, so that a selection hides no error. The planner is
told that a selection is in effect: a topic that was not selected is neither compared nor missing from the manifests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from topiarist.kafka.types import matches_any
from topiarist.model.spec import LabelSelectorRequirement, SelectorOperator, TopicSpec
from topiarist.text import quote

_KEY = r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,315}[A-Za-z0-9])?"
_VALUE = r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?"
_COMPARISON = re.compile(rf"(?P<key>{_KEY})(?P<operator>==|=|!=)(?P<value>{_VALUE})")
_EXISTENCE = re.compile(rf"(?P<not>!?)(?P<key>{_KEY})")


class TopicSelection(Struct, frozen=True):
    """The selected topics: those that match one of the patterns, if any, and all requirements of their labels.

    ``text`` is the selection as the user wrote it.
    """

    patterns: tuple[str, ...] = ()
    requirements: tuple[LabelSelectorRequirement, ...] = ()
    text: str = ""

    def matches(self, spec: TopicSpec) -> bool:
        """Return whether a topic is selected."""
        if self.patterns and not matches_any(spec.topic, self.patterns):
            return False
        return all(requirement.is_met_by(spec.labels) for requirement in self.requirements)


NO_SELECTION = TopicSelection()
"""The selection of all topics."""


def select_with_groups(selection: TopicSelection, specs: Iterable[TopicSpec]) -> list[TopicSpec]:
    """Return the selected specs of one cluster, and all others of their co-partition groups.

    The topics of a group grow together or not at all, so that a run needs all of them.
    """
    every = [*specs]
    groups = {spec.co_partition_group for spec in every if spec.co_partition_group and selection.matches(spec)}
    return [spec for spec in every if spec.co_partition_group in groups or selection.matches(spec)]


def parse_label_selector(text: str) -> tuple[LabelSelectorRequirement, ...]:
    """Parse a label selector as ``kubectl get --selector`` has it: ``team=shop,tier!=test,owner,!legacy``.

    Empty text has no requirements. Raises ``ValueError`` with the found and the wanted text.
    """
    return tuple(_parse_requirement(part.strip()) for part in text.split(",")) if text else ()


def _parse_requirement(text: str) -> LabelSelectorRequirement:
    if found := _COMPARISON.fullmatch(text):
        operator = SelectorOperator.NOT_IN if found["operator"] == "!=" else SelectorOperator.IN
        return LabelSelectorRequirement(found["key"], operator, (found["value"],))
    if found := _EXISTENCE.fullmatch(text):
        return LabelSelectorRequirement(
            found["key"], SelectorOperator.DOES_NOT_EXIST if found["not"] else SelectorOperator.EXISTS
        )
    raise ValueError(f"found {quote(text)}, wanted KEY=VALUE, KEY!=VALUE, KEY or !KEY, with commas between")
