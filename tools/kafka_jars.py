"""Downloader of the Kafka jars for the tests, with their class archives, and compiler of the test programs in Java.

Usage: ``python tools/kafka_jars.py 3.9.2 2.8.2`` downloads what is missing, ``python tools/kafka_jars.py --pin 3.9.2``
records the checksums of the downloaded jars. Without a release: all releases.
"""

from __future__ import annotations

import sys

from support.kafka.class_archives import make_class_archive
from support.kafka.jars import RELEASES, JarsError, fetch_jars, pin
from support.kafka.programs import compile_programs


def main(arguments: list[str]) -> int:
    """Download or pin the jars; return the exit code."""
    pins = arguments[:1] == ["--pin"]
    releases = arguments[1:] if pins else arguments
    if any(release not in RELEASES for release in releases):
        print(f"{__doc__}\nReleases: {', '.join(RELEASES)}", file=sys.stderr)
        return 2
    try:
        for release in releases or RELEASES:
            print(f"Kafka {release}: {pin(release)} jars pinned" if pins else f"Kafka {release}: {fetch_jars(release)}")
            if not pins:
                make_class_archive(release)
        if not pins:
            print(f"Java programs of the tests: {compile_programs()}")
    except JarsError as error:
        print(f"{error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
