"""Files of other tools as users have them: no name or value changes, and all that is not imported is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from support.cli.runs import RunResult, run_topiarist
from topiarist.errors import Exit


class Case(NamedTuple):
    """A file of another tool, and what ``topiarist import`` makes of it.

    ``topics`` are the specs by topic name, without ``topicName``; ``named`` is text of standard error, ``silent`` text
    that no output has.
    """

    tool: str
    text: str
    topics: dict[str, Any]
    named: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    code: Exit = Exit.DONE


NAMES = ("1.10", "007", "0x1F", "on", "12_000", "1e3", "Null")
SIZES = "{partitions: 1, replication: 1}"
STRIMZI = "apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\nmetadata: {name: orders}\n"
JIKKOU = "apiVersion: kafka.jikkou.io/v1\nkind: KafkaTopic\n"
TEMPLATE = "this looks like a template"
RENDER = "render it first"


def _strimzi(metadata: str = "name: orders", spec: str = "partitions: 3, replicas: 3") -> str:
    return f"apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\nmetadata: {{{metadata}}}\nspec: {{{spec}}}\n"


def _config(text: str) -> str:
    return f"{STRIMZI}spec:\n  config:\n    {text}\n"


def _state(*resources: dict[str, Any], **above: Any) -> str:
    values = {"format_version": "1.0", "values": {"root_module": {"resources": resources}}}
    return json.dumps({**values, **above})


def _channel(kafka: str, version: str = "2.6.0") -> str:
    return f"asyncapi: {version}\nchannels:\n  orders:\n    bindings:\n      kafka: {{{kafka}}}\n"


def _resource(kind: str, **values: Any) -> str:
    return _state({"mode": "managed", "type": kind, "values": values})


CFK = "apiVersion: platform.confluent.io/v1beta1\nkind: KafkaTopic\n"
KOPERATOR = "apiVersion: kafka.banzaicloud.io/v1alpha1\nkind: KafkaTopic\n"
RAW_TOPIC = {"mode": "managed", "type": "kafka_topic", "name": "orders", "instances": [{"attributes": {}}]}
KAFKA_TOPIC = {"mode": "managed", "type": "kafka_topic", "values": {"name": "orders", "partitions": 3}}
SERVER_SET = """\
  metadata:
    creationTimestamp: "2026-01-01T00:00:00Z"
    generation: 2
    resourceVersion: "4711"
    uid: 00000000-0000-0000-0000-000000000001
    managedFields: [{manager: kubectl}]
    selfLink: /apis
    finalizers: [strimzi.io/topic-operator]
    annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"spec":{}}', note: ours}
    labels: {strimzi.io/cluster: east, team: shop}
    name: orders
    namespace: shop
  spec: {partitions: 3, replicas: 3, config: {cleanup.policy: compact}}
  status: {observedGeneration: 2, topicName: orders}
"""
LISTED = {
    "orders": {"clusters": ["east"], "partitions": 3, "replicationFactor": 3, "config": {"cleanup.policy": "compact"}}
}
IN_LIST = ("passed over", "status", "imported 1 topic\n")

CASES = {
    "numbers and words as names of kafka-gitops": Case(
        "kafka-gitops",
        "topics:\n" + "".join(f"  {name}: {SIZES}\n" for name in NAMES),
        {name: {"partitions": 1, "replicationFactor": 1} for name in NAMES},
    ),
    "a name that Kafka refuses": Case(
        "kafka-gitops",
        f"topics:\n  a: {SIZES}\n  ~: {SIZES}\n",
        {"a": {"partitions": 1, "replicationFactor": 1}},
        ("file.yaml:3: topics.~", "topic ~: "),
    ),
    "numbers as names of resources": Case(
        "jikkou",
        JIKKOU + "metadata: {name: 1.10}\nspec: {partitions: 010, replicas: 1_0}\n",
        {"1.10": {}},
        ("spec.partitions 010: found no positive number", "spec.replicas 1_0: found no positive number"),
    ),
    "words in the name of JulieOps": Case(
        "julie",
        "context: on\nteam: 0x1F\nprojects:\n- name: 1.10\n  topics: [{name: 007, dataType: no}]\n",
        {"on.0x1F.1.10.007.no": {}},
    ),
    "numbers as names of topicctl": Case(
        "topicctl",
        "meta: {name: 1.10, cluster: 007}\nspec: {partitions: 1}\n",
        {"1.10": {"clusters": ["007"], "partitions": 1}},
    ),
    "values keep their text": Case(
        "kafka-gitops",
        "topics:\n  a: {partitions: 1, configs: {retention.ms: 0777, vendor.key: 2.10, vendor.word: on,"
        " min.cleanable.dirty.ratio: 0.50, preallocate: True, vendor.date: 2024-01-01}}\n",
        {
            "a": {
                "partitions": 1,
                "config": {
                    "min.cleanable.dirty.ratio": 0.5,
                    "preallocate": "True",
                    "retention.ms": "0777",
                    "vendor.date": "2024-01-01",
                    "vendor.key": "2.10",
                    "vendor.word": "on",
                },
            }
        },
    ),
    "values that Kafka refuses are named": Case(
        "kafka-gitops",
        "topics:\n  a: {partitions: 1, configs: {message.format.version: 2.10, preallocate: on, retention.ms: 0x1F}}\n",
        {"a": {"partitions": 1}},
        (
            "topics.a.configs.message.format.version 2.10: found",
            "topics.a.configs.preallocate on: found",
            "topics.a.configs.retention.ms 0x1F: found",
        ),
    ),
    "counts that are none": Case(
        "kafka-gitops",
        "topics:\n  a: {partitions: 3.7, replication: true}\n  b: {partitions: '', replication: -2}\n",
        {"a": {}, "b": {}},
        (
            "topics.a.partitions 3.7: found no positive number",
            "topics.a.replication true: found no positive number",
            "topics.b.partitions: found no positive number",
            "topics.b.replication -2: found no positive number",
        ),
    ),
    "counts of JulieOps that are none": Case(
        "julie",
        "context: a\nprojects:\n- name: b\n"
        "  topics: [{name: c, config: {num.partitions: '0', replication.factor: '\uff13'}}]\n",
        {"a.b.c": {}},
        (
            "config.num.partitions 0: found no positive number",
            "config.replication.factor \uff13: found no positive number",
        ),
    ),
    "whole floats of a rendered chart": Case(
        "strimzi",
        STRIMZI + "spec:\n  partitions: 1.2e+01\n  replicas: 3.0\n  config:\n    retention.ms: 6.048e+08\n"
        "    segment.bytes: 1.073741824e+09\n    min.insync.replicas: 2.0\n    flush.ms: 9.2e+17\n"
        "    vendor.key: 1.0\n",
        {
            "orders": {
                "partitions": 12,
                "replicationFactor": 3,
                "config": {
                    "flush.ms": 920_000_000_000_000_000,
                    "min.insync.replicas": 2,
                    "retention.ms": 604_800_000,
                    "segment.bytes": 1_073_741_824,
                    "vendor.key": "1.0",
                },
            }
        },
    ),
    "floats that are no whole numbers": Case(
        "strimzi",
        _config("{retention.ms: 6.5e-01, segment.bytes: 1e999999999, flush.ms: 9.223372036854776e+18}"),
        {"orders": {}},
        ("config.retention.ms 6.5e-01: found", "config.segment.bytes 1e999999999: found", "config.flush.ms 9.2"),
    ),
    "lists of replicas": Case(
        "topicctl",
        "meta: {name: a}\nspec: {placement: {strategy: static, staticAssignments: [[1, 2], [2, 0]]}}\n---\n"
        "meta: {name: b}\nspec: {placement: {strategy: static, staticAssignments: [[1, x]]}}\n",
        {"a": {"replicaAssignment": [[1, 2], [2, 0]]}, "b": {}},
        ("staticAssignments (1 value): found no lists of broker ids",),
    ),
    "a topic twice": Case(
        "kafka-gitops",
        f"topics:\n  orders: {SIZES}\n  orders: {{partitions: 6}}\n",
        {},
        ("file.yaml:3:3: error: found the field orders twice", "the first is on line 2"),
        code=Exit.ERROR,
    ),
    "a setting twice, beside a sound document": Case(
        "strimzi",
        _config("retention.ms: 1\n    retention.ms: 2") + "---\n" + _strimzi("name: clicks"),
        {"clicks": {"partitions": 3, "replicationFactor": 3}},
        ("file.yaml:7:5: error: found the field retention.ms twice",),
        code=Exit.ERROR,
    ),
    "a plan twice": Case(
        "julie",
        "plans: {p: {config: {retention.ms: 1}}}\n---\nplans: {p: {config: {retention.ms: 2}}}\n---\n"
        "context: a\nprojects: [{name: b, topics: [{name: c, plan: p}]}]\n",
        {"a.b.c": {"config": {"retention.ms": 1}}},
        ("file.yaml:3: plans.p: declared twice",),
    ),
    "a ConfigMap twice": Case(
        "jikkou",
        "kind: ConfigMap\nmetadata: {name: m}\ndata: {retention.ms: 1}\n---\n"
        "kind: ConfigMap\nmetadata: {name: m}\ndata: {retention.ms: 2}\n---\n"
        + JIKKOU
        + "metadata: {name: a}\nspec: {configMapRefs: [m]}\n",
        {"a": {"config": {"retention.ms": 1}}},
        ("ConfigMap m is declared twice",),
    ),
    "a default twice": Case(
        "kafka-gitops",
        "settings: {topics: {defaults: {replication: 3}}}\n---\nsettings: {topics: {defaults: {replication: 2}}}\n"
        "topics: {a: {partitions: 1}}\n",
        {"a": {"partitions": 1, "replicationFactor": 3}},
        ("settings.topics.defaults.replication 2: another file has 3",),
    ),
    "one topic in two documents": Case(
        "strimzi",
        _strimzi() + "---\n" + _strimzi(spec="partitions: 6"),
        {"orders": {"partitions": 3, "replicationFactor": 3}},
        ("file.yaml:6: the document: topic orders is declared twice, first in file.yaml:1",),
    ),
    "a resource without a name": Case(
        "strimzi",
        f"{_strimzi(metadata='name: ~')}---\n{_strimzi()}---\n{_strimzi().replace('{name: orders}', '')}",
        {"orders": {"partitions": 3, "replicationFactor": 3}},
        ("file.yaml:1: the document: found no name", "file.yaml:11: the document: found no name"),
    ),
    "no resource at all": Case(
        "strimzi",
        f"hello\n---\napiVersion: v1\nkind: List\nitems: [5]\n---\n{_strimzi()}",
        {"orders": {"partitions": 3, "replicationFactor": 3}},
        ("file.yaml:1: hello: found no mapping here", "file.yaml:5: items.0 5: found no mapping here"),
        ("is no topic",),
    ),
    "documents of other formats": Case(
        "strimzi",
        "meta: {name: a}\nspec: {partitions: 1}\n---\n{context: c, projects: []}\n---\ntopics: {a: {partitions: 1}}\n"
        f"---\nasyncapi: 3.0.0\n---\n{_strimzi()}",
        {"orders": {"partitions": 3, "replicationFactor": 3}},
        tuple(f"a document of {it}: import it as {it}" for it in ("topicctl", "julie", "kafka-gitops", "asyncapi")),
        ("of no name",),
    ),
    "ACLs and users of topicctl": Case(
        "topicctl",
        "meta: {name: acl, cluster: c}\nspec: {acls: [{resource: {type: topic}}]}\n---\n"
        "meta: {name: user}\nspec: {name: user, mechanism: scram-sha-256, password: hunter2, iterations: 4096}\n---\n"
        "meta: {name: a}\nspec: {partitions: 6, saslPassword: hunter3, x: {apiKey: hunter4}}\n",
        {"a": {"partitions": 6}},
        (
            "file.yaml:1: the document: ACLs of topicctl, which are not imported",
            "file.yaml:4: the document: a user of topicctl, which is not imported",
            "spec.saslPassword: topiarist has no counterpart",
        ),
        ("hunter",),
    ),
    "resources where the format has none": Case(
        "topicctl",
        "apiVersion: v1\nkind: topic\nmetadata: {name: a}\n---\n"
        "{apiVersion: v1, kind: List, items: [{apiVersion: kafka.strimzi.io/v1, kind: KafkaTopic}]}\n---\n"
        "meta: {name: a}\nspec: {partitions: 6}\n",
        {"a": {"partitions": 6}},
        ("a topic of v1, which is not imported", "a KafkaTopic of kafka.strimzi.io: import it as strimzi"),
        ("found no name",),
    ),
    "anchors and merge keys": Case(
        "topicctl",
        "x-sizes: &sizes {partitions: 3, replicationFactor: 2}\nmeta: {name: a}\nspec: {<<: *sizes, partitions: 6}\n",
        {"a": {"partitions": 6, "replicationFactor": 2}},
        ("x-sizes (2 values)",),
    ),
    "the list of kubectl": Case(
        "strimzi",
        "apiVersion: v1\nitems:\n- apiVersion: kafka.strimzi.io/v1\n  kind: KafkaTopic\n"
        + SERVER_SET
        + 'kind: List\nmetadata: {resourceVersion: ""}\n',
        LISTED,
        IN_LIST,
        ("left out", '{"spec'),
    ),
    "the list of the API server": Case(
        "strimzi",
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopicList\n"
        "metadata: {resourceVersion: '1', continue: ''}\nitems:\n-" + SERVER_SET[1:],
        LISTED,
        IN_LIST,
        ("left out", '{"spec'),
    ),
    "a list of resources without an envelope": Case(
        "strimzi",
        "- apiVersion: kafka.strimzi.io/v1\n  kind: KafkaTopic\n" + SERVER_SET,
        LISTED,
        IN_LIST,
        ("left out",),
    ),
    "a list with other resources": Case(
        "strimzi",
        "kind: List\napiVersion: v1\nitems:\n"
        "- {apiVersion: kafka.strimzi.io/v1, kind: KafkaUser, metadata: {name: a}}\n"
        "- {apiVersion: kafka.strimzi.io/v1, kind: KafkaTopic, metadata: {name: b}}\n",
        {"b": {}},
        ("file.yaml:4: items.0: kind KafkaUser is no topic",),
    ),
    "a resource that is being deleted": Case(
        "strimzi",
        _strimzi("name: old, deletionTimestamp: 2026-01-01T00:00:00Z") + "---\n" + _strimzi(),
        {"orders": {"partitions": 3, "replicationFactor": 3}},
        ("metadata.deletionTimestamp 2026-01-01T00:00:00Z: the resource is being deleted",),
    ),
    "marks of Strimzi": Case(
        "strimzi",
        _strimzi('name: a, annotations: {strimzi.io/pause-reconciliation: "True", strimzi.io/other: x, note: y}')
        + "---\n"
        + _strimzi('name: b, annotations: {strimzi.io/managed: "False"}'),
        {name: {"partitions": 3, "replicationFactor": 3, "mode": "Observe"} for name in "ab"},
        ("metadata.annotations.strimzi.io/other x: a mark of another tool",),
    ),
    "ignored by Jikkou": Case(
        "jikkou",
        JIKKOU
        + "metadata: {name: a, annotations: {jikkou.io/ignore: true}}\nspec: {partitions: 2, replicas: 2}\n---\n"
        + JIKKOU
        + "metadata: {name: b, annotations: {jikkou.io/ignore: 'false', jikkou.io/delete: True}}\n---\n"
        + JIKKOU
        + "metadata: {name: c, annotations: {jikkou.io/ignore: yes, jikkou.io/delete: true}}\n",
        {
            "a": {"partitions": 2, "replicationFactor": 2, "mode": "Observe"},
            "b": {"ensure": "Absent"},
            "c": {"mode": "Observe"},
        },
        ("jikkou.io/delete true: Jikkou ignores the topic",),
        ("jikkou.io/ignore",),
    ),
    "marks of Jikkou": Case(
        "jikkou",
        JIKKOU + "metadata:\n  name: a\n  labels: {kafka.jikkou.io/topic-id: x, team: shop}\n"
        "  annotations: {jikkou.io/replace: true, jikkou.io/managed-by-location: file, jikkou.io/delete: maybe}\n"
        "status: {partitions: []}\n",
        {"a": {}},
        (
            "annotations.jikkou.io/replace true: a mark of another tool",
            "annotations.jikkou.io/delete maybe: found neither true nor false",
            "passed over 3 fields",
        ),
    ),
    "marks of appliers": Case(
        "strimzi",
        _strimzi(
            "name: orders, labels: {argocd.argoproj.io/instance: a, app: b}, "
            "annotations: {meta.helm.sh/release-name: a, argocd.argoproj.io/tracking-id: b}"
        ),
        {"orders": {"partitions": 3, "replicationFactor": 3}},
        ("passed over 3 fields",),
        ("left out", "meta.helm.sh/release-name: a"),
    ),
    "special topics of JulieOps": Case(
        "julie",
        "special_topics:\n- name: _schemas\n"
        "  config: {num.partitions: '1', replication.factor: '3', cleanup.policy: compact}\n"
        "- {name: legacy.feed, dataType: avro, plan: p}\nsource: web\ncontext: shop\n"
        "projects: [{name: orders, topics: [{name: created}]}]\nteam: red\n"
        "---\nplans: {p: {config: {retention.ms: 1}}}\n",
        {
            "_schemas": {"partitions": 1, "replicationFactor": 3, "config": {"cleanup.policy": "compact"}},
            "legacy.feed": {"config": {"retention.ms": 1}},
            "shop.web.red.orders.created": {},
        },
        ("special_topics.1.dataType avro: the name of a special topic is without it",),
    ),
    "topics of other providers": Case(
        "terraform",
        _state(
            KAFKA_TOPIC,
            *({"mode": "managed", "type": f"{kind}_topic", "values": {}} for kind in ("redpanda", "aiven_kafka")),
            {"mode": "managed", "type": "aws_sns_topic", "values": {}},
            {"mode": "data", "type": "kafka_topic", "values": {"name": "read"}},
        ),
        {"orders": {"partitions": 3}},
        (
            "redpanda_topic (1): a topic of another provider, which is not imported",
            "aiven_kafka_topic (1): a topic of another provider, which is not imported",
            "aws_sns_topic (1): is no topic",
            "data.kafka_topic (1): a data source, which Terraform only reads",
        ),
    ),
    "texts in the configs of MSK keep their digits": Case(
        "terraform",
        _resource(
            "aws_msk_topic",
            name="1.10",
            cluster_arn="arn:aws-cn:kafka:cn-north-1:1:cluster/Shop/a-3",
            partition_count=3,
            replication_factor=2,
            configs='{"vendor.key": 1.10, "vendor.word": "on", "preallocate": false, "retention.ms": "x"}',
        ),
        {
            "1.10": {
                "clusters": ["shop"],
                "partitions": 3,
                "replicationFactor": 2,
                "config": {"preallocate": False, "vendor.key": "1.10", "vendor.word": "on"},
            }
        },
        ("values.configs.retention.ms x: found",),
    ),
    "configs of MSK that are no JSON": Case(
        "terraform",
        _resource("aws_msk_topic", name="a", partition_count=3, replication_factor=2, configs="cmV0ZW50aW9uLm1zPTE="),
        {"a": {"partitions": 3, "replicationFactor": 2}},
        ("values.configs cmV0ZW50aW9uLm1zPTE=: found no mapping of JSON here: Expecting value",),
    ),
    "a topic of Confluent Cloud without optional attributes": Case(
        "terraform",
        _resource(
            "confluent_kafka_topic",
            topic_name="a",
            partitions_count=6,
            config=None,
            credentials=[],
            rest_endpoint=None,
            kafka_cluster=[{"id": "lkc-abc123"}],
        ),
        {"a": {"clusters": ["lkc-abc123"], "partitions": 6}},
        silent=("left out",),
    ),
    "a tainted topic": Case(
        "terraform",
        _state({**KAFKA_TOPIC, "tainted": True}),
        {"orders": {"partitions": 3}},
        ("tainted true: Terraform would recreate the topic",),
    ),
    "a raw state": Case(
        "terraform",
        json.dumps({"version": 4, "terraform_version": "1.6.0", "resources": [RAW_TOPIC]}),
        {},
        ("a raw state file: give the output of terraform show -json", "error: found no topic to import"),
        code=Exit.ERROR,
    ),
    "an empty state": Case(
        "terraform", '{"format_version": "1.0"}', {}, ("an empty state", "found no topic to import"), code=Exit.ERROR
    ),
    "a configuration of Terraform as JSON": Case(
        "terraform", '{"resource": {"kafka_topic": {}}}', {}, ("a configuration: give the output",), code=Exit.ERROR
    ),
    "a configuration of Terraform": Case(
        "terraform",
        'resource "kafka_topic" "a" {\n  name = "a"\n}\n',
        {},
        ("found no state: give the output of terraform show -json",),
        code=Exit.ERROR,
    ),
    "a topic of Confluent for Kubernetes, strictly": Case(
        "cfk",
        CFK + "metadata: {name: a}\nspec: {name: 1.10, partitionCount: on, replicas: 03, configs: {vendor.key: 1.10,"
        " preallocate: yes}, kafkaClusterRef: {name: east}}\n---\n"
        + CFK
        + "metadata: {name: b}\nspec: {partitionCount: 1, partitionCount: 2}\n",
        {"1.10": {"clusters": ["east"], "config": {"vendor.key": "1.10"}}},
        (
            "file.yaml:4: spec.partitionCount on: found no positive number",
            "file.yaml:4: spec.replicas 03: found no positive number",
            "file.yaml:4: spec.configs.preallocate yes: found",
            "file.yaml:9:27: error: found the field partitionCount twice",
        ),
        code=Exit.ERROR,
    ),
    "a topic of Koperator that its operator leaves alone": Case(
        "koperator",
        KOPERATOR
        + "metadata: {name: a, annotations: {managedBy: KOPERATOR}}\nspec: {name: a, partitions: 1}\n---\n"
        + KOPERATOR
        + "metadata: {name: b, annotations: {managedBy: ''}}\nspec: {name: b, partitions: 1}\n",
        {"a": {"partitions": 1}, "b": {"partitions": 1, "mode": "Observe"}},
        silent=("left out",),
    ),
    "a topic of Koperator given as one of Confluent": Case(
        "cfk",
        KOPERATOR + "metadata: {name: a}\n",
        {},
        ("a KafkaTopic of kafka.banzaicloud.io: import it as koperator",),
        code=Exit.ERROR,
    ),
    "a channel of AsyncAPI, strictly": Case(
        "asyncapi",
        _channel("topic: 1.10, partitions: 1_0, replicas: 2, topicConfiguration: {vendor.key: 1.10, preallocate: on}"),
        {"1.10": {"replicationFactor": 2, "config": {"vendor.key": "1.10"}}},
        (
            "file.yaml:5: channels.orders.bindings.kafka.partitions 1_0: found no positive number",
            "file.yaml:5: channels.orders.bindings.kafka.topicConfiguration.preallocate on: found",
        ),
    ),
    "templates in AsyncAPI": Case(
        "asyncapi",
        _channel("topic: '${env}-orders'") + "  b:\n    bindings: {kafka: {partitions: '{{ n }}'}}\n"
        "  c:\n    description: as {{ x }}\n    bindings: {kafka: {partitions: 1}}\n",
        {"c": {"partitions": 1}},
        (
            f"file.yaml:5: channels.orders.bindings.kafka.topic ${{env}}-orders: {TEMPLATE}",
            f"file.yaml:7: channels.b.bindings.kafka.partitions {{{{ n }}}}: {TEMPLATE}",
        ),
    ),
    "a channel on servers that are not there": Case(
        "asyncapi",
        "asyncapi: 3.1.0\nservers: {a: {protocol: kafka}}\nchannels:\n  b:\n    address: b\n"
        "    servers: [{$ref: '#/servers/a'}, {$ref: '#/servers/z', note: 1}]\n    bindings: {kafka: {}, amqp: {}}\n",
        {"b": {"clusters": ["a"]}},
        (
            "file.yaml:6: channels.b.servers (2 values): there is no server z in this document",
            "file.yaml:6: channels.b.servers.1.note 1: $ref replaces it",
            "file.yaml:7: channels.b.bindings.amqp (0 values): topiarist has no counterpart",
        ),
    ),
    "a server with a name that no Cluster has": Case(
        "asyncapi",
        "servers: {Prod_1: {protocol: kafka}}\n" + _channel("partitions: 1"),
        {},
        ('topic orders: spec.clusters[0]: found "Prod_1", wanted', ": give --cluster Prod_1=NAME"),
        code=Exit.ERROR,
    ),
    "another version of AsyncAPI": Case(
        "asyncapi",
        "asyncapi: 1.2.0\ntopics: {a: {}}\n---\nopenapi: 3.1.0\n---\n- text\n",
        {},
        ("file.yaml:1: the document: found no document of AsyncAPI 2 or 3", "file.yaml:4: the document: found no"),
        code=Exit.ERROR,
    ),
    "a topic of Jikkou given as one of Strimzi": Case(
        "strimzi",
        JIKKOU + "metadata: {name: a}\n",
        {},
        ("a KafkaTopic of kafka.jikkou.io: import it as jikkou", "found no topic to import"),
        code=Exit.ERROR,
    ),
    "a topic of Strimzi given as one of another tool": Case(
        "kafka-gitops", STRIMZI, {}, ("a KafkaTopic of kafka.strimzi.io: import it as strimzi",), code=Exit.ERROR
    ),
    "a topic of an operator that is not imported": Case(
        "strimzi",
        "apiVersion: eventstreams.ibm.com/v1beta2\nkind: KafkaTopic\nmetadata: {name: a}\n---\n"
        "apiVersion: topiarist.dev/v1\nkind: Topic\nmetadata: {name: b}\n",
        {},
        (
            "a KafkaTopic of eventstreams.ibm.com, which is not imported",
            "a Topic of topiarist.dev, which needs no import",
        ),
        code=Exit.ERROR,
    ),
    "a template of OpenShift": Case(
        "strimzi",
        "apiVersion: template.openshift.io/v1\nkind: Template\nobjects: []\n",
        {},
        (TEMPLATE, RENDER),
        code=Exit.ERROR,
    ),
    "nothing": Case("strimzi", "---\n", {}, ("error: found no topic to import",), code=Exit.ERROR),
    "a null where a server writes a time": Case(
        "strimzi",
        _strimzi("name: orders, deletionTimestamp: ~, creationTimestamp: null, labels: null"),
        {"orders": {"partitions": 3, "replicationFactor": 3}},
        silent=("left out",),
    ),
    "topicctl without replica lists": Case(
        "topicctl",
        "meta: {name: a}\nspec: {partitions: 4, replicationFactor: 2, placement: {strategy: static,"
        " staticAssignments: []}}\n",
        {"a": {"partitions": 4, "replicationFactor": 2}},
    ),
    "minutes that are too many milliseconds": Case(
        "topicctl",
        "meta: {name: a}\nspec: {partitions: 4, retentionMinutes: 999999999999999999}\n",
        {"a": {"partitions": 4}},
        ("spec.retentionMinutes 999999999999999999: in milliseconds: found 59999999999999999940000, wanted",),
    ),
    "labels that a manifest cannot have": Case(
        "topicctl",
        f"meta: {{name: a, labels: {{note: free text, long: {'x' * 64}, team: shop}}}}\nspec: {{partitions: 4}}\n",
        {"a": {"partitions": 4}},
        ('meta.labels.note free text: found "free text", wanted letters', "meta.labels.long x"),
        ("the document",),
    ),
    "an emoji of JSON": Case(
        "asyncapi",
        json.dumps(
            {"asyncapi": "2.6.0", "channels": {"a": {"description": "\U0001f680 \\ud83d", "bindings": {"kafka": {}}}}}
        ),
        {"a": {}},
        silent=("left out",),
    ),
    "half an emoji of JSON": Case(
        "asyncapi",
        '{"asyncapi": "2.6.0", "channels": {"a": {"description": "\\ud83d", "bindings": {"kafka": {}}}}}',
        {},
        ("found an escape sequence that is not a character",),
        code=Exit.ERROR,
    ),
    "Handlebars": Case(
        "strimzi",
        STRIMZI.replace("orders", "{{ name }}") + "spec: {topicName: {{ topic }}}\n",
        {},
        (f"file.yaml:3:19: error: found {{{{: {TEMPLATE}", RENDER),
        code=Exit.ERROR,
    ),
    "Jinja": Case(
        "jikkou",
        "apiVersion: kafka.jikkou.io/v1\nkind: KafkaTopicList\nitems:\n"
        '{% for t in topics %}\n- metadata: {name: "{{ t }}"}\n'
        "{% endfor %}\n",
        {},
        (f"file.yaml:4:1: error: found {{%: {TEMPLATE}", RENDER, "1 error"),
        code=Exit.ERROR,
    ),
    "variables": Case(
        "strimzi",
        _strimzi('name: orders, labels: {strimzi.io/cluster: "${name}"}')
        + "---\n"
        + _strimzi("name: clicks", 'partitions: 3, replicas: 3, topicName: "{{ prefix }}clicks"'),
        {},
        (
            f"file.yaml:3: metadata.labels.strimzi.io/cluster ${{name}}: {TEMPLATE} (${{): {RENDER}",
            f"file.yaml:9: spec.topicName {{{{ prefix }}}}clicks: {TEMPLATE} ({{{{): {RENDER}",
        ),
        ("DNS name",),
        code=Exit.ERROR,
    ),
    "a variable in a value": Case(
        "kafka-gitops",
        "topics:\n  a: {partitions: 1, configs: {retention.ms: $RETENTION}}\n"
        "  ${env}-b: {partitions: 1}\n  c: {partitions: 1}\n",
        {"c": {"partitions": 1}},
        (f"topics.a.configs.retention.ms $RETENTION: {TEMPLATE}", f"topics.${{env}}-b: topic ${{env}}-b: {TEMPLATE}"),
    ),
    "braces in a note are no template": Case(
        "strimzi",
        _strimzi('name: orders, annotations: {note: "as {{ x }} and ${y}"}') + "# {{ z }}\n",
        {"orders": {"partitions": 3, "replicationFactor": 3}},
        silent=(TEMPLATE,),
    ),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in an empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_file_of_another_tool(case: Case, tmp_path: Path) -> None:
    """Topics have the text of the file; each field that is not imported is named with its place and the reason."""
    (tmp_path / "file.yaml").write_text(case.text)
    found = run_topiarist("import", case.tool, "file.yaml")
    assert _specs(found) == case.topics, found.err
    for text in case.named:
        assert text in found.err
    assert not [text for text in case.silent if text in found.out + found.err]
    assert found.code == case.code, found.err


def _specs(found: RunResult) -> dict[str, Any]:
    specs = {}
    for document in yaml.safe_load_all(found.out):
        spec = document.get("spec", {})
        specs[str(spec.pop("topicName", document["metadata"]["name"]))] = spec
    return specs


def test_one_file_of_a_folder_does_not_stop_the_others(tmp_path: Path) -> None:
    """Files that cannot be read are errors with their place, and the run ends with 1; the other files are imported."""
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics" / "a.yaml").write_text("{{- range .Values.topics }}\n" + STRIMZI)
    (tmp_path / "topics" / "b.yaml").write_text(_strimzi())
    (tmp_path / "topics" / "c.yaml").write_text("a: [1,\n")
    found = run_topiarist("import", "strimzi", "topics", "--out", "made")
    assert found.code == Exit.ERROR
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["orders.yaml"]
    assert f"topics/a.yaml:1:1: error: found {{{{: {TEMPLATE}" in found.err
    assert "topics/c.yaml:2:1: error: " in found.err
    assert "imported 1 topic into made" in found.err


def test_a_folder_of_json_is_no_silence(tmp_path: Path) -> None:
    """Folders stand for YAML: a folder without any is named, and a JSON file is imported by its own path."""
    (tmp_path / "states").mkdir()
    (tmp_path / "states" / "prod.json").write_text(_state(KAFKA_TOPIC))
    found = run_topiarist("import", "terraform", "states")
    assert found.code == Exit.ERROR
    assert "states: warning: found no *.yaml and no *.yml in this folder\n" in found.err
    assert "files with another suffix need their own path\n" in found.err
    assert _specs(run_topiarist("import", "terraform", "states/prod.json")) == {"orders": {"partitions": 3}}


def test_topics_of_two_clusters_never_share_a_file(tmp_path: Path) -> None:
    """Names of documents join cluster and topic; where two would be equal, one has a suffix."""
    topics = [("", "a.b"), ("a", "b"), ("a", "b.c"), ("a.b", "c"), ("a", "B_c")]
    (tmp_path / "file.yaml").write_text(
        "---\n".join(
            f"meta: {{name: {name}, cluster: '{cluster}'}}\nspec: {{partitions: 1, replicationFactor: 1}}\n"
            for cluster, name in topics
        )
    )
    found = run_topiarist("import", "topicctl", "file.yaml", "--out", "made")
    assert "imported 5 topics into made" in found.err
    documents = [yaml.safe_load(path.read_text()) for path in (tmp_path / "made").iterdir()]
    made = [
        ("".join(each["spec"].get("clusters", "")), each["spec"].get("topicName", each["metadata"]["name"]))
        for each in documents
    ]
    assert sorted(made) == sorted(topics)
    assert run_topiarist("validate", "made").code == Exit.DONE


def test_a_cluster_that_no_topic_names_is_said(tmp_path: Path) -> None:
    """``--cluster`` with a typing error has no effect on any topic, and a line says so."""
    (tmp_path / "file.yaml").write_text(f"meta: {{name: a, cluster: east}}\nspec: {SIZES}\n")
    options = ("--cluster", "eats=prod", "--cluster", "test")
    found = run_topiarist("import", "topicctl", "file.yaml", *options)
    assert "--cluster eats=prod has no effect: no topic names cluster eats\n" in found.err
    assert "--cluster test has no effect: each topic names a cluster; give FOUND=NAME for it\n" in found.err
    assert _specs(found)["a"]["clusters"] == ["east"]
    assert "no effect" not in run_topiarist("import", "topicctl", "file.yaml", "--cluster", "east=prod").err
    for option in ("A_B", "east=A_B"):
        refused = run_topiarist("import", "topicctl", "file.yaml", "--cluster", option)
        assert (refused.code, refused.out) == (Exit.USAGE, "")
        assert "'--cluster': found \"A_B\", wanted a DNS name" in refused.err


def test_what_a_server_sets_is_not_left_out(tmp_path: Path) -> None:
    """With ``--exit-code`` the output of kubectl ends with 0: nothing that a user wrote is missing."""
    (tmp_path / "file.yaml").write_text(CASES["the list of kubectl"].text)
    assert run_topiarist("import", "strimzi", "file.yaml", "--exit-code").code == Exit.DONE


CLUSTERS = "".join(
    f"apiVersion: topiarist.dev/v1\nkind: Cluster\nmetadata: {{name: {name}}}\nspec: {{}}\n---\n"
    for name in ("prod", "test")
)
ORDERS = (
    "apiVersion: topiarist.dev/v1\nkind: Topic\nmetadata: {name: orders}\n"
    "spec: {clusters: [prod], partitions: 3, replicationFactor: 3, config: {retention.ms: 1h}}\n"
)
SAME = "partitions: 3, topicConfiguration: {retention.ms: 3600000}"


@pytest.mark.parametrize(
    ("channel", "options", "out", "code"),
    [
        (SAME, (), "0 of 1 topic differ\n", Exit.DONE),
        (
            "partitions: 6",
            ("--cluster", "prod"),
            "file.yaml:5:27: orders on prod: partitions is 6, topics/a.yaml:14:38 has 3\n1 of 1 topic differs\n",
            Exit.CHANGES,
        ),
        (SAME, ("--cluster", "test"), "file.yaml:5:7: orders: found no manifest on test\n1 of 1 topic differs\n", 3),
        (f"{SAME}, retries: 1", (), "0 of 1 topic differ\n", Exit.REFUSED),
        ("partitions: 6, retries: 1", ("-q",), "file.yaml:5:27: orders on prod: partitions is 6", Exit.CHANGES),
    ],
)
def test_a_document_is_checked_against_manifests(
    channel: str, options: tuple[str, ...], out: str, code: int, tmp_path: Path
) -> None:
    """With ``--exit-code`` a difference ends with 3, a field that is left out with 4; no manifest is printed."""
    (tmp_path / "file.yaml").write_text(_channel(channel))
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics" / "a.yaml").write_text(CLUSTERS + ORDERS)
    found = run_topiarist("import", "asyncapi", "file.yaml", "--check", "topics", *options, "--exit-code")
    assert found.out.startswith(out), found.err
    assert found.code == code, found.err
    assert run_topiarist("import", "asyncapi", "file.yaml", "--check", "topics", *options).code == Exit.DONE


@pytest.mark.parametrize(("part", "left_out"), [("{}", 0), ("{y: {partitions: 3}}", 0), ("{y: {partitions: 6}}", 1)])
def test_two_servers_may_be_one_cluster(part: str, left_out: int, tmp_path: Path) -> None:
    """A channel is one topic of the cluster then; values that one of the servers has alone are named."""
    servers = "servers: {x: {protocol: kafka}, y: {protocol: kafka}}\n"
    (tmp_path / "file.yaml").write_text(servers + _channel(f"partitions: 3, envServerOverrides: {part}"))
    found = run_topiarist("import", "asyncapi", "file.yaml", "--cluster", "x=prod", "--cluster", "y=prod")
    assert _specs(found) == {"orders": {"clusters": ["prod"], "partitions": 3}}
    assert found.err.count("declared twice, first in file.yaml:6") == left_out


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--check", "topics", "--out", "made"), Exit.USAGE, "--out cannot be combined with --check"),
        (("--check", "topics"), Exit.ERROR, "--check: found no topic of a known cluster"),
        (("--check", "nowhere"), Exit.ERROR, "nowhere: error: cannot be read"),
        (("--cluster", "a", "--cluster", "b"), Exit.USAGE, 'found "b", wanted NAME once'),
        (("--cluster", "a="), Exit.USAGE, 'found "a=", wanted NAME once'),
    ],
)
def test_a_check_that_compares_nothing_is_an_error(
    options: tuple[str, ...], code: Exit, message: str, tmp_path: Path
) -> None:
    """Topics of clusters without a document have no values to compare with: no check passes for that reason."""
    (tmp_path / "file.yaml").write_text(_channel(SAME))
    (tmp_path / "topics").mkdir()
    (tmp_path / "topics" / "a.yaml").write_text(ORDERS)
    found = run_topiarist("import", "asyncapi", "file.yaml", *options)
    assert (found.code, found.out) == (code, ""), found.err
    assert message in found.err


def test_validate_names_a_template(tmp_path: Path) -> None:
    """A manifest that was not rendered has one error, at its first marker."""
    (tmp_path / "file.yaml").write_text(
        "{{- range .Values.topics }}\n---\napiVersion: topiarist.dev/v1\nkind: Topic\n"
        "metadata: {name: {{ .name }}}\n{{ end }}"
    )
    found = run_topiarist("validate", "file.yaml")
    assert found.code == Exit.ERROR
    assert found.err.startswith(f"file.yaml:1:1: error: found {{{{: {TEMPLATE}\n    {RENDER}")
    assert found.err.endswith("1 error\n")
