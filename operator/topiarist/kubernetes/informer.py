"""Informers: lists and watches that keep the ``Store`` equal to the API server, and of the definitions of its kinds.

Each collection is watched once. kopf watches the Clusters of the operator's namespace, and its handler (``main``)
passes each event on to ``Informers.clusters``. The informers watch the other inputs of a reconciliation: Topics,
Policies, namespaces, and the Clusters of other namespaces. kopf is no replacement there: its index takes minutes for
ten thousand objects, after a gap it keeps objects that were deleted in the gap, and after a restore of etcd its watch
yields nothing until the API server's versions have caught up. The Clusters are few: because of such gaps they are
listed again with the Policies of their namespace, and once a period.

Everything is listed once before the first reconciliation, because with a part of the Topics the younger of two claims
would win until the older Topic is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import client, resources
from topiarist.kubernetes.cache import Store
from topiarist.kubernetes.resources import TopicOperators
from topiarist.schema import load
from topiarist.text import list_first

MAX_RETRY_DELAY_S = 5.0
"""Maximum seconds between two attempts to list or watch; the first delay is a fifth of it."""

NAMESPACE_RETRY_INTERVAL_S = 15.0
"""Maximum seconds after which an unavailable namespace is checked again."""

NAMESPACE_NOT_FOUND = "there is no such namespace"

RELIST_INTERVAL_S = 30.0
"""Minimum seconds between two lists because a watch has failed."""

_ANY_VERSION = sys.maxsize
"""The version of a list that replaces whatever is known."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class Informer(Generic[T]):
    """A copy of one collection of the API server.

    ``parse`` builds an object from a body and the previous object. ``upsert`` receives each new and changed object with
    the version up to which a list replaces known objects, 0 if it is from a watch; ``remove`` receives each deleted
    one. A list replaces the whole copy, so an object that was deleted while there was no watch is removed then.
    ``on_relist`` is called after each list but the first. ``companion`` is an informer that is always listed first;
    instead of its ``run``, another watch calls its ``handle``. ``is_listed`` from the first list on. ``error`` is the
    last error; None while the API server answers.
    """

    def __init__(
        self,
        api: client.KubernetesClient,
        path: str,
        parse: Callable[[dict[str, Any], T | None], T],
        upsert: Callable[[T, int], None],
        remove: Callable[[T], None],
        on_relist: Callable[[], None] = lambda: None,
        **params: str,
    ) -> None:
        self._api = api
        self._path = path
        self._params = params
        self._parse = parse
        self._upsert = upsert
        self._remove = remove
        self._on_relist = on_relist
        self._objects: dict[tuple[str, str], T] = {}
        self._version = ""
        self._last_version = 0
        self._listed_at = 0.0
        self._failures = 0
        self.companion: Informer[T] | None = None
        self.is_listed = False
        self.error: client.ApiError | None = None

    async def refresh(self, *, after_outage: bool = False) -> None:
        """List the collection and deliver the differences. Raises ``ApiError``."""
        if self.companion:
            await self.companion.refresh(after_outage=after_outage)
        found: dict[tuple[str, str], T] = {}
        version = ""
        async for page in self._api.list_pages(self._path, **self._params):
            version = page["metadata"]["resourceVersion"]
            for body in page["items"]:
                key = _key(body)
                found[key] = self._parse(body, self._objects.get(key))
        gone = [each for key, each in self._objects.items() if key not in found]
        # After an outage, a list that is older than an event shows that etcd was restored: known versions are of a lost
        # history. Without an outage the list is only late, and must bring no old spec or status back.
        is_restored = after_outage and int(version) < self._last_version
        listed = _ANY_VERSION if is_restored else int(version)
        self._objects, self._version = found, version
        self._last_version = int(version) if is_restored else max(self._last_version, int(version))
        self._listed_at = asyncio.get_running_loop().time()
        for each in gone:
            self._remove(each)
        for each in found.values():
            self._upsert(each, listed)
        self.is_listed = True

    async def run(self) -> None:
        """List if that was not done, then watch; repeat until cancelled. Errors of the API server are retried."""
        while True:
            has_events = False
            try:
                if not self._version:
                    await self.refresh(after_outage=self._failures > 0)
                    self._record_success()
                    self._on_relist()
                async for event in self._api.watch(self._path, self._version, **self._params):
                    has_events = True
                    self._record_success()
                    self.handle(event)
                delay = 0.1
            except client.ApiError as error:
                # The server has no events for this version, or it was away: a restore of etcd sets versions back, and a
                # watch from a later version yields nothing. Only a list shows what has changed.
                if error.gone or (not has_events and self._may_list_again()):
                    self._version = ""
                delay = self._record_failure(error)
            await asyncio.sleep(delay * random.uniform(0.5, 1.0))

    def _may_list_again(self) -> bool:
        return asyncio.get_running_loop().time() - self._listed_at >= RELIST_INTERVAL_S

    def handle(self, event: Mapping[str, Any]) -> None:
        """Deliver an event of a watch."""
        body = event["object"]
        self._version = body["metadata"]["resourceVersion"]
        self._last_version = int(self._version)
        if event["type"] == "BOOKMARK":
            return
        key = _key(body)
        found = self._parse(body, self._objects.get(key))
        if event["type"] == "DELETED":
            self._objects.pop(key, None)
            self._remove(found)
        else:
            self._objects[key] = found
            self._upsert(found, 0)

    def _record_success(self) -> None:
        if self._failures:
            log.info("the API server is watched again", extra={"path": self._path})
        self._failures, self.error = 0, None

    def _record_failure(self, error: client.ApiError) -> float:
        """Record an error, log the first of several, and return the seconds to wait."""
        if not self._failures and not error.gone:
            log.warning("the API server cannot be watched", extra={"path": self._path, "error": str(error)})
        # A gone version is the end of an outage, not an error: list at once.
        self._failures += not error.gone
        self.error = error
        delay = min(MAX_RETRY_DELAY_S / 10 * 2.0 ** min(self._failures, 10), MAX_RETRY_DELAY_S)
        return max(delay, 2 * error.retry_after)  # ``run`` waits for half of it at least


def _key(body: Mapping[str, Any]) -> tuple[str, str]:
    return body["metadata"].get("namespace", ""), body["metadata"]["name"]


class _Namespace(NamedTuple):
    name: str
    labels: Mapping[str, str]
    leaving: bool


def _parse_namespace(body: Mapping[str, Any], _: object = None) -> _Namespace:
    metadata = body["metadata"]
    return _Namespace(metadata["name"], metadata.get("labels") or {}, "deletionTimestamp" in metadata)


class Informers:
    """All informers of the operator, and the watched namespaces that are unavailable.

    ``namespaces`` are the watched namespaces including the operator's own; empty: all. If they are limited, each has
    its own informers, and their labels are read once per ``period``. A user may delete such a namespace, or revoke the
    operator's rights in it. The namespace then counts as unavailable until it is back, and the others are served
    meanwhile. ``clusters`` are the Clusters of the operator's namespace, which kopf watches. ``on_relist`` is called
    when something had to be listed again, ``on_unavailable`` with the unavailable namespaces, each with the reason.
    """

    def __init__(
        self,
        api: client.KubernetesClient,
        store: Store,
        namespaces: tuple[str, ...],
        period: float,
        on_relist: Callable[[], None],
        on_unavailable: Callable[[Mapping[str, str]], None],
    ) -> None:
        self._api = api
        self._store = store
        self._namespaces = namespaces
        self._period = period
        self._on_relist = on_relist
        self._on_unavailable = on_unavailable
        self._unavailable: Mapping[str, str] = {}
        self._forbidden = api.forbidden
        # Clusters first: without all of them, a Topic that names no cluster would be applied to the first one.
        home = store.operator_namespace
        self.clusters, policies = self._of_kind("Cluster", home), self._of_kind("Policy", home)
        policies.companion = self.clusters
        self._by_namespace: dict[str, list[Informer[Any]]] = {"": [policies]}
        if not namespaces:
            self._by_namespace[""] += [
                Informer(
                    api,
                    "/api/v1/namespaces",
                    _parse_namespace,
                    lambda found, _: store.update_namespace(found.name, found.labels, leaving=found.leaving),
                    lambda found: store.update_namespace(found.name, None),
                    on_relist,
                ),
                self._of_kind("Topic"),
                self._of_kind("Cluster", fieldSelector=f"metadata.namespace!={home}"),
            ]

    async def refresh(self) -> None:
        """List everything.

        Raises ``ApiError`` for an error that does not concern one watched namespace only.
        """
        for informer in self._by_namespace[""]:
            await informer.refresh()
        await self._check_namespaces()

    async def run(self) -> None:
        """Run all informers until cancelled, and check the watched namespaces; call ``refresh`` before."""
        started: set[Informer[Any]] = set()
        async with asyncio.TaskGroup() as tasks:
            while True:
                informers = {each for several in self._by_namespace.values() for each in several}
                for each in informers - started:
                    tasks.create_task(each.run())
                started = informers
                retry = min(self._period, NAMESPACE_RETRY_INTERVAL_S)
                await asyncio.sleep(retry if self._unavailable else self._period)
                with contextlib.suppress(client.ApiError):  # the informer of the Policies reports an outage
                    await self.clusters.refresh()
                try:
                    await self._check_namespaces()
                except client.ApiError as error:
                    log.warning("the watched namespaces cannot be checked", extra={"error": str(error)})

    def _of_kind(self, kind: str, namespace: str = "", **params: str) -> Informer[resources.Resource]:
        store, path = self._store, resources.collection_path(kind, namespace)
        return Informer(
            self._api, path, partial(resources.parse_item, kind), store.upsert, store.remove, self._on_relist, **params
        )

    async def _check_namespaces(self) -> None:
        is_refused, self._forbidden = self._api.forbidden != self._forbidden, self._api.forbidden
        found = {name: await self._unavailable_reason(name, is_refused=is_refused) for name in self._namespaces}
        self._unavailable = {name: why for name, why in found.items() if why}
        self._on_unavailable(self._unavailable)

    async def _unavailable_reason(self, name: str, *, is_refused: bool) -> str:
        """Return why a namespace is unavailable; empty if it is available.

        The rights are checked at the start, after a refused request, and while the namespace is unavailable. Its
        informers are created when it is available for the first time. They stay then, so that a lost right removes no
        Topic.
        """
        try:
            body = await self._api.get(f"/api/v1/namespaces/{name}")
        except client.ApiError as error:
            if not error.not_found:
                raise
            self._store.update_namespace(name, None)
            return NAMESPACE_NOT_FOUND
        namespace = _parse_namespace(body)
        self._store.update_namespace(name, namespace.labels, leaving=namespace.leaving)
        informers = self._by_namespace.get(name)
        unsure = informers is None or is_refused or name in self._unavailable
        if unsure and (missing := await client.missing_rights(self._api, [*client.namespace_rights(name)])):
            # Only the first right: one condition has to hold the texts of all namespaces.
            more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
            return f"the operator's ServiceAccount may not {missing[0]}{more}"
        if informers is None:
            informers = [*self._namespace_informers(name)]
            try:
                for each in informers:
                    await each.refresh()
            except client.ApiError as error:
                if name == self._store.operator_namespace or not error.forbidden:
                    raise
                return str(error)
            self._by_namespace[name] = informers
        return next((str(each.error) for each in informers if each.error and each.error.forbidden), "")

    def _namespace_informers(self, name: str) -> Iterator[Informer[Any]]:
        yield self._of_kind("Topic", name)
        if name != self._store.operator_namespace:
            yield self._of_kind("Cluster", name)


# The KafkaTopics of Strimzi, from the first Cluster on that has them among its sources.
#
# Nothing of Strimzi's API is needed before, and only these Clusters wait for it. The definition of KafkaTopics is
# watched, so it may come and go, and the version that is served may change. The informers of the KafkaTopics begin anew
# then, and until they have listed everything, the Clusters are not reconciled.

_SERVED_VERSIONS = ("v1", "v1beta2")
"""The versions of KafkaTopics that can be read; the first one that is served is used."""

_OR_REMOVE_SOURCE = "or remove KafkaTopic from spec.sources of the Cluster"


class KafkaTopicInformers:
    """The informers of KafkaTopics in the watched ``namespaces``; empty: all.

    ``on_change`` is called when they may be read since, or may not any more.
    """

    def __init__(
        self,
        api: client.KubernetesClient,
        store: Store,
        namespaces: tuple[str, ...],
        period: float,
        on_change: Callable[[], None],
    ) -> None:
        self._api = api
        self._store = store
        self._namespaces = namespaces or ("",)
        self._rights = [*client.kafka_topic_rights(namespaces)]
        self._period = period
        self._on_change = on_change
        self._missing: list[str] = []
        self._versions: tuple[str, ...] = ()
        self._changed = asyncio.Event()
        self._informers: list[Informer[resources.Resource]] = []
        self._definition: Informer[tuple[str, ...]] = Informer(
            *(api, resources.DEFINITIONS_PATH, _parse_served_versions),
            *(lambda found, _: self._set_versions(found), lambda _: self._set_versions(())),
            on_change,
            fieldSelector=f"metadata.name={resources.definition_name(resources.KAFKA_TOPIC)}",
        )

    def problem(self) -> TopiaristError | None:
        """Return why not all KafkaTopics are known, with what to do: a condition shows no hint; None if they are."""
        if self._missing:
            message = f"the operator's ServiceAccount may not: {'; '.join(self._missing)}"
            remedy = f"set kafkaTopics.enabled in the chart's values, {_OR_REMOVE_SOURCE}"
            return TopiaristError(Reason.NO_PERMISSION, f"{message}: {remedy}")
        if self._definition.is_listed and not self._versions:
            message = f"the API server does not serve KafkaTopics ({resources.definition_name(resources.KAFKA_TOPIC)})"
            remedy = f"install Strimzi's CRD with the version {' or '.join(_SERVED_VERSIONS)}, {_OR_REMOVE_SOURCE}"
            return TopiaristError(Reason.PREREQUISITE_MISSING, f"{message}: {remedy}")
        needed: list[Informer[Any]] = [self._definition, *self._informers]
        waiting = next((each for each in needed if not each.is_listed), None)
        if waiting or not self._informers:
            why = f": {waiting.error}" if waiting and waiting.error else ""
            return TopiaristError(Reason.UNREACHABLE, f"the KafkaTopics are not listed yet{why}")
        return None

    async def operators(self) -> TopicOperators:
        """Return namespace and cluster of each topic operator that a ``Kafka`` resource declares.

        Raises ``ApiError``.
        """
        found = set[tuple[str, str]]()
        for namespace in self._namespaces:
            for body in await self._list_kafkas(namespace):
                entity_operator = (body.get("spec") or {}).get("entityOperator") or {}
                operator = entity_operator.get("topicOperator")
                if operator is not None:
                    metadata = body["metadata"]
                    found.add((operator.get("watchedNamespace") or metadata["namespace"], metadata["name"]))
        return found

    async def run(self) -> None:
        """Wait for a Cluster that has KafkaTopics among its sources; then watch until cancelled."""
        await self._store.kafka_topics_wanted.wait()
        await self._wait_for_rights()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._definition.run())
            while True:
                self._changed.clear()
                self._informers = [*self._make_informers()]
                running = [tasks.create_task(each.run()) for each in self._informers]
                await self._changed.wait()
                self._informers = []
                for task in running:
                    task.cancel()
                for topic in [*self._store.topics.values()]:
                    if topic.kind == resources.KAFKA_TOPIC:
                        self._store.remove(topic)
                self._on_change()

    async def _wait_for_rights(self) -> None:
        while True:
            with contextlib.suppress(client.ApiError):
                missing = await client.missing_rights(self._api, self._rights)
                if missing != self._missing:
                    self._missing = missing
                    self._on_change()
                if not missing:
                    return
            await asyncio.sleep(min(self._period, NAMESPACE_RETRY_INTERVAL_S))

    def _make_informers(self) -> Iterator[Informer[resources.Resource]]:
        version = next((each for each in _SERVED_VERSIONS if each in self._versions), None)
        if version is None:
            return
        api_version = f"{resources.KAFKA_TOPIC_GROUP}/{version}"
        for namespace in self._namespaces:
            yield Informer(
                self._api,
                resources.collection_path(resources.KAFKA_TOPIC, namespace, api_version),
                partial(resources.parse_item, resources.KAFKA_TOPIC, api_version=api_version),
                self._store.upsert,
                self._store.remove,
                self._on_change,
            )

    def _set_versions(self, found: tuple[str, ...]) -> None:
        if found != self._versions:
            self._versions = found
            self._changed.set()

    async def _list_kafkas(self, namespace: str) -> list[dict[str, Any]]:
        where = f"/namespaces/{namespace}" if namespace else ""
        for version in _SERVED_VERSIONS:
            try:
                answer = await self._api.get(f"/apis/{resources.KAFKA_TOPIC_GROUP}/{version}{where}/kafkas")
            except client.ApiError as error:
                if not error.not_found:
                    raise
                continue  # without the kind no topic operator is declared
            return list(answer["items"])
        return []


def _parse_served_versions(body: dict[str, Any], _: object = None) -> tuple[str, ...]:
    return tuple(each["name"] for each in body["spec"]["versions"] if each["served"])


# The definitions of topiarist's kinds in the API server, compared with the fields that this release reads and writes.
#
# ``main`` starts ``Definitions``; ``manager`` changes no Kafka cluster while a definition lacks a field. An API server
# with the definitions of an earlier release drops fields of specs in silence, and refuses whole statuses. A definition
# with more fields is no problem.

_MAX_FIELDS = 5
"""Maximum number of fields that a message names."""

_KINDS = {resources.definition_name(kind): kind for kind in resources.PLURALS}
"""The kinds by the names of their definitions."""

_EVERYTHING = ("everything",)
"""The fields that a definition lacks that does not exist."""

Schema = Mapping[str, Any]


class Definition(NamedTuple):
    """A definition: its name, the fields that it lacks, and its schema of a status."""

    name: str
    missing: tuple[str, ...]
    status: Schema


def parse_definition(kind: str, body: Mapping[str, Any]) -> Definition:
    """Return the definition in a body of the API server, compared with the schemas of this release."""
    name, wanted = body["metadata"]["name"], load.API_VERSION.partition("/")[2]
    version = next((each for each in body["spec"]["versions"] if each["name"] == wanted and each["served"]), None)
    if version is None:
        return Definition(name, (f"the version {wanted}",), {})
    schema = version.get("schema", {}).get("openAPIV3Schema", {})
    fields = schema.get("properties", {})
    document, status = load.resource_schema(kind), load.load_schema("status")
    missing = [
        *_find_missing(document["properties"]["spec"], document["definitions"], fields.get("spec", {}), "spec"),
        *_find_missing(status["definitions"][kind.lower()], status["definitions"], fields.get("status", {}), "status"),
    ]
    if "status" not in version.get("subresources", {}):
        missing.append("the subresource status")
    return Definition(name, tuple(missing), fields.get("status", {}))


def _find_missing(wanted: Schema, references: Schema, found: Schema, path: str) -> Iterator[str]:
    """Yield the path of each field, and each value of an enumeration, that a definition does not accept."""
    wanted = references[wanted["$ref"].rpartition("/")[2]] if "$ref" in wanted else wanted
    if found.get("x-kubernetes-preserve-unknown-fields"):
        return
    if "enum" in found:
        yield from (f"{path}: {value}" for value in wanted.get("enum", ()) if value not in found["enum"])
    for name, field in wanted.get("properties", {}).items():
        # In a definition, config keys are a map, since their values may be text or numbers.
        below = found.get("properties", {}).get(name, found.get("additionalProperties"))
        if below is None:
            yield f"{path}.{name}"
        else:
            yield from _find_missing(field, references, below, f"{path}.{name}")
    for keyword, step in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(wanted.get(keyword), Mapping) and isinstance(found.get(keyword), Mapping):
            yield from _find_missing(wanted[keyword], references, found[keyword], f"{path}{step}")


def prune(value: Any, schema: Schema) -> Any:
    """Return ``value`` without the fields that a schema does not have: the API server refuses a status with any."""
    if isinstance(value, list | tuple):
        return [prune(each, schema.get("items", {})) for each in value]
    if not isinstance(value, Mapping) or "properties" not in schema:
        return value
    fields = schema["properties"]
    return {name: prune(each, fields[name]) for name, each in value.items() if name in fields}


class Definitions:
    """The definitions of all kinds, watched; ``on_change`` receives those that lack something, by kind."""

    def __init__(self, api: client.KubernetesClient, on_change: Callable[[Mapping[str, Definition]], None]) -> None:
        self._on_change = on_change
        self._is_read = False
        self._found = {name: Definition(name, _EVERYTHING, {}) for name in _KINDS}
        # One each: the operator may read these definitions and no other.
        self._informers = [
            Informer(
                *(api, resources.DEFINITIONS_PATH, _parse_body, lambda found, _: self._update(found), self._remove),
                fieldSelector=f"metadata.name={name}",
            )
            for name in _KINDS
        ]

    async def refresh(self) -> None:
        """Read all definitions. Raises ``ApiError``."""
        for each in self._informers:
            await each.refresh()
        self._is_read = True
        self._report()

    async def run(self) -> None:
        """Watch the definitions until cancelled; call ``refresh`` before."""
        async with asyncio.TaskGroup() as tasks:
            for each in self._informers:
                tasks.create_task(each.run())

    def _update(self, found: Definition) -> None:
        self._found[found.name] = found
        self._report()

    def _remove(self, found: Definition) -> None:
        self._update(found._replace(missing=_EVERYTHING))

    def _report(self) -> None:
        if self._is_read:
            self._on_change({_KINDS[name]: each for name, each in self._found.items() if each.missing})


def _parse_body(body: dict[str, Any], _: Definition | None) -> Definition:
    return parse_definition(_KINDS[body["metadata"]["name"]], body)


def describe_missing(definitions: Mapping[str, Definition]) -> str:
    """Return what the definitions lack; empty if they lack nothing."""
    return "; ".join(
        f"{each.name} does not have {list_first(each.missing, _MAX_FIELDS)}" for each in definitions.values()
    )
