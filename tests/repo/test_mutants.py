"""The mutation check covers functions that exist, and declares only mutants of them equivalent."""

from __future__ import annotations

from mutation.run import list_mutants, load_settings


def test_the_mutation_check_has_no_outdated_names() -> None:
    """A function that was renamed or moved would otherwise be noticed only by the next check, which takes hours."""
    targets, equivalent = load_settings()
    names = {mutant.name for mutant in list_mutants(targets)}
    assert equivalent.keys() <= names
    assert len(names) > 1000
