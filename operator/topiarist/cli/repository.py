"""The files of a new repository of topics: manifests of a cluster or a folder, project file, CI configuration.

The command ``init`` writes them, and ``export`` the manifests of a cluster alone. Files that exist are never replaced:
all paths are checked before the first file is written.

The CI configuration is the one that the documentation has for the forge of the git repository: ``init`` calls
``detect_forge`` and writes ``read_sample`` and ``read_guide``. The samples are the files of ``docs/ci``; the
package has them.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import click
from msgspec.structs import replace

from topiarist.adapters import atomic_files
from topiarist.adapters.manifests import loader
from topiarist.adapters.manifests import yaml_text as dump
from topiarist.adapters.manifests.files import SUFFIXES
from topiarist.adapters.manifests.source import Document
from topiarist.cli import terminal
from topiarist.cli.parameters import PROJECT_FILE, find_repository
from topiarist.cli.terminal import Settings
from topiarist.desired.export import (
    CLUSTER_FILE,
    TOPICS_FOLDER,
    build_cluster_document,
    derive_cluster_name,
    export_cluster,
)
from topiarist.errors import InvalidManifests, Reason, TopiaristError
from topiarist.model.spec import ClusterSpec
from topiarist.output.list import format_summary
from topiarist.runs.inputs import load_clusters
from topiarist.runs.sessions import ClusterSessions
from topiarist.schema import check
from topiarist.text import format_count, printable


class Forge(NamedTuple):
    """A forge: its title, the path of its CI configuration in a repository, and the name of the sample."""

    title: str
    path: str
    sample: str


FORGES = {
    "github": Forge("GitHub", ".github/workflows/topics.yml", "github.yml"),
    "gitlab": Forge("GitLab", ".gitlab-ci.yml", "gitlab-ci.yml"),
    "atlantis": Forge("Atlantis", "atlantis.yaml", "atlantis-repository.yaml"),
}

_MAX_CONFIG_BYTES = 1 << 20
_REMOTE = re.compile(r'^\[remote "(?P<name>[^"\n]*)"\](?P<body>[^\[]*)', re.MULTILINE)
_URL = re.compile(r"^\s*url\s*=\s*(?:\w+://)?(?:[^@/\s]*@)?(?P<host>[^/:\s]+)", re.MULTILINE)


def detect_forge(root: Path) -> tuple[str, str]:
    """Return the key of a repository's forge in ``FORGES``, and what shows it; two empty texts if nothing does.

    The host of the remote ``origin``, or of the only remote, comes first. A host with another name shows nothing: then
    ``.github`` or ``.gitlab-ci.yml`` decides, if the repository has only one of them.
    """
    host = _remote_host(root)
    for name in ("github", "gitlab"):
        if name in host:
            return name, f"the remote at {host}"
    marks = {"github": ".github", "gitlab": ".gitlab-ci.yml"}
    found = [name for name, mark in marks.items() if (root / mark).exists()]
    return (found[0], marks[found[0]]) if len(found) == 1 else ("", "")


def read_sample(forge: Forge) -> str:
    """Return the CI configuration that the documentation has for a forge."""
    return (files("topiarist") / "ci" / forge.sample).read_text(encoding="utf-8")


def read_guide() -> str:
    """Return the documentation's page for developers who add a topic to a repository."""
    return (files("topiarist") / "add-a-topic.md").read_text(encoding="utf-8")


def _remote_host(root: Path) -> str:
    """Return the host of the remote ``origin``, or of the only remote, in lower case; empty if there is none."""
    with suppress(OSError):
        with (_git_folder(root) / "config").open("rb") as file:
            text = file.read(_MAX_CONFIG_BYTES).decode(errors="replace")
        remotes = {match["name"]: match["body"] for match in _REMOTE.finditer(text)}
        body = remotes.get("origin", next(iter(remotes.values())) if len(remotes) == 1 else "")
        if url := _URL.search(body):
            return url["host"].lower()
    return ""


def _git_folder(root: Path) -> Path:
    """Return the folder with the config of a repository; in a worktree or submodule, ``.git`` is a file that names it.

    Raises ``OSError``.
    """
    folder = root / ".git"
    if not folder.is_dir():
        with folder.open("rb") as file:
            folder = root / file.read(_MAX_CONFIG_BYTES).decode(errors="replace").removeprefix("gitdir:").strip()
        common = folder / "commondir"
        if common.is_file():
            folder /= common.read_text(encoding="utf-8", errors="replace").strip()
    return folder


_PLATFORM_FOLDER = "platform/"
"""The folder of Cluster and Policy documents, as the CI configurations expect it."""

_GUIDE_FILE = f"{TOPICS_FOLDER}README.md"
"""The guide for developers who add a topic; forges show it below the list of topics."""

AUTO, NO_CI = "auto", "none"
"""The values of ``--ci`` that are no forge."""


class _CiFile(NamedTuple):
    """The CI file to write, with the reason for its forge; or a note why there is none."""

    forge: Forge | None
    note: str


def export_to_folder(settings: Settings, folder: Path, *, use_units: bool) -> int:
    """Write the manifests of one cluster to a new folder, log their summary, and return the exit code."""
    cluster = _select_cluster(settings)
    atomic_files.require_empty_folder(folder)
    with ClusterSessions({cluster.name: cluster}, settings, terminal.TerminalListener(settings)) as fleet:
        states = fleet.map_sessions(fleet.read)
    for state in states.values():
        export = export_cluster(state, cluster, settings.owner, use_units=use_units)
        atomic_files.write_folder(folder, {name: dump.dump_file(body) for name, body in export.files.items()})
        if settings.verbosity >= 0:
            page = terminal.make_layout(sys.stderr, settings)
            terminal.log(format_summary(export, state, cluster, folder=str(folder), layout=page))
    return int(fleet.error_code)


def _select_cluster(settings: Settings) -> ClusterSpec:
    """Return the one cluster to export: that of a document, or a new one with name and address from flags."""
    given = settings.paths or settings.clusters or settings.platform
    listener = terminal.TerminalListener(settings)
    clusters = load_clusters(settings if given else replace(settings, cluster=None), listener)
    if len(clusters) > 1:
        raise click.UsageError(f"export reads one cluster: add --cluster with one of {', '.join(sorted(clusters))}")
    (cluster,) = clusters.values()
    if cluster.source is not None:
        return cluster
    cluster = replace(cluster, name=settings.cluster or derive_cluster_name(cluster.access))
    for problem in check.check(build_cluster_document(cluster)):
        flag = "--cluster" if problem.path[0] == "metadata" else settings.address_option
        raise click.UsageError(f"{flag}: {problem.message}")
    if not settings.cluster and settings.verbosity >= 0:
        terminal.log(f"cluster name: {cluster.name}, by {settings.address_from}; to choose another, add --cluster")
    return cluster


def write_repository(settings: Settings, folder: str | None, ci: str, *, use_units: bool, dry_run: bool) -> None:
    """Write the files that a repository of topics lacks, or print them; log what the user does next.

    The manifests are those of a cluster if there is an address, or a copy of ``folder``.
    """
    ci_file = _choose_ci(ci)
    files, summary = _export(settings, use_units=use_units) if settings.address_option else (_copy(folder), "")
    if ci_file.forge:
        files[ci_file.forge.path] = read_sample(ci_file.forge)
    if files.keys() - {ci_file.forge.path if ci_file.forge else ""} or not os.path.lexists(PROJECT_FILE):
        files[PROJECT_FILE] = _project_text(files, settings.owner)
        if not os.path.lexists(_GUIDE_FILE):
            files[_GUIDE_FILE] = read_guide()
    problems = [*_find_conflicts(files)]
    new_files = {path: text for path, text in files.items() if not _has_text(path, text)}
    if dry_run:
        terminal.print_result("\n".join(f"==> {path} <==\n{text}" for path, text in new_files.items()))
    if problems:
        lines = "\n    ".join(problems)
        raise TopiaristError(Reason.UNWRITABLE, f"nothing was written, because init replaces no file\n    {lines}")
    if not dry_run:
        _write(new_files)
        terminal.print_result("".join(f"wrote {line}\n" for line in _list_files(new_files)))
    if settings.verbosity >= 0:
        if summary:
            terminal.log(summary)
        if not new_files:
            terminal.log("nothing to write: all files exist")
        for line in _describe_next_steps(files, ci_file, written=not dry_run):
            terminal.log(terminal.sanitize_lines(line))


def _export(settings: Settings, *, use_units: bool) -> tuple[dict[str, str], str]:
    """Return the manifests of a cluster by path, and the summary that names what they leave out."""
    cluster = _select_cluster(settings)
    with ClusterSessions({cluster.name: cluster}, settings, terminal.TerminalListener(settings)) as sessions:
        states = sessions.map_sessions(sessions.read)
    if not states:  # the error is printed
        raise click.exceptions.Exit(int(sessions.error_code))
    (state,) = states.values()
    export = export_cluster(state, cluster, settings.owner, use_units=use_units)
    summary = format_summary(
        export,
        state,
        cluster,
        folder=TOPICS_FOLDER.rstrip("/"),
        layout=terminal.make_layout(sys.stderr, settings),
        cluster_file=_PLATFORM_FOLDER + CLUSTER_FILE,
    )
    files = {
        (path if path.startswith(TOPICS_FOLDER) else _PLATFORM_FOLDER + path): dump.dump_file(body)
        for path, body in export.files.items()
    }
    return files, summary


def _copy(folder: str | None) -> dict[str, str]:
    """Return the files of a folder of manifests by their new path: Topics in one folder, all else in the other.

    Without a folder there is nothing to copy, and the working folder must have topics or a project file. Raises
    ``click.UsageError``, or ``InvalidManifests``.
    """
    if folder is None:
        if Path(TOPICS_FOLDER).is_dir() or os.path.lexists(PROJECT_FILE):
            return {}
        raise click.UsageError(
            f"found no folder {TOPICS_FOLDER} here: give --bootstrap-servers or --zookeeper to export the topics of a"
            " cluster, or a folder with manifests"
        )
    if not Path(folder).is_dir():
        raise click.UsageError(f"found no folder {printable(folder, 200)}, wanted a folder with manifests")
    loaded = loader.load_manifests([folder])
    if loaded.errors:
        raise InvalidManifests(loaded.errors, loaded.suppressed_count)
    kinds: dict[str, set[bool]] = {}
    texts: dict[str, str] = {}
    for manifest in loaded.manifests:
        assert isinstance(manifest.source, Document)
        name = os.path.relpath(manifest.source.file.name, folder)
        kinds.setdefault(name, set()).add(manifest.kind == "Topic")
        texts[name] = manifest.source.file.data.decode()
    if not any(True in found for found in kinds.values()):
        raise click.UsageError(f"found no Topic in {printable(folder, 200)}")
    files: dict[str, str] = {}
    for name, found in kinds.items():
        if len(found) > 1:
            raise click.UsageError(f"{name} has Topics and other documents: move the Topics to a file of their own")
        start = TOPICS_FOLDER if True in found else _PLATFORM_FOLDER
        path = start + name.removeprefix(start)
        if files.setdefault(path, texts[name]) != texts[name]:
            raise click.UsageError(f"two files of {printable(folder, 200)} would be {path}: rename one of them")
    return files


def _project_text(files: Mapping[str, str], owner: str) -> str:
    """Return the text of the project file."""
    fields: dict[str, Any] = {"manifests": [TOPICS_FOLDER.rstrip("/")]}
    if Path(_PLATFORM_FOLDER).is_dir() or any(path.startswith(_PLATFORM_FOLDER) for path in files):
        fields["platform"] = [_PLATFORM_FOLDER.rstrip("/")]
    if owner != "default":
        fields["owner"] = owner
    return dump.dump_file(fields, "Project")


def _choose_ci(choice: str) -> _CiFile:
    """Return the CI file of an option, or that of the repository's forge.

    Raises ``click.UsageError`` for a forge in a folder that is not the root of its repository.
    """
    if choice == NO_CI:
        return _CiFile(None, "")
    root, here = find_repository("."), os.path.realpath(".")
    if root and root != here:
        message = f"a CI configuration belongs to the root of the repository, {printable(root, 200)}"
        if choice != AUTO:
            raise click.UsageError(f"--ci {choice}: {message}: run topiarist init there, or with --ci {NO_CI}")
        return _CiFile(None, f"no CI configuration: {message}")
    if choice != AUTO:
        return _CiFile(FORGES[choice], "")
    name, shown_by = detect_forge(Path())
    if not name:
        return _CiFile(None, f"no CI configuration: the forge is unknown; --ci takes {', '.join(FORGES)}")
    forge = FORGES[name]
    if os.path.lexists(forge.path) and not _has_text(forge.path, read_sample(forge)):
        note = f"{forge.path} exists and stays as it is: topiarist init --ci {name} --dry-run prints the jobs to add"
        return _CiFile(None, note)
    return _CiFile(forge, f"{forge.title}, by {shown_by}")


def _find_conflicts(files: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each path that exists with other content, and for other manifests beside new ones."""
    for path, text in files.items():
        if os.path.lexists(path) and not _has_text(path, text):
            yield f"{printable(path, 200)}: exists with other content; compare it with --dry-run, or move it away"
    topics = {path for path in files if _is_manifest(path)}
    existing = (os.path.join(folder, name) for folder, _, names in os.walk(TOPICS_FOLDER) for name in names)  # noqa: PTH118
    other = next((path for path in sorted(existing) if path.endswith(SUFFIXES) and path not in topics), None)
    if topics and other:
        hint = "to use them, give no address and no FOLDER"
        yield f"{TOPICS_FOLDER}: has other manifests, such as {printable(other, 200)}; {hint}"


def _has_text(path: str, text: str) -> bool:
    try:
        return Path(path).is_file() and Path(path).read_bytes() == text.encode()
    except OSError:
        return False


def _write(files: Mapping[str, str]) -> None:
    """Write new files in their order; an error names those that were written before it."""
    for written, (path, text) in enumerate(files.items()):
        try:
            atomic_files.create_file(path, text)
        except TopiaristError as error:
            if written:
                hint = f"written before it: {format_count(written, 'file')}; run the command again to continue"
                raise TopiaristError(error.reason, error.message, hint) from error
            raise


def _list_files(files: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths of files; those of topics as one line."""
    topics = [path for path in files if _is_manifest(path)]
    if topics:
        yield f"{TOPICS_FOLDER} ({format_count(len(topics), 'file')})"
    yield from (path for path in files if not _is_manifest(path))


def _is_manifest(path: str) -> bool:
    return path.startswith(TOPICS_FOLDER) and path != _GUIDE_FILE


def _describe_next_steps(files: Mapping[str, str], ci_file: _CiFile, *, written: bool) -> Iterator[str]:
    if ci_file.note and not ci_file.forge:
        yield ci_file.note
    if ci_file.forge:
        by = f" ({ci_file.note})" if ci_file.note else ""
        yield f"{ci_file.forge.path}{by}: replace OWNER, and set up what its first lines name: docs/pull-requests.md"
    has_platform = Path(_PLATFORM_FOLDER).is_dir() or any(path.startswith(_PLATFORM_FOLDER) for path in files)
    if PROJECT_FILE in files and not has_platform:
        yield f"found no Cluster document: add one in {_PLATFORM_FOLDER}, and platform: [platform] to {PROJECT_FILE}"
    if written:
        yield "next: topiarist validate, then topiarist plan"
