"""Archives of the classes that a Kafka broker loads: with them a broker starts with 60 % of the processor time.

``tools/kafka_jars.py`` makes the archive of a release once, beside its jars. The servers and tools of the tests use it
if it is there; a JVM that cannot use it (another build of Java, other jars) ignores it and loads the classes from the
jars. The programs that benchmarks compare with run without it, as users start them.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

from support.kafka.cluster import Cluster
from support.kafka.jars import class_archive, fetch_jars
from support.kafka.kraft import KraftCluster
from support.kafka.zookeeper import ZooKeeper

_BROKER = 1


def make_class_archive(release: str) -> Path:
    """Return the archive of a release; a broker that starts and stops writes it if it does not exist."""
    archive = class_archive(fetch_jars(release))
    if archive.exists():
        return archive
    with tempfile.TemporaryDirectory(prefix="archiving-", dir=archive.parent) as folder, ExitStack() as stack:
        written = Path(folder, archive.name)
        kafka = _start(release, stack)
        kafka.stop(_BROKER)
        kafka.nodes[_BROKER].add_option(f"-XX:ArchiveClassesAtExit={written}")
        kafka.start(_BROKER)
        kafka.stop(_BROKER)
        written.replace(archive)
    return archive


def _start(release: str, stack: ExitStack) -> Cluster | KraftCluster:
    if release >= "4":
        return stack.enter_context(KraftCluster(release, {_BROKER: None}))
    return stack.enter_context(Cluster(stack.enter_context(ZooKeeper(release)), release, {_BROKER: None}))
