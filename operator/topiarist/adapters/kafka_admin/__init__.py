"""The ports of ``topiarist.ports`` through Kafka's own protocol: KRaft mode, and ZooKeeper mode from 2.8 on."""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from typing import Any


def _defer_clients() -> None:
    """Register the package ``kafka`` without its clients, which take as long to import as a whole plan.

    Only the modules of its protocol are used here. Other code of this process may use any attribute of ``kafka``:
    the package is completed at that moment.
    """
    if "kafka" in sys.modules or (spec := find_spec("kafka")) is None:
        return
    package = module_from_spec(spec)

    def complete(name: str) -> Any:
        del package.__dict__["__getattr__"]
        assert spec.loader
        spec.loader.exec_module(package)
        return getattr(package, name)

    package.__dict__["__getattr__"] = complete
    sys.modules["kafka"] = package


_defer_clients()
