"""Locations relative to the root of the repository."""

from __future__ import annotations

import pytest

from topiarist.output.view import relative_path


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        ("topics/a.yaml", "topics/a.yaml"),
        ("./topics/../a.yaml", "a.yaml"),
        ("/repo/topics/a.yaml", "topics/a.yaml"),
        ("../other/a.yaml", "../other/a.yaml"),
        ("/repository/a.yaml", "/repository/a.yaml"),
        ("<stdin>", "<stdin>"),
    ],
)
def test_files_are_named_as_git_names_them(file: str, wanted: str) -> None:
    """Files below the working folder have the path that git has."""
    assert relative_path(file, "/repo") == wanted
