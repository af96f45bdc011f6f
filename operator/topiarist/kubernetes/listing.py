"""All that the API server holds of ours, page by page: before the first pass, and again from time to time.

A pass must never begin with only a part of the Topics: the younger of two claims would win for as long as the older has
not been seen. And a watch that is interrupted may miss that something was deleted.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from topiarist import schema
from topiarist.kubernetes.api import Api, ApiError
from topiarist.kubernetes.resources import resource
from topiarist.kubernetes.store import Store

PAGE = 500

PLURALS = {"Topic": "topics", "Cluster": "clusters", "Policy": "policies"}


def folder(kind: str, namespace: str = "") -> str:
    """The path of the collection of a kind, in one namespace or in all."""
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{schema.VERSION}{where}/{PLURALS[kind]}"


async def clusters_and_policies(store: Store, api: Api) -> None:
    """Bring the Clusters and Policies of the operator's namespace up to date."""
    for kind in ("Cluster", "Policy"):
        await _fill(store, api, kind, store.home)


async def topics(store: Store, api: Api, namespace: str = "") -> None:
    """Bring the Topics of one namespace, or of all, up to date."""
    await _fill(store, api, "Topic", namespace)


async def _fill(store: Store, api: Api, kind: str, namespace: str) -> None:
    """All resources of a kind, in one namespace or (empty) in all."""
    there, version = set(), 0
    async for page in _pages(api, folder(kind, namespace)):
        version = version or int(page["metadata"]["resourceVersion"])
        for body in page["items"]:
            known = store.find(kind, body["metadata"])
            found = resource({**body, "kind": kind, "apiVersion": schema.VERSION}, known)
            there.add(found.uid)
            store.put(found)
    for known in store.all(kind):
        gone = known.uid not in there and known.version <= version
        if gone and namespace in ("", known.namespace):
            store.drop(known)
    store.listed(kind, namespace, version)


async def all_namespaces(store: Store, api: Api) -> None:
    """Bring the labels of all namespaces up to date."""
    bodies = [body async for page in _pages(api, "/api/v1/namespaces") for body in page["items"]]
    found = {body["metadata"]["name"]: body["metadata"] for body in bodies}
    for name in {*store.namespaces} - {*found}:
        store.namespace(name, None)
    for metadata in found.values():
        _keep(store, metadata)


async def one_namespace(store: Store, api: Api, name: str) -> bool:
    """Bring the labels of one namespace up to date; gives whether it is there. With it all in it has gone."""
    try:
        _keep(store, (await api.get(f"/api/v1/namespaces/{name}"))["metadata"])
    except ApiError as error:
        if not error.missing:
            raise
        store.namespace(name, None)
        for topic in store.all("Topic"):
            if topic.namespace == name:
                store.drop(topic)
        return False
    return True


def _keep(store: Store, metadata: Mapping[str, Any]) -> None:
    store.namespace(metadata["name"], metadata.get("labels") or {}, leaving="deletionTimestamp" in metadata)


async def _pages(api: Api, path: str) -> AsyncIterator[Mapping[str, Any]]:
    following = ""
    while True:
        words = {"limit": str(PAGE), **({"continue": following} if following else {})}
        page = await api.get(path, **words)
        yield page
        following = page["metadata"].get("continue", "")
        if not following:
            return
