"""What holds for every export: it is valid, its plan has only records to write, and nothing is forgotten."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from topiarist import schema
from topiarist.adapters import manifests
from topiarist.core.change import Adopt, Plan
from topiarist.core.evolve import evolve
from topiarist.core.plan import Run, make_plan
from topiarist.core.spec import ClusterSpec, TopicSpec
from topiarist.core.state import ClusterState
from topiarist.desired import Desired, resolve
from topiarist.export import Exported, export
from topiarist.export.names import LONGEST, document_names
from unit.strategies import NAMED_ODDLY, clusters

many = settings(max_examples=400)

Pair = tuple[ClusterState, ClusterSpec]


class Back(NamedTuple):
    """An export as the next run reads it."""

    found: Exported
    cluster: ClusterSpec
    desired: Desired

    @property
    def specs(self) -> Sequence[TopicSpec]:
        """What the exported topics ask for."""
        return self.desired.specs[self.cluster.name]

    def plan(self, state: ClusterState) -> Plan:
        """The plan of the exported folder."""
        return make_plan(state, self.cluster, self.specs, Run())


def there_and_back(state: ClusterState, cluster: ClusterSpec) -> Back:
    """Export, write as YAML, read again as ``validate`` does: no complaint of any kind."""
    found = export(state, cluster, "default")
    text = "".join(f"---\n{manifests.dump_file(body)}" for body in found.files.values())
    loaded = manifests.load(["-"], io.BytesIO(text.encode()))
    assert loaded.complaints == ()
    assert len(loaded.manifests) == len(found.files)
    for document in loaded.manifests:
        if document.kind == "Cluster":
            cluster = schema.cluster_spec(document)
    topics = [document for document in loaded.manifests if document.kind == "Topic"]
    desired = resolve(topics, {cluster.name: cluster})
    assert desired.complaints == ()
    return Back(found, cluster, desired)


@many
@given(clusters())
def test_the_plan_of_an_export_has_only_records_to_write(pair: Pair) -> None:
    """Whatever stands on the cluster: every change is an ``Adopt``, and only a closed gate holds any of them back.

    What is ours and in no document was named by the export.
    """
    state, cluster = pair
    back = there_and_back(state, cluster)
    plan = back.plan(state)
    assert set(plan.orphans) <= {topic for topic, _ in back.found.left_out}
    gate = {state.gate.reason} if state.gate.reason else set()
    for topic in plan.topics:
        assert set(map(type, topic.changes)) <= {Adopt}
        assert {refusal.reason for refusal in topic.refusals} <= gate


@many
@given(clusters())
def test_once_recorded_nothing_is_left(pair: Pair) -> None:
    """With every record written the plan is empty, and nothing of Kafka's has changed."""
    state, cluster = pair
    back = there_and_back(state, cluster)
    after = evolve(state, back.plan(state).topics)
    assert not back.plan(after).pending
    for name, topic in state.topics.items():
        later = after.topics[name]
        assert (later.replicas, later.config, later.identity) == (topic.replicas, topic.config, topic.identity)


@many
@given(clusters())
def test_every_topic_is_written_or_named(pair: Pair) -> None:
    """Each topic of the cluster has a document or a reason why not; so has each of its configs, but for throttles."""
    state, cluster = pair
    back = there_and_back(state, cluster)
    specs = {spec.topic: spec for spec in back.specs}
    left_out = [topic for topic, _ in back.found.left_out]
    assert sorted([*specs, *left_out]) == sorted([*state.topics, *state.faults])
    for name, spec in specs.items():
        unmanaged = sum(topic == name for topic, _ in back.found.unmanaged)
        throttles = sum(key.endswith(".throttled.replicas") for key in state.topics[name].config)
        assert len(spec.config) + unmanaged + throttles == len(state.topics[name].config)


@many
@given(clusters())
def test_the_same_cluster_gives_the_same_files(pair: Pair) -> None:
    """Topics in another order make no difference to the text of any file."""
    state, cluster = pair

    def texts(topics: Mapping[str, Any]) -> dict[str, str]:
        shuffled = ClusterState(state.cluster_id, state.brokers, topics, deleting=state.deleting, faults=state.faults)
        found = export(shuffled, cluster, "default")
        return {name: manifests.dump_file(body) for name, body in found.files.items()}

    assert texts(state.topics) == texts({name: state.topics[name] for name in reversed([*state.topics])})


@many
@given(st.lists(st.one_of(st.sampled_from(NAMED_ODDLY), st.from_regex(r"[aA._-]{1,4}", fullmatch=True)), unique=True))
def test_names_of_documents(topics: list[str]) -> None:
    """Every topic gets a DNS name of its own, short enough for a file; a DNS name is kept, behind the cluster's."""
    names = document_names(topics, "eu")
    assert names == document_names(reversed(topics), "eu")
    assert sorted(names) == sorted(topics)
    assert len(set(names.values())) == len(topics)
    for topic, name in names.items():
        document = {"apiVersion": schema.VERSION, "kind": "Topic", "metadata": {"name": name}, "spec": {}}
        assert schema.check(document) == []
        assert len(name) <= LONGEST
        alone = document_names([topic], "eu")[topic]
        assert name == alone if alone == f"eu.{topic}" else name.startswith(alone[:200])
