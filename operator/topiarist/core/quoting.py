"""How a message shows text from outside: on one line, not too long, nothing that a terminal obeys, in double quotes.

One style for all messages, that of YAML and JSON, so that what is shown can be pasted. ``values`` is the door to it for
whoever is not ``core``.
"""

from __future__ import annotations

import json


def shown(text: str, most: int = 60) -> str:
    """Text from outside as a message may have it: on one line, cut after ``most`` characters, nothing unprintable.

    What cannot be printed is escaped, so that no manifest moves a terminal's cursor or begins a line of its own.
    """
    cut = text if len(text) <= most else f"{text[: most - 3]}..."
    if cut.isprintable():
        return cut
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


def quoted(text: str) -> str:
    """``shown`` in double quotes, as YAML would have it."""
    return '"' + shown(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def escaped(text: str) -> str:
    """``quoted``, with everything escaped that is not ASCII: for text that may look like what it is not."""
    return json.dumps(text if len(text) <= 60 else f"{text[:57]}...")
