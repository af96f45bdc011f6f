"""Results of mutation tests: the test that killed each mutant, kept from one run to the next.

``run.py`` runs the known test first and alone, which decides most mutants. The file only saves time: a mutant counts as
killed only by a test that failed in the current run. So an interrupted run continues, and a run after a change takes
minutes.
"""

from __future__ import annotations

import json
import os
import re
import threading
from pathlib import Path

from mutation.traces import file_of_test


class MutantResults:
    """The killing tests by the name of the mutant, stored in the file at ``path``, which may be absent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._tests: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def killing_test(self, mutant: str, root: Path) -> str | None:
        """Return the test that killed the mutant, or None if there is none or it was deleted."""
        test = self._tests.get(mutant)
        return test if test and _exists(test, root) else None

    def record(self, mutant: str, test: str) -> None:
        """Store that a test has killed the mutant."""
        with self._lock:
            self._tests[mutant] = test
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fresh = self._path.with_suffix(f".{os.getpid()}.new")
            fresh.write_text(json.dumps(self._tests, indent=1, sort_keys=True), encoding="utf-8")
            fresh.replace(self._path)


def _exists(test: str, root: Path) -> bool:
    path = root / file_of_test(test)
    function = re.escape(test.rpartition("::")[2].partition("[")[0])
    return path.exists() and bool(re.search(rf"\bdef {function}\(", path.read_text(encoding="utf-8")))
