"""The shipped admission policies, and the policies generated from sample Policies, on a real API server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kubernetes.fixtures.resources import cluster, create, replace, resource_path, topic
from support.checkout import ROOT
from support.kubernetes.api_client import ApiClient, ApiResponse, load_documents, to_yaml
from support.kubernetes.server import ApiServer
from support.waiting import wait_until
from topiarist.cli.main import run

ADMISSION = ROOT / "manifests" / "admission"
ISR = "min.insync.replicas"
LOST = "the API server has rounded a number this large; quote it"
NAMES = "not the name of a config; wanted 1 to 255 of"
NOTHING = "found nothing, wanted text, a number, true or false"
EMPTY = "found empty text, which Kafka does not accept; remove the key"


def on_a(**fields: Any) -> dict[str, Any]:
    """Return an override for cluster ``a``."""
    return {"clusters": ["a"], **fields}


GOOD = [
    topic(config={"flush.ms": 9223372036854775807, "a": 0.1, "b": "", "cleanup.policy": "", "c": -9007199254740991.0}),
    topic(replicationFactor=2, config={ISR: 3}),
    cluster(defaults={"replicationFactor": 2, "config": {ISR: 3}}, brokerConfig={"log.retention.ms": "-1"}),
]
BAD = [
    (topic(config={"retention/ms": 1}), f"retention/ms: {NAMES}"),
    (topic(config={"a" * 256: 1}), NAMES),
    (topic(overrides=[on_a(config={"": 1})]), f'"": {NAMES}'),
    (topic(config={"flush.ms": 9223372036854775808}), f"flush.ms: {LOST}"),
    (topic(config={"a": -(2.0**53)}, overrides=[on_a(config={"b": 1e300})]), f"a, b: {LOST}"),
    (topic(config={"retention.ms": ""}), f"retention.ms: {EMPTY}"),
    (cluster(defaults={"config": {"retention/ms": 1}}), f"retention/ms: {NAMES}"),
    (cluster(brokerConfig={"log.retention.ms": 1e19}), f"log.retention.ms: {LOST}"),
]


@pytest.mark.usefixtures("config_admission")
@pytest.mark.parametrize("body", GOOD)
def test_good_configs_pass(server_api: ApiClient, body: dict[str, Any]) -> None:
    """Valid configs pass, and so do configs that only the operator can check."""
    answer = create(server_api, "default", body, keep=False)
    assert answer.status == 201, answer.message


@pytest.mark.usefixtures("config_admission")
@pytest.mark.parametrize(("body", "message"), BAD)
def test_bad_configs_are_refused(server_api: ApiClient, body: dict[str, Any], message: str) -> None:
    """The API server refuses invalid configs and names their keys."""
    answer = create(server_api, "default", body, keep=False)
    assert answer.status == 422, answer
    assert message in answer.message


@pytest.mark.usefixtures("config_admission")
@pytest.mark.parametrize("body", [topic(config={"a": None}), cluster(defaults={"config": {"a": None}})])
def test_no_value_is_refused_where_it_gets_so_far(api: ApiClient, body: dict[str, Any]) -> None:
    """A server-side apply with a null value is refused; in a create the API server drops the key before admission."""
    created = create(api, "default", body, keep=False)
    assert created.status == 201
    spec = created.body["spec"]
    assert spec.get("defaults", spec)["config"] == {}
    where = resource_path("default", body)
    answer = api.call("PATCH", f"{where}/a?fieldManager=test&dryRun=All", body, "application/apply-patch+yaml")
    assert answer.status == 422, answer
    assert f"a: {NOTHING}" in answer.message


@pytest.mark.usefixtures("config_admission")
def test_what_stood_there_before_can_be_left(api: ApiClient, namespace: str) -> None:
    """An invalid Topic from before the admission policy accepts changes of finalizers and labels, and its deletion.

    A change of the spec is refused.
    """
    wrong = {**topic("wrong", replicationFactor=2, config={ISR: ""}), "metadata": {"name": "wrong", "labels": UNJUDGED}}
    found = create(api, namespace, wrong)
    assert found.status == 201, found.message
    held = {**wrong, "metadata": {"name": "wrong", "labels": {}, "finalizers": ["topiarist.dev/finalizer"]}}
    found = replace(api, namespace, held, found)
    assert found.status == 200, found.message
    changed = {**held, "spec": {**held["spec"], "mode": "Observe"}}
    assert EMPTY in replace(api, namespace, changed, found).message
    assert api.call("DELETE", resource_path(namespace, wrong, "wrong")).status == 200
    gone = api.call("GET", resource_path(namespace, wrong, "wrong"))
    assert gone.body["metadata"]["deletionTimestamp"]
    let_go = {**changed, "metadata": {"name": "wrong", "finalizers": []}}
    assert replace(api, namespace, let_go, gone).status == 200


UNJUDGED = {"unjudged": "true"}
"""Labels that exempt an object from the tests' bindings, like objects from before the bindings."""

TEAM = {"team": "shop"}
DAY = 24 * 3600 * 1000


def labelled(body: dict[str, Any], labels: dict[str, str], **annotations: str) -> dict[str, Any]:
    """Return a document with labels and annotations."""
    return {**body, "metadata": {**body["metadata"], "labels": labels, "annotations": annotations}}


KEPT = [
    ("naming", labelled(topic("shop.orders-v1"), TEAM)),
    ("partitions", topic(partitions=48)),
    ("partitions", topic(overrides=[on_a(replicaAssignment=[[1]] * 3)])),
    ("retention", topic()),
    ("retention", topic(config={"retention.ms": 30 * DAY})),
    ("retention", topic(config={"retention.ms": -1, "cleanup.policy": "compact"})),
    ("retention", labelled(topic(config={"retention.ms": -1}), {}, **{"example.com/long-retention": "law"})),
    ("retention", topic(config={"cleanup.policy": "compact"}, overrides=[on_a(config={"retention.ms": "-1"})])),
    ("retention", topic(config={"retention.ms": -1}, ensure="Absent")),
]
BROKEN = [
    ("naming", topic("shop.orders"), "rule team-label"),
    ("naming", labelled(topic("orders"), TEAM), "rule team-prefix"),
    ("naming", labelled(topic(topicName="shop.Orders_v1"), TEAM), "rule characters"),
    ("partitions", topic(partitions=49), "rule at-most"),
    ("partitions", topic(replicaAssignment=[[1]] * 49), "rule at-most"),
    ("partitions", topic(partitions=3, overrides=[on_a(partitions=49)]), "rule at-most"),
    ("partitions", topic(overrides=[on_a(replicaAssignment=[[1]] * 49)]), "rule at-most"),
    ("retention", topic(config={"retention.ms": 30 * DAY + 1}), "rule ceiling"),
    ("retention", topic(config={"retention.ms": "-1"}), "rule ceiling"),
    ("retention", topic(config={"retention.ms": -1, "cleanup.policy": "compact,delete"}), "rule ceiling"),
    ("retention", topic(overrides=[on_a(config={"retention.ms": -1})]), "rule ceiling"),
    (
        "retention",
        topic(
            config={"retention.ms": -1, "cleanup.policy": "compact"}, overrides=[on_a(config={"cleanup.policy": ""})]
        ),
        "rule ceiling",
    ),
]
WARNED = [(topic(partitions=2), True), (topic(partitions=3), False), (topic(), False)]


@pytest.fixture(scope="session")
def judged(server: ApiServer) -> dict[str, str]:
    """Return the namespaces where the generated policies apply: one namespace for each sample policy."""
    found = {}
    for file in sorted(ADMISSION.glob("policy-*.yaml")):
        name = file.stem.removeprefix("policy-")
        found[name] = f"judged-by-{name}"
        labels = {"judged-by": name}
        server.admin.create_object("/api/v1/namespaces", {"metadata": {"name": found[name], "labels": labels}})
        made = load_documents(file)
        for one in made:
            if one["kind"] == "ValidatingAdmissionPolicyBinding":
                one["spec"]["matchResources"] = {"namespaceSelector": {"matchLabels": labels}}
        done = server.admin.kubectl("apply", "-f", "-", given=to_yaml(made))
        assert done.returncode == 0, done.stderr
    for name, body, message in BROKEN:
        wait_until(lambda: message in _asked(server.admin, found[name], body).message, f"{name}: {message}")  # noqa: B023
    return found


def _asked(api: ApiClient, namespace: str, body: dict[str, Any]) -> ApiResponse:
    return create(api, namespace, body, keep=False)


@pytest.mark.parametrize(("name", "body"), KEPT)
def test_rules_of_samples_let_the_good_pass(
    server_api: ApiClient, judged: dict[str, str], name: str, body: dict[str, Any]
) -> None:
    """A topic that satisfies the rules of a policy passes; ``ensure: Absent`` skips the rules, as in ``validate``."""
    answer = _asked(server_api, judged[name], body)
    assert answer.status == 201, answer.message


@pytest.mark.parametrize(("name", "body", "message"), BROKEN)
def test_rules_of_samples_deny_the_bad(
    server_api: ApiClient, judged: dict[str, str], name: str, body: dict[str, Any], message: str
) -> None:
    """Each rule denies a topic that breaks the rule in its spec or in an override, with the message of the policy."""
    answer = _asked(server_api, judged[name], body)
    assert answer.status == 422
    assert message in answer.message


@pytest.mark.parametrize(("body", "warned"), WARNED)
def test_rules_that_warn_only_warn(api: ApiClient, judged: dict[str, str], body: dict[str, Any], warned: bool) -> None:
    """A rule that warns accepts the resource, and kubectl shows the message."""
    words = ("create", "--dry-run=server", "-n", judged["partitions"], "-f", "-")

    def heard() -> bool:
        done = api.kubectl(*words, given=to_yaml([body]))
        assert done.returncode == 0, done.stderr
        return "fewer than 3 partitions leave brokers idle" in done.stderr

    if warned:
        wait_until(heard, "the binding that warns has arrived")
    assert heard() == warned


def test_every_sample_is_tried(judged: dict[str, str]) -> None:
    """These tests cover every generated policy, and break every rule except the rule that warns."""
    assert judged.keys() == {name for name, *_ in KEPT} == {name for name, *_ in BROKEN}
    made = [one for name in judged for one in load_documents(ADMISSION / f"policy-{name}.yaml")]
    words = [each["message"] for one in made for each in one["spec"].get("validations", ())]
    broken = {message for *_, message in BROKEN} | {"rule at-least"}
    assert {re.search(r"rule [a-z-]+", each)[0] for each in words} == broken  # type: ignore[index]


@pytest.mark.parametrize(("name", "body", "broken"), [*((*each, "") for each in KEPT), *BROKEN])
def test_validate_says_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, body: dict[str, Any], broken: str
) -> None:
    """``validate`` reports an error for the same rule that admission denies, and no error for topics that admission
    accepts.
    """
    clusters = [cluster(each, defaults={"partitions": 6, "replicationFactor": 1}) for each in "ab"]
    judged = {**body, "spec": {"clusters": ["a", "b"], **body["spec"]}}
    for document in (judged, *clusters):
        (tmp_path / f"{document['kind']}-{document['metadata']['name']}.yaml").write_text(json.dumps(document))
    code = run(["validate", str(tmp_path), str(ROOT / "manifests" / "policies" / f"{name}.yaml")])
    said = capsys.readouterr().err
    assert (code, f", {broken})" in said) == (bool(broken), bool(broken)), said
