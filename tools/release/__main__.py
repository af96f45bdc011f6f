"""Commands of a release: ``python -m release cut VERSION`` and ``python -m release files``. See ``make release``."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from release.build import ROOT, build_files
from release.installed import Figures
from release.repository import cut, read_tag, take_over

_REPOSITORY = os.environ.get("GITHUB_REPOSITORY", "OWNER/topiarist")


def main(words: list[str]) -> int:
    """Run one command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    release = commands.add_parser("cut", help="make the commit, the tag and the files of a version")
    release.add_argument("version", help="three numbers, as in 1.2.0")
    release.add_argument("--dry-run", action="store_true", help="make them in a scratch clone only")
    files = commands.add_parser("files", help="make the files of the tag that is checked out")
    for command in (release, files):
        command.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for the files; replaced")
    options = parser.parse_args(words)
    try:
        if options.command == "files":
            figures = _build(ROOT, read_tag(ROOT), options.out)
        else:
            with tempfile.TemporaryDirectory() as name:
                clone = Path(name, "clone")
                cut(ROOT, options.version, datetime.now(UTC).strftime("%Y-%m-%d"), clone)
                figures = _build(clone, options.version, options.out)
                if not options.dry_run:
                    take_over(ROOT, clone, options.version)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print((options.out / "SHA256SUMS").read_text(), end="")
    print(f"wheel {figures.wheel_bytes / 1e6:.1f} MB, installed with its dependencies", end=" ")
    print(f"{figures.installed_bytes / 1e6:.1f} MB, --help {figures.help_seconds * 1000:.0f} ms")
    if options.command == "cut" and options.dry_run:
        print(f"dry run: no commit, no tag; the files are in {options.out}")
    elif options.command == "cut":
        print(f"next: git push --atomic origin HEAD v{options.version}")
    return 0


def _build(root: Path, version: str, out: Path) -> Figures:
    """Replace a folder by the files of a version."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    return build_files(root, version, out, _REPOSITORY)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
