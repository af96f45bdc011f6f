"""A cluster to play with: brokers, a controller and topics in a real ZooKeeper, without any Kafka.

``Playground`` plays the part of the brokers and of the controller through one ZooKeeper session; ``demo`` holds what
``topiarist dev`` and the demo show. Before it stands a ZooKeeper (``embedded``), after it whoever treats it as a Kafka
cluster. It promises what Kafka writes to ZooKeeper, not that anything could be produced or consumed.
"""

from topiarist.adapters.playground.demo import NAME, manifests, run
from topiarist.adapters.playground.played import Playground
from topiarist.adapters.playground.seed import Topic, add_topics, new_topic_id, seed

__all__ = ["NAME", "Playground", "Topic", "add_topics", "manifests", "new_topic_id", "run", "seed"]
