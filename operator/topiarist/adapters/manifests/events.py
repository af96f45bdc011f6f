"""libyaml's events, the only thing we take from PyYAML for reading: no objects are made, nothing is resolved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from yaml import CBaseLoader


def events(text: str | bytes) -> Callable[[], Any]:
    """A function that gives the next event of a text at each call; it raises ``yaml.YAMLError`` where there is none."""
    following: Callable[[], Any] = CBaseLoader(text).get_event
    return following
