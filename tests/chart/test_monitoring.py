"""Alert rules and dashboards: valid PromQL, metrics that the operator or a drift report has, and explained alerts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from support.checkout import ROOT
from support.drift.summaries import full_summary
from support.kubernetes import promql
from support.kubernetes.helm import CHART, only_document, render
from support.repo.pages import table
from topiarist.drift.findings import DriftClass, Severity
from topiarist.drift.outputs import folder as prometheus
from topiarist.kubernetes.identity import Requeue, WorkLoop
from topiarist.kubernetes.metrics import UNKNOWN_CLUSTER, UNREADABLE, Metrics
from topiarist.kubernetes.reconciler import SyncState
from topiarist.kubernetes.topic_status import NAMESPACE_UNAVAILABLE, RIGHTS_MISSING
from topiarist.model.outcome import Result
from topiarist.model.plan import Risk


async def nothing() -> Requeue:
    """An unused pass."""
    raise NotImplementedError


EXPORTED = promql.exported_metrics(Metrics(lambda: {"prod": WorkLoop(nothing, 60.0)}))
DRIFT_EXPORTED = promql.metrics_in_text(prometheus.format_metrics(full_summary()))

WORDS = {
    ("topiarist_topics", "state"): {UNKNOWN_CLUSTER, UNREADABLE, *(state.value for state in SyncState)},
    ("topiarist_topic_changes_total", "outcome"): {result.value for result in Result},
    ("topiarist_topic_changes_total", "action"): {"create", "grow", "configure", "delete", "adopt", "release"},
    ("controller_runtime_reconcile_total", "result"): {"success", "error"},
    ("topiarist_cluster_requests_total", "result"): {"ok", "error", "lost"},
    ("topiarist_drift_findings", "class"): {kind.value for kind in DriftClass},
    ("topiarist_drift_findings_by_risk", "risk"): {risk.label for risk in Risk},
    ("topiarist_drift_findings_by_severity", "severity"): {each.value for each in Severity},
    ("topiarist_drift_findings_by_responsible", "severity"): {each.value for each in Severity},
}
"""Labels with known values."""

PAGE = (ROOT / "docs" / "alerts.md").read_text()
DASHBOARD: dict[str, Any] = json.loads((CHART / "files" / "dashboard.json").read_text())
DRIFT_DASHBOARD: dict[str, Any] = json.loads((CHART / "files" / "drift-dashboard.json").read_text())
DRIFT = {"enabled": True, "owner": "k8s/1b4e28ba/kafka/prod", "manifests": {"configMap": {"name": "topics"}}}


def panels_of(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the panels of a dashboard that show something."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def variables_of(dashboard: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the variables of a dashboard by name."""
    return {each["name"]: each for each in dashboard["templating"]["list"]}


each_dashboard = pytest.mark.parametrize("dashboard", [DASHBOARD, DRIFT_DASHBOARD], ids=lambda each: each["uid"])


def groups(drift: bool, **values: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the rules of each group as Prometheus receives them."""
    given = {"prometheusRule": {"enabled": True, **values}} | ({"drift": DRIFT} if drift else {})
    found = only_document(render(given), "PrometheusRule")
    return {group["name"]: group["rules"] for group in found["spec"]["groups"]}


def alerts(**values: Any) -> list[dict[str, Any]]:
    """Return the rules about the operator."""
    return groups(False, **values)["topiarist"]


def test_the_alert_about_missing_passes_waits_for_the_period() -> None:
    """With a period of two hours a pass that ended an hour ago is none that is missing; usually it is half an hour."""
    for values, seconds in (({}, 1800), ({"period": 7200}, 8940)):
        given = {"prometheusRule": {"enabled": True}, **values}
        rules = only_document(render(given), "PrometheusRule")["spec"]["groups"][0]["rules"]
        (found,) = (each["expr"] for each in rules if each["alert"] == "TopiaristNoPass")
        assert found.strip().endswith(f"> {seconds}")


def drift_alerts(**values: Any) -> list[dict[str, Any]]:
    """Return the rules about drift reports."""
    return groups(True, **values)["topiarist-drift"]


def plain(expression: str) -> str:
    """Return a Grafana expression as Prometheus receives it."""
    return expression.replace("$__rate_interval", "5m").replace("$__range", "1h")


def expressions(rules: list[dict[str, Any]], dashboard: dict[str, Any], exported: promql.ExportedMetrics) -> list[Any]:
    """Return the expressions of rules and panels, named, with the metrics that they may read."""
    return [
        *(pytest.param(rule["expr"], exported, id=rule["alert"]) for rule in rules),
        *(
            pytest.param(plain(target["expr"]), exported, id=f"{panel['title']}-{target['refId']}")
            for panel in panels_of(dashboard)
            for target in panel["targets"]
        ),
    ]


def check_names(expression: str, exported: promql.ExportedMetrics) -> None:
    """Assert that every metric and label is exported or added by Prometheus, and that label values are possible."""
    found = promql.metric_selectors(expression)
    assert found
    for metric in found:
        assert metric.name in exported, f"there is no metric {metric.name}"
        for op, label, value in metric.matchers:
            assert label in exported[metric.name] | promql.TARGET_LABELS, f"{metric.name} has no label {label}"
            if known := WORDS.get((metric.name, label)):
                assert set(promql.matcher_values(op, value)) <= known, f"{label} is never {value}"
    for labels, metrics in promql.aggregations(expression):
        for name in metrics:
            assert labels <= exported[name] | promql.TARGET_LABELS, f"{name} has not all of {sorted(labels)}"


@pytest.mark.parametrize(
    ("expression", "exported"),
    [*expressions(alerts(), DASHBOARD, EXPORTED), *expressions(drift_alerts(), DRIFT_DASHBOARD, DRIFT_EXPORTED)],
)
def test_every_metric_and_label_exists(expression: str, exported: promql.ExportedMetrics) -> None:
    """Rules and panels about the operator read metrics that it exports, and those about drift metrics of a report."""
    check_names(expression, exported)


@pytest.mark.parametrize(
    "wrong",
    [
        "nothing_total",
        'topiarist_topics{status="a"}',
        'topiarist_topics{state="Lost"}',
        "topiarist_drift_nothing",
        'topiarist_drift_findings{topic="a"}',
        'topiarist_drift_findings{class="lost"}',
    ],
)
def test_a_wrong_name_would_be_found(wrong: str) -> None:
    """The check reports a wrong metric, a wrong label and an impossible label value."""
    with pytest.raises(AssertionError):
        check_names(f"sum({wrong})", {**EXPORTED, **DRIFT_EXPORTED})


def test_every_alert_speaks_of_this_release() -> None:
    """Every alert selects the metrics of this release only, by the labels of its Service or by the values."""
    for selector, wanted in (
        ("", {("job", "topiarist"), ("namespace", "kafka")}),
        ('cluster_name="a",job=~"b.*"', {("cluster_name", "a"), ("job", "b.*")}),
    ):
        for rule in alerts(selector=selector):
            for metric in promql.metric_selectors(rule["expr"]):
                assert wanted <= {(label, value) for _, label, value in metric.matchers}, rule["alert"]


def test_every_alert_says_what_is_wrong() -> None:
    """Every alert has a severity, a summary and a description with labels of its expression only."""
    for rule in [*alerts(), *drift_alerts()]:
        assert rule["labels"]["severity"] in {row[0] for row in table(PAGE, "severity")}, rule["alert"]
        assert {"summary", "description"} == set(rule["annotations"])
        kept = frozenset[str]().union(*(labels for labels, _ in promql.aggregations(rule["expr"])))
        for text in rule["annotations"].values():
            assert text.endswith(".")
            assert promql.placeholders(text) <= kept, rule["alert"]
        assert re.fullmatch(r"\d+[mh]", rule["for"])


def test_every_lasting_condition_of_the_operator_has_an_alert() -> None:
    """The conditions that all Clusters have because of the operator's own access have a metric and an alert each."""
    metrics = {NAMESPACE_UNAVAILABLE: "topiarist_namespace_away", RIGHTS_MISSING: "topiarist_missing_rights"}
    used = {rule["alert"]: {metric.name for metric in promql.metric_selectors(rule["expr"])} for rule in alerts()}
    assert {f"Topiarist{condition}": {metric} for condition, metric in metrics.items()}.items() <= used.items()


def test_every_alert_is_explained() -> None:
    """The page has a section with the severity of every alert, and the schema contains its name."""
    parts = dict(re.findall(r"^## (\w+)\n\n`(\w+)`", PAGE, re.MULTILINE))
    rules = [*alerts(), *drift_alerts()]
    assert parts == {rule["alert"]: rule["labels"]["severity"] for rule in rules}
    schema = json.loads((CHART / "values.schema.json").read_text())
    names = schema["properties"]["prometheusRule"]["properties"]["disabled"]["items"]["enum"]
    assert names == [rule["alert"] for rule in rules]


def test_alerts_can_be_left_out_labelled_and_linked() -> None:
    """Values omit, label and link alerts; a label of the user replaces topiarist's label."""
    found = alerts(
        disabled=["TopiaristDown"],
        ruleLabels={"team": "platform", "severity": "page"},
        runbookUrl="https://topiarist.dev/alerts.md",
    )
    assert [rule["alert"] for rule in found] == [rule["alert"] for rule in alerts()][1:]
    for rule in found:
        assert rule["labels"] == {"team": "platform", "severity": "page"}
        assert rule["annotations"]["runbook_url"] == f"https://topiarist.dev/alerts.md#{rule['alert'].lower()}"


def texts(value: Any) -> Iterator[str]:
    """Yield all text in a document."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from texts(each)
    elif isinstance(value, str):
        yield value


@each_dashboard
def test_every_variable_of_the_dashboard_exists(dashboard: dict[str, Any]) -> None:
    """Every variable is defined or is one of Grafana's own, with two underscores; legends use labels of their
    expression.
    """
    named = {name for text in texts(dashboard) for name in re.findall(r"\$\{?(\w+)", text)}
    assert {name for name in named if not name.startswith("__")} == set(variables_of(dashboard))
    for panel in panels_of(dashboard):
        for target in panel["targets"]:
            kept = frozenset[str]().union(*(labels for labels, _ in promql.aggregations(plain(target["expr"]))))
            assert promql.placeholders(target["legendFormat"]) <= kept, panel["title"]


@pytest.mark.parametrize(
    ("dashboard", "exported"),
    [(DASHBOARD, EXPORTED), (DRIFT_DASHBOARD, DRIFT_EXPORTED)],
    ids=["topiarist", "topiarist-drift"],
)
def test_the_variables_ask_for_what_exists(dashboard: dict[str, Any], exported: promql.ExportedMetrics) -> None:
    """Each variable lists the values of a label that its metric has."""
    for name, each in variables_of(dashboard).items():
        if each["type"] == "query":
            match = re.fullmatch(r"label_values\((.*), (\w+)\)", each["definition"])
            assert match, name
            (metric,) = promql.metric_selectors(match[1])
            assert match[2] in exported[metric.name] | promql.TARGET_LABELS


@each_dashboard
def test_every_panel_can_be_read(dashboard: dict[str, Any]) -> None:
    """Every panel has a title and a description, uses the selected data source and overlaps no other panel."""
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        grid = panel["gridPos"]
        left, top = grid["x"], grid["y"]
        cells = {(x, y) for x in range(left, left + grid["w"]) for y in range(top, top + grid["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    for panel in panels_of(dashboard):
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])


@pytest.mark.parametrize(
    ("values", "dashboards"),
    [
        ({}, {"topiarist.json": DASHBOARD}),
        ({"drift": DRIFT}, {"topiarist.json": DASHBOARD, "topiarist-drift.json": DRIFT_DASHBOARD}),
    ],
    ids=["operator", "drift"],
)
def test_the_config_map_holds_the_dashboards(values: dict[str, Any], dashboards: dict[str, Any]) -> None:
    """Each is whole, although its legends resemble Helm templates; that of drift comes with drift reports."""
    found = only_document(render({"dashboard": {"enabled": True}, **values}), "ConfigMap")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert {name: json.loads(text) for name, text in found["data"].items()} == dashboards


def test_the_alerts_of_drift_come_with_drift_reports() -> None:
    """The second group is there if the chart makes drift reports; a selector reaches every metric."""
    assert set(groups(False)) == {"topiarist"}
    for rule in drift_alerts(driftSelector='job="drift"'):
        for metric in promql.metric_selectors(rule["expr"]):
            assert ("job", "drift") in {(label, value) for _, label, value in metric.matchers}, rule["alert"]


def test_the_plain_files_are_those_of_the_chart() -> None:
    """Without the chart, Prometheus and Grafana get the same rules and the same dashboard."""
    folder = ROOT / "manifests" / "monitoring"
    (group,) = yaml.safe_load((folder / "drift-alerts.yaml").read_text())["groups"]
    assert group == {"name": "topiarist-drift", "rules": drift_alerts()}
    assert json.loads((folder / "drift-dashboard.json").read_text()) == DRIFT_DASHBOARD
