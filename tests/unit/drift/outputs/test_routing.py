"""The findings of a report to those who repair them: files of teams, and messages to a webhook."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.cli.runs import document
from support.drift.small_fleet import (
    REPLICA_LISTS,
    cluster_state,
    owned_topic,
    read_rows,
    read_summary,
    run_drift,
    topic_document,
    write_manifests,
    write_snapshot,
)
from support.network.webhook import Listener
from topiarist.drift.outputs import routing
from topiarist.drift.outputs.routing import name_team_file
from topiarist.model.state import TopicState

SECRET = "T0/B0/s3cr3t-part"
HINT = "the report is written; to send its news again, repeat the run with the same --previous or --history"


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the manifests of a cluster: two teams with a missing topic each, and a topic without a manifest."""
    monkeypatch.chdir(tmp_path)
    take_snapshot(tmp_path)
    topics = [json.loads(topic_document(name, ["eu"])) for name in ("orders", "users")]
    topics[0]["metadata"]["labels"] = {"team": "shop"}
    write_manifests(tmp_path / "fleet", ["eu"], *map(json.dumps, topics[:1]))
    (tmp_path / "fleet" / "web").mkdir()
    (tmp_path / "fleet" / "web" / "users.yaml").write_text(json.dumps(topics[1]))
    return Path("fleet")


def take_snapshot(tmp_path: Path, *names: str, hours: int = 0) -> None:
    """Write the snapshot of the cluster, with some of the declared topics and one other."""
    guest = TopicState("guest", "9", REPLICA_LISTS)
    write_snapshot(tmp_path / "snapshots", "eu", cluster_state("eu", guest, *map(owned_topic, names)), hours=hours)


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    """Return a listener; the variable ``HOOK`` has its address."""
    with Listener().serve() as made:
        monkeypatch.setenv("HOOK", f"{made.url}/{SECRET}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield made


def test_each_team_has_its_file(fleet: Path, tmp_path: Path) -> None:
    """The files of the teams have the lines of the report, each once, also after a second run."""
    out = tmp_path / "report"
    (tmp_path / "CODEOWNERS").write_text("* @platform\n/fleet/web/ @org/web @ops\n")
    words = ("-q", "--owner-label", "team", "--codeowners", "CODEOWNERS", "--split-by", "responsible")
    for _ in range(2):
        assert run_drift(fleet, out, *words) == 0
    files = {path.name: path.read_text() for path in (out / "by-responsible").iterdir()}
    assert {*files} == {"shop.jsonl", "@org%2Fweb, @ops.jsonl", "(none).jsonl"}
    lines = (out / "findings.jsonl").read_text().splitlines()
    assert sorted(line for text in files.values() for line in text.splitlines()) == sorted(lines)
    for row in read_rows(out):
        assert json.dumps(row, separators=(",", ":")) in files[name_team_file(row["responsible"])].splitlines()


def test_a_label_comes_before_the_owners_of_the_file(fleet: Path, tmp_path: Path) -> None:
    """The label of the document counts first, then CODEOWNERS, then the label of the cluster, then the owner."""
    text = (fleet / "all.yaml").read_text()
    cluster, rest = text.split("\n---\n")
    labelled = json.loads(cluster)
    labelled["metadata"]["labels"] = {"team": "platform"}
    (fleet / "all.yaml").write_text("\n---\n".join([json.dumps(labelled), rest]))
    (tmp_path / "CODEOWNERS").write_text("* @all\n")
    run_drift(fleet, tmp_path / "report", "-q", "--owner-label", "team", "--codeowners", "CODEOWNERS")
    found = {row["topic"]: row["responsible"] for row in read_rows(tmp_path / "report")}
    assert found == {"orders": "shop", "users": "@all", "guest": "platform"}
    run_drift(fleet, tmp_path / "report", "-q", "--codeowners", "CODEOWNERS")
    found = {row["topic"]: row["responsible"] for row in read_rows(tmp_path / "report")}
    assert found == {"orders": "@all", "users": "@all", "guest": None}


def test_lines_of_codeowners_that_do_not_count_are_logged(
    fleet: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that the host ignores is named once."""
    (tmp_path / "CODEOWNERS").write_text("* shop\n")
    run_drift(fleet, tmp_path / "report", "--codeowners", "CODEOWNERS")
    why = 'found "shop", wanted @NAME, @GROUP/TEAM or an address'
    assert f"CODEOWNERS:1: ignored, as the host of the repository does: {why}\n" in capsys.readouterr().err
    assert run_drift(fleet, tmp_path / "report", "--codeowners", "none") == 1


@pytest.mark.parametrize(
    ("team", "name"),
    [
        ("shop", "shop.jsonl"),
        (None, "(none).jsonl"),
        ("(none)", "%28none%29.jsonl"),
        ("../x", "%2E./x.jsonl".replace("/", "%2F")),
        ("a/b", "a%2Fb.jsonl"),
    ],
)
def test_names_of_files_lead_nowhere_else(team: str | None, name: str) -> None:
    """No name of a team is a path, a hidden file, or the file of another team."""
    assert name_team_file(team) == name


def test_long_names_of_teams_have_files_of_their_own() -> None:
    """Owners of a file may be many: a name that is too long for a file ends with a checksum, and no escape is cut."""
    many = ", ".join(f"@org/team-{number:03}" for number in range(40))
    teams = [many, f"{many}, @org/x", f"{many}, @org/y"]
    names = [name_team_file(team) for team in [*teams, "é" * 90]]
    assert len({*names}) == 4
    assert all(len(name.encode()) <= 255 and re.fullmatch(r"(?:[^%]|%[0-9A-F]{2})+", name) for name in names)
    assert names[0].endswith(f"~{sha256(many.encode()).hexdigest()[:12]}.jsonl")  # the same name in each run


def test_a_webhook_gets_the_news(
    fleet: Path, tmp_path: Path, listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message has the new and resolved findings; without any, none is sent; no line has the address."""
    out = tmp_path / "report"
    words = ("--webhook", "env:HOOK", "--previous", str(out))
    assert run_drift(fleet, out, *words) == 0
    (first,) = listener.received
    assert (first.path, first.headers["content-type"]) == (f"/{SECRET}", "application/json")
    assert first.body == {
        **{"formatVersion": 1, "asOf": "2025-01-31T12:00:00Z", "owner": "default"},
        **{"counts": {"new": 3, "worse": 0, "resolved": 0}, "bySeverity": {"Critical": 2, "Low": 1}},
        **{"new": read_rows(out), "worse": [], "resolved": []},
    }
    take_snapshot(tmp_path, "orders", hours=1)
    assert run_drift(fleet, out, *words) == 0
    second = listener.received[1].body
    assert second["counts"] == {"new": 0, "worse": 0, "resolved": 1}
    assert [row["topic"] for row in second["resolved"]] == ["orders"]
    take_snapshot(tmp_path, "orders", hours=2)
    assert run_drift(fleet, out, *words) == 0
    assert len(listener.received) == 2
    said = capsys.readouterr().err
    assert [line for line in said.splitlines() if line.endswith("resolved") or "nothing" in line] == [
        "sent to the webhook: 3 new, 0 worse, 0 resolved",
        "sent to the webhook: 0 new, 0 worse, 1 resolved",
        "nothing is new, worse or resolved, so nothing was sent to the webhook",
    ]
    assert "s3cr3t" not in said


def test_a_message_has_the_first_of_many(
    fleet: Path, tmp_path: Path, listener: Listener, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message has a limit; the counts are those of all, and the run says how many were left out."""
    monkeypatch.setattr(routing, "MAX_SENT", 1)
    run_drift(fleet, tmp_path / "report", "--webhook", "env:HOOK")
    assert len(listener.received[0].body["new"]) == 1
    assert listener.received[0].body["counts"]["new"] == 3
    assert "\nsent to the webhook: 3 new, 0 worse, 0 resolved; 2 findings left out\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((403, "invalid_token"), "it refuses the findings: HTTP status 403: invalid_token"),
        ((500, ""), "it refuses the findings: HTTP status 500"),
        ((404, "no hook s3cr3t-part"), "it refuses the findings: HTTP status 404"),
        ((302, ""), "it refuses the findings: HTTP status 302"),
        ((400, "\x1b[2J\nbad"), "it refuses the findings: HTTP status 400: \\x1b[2J bad"),
        ((400, "x" * 300), f"it refuses the findings: HTTP status 400: {'x' * 197}..."),
    ],
)
def test_a_refusal_is_named(
    fleet: Path,
    tmp_path: Path,
    listener: Listener,
    capsys: pytest.CaptureFixture[str],
    answer: tuple[int, str],
    said: str,
) -> None:
    """The report is written, the run ends with 1, and the error has the answer, but never a part of the address."""
    listener.answers.append(answer)
    assert run_drift(fleet, tmp_path / "report", "-q", "--webhook", "env:HOOK") == 1
    assert capsys.readouterr().err == f"error: --webhook env:HOOK (127.0.0.1): {said}\n    {HINT}\n"
    assert len(listener.received) == 1
    assert len(read_rows(tmp_path / "report")) == 3


def test_a_refusal_says_which_news_no_later_run_sends(
    fleet: Path, tmp_path: Path, listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    """A report that replaces the previous one has its news alone: the next run has others."""
    listener.answers.append((500, ""))
    out = tmp_path / "report"
    assert run_drift(fleet, out, "-q", "--webhook", "env:HOOK", "--previous", f"{out}/") == 1
    hint = "the report is written; no later run sends its news: its New and Worse findings, and resolved.jsonl"
    assert f"    {hint}\n" in capsys.readouterr().err


def test_a_silent_webhook_ends_in_time(
    fleet: Path, tmp_path: Path, listener: Listener, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that does not answer costs a time-out, and no more."""
    monkeypatch.setattr(routing, "TIMEOUT_S", 0.05)
    listener.answered.clear()
    assert run_drift(fleet, tmp_path / "report", "-q", "--webhook", "env:HOOK") == 1
    said = capsys.readouterr().err
    assert said.startswith("error: --webhook env:HOOK (127.0.0.1): no answer: ")
    assert said.endswith(f"\n    {HINT}\n")
    assert "s3cr3t" not in said


@pytest.mark.parametrize(
    "case",
    [
        (
            "https://hooks.example.com/s3cr3t-part",
            "",
            2,
            "--webhook: wanted env:NAME or file:PATH, because the address is a secret\n"
            "    export the address as a variable, and give its name",
        ),
        ("env:NONE", "", 1, "--webhook: the environment variable NONE is not set"),
        ("file:none", "", 1, "--webhook: the file none does not exist"),
        (
            "env:HOOK",
            "s3cr3t-part",
            1,
            "--webhook env:HOOK: found no address there, wanted https://hooks.example.com/PATH",
        ),
        (
            "env:HOOK",
            "ftp://x/s3cr3t-part",
            1,
            "--webhook env:HOOK: found no address there, wanted https://hooks.example.com/PATH",
        ),
        *(
            (
                "env:HOOK",
                f"http://127.0.0.1:1/{path}",
                1,
                "--webhook env:HOOK: found no address there, wanted https://hooks.example.com/PATH",
            )
            for path in ("s3cr3t-part with blanks", "s3cr3t-p\u00e4rt")
        ),
        (
            "env:HOOK",
            "http:" + "//me:s3cr3t-part@localhost/",
            1,
            "--webhook env:HOOK: its user and password would be sent without encryption\n    use https",
        ),
        (
            "env:HOOK",
            "http://127.0.0.1:1/s3cr3t-part",
            1,
            f"--webhook env:HOOK (127.0.0.1): no answer: Connection refused\n    {HINT}",
        ),
    ],
)
def test_an_unusable_address_is_named(
    fleet: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, case: tuple[str, str, int, str]
) -> None:
    """The error names the reference and the remedy, and never the address; a wrong one costs no comparison."""
    reference, url, code, said = case
    monkeypatch.setenv("HOOK", url)
    assert run_drift(fleet, Path.cwd() / "report", "-q", "--webhook", reference) == code
    assert capsys.readouterr().err == f"error: {said}\n"
    assert Path("report").exists() == ("no answer" in said)


def test_an_address_in_a_file_may_have_a_user(
    fleet: Path, tmp_path: Path, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file may have the address; its user and password are sent as Basic authentication, and not in the address."""
    monkeypatch.setattr(routing, "_parse_address", lambda text, _: urlsplit(text))
    (tmp_path / "hook").write_text(f"{listener.url.replace('//', '//ops%40x:s3cr3t@')}/jira\n")
    assert run_drift(fleet, tmp_path / "report", "-q", "--webhook", "file:hook") == 0
    (received,) = listener.received
    assert received.path == "/jira"
    assert received.headers["authorization"] == "Basic b3BzQHg6czNjcjN0"
    assert "s3cr3t" not in received.headers["host"]


def test_the_share_in_step_is_of_declared_topics_of_each_team(fleet: Path, tmp_path: Path) -> None:
    """Each declared topic counts for its team, in step unless it has a finding that nothing accepts."""
    out, words = tmp_path / "report", ("-q", "--owner-label", "team", "--codeowners", "CODEOWNERS")
    (tmp_path / "CODEOWNERS").write_text("/fleet/web/ @web\n")
    take_snapshot(tmp_path, "users")
    run_drift(fleet, out, *words)
    steps = [
        {"responsible": "@web", "topics": 1, "inStep": 1},
        {"responsible": "shop", "topics": 1, "inStep": 0},
    ]
    assert read_summary(out)["inStep"] == steps
    metrics = (out / "metrics.prom").read_text()
    assert 'topiarist_drift_topics_compared_by_responsible{responsible="shop"} 1\n' in metrics
    assert 'topiarist_drift_topics_in_step_by_responsible{responsible="shop"} 0\n' in metrics
    fields = {"topics": ["orders"], "classes": ["missing"], "reason": "r", "author": "a", "until": "2025-12-31"}
    (fleet / "some.yaml").write_text(document("DriftException", "some", **fields))
    run_drift(fleet, out, *words)
    assert read_summary(out)["inStep"][1] == {"responsible": "shop", "topics": 1, "inStep": 1}
    run_drift(fleet, out, "-q")
    assert read_summary(out)["inStep"] == [{"responsible": "default", "topics": 2, "inStep": 2}]
    run_drift(fleet, out, "-q", "--topic", "orders")
    assert read_summary(out)["inStep"] == []
    (tmp_path / "snapshots" / "eu.jsonl").write_text("")
    run_drift(fleet, out, "-q")
    assert read_summary(out)["inStep"] == []


def test_topics_that_were_not_judged_are_in_no_share(fleet: Path, tmp_path: Path) -> None:
    """A snapshot that lacks rows counts only for the topics that it has."""
    take_snapshot(tmp_path, "users")
    path = tmp_path / "snapshots" / "eu.jsonl"
    path.write_text(
        "".join(line for line in path.read_text().splitlines(keepends=True) if '"users"' not in line) + "?\n"
    )
    run_drift(fleet, tmp_path / "report", "-q")
    found = read_summary(tmp_path / "report")
    assert found["topics"]["notJudged"] == 2
    assert found["inStep"] == []
