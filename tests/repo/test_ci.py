"""The action, its scripts, the samples and the hook: they parse, their shell is sound, and what they name exists."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.pages import ROOT, table

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
SAMPLES = sorted((ROOT / "docs" / "ci").iterdir())
SCRIPTS = sorted((ROOT / "tools" / "ci").glob("*.sh"))
PAGE = (ROOT / "docs" / "pull-requests.md").read_text()
BIN = Path(sys.executable).parent

OURS = re.compile(r"\btopiarist\"? ((?:plan|apply|snapshot) [^>\n]*)")
WITHOUT_A_COMMAND = ("atlantis-repository.yaml", "github-forks.yml", "github.yml")

each_sample = pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)


def lint(text: str, shell: str = "bash") -> str:
    """What ``bash`` and shellcheck say about a script; nothing if it is sound."""
    parsed = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    words = [str(BIN / "shellcheck"), f"--shell={shell}", "--external-sources", "-"]
    judged = subprocess.run(words, input=text, capture_output=True, text=True, check=False, cwd=ROOT)
    return parsed.stderr + judged.stdout + judged.stderr


def shell_of(value: Any, key: str = "") -> Iterator[str]:
    """Every script in a document: what stands below ``run``, ``script`` and ``before_script``."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from shell_of(inner, name)
    elif isinstance(value, list):
        if key in ("script", "before_script"):
            yield "\n".join(value)
        else:
            for inner in value:
                yield from shell_of(inner, key)
    elif key == "run":
        yield str(value)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_script_is_sound(script: Path) -> None:
    """Shellcheck has nothing to say; what is run may be run, and stops at the first failure."""
    text = script.read_text()
    assert lint(text) == ""
    if script.name != "github.sh":
        assert text.startswith("#!/usr/bin/env bash\n")
        assert "\nset -euo pipefail\n" in text
        assert os.access(script, os.X_OK)


@each_sample
def test_every_sample_is_sound(sample: Path) -> None:
    """A sample is YAML whose first line says what it is, and the shell in it is sound."""
    text = sample.read_text()
    assert text.startswith("# ")
    for script in shell_of(yaml.safe_load(text)):
        plain = re.sub(r"\$\{\{.*?\}\}", "x", script)
        assert lint(plain, "bash" if "github" in sample.name else "sh") == "", plain


@each_sample
def test_samples_give_no_more_than_is_needed(sample: Path) -> None:
    """A workflow of GitHub has no permissions but those of its jobs, and no input stands in a script's text."""
    content = yaml.safe_load(sample.read_text())
    if sample.name.startswith("github"):
        assert content["permissions"] == {}
        assert all("permissions" in job for job in content["jobs"].values())
        assert all("${{" not in script for script in shell_of(content))
        assert "pull_request_target" not in sample.read_text()


@each_sample
def test_samples_give_the_action_what_it_takes(sample: Path) -> None:
    """Every input that a sample gives is one of the action's, and those that it needs are there."""
    required = {name for name, about in ACTION["inputs"].items() if about.get("required")}
    for job in (yaml.safe_load(sample.read_text()).get("jobs") or {}).values():
        for step in job["steps"]:
            if "topiarist@" in step.get("uses", ""):
                assert required <= set(step["with"]) <= set(ACTION["inputs"])


@each_sample
def test_samples_say_what_topiarist_understands(sample: Path) -> None:
    """Every command of ours in a sample is parsed as it stands; clusters come from the platform and nowhere else."""
    content = yaml.safe_load(sample.read_text())
    found = [line for script in shell_of(content) for line in OURS.findall(script)]
    hooks = [hook for repository in content.get("repos", []) for hook in repository.get("hooks", [])]
    found += [f"validate {shlex.join(hook['args'])}" for hook in hooks]
    assert bool(found) is (sample.name not in WITHOUT_A_COMMAND)
    for name, *words in map(shlex.split, found):
        known = import_module(f"topiarist.cli.{name}").command.make_context(name, words).params
        (place,) = known["platform"] or known["paths"]
        assert Path(place).name == "platform"
        assert known["clusters"] == ()


def test_every_sample_is_listed() -> None:
    """The page has a link to each."""
    assert [sample.name for sample in SAMPLES if f"(ci/{sample.name})" not in PAGE] == []


def test_the_actions_inputs_are_explained() -> None:
    """In the action, and in the table of the page, in its order."""
    assert all(about["description"] for about in ACTION["inputs"].values())
    listed = [name.strip("` ") for row in table(PAGE, "input") for name in row[0].split(",")]
    assert listed == list(ACTION["inputs"])


def test_the_actions_steps_run_what_is_there() -> None:
    """Inputs reach scripts in the environment only, scripts exist, and no other action is used but one, pinned."""
    used = set()
    for step in ACTION["runs"]["steps"]:
        text = step.get("run", "")
        assert "${{" not in text
        assert lint(text) == ""
        used |= set(re.findall(r"\$GITHUB_ACTION_PATH/(\S+?)\"", text))
        assert step.get("uses", "actions/upload-artifact@v4") == "actions/upload-artifact@v4"
        assert "run" not in step or step["shell"] == "bash"
    assert used == {f"tools/ci/{script.name}" for script in SCRIPTS if script.name != "github.sh"}


def test_the_actions_expressions_name_what_is_there() -> None:
    """Every input and step that an expression names exists, and no input is unused."""
    text = (ROOT / "action.yml").read_text()
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])
    steps = {step["id"] for step in ACTION["runs"]["steps"] if "id" in step}
    assert set(re.findall(r"steps\.([\w-]+)", text)) == steps


def test_the_hook_checks_manifests(tmp_path: Path) -> None:
    """Its entry, called as pre-commit calls it, passes good files and names what is wrong in others."""
    (hook,) = HOOKS
    words = shlex.split(hook["entry"])
    assert words[0] == "topiarist"
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    topic = "apiVersion: topiarist.dev/v1\nkind: Topic\nmetadata: {{name: {0}}}\nspec: {{partitions: {1}, {2}}}\n"
    good.write_text(topic.format("a", 1, "replicationFactor: 1"))
    bad.write_text(topic.format("b", 0, "replicationFactor: 1"))

    def hooked(*files: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", *words, *(file.name for file in files)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert hooked(good).returncode == 0
    done = hooked(good, bad)
    assert done.returncode == 1
    assert done.stderr.startswith("bad.yaml:4:20: error: spec.partitions: found 0")


def test_pins_for_the_action_are_versions_only(tmp_path: Path) -> None:
    """What the action installs is held to the versions in constraints.txt, each of them, without hashes."""
    line = next(line for line in (ROOT / "tools/ci/install.sh").read_text().splitlines() if "sed -n" in line)
    command = line.replace("$GITHUB_ACTION_PATH", str(ROOT)).replace("$home", str(tmp_path))
    subprocess.run(["bash", "-c", command], check=True)
    pins = (tmp_path / "pins.txt").read_text().splitlines()
    wanted = re.findall(r"^([a-z0-9-]+==[^ ]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert pins == wanted
    assert "click" in {pin.partition("==")[0] for pin in pins}
