"""State sequences in the manner of Acto: one property after another is set, removed and set back.

Acto (a paper of SOSP 2023) generates the states that a user may declare from the schema of a custom resource. After
each state the operator must have converged to it, or have refused it with a reason in the status. It must neither crash
nor write without end, and it must recover when a good state follows an erroneous one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from campaigns.api_server import Body
from campaigns.crd_schema import Schema, spec_schema, validate_spec
from campaigns.kafka_clusters import ADDRESS, BOOTSTRAP_SERVERS
from campaigns.schema_values import Path, property_paths, property_values, set_property
from campaigns.workloads import cluster_spec, topic_spec
from campaigns.world import STEP_S, World, run_world
from topiarist.kubernetes.client import ApiError
from topiarist.model.state import TopicState

SECRET_REF = {"secretKeyRef": {"name": "kafka", "key": "password"}}
_CERTIFICATE = {"certificate": SECRET_REF, "key": SECRET_REF, "keyPassword": SECRET_REF}
_LOGIN = {"username": "topiarist", "password": SECRET_REF}
_TOKEN = {"mechanism": "OAUTHBEARER", "tokenEndpoint": "https://login.example.com/token", "clientId": "topiarist"}
_STORES = dict.fromkeys(("keyStore", "keyStorePassword", "trustStore", "trustStorePassword"), SECRET_REF)
_ROLE = {"region": "eu-west-1", "profile": "a", "roleArn": "arn:aws:iam::123456789012:role/a", "sessionName": "me"}
_PRINCIPAL = {"principal": "topiarist@EXAMPLE.COM", "serviceName": "kafka", "realm": "EXAMPLE.COM"}
_LIMIT = {"name": "most", "per": "Namespace", "topics": 100}

Spec = Mapping[str, Any]


def _through_brokers(**kafka: Any) -> Spec:
    spec = dict(cluster_spec(kafka={"bootstrapServers": BOOTSTRAP_SERVERS, **kafka}))
    del spec["zookeeper"]
    return spec


BASES: Mapping[str, Sequence[Spec]] = {
    "topics": (topic_spec(), {"replicaAssignment": [[1, 2], [2, 3], [3, 4]]}),
    "clusters": (
        cluster_spec(retentionStep={"share": "50%"}, budgets={"limits": [_LIMIT]}),
        cluster_spec(zookeeper={"connect": ADDRESS, "sasl": _LOGIN, "tls": _CERTIFICATE}),
        cluster_spec(zookeeper={"connect": ADDRESS, "digest": _LOGIN}),
        _through_brokers(sasl={"mechanism": "PLAIN", **_LOGIN}, tls=_CERTIFICATE),
        _through_brokers(sasl={**_TOKEN, "clientSecret": SECRET_REF, "scope": "kafka", "ca": SECRET_REF}),
        _through_brokers(sasl={**_TOKEN, "clientKey": SECRET_REF, "clientKeyId": "7", "audience": "kafka"}),
        _through_brokers(sasl={"mechanism": "OAUTHBEARER", "token": SECRET_REF, "extensions": {"a": "b"}}, tls=_STORES),
        _through_brokers(sasl={"mechanism": "AWS_MSK_IAM", **_ROLE}),
        _through_brokers(sasl={"mechanism": "GSSAPI", **_PRINCIPAL, "keyTab": SECRET_REF}),
        cluster_spec(
            zookeeper={"connect": ADDRESS, "sasl": {"mechanism": "GSSAPI", **_PRINCIPAL, "ticketCache": SECRET_REF}}
        ),
    ),
}
"""Good specs. A property is set on the first one with which the schema accepts any of its values."""

CONVERGE_S = 130.0
"""Virtual seconds for one state: twice the longest delay after a failure."""

IRREVERSIBLE = ("FewerPartitions", "DataLoss")
"""Reasons to refuse the way back to a good state: Kafka removes no partitions, and a loss needs the user's consent."""

REFUSED_BY_SERVER = "refused by the API server"

INVALID = 422

NAMES = {"topics": "orders", "clusters": "prod"}


class PropertySequence(NamedTuple):
    """The states of one property: the values, and the good spec in which it is set."""

    plural: str
    path: Path
    base: Spec
    values: Sequence[Any]

    def __str__(self) -> str:
        return f"{self.plural} {'.'.join(self.path)}"


@dataclass
class Report:
    """The result of sequences: numbers of states by verdict, and alarms."""

    states: Counter[str] = field(default_factory=Counter)
    alarms: list[str] = field(default_factory=list)

    @property
    def accepted(self) -> int:
        """Return the number of states that the API server has accepted."""
        return self.states.total() - self.states[REFUSED_BY_SERVER]


def enumerate_sequences(plural: str) -> Iterator[PropertySequence]:
    """Yield one sequence for each property of a kind."""
    return (make_sequence(plural, path) for path in properties_of(plural))


def properties_of(plural: str) -> Mapping[Path, Schema]:
    """Return the schema of each property of a kind, by its path."""
    return dict(property_paths(spec_schema(plural)))


def make_sequence(plural: str, path: Path) -> PropertySequence:
    """Return the sequence of one property; to generate its values takes some 14 ms."""
    values = property_values(properties_of(plural)[path], path[-1])
    base = next((base for base in BASES[plural] if _accepts_any(plural, base, path, values)), BASES[plural][0])
    return PropertySequence(plural, path, base, values)


def _accepts_any(plural: str, base: Spec, path: Path, values: Sequence[Any]) -> bool:
    return any(not validate_spec(plural, set_property(base, path, value), None) for value in values)


def run_sequence(sequence: PropertySequence) -> Report:
    """Apply the states of a sequence one after the other and check each."""
    return run_world(lambda world: _apply_states(world, sequence), validate_spec)


async def _apply_states(world: World, sequence: PropertySequence) -> Report:
    report = Report()
    other = "clusters" if sequence.plural == "topics" else "topics"
    world.server.create("secrets", "kafka", None, data={"password": "c2VjcmV0"})
    world.server.create(other, NAMES[other], BASES[other][0])
    world.server.create(sequence.plural, NAMES[sequence.plural], sequence.base)
    await world.start_operator()
    await world.advance(STEP_S)
    for plural in NAMES:
        assert _ready(world, plural), f"{sequence}: {_summary(world, plural)}"
    removed = _without(sequence.base, sequence.path)
    states = [state for value in sequence.values for state in (value, None)]
    for value in [*states, *sequence.values, None]:
        spec = sequence.base if value is None else set_property(sequence.base, sequence.path, value)
        await _apply_state(world, sequence, spec, f"{sequence} = {value!r:.80}", report)
    await _apply_state(world, sequence, removed, f"{sequence} removed", report)
    await _apply_state(world, sequence, sequence.base, f"{sequence}: the good state", report)
    if _is_served(world):
        for plural in ("topics", "clusters"):
            if not _ready(world, plural) and _summary(world, plural)[1] not in IRREVERSIBLE:
                report.alarms.append(f"{sequence}: {plural} did not recover: {_summary(world, plural)}")
    report.alarms += [f"{sequence}: crash: {failure!r}" for failure in world.failures]
    return report


def _without(spec: Spec, path: Path) -> Spec:
    removed = set_property(spec, path, None)
    target = removed
    for name in path[:-1]:
        target = target[name]
    del target[path[-1]]
    return removed


async def _apply_state(world: World, sequence: PropertySequence, spec: Spec, label: str, report: Report) -> None:
    try:
        world.server.update(sequence.plural, NAMES[sequence.plural], spec)
    except ApiError as error:
        if error.code != INVALID:
            raise
        report.states[REFUSED_BY_SERVER] += 1
        return
    await world.advance(CONVERGE_S)
    before = len(world.interruptions.writes)
    world.request_full_pass()
    await world.advance(STEP_S)
    if late := world.interruptions.writes[before:]:
        report.alarms.append(f"{label}: a further pass writes {late}")
    verdict, alarms = judge_state(world)
    report.states[verdict] += 1
    report.alarms += [f"{label}: {alarm}" for alarm in alarms]


def judge_state(world: World) -> tuple[str, list[str]]:
    """Return the verdict on the present state, and the alarms."""
    cluster, topic = world.server.find("clusters", "prod"), world.server.find("topics", "orders")
    assert cluster is not None
    assert topic is not None
    if not _is_served(world):
        return "served by another operator", []
    alarms = [alarm for body in (cluster, topic) for alarm in _status_alarms(body)]
    if not _ready(world, "clusters") or not _ready(world, "topics"):
        return "refused with a reason", alarms
    name = topic["spec"].get("topicName", "orders")
    return "converged", [*alarms, *_difference(topic["spec"], world.kafka.states[ADDRESS].topics.get(name))]


def _status_alarms(body: Body) -> Iterator[str]:
    kind, status = body["kind"], body.get("status", {})
    conditions = {each["type"]: each for each in status.get("conditions", ())}
    if not conditions:
        yield f"{kind} has no conditions"
        return
    ready = conditions["Ready"]
    if ready["observedGeneration"] != body["metadata"]["generation"]:
        yield f"{kind}: the status is of generation {ready['observedGeneration']}"
    if ready["status"] != "True" and not (ready["reason"] and ready["message"]):
        yield f"{kind} is not ready without a reason: {ready}"
    working = {conditions[each]["status"] for each in ("Reconciling", "Stalled")}
    if ready["status"] != "True" and "True" not in working and ready["reason"] not in ("Paused", "DriftDetected"):
        yield f"{kind} is neither ready, reconciling nor stalled: {ready}"


def _difference(spec: Spec, topic: TopicState | None) -> Iterator[str]:
    """Yield the differences between a Topic that is ready and the topic in Kafka, by a comparison of its own."""
    if spec.get("mode") == "Observe":
        return
    if spec.get("ensure") == "Absent":
        if topic is not None:
            yield "ready, but the topic exists"
        return
    if topic is None:
        yield "ready, but there is no topic"
        return
    ignored = spec.get("ignore", ())
    size = (len(topic.replicas), len(topic.replicas[0]))
    for name, found in zip(("partitions", "replicationFactor"), size, strict=True):
        if name in spec and name not in ignored and spec[name] != found:
            yield f"ready, but {name} is {found}"
    for key, value in spec.get("config", {}).items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if (
            f"config.{key}" not in ignored
            and key not in spec.get("withoutConfig", ())
            and topic.config.get(key) != text
        ):
            yield f"ready, but {key} is {topic.config.get(key)}"


def _is_served(world: World) -> bool:
    """Return whether neither resource has a class, which is that of another operator."""
    found = [world.server.find(plural, name) for plural, name in NAMES.items()]
    return all(body is not None and "class" not in body["spec"] for body in found)


def _ready(world: World, plural: str) -> bool:
    return _summary(world, plural)[0] == "True"


def _summary(world: World, plural: str) -> tuple[str, str, str]:
    body = world.server.find(plural, NAMES[plural])
    for each in (body or {}).get("status", {}).get("conditions", ()):
        if each["type"] == "Ready":
            return each["status"], each["reason"], each["message"]
    return "", "", ""
