"""Ten thousand Topic resources on a real API server, and measurements of the operator from outside."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from typing import Any

import kopf

from benchmarks.cli import clusters
from support.kubernetes.api_client import ApiClient as Admin
from topiarist.kubernetes.client import KubernetesClient

MAX_PARALLEL_REQUESTS = 16

_WRITE_METRIC = re.compile(
    r'^apiserver_request_total\{.*resource="(?P<resource>topics|clusters|policies|events)".*'
    r'verb="(?:POST|PUT|PATCH|APPLY|DELETE)".*\} (?P<number>\S+)$'
)


def login(admin: Admin) -> kopf.ConnectionInfo:
    """Connect as the administrator of the API server."""
    return kopf.ConnectionInfo(server=admin.endpoint.url, ca_path=str(admin.endpoint.ca), token=admin.token)


def make_topic_body(number: int, **metadata: Any) -> Mapping[str, Any]:
    """Return the Topic that equals the topic of the cluster."""
    return {
        "apiVersion": "topiarist.dev/v1",
        "kind": "Topic",
        "metadata": {"name": clusters.topic_name(number), "labels": {"team": "payments"}, **metadata},
        "spec": {"partitions": 12, "replicationFactor": 3, "config": clusters.topic_config(number)},
    }


class Topics:
    """The Topics of one namespace."""

    def __init__(self, admin: Admin, namespace: str) -> None:
        self._admin = admin
        self.path = f"/apis/topiarist.dev/v1/namespaces/{namespace}/topics"

    async def create(self, count: int) -> None:
        """Create this many Topics."""
        room = asyncio.Semaphore(MAX_PARALLEL_REQUESTS)

        async def one(api: KubernetesClient, number: int) -> None:
            async with room:
                await api.create(self.path, make_topic_body(number))

        async with KubernetesClient(lambda: login(self._admin)) as api:
            await asyncio.gather(*(one(api, number) for number in range(count)))

    async def count_ready(self) -> int:
        """Return the number of Topics that are Ready in their newest generation."""
        async with KubernetesClient(lambda: login(self._admin)) as api:
            return sum([_is_ready(body) async for page in api.list_pages(self.path) for body in page["items"]])

    async def are_ready(self, numbers: range) -> bool:
        """Return whether these Topics are Ready, read one by one until one is not: a list of all would be a load."""
        async with KubernetesClient(lambda: login(self._admin)) as api:
            for number in numbers:
                if not _is_ready(await api.get(f"{self.path}/{clusters.topic_name(number)}")):
                    return False
        return True

    async def measure_changes(self, numbers: range) -> list[float]:
        """Change one config value of each Topic in turn; return the seconds until each is Ready again."""
        found = []
        async with KubernetesClient(lambda: login(self._admin)) as api:
            for number in numbers:
                path = f"{self.path}/{clusters.topic_name(number)}"
                start = time.perf_counter()
                body = await api.patch(path, {"spec": {"config": {"flush.ms": str(1_000 + number)}}})
                while not _is_ready(body):
                    await asyncio.sleep(0.01)
                    body = await api.get(path)
                found.append(time.perf_counter() - start)
        return found


def count_writes(admin: Admin) -> int:
    """Return the number of writes of topiarist's kinds, and of Events, that the API server has served."""
    done = admin.kubectl("get", "--raw", "/metrics")
    found = (_WRITE_METRIC.match(line) for line in done.stdout.splitlines())
    return int(sum(float(each["number"]) for each in found if each))


def _is_ready(body: Mapping[str, Any]) -> bool:
    status = body.get("status", {})
    return any(
        each["type"] == "Ready"
        and each["status"] == "True"
        and each["observedGeneration"] == body["metadata"]["generation"]
        for each in status.get("conditions", ())
    )
