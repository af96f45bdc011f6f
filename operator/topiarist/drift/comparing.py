"""One cluster against its specs: the rows of its findings, and how many topics there were.

By ``plan_topic`` and nothing else, but for topics that were settled before. A cluster's gate, its limits of size,
policies and budgets are left out: they say what may be written, and a report is about what differs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from topiarist.adapters.snapshot import text_of
from topiarist.core.change import Adopt, Load, TopicPlan
from topiarist.core.discrepancies import discrepancies
from topiarist.core.discrepancy import Discrepancy, stale_request, undeclared
from topiarist.core.placing import loads
from topiarist.core.plan import Context, Run, context_of, plan_topic
from topiarist.core.spec import ClusterSpec, TopicSpec
from topiarist.core.state import ClusterState
from topiarist.drift.findings import Row, recorded, row, unknown
from topiarist.drift.observing import Observation
from topiarist.drift.settling import Settled


@dataclass(slots=True)
class Comparison:
    """What came of one cluster: its findings in order of topic, class and field, and what was counted.

    ``declared`` and ``present`` are numbers of topics; of the declared ones ``in_order`` have no finding and of
    ``unrecorded`` a plan would write our record; ``left_alone`` are there, undeclared, and expected. ``context`` is
    None if the cluster could not be compared. ``specs`` are those that were compared by plans, ``load`` what brokers
    carry.
    """

    observation: Observation
    declared: int
    rows: list[Row] = field(default_factory=list)
    present: int = 0
    in_order: int = 0
    unrecorded: int = 0
    left_alone: int = 0
    context: Context | None = None
    specs: Sequence[TopicSpec] = ()
    load: Mapping[int, Load] = field(default_factory=dict)

    @property
    def compared(self) -> int:
        """The declared topics that could be compared."""
        return self.declared if self.context else 0


def compare(seen: Observation, cluster: ClusterSpec, specs: Sequence[TopicSpec], run: Run, as_of: str) -> Comparison:
    """The findings of one cluster; ``as_of`` is the time of a finding about a cluster that nobody has read."""
    if seen.state is None or seen.taken is None:
        done = Comparison(seen, len(specs))
        done.rows = [row(seen.cluster, "", unknown("", seen.problem), as_of)]
        return done
    settled, left = seen.settled, seen.settled.left(specs)
    done = compared(seen, _context(seen.state, settled, cluster, run), left, text_of(seen.taken))
    done.declared = len(specs)
    done.present += len(settled.names)
    done.in_order += len(settled.names)
    done.unrecorded += settled.unrecorded
    lists = settled.replicas() + Counter(chain.from_iterable(topic.replicas for topic in seen.state.topics.values()))
    done.load = loads(lists, [broker.id for broker in seen.state.brokers])
    add_stale_requests(done, specs)
    return done


def add_stale_requests(done: Comparison, specs: Sequence[TopicSpec]) -> None:
    """Add a finding for each topic that a stale entry of the reassignment request names, declared or not."""
    seen = done.observation
    if seen.state is None or seen.taken is None or not seen.state.stale_requests:
        return
    stale, taken = seen.state.stale_requests, text_of(seen.taken)
    done.in_order -= len((stale & {spec.topic for spec in specs}) - {made["topic"] for made in done.rows})
    done.rows.extend(row(seen.cluster, topic, stale_request(), taken) for topic in stale)
    done.rows.sort(key=_order)


def _order(made: Row) -> tuple[str, str, str]:
    return made["topic"], made["class"], made["field"]


def _context(state: ClusterState, settled: Settled, cluster: ClusterSpec, run: Run) -> Context:
    """What plans of the topics that are left rest on; the settled ones count among those that hold replicas.

    Names of theirs collide with no other spec's: they have specs themselves, and ``desired`` sees to it.
    """
    staying = (topic.replicas for name, topic in state.topics.items() if name not in state.deleting)
    return context_of(state, cluster, run, settled.holders().union(*chain.from_iterable(staying)))


def compared(seen: Observation, context: Context, specs: Sequence[TopicSpec], taken: str) -> Comparison:
    """The findings of a cluster of which something is known; its state may have only some topics, and ``specs`` too."""
    done, state = Comparison(seen, len(specs), context=context, specs=specs), context.state
    done.present = len(state.topics) + len(state.faults)
    for topic, one in [*_of_specs(done, context, specs), *_of_others(done, context, specs)]:
        made = row(seen.cluster, topic, one, taken)
        done.rows.append(recorded(made, state.topics.get(topic), state.records.get(topic)))
    done.rows.sort(key=_order)
    return done


def _of_specs(done: Comparison, context: Context, specs: Sequence[TopicSpec]) -> Iterator[tuple[str, Discrepancy]]:
    gaps = done.observation.gaps
    for spec in specs:
        if gaps and not _known(spec.topic, context.state):
            yield spec.topic, unknown(spec.topic, "its row is not among those of the snapshot that could be read")
            continue
        plan = plan_topic(spec, context)
        found = discrepancies(plan) if plan.changes or plan.refusals or plan.notices else ()
        done.in_order += not found
        done.unrecorded += _recorded(plan)
        for one in found:
            yield spec.topic, one


def _known(topic: str, state: ClusterState) -> bool:
    """Whether a state says anything of a topic, if only that it is not there any more."""
    return topic in state.topics or topic in state.faults or topic in state.records or topic in state.deleting


def _recorded(plan: TopicPlan) -> bool:
    return any(isinstance(change, Adopt) for change in plan.changes)


def _of_others(done: Comparison, context: Context, specs: Sequence[TopicSpec]) -> Iterator[tuple[str, Discrepancy]]:
    """What is there and nobody asked for."""
    state, declared = context.state, {spec.topic for spec in specs}
    for name in (*state.topics, *state.faults):
        if name in declared:
            continue
        if one := undeclared(name, state, context.cluster, context.run.owner):
            yield name, one
        else:
            done.left_alone += 1
