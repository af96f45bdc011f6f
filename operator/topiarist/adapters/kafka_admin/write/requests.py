"""The Admin requests for the changes of topic plans.

Replica lists are always explicit. Growth names the total count, so that the controller refuses it if the count is not
that of the plan. Configs name the keys of the plan alone. Deletions name the id of the topic, never its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafka.protocol.admin.configs import IncrementalAlterConfigsRequest
from kafka.protocol.admin.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest

from topiarist.adapters.kafka_admin.connection.connection import Message
from topiarist.adapters.kafka_admin.connection.topic_ids import decode_topic_id
from topiarist.adapters.kafka_admin.read.configs import TOPIC_RESOURCE
from topiarist.model.plan import AddPartitions, ConfigItem, CreateTopic, TopicPlan, UpdateConfig

ADMIN_TIMEOUT_MS = 10_000
"""The time in ms that the brokers are asked to take at most. Without a controller they take up to 60 s all the same."""

_SET, _DELETE = 0, 1


def build_create_topics(creations: Mapping[str, CreateTopic], *, validate_only: bool = False) -> Message:
    """Return the request that creates these topics, by name."""
    topic = CreateTopicsRequest.CreatableTopic
    return CreateTopicsRequest(
        topics=[
            topic(
                name=name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    topic.CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
                    for index, replicas in enumerate(creation.replicas)
                ],
                configs=[topic.CreatableTopicConfig(name=key, value=text) for key, text in creation.config.items()],
            )
            for name, creation in creations.items()
        ],
        timeout_ms=ADMIN_TIMEOUT_MS,
        validate_only=validate_only,
    )


def build_create_partitions(growths: Mapping[str, AddPartitions], *, validate_only: bool = False) -> Message:
    """Return the request that adds partitions to these topics, by name."""
    topic = CreatePartitionsRequest.CreatePartitionsTopic
    return CreatePartitionsRequest(
        topics=[
            topic(
                name=name,
                count=growth.total,
                assignments=[
                    topic.CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in growth.replicas
                ],
            )
            for name, growth in growths.items()
        ],
        timeout_ms=ADMIN_TIMEOUT_MS,
        validate_only=validate_only,
    )


def build_alter_configs(
    changes: Mapping[str, Mapping[str, str | None]], *, resource_type: int = TOPIC_RESOURCE, validate_only: bool = False
) -> Message:
    """Return the request that sets config keys, or removes them (None), by topic or by broker id."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    return IncrementalAlterConfigsRequest(
        resources=[
            resource(
                resource_type=resource_type,
                resource_name=name,
                configs=[
                    resource.AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
                    for key, value in values.items()
                ],
            )
            for name, values in changes.items()
        ],
        validate_only=validate_only,
    )


def build_delete_topics(topic_ids: Iterable[str]) -> Message:
    """Return the request that deletes topics by their ids, in Kafka's own text form."""
    topic = DeleteTopicsRequest.DeleteTopicState
    return DeleteTopicsRequest(
        topics=[topic(name=None, topic_id=decode_topic_id(each)) for each in topic_ids], timeout_ms=ADMIN_TIMEOUT_MS
    )


def creation_of(plan: TopicPlan) -> CreateTopic | None:
    """Return the creation of the topic; None if the plan has none."""
    return next((change for change in plan.changes if isinstance(change, CreateTopic)), None)


def growth_of(plan: TopicPlan) -> AddPartitions | None:
    """Return the growth of the topic; None if the plan has none."""
    return next((change for change in plan.changes if isinstance(change, AddPartitions)), None)


def config_items_of(plan: TopicPlan) -> tuple[ConfigItem, ...]:
    """Return the config keys that the plan changes; empty if it changes none."""
    return tuple(item for change in plan.changes if isinstance(change, UpdateConfig) for item in change.items)
