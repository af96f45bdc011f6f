"""The main classes of Kafka's scripts, which differ between releases."""

from __future__ import annotations

import zipfile
from functools import cache

from support.kafka.jars import fetch_jars

TOOLS = {
    "kafka-topics": ("org.apache.kafka.tools.TopicCommand", "kafka.admin.TopicCommand"),
    "kafka-configs": ("org.apache.kafka.tools.ConfigCommand", "kafka.admin.ConfigCommand"),
    "kafka-acls": ("org.apache.kafka.tools.AclCommand", "kafka.admin.AclCommand"),
    "kafka-features": ("org.apache.kafka.tools.FeatureCommand", "kafka.admin.FeatureCommand"),
    "kafka-metadata-quorum": ("org.apache.kafka.tools.MetadataQuorumCommand", "kafka.admin.MetadataQuorumCommand"),
    "kafka-reassign-partitions": (
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        "kafka.admin.ReassignPartitionsCommand",
    ),
    "kafka-console-producer": ("org.apache.kafka.tools.ConsoleProducer", "kafka.tools.ConsoleProducer"),
    "kafka-console-consumer": (
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "kafka.tools.ConsoleConsumer",
    ),
    "kafka-storage": ("kafka.tools.StorageTool",),
}
"""By script, newest first."""


@cache
def main_class(release: str, tool: str) -> str:
    """Return the main class of a tool in a release."""
    names: set[str] = set()
    for jar in fetch_jars(release).glob("kafka*.jar"):
        with zipfile.ZipFile(jar) as archive:
            names.update(archive.namelist())
    return next(main for main in TOOLS[tool] if f"{main.replace('.', '/')}.class" in names)
