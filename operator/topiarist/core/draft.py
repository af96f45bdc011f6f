"""A topic plan in the making: what a run may do, what all topics of a plan share, and the draft that collects findings.

``plan`` makes one ``Context`` for a cluster and one ``Draft`` a topic; ``differences`` fills the draft field by field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from topiarist.core.change import Change, Finding
from topiarist.core.names import fits
from topiarist.core.placing import Placing
from topiarist.core.spec import ClusterSpec, TopicSpec
from topiarist.core.state import ClusterState, Release, TopicRecord
from topiarist.errors import Reason

LEAVE_TO_KAFKA = "leave it to Kafka: take it out of the manifests"
"""What to do about a manifest for one of Kafka's own topics."""


EVERY = ("*",)
"""The pattern that fits every topic."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a run may do, and as whom.

    ``adopt`` are glob patterns of topics that may be taken over with differences, ``take_ownership`` of topics that may
    be taken from their owners, ``recreate`` of topics that may be created again after somebody else deleted them.
    """

    owner: str = "default"
    take_ownership: tuple[str, ...] = ()
    adopt: tuple[str, ...] = ()
    recreate: tuple[str, ...] = ()
    without_brokers: frozenset[int] = frozenset()
    allow_unknown_brokers: bool = False

    def adopts(self, topic: str) -> bool:
        """Whether the run was told to take this topic over although it differs."""
        return fits(topic, self.adopt)

    def takes(self, topic: str) -> bool:
        """Whether the run was told to take this topic from whoever owns it."""
        return fits(topic, self.take_ownership)

    def recreates(self, topic: str) -> bool:
        """Whether the run was told to create this topic again although somebody else deleted it."""
        return fits(topic, self.recreate)


@dataclass(frozen=True, slots=True)
class Context:
    """What is the same for every topic of a plan. ``settings`` is what is known of the brokers' own settings.

    ``unified`` has the existing topics under the name that Kafka's metrics give them.
    """

    state: ClusterState
    cluster: ClusterSpec
    run: Run
    placing: Placing
    settings: Mapping[str, str]
    unified: Mapping[str, str] = field(default_factory=dict)

    @property
    def release(self) -> Release:
        """The release whose configs may be written: as declared, else what the cluster is known to have at least."""
        return self.cluster.release or self.state.release_at_least

    @property
    def releases(self) -> tuple[Release, ...]:
        """The releases by which values are judged."""
        return self.cluster.releases(self.state.release_at_least)

    def protects(self, topic: str) -> bool:
        """Whether a topic belongs to other software: no growth, deletion or change of cleanup."""
        return self.cluster.protects(topic)


@dataclass(slots=True)
class Draft:
    """A topic plan in the making."""

    spec: TopicSpec
    context: Context
    changes: list[Change] = field(default_factory=list)
    refusals: list[Finding] = field(default_factory=list)
    notices: list[Finding] = field(default_factory=list)

    def refuse(
        self,
        reason: Reason,
        message: str,
        path: tuple[str, ...] = (),
        *,
        instead: str = "",
        held: Sequence[Change] = (),
    ) -> None:
        """Add a refusal; ``held`` are the changes that it keeps from being done."""
        self.refusals.append(Finding(reason, message, path, instead, tuple(held)))

    def notice(self, reason: Reason, message: str, path: tuple[str, ...] = ()) -> None:
        """Add something that is only said."""
        self.notices.append(Finding(reason, message, path))

    def refuse_foreign(self, record: TopicRecord) -> None:
        """Refuse the topic because its record says that it is somebody else's."""
        self.refuse(
            Reason.NOT_OWNED,
            f"belongs to owner {record.owner}, this run is {self.context.run.owner}",
            instead=f"leave it to its owner, or run with --take-ownership={self.spec.topic}",
        )

    def refused(self, reason: Reason) -> bool:
        """Whether something was refused for this reason."""
        return any(refusal.reason is reason for refusal in self.refusals)
