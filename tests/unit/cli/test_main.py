"""Commands with two words, their completion, and the modules that a start imports, which are counted."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

import topiarist.cli.commands
from support.checkout import ROOT
from support.cli.runs import run_topiarist
from topiarist.api import RunSettings
from topiarist.cli.main import _COMMAND_HINTS, ALIASES, COMMANDS, cli, run
from topiarist.cli.terminal import Settings


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["moves"], "topiarist moves [OPTIONS] [PATH]..."),
        (["moves", "status"], "topiarist moves status [OPTIONS] [PATH]..."),
        (["moves", "clear"], "topiarist moves clear [OPTIONS] [PATH]..."),
        (["moves", "revert"], "topiarist moves revert [OPTIONS] REPORT"),
    ],
)
def test_a_second_word_selects_a_command(words: list[str], usage: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The help of each command has its own usage."""
    assert run([*words, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: {usage}\n")


def test_another_second_word_is_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    """A word that is no command is the argument of the first one."""
    assert run(["moves", "no-such-file.yaml"]) == 1
    assert "no-such-file.yaml" in capsys.readouterr().err


def test_the_first_word_of_each_pair_is_a_command() -> None:
    """Help and completion list first words only, so each must be a command by itself."""
    pairs = [name.split() for name in COMMANDS if " " in name]
    assert pairs
    assert all(first in COMMANDS for first, _ in pairs)


@pytest.mark.parametrize(
    ("words", "incomplete", "proposed"),
    [
        ([], "mo", ["move-records", "moves"]),
        (["moves"], "", ["status", "clear", "revert"]),
        (["moves"], "cl", ["clear"]),
    ],
)
def test_both_words_are_completed(words: list[str], incomplete: str, proposed: list[str]) -> None:
    """The first word is proposed once, and after it the words that may follow."""
    assert isinstance(cli, click.Group)
    found = ShellComplete(cli, {}, "topiarist", "_TOPIARIST_COMPLETE").get_completions(words, incomplete)
    assert [item.value for item in found if item.type == "plain"] == proposed


def test_options_of_the_second_word_are_completed() -> None:
    """After two words the options are those of that command."""
    found = ShellComplete(cli, {}, "topiarist", "_TOPIARIST_COMPLETE").get_completions(["moves", "revert"], "--o")
    assert [item.value for item in found] == ["--owner", "--out"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("diff topics", 'no such command: "diff"; topiarist plan shows what apply would change, and writes nothing'),
        ("delete orders", "set ensure: Absent in the manifest of the topic, then topiarist apply: docs/deleting.md"),
        ("Rollback", "revert the commit, then topiarist plan and topiarist apply: docs/deleting.md"),
        ("create orders", "write the topic as a manifest, then topiarist plan and topiarist apply"),
        ("rm orders", "set ensure: Absent in the manifest of the topic, then topiarist apply: docs/deleting.md"),
        ("sync", "topiarist apply makes the changes"),
        ("status", "topiarist list has the topics of a cluster, topiarist describe one of them"),
        ("lint topics", "topiarist validate reads manifests without a cluster"),
        ("help plan", "topiarist COMMAND --help has the options of a command"),
        ("dump", "topiarist export writes the topics of a cluster as manifests"),
        ("adopt orders", "topiarist apply adopts the topics of manifests: docs/adopting.md"),
        ("drain 5", "name brokers in drainBrokers of the Cluster, then topiarist apply: docs/move-replicas.md"),
        ("rebalance", "topiarist apply moves replicas, as far as the Cluster allows: docs/move-replicas.md"),
        ("apply -f topics", "'-f': a path needs no option"),
        ("plan --filename topics", "'--filename': a path needs no option"),
        ("plann", 'no such command: "plann"; did you mean plan?'),
        ("quux", 'Error: no such command: "quux"\n'),
        ("--dry-run", "'--dry-run': topiarist plan shows what apply would change, and writes nothing"),
        ("apply topics --dry-run", "'--dry-run': topiarist plan shows what apply would change, and writes nothing"),
        ("apply --check", "'--check': topiarist plan shows what apply would change, and writes nothing"),
        ("unmanage --dry-run orders", "': without --yes, topiarist unmanage shows what it would write, and asks first"),
        ("moves clear --dry-run", "': without --yes, topiarist moves clear shows what it would write, and asks first"),
        ("apply --auto-approve", "'--auto-approve': --yes applies without a question"),
        ("apply topics --force", "'--force': --allow-risk RISK=TOPIC consents to a loss, for one topic"),
        (
            "plan topics --allow-risk DataLoss=a",
            "'--allow-risk': a run that only reads needs no consent: give it to apply",
        ),
        ("plan -o json", "'-o': use --format"),
        ("list --output json", "'--output': use --format"),
        ("plan --target orders", "'--target': use --topic"),
        ("completion --json", "No such option '--json'.\n"),
        ("apply --adopted", "Did you mean '--adopt'"),
    ],
)
def test_words_of_other_tools_have_a_hint(words: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A command or option of other tools is a usage error that names what to use; an unknown word has no hint."""
    assert run(words.split()) == 2
    assert hint in capsys.readouterr().err


def test_hints_are_for_words_that_are_no_commands() -> None:
    """No command or option hides its hint, and each hint names commands that exist."""
    for hint, names in _COMMAND_HINTS.items():
        assert not {*names} & {*COMMANDS, *ALIASES}
        assert {*re.findall(r"topiarist ([a-z]+)", hint)} <= {*COMMANDS}
        assert all((ROOT / page).is_file() for page in re.findall(r"docs/\S+", hint))


MACHINERY = (
    *("yaml", "kazoo", "kafka", "jsonschema_rs", "cel_expr_python", "pyspark", "pyarrow", "kopf", "aiohttp"),
    *("topiarist.adapters", "topiarist.reconcile", "topiarist.runs.inputs", "topiarist.runs.sessions"),
    *(
        "topiarist.desired.resolve",
        "topiarist.planning",
        "topiarist.filters",
        "topiarist.output",
        "topiarist.kubernetes",
    ),
)
"""What the help of a command has no use for, with all below it."""

WITH_MACHINERY = {"import", "move-records"}
"""Commands with options, or tables of options, that come from their machinery."""


def _imported(program: str) -> list[str]:
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return found.stdout.splitlines()[-1].split()


def test_help_imports_no_machinery() -> None:
    """All commands together, with their options, import neither a library of a cluster nor the code of a run."""
    names = [name for name in COMMANDS if name not in WITH_MACHINERY]
    program = f"""
import sys, click
from topiarist.cli.main import cli
for name in {names!r}:
    command = cli.get_command(click.Context(cli), name)
    command.get_help(click.Context(command))
print(*sys.modules)
"""
    found = _imported(program)
    assert [each for each in found if any(each == name or each.startswith(f"{name}.") for name in MACHINERY)] == []


@pytest.mark.parametrize(
    ("address", "most"),
    [("--zookeeper=127.0.0.1:1/kafka", 83), ("--bootstrap-servers=127.0.0.1:1", 93)],
    ids=["zookeeper", "brokers"],
)
def test_a_plan_imports_what_it_uses(address: str, most: int) -> None:
    """A plan of manifests by YAML, without policies and deletions, imports at most so many modules of topiarist.

    No other library of Kafka is imported.
    """
    words = ["plan", str(ROOT / "manifests" / "demo"), address, "--connect-timeout=0.1", "-q"]
    program = f"import sys; from topiarist.cli.main import run; run({words!r}); print(*sys.modules)"
    modules = _imported(program)
    found = [name for name in modules if name.partition(".")[0] == "topiarist"]
    assert "kafka" not in modules
    assert len(found) <= most, f"{len(found)} modules"


def test_no_command_and_no_option_is_forgotten() -> None:
    """Each command of a module has its row, and each setting of a run its option, on one command at least."""
    folder = Path(topiarist.cli.commands.__file__).parent
    assert {entry.module for entry in COMMANDS.values()} == {path.stem for path in folder.glob("[!_]*.py")}
    commands = [cli.get_command(click.Context(cli), name) for name in COMMANDS]
    by_module: dict[str, set[str | None]] = {}
    for entry, command in zip(COMMANDS.values(), commands, strict=True):
        by_module.setdefault(entry.module, set()).add(command.name if command else None)
    for name, known in by_module.items():
        module = sys.modules[f"topiarist.cli.commands.{name}"]
        assert known == {each.name for each in vars(module).values() if isinstance(each, click.Command)}
    options = {param.name for command in commands if command for param in command.params}
    assert set(RunSettings.__struct_fields__) <= options
    assert set(Settings.__struct_fields__) - options == {"address_from", "verbosity"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("plan topics --out topics/orders.yaml", '--out: found "topics/orders.yaml", an input by "topics"'),
        ("plan topics --out topics/new.yml", '--out: found "topics/new.yml", an input by "topics"'),
        ("plan topics --clusters eu.json --page eu.json", '--page: found "eu.json", an input by "eu.json"'),
        ("plan topics --out plan --page page --junit ./plan", '--junit: found "./plan", as for --out'),
        ("apply --yes --plan plan.json --report plan.json", '--report: found "plan.json", an input by "plan.json"'),
        (
            "apply topics --yes --report topics/orders.yaml",
            '--report: found "topics/orders.yaml", an input by "topics"',
        ),
        ("moves revert report.jsonl --out report.jsonl", '--out: found "report.jsonl", an input by "report.jsonl"'),
    ],
)
def test_an_output_replaces_no_input(words: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An output that is an input, would be a manifest of the next run, or is another output is a usage error."""
    monkeypatch.chdir(tmp_path)
    done = run_topiarist(*words.split())
    assert (done.code, done.out) == (2, "")
    assert f"Error: {message}: name another file\n" in done.err
    assert [*tmp_path.iterdir()] == []


def test_a_plan_may_be_saved_beside_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is no manifest by its name may be in their folder; the error is that there is no manifest."""
    monkeypatch.chdir(tmp_path)
    assert "name another file" not in run_topiarist("plan", ".", "--out", "plan.json", "--page", "plan.html").err


@pytest.mark.parametrize("words", ["init", "validate {} --format sarif", "plan {} --out plan.json", "drift --demo new"])
def test_a_deleted_working_folder_is_an_error(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A job may remove the folder it runs in: what needs it says so, in place of a traceback."""
    (tmp_path / "topics.yaml").touch()
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert run(words.format(tmp_path / "topics.yaml").split()) == 1
    assert "error: the working folder was deleted: change to another one" in capsys.readouterr().err
