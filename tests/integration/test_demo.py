"""``make demo``: it tells its story to the end, and it ends everything it started, whenever it is stopped."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.waiting import is_alive, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.core]

DEMO = [sys.executable, str(ROOT / "tools" / "demo.py")]


def test_the_demo_shows_every_step(tmp_path: Path) -> None:
    """Each command ends with the exit code that belongs to it, and says what the story needs it to say."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(DEMO, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    commands = re.findall(r"^\$ topiarist (\w+)", done.stdout, re.MULTILINE)
    assert commands == ["validate", "plan", "apply", "apply", "plan", "plan", "apply", "validate"]
    steps = done.stdout.split("\n$ topiarist ")
    for step, said in ((2, "orders"), (3, "refused"), (4, "clicks"), (5, "No changes"), (6, "6 -> 12"), (7, "orders")):
        assert said in steps[step], steps[step]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_stopped_demo_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    """Stopped in the middle, it ends ZooKeeper and removes its folders; the exit code names the signal."""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        DEMO,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    ) as demo:
        assert demo.stdout
        while "$ topiarist plan" not in demo.stdout.readline():
            pass
        (folder,) = tmp_path.glob("topiarist-zookeeper-*")
        server = int((folder / "pid").read_text())
        os.killpg(demo.pid, number)
        demo.stdout.read()
    assert demo.returncode == 128 + number
    wait_until(lambda: not is_alive(server), "ZooKeeper to end")
    assert list(tmp_path.iterdir()) == []
