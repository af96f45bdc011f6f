"""Properties of every export: it is valid, its plan contains only record writes, and it lists every omission."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from support import builders
from support.examples import examples
from support.memory_cluster import simulate
from support.strategies import UNUSUAL_NAMES, clusters
from topiarist.adapters.manifests import loader, yaml_text
from topiarist.desired import parse
from topiarist.desired.export import (
    MAX_NAME_LENGTH,
    ExportResult,
    assign_document_names,
    build_entities,
    entity_key,
    export_cluster,
)
from topiarist.desired.resolve import Desired, resolve
from topiarist.model.plan import Plan, RunOptions, TakeOwnership
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState
from topiarist.planning.planner import make_plan
from topiarist.schema import check, load

many = examples(400)

Pair = tuple[ClusterState, ClusterSpec]


class Back(NamedTuple):
    """An export as the next run reads it."""

    found: ExportResult
    cluster: ClusterSpec
    desired: Desired

    @property
    def specs(self) -> Sequence[TopicSpec]:
        """Return the specs of the exported topics."""
        return self.desired.specs[self.cluster.name]

    def plan(self, state: ClusterState) -> Plan:
        """Return the plan of the exported folder."""
        return make_plan(state, self.cluster, self.specs, RunOptions())


def there_and_back(state: ClusterState, cluster: ClusterSpec) -> Back:
    """Export a cluster as YAML and read the result as ``validate`` does, without errors."""
    found = export_cluster(state, cluster, "default")
    text = "".join(f"---\n{yaml_text.dump_file(body)}" for body in found.files.values())
    loaded = loader.load_manifests(["-"], io.BytesIO(text.encode()))
    assert loaded.errors == ()
    assert len(loaded.manifests) == len(found.files)
    for document in loaded.manifests:
        if document.kind == "Cluster":
            cluster = parse.parse_cluster_spec(document)
    topics = [document for document in loaded.manifests if document.kind == "Topic"]
    desired = resolve(topics, {cluster.name: cluster})
    assert desired.errors == ()
    return Back(found, cluster, desired)


@many
@given(clusters())
def test_the_plan_of_an_export_has_only_records_to_write(pair: Pair) -> None:
    """For any cluster every change is a ``TakeOwnership``, and only a write block refuses changes.

    Every orphan of the plan is an omission of the export.
    """
    state, cluster = pair
    back = there_and_back(state, cluster)
    plan = back.plan(state)
    assert set(plan.orphans) <= {topic for topic, _ in back.found.omitted}
    gate = {state.write_block.reason} if state.write_block.reason else set()
    for topic in plan.topics:
        assert set(map(type, topic.changes)) <= {TakeOwnership}
        assert {refusal.reason for refusal in topic.refusals} <= gate


@many
@given(clusters())
def test_once_recorded_nothing_is_left(pair: Pair) -> None:
    """After all ownership records are written the plan is empty, and the topics in Kafka are unchanged."""
    state, cluster = pair
    back = there_and_back(state, cluster)
    after = simulate(state, back.plan(state).topics)
    assert not back.plan(after).has_changes
    for name, topic in state.topics.items():
        later = after.topics[name]
        assert (later.replicas, later.config, later.identity) == (topic.replicas, topic.config, topic.identity)


@many
@given(clusters())
def test_every_topic_is_written_or_named(pair: Pair) -> None:
    """Each topic of the cluster has a document or a reported omission; so has each of its configs, except throttles."""
    state, cluster = pair
    back = there_and_back(state, cluster)
    specs = {spec.topic: spec for spec in back.specs}
    left_out = [topic for topic, _ in back.found.omitted]
    assert sorted([*specs, *left_out]) == sorted([*state.topics, *state.topic_errors])
    for name, spec in specs.items():
        unmanaged = sum(topic == name for topic, _ in back.found.unmanaged)
        throttles = sum(key.endswith(".throttled.replicas") for key in state.topics[name].config)
        assert len(spec.config) + unmanaged + throttles == len(state.topics[name].config)


@many
@given(clusters())
def test_the_same_cluster_gives_the_same_files(pair: Pair) -> None:
    """Topics in another order give the same files."""
    state, cluster = pair

    def texts(topics: Mapping[str, Any]) -> dict[str, str]:
        shuffled = ClusterState(
            state.cluster_id,
            state.brokers,
            topics,
            pending_deletions=state.pending_deletions,
            topic_errors=state.topic_errors,
        )
        found = export_cluster(shuffled, cluster, "default")
        return {name: yaml_text.dump_file(body) for name, body in found.files.items()}

    assert texts(state.topics) == texts({name: state.topics[name] for name in reversed([*state.topics])})


@many
@given(st.lists(st.one_of(st.sampled_from(UNUSUAL_NAMES), st.from_regex(r"[aA._-]{1,4}", fullmatch=True)), unique=True))
def test_names_of_documents(topics: list[str]) -> None:
    """Every topic gets a unique DNS name, short enough for a file name; a DNS name is kept after the prefix."""
    names = assign_document_names(topics, "eu")
    assert names == assign_document_names(reversed(topics), "eu")
    assert sorted(names) == sorted(topics)
    assert len(set(names.values())) == len(topics)
    for topic, name in names.items():
        document = {"apiVersion": load.API_VERSION, "kind": "Topic", "metadata": {"name": name}, "spec": {}}
        assert check.check(document) == []
        assert len(name) <= MAX_NAME_LENGTH
        alone = assign_document_names([topic], "eu")[topic]
        assert name == alone if alone == f"eu.{topic}" else name.startswith(alone[:200])


BACKSTAGE_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
"""The rule of Backstage's own validator."""


@many
@given(
    st.lists(st.sampled_from(["", "a", "a-b", "a.b", "x" * 61 + "1", "x" * 61 + "2"]), min_size=1, unique=True),
    st.lists(st.one_of(st.sampled_from(UNUSUAL_NAMES), st.from_regex(r"[aA._-]{1,4}", fullmatch=True)), unique=True),
)
def test_names_of_entities(clusters: list[str], topics: list[str]) -> None:
    """Every topic of every cluster gets a name that Backstage accepts and, whatever its case, has once."""
    specs = [builders.spec(topic, ClusterSpec(cluster)) for cluster in clusters for topic in topics]
    entities = build_entities(specs, {entity_key(each): "shop" for each in specs}, lambda _: "")
    names = [entity["metadata"]["name"] for entity in entities]
    assert len({name.lower() for name in names}) == len(specs)
    for name in names:
        assert BACKSTAGE_NAME.fullmatch(name)
        assert len(name) <= 63
