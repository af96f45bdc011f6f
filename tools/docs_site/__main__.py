"""Builds the site into a folder, and checks its links: ``python -m docs_site OUT``. See ``make site``.

``versions`` builds the site of each release in the same way.

The generator runs in a process of its own, with the packages that ``make site`` has installed for it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from release.versions import read_version

from docs_site.links import find_broken_links
from docs_site.source import ROOT, read_navigation, write_source

_INSTALLED = Path(os.environ.get("TOPIARIST_CACHE", ROOT / ".cache")) / "site"
PACKAGES, _MERMAID = _INSTALLED / "packages", _INSTALLED / "mermaid.min.js"
_SETTINGS = Path(__file__).parent / "mkdocs.yml"


def repository_links() -> dict[str, str]:
    """Return the settings for the links to the repository and to the source of a page.

    Only the forge knows its address: a build elsewhere has no links.
    """
    forge, name = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    if not (forge and name):
        return {}
    return {"repo_url": f"{forge}/{name}", "repo_name": name, "edit_uri": "edit/main/"}


def build(to: Path, root: Path = ROOT, *, is_one_of_several: bool = False) -> list[str]:
    """Build the site of a checkout into ``to``; return the problems of its links.

    A site that is one of several has a list of all versions in its header, from ``versions.json`` beside ``to``.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "source"
        source.mkdir()
        write_source(source, root)
        shutil.copy(_MERMAID, source / "assets")
        settings = _SETTINGS.read_text()
        sections = [{each.title: [{title: path} for title, path in each.pages]} for each in read_navigation(source)]
        added: dict[str, Any] = {"docs_dir": "source", "site_dir": "site", "nav": sections, **repository_links()}
        added["copyright"] = f"Topiarist {read_version(root)}, Apache License 2.0"
        if is_one_of_several:
            added["extra"] = {"version": {"provider": "mike"}}
        (folder / "mkdocs.yml").write_text(settings + yaml.safe_dump(added, sort_keys=False, allow_unicode=True))
        command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", "mkdocs.yml"]
        environment = {**os.environ, "PYTHONPATH": str(PACKAGES), "NO_COLOR": "1"}
        done = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, check=False)
        if done.returncode:
            return [done.stdout + done.stderr]
        for page in (folder / "site").rglob("*.html"):
            # The theme's script would ask the forge for stars, and a page loads nothing from elsewhere.
            page.write_text(page.read_text().replace(' data-md-component="source"', ""))
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(folder / "site", to)
    return [*find_broken_links(to)]


if __name__ == "__main__":
    problems = build(Path(sys.argv[1]))
    for problem in problems:
        print(problem, file=sys.stderr)
    sys.exit(bool(problems))
