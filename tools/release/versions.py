"""The places of the repository that contain the version, and their change to another one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

NUMBER = r"(?P<version>\d+\.\d+\.\d+)"

MAJOR = r"(?P<major>v\d+)\b"
"""The tag that the action and the CI samples are used by: the first number alone, such as ``v1``."""

SOURCE = "operator/topiarist/__init__.py"
"""The file with the version of the package; every other place must have the same."""

PLACES = {
    SOURCE: (rf'^__version__ = "{NUMBER}"',),
    "Dockerfile": (rf"^ARG VERSION={NUMBER}",),
    "charts/topiarist/Chart.yaml": (rf"^version: {NUMBER}", rf"^appVersion: {NUMBER}"),
    "charts/topiarist/README.md": (rf"/topiarist:{NUMBER}",),
    "docs/ci/github-forks.yml": (rf"topiarist@{MAJOR}",),
    "docs/ci/github-snapshot.yml": (rf"topiarist@{MAJOR}",),
    "docs/ci/github.yml": (rf"topiarist@{MAJOR}",),
    "docs/ci/gitlab-ci.yml": (rf"topiarist@{MAJOR}",),
    "docs/ci/pre-commit-config.yaml": (rf"rev: {MAJOR}",),
    "docs/install.md": (
        rf"topiarist-{NUMBER}-py3-none-any\.whl",
        rf"topiarist=={NUMBER}",
        rf"topiarist@{NUMBER}",
        rf"/topiarist:{NUMBER}",
        rf"--version {NUMBER}",
        rf"/v{NUMBER}",
        rf"topiarist-bundle-{NUMBER}\.tar\.gz",
    ),
    "docs/kubernetes.md": (rf"topiarist:{NUMBER}",),
    "docs/quickstart.md": (rf"topiarist:{NUMBER}",),
    "docs/state.md": (rf"Version {NUMBER} is",),
    "README.md": (rf"\*\*State:\*\* version {NUMBER},",),
    "tests/examples/bad/json/expected.txt": (rf'^          "version": "{NUMBER}",',),
    "tests/examples/bad/without-config-idle/expected.txt": (rf'^          "version": "{NUMBER}",',),
    "tests/examples/bad/yaml-unclosed-quote/expected.txt": (rf'^          "version": "{NUMBER}",',),
    "tests/examples/guard/policy-validate/expected.txt": (rf'^          "version": "{NUMBER}",',),
    "tools/ci/gitlab/README.md": (rf"topiarist@{MAJOR}",),
    "tools/ci/gitlab/templates/topiarist.yml": (rf"topiarist@{MAJOR}",),
}
"""The patterns of the version by file; each must occur at least once."""


def parse_version(text: str) -> tuple[int, int, int]:
    """Return the three numbers of ``x.y.z``; raise ``ValueError`` for any other text."""
    if not re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}", text):
        raise ValueError(f"found version {text!r}, wanted three numbers such as 1.2.0")
    major, minor, patch = map(int, text.split("."))
    return major, minor, patch


def read_version(root: Path) -> str:
    """Return the version of the package; raise ``ValueError`` if the file has none."""
    match = re.search(PLACES[SOURCE][0], (root / SOURCE).read_text(), re.MULTILINE)
    if not match:
        raise ValueError(f"{SOURCE}: found no version")
    return match["version"]


def find_differences(root: Path) -> Iterator[str]:
    """Yield each place without the version of the package."""
    wanted = read_version(root)
    for name, patterns in PLACES.items():
        text = (root / name).read_text()
        for pattern in patterns:
            found = list(re.finditer(pattern, text, re.MULTILINE))
            if not found or any(match[0] != _replaced(match, wanted) for match in found):
                others = ", ".join(sorted({match[0] for match in found}))
                yield f"{name}: found {others or 'no version'} for {pattern}, wanted {wanted}"


def set_version(root: Path, version: str) -> None:
    """Write the version into all places."""
    for name, patterns in PLACES.items():
        path = root / name
        text = path.read_text()
        for pattern in patterns:
            text = re.sub(pattern, lambda match: _replaced(match, version), text, flags=re.MULTILINE)
        path.write_text(text)


def _replaced(match: re.Match[str], version: str) -> str:
    (name,) = match.groupdict()
    text = version if name == "version" else f"v{version.partition('.')[0]}"
    start, end = (position - match.start() for position in match.span(name))
    return match[0][:start] + text + match[0][end:]
