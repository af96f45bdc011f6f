"""ACLs of principals, made by one request: a process of Kafka's own tool takes seconds for each."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Any, NamedTuple

from support.kafka.catch_up import wait_until_current
from support.kafka.more_messages import load_request
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.model.access import KafkaAccess

_TYPES = {"Topic": 2, "Group": 3, "Cluster": 4, "TransactionalId": 5}
_OPERATIONS = {
    **{"All": 2, "Read": 3, "Write": 4, "Create": 5, "Delete": 6, "Alter": 7, "Describe": 8},
    **{"DescribeConfigs": 10, "AlterConfigs": 11},
}
_LITERAL, _PREFIXED, _ALLOW = 3, 4, 3


class Acl(NamedTuple):
    """Operations that a user may do with resources of a type; a name that ends with ``-*`` is a prefix."""

    user: str
    operations: tuple[str, ...]
    resource: str
    name: str = "*"


def create_acls(bootstrap: str, acls: Iterable[Acl]) -> None:
    """Create ACLs as the super user; return once each broker applies them."""
    request = load_request("CreateAcls")
    creations = [_build(request.AclCreation, acl, operation) for acl in acls for operation in acl.operations]
    with closing(Session(KafkaAccess(bootstrap), 10.0)) as session:
        answer = session.controller().call(request(creations=creations))
    assert [each.error_code for each in answer.results] == [0] * len(creations)
    wait_until_current(bootstrap)


def _build(kind: Any, acl: Acl, operation: str) -> Any:
    is_prefix = acl.name.endswith("-*")
    return kind(
        resource_type=_TYPES[acl.resource],
        resource_name="kafka-cluster" if acl.resource == "Cluster" else acl.name.removesuffix("*" * is_prefix),
        resource_pattern_type=_PREFIXED if is_prefix else _LITERAL,
        principal=f"User:{acl.user}",
        host="*",
        operation=_OPERATIONS[operation],
        permission_type=_ALLOW,
    )
