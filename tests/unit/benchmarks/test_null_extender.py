"""The null extender: it answers as the protocol wants, whatever the pieces in which a request arrives."""

import socket
import sys
from pathlib import Path

import pytest

from podwright.extender.wire import ExtenderArgs, decode_filter_result, decode_host_priorities, encode
from podwright.testing import Process, wait_until
from podwright.testing.processes import free_port

ROOT = Path(__file__).parents[3]
NAMES = [f"node-{index:05}" for index in range(3000)]
BODY = encode(ExtenderArgs(pod={"metadata": {"name": "asks"}}, node_names=NAMES))


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    port = free_port()
    log = tmp_path_factory.mktemp("null") / "log"
    process = Process(
        "null-extender",
        [sys.executable, "-m", "benchmarks.null_extender", str(port)],
        log,
        {"PYTHONPATH": str(ROOT)},
    )
    process.start()

    def listens():
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    wait_until(listens, 60, "the null extender listens")
    yield "127.0.0.1", port
    process.stop()


def ask(client, verb, pieces):
    head = f"POST /{verb} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\nContent-Type: application/json\r\n\r\n"
    request = head.encode() + BODY
    size = -(-len(request) // pieces)
    for start in range(0, len(request), size):
        client.sendall(request[start : start + size])
    received = b""
    while b"\r\n\r\n" not in received:
        received += client.recv(1 << 16)
    answered, _, body = received.partition(b"\r\n\r\n")
    length = int(answered.lower().partition(b"content-length: ")[2].split()[0])
    while len(body) < length:
        body += client.recv(1 << 16)
    return body


@pytest.mark.parametrize("pieces", [1, 2, 200])
def test_all_nodes_are_kept_and_none_is_scored_on_one_connection(address, pieces):
    with socket.create_connection(address) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(2):
            kept = decode_filter_result(ask(client, "filter", pieces))
            assert list(kept.node_names) == NAMES
            assert not kept.error
            assert decode_host_priorities(ask(client, "prioritize", pieces)) == ()
