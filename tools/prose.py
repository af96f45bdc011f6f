"""Checker of the prose: banned phrases, first lines of docstrings, and names in double backquotes.

Usage: ``python tools/prose.py`` prints each place with the phrase and its replacement, and exits with 1 if there are
any. It reads the pages, the docstrings, comments and messages of the package, and the docstrings of tools, benchmarks
and tests. The list below is that of ``CONTRIBUTING.md``, "Language".
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

BANNED = {
    r"somebody|nobody|whoever|anybody|somebody else|others have|by others": "name the actor: the user, another client",
    r"mend(s|ed|ing)?": "fix, correct, repair",
    r"has gone|have gone|is gone|are gone": "was deleted, no longer exists",
    r"is at it|are at it": "is in progress",
    r"a word (on|of|about)": "a message about",
    r"by which|of which|whose": "a new sentence, or a noun",
    r"complaints?": "error",
    r"hears? of|heard of": "receives, learns about",
    r"taken on|take on": "adopted",
    r"told apart|tell apart": "distinguished",
    r"as it stands|comes? about|goes? past|said of|is said|was said": "plain words: exists, happens, bypasses, reports",
    r"made again|makes? anew|made anew": "recreated",
    r"taken away": "removed",
    r"taken over by the controller": "initialized by the controller",
    r"wrong usage": "usage error",
    r"if it is meant": "to allow this",
}
PATTERNS = [(re.compile(rf"\b(?:{phrase})\b", re.IGNORECASE), instead) for phrase, instead in BANNED.items()]
CLAUSE_STARTS = ("What ", "Whether ", "Those ", "One that ", "Whoever ", "Where ", "That ")
QUOTED = re.compile(r"``([^`\n]+)``")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

PACKAGE = "operator"
DOCSTRING_FOLDERS = ("tools", "benchmarks", "tests")
SOURCE_FOLDERS = (PACKAGE, "tools", "benchmarks", "tests", "schemas", "charts", "manifests", "docs/ci")
"""Folders with the names that docstrings may quote."""

PAGES = ("README.md", "CONTRIBUTING.md", "docs/**/*.md", "charts/*/README.md", "manifests/**/*.md")
EXTERNAL_NAMES = {"LogConfig", "Integer", "Long", "Double", "parseInt", "parseLong", "parseDouble", "unzip", "EXTRA"}
"""Names of Kafka's classes, of Java and of commands, which the repository does not contain."""

QUOTING_PAGES = {"changed-words.md", "glossary.md"}
"""Pages that quote old or wrong words on purpose."""


class Finding(NamedTuple):
    """A place in a file, and what is wrong there."""

    file: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line}: {self.message}"


class Text(NamedTuple):
    """A piece of prose with the line of its file on which it begins."""

    line: int
    text: str


def docstrings(tree: ast.Module) -> Iterator[Text]:
    """Yield each docstring, also those below constants."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield Text(statement.lineno, value.value)


def messages(tree: ast.Module) -> Iterator[Text]:
    """Yield each string literal of several words that is no docstring: messages, help texts, descriptions."""
    skipped = {text.line for text in docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from [Text(node.lineno, node.value)] if node.lineno not in skipped else []


def comments(source: str) -> Iterator[Text]:
    """Yield each comment."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(token.start[0], token.string)


def known_names() -> set[str]:
    """Return every identifier that occurs in code, schemas, the chart or the Makefile, and every file name."""
    names = set(EXTERNAL_NAMES)
    for folder in SOURCE_FOLDERS:
        for file in (ROOT / folder).rglob("*"):
            if file.is_file() and file.suffix in {
                ".py",
                ".json",
                ".yaml",
                ".yml",
                ".tpl",
                ".toml",
                ".sh",
                ".html",
                ".js",
            }:
                names.update(IDENTIFIER.findall(file.stem))
                source = file.read_text(encoding="utf-8", errors="replace")  # inputs of the fuzzer may be anything
                names.update(code_names(source) if file.suffix == ".py" else IDENTIFIER.findall(source))
            elif file.is_dir():
                names.update(IDENTIFIER.findall(file.name))
    for name in ("Makefile", "pyproject.toml", "Dockerfile", "action.yml", ".ci/run"):
        if (ROOT / name).exists():
            names.update(IDENTIFIER.findall((ROOT / name).read_text(encoding="utf-8")))
    return names


def code_names(source: str) -> set[str]:
    """Return the identifiers of a module's code, and those in its string literals that are no docstrings."""
    skipped = {text.line for text in docstrings(ast.parse(source))}
    names: set[str] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME or (token.type == tokenize.STRING and token.start[0] not in skipped):
            names.update(IDENTIFIER.findall(token.string))
    return names


def check_phrases(file: Path, texts: Iterator[Text]) -> Iterator[Finding]:
    """Yield each banned phrase."""
    for text in texts:
        for offset, line in enumerate(text.text.splitlines()):
            for pattern, instead in PATTERNS:
                for match in pattern.finditer(line):
                    yield Finding(file, text.line + offset, f'found "{match[0]}", wanted: {instead}')


def check_docstrings(file: Path, tree: ast.Module, names: set[str]) -> Iterator[Finding]:
    """Yield docstrings that begin with a clause, and names in double backquotes that exist nowhere."""
    for text in docstrings(tree):
        if text.text.startswith(CLAUSE_STARTS):
            yield Finding(file, text.line, "begins with a clause; begin with a verb or a noun")
        for offset, line in enumerate(text.text.splitlines()):
            for quoted in QUOTED.findall(line):
                for name in IDENTIFIER.findall(quoted):
                    if name not in names:
                        yield Finding(file, text.line + offset, f"``{quoted}``: no {name} exists")


def check_tree() -> Iterator[Finding]:
    """Yield all findings of the repository."""
    names = known_names()
    for file in sorted((ROOT / PACKAGE).rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        tree = ast.parse(source)
        yield from check_phrases(file, docstrings(tree))
        yield from check_phrases(file, messages(tree))
        yield from check_phrases(file, comments(source))
        yield from check_docstrings(file, tree, names)
    for folder in DOCSTRING_FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield from check_phrases(file, docstrings(ast.parse(file.read_text(encoding="utf-8"))))
    for pattern in PAGES:
        for file in sorted(ROOT.glob(pattern)):
            if file.name not in QUOTING_PAGES:
                yield from check_phrases(file, iter([Text(1, file.read_text(encoding="utf-8"))]))


def main() -> int:
    """Print all findings; return the exit code."""
    findings = list(check_tree())
    for finding in findings:
        print(finding, file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
