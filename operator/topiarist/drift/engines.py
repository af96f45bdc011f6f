"""From when on Spark is worth its start, and whether it can be started here; nothing of it is imported."""

from __future__ import annotations

import importlib.util

from topiarist.adapters.embedded import find_java
from topiarist.errors import Reason, TopiaristError

ENOUGH = 200_000
"""Rows of snapshots from which on Spark is worth its start."""

_INSTEAD = "or compare in this process, which takes longer: --engine python"


def require_spark() -> None:
    """Raise ``TopiaristError`` (PrerequisiteMissing) if PySpark or Java is missing."""
    if importlib.util.find_spec("pyspark") is None:
        message = "PySpark is needed to compare by Spark: pip install 'topiarist[drift]'"
        raise TopiaristError(Reason.PREREQUISITE_MISSING, message, _INSTEAD)
    try:
        find_java("compare by Spark")
    except TopiaristError as error:
        raise TopiaristError(error.reason, str(error.args[0]), _INSTEAD) from error
