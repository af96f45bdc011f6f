"""The project file ``topiarist.yaml`` as text: distinguished from manifests, and parsed with positions.

``cli.project`` finds the file and calls ``parse_project_file``. ``loader`` calls ``is_project_file``, because a folder
of manifests may hold the project file too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from msgspec import Struct

from topiarist.adapters.manifests.source import Document, File
from topiarist.errors import Diagnostic, InvalidManifests, Location
from topiarist.schema.check import check_project

PROJECT_FILE = "topiarist.yaml"

_API_VERSION = re.compile(rb"^(?:\xef\xbb\xbf)?(?:---)?[ \t{]*[\"']?apiVersion[\"']?[ \t]*:", re.MULTILINE)
"""The start of a Kubernetes document; a project file has no such field."""


class ProjectFile(Struct, frozen=True):
    """The fields of a project file, and the document that locates them; an empty file has neither."""

    name: str
    fields: Mapping[str, Any]
    document: Document | None

    def locate(self, *path: str | int) -> Location:
        """Return the location of a field, or of an item of its list."""
        return self.document.locate(path) if self.document else Location(self.name)


def is_project_file(file: File) -> bool:
    """Return whether a file is a project file: it has the name of one, and no field ``apiVersion``.

    A Kubernetes document in a file of this name is read as any other: no manifest is left out because of its name.
    """
    if not file.name.endswith(PROJECT_FILE):  # most files; a path costs time for each of thousands
        return False
    return PurePath(file.name).name == PROJECT_FILE and not _API_VERSION.search(file.data)


def parse_project_file(file: File) -> ProjectFile:
    """Return the content of a project file; raise ``InvalidManifests`` with every error."""
    from topiarist.adapters.manifests.diagnose import diagnose_documents

    errors: list[Diagnostic] = []
    suppressed_count = 0
    found = ProjectFile(file.name, {}, None)
    for part in diagnose_documents(file):
        if isinstance(part, Diagnostic):
            errors.append(part)
            continue
        if part.body is None and not part.issues:
            continue
        suppressed_count += part.suppressed_count
        errors += [issue.diagnostic for issue in part.issues]
        if found.document is not None:
            message = "found a second document, wanted one"
            errors.append(Diagnostic(part.source.locate(), message, "merge it into the first one"))
        elif not isinstance(part.body, dict):
            hint = "write fields, such as manifests: [topics]"
            errors.append(Diagnostic(part.source.locate(), "found a list or text, wanted a mapping", hint))
        elif not part.issues:
            errors += [
                Diagnostic(part.source.locate(error.path), error.message, error.hint)
                for error in check_project(part.body)
            ]
        found = ProjectFile(file.name, part.body, part.source)
    if errors:
        raise InvalidManifests(errors, suppressed_count)
    return found
