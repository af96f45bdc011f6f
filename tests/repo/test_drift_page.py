"""The first report of docs/drift.md, executed as the page says, and the script docs/drift/news.sh."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.checkout import ROOT
from support.drift.small_fleet import (
    cluster_state,
    owned_topic,
    read_rows,
    run_drift,
    topic_document,
    write_manifests,
    write_snapshot,
)
from support.network.webhook import Listener, Received
from support.repo.pages import blocks
from support.repo.walkthrough import (
    CommandOutput,
    PageRun,
    echo_commands,
    environment,
    expected_code,
    output_blocks,
    run_block,
    write_outputs,
)

PAGE = ROOT / "docs" / "drift.md"


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> PageRun:
    """Return the page, executed once in an empty folder, with topiarist on the path."""
    env = environment() | {"PATH": f"{sys.prefix}/bin:{os.environ['PATH']}"}
    folder = tmp_path_factory.mktemp("newcomer")
    run = PageRun([], [])
    for block in blocks(PAGE.read_text()):
        if block.marker.startswith("run"):
            code, outputs = run_block(echo_commands(block.text), folder, env)
            run.codes.append((block.text + "".join(text for _, text in outputs), expected_code(block), code))
            run.printed.extend(CommandOutput(command, text, block.start) for command, text in outputs)
    assert Path(folder, "fleet", "report", "report.html").exists()
    if os.environ.get("TOPIARIST_GOLDEN") == "write":
        write_outputs(PAGE, run)
    return run


def test_the_page_begins_with_a_report() -> None:
    """The first command of the page is the demo, and its output is shown."""
    first, shown = blocks(PAGE.read_text())[:2]
    assert first.text == "topiarist drift --demo fleet\n"
    assert shown.marker == "output of: topiarist drift --demo fleet"


def test_every_command_ends_with_the_code_that_the_page_says(story: PageRun) -> None:
    """Every executed block exits with the code of its mark."""
    assert story.codes
    for text, expected, found in story.codes:
        assert found == expected, text


def test_what_is_shown_is_what_is_printed(story: PageRun) -> None:
    """The output on the page is that of the product exactly."""
    shown = output_blocks(PAGE.read_text())
    assert shown
    for block in shown:
        assert block.text == story.output(block), f"{block.marker}: not so; make golden writes it anew"


SCRIPT = ROOT / "docs" / "drift" / "news.sh"

KEYS = {"JIRA_USER": "ada@example.com:s3cr3t", "PAGERDUTY_KEY": "s3cr3t"}


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """Return the manifests of a cluster with a report: messages of a topic are lost, another has a value too much."""
    topics = (owned_topic("a.b", {"retention.ms": "60000"}), owned_topic("users", {"flush.ms": "5"}))
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu", *topics))
    documents = (topic_document("a.b", ["eu"], config={"retention.ms": 604800000}), topic_document("users", ["eu"]))
    manifests = write_manifests(tmp_path / "fleet", ["eu"], *documents)
    assert run_drift(manifests, tmp_path / "report", "-q") == 0
    return manifests


def repair(fleet: Path) -> None:
    """Write the next report, in which the critical finding is resolved."""
    topics = (owned_topic("a.b", {"retention.ms": "604800000"}), owned_topic("users", {"flush.ms": "5"}))
    write_snapshot(fleet.parent / "snapshots", "eu", cluster_state("eu", *topics), hours=1)
    assert run_drift(fleet, fleet.parent / "report", "-q", "--previous", str(fleet.parent / "report")) == 0


@pytest.fixture
def listener() -> Iterator[Listener]:
    """Return a listener."""
    with Listener().serve() as made:
        yield made


def send(name: str, folder: Path, listener: Listener) -> tuple[list[Received], subprocess.CompletedProcess[str]]:
    """Send the news of the report in a folder to a service; return what the listener got."""
    urls = {f"{each}_URL": f"{listener.url}/s3cr3t/{each.lower()}" for each in ("SLACK", "TEAMS", "JIRA", "PAGERDUTY")}
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "no_proxy": "127.0.0.1", **urls, **KEYS}
    done = subprocess.run(["bash", str(SCRIPT), name], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert "s3cr3t" not in done.stdout + done.stderr
    received, listener.received = listener.received, []
    return received, done


def test_another_service_is_a_usage_error(fleet: Path, listener: Listener) -> None:
    """An unknown service sends nothing, and the services that the script has are printed."""
    received, done = send("irc", fleet.parent, listener)
    assert (received, done.returncode) == ([], 2)
    assert "slack|teams|jira|pagerduty" in done.stderr


@pytest.mark.parametrize("name", ["slack", "teams"])
def test_a_message_names_the_news(fleet: Path, listener: Listener, name: str) -> None:
    """One message has the number of the news and their topics; without news there is none."""
    (received,), done = send(name, fleet.parent, listener)
    assert (done.returncode, done.stderr, received.path) == (0, "", f"/s3cr3t/{name}")
    text = str(received.body)
    assert "Drift: 2 new or worse" in text
    assert "a.b" in text
    assert "users" in text
    if name == "slack":
        assert {*received.body} == {"text"}
    else:
        (card,) = received.body["attachments"]
        assert [each["type"] for each in card["content"]["body"]] == ["TextBlock"] * 3
    repair(fleet)
    assert send(name, fleet.parent, listener)[0] == []


def test_an_issue_of_jira_is_one_critical_finding(fleet: Path, listener: Listener) -> None:
    """Each critical finding is an issue with its id as a label, and with the user of the site."""
    (received,), done = send("jira", fleet.parent, listener)
    assert (done.returncode, received.path) == (0, "/s3cr3t/jira/rest/api/2/issue")
    assert received.headers["authorization"].startswith("Basic ")
    (critical,) = (row for row in read_rows(fleet.parent / "report") if row["severity"] == "Critical")
    fields: dict[str, Any] = received.body["fields"]
    assert (fields["labels"], fields["project"]) == (["drift", critical["id"]], {"key": "KAFKA"})
    assert fields["summary"] == f"a.b on eu: config.retention.ms {critical['effectReason']}"
    assert critical["command"] in fields["description"]


def test_an_incident_of_pagerduty_is_resolved_with_its_finding(fleet: Path, listener: Listener) -> None:
    """A critical finding triggers an event, and the report without it resolves the same."""
    (critical,) = (row for row in read_rows(fleet.parent / "report") if row["severity"] == "Critical")
    (received,), done = send("pagerduty", fleet.parent, listener)
    assert done.returncode == 0, done.stderr
    event = received.body
    assert (event["event_action"], event["dedup_key"], event["routing_key"]) == ("trigger", critical["id"], "s3cr3t")
    assert {"summary", "source", "severity"} == {*event["payload"]}
    repair(fleet)
    (received,), _ = send("pagerduty", fleet.parent, listener)
    assert received.body == {"routing_key": "s3cr3t", "event_action": "resolve", "dedup_key": critical["id"]}


@pytest.mark.parametrize("name", ["slack", "teams"])
def test_a_refusal_ends_a_recipe(fleet: Path, listener: Listener, name: str) -> None:
    """A refused message ends the script with an error, which has no secret."""
    listener.answers.append((403, "no"))
    _, done = send(name, fleet.parent, listener)
    assert done.returncode != 0
    assert "403" in done.stderr
