"""How much a manifest may be: limits that hold before memory or time is spent on a hostile or mistaken file."""

from __future__ import annotations

MAX_BYTES = 16 * 1024 * 1024
"""Size of one file or of standard input, in bytes: some 35,000 topics."""

MAX_FILES = 250_000
"""Files in one run."""

MAX_FOLDER_DEPTH = 64
"""Depth of folders below a given path; each level holds one open file descriptor while it is read."""

MAX_PEEKS = 1000
"""JSON files of a run that are opened to find out whether they are manifests."""

MAX_NAME_LENGTH = 4096
"""Characters of a file's name that are shown: more than Linux allows."""

MAX_DEPTH = 32
"""Depth of lists and mappings in a document of ours."""

MAX_FOREIGN_DEPTH = 200
"""Depth in any document of a file that we read: libyaml takes quadratic time beyond (200 kB of brackets: 40 s)."""

MAX_ENTRIES = 250_000
"""List items and mapping keys in one document: a topic of 40,000 partitions with five replicas still fits."""

MAX_TAG_DIRECTIVES = 100
"""%TAG directives in one file: libyaml compares each with all before it, and each tag with all of them."""

MAX_ERRORS = 100
"""Complaints kept for one file; of the others, at least each document that is wrong is counted."""

MAX_GUESSES = 100
"""Unknown config keys of one file for which, in documents that are wrong anyway, a known one is looked for."""
