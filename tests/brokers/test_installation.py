"""The package as a user installs it, without extras, on a cluster in KRaft mode."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from support.cli.runs import document
from support.kafka.kraft_fixture import KraftFixture
from support.repo.packages import build, copy_sources, install_wheel

PROGRAM = "import importlib.metadata as found; print(*sorted(each.name.lower() for each in found.distributions()))"


def test_the_wheel_without_extras_reaches_brokers(kraft: KraftFixture, tmp_path: Path) -> None:
    """The five packages that every installation has are enough to plan, apply and plan again through brokers."""
    clone, out = tmp_path / "clone", tmp_path / "out"
    clone.mkdir()
    python = install_wheel(build(copy_sources(clone), "wheel", out), tmp_path / "environment")
    topic = tmp_path / "topic.yaml"
    topic.write_text(document("Topic", "installed", partitions=1, replicationFactor=1))

    def run(*words: str) -> str:
        done: Any = subprocess.run(
            [python, "-P", *words], cwd=tmp_path, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}
        )
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    installed = run("-c", PROGRAM).replace("_", "-").split()
    assert installed == ["click", "jsonschema-rs", "kazoo", "msgspec", "pyyaml", "topiarist"]
    address = ("--bootstrap-servers", kraft.kafka.bootstrap)
    assert "installed" in run("-m", "topiarist", "plan", str(topic), *address)
    run("-m", "topiarist", "apply", str(topic), *address, "--yes")
    assert "No changes" in run("-m", "topiarist", "plan", str(topic), *address)
