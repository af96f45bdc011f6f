"""A cluster's pass with all that it needs of the outside: secrets, policies, who is being deleted with whom, a session.

Between ``controller``, which calls for it and tells what came of it, and ``passes``, which knows nothing of Kubernetes'
API. The store is asked in the event loop, ZooKeeper in a thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from topiarist import schema
from topiarist.core.credentials import SecretKey
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import clock
from topiarist.kubernetes.api import Api, ApiError
from topiarist.kubernetes.candidates import Candidate, candidates
from topiarist.kubernetes.deletions import recent
from topiarist.kubernetes.pace import Digestion
from topiarist.kubernetes.passes import Order, Seen, look
from topiarist.kubernetes.policing import Policing
from topiarist.kubernetes.quiet import Quiet
from topiarist.kubernetes.resources import Resource
from topiarist.kubernetes.sessions import Secrets, Session, secret_keys
from topiarist.kubernetes.store import Store

NAMESPACE_LEAVES = "its namespace is being deleted, and a topic must not go because of that"

KIND_LEAVES = "the definition of the kind Topic is being deleted, and no topic must go because of that"

DEFINITION = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/topics.{schema.GROUP}"

T = TypeVar("T")

log = logging.getLogger(__name__)


class Round:
    """The passes of one cluster. ``stop`` ends one before its time."""

    def __init__(self, api: Api, policing: Policing, session: Session, stop: Callable[[], bool]) -> None:
        self._api = api
        self._policing = policing
        self._session = session
        self._stop = stop
        self._quiet = Quiet()
        self._counted: Counter[tuple[str, str]] = Counter()
        self._thread = ThreadPoolExecutor(1, "cluster")  # of its own: any number of others may be waiting for theirs

    async def look(self, store: Store, home: Resource, owner: str) -> Seen:
        """One pass over the cluster of ``home``; whatever goes wrong is part of what it saw."""
        spec = store.cluster(home.name)
        if spec is None:
            await self._in_thread(self._session.close)
            return Seen([], error=TopiaristError(Reason.INVALID_MANIFEST, "the Cluster cannot be read"))
        meant, silent, policies = store.candidates(home.name), store.silent(home.name), store.rules()
        labels = dict(store.namespaces)
        broken = sorted(name for name, found in store.policies.items() if found.manifest is None)
        try:
            secrets = await self._secrets(home.namespace, {key.name for key in secret_keys(spec.credentials)})
            held = await self._held(store, meant)
        except ApiError as error:
            reason = Reason.NO_PERMISSION if error.forbidden else Reason.UNREACHABLE
            return Seen([], error=TopiaristError(reason, str(error)))

        def work() -> Seen:
            found = candidates(spec, home.namespace, meant, labels, silent)
            order = Order(
                home,
                spec,
                found,
                owner,
                held=held,
                guard=self._policing.guard(policies, broken, spec, found),
                deletions=lambda state: recent(home, state, owner, clock.now()),
                quiet=self._quiet,
            )
            return self._looked(order, secrets)

        return await self._in_thread(work)

    async def close(self) -> None:
        """End the session, once no pass is under way and none will come."""
        await self._in_thread(self._session.close)
        self._thread.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def requests(self) -> Mapping[tuple[str, str], int]:
        """What was asked of ZooKeeper since the last call, by operation and result."""
        now = Counter(self._session.requests())
        new, self._counted = now - self._counted, now
        return new

    def _looked(self, order: Order, secrets: Secrets) -> Seen:
        """In a thread: the pass itself. A session that failed is not used again."""
        try:
            cluster = self._session.cluster(order.cluster, secrets)
            pace = Digestion(cluster, self._stop)
            seen = look(cluster, order, lambda: self._stop() or pace.enough, pace)
        except TopiaristError as error:
            seen = Seen([], error=error)
        if seen.error is not None:
            self._session.close()
            log.warning("a pass has ended early", extra={"cluster": order.cluster.name, "error": str(seen.error)})
        return seen

    async def _secrets(self, namespace: str, names: Iterable[str]) -> Secrets:
        """What is in the Secrets that a Cluster names, as of now; those that are not there are left out."""
        found = {}
        for name in sorted(names):
            try:
                data = (await self._api.get(f"/api/v1/namespaces/{namespace}/secrets/{name}")).get("data", {})
            except ApiError as error:
                if not error.missing:
                    raise
                continue
            found.update({SecretKey(name, key): text for key, text in data.items()})
        return found

    async def _held(self, store: Store, meant: Iterable[Candidate]) -> Mapping[str, str]:
        """Of topics whose resources are being deleted, why they must stay: something larger is being deleted."""
        leaving = [each for each in meant if each.resource.deleting]
        if leaving and await self._leaves(DEFINITION):
            return {each.spec.topic: KIND_LEAVES for each in leaving}
        gone = {
            namespace: namespace in store.leaving or await self._leaves(f"/api/v1/namespaces/{namespace}")
            for namespace in {each.resource.namespace for each in leaving}
        }
        return {each.spec.topic: NAMESPACE_LEAVES for each in leaving if gone[each.resource.namespace]}

    async def _leaves(self, path: str) -> bool:
        """Whether an object is being deleted, or is gone."""
        try:
            return "deletionTimestamp" in (await self._api.get(path))["metadata"]
        except ApiError as error:
            if error.missing:
                return True
            raise
