"""Alert rules and dashboard: valid PromQL, the operator's exported metrics, and explained alerts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from support.checkout import ROOT
from support.kubernetes import promql
from support.kubernetes.helm import CHART, only_document, render
from support.repo.pages import table
from topiarist.kubernetes.metrics import UNKNOWN_CLUSTER, UNREADABLE, Metrics
from topiarist.kubernetes.reconciler import SyncState
from topiarist.kubernetes.work_loop import Requeue, WorkLoop
from topiarist.model.outcome import Result


async def nothing() -> Requeue:
    """An unused pass."""
    raise NotImplementedError


EXPORTED = promql.exported_metrics(Metrics(lambda: {"prod": WorkLoop(nothing)}))

WORDS = {
    ("topiarist_topics", "state"): {UNKNOWN_CLUSTER, UNREADABLE, *(state.value for state in SyncState)},
    ("topiarist_topic_changes_total", "outcome"): {result.value for result in Result},
    ("topiarist_topic_changes_total", "action"): {"create", "grow", "configure", "delete", "adopt", "release"},
    ("controller_runtime_reconcile_total", "result"): {"success", "error"},
    ("topiarist_cluster_requests_total", "result"): {"ok", "error", "lost"},
}
"""Labels with known values."""

PAGE = (ROOT / "docs" / "alerts.md").read_text()
DASHBOARD: dict[str, Any] = json.loads((CHART / "files" / "dashboard.json").read_text())
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
VARIABLES = {each["name"]: each for each in DASHBOARD["templating"]["list"]}


def alerts(**values: Any) -> list[dict[str, Any]]:
    """Return the rules as Prometheus receives them."""
    found = only_document(render({"prometheusRule": {"enabled": True, **values}}), "PrometheusRule")
    return [rule for group in found["spec"]["groups"] for rule in group["rules"]]


def plain(expression: str) -> str:
    """Return a Grafana expression as Prometheus receives it."""
    return expression.replace("$__rate_interval", "5m").replace("$__range", "1h")


EXPRESSIONS = [
    *(pytest.param(rule["expr"], id=rule["alert"]) for rule in alerts()),
    *(
        pytest.param(plain(target["expr"]), id=f"{panel['title']}-{target['refId']}")
        for panel in PANELS
        for target in panel["targets"]
    ),
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_and_label_exists(expression: str) -> None:
    """Every metric and label is exported by the operator or added by Prometheus; label values are possible values."""
    found = promql.metric_selectors(expression)
    assert found
    for metric in found:
        assert metric.name in EXPORTED, f"there is no metric {metric.name}"
        for op, label, value in metric.matchers:
            assert label in EXPORTED[metric.name] | promql.TARGET_LABELS, f"{metric.name} has no label {label}"
            if known := WORDS.get((metric.name, label)):
                assert set(promql.matcher_values(op, value)) <= known, f"{label} is never {value}"
    for labels, metrics in promql.aggregations(expression):
        for name in metrics:
            assert labels <= EXPORTED[name] | promql.TARGET_LABELS, f"{name} has not all of {sorted(labels)}"


@pytest.mark.parametrize("wrong", ["nothing_total", 'topiarist_topics{status="a"}', 'topiarist_topics{state="Lost"}'])
def test_a_wrong_name_would_be_found(wrong: str) -> None:
    """The check reports a wrong metric, a wrong label and an impossible label value."""
    with pytest.raises(AssertionError):
        test_every_metric_and_label_exists(f"sum({wrong})")


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
    for rule in alerts():
        assert rule["labels"]["severity"] in {row[0] for row in table(PAGE, "severity")}, rule["alert"]
        assert {"summary", "description"} == set(rule["annotations"])
        kept = frozenset[str]().union(*(labels for labels, _ in promql.aggregations(rule["expr"])))
        for text in rule["annotations"].values():
            assert text.endswith(".")
            assert promql.placeholders(text) <= kept, rule["alert"]
        assert re.fullmatch(r"\d+[mh]", rule["for"])


def test_every_alert_is_explained() -> None:
    """The page has a section with the severity of every alert, and the schema contains its name."""
    parts = dict(re.findall(r"^## (\w+)\n\n`(\w+)`", PAGE, re.MULTILINE))
    assert parts == {rule["alert"]: rule["labels"]["severity"] for rule in alerts()}
    schema = json.loads((CHART / "values.schema.json").read_text())
    names = schema["properties"]["prometheusRule"]["properties"]["disabled"]["items"]["enum"]
    assert names == [rule["alert"] for rule in alerts()]


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


def test_every_variable_of_the_dashboard_exists() -> None:
    """Every variable is defined or is one of Grafana's own, with two underscores; legends use labels of their
    expression.
    """
    named = {name for text in texts(DASHBOARD) for name in re.findall(r"\$\{?(\w+)", text)}
    assert {name for name in named if not name.startswith("__")} == set(VARIABLES)
    for panel in PANELS:
        for target in panel["targets"]:
            kept = frozenset[str]().union(*(labels for labels, _ in promql.aggregations(plain(target["expr"]))))
            assert promql.placeholders(target["legendFormat"]) <= kept, panel["title"]


def test_the_variables_ask_for_what_exists() -> None:
    """Each variable lists the values of a label that its metric has."""
    for name, each in VARIABLES.items():
        if each["type"] == "query":
            match = re.fullmatch(r"label_values\((.*), (\w+)\)", each["definition"])
            assert match, name
            (metric,) = promql.metric_selectors(match[1])
            assert match[2] in EXPORTED[metric.name] | promql.TARGET_LABELS


def test_every_panel_can_be_read() -> None:
    """Every panel has a title and a description, uses the selected data source and overlaps no other panel."""
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        grid = panel["gridPos"]
        left, top = grid["x"], grid["y"]
        cells = {(x, y) for x in range(left, left + grid["w"]) for y in range(top, top + grid["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])


def test_the_config_map_holds_the_dashboard() -> None:
    """The ConfigMap contains the dashboard byte for byte, although its legends resemble Helm templates."""
    found = only_document(render({"dashboard": {"enabled": True}}), "ConfigMap")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(found["data"]["topiarist.json"]) == DASHBOARD
