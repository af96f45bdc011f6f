"""Requests by HTTP to addresses that may hold secrets: one deadline, no redirects, and no secret in a message.

``adapters.kafka_admin.connection.token_endpoint`` asks for tokens by it, ``drift.outputs.routing`` sends findings.
"""

from __future__ import annotations

import base64
import ssl
import time
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import SplitResult, urlsplit

from topiarist.adapters.tls import run_with_deadline

MAX_ANSWER_BYTES = 1 << 20
"""Maximum size of an answer in bytes; the rest is not read."""

_TOO_LATE = "no answer in time"


class NoAnswer(Exception):
    """The server gave no answer by HTTP; the text says why."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def split_address(text: str) -> SplitResult | None:
    """Return the parts of an address of HTTP or HTTPS, which has a host and a possible port; None for other text."""
    try:
        parts = urlsplit(text)
        # Other characters are percent-encoded in an address, or the request cannot be written.
        is_encoded = text.isprintable() and " " not in text and f"{parts.path}{parts.query}".isascii()
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and is_encoded
    except ValueError:
        return None
    return parts if is_address else None


def authorize(user: str, password: str) -> dict[str, str]:
    """Return the header of a login by Basic authentication (RFC 7617)."""
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


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
        return run_with_deadline(ask, deadline, _TOO_LATE)
    except urllib.error.HTTPError:
        raise
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        if isinstance(why, TimeoutError):  # the socket's own, which may end before the deadline is seen
            raise NoAnswer(_TOO_LATE) from None
        why = getattr(why, "verify_message", None) or getattr(why, "strerror", None) or why
        raise NoAnswer(str(why)) from None
    except Exception as error:  # http.client's exceptions for what is no HTTP
        raise NoAnswer(f"it does not answer with HTTP ({type(error).__name__})") from None
