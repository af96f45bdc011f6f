"""Resources for the tests of this folder, as short as they can be written."""

from __future__ import annotations

from typing import Any

from support.kubeapi import Answer, Api

PATHS = {"Topic": "topics", "Cluster": "clusters", "Policy": "policies"}


def resource(kind: str, name: str = "a", **spec: Any) -> dict[str, Any]:
    """A document of ours."""
    return {"apiVersion": "topiarist.dev/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def topic(name: str = "a", **spec: Any) -> dict[str, Any]:
    """A ``Topic``."""
    return resource("Topic", name, **spec)


def cluster(name: str = "a", **spec: Any) -> dict[str, Any]:
    """A ``Cluster``, with an address unless the test has one."""
    return resource("Cluster", name, **{"zookeeper": {"connect": "zk1:2181"}, **spec})


def rule(**fields: Any) -> dict[str, Any]:
    """A rule of a ``Policy``."""
    return {"name": "a", "expression": "true", "message": "No.", **fields}


def policy(*rules: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A ``Policy`` with these rules, else with one that is always kept."""
    return resource("Policy", rules=list(rules) or [rule()], **spec)


def path(namespace: str, body: dict[str, Any], name: str = "") -> str:
    """Where resources of this kind are, or one of them."""
    return f"/apis/topiarist.dev/v1/namespaces/{namespace}/{PATHS[body['kind']]}/{name}".removesuffix("/")


def create(api: Api, namespace: str, body: dict[str, Any], *, keep: bool = True) -> Answer:
    """Ask for a resource; without ``keep`` only whether it would be taken. Unknown fields are errors."""
    options = "?fieldValidation=Strict" + ("" if keep else "&dryRun=All")
    return api.call("POST", path(namespace, body) + options, body)


def replace(api: Api, namespace: str, body: dict[str, Any], found: Answer) -> Answer:
    """Put ``body`` in place of what ``create`` has made."""
    metadata = {**found.body["metadata"], **body["metadata"]}
    where = path(namespace, body, body["metadata"]["name"])
    return api.call("PUT", f"{where}?fieldValidation=Strict", {**body, "metadata": metadata})
