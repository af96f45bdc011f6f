"""Plans as JSON: the document, its bytes, and its schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from msgspec.structs import replace

import topiarist
from support.builders import CLUSTER_ID, RACKED_BROKERS, spec, spread_replicas, state, topic
from topiarist.adapters.saved_plans.encode import compute_fingerprint, dumps, encode_plans
from topiarist.errors import Reason
from topiarist.kafka.types import Broker
from topiarist.model.access import ZooKeeperAccess
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    Change,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    Issue,
    Load,
    Plan,
    Risk,
    RiskAssessment,
    RunOptions,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import OwnershipRecord, WriteBlock
from topiarist.planning.planner import make_plan

SCHEMA = json.loads((Path(topiarist.__file__).parent / "schemas" / "plan.json").read_text())
LOSS = RiskAssessment(Risk.DATA_LOSS, "messages older than 1 hour will be deleted")
MOVES = RiskAssessment(Risk.DISRUPTIVE, "keys map to other partitions")
GROW = AddPartitions(2, (1, 2, 3), ((3, 4, 5),), MOVES)
UPDATE = UpdateConfig((ConfigItem("retention.ms", "86400000", "3600000", LOSS, inherited=True),))
EVERY: tuple[Change, ...] = (
    CreateTopic(spread_replicas(2), {"retention.ms": "1", "cleanup.policy": "compact"}),
    GROW,
    UPDATE,
    DeleteTopic(2, 6, LOSS),
    TakeOwnership(),
)
REFUSAL = Issue(Reason.DATA_LOSS, "may lose data", ("config", "retention.ms"), "--allow-risk", EVERY)


def plan(*topics: TopicPlan) -> Plan:
    """Return a plan with these topics for six brokers."""
    return Plan("prod-eu", CLUSTER_ID, chroot="/kafka", brokers=RACKED_BROKERS, topics=topics, unchanged=812)


def full() -> Plan:
    """Return a plan that uses every part of the format."""
    everything = TopicPlan(
        topic="clicks",
        before=topic("clicks", 2, "retention.ms"),
        record_before=OwnershipRecord("default", ("retention.ms",)),
        record_after=OwnershipRecord("default", deleted=True),
        changes=EVERY,
        refusals=(REFUSAL,),
        notices=(Issue(Reason.UNMANAGED, "flush.ms 7: left alone"),),
        spec=spec("clicks"),
    )
    gate = WriteBlock(Reason.FROZEN, "moving racks")
    return replace(plan(everything, TopicPlan("new")), write_block=gate, orphans=("gone",), warnings=("no clusterId",))


IN_FULL = {
    "topic": "clicks",
    "identity": "77",
    "topicId": None,
    "observed": False,
    "risk": "DataLoss",
    "record": {
        "before": {"owner": "default", "config": ["retention.ms"], "absent": False},
        "beforeValid": True,
        "after": {"owner": "default", "config": ["flush.ms", "retention.ms"], "absent": False},
    },
    "retainedConfig": {"flush.ms": "7"},
    "changes": [
        {
            "kind": "AddPartitions",
            "risk": "Disruptive",
            "explanation": "keys map to other partitions",
            "before": {"partitions": 2, "firstReplicas": [1, 2, 3]},
            "after": {"partitions": 3, "newReplicas": [[3, 4, 5]]},
        },
        {
            "kind": "UpdateConfig",
            "risk": "DataLoss",
            "explanation": "messages older than 1 hour will be deleted",
            "config": [
                {
                    "key": "retention.ms",
                    "before": "86400000",
                    "after": "3600000",
                    "risk": "DataLoss",
                    "explanation": "messages older than 1 hour will be deleted",
                    "inherited": True,
                }
            ],
        },
    ],
    "refusals": [],
    "notices": [],
}
"""A topic with growth and a config change, as in the document."""


def test_a_topic_in_full() -> None:
    """A topic has its identity, its ownership record, and every change with before, after, risk and explanation."""
    found = TopicPlan(
        topic="clicks",
        before=topic("clicks", 2, "retention.ms", identity="77", config={"flush.ms": "7", "segment.ms": "8"}),
        record_before=OwnershipRecord("default", ("retention.ms",)),
        record_after=OwnershipRecord("default", ("flush.ms", "retention.ms")),
        changes=(GROW, UPDATE),
    )
    assert encode_plans([plan(found)])["clusters"] == [
        {
            "name": "prod-eu",
            "clusterId": CLUSTER_ID,
            "chroot": "/kafka",
            "mode": "ZooKeeper",
            "via": "ZooKeeper",
            "owner": "default",
            "brokers": [{"id": 3, "rack": "c"}, {"id": 4, "rack": "a"}, {"id": 5, "rack": "b"}],
            "configRules": {
                "kafkaVersion": None,
                "releaseAtLeast": "2.4",
                "allowUnknownConfigs": [],
                "brokerConfig": {},
            },
            "writeBlock": None,
            "topics": [IN_FULL],
            "unchanged": 812,
            "orphans": [],
            "warnings": [],
        }
    ]


def test_a_new_topic() -> None:
    """It has no identity, no record before, and its replica lists and configs."""
    create = CreateTopic(((1, 2), (2, 3)), {"flush.ms": "7"})
    made = TopicPlan("a", changes=(create,), record_after=OwnershipRecord("default"))
    (found,) = encode_plans([plan(made)])["clusters"][0]["topics"]
    assert (found["identity"], found["topicId"], found["risk"], found["retainedConfig"]) == (None, None, "Safe", {})
    assert found["record"] == {
        "before": None,
        "beforeValid": None,
        "after": {"owner": "default", "config": [], "absent": False},
    }
    after = {"replicas": [[1, 2], [2, 3]], "config": {"flush.ms": "7"}}
    wanted = {"kind": "CreateTopic", "risk": "Safe", "explanation": "", "before": None, "after": after}
    assert found["changes"] == [wanted]


def test_the_bytes_of_a_document() -> None:
    """The document is indented ASCII with short values on one line, and ends with a newline."""
    content = {"name": "ü", "lists": [[1, 2], [3]], "none": [], "long": [{"key": "x" * 50}, {"key": "y" * 60}]}
    assert dumps(content) == (
        "{\n"
        '  "name": "\\u00fc",\n'
        '  "lists": [[1, 2], [3]],\n'
        '  "none": [],\n'
        '  "long": [\n'
        f'    {{"key": "{"x" * 50}"}},\n'
        f'    {{"key": "{"y" * 60}"}}\n'
        "  ]\n"
        "}\n"
    )


def test_what_is_written_reads_back_as_the_same_document() -> None:
    """Any JSON reader returns the same document, including the fingerprint, from the written layout."""
    content = encode_plans([full(), plan()])
    assert json.loads(dumps(content)) == content
    assert compute_fingerprint(json.loads(dumps(content))) == content["fingerprint"]


def test_the_fingerprint_is_over_everything_else() -> None:
    """The fingerprint is the SHA-256 of the sorted, compact ASCII JSON without the fingerprint itself.

    Every other change of the document alters it.
    """
    content = encode_plans([plan()])
    rest = {key: value for key, value in content.items() if key != "fingerprint"}
    assert (
        content["fingerprint"] == sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    )
    assert encode_plans([full()])["fingerprint"] != content["fingerprint"]


@pytest.mark.parametrize(
    "other",
    [
        replace(plan(), controller=7, controller_epoch=99),
        replace(plan(), load={1: Load(3, 9)}),
        replace(plan(), brokers=(*RACKED_BROKERS, Broker(9, "z"))),
    ],
    ids=["controller", "load", "a broker that gets nothing"],
)
def test_what_is_no_part_of_the_meaning_changes_no_byte(other: Plan) -> None:
    """The controller, the load of the brokers and brokers without new replicas do not change the document."""
    assert dumps(encode_plans([other])) == dumps(encode_plans([plan()]))


def test_the_same_input_gives_the_same_bytes() -> None:
    """State and specs in another order give the same document."""
    eu = ClusterSpec(name="prod-eu", version=(3, 9), default_config={"min.insync.replicas": "2"})
    topics = [topic("a", 6), topic("b", 3, record=None, config={"flush.ms": "1"}), topic("c", 9)]
    specs = [spec("a", eu, partitions=9), spec("b", eu, config={"retention.ms": 1}), spec("c", eu), spec("d", eu)]
    first = make_plan(state(*topics), eu, specs, RunOptions())
    second = make_plan(state(*reversed(topics)), eu, list(reversed(specs)), RunOptions())
    assert dumps(encode_plans([first])) == dumps(encode_plans([second]))
    Draft7Validator(SCHEMA).validate(encode_plans([first]))


def test_the_schema_takes_every_kind_of_plan() -> None:
    """The schema accepts an empty document, a minimal plan, and a plan that uses every part of the format."""
    validator = Draft7Validator(SCHEMA)
    for plans in ([], [plan()], [full(), plan()]):
        assert list(validator.iter_errors(encode_plans(plans))) == []


CHANGED = ("clusters", 0, "topics", 0, "changes", 0)
SPOILED: dict[str, tuple[tuple[str | int, ...], object]] = {
    "version": (("formatVersion",), 2),
    "fingerprint": (("fingerprint",), "abc"),
    "extra field": (("clusters", 0, "time"), "now"),
    "identity": (("clusters", 0, "topics", 0, "identity"), 77),
    "risk": (("clusters", 0, "topics", 0, "risk"), "safe"),
    "kind": ((*CHANGED, "kind"), "MoveTopic"),
    "replica": ((*CHANGED, "after", "replicas", 0, 0), "1"),
    "config value": ((*CHANGED, "after", "config", "retention.ms"), 1),
    "reason": (("clusters", 0, "topics", 0, "refusals", 0, "reason"), "data loss"),
}


@pytest.mark.parametrize(("path", "value"), SPOILED.values(), ids=SPOILED)
def test_the_schema_refuses_what_is_not_a_plan(path: tuple[str | int, ...], value: object) -> None:
    """One invalid value makes a document invalid."""
    content = target = json.loads(dumps(encode_plans([full()])))
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    assert not Draft7Validator(SCHEMA).is_valid(content)


def _fields(schema: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every field that the schema describes, with its path."""
    if isinstance(schema, dict):
        for name, inner in schema.get("properties", {}).items():
            yield f"{where}/{name}", inner
        for name, inner in schema.items():
            yield from _fields(inner, f"{where}/{name}")
    elif isinstance(schema, list):
        for index, inner in enumerate(schema):
            yield from _fields(inner, f"{where}/{index}")


def test_every_field_of_the_schema_has_a_description() -> None:
    """Each field of the schema has a description, or refers to a definition with one."""
    Draft7Validator.check_schema(SCHEMA)
    fields = list(_fields(SCHEMA))
    assert len(fields) > 50
    for where, inner in fields:
        target = SCHEMA["definitions"][inner["$ref"].rsplit("/", 1)[1]] if "$ref" in inner else inner
        assert target.get("description"), where


def test_of_a_clusters_document_only_what_judges_configs_is_told() -> None:
    """A plan contains the releases, the allowed unknown keys and the broker settings that the config rules use. It
    contains no address, no secret and no other field of the ``Cluster`` document.
    """
    eu = ClusterSpec(
        name="prod-eu",
        zookeeper=ZooKeeperAccess("zk-secret:2181"),
        version=(3, 8),
        allow_unknown_configs=("confluent.*",),
        broker_config={"log.retention.ms": "-1", "ssl.key.password": "hush", "log.dirs": "/var/lib/kafka"},
    )
    text = dumps(encode_plans([make_plan(state(), eu, [spec("a", eu)], RunOptions())]))
    assert json.loads(text)["clusters"][0]["configRules"] == {
        "kafkaVersion": "3.8",
        "releaseAtLeast": "2.4",
        "allowUnknownConfigs": ["confluent.*"],
        "brokerConfig": {"log.retention.ms": "-1"},
    }
    assert not re.search("secret|hush|/var", text)


def test_safe_changes_have_no_reason() -> None:
    """A safe change has the risk ``Safe`` and an empty explanation."""
    update = UpdateConfig((ConfigItem("flush.ms", None, "7", SAFE_ASSESSMENT),))
    found = encode_plans([plan(TopicPlan("a", topic("a"), changes=(update,)))])["clusters"][0]["topics"][0]["changes"][
        0
    ]
    assert (found["risk"], found["explanation"], found["config"][0]["before"]) == ("Safe", "", None)
