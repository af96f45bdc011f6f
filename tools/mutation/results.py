"""Which test noticed which mutant, kept from one run to the next: it is asked first, alone, and decides most of them.

Nothing is taken on trust: a mutant counts as noticed only by a test that turned red in this run. What is kept only
saves the way to it, so that a run that was ended goes on where it was, and one after a change takes minutes.
"""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

from mutation.traces import file_of_test


class MutantResults:
    """The file at ``path``, which need not be there: a test by the name of the mutant."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._tests: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def killing_test(self, mutant: str, root: Path) -> str | None:
        """The test that noticed it, if that is still there."""
        test = self._tests.get(mutant)
        return test if test and _exists(test, root) else None

    def record(self, mutant: str, test: str) -> None:
        """Keep that a test has noticed it."""
        with self._lock:
            self._tests[mutant] = test
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fresh = self._path.with_suffix(".new")
            fresh.write_text(json.dumps(self._tests, indent=1, sort_keys=True), encoding="utf-8")
            fresh.replace(self._path)


def _exists(test: str, root: Path) -> bool:
    path = root / file_of_test(test)
    function = re.escape(test.rpartition("::")[2].partition("[")[0])
    return path.exists() and bool(re.search(rf"\bdef {function}\(", path.read_text(encoding="utf-8")))
