"""The scripts of the action that ask GitHub's API, run as its steps run them, against a stand-in for that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.cli.github_action import (
    HEAD,
    PLAN_MARKER,
    SHA,
    merge_pull_request,
    run_comment_script,
    run_reviewed_script,
    workflow_run,
)
from support.cli.github_api import REPOSITORY, TOKEN, FakeGitHubApi, GitHubResponse, zip_files

PLAN = f'{PLAN_MARKER}\n### Plan: 1 to create.\n\n| `é` | "quoted" \\ |\n'


@pytest.fixture
def merged(api: FakeGitHubApi) -> FakeGitHubApi:
    """Pull request 7 was merged, and a plan of it was kept."""
    merge_pull_request(api, {"plan.json": '{"formatVersion": 1}', "plan.md": PLAN})
    return api


def asked(api: FakeGitHubApi) -> list[str]:
    """Methods and last words of the paths of all requests."""
    return [f"{request.method} {request.path.rpartition('/')[2]}" for request in api.requests]


@pytest.mark.slow
def test_a_pull_request_has_one_comment_however_often_it_is_planned(api: FakeGitHubApi, tmp_path: Path) -> None:
    """One look for an earlier one, then one comment with exactly the plan, which later runs update."""
    api.add_comment("a person's words", "somebody")
    for text in (PLAN, PLAN.replace("1 to", "2 to"), PLAN.replace("1 to", "3 to")):
        done = run_comment_script(api, tmp_path, text)
        assert (done.returncode, done.stderr) == (0, "")
        assert [entry["body"] for entry in api.comments] == ["a person's words", text]
    assert asked(api) == ["GET comments", "POST comments", *["GET comments", "PATCH 1001"] * 2]
    assert api.requests[0].headers["accept"] == "application/vnd.github+json"


@pytest.mark.slow
@pytest.mark.parametrize("page", [100, 30])
def test_the_comment_is_found_on_any_page(api: FakeGitHubApi, tmp_path: Path, page: int) -> None:
    """Pages are counted, whatever their size; the address that an answer names is never asked."""
    api.page_size = page
    for number in range(250):
        api.add_comment(f"talk {number}", "somebody")
    mine = api.add_comment(PLAN)
    for number in range(120):
        api.add_comment(f"talk {number}", "somebody")
    assert run_comment_script(api, tmp_path, PLAN.replace("1 to", "2 to")).returncode == 0
    pages = [request.query["page"] for request in api.requests if request.method == "GET"]
    assert pages == [str(number) for number in range(1, 250 // page + 2)]
    assert asked(api)[-1] == f"PATCH {mine}"
    assert len(api.comments) == 371


def test_what_others_wrote_is_never_updated(api: FakeGitHubApi, tmp_path: Path) -> None:
    """A comment with the marker that is not the bot's, or that only quotes it, could say anything tomorrow."""
    api.add_comment(PLAN, "somebody")
    api.add_comment(f"> {PLAN}")
    api.add_comment(PLAN.replace(PLAN_MARKER, "<!-- topiarist plan prod -->"))
    before = [entry["body"] for entry in api.comments]
    assert run_comment_script(api, tmp_path, PLAN).returncode == 0
    assert [entry["body"] for entry in api.comments] == [*before, PLAN]


@pytest.mark.slow
def test_several_plans_have_a_comment_each(api: FakeGitHubApi, tmp_path: Path) -> None:
    """A key tells them apart; so does the author that a token of one's own has."""
    for _ in range(2):
        assert run_comment_script(api, tmp_path, PLAN, COMMENT_KEY="prod").returncode == 0
        assert run_comment_script(api, tmp_path, PLAN).returncode == 0
    wanted = [PLAN.replace(PLAN_MARKER, "<!-- topiarist plan prod -->"), PLAN]
    assert [entry["body"] for entry in api.comments] == wanted
    mine = api.add_comment(PLAN, "topic-bot")
    assert run_comment_script(api, tmp_path, PLAN, COMMENT_AUTHOR="topic-bot").returncode == 0
    assert asked(api)[-1] == f"PATCH {mine}"
    assert run_comment_script(api, tmp_path, PLAN, COMMENT_KEY="a --> b").returncode == 1


def test_a_comment_that_was_deleted_meanwhile_is_made_anew(api: FakeGitHubApi, tmp_path: Path) -> None:
    """A user deletes the comment between the search and the update: a new comment is written."""
    api.add_comment(PLAN)
    api.failures["PATCH"] = GitHubResponse(404, {"message": "Not Found"})
    assert run_comment_script(api, tmp_path, PLAN).returncode == 0
    assert asked(api) == ["GET comments", "PATCH 1000", "POST comments"]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
@pytest.mark.parametrize(
    ("status", "content", "words"),
    [
        (401, {"message": "Bad credentials"}, "GitHub returned 401, Bad credentials. Give the job `permissions: "),
        (
            403,
            {"message": f"Resource not accessible with {TOKEN}"},
            "GitHub returned 403, Resource not accessible with ***. Give the job `permissions: pull-requests: write`; "
            "a run for a pull request from a fork never has it",
        ),
        (
            422,
            {"message": "Validation Failed", "errors": [{"message": "body is too long"}]},
            "GitHub returned 422, Validation Failed; body is too long",
        ),
        (
            500,
            b"<html>\n::error::no",
            "GitHub returned 500, no message. GitHub is busy or has an error: run the job again",
        ),
        (429, {"message": "a\n::error::b"}, "GitHub returned 429, a%0A::error::b. GitHub is busy or has an error"),
    ],
)
def test_failures_end_in_words(
    api: FakeGitHubApi, tmp_path: Path, method: str, status: int, content: Any, words: str
) -> None:
    """What could not be done, what GitHub said, and what to do: as one annotation, without the token."""
    if method == "PATCH":
        api.add_comment(PLAN)
    api.failures[method] = GitHubResponse(status, content)
    done = run_comment_script(api, tmp_path, PLAN)
    (line,) = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (1, "")
    assert line.startswith("::error title=topiarist::cannot ")
    assert words in line
    assert asked(api)[-1].startswith(method)


def test_an_api_that_is_not_there_is_named(api: FakeGitHubApi, tmp_path: Path) -> None:
    """No answer is no comment, and the run says so."""
    done = run_comment_script(api, tmp_path, PLAN, GITHUB_API_URL="http://127.0.0.1:1")
    assert done.returncode == 1
    assert done.stdout.startswith("::error title=topiarist::cannot reach GitHub's API: ")


@pytest.mark.parametrize("name", ["GITHUB_TOKEN", "PULL_REQUEST", "GITHUB_API_URL"])
def test_nothing_is_sent_where_something_is_missing(api: FakeGitHubApi, tmp_path: Path, name: str) -> None:
    """Each variable that is needed is named; a file that is no plan is not put anywhere."""
    done = run_comment_script(api, tmp_path, PLAN, **{name: ""})
    assert (done.returncode, done.stdout) == (1, f"::error title=topiarist::{name} is not set\n")
    assert "marker" in run_comment_script(api, tmp_path, "something else\n").stdout
    assert "wanted a number" in run_comment_script(api, tmp_path, PLAN, PULL_REQUEST="7/../8").stdout
    assert api.requests == []


@pytest.mark.slow
def test_the_plan_of_the_merged_pull_request_is_fetched(merged: FakeGitHubApi, tmp_path: Path) -> None:
    """From the newest run for that pull request's last commit; where the archive lies no token is sent."""
    done = run_reviewed_script(merged, tmp_path / "plan.json", GITHUB_OUTPUT=str(tmp_path / "output"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"the plan of pull request 7 at commit {HEAD}, from run 42\n"
    assert (tmp_path / "plan.json").read_text() == '{"formatVersion": 1}'
    assert (tmp_path / "output").read_text() == "pull-request=7\n"
    query = merged.requests[1].query
    assert query == {"head_sha": HEAD, "event": "pull_request", "status": "success", "per_page": "100"}
    assert merged.requests[2].query["name"] == "topiarist-plan"


@pytest.mark.slow
def test_a_workflow_of_another_name_may_have_planned(merged: FakeGitHubApi, tmp_path: Path) -> None:
    """The workflow that plans need not be the one that applies."""
    assert (
        run_reviewed_script(
            merged, tmp_path / "plan.json", GITHUB_WORKFLOW_REF="x/apply.yml@y", PLAN_WORKFLOW="topics.yml"
        ).returncode
        == 0
    )
    done = run_reviewed_script(merged, tmp_path / "plan.json", GITHUB_WORKFLOW_REF="x/apply.yml@y")
    assert "cannot find the run that planned pull request 7: GitHub returned 404" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        (f"commits/{SHA}/pulls", [], f"no pull request was merged as {SHA}: no plan of it was reviewed"),
        (
            "actions/workflows/topics.yml/runs",
            {"workflow_runs": [workflow_run(43, "mallory/topics")]},
            "no run of topics.yml",
        ),
        (
            "actions/workflows/topics.yml/runs",
            {"workflow_runs": [workflow_run(1, event="push")]},
            "no run of topics.yml",
        ),
        ("actions/runs/42/artifacts", {"artifacts": []}, "run 42 has no artifact topiarist-plan any more"),
        ("actions/artifacts/5/zip", GitHubResponse(403, {"message": "No"}), "GitHub returned 403, No. Give the job"),
        ("actions/artifacts/5/zip", GitHubResponse(200, zip_files({"../plan.json": "{}"})), "contains no plan.json"),
        (
            "actions/artifacts/5/zip",
            GitHubResponse(200, zip_files({"plan.json": ""})),
            "plan.json in artifact topiarist-plan of run 42 is empty",
        ),
    ],
)
def test_without_a_reviewed_plan_nothing_is_fetched(
    merged: FakeGitHubApi, tmp_path: Path, path: str, content: Any, words: str
) -> None:
    """Each way in which there is none ends the run in its own words."""
    merged.get_responses[f"/repos/{REPOSITORY}/{path}"] = content
    done = run_reviewed_script(merged, tmp_path / "plan.json")
    (line,) = done.stdout.splitlines()
    assert (done.returncode, words in line) == (1, True), line
    kept = tmp_path / "plan.json"
    assert not kept.exists() or kept.read_bytes() == b""


def test_what_a_forks_run_built_counts_for_nothing(merged: FakeGitHubApi, tmp_path: Path) -> None:
    """The owner of a fork decides what its runs upload, so the gate does not trust it."""
    (pull,) = [
        entry for entry in merged.get_responses[f"/repos/{REPOSITORY}/commits/{SHA}/pulls"] if entry["merged_at"]
    ]
    pull["head"]["repo"] = {"full_name": "mallory/topics"}
    done = run_reviewed_script(merged, tmp_path / "plan.json")
    assert done.returncode == 1
    assert "pull request 7 came from mallory/topics: artifacts of other repositories are not trusted" in done.stdout
    assert len(merged.requests) == 1


@pytest.mark.slow
def test_a_comment_links_to_the_page_of_its_plan(api: FakeGitHubApi, tmp_path: Path) -> None:
    """The link is the last line, and is there only with an artifact that has the page."""
    url = "https://localhost/example/topics/actions/runs/12/artifacts/34"
    assert run_comment_script(api, tmp_path, PLAN, ARTIFACT_URL=url).returncode == 0
    assert api.comments[-1]["body"] == PLAN
    (tmp_path / "plan.html").write_text("the page")
    assert run_comment_script(api, tmp_path, PLAN, ARTIFACT_URL="").returncode == 0
    assert api.comments[-1]["body"] == PLAN
    assert run_comment_script(api, tmp_path, PLAN, ARTIFACT_URL=url).returncode == 0
    assert api.comments[-1]["body"] == (
        f"{PLAN}\n[The plan as a page]({url}), to search and filter: open `plan.html` of this artifact.\n"
    )
    refused = run_comment_script(api, tmp_path, PLAN, ARTIFACT_URL="https://localhost/a) @team")
    assert refused.returncode != 0
    assert "ARTIFACT_URL: wanted a web address" in refused.stdout + refused.stderr
