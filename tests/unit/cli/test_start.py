"""What a start imports: help needs no machinery, a plan only what it uses. Modules are counted; no time is measured.

The last test holds the recipes of ``cli.main`` and ``runs.settings``: no command and no option is forgotten.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

import topiarist.cli.commands
from support.checkout import ROOT
from topiarist.api import RunSettings
from topiarist.cli.main import COMMANDS, cli
from topiarist.cli.terminal import Settings

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
