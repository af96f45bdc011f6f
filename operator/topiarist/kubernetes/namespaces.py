"""The watched namespaces, if the operator does not watch all, and their availability.

``main`` calls ``WatchedNamespaces.refresh`` at the start and periodically. A user may delete a namespace, or revoke the
operator's rights in it. The operator then reports the namespace as unavailable, checks it again, and serves it when it
is back; it serves the other namespaces meanwhile. An unavailable operator namespace is an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from topiarist.kubernetes import informer
from topiarist.kubernetes.api.client import ApiError, KubernetesClient
from topiarist.kubernetes.api.rbac_check import missing_rights, namespace_rights
from topiarist.kubernetes.cache import Store

NAMESPACE_NOT_FOUND = "there is no such namespace"


class WatchedNamespaces:
    """The watched namespaces and those that are unavailable.

    ``names`` includes the operator's own namespace; empty: all namespaces, which never count as unavailable.
    ``unavailable`` maps each unavailable namespace to the reason; ``changed`` is set when it changes.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self.unavailable: Mapping[str, str] = {}
        self.changed = asyncio.Event()

    @property
    def available(self) -> tuple[str, ...]:
        """The watched namespaces that are available; empty if all namespaces are watched."""
        return tuple(name for name in self._names if name not in self.unavailable)

    async def refresh(self, store: Store, api: KubernetesClient, *, first: bool = False) -> None:
        """List all resources into the store and update ``unavailable``.

        ``first`` also checks the rights in every namespace. Raises ``ApiError`` for an error that does not concern one
        namespace only.
        """
        await informer.refresh_clusters_and_policies(store, api)
        if not self._names:
            await informer.refresh_all_namespaces(store, api)
            await informer.refresh_topics(store, api)
            return
        found = {
            name: await self._unavailable_reason(store, api, name, ask=first or name in self.unavailable)
            for name in self._names
        }
        away = {name: why for name, why in found.items() if why}
        if away != self.unavailable:
            self.unavailable = away
            self.changed.set()

    async def _unavailable_reason(self, store: Store, api: KubernetesClient, name: str, *, ask: bool) -> str:
        """Return why a namespace is unavailable; empty if it is available.

        The operator's rights in the namespace are checked only if ``ask``.
        """
        try:
            if not await informer.refresh_namespace(store, api, name):
                return NAMESPACE_NOT_FOUND
            if ask and (missing := await missing_rights(api, [*namespace_rights(name)])):
                return _format_missing_rights(missing)
            await informer.refresh_topics(store, api, name)
        except ApiError as error:
            if name == store.operator_namespace or not error.forbidden:
                raise
            return str(error)
        return ""


def _format_missing_rights(missing: Sequence[str]) -> str:
    """Return a short text for missing rights: the first, and the number of the rest.

    One condition has to hold the texts of all namespaces.
    """
    more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"the operator's ServiceAccount may not {missing[0]}{more}"
