"""Text for messages: untrusted text on one line without control characters, and numbers with units.

All packages use it for messages. Quoted text has the style of YAML and JSON, so that users can paste it into a
manifest. Durations and sizes are in units for people: ``604800000`` ms is ``7 days``, ``1073741824`` bytes is
``1 GiB``. A value that is not a multiple of its unit is rounded to one decimal and marked with ``~``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

TEMPLATE_MARKER = re.compile(r"\{\{|\{%|<%|%\{|\$\{|\$\(|\$(?=[A-Za-z_])")
"""The start of an expression that a renderer replaces: Helm, Jinja, Handlebars, ERB, Terraform, a shell."""

LOOKS_LIKE_TEMPLATE = "this looks like a template"
RENDER_HINT = "render it first (helm template, jikkou, envsubst, terraform)"


def template_reason(text: str) -> str:
    """Return why a text is not read if it has a marker of a template; else empty text."""
    found = TEMPLATE_MARKER.search(text)
    return f"{LOOKS_LIKE_TEMPLATE} ({found[0]}): {RENDER_HINT}" if found else ""


_LOOKALIKE = re.compile("[\u00a0\u1680\u2000-\u200d\u202f\u205f\u2060\u3000\uff1a]")


def find_lookalike(text: str) -> tuple[int, str] | None:
    """Return index and description of the first character that looks like a space or a colon; None without one."""
    found = _LOOKALIKE.search(text)
    if found is None:
        return None
    name = "a non-breaking space" if found[0] in "\u00a0\u202f" else "a character that looks like a space"
    name = "a character that looks like a colon" if found[0] == "\uff1a" else name
    return found.start(), f"{name} (U+{ord(found[0]):04X})"


def printable(text: str, max_length: int = 60) -> str:
    """Return untrusted text for a message: on one line, cut to ``max_length`` characters, without control characters.

    Unprintable characters are escaped, so that no manifest can move a terminal's cursor or begin a new line.
    """
    return sanitize(text if len(text) <= max_length else f"{text[: max_length - 3]}...")


def sanitize(text: str) -> str:
    r"""Return ``text`` with every non-printable character escaped.

    These are control characters, ANSI sequences, direction marks and surrogates. The escapes are those of Python and
    JSON: ``\x1b``, ``\u202e``.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


_MAX_PATH_LENGTH = 4096
"""Characters of a path in a message: more than Linux allows."""


def printable_path(path: object) -> str:
    """Return a path or URI as printable text for messages."""
    return printable(str(path), _MAX_PATH_LENGTH)


def quote(text: str) -> str:
    """Return the ``printable`` text in double quotes, as YAML writes it."""
    return '"' + printable(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def escape(text: str) -> str:
    """Return text as ``quote`` does, with all characters escaped that are not ASCII.

    For text with characters that look like other characters.
    """
    import json  # not above: most runs need neither this text nor JSON

    return json.dumps(text if len(text) <= 60 else f"{text[:57]}...")


def shorten_list(items: Sequence[object], most: int = 20) -> str:
    """Return numbers or names as a list for a message: the first ``most``, then ``...`` if there are more."""
    return ", ".join(map(str, items[:most])) + (", ..." if len(items) > most else "")


def list_first(
    items: Sequence[object], most: int = 10, noun: str = "", *, total: int | None = None, separator: str = ", "
) -> str:
    """Return the first ``most`` items as a list for a message, and how many more there are: ``a, b and 3 more``.

    With a ``noun`` such as ``other topic`` the rest is ``3 other topics``. ``total`` is the number of all items if
    there are only the first ones in ``items``.
    """
    left = (len(items) if total is None else total) - most
    rest = format_count(left, noun) if noun else f"{left:,} more"
    return separator.join(map(str, items[:most])) + (f" and {rest}" if left > 0 else "")


_DURATION_UNITS = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second"))
_SIZE_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def humanize_duration(ms: int) -> str:
    """Return milliseconds in units for people: ``7 days``, ``~1.5 hours``, ``250 ms``."""
    for unit, name in _DURATION_UNITS:
        if ms >= unit:
            amount, exact = _format_amount(ms, unit)
            return f"{exact}{amount} {name}{'' if amount == '1' else 's'}"
    return f"{ms} ms"


def humanize_bytes(number: int) -> str:
    """Return bytes in units for people: ``1 GiB``, ``~1.4 MiB``, ``512 bytes``."""
    for unit, name in _SIZE_UNITS:
        if number >= unit:
            amount, exact = _format_amount(number, unit)
            return f"{exact}{amount} {name}"
    return format_count(number, "byte")


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 topic``, ``812 topics``, ``12,000 partitions``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def to_camel_case(name: str) -> str:
    """Return a name with underscores as a field of a document: ``topic_ids`` as ``topicIds``."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def split_words(name: str) -> str:
    """Return the words of a CamelCase name: ``ExistingProblem`` as ``existing problem``."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()


def _format_amount(value: int, unit: int) -> tuple[str, str]:
    if value % unit == 0:
        return f"{value // unit:,}", ""
    return f"{value / unit:,.1f}".removesuffix(".0"), "~"
