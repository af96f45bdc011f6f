"""The repository: forbidden content, and files that must stay unchanged."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.kafka import jars, releases
from topiarist.kafka.types import MAX_KAFKA_VERSION, format_version

HOSTS = {
    "topiarist.dev",
    "www.apache.org",
    "json-schema.org",
    "127.0.0.1",
    "localhost",
    "github.com",
    "events.pagerduty.com",
    "hooks.example.com",
    "login.example.com",
    "token.actions.githubusercontent.com",
    "www.w3.org",
    # What a token of AWS is signed for, with the region between; the name of an answer of its token service; a test.
    *("kafka.", "kafka.eu-west-1.amazonaws.com", "sts.amazonaws.com", "issuer.test"),
}
"""The only hosts that a file of ours may name with a scheme: where a licence or a schema has its name from, and where
the samples for CI take topiarist from. Before the last line are PagerDuty's events, the examples of a webhook and a
token endpoint, the issuer of the identity that signs releases, and the namespace of SVG.
"""

MACHINE = re.compile(r"(?<![\w.~$<{-])/(?:home|root|work|Users|opt)/[\w.-]")


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Return every present or future text file of the repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [ROOT / name for name in listed.split("\0") if name]
    return {
        str(file.relative_to(ROOT)): file.read_text(errors="replace")
        for file in files
        if file.is_file() and not file.is_symlink()
    }


def test_the_source_root_is_no_package() -> None:
    """The source root is not a package: ``operator/__init__.py`` shadows Python's module of that name."""
    assert (ROOT / "operator" / "topiarist").is_dir()
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_the_package_has_its_data_by_symlinks() -> None:
    """The repository has one copy of the schemas, of the demo's manifests and of the CI samples."""
    package = ROOT / "operator" / "topiarist"
    links = {name: (package / name).readlink() for name in ("schemas", "demo", "ci")}
    assert links == {
        "schemas": Path("../../schemas"),
        "demo": Path("../../manifests/demo"),
        "ci": Path("../../docs/ci"),
    }


def test_no_file_names_a_path_of_somebodys_machine(texts: dict[str, str]) -> None:
    """No file contains a path of a developer machine."""
    found = {name: MACHINE.findall(text) for name, text in texts.items() if name != "tests/repo/test_files.py"}
    assert {name: paths for name, paths in found.items() if paths} == {}
    assert MACHINE.search("see /home/somebody/x")


def test_no_file_names_a_host_it_need_not_name(texts: dict[str, str]) -> None:
    """No file contains the address of a package registry, because the user chooses the registry."""
    ours = {name: text for name, text in texts.items() if "/third-party/" not in name}
    found = {name: set(re.findall(r"https?://([\w.-]+)", text)) - HOSTS for name, text in ours.items()}
    assert {name: hosts for name, hosts in found.items() if hosts} == {}


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("constraints.txt", 20),
        ("tests/browser/constraints.txt", 2),
        ("tests/fuzz/constraints.txt", 1),
        ("tests/services/constraints.txt", 1),
        ("tools/release/constraints.txt", 2),
    ],
)
def test_every_dependency_is_pinned_with_hashes(texts: dict[str, str], name: str, least: int) -> None:
    """Each requirement has one exact version and at least one hash, no other option and no address."""
    text = texts[name].replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    wrong = [
        line
        for line in lines
        if not re.fullmatch(r"[a-z0-9-]+==[^ ;]+( ;[^#]+?)?( +--hash=sha256:[0-9a-f]{64})+", line)
    ]
    assert wrong == []
    assert len(lines) >= least


def test_the_build_backend_is_pinned_too(texts: dict[str, str]) -> None:
    """The build tools have pinned versions."""
    assert re.search(r"^setuptools==", texts["constraints.txt"], re.MULTILINE)


def test_the_licence_is_the_apache_licence(texts: dict[str, str]) -> None:
    """The licence is the exact text of the Apache licence with its appendix."""
    text = " ".join(texts["LICENSE"].split())
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "0ffddef9e48f8a09aed5caf2d44f7ba1c1be2d9b8e0a6f693b1635b2d5566645"
    )
    assert "APPENDIX: How to apply the Apache License to your work." in text


def test_the_newest_kafka_has_brokers(texts: dict[str, str]) -> None:
    """A new version of Kafka is tried on real brokers, and as such the brokers in memory answer."""
    assert releases.RELEASES[releases.NEWEST].version == MAX_KAFKA_VERSION
    assert releases.NEWEST.startswith(f"{format_version(MAX_KAFKA_VERSION)}.")
    assert jars.RELEASES[-1] == releases.NEWEST
    assert re.findall(r"^KRAFT_RELEASES \?= (\S+)", texts["Makefile"], re.MULTILINE) == [releases.NEWEST]


def test_the_makefile_lists_every_target(texts: dict[str, str]) -> None:
    """Every public target of the Makefile has a help text."""
    targets = " ".join(re.findall(r"^\.PHONY: (.*)$", texts["Makefile"], re.MULTILINE)).split()
    documented = re.findall(r"^([a-z-]+):.*## \w", texts["Makefile"], re.MULTILINE)
    assert set(documented) == {target for target in targets if not target.startswith("need-")}
