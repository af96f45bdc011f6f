"""Kafka's jars, fetched once into ``TOPIARIST_CACHE`` by Maven and pinned by version and checksum.

``jars/VERSION.sha256`` lists every jar of a release in the format of ``sha256sum``. A folder of jars gets its final
name only after all jars are complete and verified, so that an interrupted fetch leaves no complete-looking folder.
Every use verifies the jars again, which takes a tenth of a second. ``tools/kafka_jars.py`` is the command line.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
POM, PINS = HERE / "pom.xml", HERE / "jars"

RELEASES = ("2.4.1", "2.8.2", "3.0.2", "3.3.2", "3.4.1", "3.7.2", "3.9.2", "4.0.2", "4.4.0")
"""All releases that are pinned, oldest first."""

NEWEST = "3.9.2"
"""The newest release with a ZooKeeper mode, and the release of the clients and tools, which can talk to all of them."""

RELEASES_WITHOUT_TOOLS = frozenset({"4.4.0"})
"""Releases with no published kafka-tools: their brokers run without it, and tools of ``NEWEST`` talk to them."""

FETCH_TIMEOUT_S = 900
"""Seconds for one release; about 30 on a machine that has none of its jars."""


class JarsError(Exception):
    """An error for unavailable jars: the missing or different files, and the fix."""


def cache_folder() -> Path:
    """Return the cache folder for Kafka files; all of its content can be fetched or generated again."""
    root = os.environ.get("TOPIARIST_CACHE") or str(HERE.parents[2] / ".cache")
    return Path(root).absolute() / "kafka"


def fetch_jars(release: str) -> Path:
    """Return the folder with all jars of a release, and fetch them if necessary. Raises ``JarsError``."""
    wanted = pinned_checksums(release)
    # By version and by pins: a changed pin leads to another folder.
    folder = cache_folder() / f"{release}-{hashlib.sha256(repr(sorted(wanted.items())).encode()).hexdigest()[:12]}"
    with _cache_lock():
        if folder.is_dir() and not differences(wanted, checksums(folder)):
            return folder
        with _fetch(release) as found:
            if wrong := differences(wanted, checksums(found)):
                raise JarsError(f"Kafka {release}: what Maven brought is not what {_pins(release)} wants: {wrong}")
            shutil.rmtree(folder, ignore_errors=True)
            class_archive(folder).unlink(missing_ok=True)  # of jars with other times
            found.rename(folder)
    return folder


def pin(release: str) -> int:
    """Fetch a release, write its checksums and return the number of jars. Raises ``JarsError``."""
    with _cache_lock(), _fetch(release) as found:
        sums = checksums(found)
    PINS.mkdir(exist_ok=True)
    _pins(release).write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())))
    return len(sums)


def pinned_checksums(release: str) -> dict[str, str]:
    """Return the checksums of the jars of a release, by file name.

    Raises ``JarsError`` for an unknown release.
    """
    if release not in RELEASES or not _pins(release).exists():
        raise JarsError(f"Kafka {release} is not pinned; there are {', '.join(RELEASES)}")
    lines = _pins(release).read_text().splitlines()
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}


def checksums(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file in a folder, by name."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def differences(wanted: Mapping[str, str], found: Mapping[str, str]) -> str:
    """Describe missing files, extra files and files with another checksum; empty without differences."""
    kinds = {
        "missing": wanted.keys() - found.keys(),
        "not wanted": found.keys() - wanted.keys(),
        "with another sha256": {name for name in wanted.keys() & found.keys() if wanted[name] != found[name]},
    }
    return "; ".join(f"{kind}: {', '.join(sorted(names))}" for kind, names in kinds.items() if names)


def class_archive(jars: Path) -> Path:
    """Return the path of the archive of the classes of a broker with these jars; see ``class_archives``."""
    return jars.with_name(f"{jars.name}.jsa")


def _pins(release: str) -> Path:
    return PINS / f"{release}.sha256"


@contextmanager
def _cache_lock() -> Iterator[None]:
    """Hold an exclusive lock over all processes that share the cache."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _fetch(release: str) -> Iterator[Path]:
    """Yield a folder with Maven's files of a release, and remove it at the end unless it was renamed."""
    for leftover in cache_folder().glob("fetching-*"):  # of a killed fetch: this process holds the lock
        shutil.rmtree(leftover)
    with tempfile.TemporaryDirectory(prefix="fetching-", dir=cache_folder()) as folder:
        target = Path(folder, "jars")
        _run_maven(release, target)
        yield target


def _run_maven(release: str, target: Path) -> None:
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-Dkafka.version={release}"]
    profiles = ["log4j1" if release < "4" else "log4j2"]
    if not release.startswith("2.") and release not in RELEASES_WITHOUT_TOOLS:
        profiles.append("tools")
    command = ["mvn", "-q", "-B", "-f", str(POM), f"-P{','.join(profiles)}", *goal, f"-DoutputDirectory={target}"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise JarsError(
            f"Maven is needed to fetch Kafka {release} and there is no mvn: install it (Debian and Ubuntu: "
            "apt install maven; macOS: brew install maven)"
        ) from None
    except subprocess.TimeoutExpired:
        raise JarsError(f"Maven did not bring Kafka {release} within {FETCH_TIMEOUT_S} s: run it again") from None
    if ended.returncode:
        said = re.sub(r"\x1b\[[0-9;]*m", "", ended.stdout + ended.stderr).strip()
        raise JarsError(f"Maven could not bring Kafka {release} (exit code {ended.returncode}):\n{said[-2000:]}")
