"""What ``plan``, ``describe``, ``list`` and ``validate`` print: a renderer for each format.

Those for machines are imported when asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from topiarist.cli import terminal
from topiarist.core.change import Plan
from topiarist.errors import Complaint
from topiarist.render import complaints as complaints_
from topiarist.settings import Settings

if TYPE_CHECKING:
    from topiarist.core.description import Description
    from topiarist.render.listing import Listed


def plans_text(plans: Sequence[Plan], settings: Settings, *, applying: bool = False) -> str:
    """Return plans as text: whole, with ``-q`` a line for each topic, with ``--summary`` how they end."""
    page = terminal.page(sys.stdout, settings)
    if settings.summary or settings.verbosity < 0:
        from topiarist.render import short

        return (short.ends if settings.summary else short.lines)(plans, page, applying=applying)
    from topiarist.render import text

    return text.plans(plans, page, applying=applying)


def _text(plans: Sequence[Plan], _failed: Sequence[str], settings: Settings) -> str:
    return plans_text(plans, settings)


def _json(plans: Sequence[Plan], failed: Sequence[str], _settings: Settings) -> str:
    """The document; none at all where no cluster could be planned."""
    from topiarist.render.document import document, dumps

    return dumps(document(plans)) if plans or not failed else ""


def _markdown(plans: Sequence[Plan], failed: Sequence[str], _settings: Settings) -> str:
    from topiarist.render import markdown

    return markdown.plans(plans, failed, str(Path.cwd()))


def _github(plans: Sequence[Plan], failed: Sequence[str], _settings: Settings) -> str:
    from topiarist.render import github

    return github.plans(plans, failed, str(Path.cwd()))


PLANS: Mapping[str, Callable[[Sequence[Plan], Sequence[str], Settings], str]] = {
    "text": _text,
    "json": _json,
    "markdown": _markdown,
    "github": _github,
}
"""Plans of a run, and the clusters that could not be planned, in each format of ``plan``."""


def _described_text(_topic: str, found: Sequence[Description], settings: Settings) -> str:
    from topiarist.render import described

    return described.descriptions(found, terminal.page(sys.stdout, settings))


def _described_json(topic: str, found: Sequence[Description], _settings: Settings) -> str:
    from topiarist.render import describing
    from topiarist.render.document import dumps

    return dumps(describing.document(topic, found))


DESCRIPTIONS: Mapping[str, Callable[[str, Sequence[Description], Settings], str]] = {
    "text": _described_text,
    "json": _described_json,
}
"""The word that a topic was asked for by, and the topic on each cluster, in each format of ``describe``."""


def _listed_text(found: Sequence[Listed], settings: Settings) -> str:
    from topiarist.render import listed

    return listed.lists(found, terminal.page(sys.stdout, settings), cut=sys.stdout.isatty() and settings.verbosity < 1)


def _listed_json(found: Sequence[Listed], _settings: Settings) -> str:
    from topiarist.render import listing
    from topiarist.render.document import dumps

    return dumps(listing.document(found))


LISTS: Mapping[str, Callable[[Sequence[Listed], Settings], str]] = {"text": _listed_text, "json": _listed_json}
"""The topics of clusters, in each format of ``list``."""


Complaints = Sequence[Complaint]


def _complaints_json(found: Complaints, warnings: Complaints, more: int) -> str:
    return complaints_.to_json(found, warnings, more=more)


def _complaints_markdown(found: Complaints, _warnings: Complaints, more: int) -> str:
    from topiarist.render import markdown

    return markdown.complaints(found, more, str(Path.cwd()))


def _complaints_github(found: Complaints, warnings: Complaints, more: int) -> str:
    from topiarist.render import github

    return github.complaints(found, warnings, more, str(Path.cwd()))


def _complaints_sarif(found: Complaints, warnings: Complaints, more: int) -> str:
    from topiarist.render.sarif import to_sarif

    return to_sarif(found, warnings, more=more, root=str(Path.cwd()))


COMPLAINTS: Mapping[str, Callable[[Complaints, Complaints, int], str]] = {
    "json": _complaints_json,
    "markdown": _complaints_markdown,
    "github": _complaints_github,
    "sarif": _complaints_sarif,
}
"""What is wrong with manifests, warnings, and how many were only counted, in each format but text."""
