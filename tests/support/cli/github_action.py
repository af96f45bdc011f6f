"""The scripts of the GitHub action, run as the steps of the action run them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.checkout import ROOT
from support.cli.github_api import REPOSITORY, TOKEN, FakeGitHubApi, GitHubResponse, zip_files

SCRIPTS = ROOT / "tools" / "ci"
PLAN_MARKER = "<!-- topiarist plan -->"
OUTCOME_MARKER = "<!-- topiarist apply -->"
SHA, HEAD = "c" * 40, "f" * 40


def run_script(
    name: str, *words: object, variables: Mapping[str, str], cwd: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run a script with ``topiarist`` on the path and only the given environment.

    The token never appears in the output.
    """
    known = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **variables}
    command = [str(SCRIPTS / name), *map(str, words)]
    done = subprocess.run(command, env=known, capture_output=True, text=True, check=False, cwd=cwd)
    assert TOKEN not in done.stdout + done.stderr
    return done


def run_comment_script(
    api: FakeGitHubApi, tmp_path: Path, text: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run ``comment.sh`` for pull request 7."""
    (tmp_path / "plan.md").write_text(text)
    known = {
        "GITHUB_API_URL": api.address,
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_TOKEN": TOKEN,
        "PULL_REQUEST": "7",
    }
    return run_script("comment.sh", tmp_path / "plan.md", variables={**known, **variables})


def workflow_run(number: int, repository: str = REPOSITORY, **fields: Any) -> dict[str, Any]:
    """Return a workflow run in the form of the API."""
    known = {"id": number, "run_number": number, "event": "pull_request", "pull_requests": [{"number": 7}]}
    return {**known, "head_repository": {"full_name": repository}, **fields}


def merge_pull_request(api: FakeGitHubApi, kept: Mapping[str, str]) -> None:
    """Merge pull request 7.

    Its branch was planned twice, and ``kept`` belongs to the second run; a branch of a fork was planned too.
    """
    head = f"/repos/{REPOSITORY}"
    pull = {
        "number": 7,
        "merged_at": "2024-05-01T00:00:00Z",
        "merge_commit_sha": SHA,
        "base": {"ref": "main"},
        "head": {"sha": HEAD, "repo": {"full_name": REPOSITORY}},
    }
    runs = [
        workflow_run(41),
        workflow_run(42),
        workflow_run(43, "mallory/topics"),
        workflow_run(44, pull_requests=[{"number": 8}]),
    ]
    artifact = {"id": 5, "name": "topiarist-plan", "expired": False}
    api.get_responses = {
        f"{head}/commits/{SHA}/pulls": [{**pull, "merged_at": None, "number": 6}, pull],
        f"{head}/actions/workflows/topics.yml/runs": {"workflow_runs": runs},
        f"{head}/actions/runs/42/artifacts": {"artifacts": [{**artifact, "id": 4, "expired": True}, artifact]},
        f"{head}/actions/artifacts/5/zip": GitHubResponse(302, b"", {"Location": f"{api.address}/storage/5.zip"}),
        "/storage/5.zip": GitHubResponse(200, zip_files(kept)),
    }


def run_reviewed_script(api: FakeGitHubApi, to: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ``reviewed.sh`` for the merge of pull request 7."""
    known = {
        "GITHUB_API_URL": api.address,
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_SHA": SHA,
        "GITHUB_REF_NAME": "main",
        "GITHUB_WORKFLOW_REF": f"{REPOSITORY}/.github/workflows/topics.yml@refs/heads/main",
        "ARTIFACT": "topiarist-plan",
    }
    return run_script("reviewed.sh", to, variables={**known, **variables})


def run_action(folder: Path, command: str, *args: str, **variables: str) -> tuple[str, str]:
    """Run ``run.sh`` in a working copy with the manifests in ``topics``; return the log and the exit code."""
    output = folder / "output"
    output.write_text("")
    known = {
        "PYTHONPATH": str(ROOT / "operator"),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        "ACTION_PATHS": "topics\n",
        "ACTION_ARGS": "\n".join(args),
    }
    done = run_script("run.sh", command, folder / "out", variables={**known, **variables}, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout, output.read_text()
