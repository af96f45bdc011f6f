"""What is imported of kafka-python: the protocol, and the rest for those who use it in the same process."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import topiarist.adapters.kafka_admin.cluster
print(*(name for name in ("kafka.admin", "kafka.consumer", "kafka.net") if name in sys.modules))
from importlib.metadata import version
import kafka
from kafka import *
print(kafka.__version__ == version("kafka-python"), KafkaConsumer is kafka.KafkaConsumer, kafka.errors.__name__)
try:
    kafka.nothing
except AttributeError as error:
    print(error)
"""


def test_the_clients_are_imported_for_others_only() -> None:
    """The cluster imports no client; a program that uses ``kafka`` itself gets the whole package."""
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["", "True True kafka.errors", "module 'kafka' has no attribute 'nothing'"]
