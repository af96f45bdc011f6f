"""``--platform``: clusters and policies from a place that the other paths cannot override.

What a branch brings is not trusted: it may hold another ``Cluster`` of a known name, a looser policy, budgets without a
limit. So where ``--platform`` is given, a ``Cluster`` or ``Policy`` counts only there, and a topic only elsewhere. What
else lies around is passed over and named, not refused: one repository may hold both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import click

from topiarist.adapters import manifests
from topiarist.cli import terminal
from topiarist.core.spec import Manifest
from topiarist.core.units import count
from topiarist.settings import Settings

_SHOWN = 3


def trusted(loaded: manifests.Loaded, settings: Settings) -> manifests.Loaded:
    """What counts of ``loaded`` and of ``--platform`` together; the same again if that is not given."""
    if not settings.platform:
        return loaded
    _check(settings)
    platform = manifests.load(settings.platform)
    given = tuple(filter(_of_platform, platform.manifests))
    if not given and not platform.complaints:
        raise click.UsageError("--platform: found neither Cluster nor Policy there: nothing would guard this run")
    if settings.verbosity >= 0:
        _remark([*_strangers(loaded.manifests, given)])
    return manifests.Loaded(
        manifests=(*(manifest for manifest in loaded.manifests if not _of_platform(manifest)), *given),
        complaints=tuple(sorted({*loaded.complaints, *platform.complaints})),
        more=loaded.more + platform.more,
        foreign=loaded.foreign + platform.foreign,
        files=loaded.files + platform.files,
        broken=loaded.broken | platform.broken,
        warnings=tuple(sorted({*loaded.warnings, *platform.warnings})),
    )


def _check(settings: Settings) -> None:
    if settings.clusters:
        raise click.UsageError("--clusters beside --platform: give its files with --platform")
    if "-" in settings.platform:
        raise click.UsageError("--platform: wanted a file or a folder, not standard input")


def _of_platform(manifest: Manifest) -> bool:
    return manifest.kind != "Topic"


def _strangers(found: Sequence[Manifest], platform: Sequence[Manifest]) -> Iterator[Manifest]:
    """Documents that have no effect where they stand; a file that both paths lead to is the platform's."""
    known = {os.path.realpath(manifest.source.place().file) for manifest in platform}
    for manifest in filter(_of_platform, found):
        if os.path.realpath(manifest.source.place().file) not in known:
            yield manifest


def _remark(strangers: Sequence[Manifest]) -> None:
    if strangers:
        shown = [f"{each.kind} {each.name} ({each.source.place()})" for each in strangers[:_SHOWN]]
        rest = f" and {len(strangers) - _SHOWN} more" if len(strangers) > _SHOWN else ""
        words = f"{count(len(strangers), 'document')} outside --platform without effect: {', '.join(shown)}{rest}"
        terminal.say(terminal.plain_lines(words))
