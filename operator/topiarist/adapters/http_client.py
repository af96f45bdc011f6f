"""Requests by HTTP to addresses that may hold secrets: one deadline, no redirects, and no secret in a message.

``adapters.kafka_admin.connection.token_endpoint`` asks for tokens by it, ``drift.outputs.routing`` sends findings.
"""

from __future__ import annotations

import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar

MAX_ANSWER_BYTES = 1 << 20
"""Maximum size of an answer in bytes; the rest is not read."""


_Value = TypeVar("_Value")


def run_with_deadline(work: Callable[[], _Value], deadline: float, late: str) -> _Value:
    """Return what ``work`` returns, or raise what it raises; raise ``TimeoutError`` after the deadline.

    Late work goes on in its thread: a name lookup, for example, cannot be stopped.
    """
    results: list[_Value] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # raised in the thread of the caller
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True, name="topiarist-deadline")
    thread.start()
    thread.join(max(deadline - time.monotonic(), 0))
    if results:
        return results[0]
    if errors:
        raise errors[0]
    raise TimeoutError(late)


class NoAnswer(Exception):
    """The server gave no answer by HTTP; the text says why."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def build_opener(context: ssl.SSLContext | None, *, use_proxies: bool = True) -> urllib.request.OpenerDirector:
    """Return an opener that follows no redirect; ``context`` is that of HTTPS, None for Python's own."""
    handlers: list[Any] = [urllib.request.HTTPSHandler(context=context)] if context else []
    handlers += [] if use_proxies else [urllib.request.ProxyHandler({})]
    return urllib.request.build_opener(_NoRedirect, *handlers)


def exchange(opener: urllib.request.OpenerDirector, request: urllib.request.Request, deadline: float) -> bytes:
    """Send a request, and return the answer, at most one byte more than ``MAX_ANSWER_BYTES``.

    ``deadline`` is a time of ``time.monotonic``. Raises ``NoAnswer``, and ``urllib.error.HTTPError`` for a refusal: the
    caller closes it.
    """

    def ask() -> bytes:
        timeout = max(deadline - time.monotonic(), 0.001)
        with opener.open(request, timeout=timeout) as response:
            return bytes(response.read(MAX_ANSWER_BYTES + 1))

    try:
        return run_with_deadline(ask, deadline, "no answer in time")
    except urllib.error.HTTPError:
        raise
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        why = getattr(why, "verify_message", None) or getattr(why, "strerror", None) or why
        raise NoAnswer(str(why)) from None
    except Exception as error:  # http.client's exceptions for what is no HTTP
        raise NoAnswer(f"it does not answer with HTTP ({type(error).__name__})") from None
