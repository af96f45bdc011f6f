"""``topiarist describe``: one topic, whole, as its cluster holds it and as its manifest wants it. Sends no write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import click

from topiarist.cli import formats, guards, inputs, options, terminal
from topiarist.cli.fleet import Fleet
from topiarist.core.description import Description, Meant, close_to, describe, meant
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
"""How often to look until the topic that was read is the one that was looked at; others are free to change it."""


class _Found(NamedTuple):
    """What one cluster holds, what the word means there, and what its controller has made of each of these."""

    state: ClusterState
    topics: tuple[tuple[Meant, Inspection | None], ...]


@click.command(
    "describe",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist describe orders --zookeeper localhost:2181/kafka
  topiarist describe orders topics/ --clusters clusters.yaml --cluster eu
  topiarist describe orders --clusters clusters.yaml -v
  topiarist describe orders topics/ --format json | jq '.clusters[].partitions[]'
  topiarist describe orders topics/ --clusters clusters.yaml --snapshot snapshots

\b
Exit codes: 0 described; 1 an error, or no cluster and no manifest has such a topic;
2 wrong usage.
""",
)
@click.argument("topic")
@options.manifests
@options.connection
@options.recorded
@options.planning
@click.option("--format", "form", type=click.Choice([*formats.DESCRIPTIONS]), default="text", show_default=True)
def command(topic: str, form: str, **values: Any) -> None:
    """Show one topic, whole: where each value comes from, its partitions with leader and ISR, our record, what the
    controller has still to do, and what a plan of the manifests would change.

    TOPIC is its name in Kafka, or metadata.name of its document. Without a PATH only what the cluster holds is shown.
    Looks at every cluster that the topic is meant for; if no manifest names it, at all clusters of the run. Reads only:
    read-only credentials are enough, also on a frozen cluster and without a controller.
    """
    if "/" in topic:
        raise click.UsageError(f"found {quoted(topic)}, wanted the name of a topic first, then the paths of manifests")
    settings = options.settings(values)
    desired = _desired(settings)
    clusters = _clusters(topic, desired, settings)

    def look(name: str, cluster: Inspected) -> _Found:
        return _look(cluster, desired.clusters[name], topic, desired.specs[name])

    with Fleet(clusters, settings, keep=False) as fleet:
        looked = fleet.looked_at(look)
    found = [each for name in looked for each in _described(desired, name, looked[name], settings)]
    known = [each for each in found if each.life.phase is not Phase.UNKNOWN]
    if not known:
        _say_absent(topic, desired, looked, len(clusters))
    if known or form != "text":
        terminal.product(formats.DESCRIPTIONS[form](topic, found, settings))
    raise click.exceptions.Exit(int(Exit.DONE if known and fleet.error_code is Exit.DONE else Exit.ERROR))


def _desired(settings: Settings) -> Desired:
    """What the run's manifests want; nothing, on every cluster of the run, if there are none."""
    if settings.paths:
        # What there is to remark on a whole folder is none of one topic's business.
        return inputs.load(replace(settings, verbosity=-1))
    clusters = inputs.load_clusters(settings)
    return Desired(dict.fromkeys(clusters, ()), clusters)


def _clusters(topic: str, desired: Desired, settings: Settings) -> Mapping[str, ClusterSpec]:
    """The clusters that the topic is meant for; all of the run if no manifest names it."""
    chosen = {
        name for name, specs in desired.specs.items() for spec in specs if topic in (spec.topic, spec.manifest.name)
    }
    found = {name: spec for name, spec in desired.clusters.items() if name in chosen} or desired.clusters
    inputs.require_addresses(found, settings)
    return found


def _look(cluster: Inspected, spec: ClusterSpec, word: str, specs: Sequence[TopicSpec]) -> _Found:
    """Read a cluster, and look at the topic until both are of one moment.

    The whole cluster, although it is about one topic: names that collide, brokers, budgets and policies are about all
    of it, and reading 10,000 topics takes less time than starting to.
    """
    for _ in range(_LOOKS):
        state = read(cluster, spec.cluster_id)
        topics = tuple((each, _inspected(cluster, state, each.topic)) for each in meant(word, state, specs))
        if all(agree(state, each.topic, inspection) for each, inspection in topics):
            break
    return _Found(state, topics)


def _inspected(cluster: Inspected, state: ClusterState, topic: str) -> Inspection | None:
    """A topic that is not there has no partitions, and its name may be none that a path can have."""
    there = topic in state.topics or topic in state.faults
    return cluster.inspect(topic) if there else Inspection(None, {})


def _described(desired: Desired, name: str, found: _Found, settings: Settings) -> Iterator[Description]:
    cluster, specs = desired.clusters[name], desired.specs[name]
    plan = None
    if settings.paths:
        plan = complete(make_plan(found.state, cluster, specs, settings.run), specs)
        plan = guards.allowed(plan, desired, settings)
    for what, inspection in found.topics:
        yield describe(found.state, cluster, what, inspection, plan, settings.owner)


def _say_absent(word: str, desired: Desired, looked: Mapping[str, _Found], clusters: int) -> None:
    """Say that nothing of the name is known on the ``clusters`` that were to be looked at, and what may be meant."""
    if not looked:
        return  # that none could be read has been said
    near = (close_to(word, found.state, desired.specs[name]) for name, found in looked.items())
    names = sorted({close for some in near for close in some})
    if clusters == 1 and not desired.wanted:
        said = f"this cluster does not have a topic {quoted(word)}"
    else:
        nowhere = (
            "no cluster"
            if len(looked) == clusters
            else f"none of the {count(len(looked), 'cluster')} that could be read"
        )
        said = f"{nowhere}{' and no manifest' if desired.wanted else ''} has a topic {quoted(word)}"
    hint = f"did you mean {', '.join(names)}?" if names else name_problem(word)
    terminal.say(terminal.plain_lines(f"error: {said}" + (f"\n    {hint}" if hint else "")))
