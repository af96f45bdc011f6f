"""One pass over one cluster: read it, plan, let somebody decide, apply, report. The port that an adapter has to fill.

The command line, the operator and the drift job all go through here, so there is one meaning of "different" and one way
to write. Level, not edge: a pass looks at everything; whatever caused it is only a reason to look.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Protocol

from topiarist.model.outcome import Outcome
from topiarist.model.plan import Plan, TopicPlan
from topiarist.model.policy import CelBindings, Rule, RuleError
from topiarist.model.progress import TopicProgress
from topiarist.model.state import ClusterState, TopicInspection, TopicState


class Throttle(Protocol):
    """Whoever holds creations and growth back until the cluster has digested what was sent before."""

    def try_acquire(self, topic: TopicPlan) -> bool:
        """Whether a topic that gets new partitions may be sent now; if so it counts as sent."""

    def wait(self) -> None:
        """Nothing may be sent now: return when it is worth asking again. Raises ``TopiaristError`` to end the run."""

    def on_outcome(self, topic: TopicPlan, outcome: Outcome) -> None:
        """What became of a topic."""


class Cluster(Protocol):
    """A cluster as topiarist sees it: two verbs."""

    def read(self) -> ClusterState:
        """Everything that a plan is made from, in one go.

        Raises ``TopiaristError`` if the cluster cannot be reached or is none.
        """

    def apply(self, plan: Plan, stop: Callable[[], bool], throttle: Throttle | None = None) -> Iterator[Outcome]:
        """Carry out ``plan``: one transaction a topic, each after comparing by value with what is there at that moment.

        With a ``throttle`` the topics that get no new partitions come first, and of the others each waits for its
        leave.

        Gives exactly one outcome for each of ``plan.to_do()``, as it becomes known. After ``stop()`` is true nothing
        more is sent: what is under way is finished, the rest is ``NOT_SENT``. Writes nothing at all if nothing is to
        do.

        Raises ``TopiaristError`` before the first outcome if the run cannot begin (no lock, no controller).
        """


class ProgressSource(Protocol):
    """A cluster of which somebody wants to know what it makes of what was applied."""

    def poll(self, topics: Mapping[str, Collection[int]]) -> Mapping[str, TopicProgress]:
        """These topics as of now, each with the partitions of which somebody asks whether they are taken over.

        Cheap enough to be asked until the cluster has finished what ``apply`` began.
        """


class PartitionInspector(Cluster, Protocol):
    """A cluster of which somebody wants to know what its controller has made of one topic."""

    def inspect(self, topic: str) -> TopicInspection | None:
        """The topic's partitions as of now; None where that is not known (a snapshot has none of it)."""

    def inspect_all(self, topics: Collection[TopicState]) -> Mapping[str, TopicInspection]:
        """Return the partitions of each of these topics as of now, without those where that is not known."""


class RuleEvaluator(Protocol):
    """The compiled rules of policies. Several threads may evaluate at once."""

    @property
    def rule_errors(self) -> Mapping[Rule, RuleError]:
        """The rules that do not compile or were given up, with the reason: nothing is evaluated by them."""

    def evaluate(self, rules: Iterable[Rule], facts: CelBindings) -> Iterator[tuple[Rule, RuleError | None]]:
        """Yield the rules that are broken (None), or that could not be evaluated and why.

        All ``rules`` are of one subject, and ``facts`` has every variable of that subject.
        """
