"""The namespaces that the operator watches, where it does not watch all, and those of them that are away.

A namespace may be deleted, or its rights taken away, by others than those who run the operator: it is told, looked for
again, and served when it is back. All others are served meanwhile. Only without its own namespace there is no operator.
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
    """``names`` are the namespaces that are watched, the operator's own among them; none: all, of which none is away.

    ``away`` says of each that is away why; ``changed`` is set when that is no longer what it was.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self.unavailable: Mapping[str, str] = {}
        self.changed = asyncio.Event()

    @property
    def available(self) -> tuple[str, ...]:
        """The namespaces that are watched and there; none: all."""
        return tuple(name for name in self._names if name not in self.unavailable)

    async def refresh(self, store: Store, api: KubernetesClient, *, first: bool = False) -> None:
        """Bring the store up to date, and find out which namespaces are away; at ``first`` nothing is known of any.

        Raises ``ApiError`` for whatever is not the matter of one namespace alone.
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
        """Why a namespace is away, empty if it is not; whether we have our rights in it only if we ``ask``."""
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
    """What the operator may not, in few words: of several namespaces each has to be told in one condition."""
    more = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"the operator's ServiceAccount may not {missing[0]}{more}"
