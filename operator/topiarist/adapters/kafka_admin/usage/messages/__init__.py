"""Requests about groups that kafka-python does not have: classes made from the JSON files of this folder.

The files have the fields of Kafka's protocol, with their types and versions, and no more. Of requests with several
versions the newest one is left out where it adds nothing that is read here.
"""

from __future__ import annotations

from types import new_class
from typing import Any

from kafka.protocol.api_message import ApiMessage


def _load(name: str) -> Any:
    return new_class(name, (ApiMessage,), {"load_json": __name__}, lambda body: body.update(__module__=__name__))


ConsumerGroupDescribeRequest = _load("ConsumerGroupDescribeRequest")
ConsumerGroupDescribeResponse = _load("ConsumerGroupDescribeResponse")
ShareGroupDescribeRequest = _load("ShareGroupDescribeRequest")
ShareGroupDescribeResponse = _load("ShareGroupDescribeResponse")
StreamsGroupDescribeRequest = _load("StreamsGroupDescribeRequest")
StreamsGroupDescribeResponse = _load("StreamsGroupDescribeResponse")
DescribeShareGroupOffsetsRequest = _load("DescribeShareGroupOffsetsRequest")
DescribeShareGroupOffsetsResponse = _load("DescribeShareGroupOffsetsResponse")
