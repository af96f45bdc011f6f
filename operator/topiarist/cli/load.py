"""The inputs of a command line: those of ``runs.inputs``, with messages to stderr and manifests from standard input.

Commands call these functions. Settings that exclude each other are usage errors here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO

import click

from topiarist.cli import terminal
from topiarist.cli.parameters import used_project
from topiarist.cli.project import NO_PROJECT
from topiarist.cli.settings import Settings
from topiarist.model.spec import ClusterSpec
from topiarist.runs import inputs
from topiarist.runs.inputs import RunInputs


def load_manifests(
    settings: Settings, *, offline: bool = False, with_policies: bool = True, skip_invalid: bool = False
) -> RunInputs:
    """Return the specs of a run as ``runs.inputs.load_manifests`` does; log to stderr what it reports.

    Raises ``InvalidManifests`` with every error, or ``click.UsageError``.
    """
    if not settings.paths:
        raise click.UsageError(
            "give at least one file or folder with manifests, or - for standard input; or name them in topiarist.yaml"
        )
    with _as_usage_errors():
        return inputs.load_manifests(
            settings,
            terminal.TerminalListener(settings),
            _stdin(settings),
            offline=offline,
            with_policies=with_policies,
            skip_invalid=skip_invalid,
        )


def load_clusters(settings: Settings) -> Mapping[str, ClusterSpec]:
    """Return the clusters of a run without topics, as ``runs.inputs.load_clusters`` does; log its warnings.

    Raises ``InvalidManifests`` with every error, or ``click.UsageError``.
    """
    with _as_usage_errors():
        return inputs.load_clusters(settings, terminal.TerminalListener(settings), _stdin(settings))


def load_if_given(settings: Settings, *, with_policies: bool = True) -> RunInputs:
    """Return the specs of a run's manifests as ``runs.inputs.load_if_given`` does.

    Raises ``InvalidManifests`` with every error, or ``click.UsageError``.
    """
    with _as_usage_errors():
        listener = terminal.TerminalListener(settings)
        return inputs.load_if_given(settings, listener, _stdin(settings), with_policies=with_policies)


def _stdin(settings: Settings) -> BinaryIO | None:
    return sys.stdin.buffer if "-" in settings.paths else None


@contextmanager
def _as_usage_errors() -> Iterator[None]:
    """Turn errors about settings into usage errors, which say how to leave out the project file if there is one."""
    try:
        with terminal.as_usage_errors():
            yield
    except click.UsageError as error:
        if project := used_project(click.get_current_context(silent=True)):
            hint = f"; --project {NO_PROJECT} leaves out the values of {project.file.name}"
            raise click.UsageError(error.message + hint) from None
        raise
