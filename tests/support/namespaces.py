"""Namespaces of the kernel: a command with disks of its own, without a network, or as an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

_LOOPBACK_UP = """
import fcntl, os, socket, struct, sys
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh22x", b"lo", 0x41))  # SIOCSIFFLAGS: up and running
os.execvp(sys.argv[1], sys.argv[1:])
"""


def own_disks() -> list[str]:
    """Return the start of a command line: the command is root for its own mounts, which no other process sees."""
    mount = ["mount", "-t", "tmpfs", "none", "/mnt"]
    return _first_working(mount, ["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"])


def no_network() -> list[str]:
    """Return the start of a command line: the command has the loopback interface and no other."""
    up = [sys.executable, "-c", _LOOPBACK_UP]
    return _first_working(["true"], ["unshare", "--net", *up], ["unshare", "--user", "--map-root-user", "--net", *up])


def ordinary_user() -> list[str]:
    """Return the start of a command line: the command runs without the rights of root."""
    command = ["sh", "-c", 'test "$(id -u)" != 0']
    return _first_working(command, ["env"], ["unshare", "--user", "--map-user=1000", "--map-group=1000"])


def _first_working(command: list[str], *starts: list[str]) -> list[str]:
    """Return the first start that runs a command; without any the test fails in CI, and is skipped elsewhere."""
    for start in starts:
        if (
            shutil.which(start[0])
            and subprocess.run([*start, *command], capture_output=True, check=False).returncode == 0
        ):
            return start
    reason = f"this machine runs none of these as they should: {'; '.join(map(' '.join, starts))}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
