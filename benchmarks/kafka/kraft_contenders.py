"""The compared programs on a cluster in KRaft mode: topiarist, a batched Admin client, topicctl, kdef, Kafka's tools.

topicctl and kdef are built from their published sources with Go, by the versions and checksums in ``go_tools``. Where
that is not possible, the report says why, and has no figures of them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.kafka.contenders import Case, Commands, Topics, batch_command, tool_commands, write_inputs
from benchmarks.kafka.scene import log_progress
from support.kafka.jars import cache_folder
from support.kafka.kraft import KraftCluster

GO_TOOLS = {
    "topicctl": "github.com/segmentio/topicctl/cmd/topicctl",
    "kdef": "github.com/peter-evans/kdef",
}
"""The packages of the commands by name; their versions are in ``go_tools/NAME/go.mod``."""

BUILD_TIMEOUT_S = 1200

_GO_MODULES = Path(__file__).parent / "go_tools"
_TOPICCTL_TOPIC = """\
meta: {{name: {name}, cluster: bench, environment: bench, region: bench}}
spec:
  partitions: {partitions}
  replicationFactor: {replicationFactor}
  placement: {{strategy: any}}
  settings: {{{settings}}}
"""
_KDEF_TOPIC = """\
apiVersion: v1
kind: topic
metadata: {{name: {name}}}
spec:
  partitions: {partitions}
  replicationFactor: {replicationFactor}
  configs: {{{settings}}}
"""


class KraftContender(NamedTuple):
    """A program; ``commands`` returns its processes for a case, given a folder with the files of ``write_all_inputs``.

    ``sizes`` is the number of topics that it creates, reconfigures and grows, by case; all if it is missing. Programs
    that are slow run in the first round only.
    """

    name: str
    commands: Callable[[KraftCluster, Path, Case], Commands]
    sizes: Mapping[str, int] = {}
    is_slow: bool = False


def write_all_inputs(kafka: KraftCluster, folder: Path, desired: Topics) -> None:
    """Write the topics in the forms of all programs, one file each where a program has files of topics."""
    write_inputs(folder, desired)
    addresses = "".join(f"\n    - {address}" for address in kafka.bootstrap.split(","))
    (folder / "cluster.yaml").write_text(
        f"meta: {{name: bench, environment: bench, region: bench}}\nspec:\n  bootstrapAddrs:{addresses}\n"
    )
    for directory, form in (("topicctl", _TOPICCTL_TOPIC), ("kdef", _KDEF_TOPIC)):
        (folder / directory).mkdir(exist_ok=True)
        for name, spec in desired.items():
            settings = ", ".join(f'{key}: "{value}"' for key, value in spec["config"].items())
            (folder / directory / f"{name}.yaml").write_text(form.format(name=name, settings=settings, **spec))


def installed_command(*words: str) -> list[str]:
    """Return a command line of topiarist as it is installed beside this interpreter."""
    return [str(Path(sys.executable).with_name("topiarist")), *words]


def apply_command(kafka: KraftCluster, folder: Path) -> list[str]:
    """Return the command of topiarist that applies all topics."""
    return installed_command("apply", str(folder / "manifests"), "--bootstrap-servers", kafka.bootstrap, "--yes")


def topicctl_command(program: Path, folder: Path, names: Sequence[str]) -> list[str]:
    """Return the command of topicctl for some topics. It waits 10 s after some steps unless it is told otherwise."""
    options = ("--cluster-config", str(folder / "cluster.yaml"), "--sleep-loop-duration", "50ms")
    files = (str(folder / "topicctl" / f"{name}.yaml") for name in names)
    return [str(program), "apply", *files, "--skip-confirm", "--no-spinner", *options]


def kdef_command(program: Path, kafka: KraftCluster, folder: Path) -> list[str]:
    """Return the command of kdef."""
    return [
        *(str(program), "apply", str(folder / "kdef" / "*.yaml"), "--quiet"),
        *("-X", f"seedBrokers={kafka.bootstrap}", "-X", "timeoutMs=60000"),
    ]


def make_contenders(one_by_one_topics: int) -> tuple[list[KraftContender], dict[str, str]]:
    """Return the programs in the order of the first round, and why others are missing, by name."""
    programs, missing = _build_go_tools()
    contenders = [
        KraftContender("topiarist", lambda kafka, folder, _: [apply_command(kafka, folder)]),
        KraftContender("batched Admin client", lambda kafka, folder, _: [batch_command(kafka.bootstrap, folder)]),
    ]
    if program := programs.get("topicctl"):
        contenders.append(_topicctl(program))
    if program := programs.get("kdef"):
        contenders.append(_kdef(program))
    few = dict.fromkeys(("creates", "configs", "growths"), one_by_one_topics)
    tools = KraftContender(
        "Kafka's command line tools",
        lambda kafka, folder, case: tool_commands(kafka.bootstrap, folder, case),
        sizes=few,
        is_slow=True,
    )
    return [*contenders, tools], missing


def _topicctl(program: Path) -> KraftContender:
    def commands(_: KraftCluster, folder: Path, case: Case) -> Commands:
        # It extends one topic in several seconds, so that only what changes is given to it then.
        names = case.changed if case.name == "growths" else list(case.desired)
        return [topicctl_command(program, folder, names)]

    return KraftContender("topicctl", commands, sizes={"growths": 10}, is_slow=True)


def _kdef(program: Path) -> KraftContender:
    return KraftContender("kdef", lambda kafka, folder, _: [kdef_command(program, kafka, folder)], is_slow=True)


def _build_go_tools() -> tuple[dict[str, Path], dict[str, str]]:
    programs: dict[str, Path] = {}
    missing: dict[str, str] = {}
    for name, package in GO_TOOLS.items():
        built, error = _build(name, package)
        if built:
            programs[name] = built
        else:
            missing[name] = error
            log_progress(f"{name} cannot be built, so there are no figures of it: {error}")
    return programs, missing


def _build(name: str, package: str) -> tuple[Path | None, str]:
    """Build a command; return its path, or None and the reason."""
    if shutil.which("go") is None:
        return None, "go is not installed"
    target = cache_folder() / f"benchmark-{name}"
    log_progress(f"building {name}")
    try:
        said = subprocess.run(
            ["go", "build", "-mod=readonly", "-o", str(target), package],
            cwd=_GO_MODULES / name,
            capture_output=True,
            text=True,
            check=False,
            timeout=BUILD_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return None, f"go build took more than {BUILD_TIMEOUT_S} s"
    lines = said.stderr.strip().splitlines()
    return (target, "") if said.returncode == 0 else (None, lines[-1] if lines else f"exit code {said.returncode}")
