"""The state that a run has read for its plan, in place of the first look at the topics of a chunk.

Between the plan and the intents of the first chunk nothing has to be read again if the state is some seconds old and no
other run has committed anything since: its topics are then as new as this run needs them before its intents. The look
after the intents, directly before the requests, is always a look at the brokers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from msgspec.structs import replace

from topiarist.adapters.kafka_admin.read.topic_reader import Look, TopicReader
from topiarist.kafka.config_rules import settings_of_known_defaults
from topiarist.model.state import ClusterState, TopicState

MAX_AGE_S = 10.0
"""Seconds after the begin of a read in which its state may stand for a look."""


class RecentState:
    """A state, the number of the last commit that was read before it, and the time at which that read began."""

    def __init__(self, state: ClusterState, number: int, began: float) -> None:
        self._state = state
        self._number = number
        self._began = began

    @property
    def is_recent(self) -> bool:
        """Return whether the state was read within the last seconds."""
        return time.monotonic() < self._began + MAX_AGE_S

    @property
    def leader_epoch(self) -> int | None:
        """Return the epoch of the controller; None if it did not tell."""
        return self._state.controller_epoch or None

    def look(self, names: Collection[str], number: int) -> Look | None:
        """Return the topics as they were read; None if a look is needed. ``number`` is that of the last commit."""
        state = self._state
        is_unclear = any(name in state.topic_errors or name in state.reassigning_topics for name in names)
        if is_unclear or number != self._number or not self.is_recent:
            return None
        topics = {name: _without_record(state.topics.get(name)) for name in names}
        defaults = {**settings_of_known_defaults(state.known_configs or {}), **state.broker_defaults}
        return Look(topics, {broker.id: broker for broker in state.brokers}, defaults, state.min_version)


class FirstLook:
    """A reader of topics with a state that may stand for its first look. ``number`` returns that of the last commit."""

    def __init__(self, reader: TopicReader, recent: RecentState | None, number: Callable[[], int]) -> None:
        self._recent = recent
        self._number = number
        self.look = reader.look
        self.look_again = reader.look_again

    def look_first(self, names: Collection[str]) -> Look:
        """Return topics as they are now, or as they were a moment ago; raises what ``look`` raises."""
        found = self._recent.look(names, self._number()) if self._recent else None
        return found or self.look(names)


def _without_record(topic: TopicState | None) -> TopicState | None:
    return topic and replace(topic, record=None, record_valid=False, modified_externally=False)
