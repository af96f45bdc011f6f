"""Do the same again in one process, for each line of its input, and print the seconds of each time.

Usage: ``python -m benchmarks.kafka.again run WORD...``, a command line of topiarist, without its output;
``python -m benchmarks.kafka.again pass BOOTSTRAP FOLDER``, what the operator does in a pass: it has the specs of the
manifests in memory and a session that stays open, reads the cluster and makes the plan, which must be empty; or
``python -m benchmarks.kafka.again floor BOOTSTRAP``, the requests for configs that a pass sends alone: their
answers are not decoded.
"""

from __future__ import annotations

import gc
import io
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout

from topiarist.adapters.kafka_admin.connection.connection import Connection
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read.configs import build_describe_configs, read_in_parallel, split_names
from topiarist.adapters.open_cluster import open_cluster
from topiarist.cli.main import run
from topiarist.model.access import KafkaAccess
from topiarist.model.plan import RunOptions
from topiarist.reconcile import read_and_plan
from topiarist.runs.inputs import load_manifests
from topiarist.runs.settings import RunSettings


def run_command(words: list[str]) -> None:
    """Run a command line; end with its errors if it fails."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as errors:
        code = run(words)
    if code:
        sys.exit(errors.getvalue())


def make_pass(bootstrap: str, folder: str) -> Callable[[], None]:
    """Return the pass over a cluster; it ends the process if there is something to do."""
    desired = load_manifests(RunSettings(paths=(folder,), bootstrap_servers=bootstrap)).desired
    ((name, spec),) = desired.clusters.items()
    cluster = open_cluster(spec, owner="benchmark").enable_decode_cache()

    def run_pass() -> None:
        if read_and_plan(cluster, spec, desired.specs[name], RunOptions()).has_changes:
            sys.exit("found something to do")

    return run_pass


def make_floor(bootstrap: str) -> Callable[[], None]:
    """Return the requests for the configs of all topics, over as many connections as a read uses."""
    session = Session(KafkaAccess(bootstrap), 10.0)
    connection = session.any_broker()
    names = [each.name for each in session.read_metadata().topics if not each.is_internal]

    def send(reader: Connection, batch: Sequence[str]) -> None:
        request = build_describe_configs(names=batch, keys=None)
        reader.call_raw(request, reader.version_of(request))

    def ask() -> None:
        read_in_parallel(connection, [*split_names(names)], send, lambda: session.lend_another(connection))

    return ask


WORKS: Mapping[str, Callable[..., Callable[[], None]]] = {
    "run": lambda *words: lambda: run_command([*words]),
    "pass": make_pass,
    "floor": make_floor,
}


def main(kind: str, words: list[str]) -> None:
    """Do it for each line of the input."""
    work = WORKS[kind](*words)
    for _ in sys.stdin:
        gc.collect()
        gc.disable()  # as in a process of its own
        start = time.perf_counter()
        work()
        seconds = time.perf_counter() - start
        gc.enable()
        print(seconds, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
