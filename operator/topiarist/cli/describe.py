"""``topiarist describe``: topics, whole, as their cluster holds them and their manifests want them. Sends no write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click

from topiarist.cli import formats, guards, inputs, options, terminal
from topiarist.cli.fleet import Fleet
from topiarist.core.description import Description, Meant, chosen, close_to, describe, is_pattern, words_of
from topiarist.core.inspection import Inspection, agree
from topiarist.core.lifecycle import Phase
from topiarist.core.names import name_problem
from topiarist.core.plan import make_plan
from topiarist.core.spec import ClusterSpec, TopicSpec
from topiarist.core.state import ClusterState
from topiarist.core.units import count
from topiarist.core.values import quoted
from topiarist.desired import Desired
from topiarist.errors import Exit
from topiarist.reconcile import Inspected, complete, read
from topiarist.settings import Settings

_LOOKS = 3
"""How often to look until the topics that were read are those that were looked at; others are free to change them."""


class _Topic(NamedTuple):
    """A topic of one cluster, the words that mean it, and what the controller has made of it."""

    words: tuple[str, ...]
    meant: Meant
    inspection: Inspection | None


class _Found(NamedTuple):
    """What one cluster holds, and the topics that are asked for."""

    state: ClusterState
    topics: tuple[_Topic, ...]


@click.command(
    "describe",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist describe orders --zookeeper localhost:2181/kafka
  topiarist describe orders topics/ --clusters clusters.yaml --cluster eu
  topiarist describe orders,clicks --clusters clusters.yaml -v
  topiarist describe 'shop.*' topics/ --clusters clusters.yaml
  topiarist describe orders topics/ --format json | jq '.clusters[].partitions[]'
  topiarist describe orders topics/ --clusters clusters.yaml --snapshot snapshots

\b
Exit codes: 0 described; 1 an error, or no cluster and no manifest has one of the topics;
2 wrong usage.
""",
)
@options.argument("topic", metavar="TOPIC[,TOPIC...]")
@options.manifests
@options.connection
@options.recorded
@options.planning
@options.option("--format", "form", type=click.Choice([*formats.DESCRIPTIONS]), default="text", show_default=True)
def command(topic: str, form: str, **values: Any) -> None:
    """Show topics, whole: where each value comes from, its partitions with leader and ISR, our record, what the
    controller has still to do, and what a plan of the manifests would change.

    TOPIC is its name in Kafka, or metadata.name of its document, or a pattern of names in Kafka ('shop.*'); several
    have a comma between them. Without a PATH only what the cluster holds is shown. Looks at every cluster that a topic
    is meant for; if no manifest names it, and for a pattern, at all clusters of the run. Reads only: read-only
    credentials are enough, also on a frozen cluster and without a controller.
    """
    words = words_of(topic)
    if "/" in topic or not words:
        raise click.UsageError(f"found {quoted(topic)}, wanted names of topics first, then the paths of manifests")
    settings = options.settings(values)
    desired = inputs.load_if_given(settings)
    where = {word: _clusters(word, desired) for word in words}
    clusters = {name: spec for name, spec in desired.clusters.items() if any(name in names for names in where.values())}
    inputs.require_addresses(clusters, settings)

    def look(name: str, cluster: Inspected) -> _Found:
        return _look(
            cluster, desired.clusters[name], [word for word in words if name in where[word]], desired.specs[name]
        )

    with Fleet(clusters, settings, keep=False) as fleet:
        looked = fleet.looked_at(look)
    found = [each for name in looked for each in _described(desired, name, looked[name], settings)]
    known = {word for asked, each in found if _is_known(each) for word in asked}
    for word in words:
        if word not in known:
            _say_absent(word, desired, {name: looked[name] for name in where[word] if name in looked}, len(where[word]))
    if known or form != "text":
        # Of a topic that nothing knows, a person has been told; a program gets it as it was asked for.
        shown = [each for asked, each in found if not known.isdisjoint(asked) or form != "text"]
        terminal.product(formats.DESCRIPTIONS[form](topic, shown, settings))
    done = known.issuperset(words) and fleet.error_code is Exit.DONE
    raise click.exceptions.Exit(int(Exit.DONE if done else Exit.ERROR))


def _is_known(description: Description) -> bool:
    """Return whether the cluster has the topic, or a reassignment request that names it."""
    return description.life.phase is not Phase.UNKNOWN or description.topic in description.state.reassigning


def _clusters(word: str, desired: Desired) -> frozenset[str]:
    """Return the clusters that a topic is meant for; all of the run for a pattern, or if no manifest names it."""
    if is_pattern(word):
        return frozenset(desired.clusters)
    named = {
        name for name, specs in desired.specs.items() for spec in specs if word in (spec.topic, spec.manifest.name)
    }
    return frozenset(named & desired.clusters.keys() or desired.clusters)


def _look(cluster: Inspected, spec: ClusterSpec, words: Sequence[str], specs: Sequence[TopicSpec]) -> _Found:
    """Read a cluster, and look at the topics until both are of one moment.

    The whole cluster, although it is about few topics: names that collide, brokers, budgets and policies are about all
    of it, and reading 10,000 topics takes less time than starting to.
    """
    for _ in range(_LOOKS):
        state = read(cluster, spec.cluster_id)
        wanted: dict[str, tuple[Meant, list[str]]] = {}
        for word in words:
            for each in chosen(word, state, specs):
                wanted.setdefault(each.topic, (each, []))[1].append(word)
        topics = tuple(
            _Topic(tuple(asked), each, _inspected(cluster, state, each.topic)) for each, asked in wanted.values()
        )
        if all(agree(state, each.meant.topic, each.inspection) for each in topics):
            break
    return _Found(state, topics)


def _inspected(cluster: Inspected, state: ClusterState, topic: str) -> Inspection | None:
    """A topic that is not there has no partitions, and its name may be none that a path can have."""
    there = topic in state.topics or topic in state.faults
    return cluster.inspect(topic) if there else Inspection(None, {})


def _described(
    desired: Desired, name: str, found: _Found, settings: Settings
) -> Iterator[tuple[tuple[str, ...], Description]]:
    """Yield each topic of a cluster with the words that mean it."""
    cluster, specs = desired.clusters[name], desired.specs[name]
    plan = None
    if settings.paths:
        plan = complete(make_plan(found.state, cluster, specs, settings.run), specs)
        plan = guards.allowed(plan, desired, settings)
    for words, what, inspection in found.topics:
        yield words, describe(found.state, cluster, what, inspection, plan, settings.owner)


def _say_absent(word: str, desired: Desired, looked: Mapping[str, _Found], clusters: int) -> None:
    """Say that nothing of the name is known on the ``clusters`` that were to be looked at, and what may be meant."""
    if not looked:
        return  # that none could be read has been said
    near = (close_to(word, found.state, desired.specs[name]) for name, found in looked.items())
    names = sorted({close for some in near for close in some})
    such = f"topic that fits {quoted(word)}" if is_pattern(word) else f"topic {quoted(word)}"
    if clusters == 1 and not desired.wanted:
        said = f"this cluster does not have a {such}"
    else:
        nowhere = (
            "no cluster"
            if len(looked) == clusters
            else f"none of the {count(len(looked), 'cluster')} that could be read"
        )
        said = f"{nowhere}{' and no manifest' if desired.wanted else ''} has a {such}"
    hint = f"did you mean {', '.join(names)}?" if names else "" if is_pattern(word) else name_problem(word)
    terminal.say(terminal.plain_lines(f"error: {said}" + (f"\n    {hint}" if hint else "")))
