"""Finders of values in responses of GitHub's API, for the shell scripts in this folder.

Run as ``answers.py COMMAND WORD...`` with the JSON response on standard input; prints the value, or an empty line if
nothing is found. Uses only the standard library.
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
"""Maximum bytes of a plan, so that no artifact can fill the disk."""


def error_message(response: Any) -> str:
    """Return the API's message about a failure, with the token masked in case the message repeats it."""
    message = str(response.get("message", "")) if isinstance(response, dict) else ""
    errors = response.get("errors", []) if isinstance(response, dict) else []
    details = [str(error["message"]) for error in errors if isinstance(error, dict) and "message" in error]
    message = "; ".join([message or "no message", *details])
    token = os.environ.get("GITHUB_TOKEN")
    return message.replace(token, "***") if token else message


def find_comment(response: Any, marker: str, author: str) -> str:
    """Return the id of the author's comment that begins with the marker; empty if there is none.

    Any user who may comment can write the marker. A comment of another author is left alone, because that author could
    change it afterwards.
    """
    for entry in response:
        first = (entry.get("body") or "").partition("\n")[0].strip()
        if first == marker and (entry.get("user") or {}).get("login") == author:
            return str(entry["id"])
    return ""


def find_pull_request(response: Any, sha: str, branch: str) -> str:
    """Return number, head commit and head repository of the pull request merged as a commit of a branch."""
    for entry in response:
        if entry.get("merged_at") and entry.get("merge_commit_sha") == sha and entry["base"]["ref"] == branch:
            repository = entry["head"].get("repo") or {}
            return f"{entry['number']} {entry['head']['sha']} {repository.get('full_name', '(deleted)')}"
    return ""


def find_run(response: Any, repository: str, number: str) -> str:
    """Return the id of the newest run for a pull request from the repository itself; empty if there is none."""
    mine = [
        entry
        for entry in response.get("workflow_runs", [])
        if (entry.get("head_repository") or {}).get("full_name") == repository
        and entry.get("event") == "pull_request"
        and int(number) in [pull["number"] for pull in entry.get("pull_requests") or [{"number": int(number)}]]
    ]
    return str(max(mine, key=lambda entry: entry["run_number"])["id"]) if mine else ""


def find_artifact(response: Any, name: str) -> str:
    """Return the id of the newest artifact of this name that is not expired; empty if there is none."""
    mine = [
        entry["id"] for entry in response.get("artifacts", []) if entry["name"] == name and not entry.get("expired")
    ]
    return str(max(mine)) if mine else ""


def comment_body(text: str, marker: str, page: str = "") -> str:
    """Return the JSON of a comment with this text, in which the marker replaces the first line.

    ``page`` is the address of the artifact with the plan as a page; without it there is no link.
    """
    link = f"\n[The plan as a page]({page}), to search and filter: open `plan.html` of this artifact.\n" if page else ""
    return json.dumps({"body": f"{marker}\n{text.partition(chr(10))[2]}{link}"})


def unpack(archive: str, name: str, to: str) -> str:
    """Extract one file from an archive and return its name; return an empty string if it is absent or too large."""
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
    """Print the value that ``command`` finds."""
    if command == "unpack":
        print(unpack(*words))
    elif command == "body":
        print(comment_body(sys.stdin.read(), *words))
    else:
        try:
            response = json.load(sys.stdin)
        except ValueError:
            response = {}
        print(FINDERS[command](response, *words))


if __name__ == "__main__":
    main(*sys.argv[1:])
