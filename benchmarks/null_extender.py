"""A scheduler extender that decides nothing: `filter` keeps all nodes, and `prioritize` scores none.

It reads no JSON: the answer of `filter` is the end of the request, from the names of nodes on. What kube-scheduler
keeps of its rate beside it is the limit for any extender on this machine. Run it as a process: `python -m
benchmarks.null_extender PORT`.
"""

import re
import socket
import sys
from threading import Thread
from typing import Final

RECEIVED_BYTES: Final = 1 << 18
_LENGTH: Final = re.compile(rb"\r\nContent-Length: ([0-9]+)\r\n", re.IGNORECASE)
_NAMES: Final = b'"NodeNames":'
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"


def serve(port: int) -> None:
    """Answer on loopback until the process ends. Each connection has a thread: one that waits in `recv` costs less than
    an event loop.
    """
    with socket.create_server(("127.0.0.1", port)) as server:
        while True:
            connection, _address = server.accept()
            Thread(target=_answer_all, args=(connection,), daemon=True).start()


def _answer_all(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        while request := _receive(connection):
            body = answer(request)
            connection.sendall(_HEAD % (len(body), body))


def _receive(connection: socket.socket) -> bytes:
    """The next request, which the client sends only after the answer to the one before; empty when it has closed the
    connection.
    """
    request = b""
    while chunk := connection.recv(RECEIVED_BYTES):
        request += chunk
        body_at = request.find(b"\r\n\r\n") + 4
        length = _LENGTH.search(request, 0, body_at)
        if body_at > 3 and (length is None or len(request) - body_at >= int(length[1])):
            return request
    return b""


def answer(request: bytes) -> bytes:
    """The body of the answer. `request`: its head and its body, which ends with the names, as kube-scheduler writes it
    with nodeCacheCapable.
    """
    if request.startswith(b"POST /filter "):
        return b"{" + request[request.index(_NAMES) :]
    return b"[]"


if __name__ == "__main__":
    serve(int(sys.argv[1]))
