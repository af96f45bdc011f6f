"""The commands that explain: ``topiarist describe`` topics, ``explain`` words that a user meets, ``check`` a cluster.

``describe`` reads each cluster and its topics from one moment (``_read_topics``), plans the manifests if there are any,
and prints the result in the chosen format. Sends no write.

``check`` shows what works with a cluster, what does not, and what its ``Cluster`` document needs. It reads each cluster
once and sends no write, also none that is validated only: the first command of a new user needs no right to write, and
a broker that does not know the flag would carry such a request out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from topiarist.cli import formats, options, terminal
from topiarist.cli.parameters import complete_topic
from topiarist.cli.terminal import Settings
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.kafka.types import is_pattern, topic_name_problem
from topiarist.text import format_count, quote

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from topiarist.desired.resolve import Desired
    from topiarist.inspection.check import ClusterCheck
    from topiarist.inspection.describe import Description, ResolvedTopic
    from topiarist.model.spec import ClusterSpec
    from topiarist.model.state import ClusterState
    from topiarist.ports import OpenCluster, PartitionInspector
    from topiarist.runs.inputs import RunInputs

# The ``topiarist explain`` command: what a reason, a topic config or a field of a manifest means.


def _complete_word(_context: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from topiarist.inspection.describe import list_words

    return [CompletionItem(word) for word in list_words() if word.lower().startswith(incomplete.lower())]


@click.command(
    "explain",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist explain MoveNotAllowed
  topiarist explain retention.ms
  topiarist explain Topic.spec.moves

\b
Exit codes: 0 explained; 2 usage error, also for an unknown word.
""",
)
@options.argument("word", metavar="REASON|CONFIG|FIELD", shell_complete=_complete_word)
@options.format_option(formats.EXPLANATION_FORMATS)
@options.color
def explain_command(word: str, form: str) -> None:
    """Explain a reason of an error or refusal, a topic config, or a field of a manifest.

    A field is given by its path, or by the end of its path: moves.allow. Those of the project file begin with Project,
    such as Project.owner. Needs neither manifests nor a cluster.
    """
    from topiarist.inspection.describe import explain, list_words
    from topiarist.schema.check import did_you_mean

    found = explain(word)
    if not found:
        hint = did_you_mean(word, list_words())
        message = f"{quote(word)} is no reason, no topic config and no field of a manifest"
        raise click.UsageError(f"{message}; {hint}" if hint else message)
    terminal.print_result(formats.EXPLANATION_FORMATS[form](found))


_MAX_READS = 3
"""Maximum number of reads until cluster and topics are from one moment.

Other clients may change topics between two reads.
"""


class _ClusterTopics(NamedTuple):
    """The state of one cluster, and each requested topic with the queries that match it."""

    state: ClusterState
    topics: list[tuple[list[str], Description]]


@click.command(
    "describe",
    cls=options.TopicCommand,
    epilog="""\b
Examples:
  topiarist describe orders --bootstrap-servers localhost:9092
  topiarist describe orders topics/ --clusters clusters.yaml --cluster eu
  topiarist describe orders,clicks --clusters clusters.yaml -v
  topiarist describe 'shop.*' topics/ --clusters clusters.yaml
  topiarist describe orders topics/ --format json | jq '.clusters[].partitions[]'
  topiarist describe orders topics/ --clusters clusters.yaml --snapshot snapshots

\b
Exit codes: 0 described; 1 error, or a topic is on no cluster and in no manifest;
2 usage error.
""",
)
@options.argument("topic", metavar="TOPIC[,TOPIC...]", shell_complete=complete_topic)
@options.manifests
@options.connection
@options.snapshot
@options.planning
@options.format_option(formats.DESCRIPTION_FORMATS)
def command(topic: str, form: str, **values: Any) -> None:
    """Show topics in detail: values with their sources, partitions with leader and ISR, ownership record, pending work
    of the controller, and the changes that a plan would make.

    TOPIC is a name in Kafka, the metadata.name of a manifest, or a pattern of names in Kafka ('shop.*'). Separate
    several with commas. Without PATH, only the clusters are shown. A topic is looked up on the clusters that its
    manifest names; a pattern, or a topic without a manifest, on all clusters. Writes nothing: read-only credentials are
    enough. Also works on a frozen cluster, and without a controller.
    """
    from topiarist.inspection.describe import split_patterns
    from topiarist.inspection.health import Phase
    from topiarist.runs.inputs import load_if_given, require_addresses
    from topiarist.runs.sessions import ClusterSessions

    words = split_patterns(topic)
    if "/" in topic or not words:
        raise click.UsageError(f"found {quote(topic)}, wanted names of topics first, then the paths of manifests")
    settings = options.build_settings(values)
    listener = terminal.TerminalListener(settings)
    inputs = load_if_given(settings, listener)
    desired = inputs.desired
    clusters_by_query = {word: _select_clusters(word, desired) for word in words}
    clusters = {
        name: spec
        for name, spec in desired.clusters.items()
        if any(name in names for names in clusters_by_query.values())
    }
    require_addresses(clusters, settings)

    def look(name: str, cluster: PartitionInspector) -> _ClusterTopics:
        queries = [word for word in words if name in clusters_by_query[word]]
        return _read_topics(cluster, name, queries, inputs, settings)

    with ClusterSessions(clusters, settings, listener, keep_open=False) as sessions:
        results = sessions.map_clusters(look)
    descriptions = [each for found in results.values() for each in found.topics]
    known_queries = {
        word
        for asked, each in descriptions
        if each.phase.phase is not Phase.UNKNOWN or each.topic in each.state.reassigning_topics
        for word in asked
    }
    for word in words:
        if word not in known_queries:
            found = {name: results[name].state for name in clusters_by_query[word] if name in results}
            _log_absent(word, desired, found, len(clusters_by_query[word]))
    if known_queries or form != "text":
        # Text output omits an unknown topic, because stderr has named it; a program gets every requested topic.
        shown = [each for asked, each in descriptions if not known_queries.isdisjoint(asked) or form != "text"]
        terminal.print_result(formats.DESCRIPTION_FORMATS[form](topic, shown, settings))
    done = known_queries.issuperset(words) and sessions.error_code is Exit.DONE and not inputs.invalid_documents
    raise click.exceptions.Exit(int(Exit.DONE if done else Exit.ERROR))


def _select_clusters(query: str, desired: Desired) -> frozenset[str]:
    """Return the clusters that declare a topic; all clusters of the run for a pattern or an undeclared topic."""
    if is_pattern(query):
        return frozenset(desired.clusters)
    named = {
        name for name, specs in desired.specs.items() for spec in specs if query in (spec.topic, spec.manifest.name)
    }
    return frozenset(named & desired.clusters.keys() or desired.clusters)


def _read_topics(
    cluster: PartitionInspector, name: str, queries: Sequence[str], inputs: RunInputs, settings: Settings
) -> _ClusterTopics:
    """Read a cluster and its requested topics until both are from one moment, at most three times; describe them.

    Reads the whole cluster, although few topics are requested: colliding names, brokers, budgets and policies concern
    all of it, and reading 10,000 topics takes less time than starting the process.
    """
    from topiarist.inspection.describe import describe, select_topics
    from topiarist.model.state import TopicInspection, is_same_topic
    from topiarist.planning.moves.topic import add_elections, find_candidates
    from topiarist.planning.planner import make_plan
    from topiarist.reconcile import read_cluster, require_all_topics_planned

    spec, specs = inputs.desired.clusters[name], inputs.desired.specs[name]
    for _ in range(_MAX_READS):
        state = read_cluster(cluster, spec.cluster_id)
        selected: dict[str, tuple[ResolvedTopic, list[str]]] = {}
        for query in queries:
            for resolved in select_topics(query, state, specs):
                selected.setdefault(resolved.topic, (resolved, []))[1].append(query)
        # The name of an absent topic may be impossible as a znode path, so it is not read.
        inspections = {
            topic: cluster.inspect(topic)
            if topic in state.topics or topic in state.topic_errors
            else TopicInspection(None, {})
            for topic in selected
        }
        if all(is_same_topic(state, topic, inspection) for topic, inspection in inspections.items()):
            break
    plan = None
    if settings.paths:
        plan = require_all_topics_planned(make_plan(state, spec, specs, settings.run_options), specs)
        candidates = find_candidates(plan, specs, state).keys() & inspections.keys()
        known = {topic: inspection for topic in candidates if (inspection := inspections[topic])}
        plan = add_elections(plan, specs, {topic: state.topics[topic] for topic in known}, known)
        plan = inputs.filter_plan(plan, settings)
    return _ClusterTopics(
        state,
        [
            (matching, describe(state, spec, resolved, inspections[topic], plan, settings.owner))
            for topic, (resolved, matching) in selected.items()
        ],
    )


def _log_absent(query: str, desired: Desired, states: Mapping[str, ClusterState], clusters: int) -> None:
    """Log that none of the ``clusters`` selected for the query has it, and suggest similar names."""
    from topiarist.inspection.describe import similar_names

    if not states:
        return  # the read errors are logged already
    similar = (similar_names(query, state, desired.specs[name]) for name, state in states.items())
    names = sorted({close for some in similar for close in some})
    subject = f"topic that fits {quote(query)}" if is_pattern(query) else f"topic {quote(query)}"
    if clusters == 1 and not desired.targeted_clusters:
        message = f"this cluster does not have a {subject}"
    else:
        scope = (
            "no cluster"
            if len(states) == clusters
            else f"none of the {format_count(len(states), 'cluster')} that could be read"
        )
        message = f"{scope}{' and no manifest' if desired.targeted_clusters else ''} has a {subject}"
    hint = f"did you mean {', '.join(names)}?" if names else "" if is_pattern(query) else topic_name_problem(query)
    terminal.log(terminal.sanitize_lines(f"error: {message}" + (f"\n    {hint}" if hint else "")))


@click.command(
    "check",
    cls=options.ClusterCommand,
    epilog="""\b
Examples:
  topiarist check --bootstrap-servers b1:9092,b2:9092
  topiarist check clusters.yaml
  topiarist check clusters.yaml --cluster eu --format json

\b
Exit codes: 0 checked, whatever a cluster can do; 1 error, or a cluster could not be read; 2 usage error.
""",
)
@options.manifests
@options.connection
@options.format_option(formats.CHECK_FORMATS)
def check_command(form: str, **values: Any) -> None:
    """Show what works with clusters, what does not and why, and what to write into their Cluster documents.

    Reads every cluster once and writes nothing: read-only credentials are enough. A service that answers a part of
    Kafka's protocol is used as far as it goes; plans and refusals name the same reasons.
    """
    settings = options.build_settings(values)
    with terminal.open_sessions(settings, keep_open=False) as fleet:
        checks = fleet.map_sessions(lambda name, cluster: _check(cluster, fleet.specs[name]))
    for name, check in checks.items():
        if check.error:
            fleet.fail(check.error, name)
    if checks or form != "text":
        terminal.print_result(formats.CHECK_FORMATS[form](list(checks.values()), settings))
    raise click.exceptions.Exit(int(fleet.error_code))


def _check(cluster: OpenCluster, spec: ClusterSpec) -> ClusterCheck:
    """Return the check of a cluster; that of its capabilities alone if its topics cannot be read."""
    from topiarist.inspection.check import ClusterCheck, check_state
    from topiarist.model.access import KafkaAccess
    from topiarist.reconcile import read_cluster

    try:
        return check_state(spec, read_cluster(cluster, spec.cluster_id), cluster.find_allowed_operations())
    except TopiaristError as error:
        is_known = isinstance(spec.access, KafkaAccess) and error.reason is not Reason.WRONG_CLUSTER
        if not is_known or error.reason.retryable:
            raise
        parts = cluster.read_cluster_id(), cluster.find_capabilities()
        return ClusterCheck(spec, *parts, error=error, allowed=cluster.find_allowed_operations())
