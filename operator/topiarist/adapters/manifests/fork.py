"""A forked process that parses files while this process parses others.

To parse ten thousand files takes half of a plan's time, and a second processor does half of that. ``loader`` calls
``start_parsing`` for many files, and parses by itself what the process does not return: files with a document that is
not valid, since its errors need more than the result, and all files if the process fails in any way.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from topiarist.adapters.manifests.parser import NeedsDiagnosis, StrictParser
from topiarist.adapters.manifests.source import Document, File
from topiarist.schema import check
from topiarist.schema.load import build_validator

MIN_FILES = 1000
"""Fewer files are parsed in less time than a fork and the transfer of the result save."""

ParsedFile = Sequence[tuple[Any, Document]]
"""The documents of a file, each valid: content and source."""

_Transferred = Sequence[tuple[Any, int, int, int]]
"""The same, without the file: content, start, end and line."""


def start_parsing(files: Sequence[File]) -> Callable[[], Sequence[ParsedFile | None]] | None:
    """Parse files in a forked process; return a function that waits for the documents of each file.

    The function returns None for a file that must be parsed again, for all if the process failed. Returns None if a
    fork gains nothing (few files, one processor) or is not safe (other threads, another system than Linux).
    """
    if len(files) < MIN_FILES or sys.platform != "linux" or threading.active_count() > 1:
        return None
    if len(os.sched_getaffinity(0)) < 2:
        return None
    build_validator("Topic")  # once, before the fork
    reading, writing = os.pipe()
    # An interrupt between the fork and the child's own handling would make the child continue as the command.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process = os.fork()
        if process == 0:
            _run_child(files, writing, mask)
    except OSError:  # a limit of processes or of memory
        os.close(reading)
        return None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(writing)

    def collect() -> Sequence[ParsedFile | None]:
        with os.fdopen(reading, "rb") as pipe:
            raw = pipe.read()
        try:
            is_complete = os.waitpid(process, 0)[1] == 0
        except ChildProcessError:  # SIGCHLD is ignored, so that no process keeps its status
            is_complete = False
        if not is_complete:
            return [None] * len(files)
        parsed: Sequence[_Transferred | None] = pickle.loads(raw)
        return [
            None if documents is None else [(body, Document(file, *place)) for body, *place in documents]
            for file, documents in zip(files, parsed, strict=True)
        ]

    return collect


def _run_child(files: Sequence[File], writing: int, mask: Iterable[int]) -> NoReturn:
    """Write the parsed files to the pipe, and end the process without what the other one does at its end."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        parser = StrictParser()
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump([_parse_valid(parser, file) for file in files], pipe, pickle.HIGHEST_PROTOCOL)
        status = 0
    finally:
        os._exit(status)


def _parse_valid(parser: StrictParser, file: File) -> _Transferred | None:
    """Return the documents of a file; None unless all are valid documents of topiarist."""
    documents = []
    try:
        for body, source in parser.parse_documents(file):
            if type(body) is not dict or not check.is_valid(body):
                return None
            documents.append((body, source.start, source.end, source.line))
    except NeedsDiagnosis:
        return None
    return documents or None
