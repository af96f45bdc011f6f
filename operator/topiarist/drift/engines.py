"""From when on Spark is worth its start, and whether it can be started here; nothing of it is imported."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable

from topiarist import extras
from topiarist.adapters.embedded import find_java
from topiarist.core.values import shown
from topiarist.drift.places import FAR, beyond_us, remote
from topiarist.errors import Reason, TopiaristError

ENOUGH = 10_000_000
"""Topics for which Spark is started where nobody asks: on one machine, one process is quicker (docs/drift.md)."""

PYTHON, SPARK, AUTO = "python", "spark", "auto"

_INSTEAD = "or compare in this process: --engine python"


def submitted() -> bool:
    """Whether ``spark-submit`` has started this process: then there is a JVM, and a master has been chosen."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def by_spark(engine: str, snapshots: Iterable[str], others: Iterable[str]) -> bool:
    """Whether Spark is needed, or wanted, whatever the size of the fleet; ``others`` are where reports are.

    Raises ``TopiaristError``: WrongUsage if only Spark could do it and is not to, PrerequisiteMissing without it.
    """
    reasons = [*((path, beyond_us(path)) for path in snapshots), *((path, FAR) for path in others if remote(path))]
    path, why = next(((path, why) for path, why in reasons if why), ("", ""))
    if engine == PYTHON and why:
        message = f"{shown(path, 4096)} {why}: only Spark can read and write there, and --engine python is without it"
        raise TopiaristError(Reason.WRONG_USAGE, message, "leave --engine out, or name files and folders of JSON lines")
    chosen = engine == SPARK or (engine == AUTO and (bool(why) or submitted()))
    if chosen:
        require_spark("" if why else _INSTEAD)
    return chosen


def require_spark(instead: str = _INSTEAD) -> None:
    """Raise ``TopiaristError`` (PrerequisiteMissing) if PySpark or Java is missing; ``instead`` is the way without."""
    if submitted():
        return
    if importlib.util.find_spec("pyspark") is None:
        raise extras.missing("drift", "comparing by Spark", instead)
    try:
        find_java("compare by Spark")
    except TopiaristError as error:
        raise TopiaristError(error.reason, str(error.args[0]), instead) from error
