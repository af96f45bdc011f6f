"""Errors for missing optional packages, with the ``pip`` command that installs them.

Only some commands need these packages. topiarist is installed from a checkout or a wheel and is on no package registry:
``pip install 'topiarist[EXTRA]'`` would find nothing, or an unrelated package of the same name. The optional packages
are on a registry, so the error names their requirements, taken from the metadata of the installed project.
"""

from __future__ import annotations

import re

from topiarist.errors import Reason, TopiaristError

_REQUIREMENT = re.compile(r"""([A-Za-z0-9._-]+)([^;]*);.*\bextra\s*==\s*['"]([^'"]+)['"]""")


def missing_packages_error(extra: str, feature: str, hint: str = "") -> TopiaristError:
    """Return the error for ``feature``, which needs an extra with packages that are not all installed."""
    needed = read_requirements(extra)
    absent = [requirement for name, requirement in needed.items() if not _is_installed(name)] or [*needed.values()]
    command = " ".join(f"'{requirement}'" for requirement in absent)
    remedy = f"pip install {command}" if command else f"install topiarist with its extra {extra}"
    return TopiaristError(
        Reason.PREREQUISITE_MISSING, f"{feature} needs packages that are not installed: {remedy} (extra {extra})", hint
    )


def read_requirements(extra: str) -> dict[str, str]:
    """Return the requirements of an extra by package; empty if the project is not installed but only unpacked."""
    from importlib import metadata  # not above: it imports email and zipfile, which no plan needs

    try:
        lines = metadata.requires("topiarist") or []
    except metadata.PackageNotFoundError:
        return {}
    matches = filter(None, map(_REQUIREMENT.match, lines))
    return {match[1]: f"{match[1]}{match[2].strip()}" for match in matches if match[3] == extra}


def _is_installed(name: str) -> bool:
    from importlib import metadata

    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
