"""The part of each lane that a change can touch: from the files that differ from a base commit.

The base is ``TOPIARIST_BASE``, or else the newest commit of an earlier day, since the night ran everything on that one.
Whatever is unknown touches everything: no base, a base that git does not know, a file that no lane names.

A change of everything takes longer than anyone waits. With ``MINUTES`` in the environment, only what fits into these
minutes of all processors runs: the core of each lane, then whole lanes and areas in the order of ``tests/lanes.toml``.
``SPEED_S`` is the speed of this machine, measured once for all lanes of a run: costs are scaled by it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from lanes.lane import CORE, ROOT, WHOLE, Lane, Part, load_cost_speed, load_lanes, load_untouching

_USABLE = 0.63
"""The part of the processors' time that lanes fill: side by side they wait and are slower; there is lint, too."""

_MARGIN = 1.5
"""A quicker machine fills 25 of 30 minutes by its speed (1.2), and servers gain less than what it measures (1.25)."""


def choose_parts(files: Sequence[str] | None) -> Mapping[str, Part]:
    """Return the part of each lane for some changed files; None stands for unknown ones."""
    lanes, nothing = load_lanes(), load_untouching()
    if files is None or any(not _is_known(file, lanes, nothing) for file in files):
        return {name: Part(WHOLE, tuple(lane.night)) for name, lane in lanes.items()}
    return {name: _part_of(lane, files) for name, lane in lanes.items()}


def parts_of_change(files: Sequence[str] | None) -> Mapping[str, Part]:
    """Return the parts for some changed files, without those that do not fit into ``MINUTES``."""
    wanted = choose_parts(files)
    if not (minutes := os.environ.get("MINUTES")):
        return wanted
    return fit_parts(wanted, float(minutes) * 60 * (os.cpu_count() or 1) * _USABLE / cost_factor())


def cost_factor() -> float:
    """Return the factor of all costs on this machine: 1 without ``SPEED_S``, and below 1 with a margin."""
    ratio = float(os.environ.get("SPEED_S") or load_cost_speed()) / load_cost_speed()
    return max(ratio, min(_MARGIN * ratio, 1.0))


def fit_parts(wanted: Mapping[str, Part], cpu_s: float) -> Mapping[str, Part]:
    """Return the parts that fit into some processor seconds; a lane without a core runs whole in any case."""
    lanes = load_lanes()
    fitting = {name: Part(CORE if lanes[name].core else WHOLE) for name in wanted}
    left = cpu_s - sum(lanes[name].cost.get(part.name, 0.0) for name, part in fitting.items())
    for name, part in wanted.items():
        more = lanes[name].cost.get(WHOLE, 0.0) - lanes[name].cost.get(CORE, 0.0)
        if part.name != fitting[name].name and more <= left:
            fitting[name], left = Part(WHOLE), left - more
    for name, part in wanted.items():
        for area in part.areas:
            if (more := lanes[name].cost[area]) <= left:
                fitting[name], left = Part(fitting[name].name, (*fitting[name].areas, area)), left - more
    return fitting


def changed_files() -> tuple[Sequence[str] | None, str]:
    """Return the files that differ from the base, and how the base was found; None if there is no base."""
    base, origin = _find_base()
    if not base:
        return None, origin
    # Without renames both names are listed; a three-dot difference would hide what the base has and this commit lacks.
    done = _git("diff", "--name-only", "--no-renames", base)
    untracked = _git("ls-files", "--others", "--exclude-standard")
    if done.returncode or untracked.returncode:
        return None, f"{origin} {base}, which git cannot compare"
    return sorted({*done.stdout.splitlines(), *untracked.stdout.splitlines()}), f"{origin} {base[:12]}"


def _find_base() -> tuple[str, str]:
    if given := os.environ.get("TOPIARIST_BASE"):
        return given, "TOPIARIST_BASE"
    today = _git("log", "-1", "--format=%cd", "--date=format:%Y-%m-%d").stdout.strip()
    days = [line.split() for line in _git("log", "--format=%H %cd", "--date=format:%Y-%m-%d").stdout.splitlines()]
    earlier = [commit for commit, day in days if day < today]
    return (earlier[0], "the newest commit of an earlier day,") if earlier else ("", "no commit of an earlier day")


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)


def _is_known(file: str, lanes: Mapping[str, Lane], nothing: Sequence[str]) -> bool:
    named = [glob for lane in lanes.values() for glob in lane.touched_by if glob != "**"]
    return any(fnmatchcase(file, glob) for glob in (*nothing, *named))


def _part_of(lane: Lane, files: Sequence[str]) -> Part:
    def touches(globs: Sequence[str]) -> bool:
        return any(fnmatchcase(file, glob) for file in files for glob in globs)

    areas = tuple(area for area, globs in lane.night.items() if touches(globs))
    return Part(WHOLE if touches(lane.touched_by) else CORE, areas)
