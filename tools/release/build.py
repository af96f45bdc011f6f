"""All files of a version, from its tag: packages, chart, bundle, formula, catalog of schemas, checksums."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import check_pins

from release import archives, bundle, catalog, changelog, formula, versions
from release.installed import Figures, try_installation
from release.packages import build_packages
from release.repository import export, read_epoch

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = Path(os.environ.get("TOPIARIST_CACHE", ROOT / ".cache")) / "release" / "packages"


def build_files(root: Path, version: str, to: Path, repository: str) -> Figures:
    """Build the files of the tag of a version into the empty folder ``to``, and check them.

    ``repository`` is the owner and name at the forge. Raises ``ValueError`` if a place has another version, a second
    build has other bytes, a package is invalid, or an installation does not work.
    """
    revision = f"v{version}"
    epoch = read_epoch(root, revision)
    with tempfile.TemporaryDirectory() as name:
        tree, again = Path(name, "tree"), Path(name, "again")
        export(root, revision, tree)
        if differences := list(versions.find_differences(tree)):
            raise ValueError("\n".join(differences))
        sdist, wheel = build_packages(tree, to, epoch)
        _check_reproducible(root, revision, again, (sdist, wheel), epoch)
        check_metadata(sdist, wheel)
        project = tomllib.loads((tree / "pyproject.toml").read_text())["project"]
        constraints = (tree / "constraints.txt").read_text()
        roots = check_pins.required_packages(project, ())
        pins = check_pins.parse_pins(constraints)
        needed = "".join(pins[each].text for each in check_pins.closure(pins, roots))
        figures = try_installation(wheel, needed, version)
        chart = archives.read_folder(tree / "charts" / "topiarist", "topiarist")
        archives.write_archive(to / f"topiarist-{version}.tgz", chart, epoch)
        release = bundle.Release(version, f"ghcr.io/{repository}:{version}", repository, epoch)
        files = {path: archives.Entry(data) for path, data in bundle.build_bundle(tree, release).items()}
        archives.write_archive(to / f"topiarist-bundle-{version}.tar.gz", files, epoch)
        (to / "topiarist.rb").write_text(
            formula.render_formula(
                version=version,
                sha256=archives.checksum(sdist),
                repository=repository,
                description=project["description"],
                constraints=constraints,
                roots=roots,
            )
        )
        (to / "catalog.json").write_text(catalog.render_catalog(tree / "schemas"))
        shutil.copyfile(tree / "constraints.txt", to / "constraints.txt")
        (to / "notes.md").write_text(changelog.read_section((tree / "CHANGELOG.md").read_text(), version) + "\n")
    archives.write_checksums(to)
    return figures


def _check_reproducible(root: Path, revision: str, scratch: Path, built: tuple[Path, ...], epoch: int) -> None:
    """Build the packages again from files with other times and modes, and compare the bytes."""
    export(root, revision, scratch / "tree")
    for path in (scratch / "tree").rglob("*"):
        if path.is_file() and not path.is_symlink():
            os.utime(path, (1, 1))
            path.chmod(path.stat().st_mode & ~0o077)
    (scratch / "out").mkdir()
    for first, second in zip(built, build_packages(scratch / "tree", scratch / "out", epoch), strict=True):
        if first.read_bytes() != second.read_bytes():
            raise ValueError(f"{first.name}: a second build has other bytes")


def check_metadata(*packages: Path) -> None:
    """Check the metadata of packages by twine; raise ``ValueError`` with its output."""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGES), "NO_COLOR": "1"}
    command = [sys.executable, "-P", "-m", "twine", "check", "--strict", *map(str, packages)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(f"twine: {done.stdout}{done.stderr}")
