"""The GitHub action, its scripts, the samples, the hook, and the outcome of an apply as Markdown."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from generate import render_component

from support.checkout import ROOT
from support.repo.pages import table
from topiarist import __version__
from topiarist.cli.main import cli

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
    """Return the output of ``bash`` and shellcheck for a script; empty without errors."""
    parsed = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    words = [str(BIN / "shellcheck"), f"--shell={shell}", "--external-sources", "-"]
    judged = subprocess.run(words, input=text, capture_output=True, text=True, check=False, cwd=ROOT)
    return parsed.stderr + judged.stdout + judged.stderr


def shell_of(value: Any, key: str = "") -> Iterator[str]:
    """Return every script in a document: the values of ``run``, ``script``, ``before_script`` and ``after_script``."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from shell_of(inner, name)
    elif isinstance(value, list):
        if key in ("script", "before_script", "after_script"):
            yield "\n".join(value)
        else:
            for inner in value:
                yield from shell_of(inner, key)
    elif key == "run":
        yield str(value)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_every_script_is_sound(script: Path) -> None:
    """Every script passes shellcheck, is executable if a user runs it, and stops at the first failure."""
    text = script.read_text()
    assert lint(text) == ""
    if script.name != "github.sh":
        assert text.startswith("#!/usr/bin/env bash\n")
        assert "\nset -euo pipefail\n" in text
        assert os.access(script, os.X_OK)


@each_sample
def test_every_sample_is_sound(sample: Path) -> None:
    """Every sample is YAML with its purpose in the first line, and its shell code is clean."""
    text = sample.read_text()
    assert text.startswith("# ")
    for script in shell_of(yaml.safe_load(text)):
        plain = re.sub(r"\$\{\{.*?\}\}", "x", script)
        assert lint(plain, "bash" if "github" in sample.name else "sh") == "", plain


@each_sample
def test_samples_give_no_more_than_is_needed(sample: Path) -> None:
    """A GitHub workflow has only the permissions of its jobs, and no input appears in the text of a script."""
    content = yaml.safe_load(sample.read_text())
    if sample.name.startswith("github"):
        assert content["permissions"] == {}
        assert all("permissions" in job for job in content["jobs"].values())
        assert all("${{" not in script for script in shell_of(content))
        assert "pull_request_target" not in sample.read_text()


@each_sample
def test_samples_give_the_action_what_it_takes(sample: Path) -> None:
    """Every input in a sample is an input of the action, and the required inputs are present."""
    required = {name for name, about in ACTION["inputs"].items() if about.get("required")}
    for job in (yaml.safe_load(sample.read_text()).get("jobs") or {}).values():
        for step in job["steps"]:
            if "topiarist@" in step.get("uses", ""):
                assert required <= set(step["with"]) <= set(ACTION["inputs"])


@each_sample
def test_samples_say_what_topiarist_understands(sample: Path) -> None:
    """Every topiarist command in a sample parses unchanged; clusters come from the platform folder only."""
    content = yaml.safe_load(sample.read_text())
    found = [line for script in shell_of(content) for line in OURS.findall(script)]
    hooks = [hook for repository in content.get("repos", []) for hook in repository.get("hooks", [])]
    found += [f"validate {shlex.join(hook['args'])}" for hook in hooks]
    assert bool(found) is (sample.name not in WITHOUT_A_COMMAND)
    for name, *words in map(shlex.split, found):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        known = command.make_context(name, words).params
        (place,) = known["platform"] or known["paths"]
        assert Path(place).name == "platform"
        assert known["clusters"] == ()


def sample_of(name: str) -> dict[str, Any]:
    """Return a sample; ``on``, a boolean in YAML 1.1, becomes an ordinary key."""
    content: dict[Any, Any] = yaml.safe_load((ROOT / "docs" / "ci" / name).read_text())
    return {"on" if key is True else key: value for key, value in content.items()}


@pytest.mark.parametrize("name", ["github.yml", "github-forks.yml"])
def test_a_change_of_the_platform_is_planned_and_applied(name: str) -> None:
    """A change of clusters and policies is planned and applied like any other change."""
    for event in sample_of(name)["on"].values():
        assert event["paths"] == ["topics/**", "platform/**"]


def test_gitlab_plans_and_applies_a_change_of_the_platform() -> None:
    """The job runs for both folders, and a plan with the branch's own platform folder starts manually."""
    content = sample_of("gitlab-ci.yml")
    for job in ("topics-validate", "topics-plan", "topics-apply"):
        assert {path for rule in content[job]["rules"] for path in rule["changes"]} == {"topics/**/*", "platform/**/*"}
    (own,) = [rule for rule in content["topics-plan"]["rules"] if "variables" in rule]
    assert (own["changes"], own["when"], own["allow_failure"]) == (["platform/**/*"], "manual", False)


def test_a_branch_plans_with_its_own_platform_only_once_that_is_approved() -> None:
    """Environment and platform folder depend on one comparison; any failure of it requires the approval."""
    jobs = sample_of("github.yml")["jobs"]
    unchanged = "needs.compare.outputs.platform == 'unchanged'"
    assert jobs["plan"]["needs"] == "compare"
    assert jobs["plan"]["environment"] == f"${{{{ {unchanged} && 'topics-plan' || 'topics-plan-platform' }}}}"
    (step,) = [step for step in jobs["plan"]["steps"] if "topiarist@" in step["uses"]]
    assert step["with"]["platform"] == f"${{{{ {unchanged} && 'trusted/platform' || 'platform' }}}}"


@pytest.mark.parametrize(
    ("changed", "words"),
    [("topics", "unchanged"), ("platform", "changed"), ("", "changed")],
    ids=["topics", "platform", "no history"],
)
def test_the_comparison_finds_a_changed_platform(tmp_path: Path, changed: str, words: str) -> None:
    """The comparison works on the merge of a branch into its base, as GitHub checks it out.

    An error of git counts as a change.
    """
    (script,) = [step["run"] for step in sample_of("github.yml")["jobs"]["compare"]["steps"] if "run" in step]

    def git(*arguments: str) -> None:
        author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", *author, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def commit(folder: str) -> None:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "a.yaml").write_text(f"{folder}\n")
        git("add", ".")
        git("commit", "--quiet", "--message", folder)

    git("init", "--quiet", "--initial-branch", "main")
    commit("other")
    if changed:
        git("switch", "--quiet", "--create", "branch")
        commit(changed)
        git("switch", "--quiet", "main")
        commit("more")
        git("merge", "--quiet", "--no-ff", "branch")
    output = tmp_path / "output"
    done = subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env={**os.environ, "GITHUB_OUTPUT": str(output)})
    assert (done.returncode, output.read_text()) == (0, f"platform={words}\n")


def test_no_merge_that_waits_is_lost() -> None:
    """Every merge runs: the samples queue waiting runs of GitHub and keep pending pipelines of GitLab."""
    job = sample_of("github.yml")["jobs"]["apply"]
    assert job["concurrency"] == {"group": "topics-apply", "queue": "max"}
    content = sample_of("gitlab-ci.yml")
    kept = {rule["if"]: rule["auto_cancel"]["on_new_commit"] for rule in content["workflow"]["rules"]}
    assert kept["$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH"] == "none"
    job = content["topics-apply"]
    assert job["resource_group"] in (ROOT / "docs/ci/gitlab-ci.yml").read_text().split("resource_groups/")[1]
    assert not job.get("interruptible")


def test_an_apply_may_say_what_came_of_it() -> None:
    """The apply job has the permission to comment on the pull request."""
    assert sample_of("github.yml")["jobs"]["apply"]["permissions"]["pull-requests"] == "write"


def test_samples_name_one_repository() -> None:
    """Every sample installs topiarist from the same repository and major version, by a generally available protocol."""
    found = {}
    for sample in SAMPLES:
        text = sample.read_text()
        found[sample.name] = re.findall(r"([\w:/.+@-]*OWNER/topiarist)@?(\w*)", text)
        assert not re.search(r"install .*\btopiarist$", text, re.MULTILINE), "no registry has it"
    (repository,) = sample_of("pre-commit-config.yaml")["repos"]
    tag = f"v{__version__.partition('.')[0]}"
    assert (repository["repo"], repository["rev"]) == ("https://github.com/OWNER/topiarist", tag)
    places = {place for name, every in found.items() for place in every if name != "pre-commit-config.yaml"}
    assert places == {("OWNER/topiarist", tag), ("git+https://github.com/OWNER/topiarist", tag)}
    (hook,) = repository["hooks"]
    assert hook["id"] in {known["id"] for known in HOOKS}
    for path in ("topics/a.yaml", "platform/a.yaml"):
        assert re.search(hook["files"], path)
    assert yaml.safe_load(re.findall(r"```yaml\n(- id: topiarist.*?)```", PAGE, re.DOTALL)[0]) == [hook]


COMPONENT = ROOT / "tools" / "ci" / "gitlab"


def test_the_component_has_the_form_of_gitlab() -> None:
    """Its header has inputs only, and its jobs set nothing for other jobs of a pipeline."""
    head, jobs = yaml.safe_load_all((COMPONENT / "templates" / "topiarist.yml").read_text())
    assert head.keys() == {"spec"}
    assert head["spec"].keys() == {"inputs"}
    for about in head["spec"]["inputs"].values():
        assert {"default", "description"} <= about.keys() <= {"default", "description", "regex"}
        assert about["description"].endswith(".")
        assert not about.get("regex") or re.search(about["regex"], about["default"])
    assert all(name.lstrip(".").startswith("$[[ inputs.job-prefix ]]") for name in jobs)


def test_the_components_inputs_are_used_and_explained() -> None:
    """Each input is used, each one that is used is declared, and the table of the README has each with its default."""
    text = (COMPONENT / "templates" / "topiarist.yml").read_text()
    inputs = next(yaml.safe_load_all(text))["spec"]["inputs"]
    assert set(re.findall(r"\$\[\[ *(.*?) *\]\]", text)) == {f"inputs.{name}" for name in inputs}
    rows = table((COMPONENT / "README.md").read_text(), "input")
    assert [(name, default) for name, default, *_ in rows] == [(name, each["default"]) for name, each in inputs.items()]
    assert "(../tools/ci/gitlab/README.md)" in PAGE


def test_a_component_with_other_inputs_is_sound() -> None:
    """The shell code of all jobs is clean with any names, and no default is left."""
    given = {"topics": "a/t", "platform": "a/p", "cluster": "eu", "package": "", "image": "own:1", "stage": "one"}
    given |= {"apply-stage": "two", "environment": "live", "job-prefix": "eu"}
    text = render_component((COMPONENT / "templates" / "topiarist.yml").read_text(), given)
    content = yaml.safe_load(text)
    for script in shell_of(content):
        assert lint(script, "sh") == "", script
    assert not re.search(r"\btopics/|\bplatform/|kafka|python:|\$\[\[", text)
    assert (content["eu-plan"]["stage"], content["eu-apply"]["stage"]) == ("one", "two")


def test_every_sample_is_listed() -> None:
    """The page has a link to each sample."""
    assert [sample.name for sample in SAMPLES if f"(ci/{sample.name})" not in PAGE] == []


def test_the_actions_inputs_are_explained() -> None:
    """The action and the table of the page describe each input, in the order of the action."""
    assert all(about["description"] for about in ACTION["inputs"].values())
    listed = [name.strip("` ") for row in table(PAGE, "input") for name in row[0].split(",")]
    assert listed == list(ACTION["inputs"])


def test_the_actions_steps_run_what_is_there() -> None:
    """The steps of the action use existing scripts, inputs only through the environment, and one pinned action."""
    used = set()
    for step in ACTION["runs"]["steps"]:
        text = step.get("run", "")
        assert "${{" not in text
        assert lint(text) == ""
        used |= set(re.findall(r"\$GITHUB_ACTION_PATH/(\S+?)\"", text))
        assert "run" in step or re.fullmatch(r"actions/upload-artifact@[0-9a-f]{40}", step["uses"])
        assert "run" not in step or step["shell"] == "bash"
    assert used == {f"tools/ci/{script.name}" for script in SCRIPTS if script.name != "github.sh"}


def test_the_actions_expressions_name_what_is_there() -> None:
    """Every input and step in an expression exists, and no input is unused."""
    text = (ROOT / "action.yml").read_text()
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(ACTION["inputs"])
    steps = {step["id"] for step in ACTION["runs"]["steps"] if "id" in step}
    assert set(re.findall(r"steps\.([\w-]+)", text)) == steps


@pytest.mark.slow
def test_the_hook_checks_manifests(tmp_path: Path) -> None:
    """The entry of the hook, called as pre-commit calls it, accepts valid files and reports the errors of invalid
    ones.
    """
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


PYTHON = """#!/bin/sh
echo "$*" >>"$CALLS"
case "$1 $2" in
  "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && cp "$0" "$3/bin/topiarist" ;;
  "-m pip" | "--version ") ;;
  *) exec {python} "$@" ;;
esac
"""
"""A Python that notes how it is called, and installs nothing."""


def test_the_action_installs_with_hashes(tmp_path: Path) -> None:
    """The action installs downloads with hashes and without a build, and builds the checkout without an index."""
    stand_in = tmp_path / "python"
    stand_in.write_text(PYTHON.format(python=sys.executable))
    stand_in.chmod(0o755)
    given = {"RUNNER_TEMP": tmp_path, "GITHUB_ACTION_PATH": ROOT, "GITHUB_PATH": tmp_path / "path", "PYTHON": stand_in}
    known = {
        "PATH": os.environ["PATH"],
        "CALLS": str(tmp_path / "calls"),
        **{name: str(to) for name, to in given.items()},
    }
    subprocess.run([str(ROOT / "tools/ci/install.sh")], env=known, check=True, capture_output=True)
    calls = (tmp_path / "calls").read_text().splitlines()
    fetched, built = [shlex.split(call) for call in calls if call.startswith("-m pip install")]
    assert {"--require-hashes", "--no-deps", "--only-binary"} <= set(fetched)
    assert {"--no-index", "--no-deps", "--no-build-isolation"} <= set(built)
    assert built[-1] == str(ROOT)
    pins = re.split(r"^(?=[a-z])", Path(fetched[-1]).read_text(), flags=re.MULTILINE)[1:]
    assert all("--hash=sha256:" in pin for pin in pins)
    names = {pin.partition("==")[0] for pin in pins}
    assert {"cel-expr-python", "click", "jsonschema-rs", "kazoo", "setuptools"} <= names
    assert (tmp_path / "path").read_text() == f"{tmp_path}/topiarist-home/bin\n"


@pytest.mark.parametrize(
    ("command", "reviewed"),
    [
        ("apply", ""),
        ("apply", "True"),
        ("apply", "yes"),
        ("apply", "true "),
        ("apply", "False"),
        ("Plan", "true"),
        ("", "true"),
    ],
)
def test_the_action_takes_no_word_that_it_does_not_know(command: str, reviewed: str, tmp_path: Path) -> None:
    """A typo in ``command`` or ``reviewed`` ends the step before it calls topiarist."""
    topiarist = tmp_path / "topiarist"
    topiarist.write_text("#!/bin/sh\ntouch called\n")
    topiarist.chmod(0o755)
    known = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "REVIEWED": reviewed,
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    words = [str(ROOT / "tools/ci/run.sh"), command, "out"]
    done = subprocess.run(words, env=known, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout.startswith("::error title=topiarist::")
    assert not (tmp_path / "called").exists()
    assert not (tmp_path / "output").exists()


@pytest.mark.parametrize("content", [None, "", "{}"])
@pytest.mark.parametrize("reviewed", ["true", "false"])
def test_a_review_that_is_wanted_is_always_asked_for(reviewed: str, content: str | None, tmp_path: Path) -> None:
    """Only the input decides whether the step passes ``--reviewed``, for any plan file and without a plan file."""
    topiarist = tmp_path / "topiarist"
    topiarist.write_text('#!/bin/sh\necho "$@"\n')
    topiarist.chmod(0o755)
    if content is not None:
        (tmp_path / "plan.json").write_text(content)
    known = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "REVIEWED": reviewed,
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }
    words = [str(ROOT / "tools/ci/run.sh"), "apply", str(tmp_path)]
    done = subprocess.run(words, env=known | {"ACTION_PATHS": "topics"}, capture_output=True, text=True, check=True)
    (called,) = [line for line in done.stdout.splitlines() if line.startswith("apply ")]
    assert (f"--reviewed {tmp_path}/plan.json" in called) is (reviewed == "true")


SPEC = importlib.util.spec_from_file_location("outcome", ROOT / "tools" / "ci" / "outcome.py")
assert SPEC is not None
assert SPEC.loader is not None
OUTCOME = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(OUTCOME)


def topic(name: str, result: str = "done", reason: str | None = None, message: str = "") -> dict[str, Any]:
    """Return the line of a topic."""
    return {"row": "topic", "cluster": "shop", "topic": name, "result": result, "reason": reason, "message": message}


def report(*rows: dict[str, Any], errors: tuple[str, ...] = (), ended: bool = True) -> str:
    """Return a report with a header, these topics, and a summary unless the report is truncated."""
    lines = [{"row": "header"}, *rows, *([{"row": "summary", "errors": [*errors]}] if ended else [])]
    return "".join(json.dumps(line) + "\n" for line in lines)


def test_what_is_left_to_do_has_a_row_and_the_rest_a_name() -> None:
    """Unfinished topics have visible rows, and the names of all other topics are folded."""
    found = report(topic("a"), topic("b", "refused", "DataLoss", "retention.ms is lowered"), topic("c", "unchanged"))
    assert OUTCOME.outcome(found, "4").splitlines() == [
        "<!-- topiarist apply -->",
        "### Not all applied: 1 done, 1 refused, 1 unchanged.",
        "",
        "| topic | cluster | result | reason | message |",
        "| --- | --- | --- | --- | --- |",
        "| `b` | `shop` | `refused` | `DataLoss` | `retention.ms is lowered` |",
        "",
        "<details><summary>Topics that are as declared</summary>",
        "",
        "- `a` `shop`",
        "- `c` `shop`",
        "",
        "</details>",
    ]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (report(topic("a")), "0", "Applied: 1 done."),
        (report(), "0", "Applied: nothing to do."),
        (
            report(topic("a"), errors=("SessionLost",)),
            "1",
            "Not all applied: 1 done. topiarist ended with 1; see the log",
        ),
        (
            report(topic("a"), ended=False) + '{"row": "top',
            "143",
            "Interrupted, or not started: 1 done. topiarist ended with 143",
        ),
        ("", "2", "Interrupted, or not started: no topic. topiarist ended with 2"),
    ],
)
def test_the_title_says_how_it_ended(text: str, code: str, words: str) -> None:
    """The title gives the result; a truncated or missing report does not count as complete."""
    assert OUTCOME.outcome(text, code).splitlines()[1].startswith(f"### {words}")


@pytest.mark.parametrize(
    "message", ["`a` @team #1 <b> | x", "``", "two\nlines\x1b[0m", "a`", "<!-- topiarist plan -->"]
)
def test_no_text_becomes_markup(message: str) -> None:
    """Any message becomes a code span of one line in one cell."""
    lines = OUTCOME.outcome(report(topic("a", "failed", "Unwritable", message)), "1").splitlines()
    (row,) = [line for line in lines if line.startswith("| `a`")]
    cells = row.replace("\\|", "").split("|")
    assert len(cells) == 7
    span = cells[5].strip()
    fence = span[: len(span) - len(span.lstrip("`"))]
    assert fence
    assert span.endswith(fence)
    assert fence not in span[len(fence) : -len(fence)].strip()
    assert span.isprintable()


def test_there_is_room_for_it_under_a_pull_request() -> None:
    """The comment has rows and then names up to the size limit, and the count of the omitted topics."""
    refused = [topic(f"r{number}", "refused", "DataLoss", "é" * 400) for number in range(100)]
    done = [topic(f"d{number}") for number in range(9000)]
    for rows, words in (
        (refused, "more unfinished topics"),
        (done, "more: see the report"),
        (refused + done, ""),
    ):
        text = OUTCOME.outcome(report(*rows), "4")
        assert len(text.encode()) < 65_536
        assert words in text
        named = re.findall(r"^(?:[|]|-) `[rd][0-9]+`", text, re.MULTILINE)
        left = re.findall(r"([0-9]+) more", text)
        assert len(named) + sum(map(int, left)) == len(rows)
