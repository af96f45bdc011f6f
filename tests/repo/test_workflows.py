"""The workflows of this repository: make targets only, least permissions, pinned actions, limits of time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.checkout import ROOT
from support.cli.github_api import REPOSITORY, TOKEN, FakeGitHubApi, GitHubResponse

GIT_USER = ("-c", "user.name=someone", "-c", "user.email=someone@example.org")

FOLDER = ROOT / ".github"
WORKFLOWS = {path.stem: path for path in sorted((FOLDER / "workflows").glob("*.yml"))}
SCRIPTS = sorted((ROOT / "tools" / "release").glob("*.sh"))

READ = {"contents": "read"}
PERMISSIONS = {
    ("docs", "publish"): {"pages": "write", "id-token": "write"},
    ("release", "night"): READ | {"actions": "read"},
    ("release", "files"): READ | {"id-token": "write", "attestations": "write"},
    ("release", "image"): READ | {"packages": "write", "id-token": "write"},
    ("release", "chart"): READ | {"packages": "write"},
    ("release", "python"): READ | {"id-token": "write"},
    ("release", "publish"): {"contents": "write", "id-token": "write"},
}
"""The permissions of jobs that may write; every other job may read the repository."""

PINNED = re.compile(r"uses: [\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")

TARGETS = frozenset(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))

each_workflow = pytest.mark.parametrize("name", WORKFLOWS)


def load(name: str) -> dict[str, Any]:
    """Return a workflow; ``on``, a boolean in YAML 1.1, becomes an ordinary key."""
    content: dict[Any, Any] = yaml.safe_load(WORKFLOWS[name].read_text())
    return {"on" if key is True else key: value for key, value in content.items()}


def targets(job: dict[str, Any]) -> set[str]:
    """Return the make targets that a job runs, for each entry of its matrix."""
    matrix = job.get("strategy", {}).get("matrix", {})
    rows = [{"target": each} for each in matrix.get("target", [""])] + matrix.get("include", [])
    scripts = [step["run"] for step in job["steps"] if "run" in step]
    return {script.replace("${{ matrix.target }}", row["target"]) for script in scripts for row in rows}


def test_every_stage_of_ci_has_a_job() -> None:
    """Each lane of ``.ci/run`` is a job of the workflow ``ci``, and lint is in one job each."""
    assert set(WORKFLOWS) == {"ci", "docs", "nightly", "release"}
    stages = set(re.findall(r"\b(?:lint|test)(?:-[a-z]+)?\b", (ROOT / ".ci" / "run").read_text()))
    matrix = load("ci")["jobs"]["lane"]["strategy"]["matrix"]
    assert {"lint", "lint-workflows", "test", "test-faults", "test-kafka", "test-browser", "test-kubernetes"} <= stages
    assert sorted(stages & set(TARGETS)) == sorted(set(matrix["target"]) & stages)
    assert {row["target"] for row in matrix["include"]} == {"test-unit"}


def test_the_night_runs_everything() -> None:
    """The parts of ``make nightly`` are the jobs of the workflow of that name."""
    (parts,) = re.findall(r"^NIGHT := ((?:.*\\\n)*.*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    job = load("nightly")["jobs"]["part"]
    assert targets(job) - {"make namespaces"} == {f"make {part}" for part in parts.replace("\\\n", " ").split()}
    assert "schedule" in load("nightly")["on"]


@each_workflow
def test_every_script_is_a_make_target(name: str) -> None:
    """Each ``run`` is one target of the Makefile, so that every step runs without the forge, and no input is in it."""
    for job in load(name)["jobs"].values():
        for script in targets(job):
            word, target = script.split()
            assert (word, target in TARGETS) == ("make", True), script


def test_caches_are_keyed_by_what_is_in_them() -> None:
    """A cache has the checksum of the files that name its versions in its key; a release uses none."""
    assert "actions/cache" not in WORKFLOWS["release"].read_text()
    keys = [
        step["with"]["key"] for step in load("ci")["jobs"]["lane"]["steps"] if "actions/cache" in step.get("uses", "")
    ]
    named = [re.findall(r"'([^']+)'", key) for key in keys]
    assert [list(map(bool, map(sorted, map(ROOT.glob, files)))) for files in named] == [[True] * 2, [True] * 6]
    assert "steps.python.outputs.python-version" in keys[0]


@each_workflow
def test_permissions_are_minimal(name: str) -> None:
    """A workflow has no permission; a job has those that it needs, and no secret but the token of its run."""
    content = load(name)
    assert content["permissions"] == {}
    for job, about in content["jobs"].items():
        assert about["permissions"] == PERMISSIONS.get((name, job), READ)
        writes = "write" in about["permissions"].values()
        assert not writes or "environment" in about or (name, job) == ("release", "files")
    assert "pull_request_target" not in WORKFLOWS[name].read_text()
    assert "secrets." not in WORKFLOWS[name].read_text()


@each_workflow
def test_every_action_is_pinned(name: str) -> None:
    """Each action has the digest of a commit, with its version in a comment; a checkout keeps no credentials."""
    lines = [line.strip().removeprefix("- ") for line in WORKFLOWS[name].read_text().splitlines() if "uses:" in line]
    assert lines
    assert [line for line in lines if not PINNED.match(line)] == []
    for job in load(name)["jobs"].values():
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False


def test_an_action_has_one_version() -> None:
    """All workflows use the same version of an action."""
    found = {line.strip() for path in WORKFLOWS.values() for line in re.findall(r"uses: (.*)", path.read_text())}
    names = [line.partition("@")[0] for line in found]
    assert sorted(names) == sorted(set(names))


@each_workflow
def test_runs_are_limited(name: str) -> None:
    """Each job ends in time, on a named image; a newer push ends the run of a pull request, and no other."""
    content = load(name)
    assert content["concurrency"]["group"]
    assert content["concurrency"]["cancel-in-progress"] == (
        False if name in {"nightly", "release"} else "${{ github.event_name == 'pull_request' }}"
    )
    for job in content["jobs"].values():
        assert 0 < job["timeout-minutes"] <= (350 if name == "nightly" else 60)
        assert job["runs-on"] == "ubuntu-24.04"


def test_the_tests_run_on_every_python() -> None:
    """The unit tests run on each version of Python that the package names, and at night all tests do."""
    text = (ROOT / "pyproject.toml").read_text()
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)
    assert named == ["3.11", "3.12", "3.13", "3.14"]
    lanes = load("ci")["jobs"]["lane"]["strategy"]["matrix"]
    assert lanes["python"] + [row["python"] for row in lanes["include"]] == named
    nights = load("nightly")["jobs"]["part"]["strategy"]["matrix"]["include"]
    assert nights == [{"python": each, "target": "test"} for each in named]


def test_only_a_tag_releases() -> None:
    """A release begins with a pushed tag, needs a green night, and publishes to the forge after everything else."""
    content = load("release")
    assert content["on"] == {"push": {"tags": ["v*.*.*"]}}
    needs = {name: job.get("needs") for name, job in content["jobs"].items()}
    assert needs == {
        "night": None,
        "files": "night",
        "image": "files",
        "chart": "files",
        "python": ["image", "chart"],
        "publish": "python",
    }


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_script_is_sound(script: Path) -> None:
    """Every script passes shellcheck, may be executed, and stops at the first failure."""
    shellcheck = Path(sys.executable).parent / "shellcheck"
    done = subprocess.run([shellcheck, script], capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""
    assert "\nset -euo pipefail\n" in script.read_text()
    assert os.access(script, os.X_OK)


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[int, str]]]:
    """Return a function that runs the check of the night in a checkout, with runs of a workflow at a fake forge."""
    for word in ("init", "first", "second", "third"):
        words = ["init", "--quiet"] if word == "init" else ["commit", "--quiet", "--allow-empty", "--message", word]
        subprocess.run(["git", *GIT_USER, *words], cwd=tmp_path, check=True)
    commits = subprocess.run(["git", "rev-list", "HEAD"], cwd=tmp_path, capture_output=True, text=True, check=True)
    tagged, parent, earlier = commits.stdout.split()
    shas = {"tagged": tagged, "parent": parent, "earlier": earlier}
    monkeypatch.chdir(tmp_path)

    with FakeGitHubApi() as api:
        monkeypatch.setenv("GITHUB_API_URL", api.address)
        monkeypatch.setenv("GITHUB_REPOSITORY", REPOSITORY)
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)

        def run(*nights: tuple[str, str, str], response: Any = None) -> tuple[int, str]:
            runs = [
                {
                    "head_sha": shas[commit],
                    "status": status,
                    "conclusion": end,
                    "run_number": number,
                    "html_url": f"run {number}",
                }
                for number, (commit, status, end) in enumerate(nights, start=1)
            ]
            path = f"/repos/{REPOSITORY}/actions/workflows/nightly.yml/runs"
            api.get_responses[path] = response or {"workflow_runs": runs[::-1]}
            command = [sys.executable, str(ROOT / "tools" / "release" / "green_night.py")]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert api.requests[-1].headers["authorization"] == f"Bearer {TOKEN}"
            assert TOKEN not in done.stdout + done.stderr
            return done.returncode, done.stderr

        yield run


@pytest.mark.parametrize("commit", ["tagged", "parent"])
def test_a_green_night_allows_a_release(release: Callable[..., tuple[int, str]], commit: str) -> None:
    """The newest night of the tagged commit, or of the commit before the release's own, has to be green."""
    assert release((commit, "completed", "failure"), (commit, "completed", "success")) == (0, "")


@pytest.mark.slow
def test_without_a_green_night_there_is_no_release(release: Callable[..., tuple[int, str]]) -> None:
    """A night that failed, still runs, was of other code or cannot be read stops the release, and says what to do."""
    green = ("parent", "completed", "success")
    for runs, response, problem in (
        ([], None, "no night has run"),
        ([("earlier", "completed", "success")], None, "no night has run"),
        ([green, ("tagged", "completed", "failure")], None, "the newest night ended with failure: run 2"),
        ([green, ("parent", "completed", "cancelled")], None, "the newest night ended with cancelled: run 2"),
        ([green, ("parent", "in_progress", "")], None, "the newest night has not ended: run 2"),
        ([green], GitHubResponse(403, {"message": "no"}), "the nights cannot be read"),
        ([green], {"message": "no"}, "the nights cannot be read"),
    ):
        code, error = release(*runs, response=response)
        assert (code, problem in error) == (1, True), error
        assert "Run the workflow nightly.yml on the branch main" in error


@pytest.mark.parametrize("name", ["bug", "idea"])
def test_every_form_is_valid(name: str) -> None:
    """A form for issues has a name, a description and labels; each field has an id of its own and a label."""
    form = yaml.safe_load((FOLDER / "ISSUE_TEMPLATE" / f"{name}.yml").read_text())
    assert form["name"]
    assert form["description"]
    assert form["labels"] == [name]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert all(field["attributes"]["label"] for field in fields)
    ids = [field["id"] for field in fields]
    assert sorted(set(ids)) == sorted(ids)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_the_forms_lead_to_pages_of_the_site() -> None:
    """The links beside the forms are pages of the documentation."""
    links = yaml.safe_load((FOLDER / "ISSUE_TEMPLATE" / "config.yml").read_text())["contact_links"]
    for link in links:
        page = link["url"].removeprefix("https://topiarist.dev/")
        assert (ROOT / page).with_suffix(".md").is_file()
