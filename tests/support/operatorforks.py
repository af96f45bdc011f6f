"""Operators to be killed, each forked from a process that has loaded all of one: they begin in no time."""

from __future__ import annotations

import multiprocessing
import os
import threading
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from support import forks

PRELOAD = ["topiarist.cli.main", "topiarist.cli.operator", "topiarist.kubernetes.main", "support.operatorforks"]


class OperatorForks:
    """Starts operators; to be ended with what ``forks`` has."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOAD)

    def start(self, kubeconfig: Path, said: Path, *words: str) -> BaseProcess:
        """Begin one with these options, whose log goes to the file ``said``. It ends with us, however we end."""
        process = self._context.Process(target=_run, args=(str(kubeconfig), str(said), words))
        process.start()
        return process


def _run(kubeconfig: str, said: str, words: tuple[str, ...]) -> None:
    """In the new process."""
    os.environ["KUBECONFIG"] = kubeconfig
    os.environ.pop("KUBERNETES_SERVICE_HOST", None)
    threading.Thread(target=_end_with, daemon=True).start()
    forks._run(["operator", "--listen", "127.0.0.1:0", *words], said, None)


def _end_with() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
