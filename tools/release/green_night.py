"""Check before a release: the newest night of its code was green.

Usage: ``python tools/release/green_night.py``, in the checkout of a tag with the commit before it. Needs in the
environment: GITHUB_API_URL, GITHUB_REPOSITORY, GITHUB_TOKEN, with the right to read actions. Uses only the standard
library.

A release is one commit on top of the branch main: version and changelog. So the night of the tagged commit counts, and
that of its parent. A night that still runs, that failed or that does not exist ends with 1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Collection, Iterable, Mapping
from typing import Any

WORKFLOW = "nightly.yml"
TIMEOUT_S = 60


def find_problem(runs: Iterable[Mapping[str, Any]], commits: Collection[str]) -> str:
    """Return why no green night of these commits allows a release; empty if one does."""
    nights = [run for run in runs if run["head_sha"] in commits]
    if not nights:
        return "no night has run"
    newest = max(nights, key=lambda run: int(run["run_number"]))
    if newest["status"] != "completed":
        return f"the newest night has not ended: {newest['html_url']}"
    if newest["conclusion"] != "success":
        return f"the newest night ended with {newest['conclusion']}: {newest['html_url']}"
    return ""


def fetch_runs() -> list[dict[str, Any]]:
    """Return the newest hundred runs of the nightly workflow; raise ``OSError`` if the API does not return them."""
    address, repository = os.environ["GITHUB_API_URL"], os.environ["GITHUB_REPOSITORY"]
    request = urllib.request.Request(
        f"{address}/repos/{repository}/actions/workflows/{WORKFLOW}/runs?per_page=100",
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}",
            "X-GitHub-Api-Version": "2022-11-28",
        },
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
        runs: list[dict[str, Any]] = json.load(response)["workflow_runs"]
    return runs


def main() -> int:
    """Compare the checkout with the nights; return the exit code."""
    command = ["git", "rev-list", "--max-count=2", "--first-parent", "HEAD"]
    commits = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    try:
        problem = find_problem(fetch_runs(), commits)
    except (OSError, ValueError, KeyError) as error:
        problem = f"the nights cannot be read: {error!r}"
    if problem:
        print(
            f"No release of {commits[0][:12]}: of it and the commit before it, {problem}. Run the workflow {WORKFLOW} "
            "on the branch main; when it is green, run this job again.",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
