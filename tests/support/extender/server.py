"""An extender for tests: an HTTP server in a thread, whose answers a function chooses."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from podwright.testing import Client


@dataclass(frozen=True)
class Reply:
    """`body`: bytes, or a value that becomes JSON. `delay` in seconds. With `drop`, the connection ends without an
    answer.

    `missing`: how many bytes of the body are announced, but never come.
    """

    body: Any = None
    status: int = 200
    delay: float = 0.0
    drop: bool = False
    missing: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Answer = Callable[[str, Mapping[str, Any]], Reply]
"""`answer(verb, args)`"""


class ExtenderServer:
    """Records every request as (verb, args)."""

    def __init__(self, answer: Answer, ssl_context: Any = None) -> None:
        self.requests: list[tuple[str, Mapping[str, Any]]] = []
        self.connections = 0
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                outer.connections += 1

            def do_POST(self) -> None:
                args = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                verb = urlsplit(self.path).path.strip("/")  # a proxy gets the whole URL
                with outer._lock:
                    outer.requests.append((verb, args))
                    outer._at_once += 1
                    outer.most_at_once = max(outer.most_at_once, outer._at_once)
                try:
                    reply = answer(verb, args)
                    time.sleep(reply.delay)
                finally:
                    with outer._lock:
                        outer._at_once -= 1
                if reply.drop:
                    self.close_connection = True
                    return
                try:
                    self.send_response(reply.status)
                    for name, value in reply.headers.items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(reply.content) + reply.missing))
                    self.end_headers()
                    self.wfile.write(reply.content)
                except OSError:  # the client has given up
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # a client that gives up resets its connection
        scheme = "http"
        if ssl_context is not None:
            self._server.socket = ssl_context.wrap_socket(self._server.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"

    def of(self, verb: str) -> list[Mapping[str, Any]]:
        """The requests of one verb."""
        return [args for each, args in self.requests if each == verb]

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def serving(answer: Answer, ssl_context: Any = None) -> Iterator[ExtenderServer]:
    """The running server."""
    server = ExtenderServer(answer, ssl_context)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def node_names(args: Mapping[str, Any]) -> list[str]:
    """The nodes of ExtenderArgs."""
    if args["NodeNames"] is not None:
        return args["NodeNames"]
    return [node["metadata"]["name"] for node in args["Nodes"]["items"]]


def keep(args: Mapping[str, Any], kept: list[str], failed: Mapping[str, str] | None = None, **more: Any) -> Reply:
    """The filter result that keeps these nodes, in the form of the question."""
    body: dict[str, Any] = {"FailedNodes": dict(failed or {}), **more}
    if args["NodeNames"] is not None:
        body["NodeNames"] = kept
    else:
        body["Nodes"] = {"items": [node for node in args["Nodes"]["items"] if node["metadata"]["name"] in kept]}
    return Reply(body)


def bind(client: Client, args: Mapping[str, Any]) -> None:
    """Binds the pod of ExtenderBindingArgs, in a thread of the server."""
    target = {"apiVersion": "v1", "kind": "Node", "name": args["Node"]}
    metadata = {"name": args["PodName"], "namespace": args["PodNamespace"], "uid": args["PodUID"]}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
    path = f"/api/v1/namespaces/{args['PodNamespace']}/pods/{args['PodName']}/binding"
    try:
        client.request("POST", path, binding)
    finally:
        client.close()
