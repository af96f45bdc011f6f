"""The documents ``Cluster`` and ``Policy`` as values: every field arrives, and each has its default."""

from __future__ import annotations

from typing import Any

import pytest

from support.builders import DocumentSource, document
from topiarist.desired import parse
from topiarist.desired.parse import limit_errors, parse_limits
from topiarist.errors import FieldPath, Location
from topiarist.model.access import (
    Credentials,
    KafkaAccess,
    Kerberos,
    RecordsTopic,
    SaslAwsIam,
    SaslMechanism,
    SaslOAuth,
    SaslPassword,
    SaslToken,
    SecretKeyRef,
    SecretReference,
    Tls,
    UserPassword,
    Via,
    ZooKeeperAccess,
)
from topiarist.model.moves import UNLIMITED, BatchLimits, MoveKind, MoveSettings
from topiarist.model.policy import Policy, RuleSubject
from topiarist.model.spec import (
    AllowedTopics,
    Budgets,
    ClusterSpec,
    DriftPolicy,
    LabelSelector,
    LabelSelectorRequirement,
    Limit,
    LimitedResource,
    LimitScope,
    NamespacesFrom,
    RackAwareness,
    RetentionStep,
    SelectorOperator,
    make_manifest,
)
from topiarist.model.usage import DAY_S, DeletionCheck, GroupNames, UsageSettings
from topiarist.schema import check
from topiarist.schema.load import load_schema

MIB = 1 << 20


def _body(kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return a document that its schema accepts."""
    body = {
        "apiVersion": "topiarist.dev/v1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }
    assert check.check(body) == []
    return body


def _cluster(**spec: Any) -> ClusterSpec:
    body = _body("Cluster", "prod", spec, labels={"env": "prod"})
    return parse.parse_cluster_spec(make_manifest(body, DocumentSource("prod.yaml", body)))


def _policy(**spec: Any) -> Policy:
    body = _body("Policy", "law", spec, namespace="shop")
    return parse.parse_policy(make_manifest(body, DocumentSource("law.yaml", body)))


def test_a_cluster_without_fields_has_the_defaults() -> None:
    """An empty spec is the unnamed cluster of an address option, but for its name, labels and place."""
    found = _cluster()
    assert found == ClusterSpec("prod", {"env": "prod"}, source=found.source)
    assert found.source is not None
    assert found.source.locate(("spec",)).file == "prod.yaml"


FIELDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "clusterId": ("7sYk", {"cluster_id": "7sYk"}),
    "kafkaVersion": ("3.9", {"version": (3, 9)}),
    "rackAwareness": ("Safe", {"rack_awareness": RackAwareness.SAFE}),
    "defaults": (
        {"partitions": 6, "replicationFactor": 3, "config": {"retention.ms": "1d"}},
        {"default_partitions": 6, "default_replication_factor": 3, "default_config": {"retention.ms": "86400000"}},
    ),
    "profiles": (
        {"small": {"partitions": 1, "labels": {"tier": "b"}, "config": {"segment.ms": "1m"}}, "bare": {}},
        {
            "profiles": {
                "small": {"partitions": 1, "labels": {"tier": "b"}, "config": {"segment.ms": "60000"}},
                "bare": {"config": {}},
            }
        },
    ),
    "brokerConfig": ({"num.partitions": 4}, {"broker_config": {"num.partitions": "4"}}),
    "allowUnknownConfigs": (["confluent.*"], {"allow_unknown_configs": ("confluent.*",)}),
    "excludeBrokers": ([3, 4], {"exclude_brokers": frozenset({3, 4})}),
    "drainBrokers": ([5], {"drain_brokers": frozenset({5})}),
    "protected": (["own-*"], {"protected": ("own-*",)}),
    "retentionStep": ({"share": "20%", "interval": "2h"}, {"retention_step": RetentionStep(20, 7_200_000)}),
    "adopt": (["*"], {"adopt": ("*",)}),
    "allowRisk": (["DataLoss"], {"allow_risk": frozenset({"DataLoss"})}),
    "allowDeletion": (True, {"allow_deletion": True}),
    "driftPolicy": ("Correct", {"drift_policy": DriftPolicy.CORRECT}),
    "moves": (
        {
            "allow": ["Drain", "Factor"],
            "throttle": "50MiB",
            "batch": {"partitions": 7},
            "stallAfter": "3m",
            "protected": True,
        },
        {
            "moves": MoveSettings(
                frozenset({MoveKind.DRAIN, MoveKind.FACTOR}), 50 * MIB, BatchLimits(partitions=7), 180, protected=True
            )
        },
    ),
    "evidence": (
        {
            "deletion": "RequireNotSeen",
            "window": "40d",
            "quietFor": "2d",
            "groups": "Counted",
            "oversized": {"partitions": 5, "bytesPerDay": "3MiB"},
        },
        {
            "evidence": UsageSettings(
                DeletionCheck.REQUIRE_NOT_SEEN, 40 * DAY_S, 2 * DAY_S, GroupNames.COUNTED, 5, 3 * MIB
            )
        },
    ),
    "budgets": (
        {
            "topics": 1,
            "newPartitions": 2,
            "partitionsPerTopic": 3,
            "deletions": 4,
            "changedShare": "5%",
            "notifications": 6,
            "movedReplicas": 7,
            "movedPartitions": 8,
        },
        {
            "budgets": Budgets(
                topics=1,
                new_partitions=2,
                partitions_per_topic=3,
                deletions=4,
                changed_share=5,
                notifications=6,
                moved_replicas=7,
                moved_partitions=8,
            )
        },
    ),
    "allowedTopics": (
        [
            {
                "namespaces": {
                    "from": "Selector",
                    "selector": {
                        "matchLabels": {"team": "shop"},
                        "matchExpressions": [
                            {"key": "tier", "operator": "In", "values": ["a", "b"]},
                            {"key": "old", "operator": "DoesNotExist"},
                        ],
                    },
                },
                "names": ["shop.*"],
            },
            {"namespaces": {"from": "All"}},
            {},
        ],
        {
            "allowed_topics": (
                AllowedTopics(
                    NamespacesFrom.SELECTOR,
                    LabelSelector(
                        {"team": "shop"},
                        (
                            LabelSelectorRequirement("tier", SelectorOperator.IN, ("a", "b")),
                            LabelSelectorRequirement("old", SelectorOperator.DOES_NOT_EXIST),
                        ),
                    ),
                    ("shop.*",),
                ),
                AllowedTopics(NamespacesFrom.ALL),
                AllowedTopics(),
            )
        },
    ),
}


@pytest.mark.parametrize("name", FIELDS)
def test_each_field_of_a_cluster_arrives(name: str) -> None:
    """A field sets its own value, in the units of the model, and no other one."""
    given, expected = FIELDS[name]
    found = _cluster(**{name: given})
    assert found == ClusterSpec("prod", {"env": "prod"}, source=found.source, **expected)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"moves": {"throttle": "Unlimited"}}, {"moves": MoveSettings(throttle=UNLIMITED)}),
        (
            {"moves": {"batch": {"incoming": 2, "outgoing": 3}}},
            {"moves": MoveSettings(batch=BatchLimits(incoming=2, outgoing=3))},
        ),
        ({"retentionStep": {"share": "50%"}}, {"retention_step": RetentionStep(50, 3_600_000)}),
        ({"evidence": {"window": "9d"}}, {"evidence": UsageSettings(window=9 * DAY_S)}),
        ({"evidence": {"quietFor": "1h"}}, {"evidence": UsageSettings(quiet_for=3600)}),
        ({"evidence": {"oversized": {"partitions": 3}}}, {"evidence": UsageSettings(min_partitions=3)}),
        ({"evidence": {"oversized": {"bytesPerDay": "1KiB"}}}, {"evidence": UsageSettings(min_bytes_per_day=1024)}),
        ({"allowedTopics": []}, {"allowed_topics": ()}),
        ({"allowRisk": []}, {"allow_risk": frozenset()}),
        ({"protected": []}, {"protected": ()}),
    ],
)
def test_parts_and_empty_lists_of_a_cluster(given: dict[str, Any], expected: dict[str, Any]) -> None:
    """A part leaves the other parts at their defaults, and an empty list is no missing one: it allows nothing."""
    found = _cluster(**given)
    assert found == ClusterSpec("prod", {"env": "prod"}, source=found.source, **expected)


LIMITS = [
    {"name": "size", "per": "Label", "label": "team", "topics": 3, "retainedBytes": "2 GiB"},
    {"name": "all", "per": "Owner", "partitions": 9, "action": "Warn"},
]


def _limits(title: str, source: Any, *path: str, counts_all: bool = True) -> tuple[Limit, ...]:
    sizes = {LimitedResource.TOPICS: 3, LimitedResource.RETAINED_BYTES: 2 << 30}
    return (
        Limit(f"{title}, limit size", LimitScope.LABEL, sizes, "team", True, counts_all, source, (*path, 0)),
        Limit(
            f"{title}, limit all",
            LimitScope.OWNER,
            {LimitedResource.PARTITIONS: 9},
            deny=False,
            counts_all=counts_all,
            source=source,
            path=(*path, 1),
        ),
    )


def test_limits_of_a_cluster_and_of_a_policy() -> None:
    """Both documents have the same limits; those of a policy that selects topics count the selected ones only."""
    cluster, law = _cluster(budgets={"limits": LIMITS}), _policy(limits=LIMITS)
    assert cluster.budgets.limits == _limits("Cluster prod", cluster.source, "spec", "budgets", "limits")
    assert law.limits == _limits("policy law", law.source, "spec", "limits")
    for selector in ({"topics": ["a*"]}, {"matchLabels": {"a": "b"}}, {"topics": ["a"], "matchLabels": {"a": "b"}}):
        some = _policy(limits=LIMITS, selector=selector)
        assert some.limits == _limits("policy law", some.source, "spec", "limits", counts_all=False)
    assert all(each.counts_all for each in _policy(limits=LIMITS, selector={"clusters": ["prod"]}).limits)


def test_a_policy_has_its_selector() -> None:
    """Each part of the selector arrives; without one a policy covers everything."""
    rules = [{"name": "r", "expression": "true", "message": "no"}]
    chosen = _policy(
        rules=rules,
        selector={
            "topics": ["a*"],
            "matchLabels": {"team": "shop"},
            "clusterSelector": {"matchLabels": {"env": "prod"}},
        },
    )
    assert _policy(rules=rules, selector={"clusters": ["prod"]}).cluster_names == ("prod",)
    assert (chosen.name, chosen.namespace) == ("law", "shop")
    assert (chosen.topic_patterns, chosen.topic_labels) == (("a*",), {"team": "shop"})
    assert (chosen.cluster_names, chosen.cluster_labels) == ((), {"env": "prod"})
    everything = _policy(rules=rules)
    assert (everything.topic_patterns, everything.topic_labels) == ((), {})
    assert (everything.cluster_names, everything.cluster_labels) == ((), {})


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ("partitions", ("partitions",)),
        ("config.retention.ms", ("config", "retention.ms")),
        ("config", ("config",)),
        ("config.min.insync.replicas", ("config", "min.insync.replicas")),  # only the first dot divides
        ("labels", ("metadata", "labels")),
        ("labels.example.com/team", ("metadata", "labels", "example.com/team")),
        ("annotations", ("metadata", "annotations")),
        ("annotations.a", ("metadata", "annotations", "a")),
        ("name", ()),
        (None, ()),
    ],
)
def test_a_rule_points_at_a_field_of_the_topic(given: str | None, field: tuple[str, ...]) -> None:
    """Labels and annotations are in the metadata; a rule without a field, or about the name, is about the topic."""
    fields = {"name": "r", "expression": "true", "message": "two\n  lines"}
    (rule,) = _policy(rules=[fields | ({"field": given} if given else {})]).rules
    assert rule.field == field
    assert (rule.policy, rule.name, rule.expression, rule.message) == ("law", "r", "true", "two lines")
    assert (rule.subject, rule.deny) == (RuleSubject.TOPIC, True)


def test_a_rule_may_be_about_changes_and_only_warn() -> None:
    """Subject, action and the place of each rule in its document arrive."""
    fields = {"expression": "true", "message": "no", "subject": "Change", "action": "Warn"}
    first, second = _policy(rules=[{"name": "a", **fields}, {"name": "b", **fields, "action": "Deny"}]).rules
    assert (first.subject, first.deny, second.deny) == (RuleSubject.CHANGE, False, True)
    assert first.source is not None
    assert (first.path, second.path) == (("spec", "rules", 0), ("spec", "rules", 1))
    assert first.locate("name") == first.source.locate((*first.path, "name")) != Location("law.yaml", 1, 1)


def test_a_selector_of_namespaces_may_have_one_part() -> None:
    """Labels without expressions select, and so do expressions without labels."""
    owner = LabelSelectorRequirement("owner", SelectorOperator.EXISTS)
    for given, wanted in (
        ({"matchLabels": {"team": "shop"}}, LabelSelector({"team": "shop"}, ())),
        ({"matchExpressions": [{"key": "owner", "operator": "Exists"}]}, LabelSelector({}, (owner,))),
    ):
        (allowed,) = _cluster(allowedTopics=[{"namespaces": {"from": "Selector", "selector": given}}]).allowed_topics
        assert allowed == AllowedTopics(NamespacesFrom.SELECTOR, wanted)


# The access of a Cluster: every field of both sections, and the one that is used.


class Nowhere:
    """A document in a file, with the path as text in place of the line."""

    def locate(self, path: FieldPath = ()) -> Location:
        """Return the location of a path."""
        return Location(f"git/prod.yaml#{'.'.join(map(str, path))}")


def parsed(**spec: Any) -> ClusterSpec:
    """Return the spec of a valid Cluster."""
    body = document("Cluster", "prod", **spec)
    assert check.check(body) == []
    return parse.parse_cluster_spec(make_manifest(body, Nowhere()))


def in_file(file: str, path: str) -> SecretReference:
    """Return the reference to a file beside the manifest."""
    return SecretReference(f"git/{file}", "", Location(f"git/prod.yaml#spec.kafka.{path}.file"))


def test_the_schema_has_every_mechanism_of_a_login() -> None:
    """A mechanism that only one of both has could not be given, or would end a run with a traceback."""
    kafka = load_schema("Cluster")["properties"]["spec"]["properties"]["kafka"]["properties"]
    assert set(kafka["sasl"]["properties"]["mechanism"]["enum"]) == {each.value for each in SaslMechanism}


def test_everything_about_the_brokers() -> None:
    """Addresses, login, TLS, the topic of records and the timeout of a request."""
    found = parsed(
        kafka={
            "bootstrapServers": "b1:9093,[::1]:9093",
            "sasl": {"mechanism": "SCRAM-SHA-512", "username": "topiarist", "password": {"file": "password"}},
            "tls": {
                "ca": {"file": "ca.pem"},
                "certificate": {"file": "own.pem"},
                "key": {"file": "key.pem"},
                "keyPassword": {"file": "key.password"},
                "serverName": "kafka.example.com",
            },
            "records": {"topic": "_topiarist", "replicationFactor": 1},
            "requestTimeout": "2m",
        }
    )
    assert found.access == KafkaAccess(
        "b1:9093,[::1]:9093",
        SaslPassword(SaslMechanism.SCRAM_SHA_512, "topiarist", in_file("password", "sasl.password")),
        Tls(
            in_file("ca.pem", "tls.ca"),
            in_file("own.pem", "tls.certificate"),
            in_file("key.pem", "tls.key"),
            in_file("key.password", "tls.keyPassword"),
            "kafka.example.com",
        ),
        RecordsTopic("_topiarist", 1),
        120,
    )


def test_records() -> None:
    """The topic and the transactional id have defaults, and None is a cluster without records."""
    some = parsed(kafka={"bootstrapServers": "b:9092", "records": {"transactionalId": "team"}}).kafka
    none = parsed(kafka={"bootstrapServers": "b:9092", "records": "None"})
    assert some is not None
    assert some.records == RecordsTopic(transactional_id="team")
    assert (none.kafka and none.kafka.records, none.keeps_records) == (None, False)
    assert check_records("Nothing") == 'spec.kafka.records: found "Nothing", wanted a mapping, or None'
    assert check_records(3) == "spec.kafka.records: found 3, wanted a mapping or None"


def check_records(value: object) -> str:
    """Return the error of a document with these records."""
    kafka = {"bootstrapServers": "b:9092", "records": value}
    body = {"apiVersion": "topiarist.dev/v1", "kind": "Cluster", "metadata": {"name": "prod"}, "spec": {"kafka": kafka}}
    (error,) = check.check(body)
    return error.message


def test_everything_about_zookeeper() -> None:
    """Both logins, TLS and the size of a packet; each part may be missing."""

    def secret(path: str) -> SecretReference:
        return SecretReference("git/secret", "", Location(f"git/prod.yaml#spec.zookeeper.{path}.file"))

    file = {"file": "secret"}
    logins: dict[str, Any] = {name: {"username": name, "password": file} for name in ("sasl", "digest")}
    sasl, digest = (UserPassword(name, secret(f"{name}.password")) for name in ("sasl", "digest"))
    for tls, expected in (
        ({"ca": file}, Tls(secret("tls.ca"))),
        (
            {"certificate": file, "key": file, "serverName": "zk"},
            Tls(certificate=secret("tls.certificate"), key=secret("tls.key"), server_name="zk"),
        ),
    ):
        found = parsed(zookeeper={"connect": "zk:2281/kafka", "maxBuffer": 4194304, **logins, "tls": tls})
        assert found.access == ZooKeeperAccess("zk:2281/kafka", 4194304, Credentials(sasl, digest, expected))
    only = parsed(zookeeper={"connect": "zk:2181", "digest": logins["digest"]})
    assert only.access == ZooKeeperAccess("zk:2181", credentials=Credentials(digest=digest))
    assert parsed(zookeeper={"maxBuffer": 4194304}).access == ZooKeeperAccess("", 4194304)


def test_a_login_by_token() -> None:
    """Client credentials of OAuth, with the CA of the endpoint; scope and CA are optional."""
    given: dict[str, Any] = {
        "mechanism": "OAUTHBEARER",
        "tokenEndpoint": "https://login.example.com/token",
        "clientId": "topiarist",
        "clientSecret": {"secretKeyRef": {"name": "kafka", "key": "secret"}},
    }
    secret = SecretReference(
        "", "", Location("git/prod.yaml#spec.kafka.sasl.clientSecret.secretKeyRef"), SecretKeyRef("kafka", "secret")
    )
    login = SaslOAuth("https://login.example.com/token", "topiarist", secret)
    assert parsed(kafka={"bootstrapServers": "b1:9093", "sasl": given}).access == KafkaAccess("b1:9093", login)
    given |= {"scope": "kafka", "ca": {"file": "ca.pem"}}
    login = SaslOAuth(login.token_endpoint, "topiarist", secret, "kafka", in_file("ca.pem", "sasl.ca"))
    assert parsed(kafka={"bootstrapServers": "b1:9093", "sasl": given}).access == KafkaAccess("b1:9093", login)


def login_of(**given: Any) -> object:
    """Return the parsed login of a cluster that is reached through its brokers."""
    access = parsed(kafka={"bootstrapServers": "b1:9093", "sasl": given}).access
    assert isinstance(access, KafkaAccess)
    return access.sasl


def test_other_logins_by_token() -> None:
    """A key in place of the client secret, an audience and extensions; a token that another program writes."""
    endpoint = {"mechanism": "OAUTHBEARER", "tokenEndpoint": "https://login.example.com/token", "clientId": "topiarist"}
    given = {
        "clientKey": {"file": "own.pem"},
        "clientKeyId": "7",
        "audience": "kafka",
        "extensions": {"b": "2", "a": "1"},
    }
    assert login_of(**endpoint, **given) == SaslOAuth(
        "https://login.example.com/token",
        "topiarist",
        audience="kafka",
        client_key=in_file("own.pem", "sasl.clientKey"),
        client_key_id="7",
        extensions=(("a", "1"), ("b", "2")),
    )
    found = login_of(mechanism="OAUTHBEARER", token={"file": "token"}, extensions={"a": "1"})
    assert found == SaslToken(in_file("token", "sasl.token"), (("a", "1"),))
    found = login_of(mechanism="OAUTHBEARER", token={"command": "TOPIARIST_TOKEN_COMMAND"})
    place = Location("git/prod.yaml#spec.kafka.sasl.token.command")
    assert found == SaslToken(SecretReference("", "", place, command="TOPIARIST_TOKEN_COMMAND"))


def test_a_login_by_iam() -> None:
    """The region, with its place for messages; profile and role are optional."""
    place = Location("git/prod.yaml#spec.kafka.sasl")
    assert login_of(mechanism="AWS_MSK_IAM", region="eu-west-1") == SaslAwsIam("eu-west-1", place)
    role = "arn:aws:iam::123456789012:role/topiarist"
    given = {"region": "eu-west-1", "profile": "admin", "roleArn": role, "sessionName": "deploy"}
    assert login_of(mechanism="AWS_MSK_IAM", **given) == SaslAwsIam("eu-west-1", place, "admin", role, "deploy")


def test_a_login_by_kerberos() -> None:
    """The service is that of the section, unless the document names it; the key is in a table, tickets in a cache."""
    given: dict[str, Any] = {"mechanism": "GSSAPI", "principal": "topiarist@EXAMPLE.COM"}
    assert login_of(**given) == Kerberos("topiarist@EXAMPLE.COM", "kafka")
    found = login_of(**given, serviceName="broker", realm="OTHER.COM", keyTab={"file": "own.keytab"})
    table = in_file("own.keytab", "sasl.keyTab")
    assert found == Kerberos("topiarist@EXAMPLE.COM", "broker", "OTHER.COM", table)
    cache = in_file("cache", "sasl.ticketCache")
    assert login_of(**given, ticketCache={"file": "cache"}) == Kerberos(given["principal"], "kafka", ticket_cache=cache)
    access = parsed(zookeeper={"connect": "zk:2181", "sasl": given}).access
    assert access == ZooKeeperAccess("zk:2181", credentials=Credentials(Kerberos(given["principal"], "zookeeper")))


def test_stores_of_java() -> None:
    """Each store has its password."""
    names = {"key_store": "keyStore", "trust_store": "trustStore"}
    names |= {f"{field}_password": f"{name}Password" for field, name in names.items()}
    found = parsed(
        kafka={"bootstrapServers": "b1:9093", "tls": {name: {"file": name} for name in names.values()}}
    ).access
    assert isinstance(found, KafkaAccess)
    stores: dict[str, Any] = {field: in_file(name, f"tls.{name}") for field, name in names.items()}
    assert found.tls == Tls(**stores)


def test_missing_fields_have_defaults() -> None:
    """No login, no encryption, the usual topic with three replicas, half a minute."""
    assert parsed(kafka={"bootstrapServers": "b1:9092"}).access == KafkaAccess(
        "b1:9092", None, None, RecordsTopic("__topiarist", 3), 30
    )


def test_via_names_the_section_that_is_used() -> None:
    """Both sections are parsed, and ``via`` chooses; one section needs no ``via``; no section is no access."""
    both: dict[str, Any] = {"kafka": {"bootstrapServers": "b1:9092"}, "zookeeper": {"connect": "zk:2181/kafka"}}
    by_kafka, by_zookeeper = KafkaAccess("b1:9092"), ZooKeeperAccess("zk:2181/kafka")
    for via, access in (("Kafka", by_kafka), ("ZooKeeper", by_zookeeper)):
        found = parsed(via=via, **both)
        assert (found.via, found.kafka, found.zookeeper) == (Via(via), by_kafka, by_zookeeper)
        assert found.access == access
    assert parsed(kafka=both["kafka"]).access == by_kafka
    assert parsed(zookeeper=both["zookeeper"]).access == by_zookeeper
    assert parsed().access is None
    assert parsed(via="Kafka", zookeeper=both["zookeeper"]).access is None


# Errors of limits that no schema can express.

TEAM = {"name": "a", "per": "Label", "label": "team", "topics": 1}
OWNER = {"name": "b", "per": "Owner", "partitions": 1}


def _parse_given(*given: dict[str, Any]) -> tuple[Limit, ...]:
    return parse_limits(given, "policy law", DocumentSource("law.yaml", {"limits": [*given]}), ("limits",))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((TEAM, OWNER), []),
        (
            ({**TEAM, "label": ""},),
            [
                "law.yaml:3:3: policy law, limit a: found per: Label and no label, "
                "wanted the label with the names of the groups"
            ],
        ),
        (
            (TEAM, {**OWNER, "label": "team"}),
            ["law.yaml:8:3: policy law, limit b: found per: Owner and label team, wanted per: Label, or no label"],
        ),
        (
            (TEAM, OWNER, {**OWNER, "name": "a"}),
            ["law.yaml:12:3: policy law, limit a: duplicate name, declared at law.yaml:3:3 already"],
        ),
    ],
)
def test_errors_of_limits(given: tuple[dict[str, Any], ...], expected: list[str]) -> None:
    """A limit needs a label exactly if it is per Label, and names are unique in their document."""
    assert [str(each) for each in limit_errors(_parse_given(*given))] == expected


def test_limits_without_a_document() -> None:
    """A limit that was not read from a document has the budgets of the cluster as its place."""
    bare = Limit("limit", _parse_given(TEAM)[0].scope, {})
    assert [str(each.location) for each in limit_errors([bare])] == ["the budgets of the cluster"]


@pytest.mark.parametrize(("given", "size"), [(7, 7), ("2 KiB", 2048), ("2KiB", 2048)])
def test_amounts_of_limits(given: str | int, size: int) -> None:
    """An amount is a number, or has a unit with or without a blank before it."""
    (limit,) = _parse_given({"name": "a", "per": "Owner", "retainedBytes": given})
    assert [*limit.allowed.values()] == [size]
