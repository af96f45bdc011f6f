"""Kafka's jars in the cache: whole and as pinned, or not there at all. Maven is played by a script."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from support.kafka import jars
from support.kafka.jars import JarsError
from support.waiting import wait_until

MAVEN = """#!/bin/sh
for word; do case $word in -DoutputDirectory=*) folder=${word#*=};; esac; done
mkdir -p "$folder"
printf one >"$folder/one.jar"
%s
printf two >"$folder/two.jar"
"""

FETCH = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from support.kafka import jars
jars.PINS = Path(sys.argv[1])
print(jars.fetch_jars("3.9.2").name)
"""


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Maven that brings two jars, both pinned, into an empty cache; the path of its script."""
    pins, script = tmp_path / "pins", tmp_path / "bin" / "mvn"
    for folder in (pins, script.parent):
        folder.mkdir()
    lines = [f"{hashlib.sha256(name.encode()).hexdigest()}  {name}.jar\n" for name in ("one", "two")]
    (pins / "3.9.2.sha256").write_text("".join(lines))
    monkeypatch.setattr(jars, "PINS", pins)
    monkeypatch.setenv("TOPIARIST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(script.parent), prepend=":")
    behave(script, "")
    return script


def behave(script: Path, between: str) -> None:
    """Let Maven do something after its first jar."""
    script.write_text(MAVEN % between)
    script.chmod(0o755)


def test_jars_are_fetched_once(maven: Path) -> None:
    """The second time nothing is asked of Maven."""
    folder = jars.fetch_jars("3.9.2")
    assert sorted(path.name for path in folder.iterdir()) == ["one.jar", "two.jar"]
    behave(maven, "exit 1")
    assert jars.fetch_jars("3.9.2") == folder


def test_a_cache_that_was_damaged_is_fetched_anew(maven: Path) -> None:
    """A missing or different jar is detected, and all jars are fetched again."""
    folder = jars.fetch_jars("3.9.2")
    (folder / "one.jar").write_text("something else")
    (folder / "two.jar").unlink()
    assert (jars.fetch_jars("3.9.2") / "one.jar").read_text() == "one"
    assert (folder / "two.jar").read_text() == "two"
    assert maven.exists()


@pytest.mark.parametrize(
    ("between", "words"),
    [
        ("exit 3", r"Maven could not bring Kafka 3.9.2 \(exit code 3\)"),
        ('printf x >"$folder/three.jar"', "not wanted: three.jar"),
        ('rm "$folder/one.jar"', "missing: one.jar"),
        ('printf x >"$folder/one.jar"', "with another sha256: one.jar"),
    ],
)
def test_what_is_not_as_pinned_is_not_kept(maven: Path, between: str, words: str) -> None:
    """A failure, a superfluous, missing or different jar is an error, and the cache is not marked as complete."""
    behave(maven, between)
    with pytest.raises(JarsError, match=words):
        jars.fetch_jars("3.9.2")
    assert [path.name for path in jars.cache_folder().iterdir()] == ["lock"]


def test_an_interrupted_fetch_leaves_nothing_that_looks_whole(maven: Path, tmp_path: Path) -> None:
    """Killed after its first jar, while another one waits: that one fetches all of it, and clears away what is left."""
    behave(maven, f"touch {tmp_path}/begun; while test ! -e {tmp_path}/go; do sleep 0.05; done")
    command = [sys.executable, "-c", FETCH, str(jars.PINS), *sys.path]
    first = subprocess.Popen(command)
    wait_until((tmp_path / "begun").exists, "the first fetch to begin")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as second:
        first.kill()
        first.wait()
        (tmp_path / "go").touch()
        said, _ = second.communicate()
    assert second.returncode == 0
    assert jars.fetch_jars("3.9.2").name == said.strip()
    assert sorted(path.name for path in jars.cache_folder().iterdir()) == sorted([said.strip(), "lock"])


def test_without_maven_one_line_says_so(maven: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is needed, and how to get it."""
    maven.unlink()
    monkeypatch.setenv("PATH", str(maven.parent))
    with pytest.raises(JarsError, match=r"^Maven is needed to fetch Kafka 3.9.2 and there is no mvn: install it .*$"):
        jars.fetch_jars("3.9.2")


def test_only_what_is_pinned_is_fetched(maven: Path) -> None:
    """Another release is none of ours."""
    with pytest.raises(JarsError, match=r"Kafka 1.0.0 is not pinned; there are 2.4.1, "):
        jars.fetch_jars("1.0.0")
    assert maven.exists()
