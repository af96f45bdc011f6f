"""Other names of fields: those of Kafka's tools, of other tools, and other spellings.

``explain`` and ``identity`` find the field that is meant.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from topiarist.kafka.config_rules import field_of_size

_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "topicName": ("topic", "topicnames", "fullname"),
    "replicaAssignment": (
        "assignment", "assignments", "replicaassignments", "replicasassignment", "partitionassignment", "replicalists",
        "partitionreplicas", "replicasassignments", "placement",
    ),
    "config": (
        "configs", "configuration", "configurations", "settings", "topicconfig", "topicconfigs", "properties",
        "options", "params", "parameters", "overrideconfig", "topicconfiguration",
    ),
    "clusters": ("cluster", "clustername", "clusternames", "clusterref", "environments", "environment"),
    "clusterSelector": ("selector", "clusterlabels"),
    "profiles": ("profile", "template"),
    "ensure": ("state", "delete", "deleted", "absent", "present"),
    "deletionPolicy": ("reclaimpolicy", "ondelete", "preventdestroy", "retainondelete"),
    "mode": ("managementpolicy", "managementstate"),
    "overrides": ("override", "perclusteroverrides"),
    "bootstrapServers": (
        "bootstrap", "bootstrapserver", "brokers", "brokerlist", "servers", "addresses", "address", "bootstrapaddrs",
    ),
    "connect": ("connectstring", "connectionstring", "zookeeperconnect", "zkconnect", "hosts", "url", "zkaddr"),
    "kafka": ("kafkacluster",),
    "zookeeper": ("zk", "zookeepers"),
    "kafkaVersion": ("version", "kafkaversions"),
    "clusterId": ("kafkaclusterid", "id", "uuid"),
    "protected": ("protectedtopics", "protection"),
}  # fmt: skip
_BY_SYNONYM = {synonym: field for field, synonyms in _SYNONYMS.items() for synonym in synonyms}


def fold(name: str) -> str:
    """Return a name in lower case and without the characters that separate words."""
    return re.sub(r"[\s._-]+", "", name[:64]).lower()


def find_field(name: str, known: Collection[str]) -> str:
    """Return the known field that a name means: another spelling or a synonym; empty if there is none."""
    folded = fold(name)
    meant = _BY_SYNONYM.get(folded) or field_of_size(name)
    return next((field for field in known if field.lower() == folded), meant if meant in known else "")
