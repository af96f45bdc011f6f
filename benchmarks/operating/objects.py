"""Ten thousand Topic resources on a real API server, and what the operator makes of them, seen from outside."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import kopf

from benchmarks import fleet
from support.kubeapi import Api as Admin
from topiarist.kubernetes.api import MERGE, Api

AT_A_TIME = 16
PAGE = 1000

_WRITES = re.compile(
    r'^apiserver_request_total\{.*resource="(?P<resource>topics|clusters|policies|events)".*'
    r'verb="(?:POST|PUT|PATCH|APPLY|DELETE)".*\} (?P<number>\S+)$'
)


def login(admin: Admin) -> kopf.ConnectionInfo:
    """As the administrator of the test's API server."""
    return kopf.ConnectionInfo(server=admin.site.url, ca_path=str(admin.site.ca), token=admin.token)


def topic(number: int, **metadata: Any) -> Mapping[str, Any]:
    """The Topic that asks for what the cluster has."""
    return {
        "apiVersion": "topiarist.dev/v1",
        "kind": "Topic",
        "metadata": {"name": fleet.name(number), "labels": {"team": "payments"}, **metadata},
        "spec": {"partitions": 12, "replicationFactor": 3, "config": fleet.config(number)},
    }


class Topics:
    """The Topics of one namespace."""

    def __init__(self, admin: Admin, namespace: str) -> None:
        self._admin = admin
        self.path = f"/apis/topiarist.dev/v1/namespaces/{namespace}/topics"

    async def make(self, count: int) -> None:
        """Declare as many."""
        room = asyncio.Semaphore(AT_A_TIME)

        async def one(api: Api, number: int) -> None:
            async with room:
                await api.create(self.path, topic(number))

        async with Api(lambda: login(self._admin)) as api:
            await asyncio.gather(*(one(api, number) for number in range(count)))

    async def ready(self) -> int:
        """How many are Ready in their newest generation."""
        async with Api(lambda: login(self._admin)) as api:
            return sum([_ready(body) async for body in self._all(api)])

    async def some_ready(self, numbers: range) -> bool:
        """Whether these are, asked one by one until one is not; to ask for all of them would be a load of its own."""
        async with Api(lambda: login(self._admin)) as api:
            for number in numbers:
                if not _ready(await api.get(f"{self.path}/{fleet.name(number)}")):
                    return False
        return True

    async def changed(self, numbers: range) -> list[float]:
        """One config value of each of these, one after the other: seconds from the request until it is Ready again."""
        found = []
        async with Api(lambda: login(self._admin)) as api:
            for number in numbers:
                path = f"{self.path}/{fleet.name(number)}"
                start = time.perf_counter()
                body = await api.patch(path, {"spec": {"config": {"flush.ms": str(1_000 + number)}}}, MERGE)
                while not _ready(body):
                    await asyncio.sleep(0.01)
                    body = await api.get(path)
                found.append(time.perf_counter() - start)
        return found

    async def _all(self, api: Api) -> AsyncIterator[Mapping[str, Any]]:
        following = ""
        while True:
            page = await api.get(self.path, limit=str(PAGE), **({"continue": following} if following else {}))
            for body in page["items"]:
                yield body
            following = page["metadata"].get("continue", "")
            if not following:
                return


def writes(admin: Admin) -> int:
    """How many writes of our kinds, and of Events, the API server has answered."""
    done = admin.kubectl("get", "--raw", "/metrics")
    found = (_WRITES.match(line) for line in done.stdout.splitlines())
    return int(sum(float(each["number"]) for each in found if each))


def _ready(body: Mapping[str, Any]) -> bool:
    status = body.get("status", {})
    return any(
        each["type"] == "Ready"
        and each["status"] == "True"
        and each["observedGeneration"] == body["metadata"]["generation"]
        for each in status.get("conditions", ())
    )
