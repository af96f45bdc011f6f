"""The custom resource definitions and admission policies: generated, structural, complete, equal to the files."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema
import pytest
import yaml
from crd import definition_files, policy_files
from crd.configs import config_policies
from crd.definitions import definition, resource_schema
from crd.policies import admission_policies, translatable_rules
from crd.structural import structural_schema, to_cel

from support.builders import PositionedSource
from support.checkout import ROOT
from topiarist.desired import parse
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.types import INTERNAL_TOPICS
from topiarist.model import spec
from topiarist.model.policy import Policy, Rule, RuleSubject
from topiarist.schema import check, load

KNOWN = {
    *("description", "type", "format", "enum", "default", "minimum", "maximum", "minLength", "maxLength", "pattern"),
    *("minItems", "maxItems", "minProperties", "maxProperties", "required", "properties", "items"),
    *("additionalProperties", "x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"),
    *("x-kubernetes-map-type", "x-kubernetes-preserve-unknown-fields", "anyOf", "not"),
}
"""Every keyword that an API server knows, of those that we use."""


NOWHERE = PositionedSource("nowhere.yaml")


def fields(made: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every field of a structural schema with its path."""
    yield path, made
    for name, inner in made.get("properties", {}).items():
        yield from fields(inner, f"{path}.{name}".removeprefix("."))
    if "items" in made:
        yield from fields(made["items"], f"{path}[]")
    if "additionalProperties" in made:
        yield from fields(made["additionalProperties"], f"{path}.*")


def at(kind: str, path: str) -> Mapping[str, Any]:
    """Return the structural schema of one field."""
    return dict(fields(resource_schema(kind)))[path]


@pytest.mark.parametrize("kind", load.KINDS)
def test_every_field_is_described_and_bounded(kind: str) -> None:
    """``kubectl explain`` describes every field; every list, map and text that CEL can read has a limit."""
    for path, made in fields(resource_schema(kind)):
        if path.startswith("metadata"):
            continue  # an API server accepts only limits of the name there
        assert made["description"].endswith((".", ")")) or "Example: " in made["description"], path
        assert made.keys() <= KNOWN, path
        if made.get("type") == "array":
            assert "maxItems" in made, path
            assert "x-kubernetes-list-type" in made, path
        if "additionalProperties" in made:
            assert "maxProperties" in made, path
        if made.get("type") == "string" and path.startswith("spec"):
            assert made.keys() & {"maxLength", "enum", "format"}, path


@pytest.mark.parametrize("kind", load.KINDS)
def test_it_has_all_fields_of_the_schema(kind: str) -> None:
    """A resource accepts every field of a file, and has the fields that the operator writes."""
    document, made = load.load_schema(kind), resource_schema(kind)["properties"]
    assert made["spec"]["properties"].keys() == document["properties"]["spec"]["properties"].keys()
    status = load.load_schema("status")["definitions"][kind.lower()]["properties"]
    assert made["status"]["properties"].keys() == status.keys()


def test_a_config_takes_any_scalar_and_nothing_else() -> None:
    """A config accepts any scalar and no list or object; the pattern applies to text only.

    The schema requires at least one and at most zero items, so lists and objects are invalid.
    """
    value = at("Topic", "spec.config.*")
    assert value["x-kubernetes-preserve-unknown-fields"] is True
    assert "type" not in value
    assert (value["minItems"], value["maxItems"], value["minProperties"], value["maxProperties"]) == (1, 0, 1, 0)
    assert at("Topic", "spec.overrides[].config.*") == at("Cluster", "spec.defaults.config.*") == value
    assert at("Cluster", "spec.brokerConfig.*") == value


def test_records_take_known_fields_or_none() -> None:
    """The records of a cluster are the word ``None`` or a map of any known fields: no number, list or boolean.

    The known fields have no defaults, which an API server would fill in, and no rules in CEL, which it refuses there.
    """
    validator = jsonschema.Draft202012Validator(at("Cluster", "spec.kafka.records"))
    good = ["None", {}, {"topic": "a"}, {"topic": "a", "transactionalId": "b", "replicationFactor": 1}]
    assert [value for value in good if not validator.is_valid(value)] == []
    bad = [False, True, 0, 1, 0.5, "", "none", [], [1], {"a": 1}, {"topic": "a", "b": 1}, {"topic": ".."}, {"topic": 1}]
    assert [value for value in bad if validator.is_valid(value)] == []
    inside = [made for path, made in fields(resource_schema("Cluster")) if path.startswith("spec.kafka.records.")]
    assert [keyword for made in inside for keyword in ("default", "x-kubernetes-validations") if keyword in made] == []
    assert [made["description"].rpartition(" Default: ")[2] for made in inside] == ["__topiarist.", "topiarist.", "3."]


def test_kubectl_explains_every_config() -> None:
    """The description of ``spec.config`` has each key with its effect and default; other fields refer to it."""
    about = at("Topic", "spec.config")["description"]
    assert all(f"\n{key}: {one.description}" in about for key, one in TOPIC_CONFIGS.items())
    for kind, path in (("Topic", "spec.overrides[].config"), ("Cluster", "spec.defaults.config")):
        assert "kubectl explain topics.topiarist.dev.spec.config" in at(kind, path)["description"]


def test_nothing_in_a_list_has_a_default() -> None:
    """No list item has a default: ``mode: Enforce`` as a default in an override would replace the topic's
    ``Observe``.
    """
    assert at("Topic", "spec.mode")["default"] == "Enforce"
    inside = [made for kind in load.KINDS for path, made in fields(resource_schema(kind)) if "[]" in path]
    assert len(inside) > 30
    assert at("Policy", "spec.rules[].action")["description"].endswith("Default: Deny.")
    assert not any("default" in made for made in inside)


def test_defaults_are_those_of_the_code() -> None:
    """The defaults that the API server fills in equal the meaning of absent fields in a file."""
    given: dict[str, Any] = {"via": "Kafka", "kafka": {"records": {}}, "zookeeper": {}, "budgets": {}}
    body = {"apiVersion": load.API_VERSION, "kind": "Cluster", "metadata": {"name": "a"}, "spec": given}

    plain = parse.parse_cluster_spec(spec.make_manifest(body, NOWHERE))
    filled = copy.deepcopy(given)
    for path, made in fields(resource_schema("Cluster")["properties"]["spec"]):
        *above, name = path.split(".")
        holder: dict[str, Any] | None = filled
        for step in above:
            holder = None if holder is None else holder.get(step)
        if "default" in made and holder is not None:
            holder[name] = copy.deepcopy(made["default"])
    assert filled["budgets"]["deletions"] == 5
    assert filled["kafka"] == {"records": {}, "requestTimeout": "30s"}
    assert check.check({**body, "spec": filled}) == []
    assert parse.parse_cluster_spec(spec.make_manifest({**body, "spec": filled}, NOWHERE)) == plain


def test_lists_are_sets_maps_or_one_value() -> None:
    """Two field managers can merge sets and maps, and an ordered list belongs to one field manager."""
    types = {path: made.get("x-kubernetes-list-type") for path, made in fields(resource_schema("Topic"))}
    assert types["spec.clusters"] == types["spec.ignore"] == types["spec.replicaAssignment[]"] == "set"
    assert types["spec.overrides"] == types["spec.replicaAssignment"] == "atomic"
    assert at("Topic", "status.conditions")["x-kubernetes-list-map-keys"] == ["type"]
    assert at("Topic", "status.clusters")["x-kubernetes-list-map-keys"] == ["name"]
    assert at("Policy", "spec.rules")["x-kubernetes-list-map-keys"] == ["name"]


@pytest.mark.parametrize(
    ("kind", "path", "rule"),
    [
        ("Topic", "spec", "!(has(self.clusters) && has(self.clusterSelector))"),
        *(
            (
                *("Topic", path),
                "!has(self.replicaAssignment) || !has(self.partitions) || "
                "self.partitions == self.replicaAssignment.size()",
            )
            for path in ("spec", "spec.overrides[]")
        ),
        ("Topic", "spec.overrides[]", "(has(self.clusters)) || (has(self.clusterSelector))"),
        ("Topic", "spec.topicName", "!(self in ['.', '..'])"),
        ("Cluster", "spec.zookeeper.tls", "!has(self.key) || has(self.certificate)"),
        (
            "Cluster",
            "spec.allowedTopics[].namespaces",
            "(has(self.from) && has(self.selector) && (!has(self.from) || self.from in ['Selector'])) || "
            "((!has(self.from) || self.from in ['Same', 'All']) && !(has(self.selector)))",
        ),
    ],
)
def test_conditions_become_rules(kind: str, path: str, rule: str) -> None:
    """Conditions of the schema over several fields become CEL rules with a message."""
    rules = {one["rule"]: one["message"] for one in at(kind, path)["x-kubernetes-validations"]}
    assert rules[rule]


def test_replica_lists_are_lists_in_a_definition() -> None:
    """A replica list has the type list in a definition, although a file may also hold text.

    A structural schema has one type for each field; without the type nothing counts the items.
    """
    for path in ("spec.replicaAssignment", "spec.overrides[].replicaAssignment"):
        field = at("Topic", path)
        assert field["type"] == "array"
        assert "pattern" not in field


def test_internal_topics_are_all_in_the_rule() -> None:
    """The rule contains every internal topic, so that a new one cannot be forgotten."""
    (rule, _) = at("Topic", "spec.topicName")["x-kubernetes-validations"]
    assert all(f"'{name}'" in rule["rule"] for name in INTERNAL_TOPICS)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"type": "string", "description": "A.", "const": "a"}, "a: no API server knows const"),
        ({"type": "array", "description": "A.", "items": {}}, "a: no maxItems"),
        ({"type": "object", "description": "A."}, "a: an object of unknown fields"),
        ({"type": "object", "description": "A.", "additionalProperties": {"description": "B."}}, "a: no maxProperties"),
    ],
)
def test_what_nobody_thought_about_is_an_error(given: dict[str, Any], words: str) -> None:
    """An unsupported keyword, list or map in the schemas is an error instead of being dropped silently."""
    with pytest.raises(ValueError, match=words):
        structural_schema(given, {}, "a")
    with pytest.raises(ValueError, match="cannot be expressed in CEL"):
        to_cel({"minimum": 1})


def test_names_do_not_get_in_the_way() -> None:
    """The short name and the category are topiarist's own and conflict with no common resource."""
    for kind in load.KINDS:
        names = definition(kind)["spec"]["names"]
        assert names["categories"] == ["topiarist"]
        assert not set(names["shortNames"]) & {"kt", "all", "po", "cm", "top", "tp"}
    assert len({definition(kind)["spec"]["names"]["shortNames"][0] for kind in load.KINDS}) == 3


@pytest.mark.parametrize("name", definition_files())
def test_files_hold_what_is_made(name: str) -> None:
    """The committed files equal the output of ``make generate``, and every YAML parser reads the same content."""
    text = (ROOT / "manifests" / name).read_text(encoding="utf-8")
    assert text == definition_files()[name], "run: make generate"
    for made in yaml.safe_load_all(text):
        if made["kind"] == "CustomResourceDefinition":
            assert made == definition(made["spec"]["names"]["kind"])


def rule(name: str, expression: str, *, subject: RuleSubject = RuleSubject.TOPIC, deny: bool = True) -> Rule:
    """Return a rule of the policy ``p``."""
    return Rule("p", name, expression, f"not {name}", subject, deny, (), NOWHERE, ())


def policy(*rules: Rule, **selector: Any) -> Policy:
    """Return a policy with these rules."""
    return Policy(name="p", namespace="", source=NOWHERE, rules=rules, **selector)


SMALL = rule("small", "topic.partitions <= 48")
NAMED = rule("named", 'topic.name != "cluster"')


def test_only_rules_about_topics_alone_are_taken() -> None:
    """Only rules without changes and without cluster data are translated.

    Text and names that only resemble such data are accepted.
    """
    where = rule("where", 'cluster.name != "a" || topic.partitions < 9')
    what = rule("what", "true", subject=RuleSubject.CHANGE)
    assert translatable_rules(policy(SMALL, where, what, NAMED)) == [SMALL, NAMED]


@pytest.mark.parametrize("selector", [{"cluster_names": ("a",)}, {"cluster_labels": {"env": "prod"}}])
def test_a_policy_for_some_clusters_makes_none(selector: dict[str, Any]) -> None:
    """A policy for some clusters is not translated, because a Topic does not determine its clusters alone."""
    found = policy(SMALL, **selector)
    assert admission_policies(found) == []
    assert policy_files({"p.yaml": found}) == {}


@pytest.mark.parametrize("selector", [{"topic_patterns": ("a*",)}, {"topic_labels": {"team": "a"}}])
def test_what_is_not_translated_is_said(selector: dict[str, Any]) -> None:
    """Untranslated rules are reported: a rule for some topics must not apply to all topics."""
    with pytest.raises(ValueError, match="policy p: selectors of topics cannot be translated"):
        admission_policies(policy(SMALL, **selector))
    assert admission_policies(policy(rule("a", "true", subject=RuleSubject.CHANGE), **selector)) == []


def test_denying_and_warning_are_two_policies() -> None:
    """Denials and warnings are two policies with their own bindings, because a binding applies one action to a
    policy.
    """
    found = admission_policies(policy(SMALL, rule("many", "topic.partitions >= 3", deny=False)))
    assert [(one["kind"], one["metadata"]["name"]) for one in found] == [
        ("ValidatingAdmissionPolicy", "topiarist-policy-p"),
        ("ValidatingAdmissionPolicyBinding", "topiarist-policy-p"),
        ("ValidatingAdmissionPolicy", "topiarist-policy-p-warnings"),
        ("ValidatingAdmissionPolicyBinding", "topiarist-policy-p-warnings"),
    ]
    assert [one["spec"]["validationActions"] for one in found[1::2]] == [["Deny"], ["Warn"]]
    assert [one["spec"]["policyName"] for one in found[1::2]] == [one["metadata"]["name"] for one in found[::2]]


def variables(*rules: Rule) -> dict[str, str]:
    """Return the variables of the policy from these rules."""
    spec = admission_policies(policy(*rules))[0]["spec"]
    return {one["name"]: one["expression"] for one in spec["variables"]}


def test_only_what_rules_read_is_there() -> None:
    """A policy has only the variables that its rules read.

    A rule about names reads no override; a rule about partitions passes without a partition count.
    """
    assert variables(NAMED).keys() == {"topics"}
    assert "overrides" not in variables(NAMED)["topics"]
    assert variables(SMALL).keys() == {"partitions", "topics"}
    (judged,) = admission_policies(policy(SMALL))[0]["spec"]["validations"]
    given = "size(object.spec.?profiles.orValue([])) > 0 || !('partitions' in topic) || "
    assert judged["expression"] == f"variables.topics.all(topic, {given}(\ntopic.partitions <= 48\n))"
    assert judged["message"] == "not small (rule small)"


def test_what_profiles_may_give_is_not_evaluated_for_a_topic_with_profiles() -> None:
    """Rules about labels, configs and sizes leave such topics to the operator; other rules, and rules about profiles,
    hold for them too.
    """
    for text in ('"team" in topic.labels', '"a" in topic.config', "topic.replicationFactor > 1"):
        (judged,) = admission_policies(policy(rule("r", text)))[0]["spec"]["validations"]
        assert "size(object.spec.?profiles.orValue([])) > 0 || " in judged["expression"]
    for text in ('!("large" in topic.profiles)', 'topic.name != "a"', "!topic.observed"):
        (judged,) = admission_policies(policy(rule("r", text)))[0]["spec"]["validations"]
        assert judged["expression"] == f"variables.topics.all(topic, (\n{text}\n))"
    read = variables(rule("r", '!("large" in topic.profiles)'))
    assert read == {"topics": "[{\n  'profiles': dyn(object.spec.?profiles.orValue([]))\n}]"}


def test_labels_count_as_a_change_where_rules_read_them() -> None:
    """A label change is checked if a rule reads labels, so that no forbidden label can be set later."""
    conditions = admission_policies(policy(rule("team", '"team" in topic.labels')))[0]["spec"]["matchConditions"]
    assert "object.metadata.?labels" in conditions[0]["expression"]
    assert "labels" not in admission_policies(policy(SMALL))[0]["spec"]["matchConditions"][0]["expression"]


def test_what_ships_fails_closed_and_leaves_status_alone() -> None:
    """An error in an expression denies the request; the operator's status writes are not checked."""
    for one in (*config_policies(), *admission_policies(policy(SMALL))):
        if one["kind"] == "ValidatingAdmissionPolicy":
            assert one["spec"]["failurePolicy"] == "Fail"
            (resources,) = one["spec"]["matchConstraints"]["resourceRules"]
            assert resources["resources"] in (["topics"], ["clusters"])
            assert "!has(object.metadata.deletionTimestamp)" in str(one["spec"]["matchConditions"])
