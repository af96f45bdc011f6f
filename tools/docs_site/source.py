"""The source of the site: a mirror of the repository with the files that pages are made of or link to.

Paths stay as they are in the repository, so that links between pages hold without being rewritten. Only links to
folders are: each such folder gets a page that lists its files. Each reason gets a heading of its own. ``__main__``
builds the site from the mirror.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]

_PAGES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "charts/topiarist/README.md",
    "docs/*.md",
    "docs/internals/*.md",
)
_FILES = (
    "LICENSE",
    "constraints.txt",
    "schemas/*.json",
    "manifests/**/*",
    "docs/ci/*",
    "tools/ci/gitlab/**/*",
    "docs/drift/*",
    "docs/python/*",
    "docs/pictures/*",
)

_LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")
_FENCE = re.compile(r"^ *(```|~~~)")
_HEADING = re.compile(r"## (.+)")
_ROW = re.compile(r"\| \[(?P<title>[^]]+)\]\((?P<target>[^)#]+)(?:#[^)]*)?\) \|")
_REASON = re.compile(r"\| `(?P<name>[A-Z][A-Za-z0-9]+)` \| (?P<rest>.+) \|$")


class Section(NamedTuple):
    """A section of the navigation: its title, and the title and path of each page."""

    title: str
    pages: list[tuple[str, str]]


def find_files(root: Path = ROOT) -> Iterator[Path]:
    """Yield the files of a checkout that the site has; its pages may link to nothing else."""
    for pattern in (*_PAGES, *_FILES):
        yield from (path for path in sorted(root.glob(pattern)) if path.is_file())


def write_source(to: Path, root: Path = ROOT) -> None:
    """Write the mirror of a checkout to the empty folder ``to``."""
    for path in find_files(root):
        target = to / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    shutil.copytree(Path(__file__).parent / "assets", to / "assets")
    for page in sorted(to.rglob("*.md")):
        page.write_text("".join(_rewrite(page, to)))
    _unfold_reasons(to / "docs" / "reasons.md")
    (to / "llms.txt").write_text("\n".join(_list_for_machines(to / "docs" / "README.md")) + "\n")


def _list_for_machines(index: Path) -> Iterator[str]:
    """Yield the lines of llms.txt: every page of the index with its content, for programs that read the site."""
    yield "# Topiarist"
    yield ""
    yield "> Keeps Kafka topics as they are declared in git: plans, applies and reports differences."
    for line in index.read_text().splitlines():
        if heading := _HEADING.fullmatch(line):
            yield from ("", f"## {heading[1]}", "")
        elif row := _ROW.match(line):
            path = posixpath.normpath(posixpath.join("docs", row["target"]))
            address = re.sub(r"README\.md$", "index.html", path)
            content = _LINK.sub(lambda link: "", line[row.end() :]).strip(" |").replace("[", "")
            yield f"- [{row['title']}]({re.sub(r'[.]md$', '.html', address)}): {content}"


def _rewrite(page: Path, top: Path) -> Iterator[str]:
    """Yield the lines of a page; links to folders lead to their lists of files, which are written."""

    def link_to_list(found: re.Match[str]) -> str:
        target = page.parent / found[2]
        if "://" in found[2] or not target.is_dir():
            return found[0]
        _write_list(target, top)
        return f"{found[1]}{found[2].rstrip('/')}/README.md{found[3] or ''}{found[4]}"

    in_code = False
    for line in page.read_text().splitlines(keepends=True):
        in_code ^= bool(_FENCE.match(line))
        yield line if in_code else _LINK.sub(link_to_list, line)


def _write_list(folder: Path, top: Path) -> None:
    page = folder / "README.md"
    if page.exists():
        return
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [f"- [{name}]({name})" for name in (path.relative_to(folder).as_posix() for path in files)]
    page.write_text("\n".join([f"# {folder.relative_to(top).as_posix()}", "", *lines, ""]))


def _unfold_reasons(page: Path) -> None:
    """Replace each row of the tables of reasons by a heading with its facts, which search and links can find."""
    lines: list[str] = []
    head: list[str] = []
    for line in page.read_text().splitlines():
        if line.startswith("| reason |"):
            head = [cell.strip() for cell in line.strip("| ").split("|")][1:]
        elif head and (found := _REASON.fullmatch(line)):
            cells = [cell.strip() for cell in found["rest"].split(" | ")]
            lines += [
                f"### {found['name']}",
                "",
                *(f"- **{title}**: {cell}" for title, cell in zip(head, cells, strict=True)),
                "",
            ]
        elif not head or not line.startswith("|"):
            head = []
            lines.append(line)
    page.write_text("\n".join(lines) + "\n")


def read_navigation(source: Path) -> list[Section]:
    """Return the sections of the index of all pages; the first one begins with the front page and the index."""
    sections = [Section("", [("Topiarist", "README.md"), ("All pages", "docs/README.md")])]
    listed = {"README.md"}
    for line in (source / "docs" / "README.md").read_text().splitlines():
        if (heading := _HEADING.fullmatch(line)) and sections[-1].title:
            sections.append(Section(heading[1], []))
        elif heading:
            sections[-1] = sections[-1]._replace(title=heading[1])
        elif row := _ROW.match(line):
            path = (source / "docs" / row["target"]).resolve().relative_to(source.resolve()).as_posix()
            if path not in listed and path.endswith(".md"):
                listed.add(path)
                sections[-1].pages.append((row["title"], path))
    return [section for section in sections if section.pages]
