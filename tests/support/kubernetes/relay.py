"""A relay in front of the API server that numbers writes, holds or breaks one of them, and drops watch events.

Writes are forwarded one at a time: when the k-th is broken, all before it are complete and none after it has started.
Leases and POST requests that only read do not count. ``relay`` has the relay that does not parse connections.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import aiohttp
from aiohttp import web

from support.kubernetes.api_client import ApiClient, ApiEndpoint
from support.kubernetes.server import ApiServer
from support.network.certificates import Authority

_MAX_LINE_BYTES = 1 << 22
_UNCOUNTED_PATHS = ("/selfsubjectaccessreviews", "/leases")

Event = Mapping[str, Any]


class WriteRequest(NamedTuple):
    """A write: its method and the path of its object."""

    method: str
    path: str

    @property
    def kind(self) -> str:
        """The written resource: ``events``, ``topics``, ``topics/status``, ``clusters/status``."""
        after_namespace = self.path.partition("/namespaces/")[2].split("/")[1:]
        return "/".join(word for at, word in enumerate(after_namespace) if at != 1)


class ApiRelay:
    """``with ApiRelay(server) as relay: relay.api(token)`` is a client through the relay.

    ``writes`` are the requested writes. ``watched`` is called for each event of a watch, in a thread, and drops the
    event by returning False. An exception of a test script is raised again when the block ends.
    """

    def __init__(self, server: ApiServer) -> None:
        self.writes: list[WriteRequest] = []
        self.on_watch_event: Callable[[Event], bool] = lambda event: True
        self._server = server
        self._folder = TemporaryDirectory(prefix="topiarist-relay-")  # not the folder of a test: it holds a private key
        self._authority = Authority(Path(self._folder.name, "authority"))
        self._before_write: Callable[[int, WriteRequest], bool] = lambda number, asked: True
        self._after_write: Callable[[int, WriteRequest], bool] = lambda number, asked: True
        self._failures: list[BaseException] = []
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="ApiRelay", daemon=True)
        self._transports: set[asyncio.Transport] = set()

    def api(self, token: str, namespace: str = "default") -> ApiClient:
        """Return a client with a token, through the relay."""
        site = ApiEndpoint(
            f"https://127.0.0.1:{self.port}", self._authority.ca, self._server.folder / "bin" / "kubectl"
        )
        return ApiClient(site, token, Path(self._folder.name, f"kubeconfig-{namespace}"), namespace)

    def before_write(self, script: Callable[[int, WriteRequest], bool]) -> None:
        """Call ``script`` before each forwarded write, with its number from 1; False breaks the connection."""
        self._before_write = script

    def after_write(self, script: Callable[[int, WriteRequest], bool]) -> None:
        """Call ``script`` after the server has completed each write, before its response is forwarded."""
        self._after_write = script

    def reset(self) -> None:
        """Remove the writes and all scripts."""
        self.writes = []
        self._before_write = self._after_write = lambda number, asked: True
        self.on_watch_event = lambda event: True

    def drop(self) -> None:
        """Break every connection that waits for a response."""
        self._loop.call_soon_threadsafe(self._abort)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()
        self._folder.cleanup()
        if self._failures:
            raise self._failures[0]

    def _abort(self) -> None:
        for transport in [*self._transports]:
            transport.abort()

    async def _run(self) -> None:
        self._loop, self._ended, self._write_lock = asyncio.get_running_loop(), asyncio.Event(), asyncio.Lock()
        self._loop.set_default_executor(ThreadPoolExecutor(16))  # a script may block several at a time
        ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ours.load_cert_chain(self._authority.issue("relay", "127.0.0.1"))
        theirs = ssl.create_default_context(cafile=str(self._server.ca))
        app = web.Application(client_max_size=_MAX_LINE_BYTES)
        app.router.add_route("*", "/{path:.*}", self._serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ours)
        await site.start()
        self.port = int(runner.addresses[0][1])
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=theirs, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=_MAX_LINE_BYTES,
        ) as self._upstream:
            self._started.set()
            await self._ended.wait()
            self._abort()
            await runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        self._transports.add(transport)
        try:
            asks = request.method == "GET" or any(words in request.path for words in _UNCOUNTED_PATHS)
            return await (self._forward(request) if asks else self._write(request))
        except (aiohttp.ClientError, OSError):
            transport.abort()  # as the server or the client closed it
            return web.Response()
        finally:
            self._transports.discard(transport)

    async def _write(self, request: web.Request) -> web.StreamResponse:
        """Forward a write. Raises ``OSError`` if a script requests it."""
        async with self._write_lock:
            asked = WriteRequest(request.method, request.path)
            self.writes.append(asked)
            number = len(self.writes)
            if not await self._run_script(self._before_write, number, asked):
                raise ConnectionResetError
            answer = await self._forward(request)
            if not await self._run_script(self._after_write, number, asked):
                raise ConnectionResetError
            return answer

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        passed = ("Authorization", "Content-Type", "Accept")
        headers = {name: request.headers[name] for name in passed if name in request.headers}
        url, body = f"{self._server.url}{request.path_qs}", await request.read()
        async with self._upstream.request(request.method, url, data=body or None, headers=headers) as answer:
            kind = {"Content-Type": answer.headers.get("Content-Type", "application/json")}
            if answer.status != 200 or "watch" not in request.query:
                return web.Response(status=answer.status, body=await answer.read(), headers=kind)
            stream = web.StreamResponse(headers=kind)
            await stream.prepare(request)
            async for line in answer.content:
                if await self._run_script(self.on_watch_event, json.loads(line)):
                    await stream.write(line)
            return stream

    async def _run_script(self, script: Callable[..., bool], *words: object) -> bool:
        """Return the decision of a script, which may take any time."""
        try:
            return await asyncio.to_thread(script, *words)
        except Exception as error:
            self._failures.append(error)
            return False
