"""The workflows of this repository: make targets only, least permissions, pinned actions, limits of time."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.checkout import ROOT

FOLDER = ROOT / ".github"
WORKFLOWS = {path.stem: path for path in sorted((FOLDER / "workflows").glob("*.yml"))}
SCRIPTS = sorted((ROOT / "tools" / "release").glob("*.sh"))

READ = {"contents": "read"}
PERMISSIONS = {
    ("docs", "publish"): {"pages": "write", "id-token": "write"},
    ("release", "files"): READ | {"id-token": "write", "attestations": "write"},
    ("release", "image"): READ | {"packages": "write", "id-token": "write"},
    ("release", "chart"): READ | {"packages": "write"},
    ("release", "python"): READ | {"id-token": "write"},
    ("release", "publish"): {"contents": "write", "id-token": "write"},
}
"""The permissions of jobs that may write; every other job may read the repository."""

PINNED = re.compile(r"uses: [\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")

each_workflow = pytest.mark.parametrize("name", WORKFLOWS)


def load(name: str) -> dict[str, Any]:
    """Return a workflow; ``on``, a boolean in YAML 1.1, becomes an ordinary key."""
    content: dict[Any, Any] = yaml.safe_load(WORKFLOWS[name].read_text())
    return {"on" if key is True else key: value for key, value in content.items()}


def test_every_stage_of_ci_has_a_workflow() -> None:
    """The stages of ``.ci/run`` are steps of workflows."""
    assert set(WORKFLOWS) == {"check", "docs", "kafka", "kubernetes", "release", "test"}
    stages = set(re.findall(r"test(?:-[a-z]+)?\b", " ".join((ROOT / ".ci" / "run").read_text().split("stages")[1:])))
    steps = {word for name in WORKFLOWS for word in re.findall(r"run: make ([\w-]+)", WORKFLOWS[name].read_text())}
    assert {"test", "test-faults", "test-kafka", "test-browser", "test-kubernetes"} <= stages & steps


@each_workflow
def test_every_script_is_a_make_target(name: str) -> None:
    """Each ``run`` is one target of the Makefile, so that every step runs without the forge, and no input is in it."""
    known = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for job in load(name)["jobs"].values():
        for script in (step["run"] for step in job["steps"] if "run" in step):
            word, target = script.split()
            assert (word, target in known) == ("make", True), script


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
    """Each job ends in time, on a named image; a newer push ends the run of a pull request, but never a release."""
    content = load(name)
    assert content["concurrency"]["group"]
    assert content["concurrency"]["cancel-in-progress"] == (
        False if name == "release" else "${{ github.event_name == 'pull_request' }}"
    )
    for job in content["jobs"].values():
        assert 0 < job["timeout-minutes"] <= 90
        assert job["runs-on"] == "ubuntu-24.04"


def test_the_tests_run_on_every_python() -> None:
    """The tests run on each version of Python that the package names."""
    text = (ROOT / "pyproject.toml").read_text()
    named = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)
    assert load("test")["jobs"]["test"]["strategy"]["matrix"]["python"] == named == ["3.11", "3.12", "3.13", "3.14"]


def test_only_a_tag_releases() -> None:
    """A release begins with a pushed tag, and publishes to the forge after everything else."""
    content = load("release")
    assert content["on"] == {"push": {"tags": ["v*.*.*"]}}
    needs = {name: job.get("needs") for name, job in content["jobs"].items()}
    assert needs == {
        "files": None,
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


def test_workflows_pass_actionlint() -> None:
    """The workflows pass actionlint, which Go builds once; without it and without Go the test is skipped."""
    done = subprocess.run(
        [ROOT / "tools" / "release" / "actionlint.sh"], capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode == 3 or (done.returncode and "CI" not in os.environ and "dial tcp" in done.stderr):
        assert not (os.environ.get("CI") and shutil.which("go")), done.stderr
        pytest.skip(f"actionlint cannot be built: {done.stderr}")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


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
