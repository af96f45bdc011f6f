"""Exceptions of a JVM as py4j raises them, without a JVM."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]


class Throwable:
    """A Java exception with the methods that topiarist calls."""

    def __init__(self, name: str, message: str | None, cause: Throwable | None = None) -> None:
        self._name, self._message, self._cause = name, message, cause

    def getClass(self) -> Throwable:  # noqa: N802
        """Return this object, which also answers the calls to its class."""
        return self

    def getSimpleName(self) -> str:  # noqa: N802
        """Return the name of the class."""
        return self._name

    def getMessage(self) -> str | None:  # noqa: N802
        """Return the message."""
        return self._message

    def getCause(self) -> Throwable | None:  # noqa: N802
        """Return the cause."""
        return self._cause


class JavaError(Py4JJavaError):  # type: ignore[misc]
    """A py4j error for a Java exception, without a JVM."""

    def __init__(self, name: str, message: str | None, cause: Throwable | None = None) -> None:
        self.java_exception: Any = Throwable(name, message, cause)

    def __str__(self) -> str:
        raise AssertionError("this would ask the JVM for its stack")
