"""Workspaces for mutation tests: a copy of the tree each, and a process that runs pytest in it.

``run.py`` creates them. The process is ``fork_runner.py``, which has the libraries loaded.
"""

from __future__ import annotations

import compileall
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from py_compile import PycInvalidationMode

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path("operator/topiarist")
COPIED_PATHS = ("operator", "schemas", "manifests", "tests", "tools", "benchmarks", "pyproject.toml")

TEST_RUN_TIMEOUT_S = 3600
"""Seconds that tests which run together may take.

Each test also has its own limit, which detects a mutant that hangs.
"""

HUNG_SUFFIX = " (did not end)"

PYTEST_PLUGIN = """
import os

from hypothesis import Phase, settings

phases = (Phase.explicit, Phase.generate)
settings.register_profile("one-example", deadline=None, derandomize=True, database=None, phases=phases)

order = os.environ["ORDER"].split("\\n")
seconds = {}


def pytest_collection_modifyitems(items):
    known = {test: place for place, test in enumerate(order)}
    items.sort(key=lambda item: (known.get(item.nodeid, len(known)), item.get_closest_marker("hypothesis") is not None))


def pytest_runtest_logreport(report):
    seconds[report.nodeid] = seconds.get(report.nodeid, 0.0) + report.duration
    note(report)


def pytest_collectreport(report):
    note(report)


def note(report):
    if report.failed:
        with open(os.environ["RED"], "a", encoding="utf-8") as log:
            log.write(f"{report.nodeid}\\n")


def pytest_sessionfinish():
    with open(os.environ["SECONDS"], "a", encoding="utf-8") as log:
        log.writelines(f"{took}\\t{test}\\n" for test, took in seconds.items())
"""
"""A pytest plugin that orders the tests and logs failures and durations.

Single tests run in the requested order; within a file, literal cases run before properties. Properties have the same
examples in each run, and the first failing example is enough, however large it is.
"""


class Workspace:
    """A copy of the tree in which mutants are tested, by a process that has pytest loaded.

    The bytecode cache is compiled here and validated by content: a mutant differs little from the original, and may
    have the same time and size.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        compileall.compile_dir(folder / SOURCE, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
        (folder / "one_example.py").write_text(PYTEST_PLUGIN, encoding="utf-8")
        path = os.pathsep.join(map(str, (folder / SOURCE.parent, folder)))
        environment = {**os.environ, "PYTHONPATH": path}
        environment.pop("TOPIARIST_GOLDEN", None)
        self._runner = subprocess.Popen(
            [sys.executable, ROOT / "tools/mutation/fork_runner.py"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the process."""
        self._runner.communicate()

    @contextmanager
    def change_sources(self, changes: Mapping[str, Callable[[str], str]]) -> Iterator[None]:
        """Replace the sources of some modules while the context is open."""
        paths = {self._folder / SOURCE / module: change for module, change in changes.items()}
        originals = {path: path.read_text(encoding="utf-8") for path in paths}
        for path, change in paths.items():
            path.write_text(change(originals[path]), encoding="utf-8")
        try:
            yield
        finally:
            for path, original in originals.items():
                path.write_text(original, encoding="utf-8")

    def first_failure(self, tests: Sequence[str]) -> str | None:
        """Run files or single tests in this order, and return the first that fails.

        Returns None if all pass.
        """
        if not tests:
            return None
        options = ["-x", "-q", "-n", "0", "--no-header", "-p", "no:cacheprovider", "-p", "one_example"]
        # pytest cannot rewrite the assertions of libraries that are loaded already, and no test needs that.
        options += ["--hypothesis-profile", "one-example", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        output, red = self._folder / "output", self._folder / "red"
        for file in (output, red):
            file.write_text("", encoding="utf-8")
        variables = {"ORDER": "\n".join(tests), "SECONDS": str(self._folder / "seconds"), "RED": str(red)}
        request = {
            "words": [*options, *tests],
            "variables": variables,
            "output": str(output),
            "seconds": TEST_RUN_TIMEOUT_S,
        }
        assert self._runner.stdin
        assert self._runner.stdout
        print(json.dumps(request), file=self._runner.stdin, flush=True)
        code = self._runner.stdout.readline().strip()
        if code == "0":
            return None
        text = output.read_text(encoding="utf-8", errors="replace")
        if failures := red.read_text(encoding="utf-8").splitlines():
            return failures[0] + HUNG_SUFFIX * ("Failed: Timeout" in text)
        message = "does not end" if code == "hangs" else f"ends with {code}: {text.strip()[-200:]}"
        return f"{' '.join(tests[:3])} {message}"

    @property
    def trace_log(self) -> Path:
        """The file in which traced modules log their statements."""
        return self._folder / "traces"

    def test_durations(self) -> Mapping[str, float]:
        """Return the seconds that each test took when it last ran in this workspace."""
        log = self._folder / "seconds"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else ()
        return {test: float(took) for took, _, test in (line.partition("\t") for line in lines)}

    def expand_patterns(self, words: str) -> Sequence[str]:
        """Return the files that match the patterns, as pytest names them."""
        found = (path for word in words.split() for path in sorted(self._folder.glob(word)))
        return [*dict.fromkeys(str(path.relative_to(self._folder)) for path in found)]


def copy_tree(source: Path, target: Path) -> None:
    """Copy a file or folder with its symbolic links, without ``__pycache__``."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    elif source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
