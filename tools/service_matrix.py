"""The tables of services and of differences, from the record of ``make test-services``.

They are parts of ``docs/services.md`` and ``docs/internals/service-differences.md``: what works where.

``tests/services/cells.toml`` has the cells with their titles, ``docs/services.json`` their results, which
``make record-services`` writes. A cell that ran nowhere has no results, and so no word about what works.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from services.story import CELLS, WORKS

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "docs" / "services.json"

WRITES = ("adopt", "create", "grow", "config", "delete")
"""The steps that write; all other steps only read."""

HEAD = ("how", "reading", *WRITES)

Results = Mapping[str, str]


def load_results() -> Mapping[str, Results]:
    """Return the results of all cells by name and step."""
    cells: Mapping[str, Results] = json.loads(RECORD.read_text(encoding="utf-8"))["cells"]
    return cells


def service_rows() -> Iterator[Sequence[str]]:
    """Yield a row for each service: its section, how it was tried, and its results."""
    results = load_results()
    for name, cell in CELLS.items():
        if cell.page:
            title = f"[{cell.title}](#{cell.section})" if cell.section else cell.title
            yield title, cell.how, *_summarize(results.get(name, {}))


def difference_rows() -> Iterator[Sequence[str]]:
    """Yield a row for each cell with one difference, but for those where everything works."""
    for name, found in _differences():
        if not _works(found):
            yield CELLS[name].title, CELLS[name].how, *_summarize(found)


def harmless_differences() -> str:
    """Return the cells with one difference where everything works, as a sentence."""
    differences = [*_differences()]
    working = [CELLS[name].title for name, found in differences if _works(found)]
    return f"\nEverything works in {len(working)} of {len(differences)} cells: {'; '.join(working)}.\n"


def _differences() -> Iterator[tuple[str, Results]]:
    yield from ((name, found) for name, found in load_results().items() if not CELLS[name].page)


def _works(results: Results) -> bool:
    return {*results.values()} == {WORKS}


def _summarize(results: Results) -> Iterator[str]:
    """Yield the results of reading, and of each step that writes; empty if it did not run."""
    reads = {step: result for step, result in results.items() if step not in WRITES}
    failed = [f"{step}: `{result}`" for step, result in reads.items() if result != WORKS]
    yield ", ".join(failed) or (WORKS if reads else "")
    for step in WRITES:
        result = results.get(step, "")
        yield result if result in ("", WORKS) else f"`{result}`"
