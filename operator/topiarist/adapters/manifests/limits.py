"""Limits of manifests that protect memory and time from a hostile or mistaken file.

The parsers and the file reader check a limit before they spend the memory or the time.
"""

from __future__ import annotations

MAX_BYTES = 16 * 1024 * 1024
"""Bytes of one file or of standard input: some 35,000 topics."""

MAX_FILES = 250_000
"""Files in one run."""

MAX_FOLDER_DEPTH = 64
"""Depth of folders below a given path; each level holds one open file descriptor while it is read."""

MAX_PEEKS = 1000
"""JSON files of a run that are opened to check for a manifest."""

MAX_NAME_LENGTH = 4096
"""Characters of a file name in a message: more than Linux allows."""

MAX_DEPTH = 32
"""Depth of lists and mappings in a topiarist document."""

MAX_FOREIGN_DEPTH = 200
"""Depth in any document: beyond it, libyaml takes quadratic time (200 kB of brackets: 40 s)."""

MAX_FOREIGN_ENTRIES = 1_000_000
"""Values of one document of another tool, with those that aliases repeat."""

MAX_ENTRIES = 250_000
"""List items and mapping keys in one document: a topic of 40,000 partitions with five replicas still fits."""

MAX_TAG_DIRECTIVES = 100
"""%TAG directives in one file: libyaml compares each with all earlier ones, and each tag with all."""

MAX_ERRORS = 100
"""Errors kept for one file; beyond it, each invalid document is counted at least once."""

MAX_GUESSES = 100
"""Unknown config keys in the invalid documents of one file that get a suggestion."""
