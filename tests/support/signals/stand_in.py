"""A stand-in for what measures nodes: it serves metrics.k8s.io as an aggregated API, and the same numbers for
Prometheus to scrape.
"""

from __future__ import annotations

import datetime
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from support.serve.certificates import Authority

API = "/apis/metrics.k8s.io/v1beta1"
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "metrics-stand-in", "namespace": "kube-system"},
    "spec": {"type": "ExternalName", "externalName": "localhost"},
}


class StandIn:
    """`cores`: what each node uses. `lie` changes the list that is served; `hanging`: nothing is answered about
    nodes.
    """

    def __init__(self) -> None:
        self.cores: dict[str, float] = {}
        self.lie: Callable[[dict[str, Any]], Any] | None = None
        self.hanging = threading.Event()
        self.closed = threading.Event()
        self.questions = 0
        self.port = 0

    def node_metrics(self) -> Any:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        items = [
            {"metadata": {"name": name}, "timestamp": now, "window": "10s", "usage": {"cpu": f"{int(cores * 1e9)}n"}}
            for name, cores in self.cores.items()
        ]
        found = {"kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}
        return found if self.lie is None else self.lie(found)

    @property
    def exposition(self) -> str:
        lines = [f'node_busy_percent{{node="{name}"}} {10 * cores}\n' for name, cores in self.cores.items()]
        return "# TYPE node_busy_percent gauge\n" + "".join(lines)

    def api_service(self) -> dict[str, Any]:
        """Returns the APIService by which the API server asks this server."""
        return {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": True,
                "service": {"name": SERVICE["metadata"]["name"], "namespace": "kube-system", "port": self.port},
            },
        }


_RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": "metrics.k8s.io/v1beta1",
    "resources": [{"name": "nodes", "singularName": "", "namespaced": False, "kind": "NodeMetrics", "verbs": ["get", "list"]}],
}  # fmt: skip


@contextmanager
def stand_in(authority: Authority, folder: Path) -> Iterator[StandIn]:
    """Serves HTTPS on loopback while the block runs."""
    found = StandIn()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == f"{API}/nodes":
                found.questions += 1
                if found.hanging.is_set():
                    found.closed.wait(60)
                self._say(json.dumps(found.node_metrics()).encode())
            elif path == API:
                self._say(json.dumps(_RESOURCES).encode())
            elif path == "/metrics":
                self._say(found.exposition.encode(), "text/plain; version=0.0.4")
            else:
                self._say(b"{}", status=404)

        def _say(self, body: bytes, kind: str = "application/json", status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.server("localhost").write(folder, "stand-in"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    found.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.closed.set()
        server.shutdown()
        server.server_close()
        thread.join(10)
