"""Completion of the names of clusters and topics, from the manifests of the command line or project file.

``options`` gives these functions to the options that take names. They read files only, never a cluster, and say
nothing about what is wrong in them: a shell has no place for messages while a user types.
"""

from __future__ import annotations

from collections.abc import Iterator

import click

_PATH_OPTIONS = ("paths", "clusters", "platform")


def complete_cluster(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of clusters that begin with a text."""
    return _complete(ctx, "Cluster", incomplete)


def complete_topic(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of topics in Kafka that begin with a text."""
    return _complete(ctx, "Topic", incomplete)


def _complete(ctx: click.Context, kind: str, incomplete: str) -> list[str]:
    try:
        return sorted({name for name in _read_names(ctx, kind) if name.startswith(incomplete)})
    except Exception:
        return []  # whatever is wrong with the files, the command itself says it


def _read_names(ctx: click.Context, kind: str) -> Iterator[str]:
    """Yield the names of the documents of a kind, in the paths of the command or project file, or below the folder."""
    from topiarist.adapters.manifests.loader import load_manifests
    from topiarist.cli.project import PATH_KEYS, Project, load_project
    from topiarist.model.spec import topic_name

    given = [str(path) for name in _PATH_OPTIONS for path in ctx.params.get(name) or ()]
    given += ctx.args  # while an option still lacks its value, click has not taken the arguments
    given = [path for path in given if path != "-"]
    if not given and isinstance(project := load_project(), Project):
        given = [path for key in PATH_KEYS for path in project.get(key) or ()]
    for manifest in load_manifests(given or ["."]).manifests:
        if manifest.kind == kind:
            yield topic_name(manifest) if kind == "Topic" else manifest.name
