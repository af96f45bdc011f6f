"""A writer over real brokers, with records in memory.

The state for plans is read by code that shares nothing with topiarist's own reader. It waits until its broker serves
the metadata that the controller has committed.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from support.kafka.write_bench import Bench
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.protocol.messages import DescribeConfigsRequest, DescribeQuorumRequest
from topiarist.adapters.kafka_admin.read.topic_reader import Look, TopicReader
from topiarist.adapters.kafka_admin.write.dry_run import ask_brokers
from topiarist.kafka.types import Broker
from topiarist.model.access import KafkaAccess
from topiarist.model.plan import Issue, Plan
from topiarist.model.state import ClusterState, TopicState

SYNC_TIMEOUT_S = 60.0


class LiveBench(Bench):
    """A bench with real brokers."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self.live = Session(KafkaAccess(bootstrap), 10.0)
        self.session: Any = self.live

    def _topic(self, name: str) -> TopicState | None:
        return self._read([name])[0].get(name)

    def look(self, names: Collection[str]) -> Look:
        """Return these topics as the controller has committed them."""
        self.looks += 1
        self.before_look(self.looks)
        return TopicReader(self.live).look(names)

    def look_again(
        self, ids: Mapping[str, str | None], *, lists_reassignments: bool = True, is_proven: bool = True
    ) -> Look:
        """Return the same of topics that had these ids."""
        self.looks += 1
        self.before_look(self.looks)
        return TopicReader(self.live).look_again(ids, lists_reassignments=lists_reassignments, is_proven=is_proven)

    def state(self) -> ClusterState:
        """Return all topics but internal ones, with their records."""
        topics, brokers = self._read(None)
        owned = {}
        for name, topic in topics.items():
            record = self.records.topics.get(name)
            is_valid = record is not None and record.topic_id == topic.topic_id
            owned[name] = replace(topic, record=record.record if record else None, record_valid=is_valid)
        return ClusterState("ID", tuple(brokers[each] for each in sorted(brokers)), owned)

    def ask_brokers(self, plan: Plan) -> Mapping[str, Sequence[Issue]]:
        """Ask the brokers about a plan."""
        return ask_brokers(self.session, plan)

    @property
    def writes(self) -> dict[str, int]:
        """Return the number of Admin requests that write, by name."""
        kinds = ("CreateTopics", "CreatePartitions", "IncrementalAlterConfigs", "DeleteTopics")
        return {name: count for (name, _), count in self.live.requests.items() if name in kinds}

    def close(self) -> None:
        """Close the connections."""
        self.live.close()

    def _sync(self) -> None:
        partition = DescribeQuorumRequest.TopicData.PartitionData(partition_index=0)
        topic = DescribeQuorumRequest.TopicData(topic_name="__cluster_metadata", partitions=[partition])
        broker = self.live.any_broker()
        answer = broker.call(DescribeQuorumRequest(topics=[topic]))
        high_watermark = answer.topics[0].partitions[0].high_watermark
        deadline = time.monotonic() + SYNC_TIMEOUT_S
        while broker.read_versions().finalized_features_epoch < high_watermark - 1:
            assert time.monotonic() < deadline, "the broker stays behind the controller"
            time.sleep(0.01)

    def _read(self, names: Sequence[str] | None) -> tuple[dict[str, TopicState], dict[int, Broker]]:
        self._sync()
        answer = self.live.read_metadata(names)
        found = [each for each in answer.topics if not each.error_code and not each.name.startswith("__")]
        configs = self._read_configs([each.name for each in found])
        topics = {}
        for each in found:
            partitions = sorted(each.partitions, key=lambda partition: partition.partition_index)
            topic_id = urlsafe_b64encode(each.topic_id.bytes).decode().rstrip("=")
            identity: dict[str, Any] = {"identity": topic_id}
            topics[each.name] = TopicState(
                each.name,
                replicas=tuple(tuple(partition.replica_nodes) for partition in partitions),
                config=configs[each.name],
                topic_id=topic_id,
                **identity,
            )
        return topics, {each.node_id: Broker(each.node_id, each.rack) for each in answer.brokers}

    def _read_configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        if not names:
            return {}
        resource = DescribeConfigsRequest.DescribeConfigsResource
        request = DescribeConfigsRequest(
            resources=[resource(resource_type=2, resource_name=name, configuration_keys=None) for name in names],
            include_synonyms=False,
            include_documentation=False,
        )
        answer = self.live.any_broker().call(request)
        return {
            each.resource_name: {config.name: config.value for config in each.configs if config.config_source == 1}
            for each in answer.results
        }
