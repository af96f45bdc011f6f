"""Where documents stand: the bytes of a file as they were read, and the part of them that one document is.

The fast pass over a file keeps no positions. A ``Document`` keeps where it begins and ends; when somebody asks where a
field stands, that part is read again, from memory: a file that changed on disk meanwhile does not matter.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from topiarist.adapters.manifests.tree import Node, compose_one, locate
from topiarist.errors import Path, Place


class File(NamedTuple):
    """A file as it was read, with its name as the user gave it (relative, if a relative path was given)."""

    name: str
    data: bytes

    def part(self, start: int, end: int) -> str:
        """The characters from ``start`` to ``end``; a byte order mark at the beginning does not count."""
        return _text(self.data)[start:end]


@lru_cache(maxsize=1)
def _text(data: bytes) -> str:
    """A file's text, kept for the last one: of a file with many documents, many parts may be asked for."""
    return data.decode("utf-8-sig")


class Document:
    """One document of a file, the ``Source`` of its manifest; ``start`` and ``end`` are characters.

    ``root`` spares reading the document again as long as it is there: what was read, and at which line it begins there.
    """

    __slots__ = ("end", "file", "line", "root", "start")

    def __init__(self, file: File, start: int, end: int, line: int) -> None:
        self.file = file
        self.start = start
        self.end = end
        self.line = line
        self.root: tuple[Node, int] | None = None

    def place(self, path: Path = ()) -> Place:
        """The place of ``path``, of its nearest ancestor that has one, or of the document.

        That of the value if it is a scalar or a list's item, of the key otherwise, or if the path ends in a ``Key``.
        """
        root, first = self.root or (_tree(self), 0)
        line, column = locate(root, path)
        return Place(self.file.name, self.line + line - first + 1, column + 1)


@lru_cache(maxsize=16)
def _tree(document: Document) -> Node:
    """A document with all positions; the last few are kept, since questions about one document come together."""
    return compose_one(document.file.part(document.start, document.end))
