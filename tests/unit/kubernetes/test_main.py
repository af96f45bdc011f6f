"""The operator's beginning and end, against an API server that says what a test wants: errors for a person to read."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import click
import kopf
import pytest
from click.testing import CliRunner
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge

from support.checkout import ROOT
from support.kubernetes import resource_bodies
from support.kubernetes.schemas import read_definition
from support.virtual_time import real_time
from support.waiting import wait_until
from topiarist.cli.commands.operator import command
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import client, main
from topiarist.kubernetes.client import ApiError, KubernetesClient, LeaseTimings
from topiarist.kubernetes.main import RECONCILE_TIMEOUT_S, OperatorOptions, Probes, login, run

# What kubelet and Prometheus hear: whether the operator is alive, whether it is ready, its figures, and where.

PLACES = [("", "127.0.0.1"), *([("", "[::1]"), ("::1", "[::1]")] if socket.has_dualstack_ipv6() else [])]

Ask = Callable[[str], Awaitable[tuple[int, str]]]


@asynccontextmanager
async def probed(probes: Probes, host: str = "127.0.0.1", at: str = "") -> AsyncIterator[Ask]:
    """Have it listen on ``host``, and return the way to ask it, at another address if need be."""
    port = await probes.start(host, 0)
    try:
        async with aiohttp.ClientSession(f"http://{at or host}:{port}") as session:

            async def ask(path: str) -> tuple[int, str]:
                async with session.get(path) as answer:
                    return answer.status, await answer.text()

            yield ask
    finally:
        await probes.stop()


@pytest.mark.parametrize("period", [60.0, 7200.0])
@real_time
async def test_alive_is_a_process_whose_passes_end(period: float) -> None:
    """A pass that does not end is named, since only a restart helps. No server has to be reachable for it, and a long
    period is no standstill.
    """
    ended = {"prod": time.monotonic(), "test": time.monotonic()}
    probes = Probes(CollectorRegistry(), ended.items, list, period)

    async with probed(probes) as ask:
        assert await ask("/healthz") == (200, "ok\n")
        ended["test"] -= 1.1 * period
        assert await ask("/healthz") == (200, "ok\n")
        ended["test"] -= RECONCILE_TIMEOUT_S
        assert await ask("/healthz") == (500, "no reconciliation has completed for too long: test\n")


@real_time
async def test_ready_is_what_may_do_its_work() -> None:
    """Everything is listed, and nothing is lacking; what is lacking is named, each in a line. The operator is alive all
    the same, since a restart does not help.
    """
    problems = ["missing rights: patch topics", "no definition of topics"]
    probes = Probes(CollectorRegistry(), lambda: (), lambda: problems, 60.0)

    async with probed(probes) as ask:
        assert await ask("/readyz") == (503, "not everything is listed yet\n")
        assert (await ask("/healthz"))[0] == 200
        probes.ready = True
        assert await ask("/readyz") == (503, "missing rights: patch topics\nno definition of topics\n")
        assert (await ask("/healthz"))[0] == 200
        problems.clear()
        assert await ask("/readyz") == (200, "ok\n")


@real_time
async def test_figures_are_given() -> None:
    """In the form that Prometheus reads."""
    registry = CollectorRegistry()
    Gauge("topiarist_some", "Some.", registry=registry).set(7)

    probes = Probes(registry, lambda: (), list, 60.0)
    port = await probes.start("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/metrics") as answer:
            assert answer.headers["Content-Type"] == CONTENT_TYPE_LATEST
            assert "\ntopiarist_some 7.0\n" in await answer.text()
    finally:
        await probes.stop()


@pytest.mark.parametrize(("host", "at"), PLACES)
@real_time
async def test_it_listens_where_it_is_asked(host: str, at: str) -> None:
    """Without a host on all addresses: a pod may have one of IPv6 alone."""

    async with probed(Probes(CollectorRegistry(), lambda: (), list, 60.0), host, at) as ask:
        assert (await ask("/healthz"))[0] == 200


REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

Answer = Callable[[str, Any], tuple[int, Any]]


class _Handler(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        path, _, query = self.path.partition("?")
        code, given = self.server.answer(path, body)  # type: ignore[attr-defined]
        data = b"" if "watch=true" in query else json.dumps(given).encode()  # a watch without an event ends at once
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = do_PUT = _answer  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Nothing: the test's output is for the operator."""


class Fake:
    """An API server in a thread with answers from the test."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.answer: Answer = lambda _path, _body: (404, {"message": "the server could not find it"})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.answer = self._answered  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def _answered(self, path: str, body: Any) -> tuple[int, Any]:
        self.asked.append((path, body))
        return self.answer(path, body)

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fake]:
    """An API server that the operator logs in to."""
    server = Fake()
    config = {
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server.url}}],
        "users": [{"name": "test", "user": {"token": "t"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setattr(main, "configure_logging", lambda *_: None)  # what pytest has set up stays
    yield server
    server.close()


def words(**more: Any) -> OperatorOptions:
    """The operator in the namespace ``shop``."""
    return OperatorOptions("shop", host="127.0.0.1", port=0, **more)


def allowing(body: Any, *missing: str) -> tuple[int, Any]:
    """The answer to a review: everything may be done but these verbs on resources."""
    asked = body["spec"]["resourceAttributes"]
    what = f"{asked['verb']} {asked['resource']}{'/' if asked['subresource'] else ''}{asked['subresource']}"
    return 201, {"status": {"allowed": what not in missing}}


def test_every_missing_right_is_named_at_once(fake: Fake) -> None:
    """In one message, before anything is looked at; what a watched namespace lacks is no reason to end."""
    missing = ("patch topics/status", "get customresourcedefinitions", "create events")
    fake.answer = lambda path, body: allowing(body, *missing) if path == REVIEWS else (500, {})
    with pytest.raises(TopiaristError) as caught:
        run(words(namespaces=("shop", "pay")))
    assert caught.value.reason is Reason.NO_PERMISSION
    message = str(caught.value)
    for right in (
        "patch topics/status.topiarist.dev in namespace shop",
        "get customresourcedefinitions.apiextensions.k8s.io topics.topiarist.dev in all namespaces",
        "create events in namespace shop",
    ):
        assert right in message
    assert "namespace pay" not in message
    assert "the chart's Roles" in message
    assert {path for path, _ in fake.asked} == {REVIEWS}


def test_a_lease_needs_rights_only_where_it_is_used(fake: Fake) -> None:
    """A single replica does without."""
    fake.answer = lambda path, body: allowing(body, "update leases") if path == REVIEWS else (404, {"message": "no"})
    with pytest.raises(TopiaristError) as caught:
        run(words(leader_election=True))
    assert "update leases.coordination.k8s.io topiarist in namespace shop" in str(caught.value)
    with pytest.raises(TopiaristError) as caught:
        run(words())
    assert caught.value.reason is not Reason.NO_PERMISSION


def test_definitions_that_are_not_installed_are_said(fake: Fake) -> None:
    """As one error with what to do, and no trace of where in the program it came from."""
    fake.answer = lambda path, body: (
        allowing(body)
        if path == REVIEWS
        else (200, {"metadata": {"uid": "1b4e28ba-2fa1"}, "items": []})
        if path.endswith(("/namespaces", "/kube-system"))
        else (404, {"message": "not found"})
    )
    with pytest.raises(TopiaristError) as caught:
        run(words())
    assert caught.value.reason is Reason.PREREQUISITE_MISSING
    assert "kubectl apply --server-side -f manifests/crds" in str(caught.value)


def test_an_api_server_that_does_not_answer_is_waited_for(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Already at the start, with a word in the log; then the operator goes on."""
    monkeypatch.setattr(main, "RETRY_DELAY_S", 0.0)
    times: list[int] = []

    def slow(path: str, body: Any) -> tuple[int, Any]:
        times.append(1)
        if len(times) <= 40:
            return 503, {"message": "starting"}
        return allowing(body) if path == REVIEWS else (403, {"message": "namespaces is forbidden"})

    fake.answer = slow
    with caplog.at_level(logging.WARNING), pytest.raises(TopiaristError) as caught:
        run(words())
    assert caught.value.reason is Reason.NO_PERMISSION
    assert "the API server does not answer" in caplog.text


def test_who_has_no_account_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither a pod's nor a person's, or a file that is not there."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(main, "configure_logging", lambda *_: None)
    for config in ("", str(tmp_path / "none")):
        monkeypatch.setenv("KUBECONFIG", config)
        with pytest.raises(TopiaristError) as caught:
            run(words())
        assert caught.value.reason is Reason.CREDENTIALS_INVALID
        assert "set KUBECONFIG" in str(caught.value)


def test_a_kubeconfig_that_cannot_be_read_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The error has the cause of the system, and the hint what to do."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path))
    with pytest.raises(TopiaristError, match=r"^the kubeconfig cannot be used: ") as caught:
        login()
    assert str(tmp_path) in caught.value.message
    assert caught.value.hint == "set KUBECONFIG to a file that kubectl can use"


CLUSTER = "contexts: [{name: x, context: {cluster: c, user: u}}]\nusers: [{name: u}]\nclusters: [{name: c, cluster: "


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "ParserError: "),
        ("a: \xff", "UnicodeDecodeError: "),
        ("current-context: x", "KeyError: 'x'"),
        (f"current-context: x\n{CLUSTER}{{}}}}]", "found server None, wanted an address such as "),
        (f"current-context: x\n{CLUSTER}{{server: a b}}}}]", "found server a b, wanted an address such as "),
        (
            f"current-context: x\n{CLUSTER}{{server: 'https://localhost', certificate-authority-data: YWJj}}}}]",
            "no start line",
        ),
    ],
)
def test_a_kubeconfig_that_is_none_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, words: str
) -> None:
    """Whatever is wrong with the file or its certificates is one line, and no traceback."""
    path = tmp_path / "config"
    path.write_bytes(text.encode("latin-1"))
    monkeypatch.setenv("KUBECONFIG", str(path))
    with pytest.raises(TopiaristError, match=r"^the kubeconfig cannot be used: ") as caught:
        login()
    assert words in caught.value.message
    assert "\n" not in caught.value.message


@real_time
async def test_an_address_that_is_taken_is_told() -> None:
    """The error names the address, and the option that changes it."""
    probes = Probes(CollectorRegistry(), lambda: (), list, 60.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            TopiaristError, match=f"cannot listen on port {port} of 127.0.0.1: Address already"
        ) as caught:
            await probes.start("127.0.0.1", port)
    await probes.stop()
    assert (caught.value.reason, caught.value.hint) == (Reason.WRONG_USAGE, "give another address: --listen")


def test_the_end_of_the_operator_ends_kopf() -> None:
    """Also if no signal has ended it: kopf would wait for a task of its own."""

    async def play() -> bool:
        operator = main._Operator(words())
        await operator.end()
        return operator.stopping.is_set()

    assert asyncio.run(play())


def test_the_log_has_the_requested_form_and_garbage_is_collected(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logging is configured before anything is logged. The command line does without the collection, since it is
    short-lived; an operator that lives for months must not.
    """
    configured: list[tuple[str, ...]] = []
    monkeypatch.setattr(main, "configure_logging", lambda *options: configured.append(options))
    fake.answer = lambda _path, _body: (403, {"message": "forbidden"})
    gc.disable()
    try:
        with pytest.raises(TopiaristError):
            run(words(log_format="text", log_level="warning"))
        assert (gc.isenabled(), configured) == (True, [("text", "warning")])
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0.0.0.0:8080", ("0.0.0.0", 8080)),
        ("localhost:0", ("localhost", 0)),
        (":65535", ("", 65_535)),
        ("[::1]:8080", ("::1", 8080)),
        ("[::ffff:127.0.0.1]:1", ("::ffff:127.0.0.1", 1)),
    ],
)
def test_where_it_listens(text: str, wanted: tuple[str, int]) -> None:
    """A host of IPv4, by name or by number, or one of IPv6 in brackets; all addresses without any."""
    assert command.make_context("operator", ["--listen", text]).params["listen"] == wanted


@pytest.mark.parametrize("text", ["8080", "::1:8080", "[::1]", "::", "[]:80", "[x]:80", "a b:80", "a:65536", "a:b"])
def test_where_nobody_can_listen(text: str) -> None:
    """The error has both valid forms."""
    with pytest.raises(click.BadParameter) as caught:
        command.make_context("operator", ["--listen", text])
    assert "wanted HOST:PORT, such as 127.0.0.1:8080, [::1]:8080 or :8080" in caught.value.message


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_a_standby(
    number: signal.Signals, code: int, fake: Fake, caplog: pytest.LogCaptureFixture
) -> None:
    """At once, without a Lease and without a watch; Ctrl-C has an exit code of its own. Until then it is ready."""
    asked, found = threading.Event(), list[str]()

    def answer(path: str, body: Any) -> tuple[int, Any]:
        if path == REVIEWS:
            return allowing(body)
        if path.endswith("/leases/topiarist"):
            asked.set()
            return 200, {"spec": {"holderIdentity": "another", "leaseDurationSeconds": 15}}
        return 500, {"message": "nothing else is asked"}

    def strike() -> None:
        try:
            assert asked.wait(60)
            wait_until(lambda: "waiting for the Lease" in caplog.messages, "the holder is logged")
            (port,) = (vars(record)["port"] for record in caplog.records if record.message == "listening")
            found.extend([scraped(port, "readyz"), scraped(port, "metrics")])
        finally:
            os.kill(os.getpid(), number)

    fake.answer = answer
    striking = threading.Thread(target=strike)
    striking.start()
    with caplog.at_level(logging.INFO):
        assert run(words(leader_election=True, owner="k8s/shop")) == code
    striking.join()
    ready, metrics = found
    assert ready == "ok\n"
    assert 'leader_election_master_status{name="topiarist"} 0.0' in metrics
    assert [vars(each)["holder"] for each in caplog.records if each.message == "waiting for the Lease"] == ["another"]
    assert {path.rpartition("/")[2] for path, _ in fake.asked} == {"selfsubjectaccessreviews", "topiarist"}


def test_a_lease_has_the_configured_times(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is that of the release in the operator's namespace, and this process has a name of its own."""
    made: list[tuple[Any, ...]] = []

    def make(_api: KubernetesClient, *given: Any) -> Any:
        made.append(given)
        raise TopiaristError(Reason.UNREACHABLE, "that is enough")

    monkeypatch.setattr(client, "Lease", make)
    fake.answer = lambda path, body: allowing(body) if path == REVIEWS else (500, {})
    times = {"lease_duration": 60.0, "lease_renewal": 40.0, "lease_retry": 5.0}
    with pytest.raises(TopiaristError, match="that is enough"):
        run(words(leader_election=True, owner="k8s/shop", release="blue", **times))
    ((namespace, name, instance, timings),) = made
    assert (namespace, name, timings) == ("shop", "blue", LeaseTimings(60.0, 40.0, 5.0))
    assert instance.startswith(f"{socket.gethostname()}_")


def test_a_failure_of_a_background_task_ends_the_operator_and_its_end_does_not() -> None:
    """Tasks are cancelled at the end of the operator, which is no error and leaves nothing in the log of the loop."""

    async def fail() -> None:
        raise ValueError("a mistake of ours")

    async def play() -> None:
        problems: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        operator = main._Operator(words())
        operator._spawn(asyncio.sleep(3600))
        (task,) = operator._tasks
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0)
        assert (problems, operator._tasks, operator.error, operator.stopping.is_set()) == ([], set(), None, False)
        operator._spawn(fail())
        await operator.stopping.wait()
        assert (problems, operator._tasks, str(operator.error)) == ([], set(), "a mistake of ours")

    asyncio.run(play())


def test_every_request_is_counted(fake: Fake) -> None:
    """By its method and answer, also one without any."""

    async def ask() -> KubernetesClient:
        async with KubernetesClient(login) as api:
            fake.answer = lambda path, body: (200, {}) if path == "/yes" else (503, {"message": "no"})
            await api.get("/yes")
            for path in ("/no", "/no"):
                with pytest.raises(ApiError):
                    await api.patch(path, {})
            fake.close()
            with pytest.raises(ApiError):
                await api.get("/yes")
        return api

    found = asyncio.run(ask()).requests
    assert found == {("GET", "200"): 1, ("PATCH", "503"): 2, ("GET", "<error>"): 1}


@pytest.mark.parametrize(
    ("terms", "wrong"),
    [
        ((), False),
        (("--lease-duration", "60", "--lease-renewal", "40", "--lease-retry", "5"), False),
        (("--lease-duration", "10"), True),
        (("--lease-retry", "10"), True),
        (("--lease-renewal", "20"), True),
    ],
)
def test_the_times_of_a_lease_fit_together(
    terms: tuple[str, ...], wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two replicas work at a time, or none keeps its Lease; the log level is a setting too."""
    given: list[OperatorOptions] = []

    def kept(found: OperatorOptions) -> int:
        given.append(found)
        return 0

    monkeypatch.setattr(main, "run", kept)
    monkeypatch.setenv("TOPIARIST_LOG_LEVEL", "warning")
    found = CliRunner().invoke(command, ["--namespace", "shop", *terms])
    if wrong:
        assert found.exit_code == 2
        assert "wanted --lease-retry < --lease-renewal < --lease-duration" in found.output
    else:
        assert given[0].log_level == "warning"
        assert (given[0].lease_duration, given[0].lease_retry) == ((60, 5.0) if terms else (15, 2.0))
        assert terms or given[0] == OperatorOptions("shop", log_level="warning")
        assert OperatorOptions("shop").log_level == "info"


def test_whose_topics_count() -> None:
    """Without namespaces those of all; the operator's own always."""
    assert words().watched_namespaces == ()
    assert words(namespaces=("pay", "shop")).watched_namespaces == ("pay", "shop")
    assert words(namespaces=("pay",)).watched_namespaces == ("pay", "shop")


def test_two_kubernetes_clusters_are_two_owners(fake: Fake, caplog: pytest.LogCaptureFixture) -> None:
    """The owner has the uid of kube-system, unless it is configured; without the uid, the log has the reason."""

    def answer(path: str, body: Any) -> tuple[int, Any]:
        if path == REVIEWS:
            return allowing(body)
        if path.endswith("/kube-system"):
            return 200, {"metadata": {"uid": uids[-1]}}
        return 403, {"message": "that is enough"}

    fake.answer = answer
    owners, uids = [], [""]
    for uid, more in (("1b4e28ba-2fa1", {}), ("7d4448ba-9840", {}), ("", {"owner": "k8s/old/shop/blue"})):
        caplog.clear()
        uids.append(uid)
        with caplog.at_level(logging.INFO), pytest.raises(TopiaristError):
            run(words(release="blue", **more))
        owners += [vars(record)["owner"] for record in caplog.records if record.message == "serving"]
    assert owners == ["k8s/1b4e28ba/shop/blue", "k8s/7d4448ba/shop/blue", "k8s/old/shop/blue"]
    reviewed = [body["spec"]["resourceAttributes"] for path, body in fake.asked if path == REVIEWS]
    assert [each.get("name") for each in reviewed].count("kube-system") == 2  # no right that is not needed
    fake.answer = lambda path, body: allowing(body) if path == REVIEWS else (404, {"message": "not found"})
    with pytest.raises(TopiaristError) as caught:
        run(words())
    assert caught.value.reason is Reason.PREREQUISITE_MISSING
    assert "no namespace kube-system" in caught.value.message
    assert "--owner" in caught.value.hint


@pytest.mark.parametrize("option", ["--namespace", "--watch-namespace", "--release", "--class"])
def test_a_name_is_one_that_kubernetes_has(option: str) -> None:
    """Otherwise nothing of the name would be found, or no process could hold its Lease, without an error."""
    for text in ("a b", "A", "a/b", "-a"):
        with pytest.raises(click.BadParameter, match=f'found "{text}", wanted a-z, 0-9, - and '):
            command.make_context("operator", [f"{option}={text}"])
    assert command.make_context("operator", [f"{option}=team-a.1"]).params


@pytest.mark.parametrize("text", ["default", "k8s/a b", "k8s/" + "a" * 200])
def test_an_owner_that_no_operator_has(text: str) -> None:
    """It is k8s/ and more: else a command line could use it too."""
    with pytest.raises(click.BadParameter):
        command.make_context("operator", ["--owner", text])


VERSION = {"groupVersion": "topiarist.dev/v1", "version": "v1"}
CLUSTERS = {"name": "clusters", "singularName": "cluster", "kind": "Cluster", "namespaced": True}
EVENTS = {"name": "events", "singularName": "event", "kind": "Event", "namespaced": True, "verbs": ["create"]}
KINDS: dict[str, dict[str, Any]] = {
    "/api": {"versions": ["v1"]},
    "/api/v1": {"resources": [EVENTS]},
    "/apis": {"groups": [{"name": "topiarist.dev", "versions": [VERSION], "preferredVersion": VERSION}]},
    "/apis/topiarist.dev/v1": {"resources": [{**CLUSTERS, "verbs": ["list", "watch"]}]},
}
"""The kinds that kopf looks for."""


DEFINITIONS = [read_definition(f"{plural}.topiarist.dev") for plural in ("clusters", "policies", "topics")]


class Kubernetes:
    """The answers of an API server with one Cluster and one Lease, which keep what is written."""

    def __init__(self) -> None:
        self.clusters = {"prod": resource_bodies.body("Cluster", "prod", {"kafkaVersion": "never"})}
        self.lease: dict[str, Any] | None = None
        self.is_written = threading.Event()

    def answer(self, path: str, body: Any) -> tuple[int, Any]:
        """Return the answer to a request."""
        name = path.rpartition("/")[2]
        if path == REVIEWS:
            return allowing(body)
        if path in KINDS:
            return 200, KINDS[path]
        if "/leases" in path:
            self.lease = body or self.lease
            return (200, self.lease) if self.lease else (404, {"message": "not found"})
        if path.endswith("/status"):
            name = path.split("/")[-2]
            self.clusters[name] = {**self.clusters[name], "status": body["status"]}
            self.is_written.set()
        if name in self.clusters:
            return 200, self.clusters[name]
        listed: dict[str, Any] = {"metadata": {"resourceVersion": "1"}, "items": []}
        if path.endswith("/customresourcedefinitions"):
            listed["items"] = DEFINITIONS
        if path.endswith("/namespaces/shop/clusters"):
            listed["items"] = [*self.clusters.values()]
        return 200, listed


def scraped(port: int, path: str) -> str:
    """Return what the operator serves; an error if it is not ready."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}") as answer:
        return str(answer.read().decode())


def test_an_operator_serves_until_it_is_ended(
    fake: Fake, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It acquires the Lease, lists everything, is ready, writes statuses, watches its permissions, and releases the
    Lease at its end.
    """
    watched: list[object] = []

    monitor_rights = client.monitor_rights

    async def monitor(api: KubernetesClient, rights: Any, on_checked: Any) -> None:
        watched.append(rights)
        await monitor_rights(api, rights, on_checked)

    monkeypatch.setattr(client, "monitor_rights", monitor)
    kubernetes, found = Kubernetes(), dict[str, str]()
    fake.answer = kubernetes.answer

    def end() -> None:
        try:
            assert kubernetes.is_written.wait(60)
            (port,) = (vars(record)["port"] for record in caplog.records if record.message == "listening")
            found.update({path: scraped(port, path) for path in ("readyz", "healthz", "metrics")})
            assert kubernetes.lease
            found["holder"] = kubernetes.lease["spec"]["holderIdentity"]
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    ending = threading.Thread(target=end)
    ending.start()
    with caplog.at_level(logging.INFO):
        code = run(words(release="blue", owner="k8s/shop/blue", leader_election=True, operator_class=""))
    ending.join()
    assert code == 0
    for each in kubernetes.clusters.values():
        status = each["status"]
        assert (status["operator"], status["conditions"][0]["reason"]) == ("k8s/shop/blue", "InvalidManifest")
    assert (found["readyz"], found["healthz"]) == ("ok\n", "ok\n")
    assert 'leader_election_master_status{name="blue"} 1.0' in found["metrics"]
    assert found["holder"].startswith(f"{socket.gethostname()}_")
    assert kubernetes.lease is not None
    assert kubernetes.lease["metadata"] == {"name": "blue"}
    assert (kubernetes.lease["spec"]["holderIdentity"], kubernetes.lease["spec"]["leaseDurationSeconds"]) == ("", 1)
    reviewed = {body["spec"]["resourceAttributes"]["resource"] for path, body in fake.asked if path == REVIEWS}
    assert "leases" in reviewed
    assert len(watched) == 1
    assert not any(path.endswith("/kube-system") for path, _ in fake.asked)
    messages = [record.message for record in caplog.records if record.name == main.__name__]
    assert messages == ["listening", "serving", "the Lease is acquired"]


def test_a_process_that_lost_its_lease_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with an error and without any further write, because another replica may be at work already."""
    ended: list[int | str] = []

    class Lost:
        async def renew_until_lost(self) -> None:
            ended.append("lost")

    monkeypatch.setattr(os, "_exit", ended.append)
    asyncio.run(main._hold_lease(Lost()))  # type: ignore[arg-type]
    assert ended == ["lost", 1]


def handle(handler: Any, operator: object, **words: Any) -> Coroutine[Any, Any, None]:
    """Return the call of one of kopf's handlers, with only the arguments that it uses."""
    called: Coroutine[Any, Any, None] = handler(memo=kopf.Memo(operator=operator), **words)
    return called


class Beginning:
    """An operator that begins, or fails to."""

    instance = "host_1"

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.has_begun = False

    async def begin(self) -> None:
        """Begin."""
        self.has_begun = True
        if self.error:
            raise self.error


def test_no_outage_ends_kopf() -> None:
    """kopf retries without end, watches no definitions, and posts Events in the name of the operator."""
    settings, operator = kopf.OperatorSettings(), Beginning()
    asyncio.run(handle(main.begin, operator, settings=settings))
    assert operator.has_begun
    assert [*islice(settings.networking.error_backoffs, 1000)] == [2.0] * 1000  # type: ignore[arg-type]
    assert (settings.networking.request_timeout, settings.networking.connect_timeout) == (30, 10)
    assert (settings.watching.server_timeout, settings.watching.inactivity_timeout) == (600, 90)
    assert settings.scanning.disabled
    posting = settings.posting
    assert (posting.reporting_component, posting.reporting_instance) == ("topiarist.dev/operator", "host_1")
    assert posting.event_name_prefix == "topiarist-"
    assert [*posting.default_backoffs] == [1, 2, 4, 8]  # type: ignore[misc]
    assert (posting.worker_limit, posting.idle_timeout) == (8, 0.01)


def test_an_operator_that_cannot_begin_is_not_begun_again() -> None:
    """kopf would repeat the handler; the error is final, and has the text of its cause."""
    operator = Beginning(TopiaristError(Reason.NO_PERMISSION, "may not list topics"))
    with pytest.raises(kopf.PermanentError, match="may not list topics"):
        asyncio.run(handle(main.begin, operator, settings=kopf.OperatorSettings()))


@pytest.mark.parametrize("kind", [None, "ADDED", "MODIFIED", "DELETED"])
def test_events_of_clusters_reach_the_informers(kind: str | None) -> None:
    """Each event of the watch and of its first list is passed on; from the first one on, Events can be posted."""
    found: list[Any] = []
    operator = SimpleNamespace(
        events=SimpleNamespace(attach=lambda: found.append("attach")),
        informers=SimpleNamespace(clusters=SimpleNamespace(handle=found.append)),
    )
    plain: Any = resource_bodies.body("Cluster", "prod", {})
    asyncio.run(handle(main.on_cluster, operator, type=kind, body=kopf.Body(plain)))
    assert found == ["attach", {"type": kind, "object": plain}]


def test_kopf_watches_clusters_alone() -> None:
    """Informers watch all other kinds; a start that fails is not repeated by kopf."""
    registry = vars(kopf.get_default_registry())
    (watching,) = registry["_watching"].get_all_handlers()
    assert (watching.fn, watching.selector.group, watching.selector.version) == (main.on_cluster, "topiarist.dev", "v1")
    assert watching.selector.any_name == "clusters"
    activities = {handler.fn: handler for handler in registry["_activities"].get_all_handlers()}
    assert {main.begin, main.login, main.end} <= activities.keys()
    assert activities[main.begin].errors is kopf.ErrorsMode.PERMANENT


# The operator's log: one JSON object a line for machines, lines for people; and how it writes times.

PROGRAM = """
import logging, sys
from topiarist.kubernetes import client, main
main.configure_logging(*sys.argv[1:])
log = logging.getLogger("topiarist.kubernetes.manager")
log.info("done", extra={"cluster": "prod", "topic": "orders"})
log.debug("never")
log.warning("two\\nlines and \\u202e")
try:
    raise ValueError("a mistake\\nof ours")
except ValueError:
    log.exception("a pass has failed")
logging.getLogger("kopf.objects").info("noise")
logging.getLogger("kopf._cogs.clients.watching").error("a watch has failed")
logging.getLogger("kazoo.client").error("noise")
"""


def logged(*words: str, program: str = PROGRAM) -> list[str]:
    """The lines that a program logs; all on standard error."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "operator")}
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_every_line_is_one_object() -> None:
    """With time, level and logger, what else is known of it, and a traceback as one text."""
    found = [json.loads(line) for line in logged("json")]
    assert [each["message"] for each in found] == [
        "done",
        "two\nlines and \u202e",
        "a pass has failed",
        "a watch has failed",
    ]
    assert [each["level"] for each in found] == ["INFO", "WARNING", "ERROR", "ERROR"]
    assert {each["logger"] for each in found[:3]} == {"topiarist.kubernetes.manager"}
    assert (found[0]["cluster"], found[0]["topic"]) == ("prod", "orders")
    assert "ValueError: a mistake" in found[2]["exception"]
    for each in found:
        assert datetime.fromisoformat(each["time"])


def test_lines_for_people() -> None:
    """With what else is known at their end."""
    first, *others = logged("text")
    assert first.endswith(" INFO done cluster=prod topic=orders")
    assert not any("noise" in line or "never" in line for line in others)


def test_only_errors_are_logged_if_no_more_is_asked_for() -> None:
    """Of kopf too."""
    program = f'{PROGRAM}logging.getLogger("kopf.objects").warning("noise")'
    assert [line for line in logged("text", "error", program=program) if "noise" in line or "WARNING" in line] == []


def test_a_record_that_another_handler_has_formatted_gets_the_same_line() -> None:
    """The fields that formatting adds to a record are not appended as known of it."""
    record = logging.makeLogRecord({"msg": "done", "cluster": "prod"})
    logging.Formatter("%(asctime)s %(message)s").format(record)
    assert main._TextFormatter("%(message)s").format(record) == "done cluster=prod"


@pytest.mark.parametrize(
    ("level", "messages"),
    [
        pytest.param("debug", ["done", "never", "two", "a pass", "a watch"], marks=pytest.mark.slow),
        ("warning", ["two", "a pass", "a watch"]),
        pytest.param("error", ["a pass", "a watch"], marks=pytest.mark.slow),
    ],
)
def test_the_level_is_a_setting(level: str, messages: list[str]) -> None:
    """What is below it is not logged; others' noise never is."""
    found = [json.loads(line)["message"] for line in logged("json", level)]
    assert [text for text in messages if not any(each.startswith(text) for each in found)] == []
    assert len(found) == len(messages)


def test_nothing_else_is_written_where_the_log_goes() -> None:
    """No module of the operator prints."""
    folder = Path(ROOT, "operator", "topiarist", "kubernetes")
    assert [path.name for path in folder.glob("*.py") if "print(" in path.read_text()] == []
