"""What the scripts beside this one look for in the answers of GitHub's API: JSON on standard input, a word or two out.

Run as ``answers.py COMMAND WORD...``; prints nothing where nothing is found. Needs no package.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

MAX_PLAN_BYTES = 256 * 2**20
"""Bytes of a plan: no artifact may fill the disk."""


def error_message(response: Any) -> str:
    """The API's own words about a failure, without the token should they repeat it."""
    words = str(response.get("message", "")) if isinstance(response, dict) else ""
    errors = response.get("errors", []) if isinstance(response, dict) else []
    details = [str(error["message"]) for error in errors if isinstance(error, dict) and "message" in error]
    words = "; ".join([words or "without a word", *details])
    token = os.environ.get("GITHUB_TOKEN")
    return words.replace(token, "***") if token else words


def find_comment(response: Any, marker: str, author: str) -> str:
    """The id of the author's comment that begins with the marker.

    Whoever may comment can write the marker; what they wrote they could change afterwards, so it is left to them.
    """
    for entry in response:
        first = (entry.get("body") or "").partition("\n")[0].strip()
        if first == marker and (entry.get("user") or {}).get("login") == author:
            return str(entry["id"])
    return ""


def find_pull_request(response: Any, sha: str, branch: str) -> str:
    """Number, head commit and head repository of the pull request whose merge made a commit of a branch."""
    for entry in response:
        if entry.get("merged_at") and entry.get("merge_commit_sha") == sha and entry["base"]["ref"] == branch:
            repository = entry["head"].get("repo") or {}
            return f"{entry['number']} {entry['head']['sha']} {repository.get('full_name', '(deleted)')}"
    return ""


def find_run(response: Any, repository: str, number: str) -> str:
    """The id of the newest run for a pull request that came from the repository itself."""
    mine = [
        entry
        for entry in response.get("workflow_runs", [])
        if (entry.get("head_repository") or {}).get("full_name") == repository
        and entry.get("event") == "pull_request"
        and int(number) in [pull["number"] for pull in entry.get("pull_requests") or [{"number": int(number)}]]
    ]
    return str(max(mine, key=lambda entry: entry["run_number"])["id"]) if mine else ""


def find_artifact(response: Any, name: str) -> str:
    """The id of the newest artifact of this name that is still kept."""
    mine = [
        entry["id"] for entry in response.get("artifacts", []) if entry["name"] == name and not entry.get("expired")
    ]
    return str(max(mine)) if mine else ""


def comment_body(text: str, marker: str) -> str:
    """A comment with this text, whose first line is the marker, as JSON."""
    return json.dumps({"body": f"{marker}\n{text.partition(chr(10))[2]}"})


def unpack(archive: str, name: str, to: str) -> str:
    """Take one file out of an archive; its name if it is there."""
    with zipfile.ZipFile(archive) as packed:
        if name not in packed.namelist() or packed.getinfo(name).file_size > MAX_PLAN_BYTES:
            return ""
        Path(to).write_bytes(packed.read(name))
    return name


FINDERS: dict[str, Callable[..., str]] = {
    "message": error_message,
    "comment": find_comment,
    "pull": find_pull_request,
    "run": find_run,
    "artifact": find_artifact,
}


def main(command: str, *words: str) -> None:
    """Print what ``command`` finds."""
    if command == "unpack":
        print(unpack(*words))
    elif command == "body":
        print(comment_body(sys.stdin.read(), *words))
    else:
        try:
            found = json.load(sys.stdin)
        except ValueError:
            found = {}
        print(FINDERS[command](found, *words))


if __name__ == "__main__":
    main(*sys.argv[1:])
