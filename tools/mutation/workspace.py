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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from py_compile import PycInvalidationMode

from mutation.traces import file_of_test

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path("operator/topiarist")
COPIED_PATHS = (
    *("operator", "schemas", "manifests", "charts", "docs", "tests", "tools", "benchmarks"),
    *("pyproject.toml", "README.md", "CHANGELOG.md"),
)

UNMUTATED_TIMEOUT_S = 3600
"""Seconds that all tests without a mutant may take."""

EXHAUSTED_SUFFIX = " (ran out of time or memory)"
REFUSED_SUFFIX = " (a call without a required argument)"


class Workspace:
    """A copy of the tree in which mutants are tested, by a process that has pytest loaded.

    The bytecode cache is compiled here and validated by content: a mutant differs little from the original, and may
    have the same time and size.
    """

    def __init__(self, folder: Path, limits: Mapping[str, str]) -> None:
        self._folder = folder
        # pytest cannot rewrite the assertions of libraries that are loaded already, and no test needs that.
        self._options = [
            *("-x", "-q", "-n", "0", "--no-header", "-p", "no:cacheprovider", "-p", "mutation.pytest_plugin"),
            *("--hypothesis-profile", "one-example", "-W", "ignore::pytest.PytestAssertRewriteWarning"),
        ]
        compileall.compile_dir(folder / SOURCE, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
        path = os.pathsep.join(map(str, (folder / SOURCE.parent, folder, ROOT / "tools")))
        logs = {"SECONDS": str(folder / "seconds"), "RED": str(folder / "red")}
        self._environment = {**os.environ, **limits, **logs, "PYTHONPATH": path}
        self._environment.pop("TOPIARIST_GOLDEN", None)
        self._server: _TestServer | None = None
        self._runner = subprocess.Popen(
            [sys.executable, ROOT / "tools/mutation/fork_runner.py"],
            cwd=folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the processes."""
        self._runner.communicate()
        if self._server:
            self._server.close()

    def serve(self, files: Sequence[str], modules: Iterable[str]) -> None:
        """Collect the tests of some files once, so that ``first_failure`` under changed functions starts at once.

        Functions of ``modules`` can be changed, also those that only a running command imports.
        """
        names = (module.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for module in modules)
        imported = " ".join(f"{SOURCE.name}.{name}" for name in names)
        self._server = _TestServer([*self._options, *files], self._folder, self._environment | {"IMPORTED": imported})

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

    def first_failure(self, tests: Sequence[str], seconds: float | None) -> str | None:
        """Run files or single tests in this order, and return the first that fails.

        Returns None if all pass. Everything is imported and collected in this run. The run ends after some seconds;
        None is for tests without a mutant, which may take as much time and memory as they need: traced code is slower.
        """
        if not tests:
            return None
        output = self._folder / "output"
        self._clear(output)
        request = {
            "words": [*self._options, *dict.fromkeys(map(file_of_test, tests))],
            "variables": {"ORDER": "\n".join(tests), **({"TEST_CPU_S": "0"} if seconds is None else {})},
            "output": str(output),
            "seconds": UNMUTATED_TIMEOUT_S if seconds is None else seconds,
            "has_limits": seconds is not None,
        }
        assert self._runner.stdin
        assert self._runner.stdout
        print(json.dumps(request), file=self._runner.stdin, flush=True)
        return self._find_failure(tests, self._runner.stdout.readline().strip(), output)

    def first_failure_of_functions(
        self, tests: Sequence[str], seconds: float, module: str, sources: tuple[str, str]
    ) -> str | None:
        """Run single tests that ``serve`` has collected, with the functions of a module as in its second source.

        Returns None if all pass. The first source is the one that was imported. The run ends after some seconds.
        """
        assert self._server
        self._clear()
        code = self._server.run(tests, seconds, str(self._folder / SOURCE / module), sources)
        return self._find_failure(tests, code)

    def _clear(self, *more: Path) -> None:
        for file in (self._folder / "red", *more):
            file.write_text("", encoding="utf-8")

    def _find_failure(self, tests: Sequence[str], code: str, output: Path | None = None) -> str | None:
        if code == "0":
            return None
        if failures := (self._folder / "red").read_text(encoding="utf-8").splitlines():
            return failures[0]
        text = output.read_text(encoding="utf-8", errors="replace") if output else ""
        if code == "hangs" or code.startswith("-") or "MemoryError" in text:
            return tests[0] + EXHAUSTED_SUFFIX
        return f"ends with {code}: {text.strip()[-200:]}"

    def read_source(self, module: str) -> str:
        """Return the present source of a module."""
        return (self._folder / SOURCE / module).read_text(encoding="utf-8")

    @property
    def trace_log(self) -> Path:
        """The file in which traced modules log their statements."""
        return self._folder / "traces"

    def read_traces(self) -> list[str]:
        """Return the lines that traced modules have logged."""
        return self.trace_log.read_text(encoding="utf-8").splitlines() if self.trace_log.exists() else []

    def read_contents(self, files: Sequence[str]) -> list[str]:
        """Return the texts of the package, of the code that all tests share, and of some test files."""
        shared = [*self._folder.glob(f"{SOURCE}/**/*.*"), *self._folder.glob("tests/support/**/*.py")]
        paths = [*shared, self._folder / "tests/conftest.py", *(self._folder / file for file in files)]
        return [
            path.read_text(encoding="utf-8", errors="replace")
            for path in sorted(paths)
            if path.is_file() and path.suffix != ".pyc"
        ]

    def test_durations(self) -> Mapping[str, float]:
        """Return the seconds that each test took when it last ran in this workspace."""
        log = self._folder / "seconds"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else ()
        return {test: float(took) for took, _, test in (line.partition("\t") for line in lines)}

    def expand_patterns(self, words: str) -> Sequence[str]:
        """Return the files that match the patterns, as pytest names them."""
        found = (path for word in words.split() for path in sorted(self._folder.glob(word)))
        return [*dict.fromkeys(str(path.relative_to(self._folder)) for path in found)]


class _TestServer:
    """A process that has collected tests, and forks for each mutant; see ``pytest_plugin.py``."""

    def __init__(self, words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        child_in, requests = os.pipe()
        answers, child_out = os.pipe()
        output = folder / "server-output"
        with output.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *words],
                cwd=folder,
                env={**environment, "SERVE": f"{child_in},{child_out}"},
                pass_fds=(child_in, child_out),
                stdout=log,
                stderr=log,
            )
        for end in (child_in, child_out):
            os.close(end)
        self._requests = os.fdopen(requests, "w", encoding="utf-8")
        self._answers = os.fdopen(answers, encoding="utf-8")
        if not self._answers.readline():
            raise SystemExit(f"pytest cannot collect the tests:\n{output.read_text(encoding='utf-8')[-2000:]}")

    def run(self, tests: Sequence[str], seconds: float, path: str, sources: tuple[str, str]) -> str:
        """Run tests with the functions of a changed source, and return the exit code."""
        request = {"tests": tests, "path": path, "sources": sources, "seconds": seconds}
        print(json.dumps(request), file=self._requests, flush=True)
        return self._answers.readline().strip()

    def close(self) -> None:
        """End the process."""
        self._requests.close()
        self._process.wait()
        self._answers.close()


def copy_tree(source: Path, target: Path) -> None:
    """Copy a file or folder with its symbolic links, without ``__pycache__``."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    elif source.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
