"""Builds the published site, a folder for each minor version and the checkout: ``python -m docs_site.versions OUT``.

The newest tag of each minor version is taken. This checkout's generator builds them all, so that they look and search
alike, and each page has a list of all versions. The first page leads to the newest release, or to the checkout if there
is none. The schemas and the icon of the chart are at the top too: their addresses have no version.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

from release.repository import export, git

from docs_site.__main__ import build
from docs_site.source import ROOT

CHECKOUT = "dev"
"""The folder of the checkout."""

_TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
_REDIRECT = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Topiarist</title>
<meta http-equiv="refresh" content="0; url={folder}/index.html">
<p><a href="{folder}/index.html">The documentation of topiarist</a></p>
</html>
"""


def find_releases(repository: Path) -> dict[str, str]:
    """Return the newest tag of each minor version (``0.2``), the newest version first."""
    found = filter(None, map(_TAG.fullmatch, git(repository, "tag", "--list").split()))
    tags = sorted((tuple(map(int, match.groups())), match[0]) for match in found)
    newest = {f"{version[0]}.{version[1]}": tag for version, tag in tags}
    return dict(reversed(newest.items()))


def build_versions(to: Path, repository: Path = ROOT) -> list[str]:
    """Build the site of each version into a folder of ``to``; return the problems of their links."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    releases = find_releases(repository)
    problems = [f"{CHECKOUT}: {each}" for each in build(to / CHECKOUT, repository, is_one_of_several=True)]
    for name, tag in releases.items():
        with tempfile.TemporaryDirectory() as folder:
            export(repository, tag, Path(folder))
            problems += [f"{name}: {each}" for each in build(to / name, Path(folder), is_one_of_several=True)]
    titles = {name: tag.removeprefix("v") for name, tag in releases.items()} | {CHECKOUT: "development"}
    listed = [{"version": name, "title": title, "aliases": []} for name, title in titles.items()]
    (to / "versions.json").write_text(json.dumps(listed, indent=2) + "\n")
    newest = next(iter(titles))
    (to / "index.html").write_text(_REDIRECT.format(folder=newest))
    shutil.copytree(to / newest / "schemas", to / "schemas")
    shutil.copy(to / newest / "docs" / "pictures" / "icon.svg", to)
    (to / "llms.txt").write_text((to / newest / "llms.txt").read_text().replace("](", f"]({newest}/"))
    return problems


if __name__ == "__main__":
    found = build_versions(Path(sys.argv[1]))
    for problem in found:
        print(problem, file=sys.stderr)
    sys.exit(bool(found))
