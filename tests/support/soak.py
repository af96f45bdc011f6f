"""Whether this run is a soak run (``make soak``), which has more seeds, requests and releases."""

from __future__ import annotations

import os

SOAK = bool(os.environ.get("TOPIARIST_SOAK"))
