"""The mutation checks: what they change and report, that endless mutants are killed, and that their lists are true."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from mutation.draw import draw, list_group, load_survivors, run_group
from mutation.operators import find_changes, find_units, mark_difference
from mutation.run import list_mutants, load_settings
from mutation.traces import CoverageTraces
from mutation.workspace import ROOT


@pytest.mark.slow
def test_the_mutation_check_has_no_outdated_names() -> None:
    """A function that was renamed or moved would otherwise be noticed only by the next check, which takes hours."""
    targets, equivalent = load_settings()
    names = {mutant.name for mutant in list_mutants(targets)}
    assert equivalent.keys() <= names
    assert len(names) > 1000


@pytest.mark.slow
def test_listed_survivors_exist() -> None:
    """Each listed survivor of a package is a change of its present code, so no entry excuses another change."""
    for path in (ROOT / "tools/mutation/survivors").glob("*.toml"):
        group = next(
            str(folder.relative_to(ROOT / "operator/topiarist"))
            for folder in (ROOT / "operator/topiarist").rglob("*")
            if str(folder.relative_to(ROOT / "operator/topiarist")).replace("/", "-").removesuffix(".py") == path.stem
        )
        load_survivors(group, list_group(group))


def _changes(source: str) -> Iterator[str]:
    for unit in find_units(ast.parse(source)):
        yield from (f"{unit.name}: {change.description}" for change in find_changes(unit))


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        ("x = a < b", ["x = a <{+=+} b", "x = a [-<-]{+>=+} b"]),
        ("x = a == b", ["x = a [-=-]{+!+}= b"]),
        ("x = a in b", ["x = a {+not +}in b"]),
        ("x = a is not b", ["x = a is [-not -]b"]),
        ("x = 41", ["x = [-41-]{+42+}", "x = [-41-]{+40+}"]),
        ("x = True", ["x = [-True-]{+False+}"]),
        ("x = 'code'", ["x = '[-code-]{+codex+}'"]),
        ("x = 'a text'", []),
        ("x = f'topics/{a}'", ["x = f'topics/{+x+}{a}'"]),
        ("x = f'found {a}'", []),
        ("x: Literal['code']", []),
        ("x = {A, B}", ["x = {[-A, -]B}", "x = {A[-, B-]}"]),
        ("x = (A, B)", ["x = ([-A, B-]{+B,+})", "x = (A,[- B-])"]),
        ("a, b = (A, B)", []),
        ("x = f(a, b)", ["x = f(a[-, b-])", "x = f([-a, b-]{+b, a+})"]),
        ("x = max(a, b)", ["x = max(a[-, b-])"]),
        ("x = f(key=a)", ["x = f([-key=a-])"]),
        ("x = zip(a, strict=b)", []),
        ("x = a or 'text'", ["x = a [-or-]{+and+} 'text'", "x = a[- or 'text'-]", "x = a or '[-text-]{+textx+}'"]),
        ("x = not a", ["x = [-not -]a"]),
        ("x = a if b else c", ["x = a[- if b else c-]", "x = [-a if b else -]c"]),
        ("x = a + b", ["x = a [-+-]{+-+} b"]),
        ("x = a | {b}", ["x = a[- | {b}-]", "x = [-a | -]{b}"]),
        ("x = Value | None", []),
    ],
)
def test_each_operator(source: str, changes: list[str]) -> None:
    """Each operator makes exactly the changes of its kind, and none in texts, annotations and types."""
    assert [*_changes(source)] == [f"{source.partition(' =')[0].partition(':')[0]}: {each}" for each in changes]


def test_changes_of_a_function() -> None:
    """The body and the head of a function, and the members of an enumeration, are changed separately."""
    source = """
class Code(Enum):
    FENCED = "fenced"

    def find(self, limit=5):
        '''Docstring.'''
        log.warning("code")
        return [self]
"""
    assert [*_changes(source)] == [
        "Code: without the member: FENCED = 'fenced'",
        "Code.FENCED: FENCED = '[-fenced-]{+fencedx+}'",
        "Code.find: return [[-self-]]",
        "Code.find(): self, limit=[-5-]{+6+}",
        "Code.find(): self, limit=[-5-]{+4+}",
    ]


def test_a_difference_is_one_line() -> None:
    """Equal words far from the change are left out."""
    assert mark_difference("a" * 50 + " 1 " + "b" * 50, "a" * 50 + " 2 " + "b" * 50) == (
        f"...{'a' * 39} [-1-]{{+2+}} {'b' * 39}..."
    )


@pytest.mark.slow
def test_a_sample_is_reproducible_and_spread() -> None:
    """The same seed draws the same mutants, another seed others, and a sample covers all modules."""
    mutants = list_group("filters")
    drawn = [
        [mutant.name for mutant, _ in zip(draw(mutants, 100, seed), range(100), strict=False)] for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert {name.partition(":")[0] for name in drawn[0]} == {mutant.name.partition(":")[0] for mutant in mutants}
    assert {mutant.name for mutant in draw(mutants, 100, 1)} == {mutant.name for mutant in mutants}


SMALL = '''
"""A module."""

LIMIT = 3


def is_large(number: int, edge: bool = False) -> bool:
    """Return whether a number is large."""
    return number > LIMIT or (edge and number == LIMIT)
'''

SMALL_TESTS = """
from topiarist.small import is_large


def test_is_large():
    assert is_large(4)
    assert not is_large(1)
    {more}
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with one module and no tests yet."""
    monkeypatch.setenv("TOPIARIST_CACHE", str(tmp_path / "cache"))
    root = tmp_path / "root"
    for folder in ("operator/topiarist", "tests/unit/small", "tools/mutation/survivors"):
        (root / folder).mkdir(parents=True)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n", encoding="utf-8")  # none above it counts
    (root / "operator/topiarist/__init__.py").touch()
    (root / "operator/topiarist/small.py").write_text(SMALL, encoding="utf-8")
    return root


def test_what_a_setup_executes_counts_for_the_whole_file() -> None:
    """A fixture of several tests is executed by the first alone; tests that execute a statement come first."""
    log = ["m.py\t1\ta.py::one (setup)", "m.py\t2\ta.py::one (call)", "m.py\t1\tb.py::four (call)"]
    traces = CoverageTraces(log, {"a.py::two": 1, "a.py::one": 2, "b.py::three": 3, "b.py::four": 4})
    assert traces.tests_at("m.py", 1) == ["a.py::one", "b.py::four", "a.py::two"]
    assert traces.tests_at("m.py", 2) == ["a.py::one"]


def _write_tests(root: Path, more: str) -> None:
    (root / "tests/unit/small/test_small.py").write_text(SMALL_TESTS.format(more=more), encoding="utf-8")


@pytest.mark.slow
def test_survivors(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A survivor is printed and fails the check until it is listed; so does a listed change that is killed."""
    listed = package / "tools/mutation/survivors/small.toml"
    survivor = "small.py:is_large(): number: int, edge: bool=[-False-]{+True+}"
    other = "small.py:LIMIT: LIMIT = [-3-]{+4+}"
    _write_tests(package, "assert is_large(3, True) and not is_large(3, False) and not is_large(2, True)")
    assert not run_group("small", 50, 1, 1, package)
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("    small.py")] == [
        f"    {survivor}"
    ]
    listed.write_text(f'[equivalent]\n"{survivor}" = "every caller passes it"\n', encoding="utf-8")
    assert run_group("small", 50, 1, 1, package)
    listed.write_text(f'[cosmetic]\n"{survivor}" = "a reason"\n"{other}" = "another"\n', encoding="utf-8")
    assert not run_group("small", 50, 1, 1, package)
    assert f"{other}\n    NOT cosmetic: another: killed by" in capsys.readouterr().out


ENDLESS = """
from itertools import count


def read(size, is_short=True):
    return bytearray(min(size, 10)) if is_short else max(count())
"""


@pytest.mark.slow
def test_a_mutant_without_end_is_killed(
    package: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mutant that allocates 5 GB, or computes without end in code of C, is killed soon, in memory and at import."""
    monkeypatch.setattr("mutation.run.START_S", 8)
    (package / "operator/topiarist/small.py").write_text(ENDLESS, encoding="utf-8")
    (package / "tests/unit/small/test_small.py").write_text(
        "from topiarist.small import read\n\n\ndef test_read():\n    assert read(5 << 30)\n", encoding="utf-8"
    )
    run_group("small", 50, 1, 1, package)
    assert "(3 out of time or memory)" in capsys.readouterr().out


@pytest.mark.slow
def test_many_tests_may_start_processes(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The list of tests, which is longer than an environment may be, is not in the environment of what they start."""
    module = package / "operator/topiarist/small.py"
    module.write_text(f"{SMALL}\nUNUSED = 7\n", encoding="utf-8")
    (package / "tests/unit/small/test_small.py").write_text(
        "import subprocess\nimport sys\nimport pytest\nfrom topiarist import small\n\n\n"
        "@pytest.mark.parametrize('number', range(2000))\n"
        f"def test_{'many_' * 20}numbers(number):\n    assert small.is_large(4)\n\n\n"
        "def test_a_process():\n    subprocess.run([sys.executable, '-c', ''], check=True)\n",
        encoding="utf-8",
    )
    run_group("small", 50, 1, 1, package)
    assert "    small.py:UNUSED: UNUSED = [-7-]{+8+}\n" in capsys.readouterr().out


def test_a_listed_survivor_that_does_not_exist(package: Path) -> None:
    """A survivor of code that was changed since is an error."""
    listed = package / "tools/mutation/survivors/small.toml"
    listed.write_text('[equivalent]\n"small.py:is_small: x" = "a reason"\n', encoding="utf-8")
    with pytest.raises(SystemExit, match=r"small\.toml: unknown mutants"):
        load_survivors("small", list_group("small", package), package)


@pytest.mark.slow
def test_a_sample_without_tests_is_an_error(package: Path) -> None:
    """A group for which no test runs has not passed."""
    with pytest.raises(SystemExit, match="no test"):
        run_group("small", 5, 1, 1, package)


@pytest.mark.slow
def test_a_test_that_fails_without_a_change_ends_the_draw(package: Path) -> None:
    """A test that fails only as a draw runs it, here beside its thread, would kill every mutant."""
    (package / "tests/unit/small/test_small.py").write_text(
        "import threading\nfrom topiarist.small import is_large\n\n\n"
        "def test_is_large():\n    assert is_large(4) and threading.active_count() == 1\n",
        encoding="utf-8",
    )
    with pytest.raises(SystemExit, match=r"test_is_large fails in memory without any mutant"):
        run_group("small", 5, 1, 1, package)


@pytest.mark.slow
def test_a_function_that_always_fails_must_be_noticed(package: Path) -> None:
    """Before the sample, a function fails on purpose: tests that do not notice it would notice no change in memory."""
    (package / "tests/unit/small/test_small.py").write_text(
        "from contextlib import suppress\nfrom topiarist.small import is_large\n\n\n"
        "def test_is_large():\n    with suppress(AssertionError):\n        is_large(4)\n",
        encoding="utf-8",
    )
    with pytest.raises(SystemExit, match="no test notices a function that always fails"):
        run_group("small", 5, 1, 1, package)
