"""The public names of ``topiarist.api``: a change of a signature or a field shows in a committed file."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from msgspec import Struct

from topiarist import api

COMMITTED = Path(__file__).with_name("interface.txt")


def _describe(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, type):
        yield f"class {name}({', '.join(base.__name__ for base in value.__bases__)})"
        yield from (f"    {line}" for line in _describe_members(value))
    elif callable(value):
        yield f"def {name}{inspect.signature(value)}"
    else:
        yield f"{name} = {value!r}"


def _describe_members(kind: type) -> Iterator[str]:
    if issubclass(kind, Enum):
        yield from (f"{member.name} = {member.value!r}" for member in kind)
    elif issubclass(kind, Struct):
        annotations = {name: kind for base in kind.__mro__ for name, kind in inspect.get_annotations(base).items()}
        for each in inspect.signature(kind).parameters.values():
            default = "..." if repr(each.default) == "<factory>" else repr(each.default)
            yield f"{each.name}: {annotations[each.name]}" + ("" if each.default is each.empty else f" = {default}")
    else:
        yield from (f"{each}: {inspect.get_annotations(kind)[each]}" for each in getattr(kind, "_fields", ()))
    for name, member in sorted(vars(kind).items()):
        if isinstance(member, property):
            assert member.fget
            yield f"{name} -> {inspect.signature(member.fget).return_annotation}"
        elif inspect.isfunction(member) and (
            not name.startswith("_") or (name == "__init__" and not issubclass(kind, Struct))
        ):
            yield f"def {name}{inspect.signature(member)}"


def test_the_public_signatures_are_the_committed_ones() -> None:
    """``make golden`` writes the file anew; docs/python.md says which changes raise the version."""
    lines = [line for name in api.__all__ for line in _describe(name, getattr(api, name))]
    # Addresses differ from run to run, and Python's releases show annotations of tuples differently.
    found = re.sub(r" at 0x[0-9a-f]+>|ForwardRef\('([^']*)'\)", r"\1", "\n".join(lines)) + "\n"
    if os.environ.get("TOPIARIST_GOLDEN") == "write":
        COMMITTED.write_text(found)
    assert found == COMMITTED.read_text(), "the public interface has changed: see docs/python.md, Versions"


def test_every_public_name_has_a_docstring() -> None:
    """Classes and functions, with the methods of classes."""
    named = [(name, getattr(api, name)) for name in api.__all__ if name != "PLAN_FORMAT_VERSION"]
    assert [name for name, value in named if not inspect.getdoc(value)] == []
    methods = [
        (f"{name}.{each}", member)
        for name, value in named
        if isinstance(value, type) and value.__module__.startswith(("topiarist.api", "topiarist.runs"))
        for each, member in vars(value).items()
        if not each.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    ]
    assert [name for name, member in methods if not inspect.getdoc(member)] == []


def test_the_import_brings_neither_spark_nor_kubernetes_nor_a_terminal() -> None:
    """A scheduler imports the module in each worker: no extra, no click, no handler of signals, no logging."""
    program = """
import logging, signal, sys
before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
import topiarist.api
unwanted = ("pyspark", "py4j", "kopf", "kubernetes", "aiohttp", "click", "kafka", "cel_expr_python", "pyarrow",
            "topiarist.cli", "topiarist.kubernetes", "topiarist.drift", "prometheus_client")
print([name for name in unwanted if name in sys.modules])
print(before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)], logging.root.handlers)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (said.stdout, said.stderr) == ("[]\nTrue []\n", "")
