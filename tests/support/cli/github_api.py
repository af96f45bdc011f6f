"""A fake GitHub API on the loopback interface with comments, runs, artifacts and a log of all requests."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

REPOSITORY = "shop/topics"
TOKEN = "ghs_0123456789abcdefSECRET"
BOT = "github-actions[bot]"


class Request(NamedTuple):
    """A received request: method, path without the query, query, headers by lower-case name, and body."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any


class GitHubResponse(NamedTuple):
    """A response: a status, plain values or bytes, and further headers."""

    status: int
    content: Any = None
    headers: Mapping[str, str] = {}


@dataclass
class FakeGitHubApi:
    """A fake repository that answers API requests; ``failures`` answer a method for every path.

    A page has ``page`` comments, because GitHub may return fewer than a client requests.
    """

    comments: list[dict[str, Any]] = field(default_factory=list)
    get_responses: dict[str, Any] = field(default_factory=dict)
    failures: dict[str, GitHubResponse] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    page_size: int = 100

    def __enter__(self) -> FakeGitHubApi:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("content-length", 0))
                raw = self.rfile.read(length)
                split = urlsplit(self.path)
                query = {name: values[0] for name, values in parse_qs(split.query).items()}
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.command, split.path, query, headers, json.loads(raw) if raw else None)
                api.requests.append(request)
                status, content, more = api.respond(request)
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in more.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PATCH = do_PUT = answer  # noqa: N815

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def address(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def add_comment(self, body: str, author: str = BOT) -> int:
        """Add a comment of another user and return its number."""
        number = 1000 + len(self.comments)
        self.comments.append({"id": number, "body": body, "user": {"login": author}})
        return number

    def respond(self, request: Request) -> GitHubResponse:
        """Return the response that GitHub would send."""
        if failure := self.failures.get(request.method):
            return failure
        if request.path in self.get_responses:
            found = self.get_responses[request.path]
            return found if isinstance(found, GitHubResponse) else GitHubResponse(200, found)
        head = f"/repos/{REPOSITORY}/issues"
        if request.path == f"{head}/7/comments":
            return self._post(request) if request.method == "POST" else self._list(request)
        if request.method == "PATCH" and request.path.startswith(f"{head}/comments/"):
            return self._patch(request)
        return GitHubResponse(404, {"message": "Not Found"})

    def _list(self, request: Request) -> GitHubResponse:
        number = int(request.query["page"])
        size = min(self.page_size, int(request.query["per_page"]))
        more = len(self.comments) > number * size
        link = (
            {"Link": f'<{self.address}/elsewhere?page=9>; rel="next", <{self.address}/x>; rel="last"'} if more else {}
        )
        return GitHubResponse(200, self.comments[(number - 1) * size : number * size], link)

    def _post(self, request: Request) -> GitHubResponse:
        self.add_comment(request.body["body"])
        return GitHubResponse(201, self.comments[-1])

    def _patch(self, request: Request) -> GitHubResponse:
        number = int(request.path.rpartition("/")[2])
        for comment in self.comments:
            if comment["id"] == number:
                comment["body"] = request.body["body"]
                return GitHubResponse(200, comment)
        return GitHubResponse(404, {"message": "Not Found"})


def zip_files(files: Mapping[str, str]) -> bytes:
    """Return the archive of an artifact with these files."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as found:
        for name, text in files.items():
            found.writestr(name, text)
    return packed.getvalue()
