"""The component for GitLab, run from a merge request to what is applied, against a stand-in for GitLab's API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from generate import render_component

from support.checkout import ROOT
from support.cli.github_api import TOKEN, FakeGitHubApi, GitHubResponse
from support.cli.runs import document
from support.junit import read_junit
from support.zookeeper.simulated_kafka import SimulatedKafka

SHA = "c" * 40
PROJECT = "/projects/3"
MERGED = {"state": "merged", "merged_at": "2024-05-01T00:00:00Z", "target_branch": "main", "source_project_id": 3}
PLAN = '{"formatVersion": 1}'

COMPONENT = (ROOT / "tools" / "ci" / "gitlab" / "templates" / "topiarist.yml").read_text()
JOB: dict[str, Any] = yaml.safe_load(render_component(COMPONENT, {}))["topics-apply"]


@pytest.fixture
def gitlab(api: FakeGitHubApi) -> FakeGitHubApi:
    """Merge request 7 was merged; its newest pipelines ran for the merged result, and then on a merge train."""
    refs = {11: "head", 14: "merge", 12: "merge", 15: "train"}
    pipelines = [{"id": number, "ref": f"refs/merge-requests/7/{ref}"} for number, ref in refs.items()]
    elsewhere = api.address.replace("127.0.0.1", "localhost")
    jobs = [{"id": 140, "name": "other"}, {"id": 141, "name": "topics-plan"}, {"id": 142, "name": "shop-plan"}]
    api.get_responses = {
        f"{PROJECT}/repository/commits/{SHA}/merge_requests": [
            {**MERGED, "iid": 5, "state": "opened", "merged_at": None},
            {**MERGED, "iid": 6, "target_branch": "other"},
            {**MERGED, "iid": 7},
        ],
        f"{PROJECT}/merge_requests/7/pipelines": pipelines,
        f"{PROJECT}/pipelines/14/jobs": jobs,
        f"{PROJECT}/jobs/141/artifacts/plan.json": GitHubResponse(
            302, b"", {"Location": f"{elsewhere}/storage/plan.json"}
        ),
        "/storage/plan.json": GitHubResponse(200, PLAN.encode()),
        f"{PROJECT}/merge_requests/7/notes": GitHubResponse(201, {"id": 1}),
    }
    return api


def run(script: str, api: FakeGitHubApi, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the job as a runner does."""
    known = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "CI_API_V4_URL": api.address,
        "CI_PROJECT_ID": "3",
        "CI_COMMIT_SHA": SHA,
        "CI_COMMIT_BRANCH": "main",
        "PLAN_TOKEN": TOKEN,
        **variables,
    }
    command = ["bash", "-eo", "pipefail", "-c", script]
    done = subprocess.run(command, env=known, cwd=folder, capture_output=True, text=True, check=False)
    assert TOKEN not in done.stdout + done.stderr
    return done


def fetch(api: FakeGitHubApi, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run what comes before topiarist."""
    first, second = JOB["script"]
    assert second.startswith("topiarist apply ")
    return run(first, api, folder)


@pytest.mark.slow
def test_the_plan_of_the_merged_result_is_fetched(gitlab: FakeGitHubApi, tmp_path: Path) -> None:
    """The plan is that of the newest reviewed pipeline; the API gets the token, and the artifact's store does not."""
    done = fetch(gitlab, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "plan.json").read_text() == PLAN
    assert (tmp_path / "merge-request").read_text() == "7\n"
    assert gitlab.requests[2].query["scope[]"] == "success"
    assert gitlab.requests[-1].path == "/storage/plan.json"


@pytest.mark.slow
def test_the_plan_of_a_branch_is_fetched(gitlab: FakeGitHubApi, tmp_path: Path) -> None:
    """Where merged results are not switched on."""
    gitlab.get_responses[f"{PROJECT}/merge_requests/7/pipelines"] = [{"id": 14, "ref": "refs/merge-requests/7/head"}]
    assert fetch(gitlab, tmp_path).returncode == 0
    assert (tmp_path / "plan.json").read_text() == PLAN


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        (f"repository/commits/{SHA}/merge_requests", [], "this commit was not merged by a merge request"),
        (
            f"repository/commits/{SHA}/merge_requests",
            [{**MERGED, "iid": 7, "source_project_id": 4}],
            "this commit was not merged by a merge request of this project",
        ),
        ("pipelines/14/jobs", [{"id": 1, "name": "other"}], "pipeline 14, the newest of merge request 7, has no plan"),
        ("merge_requests/7/pipelines", GitHubResponse(403, {"message": "No"}), "403"),
        ("jobs/141/artifacts/plan.json", GitHubResponse(404, {"message": "Not Found"}), "404"),
    ],
)
def test_without_a_reviewed_plan_nothing_is_applied(
    gitlab: FakeGitHubApi, tmp_path: Path, path: str, content: Any, words: str
) -> None:
    """Each way in which there is none ends the job before topiarist, in words."""
    gitlab.get_responses[f"{PROJECT}/{path}"] = content
    done = fetch(gitlab, tmp_path)
    assert done.returncode != 0
    assert words in done.stderr
    assert not (tmp_path / "plan.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("results", "words"),
    [({"done": 3, "refused": 1}, "failed: 3 done, 1 refused."), (None, "failed: nothing.")],
)
def test_the_merge_request_gets_a_note(
    gitlab: FakeGitHubApi, tmp_path: Path, results: dict[str, int] | None, words: str
) -> None:
    """With the numbers of the report; a run that wrote none has a note too."""
    (tmp_path / "merge-request").write_text("7\n")
    if results:
        (tmp_path / "report.jsonl").write_text(json.dumps({"row": "summary", "results": results}) + "\n")
    (script,) = JOB["after_script"]
    done = run(script, gitlab, tmp_path, CI_JOB_STATUS="failed", CI_JOB_URL="the-job")
    assert (done.returncode, done.stderr) == (0, "")
    (note,) = gitlab.requests
    assert (note.method, note.body) == (
        "POST",
        {"body": f"topiarist apply, {words} The job: the-job"},
    )


def test_a_commit_without_a_merge_request_gets_none(gitlab: FakeGitHubApi, tmp_path: Path) -> None:
    """There is nowhere to put it."""
    (script,) = JOB["after_script"]
    assert run(script, gitlab, tmp_path).returncode == 0
    assert gitlab.requests == []


INPUTS = {
    "topics": "kafka/topics",
    "platform": "kafka/platform",
    "cluster": "shop",
    "job-prefix": "shop",
    "package": "",
}
ORDERS = {"partitions": 3, "replicationFactor": 3}


def git(folder: Path, *words: str) -> None:
    """Run git as an author."""
    author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True)


def repository(tmp_path: Path, connect: str) -> Path:
    """Return the clone of a repository with clusters in its main branch; its branch has a topic and other clusters."""
    main, clone = tmp_path / "main", tmp_path / "clone"
    (main / "kafka" / "topics").mkdir(parents=True)
    (main / "kafka" / "platform").mkdir()
    clusters = {"shop": connect, "other": "127.0.0.1:1"}
    (main / "kafka" / "platform" / "clusters.yaml").write_text(
        "\n---\n".join(document("Cluster", name, zookeeper={"connect": at}) for name, at in clusters.items())
    )
    git(main, "init", "--quiet", "--initial-branch", "main")
    git(main, "add", ".")
    git(main, "commit", "--quiet", "--message", "clusters")
    git(tmp_path, "clone", "--quiet", str(main), str(clone))
    (clone / "kafka" / "topics").mkdir(exist_ok=True)
    (clone / "kafka" / "topics" / "orders.yaml").write_text(
        document("Topic", "orders", clusters=["shop", "other"], **ORDERS)
    )
    (clone / "kafka" / "platform" / "clusters.yaml").write_text("no: cluster\n")
    return clone


@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_comment_that_is_refused_is_said(gitlab: FakeGitHubApi, tmp_path: Path, status: int) -> None:
    """The log has what GitLab answered and what to do, and no traceback; without a token nothing is asked."""
    (tmp_path / "plan.md").write_text("<!-- topiarist plan -->\n")
    (script,) = yaml.safe_load(render_component(COMPONENT, {}))["topics-plan"]["after_script"]
    gitlab.failures["GET"] = GitHubResponse(status, {"message": "No"})
    assert run(script, gitlab, tmp_path).returncode == 0
    assert gitlab.requests == []
    done = run(script, gitlab, tmp_path, COMMENT_TOKEN=TOKEN, CI_MERGE_REQUEST_IID="7")
    assert done.returncode == 1
    assert done.stderr.startswith(f"the plan is no comment: HTTP Error {status}: ")
    assert done.stderr.endswith("; COMMENT_TOKEN needs the scope api\n")


@pytest.mark.slow
def test_a_merge_request_from_its_check_to_what_is_applied(
    cluster: SimulatedKafka, gitlab: FakeGitHubApi, tmp_path: Path
) -> None:
    """The jobs of the component run as they are printed, with other inputs than the defaults.

    The plan uses the clusters of the target branch, and only the one of the input. It is a JUnit report, and one
    comment however often it is made. The apply job makes the topic, by the merged manifests.
    """
    jobs = yaml.safe_load(render_component(COMPONENT, INPUTS))
    assert set(jobs) == {".shop", "shop-validate", "shop-plan", "shop-apply"}
    clone = repository(tmp_path, cluster.connect)
    base = jobs[".shop"]["variables"]
    base |= {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main", "CI_MERGE_REQUEST_IID": "7", "COMMENT_TOKEN": TOKEN}

    def run_job(name: str, part: str = "script") -> subprocess.CompletedProcess[str]:
        script = "\n".join([*jobs[".shop"]["before_script"], *jobs[name][part]])
        return run(script, gitlab, clone, **base, CI_JOB_STATUS="success", CI_JOB_URL="the-job")

    checked = run_job("shop-validate")
    assert checked.returncode == 1
    assert [case.outcome for case in read_junit((clone / "validate.xml").read_text())] == ["", "failure"]
    assert "clusters.yaml:1:1" in checked.stdout
    (clone / "kafka" / "platform" / "clusters.yaml").write_text(
        document("Cluster", "shop", zookeeper={"connect": "127.0.0.1:1"})
    )
    planned = run_job("shop-plan")
    assert planned.returncode == 0, planned.stderr
    assert {case.name: case.outcome for case in read_junit((clone / "plan.xml").read_text())} == {
        "plan of the cluster": "",
        "orders": "",
    }
    mine = {"id": 77, "author": {"id": 5}, "body": "<!-- topiarist plan -->\nearlier"}
    notes = f"{PROJECT}/merge_requests/7/notes"
    gitlab.get_responses |= {"/user": {"id": 5}, f"{notes}/77": {"id": 77}}
    for found in ([{**mine, "author": {"id": 6}}], [mine]):
        gitlab.get_responses[notes] = found
        assert run_job("shop-plan", "after_script").returncode == 0
    plan = (clone / "plan.md").read_text()
    assert "create 3 partitions x 3 replicas" in (clone / "plan.html").read_text()
    sent = [(each.method, each.path, each.body) for each in gitlab.requests if each.method != "GET"]
    assert sent == [("POST", notes, {"body": plan}), ("PUT", f"{notes}/77", {"body": plan})]
    gitlab.get_responses[f"{PROJECT}/jobs/142/artifacts/plan.json"] = GitHubResponse(
        200, (clone / "plan.json").read_bytes()
    )
    git(clone, "checkout", "--quiet", "--", "kafka/platform")
    applied = run_job("shop-apply")
    assert applied.returncode == 0, applied.stderr
    assert cluster.client.exists("/brokers/topics/orders")
    assert run_job("shop-apply", "after_script").returncode == 0
    assert gitlab.requests[-1].body == {"body": "topiarist apply, success: 1 done. The job: the-job"}
