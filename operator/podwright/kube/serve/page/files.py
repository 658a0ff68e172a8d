"""The files of the page, from the package: read once, sent compressed, with headers that let the browser load nothing
from elsewhere.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib import resources
from typing import Final

from aiohttp import web

from podwright.core.objects.dataclass import dataclass

INDEX: Final = "index.html"
TYPES: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file: its type, its text as it is and compressed, and a tag that changes with it."""

    content_type: str
    body: bytes
    compressed: bytes
    tag: str


@cache
def files() -> dict[str, PageFile]:
    """By name."""
    found = {}
    for entry in resources.files("podwright.kube.serve.page").joinpath("static").iterdir():
        kind = TYPES.get(entry.name.rpartition(".")[2])
        if kind is not None:
            body = entry.read_bytes()
            tag = hashlib.sha256(body).hexdigest()[:16]
            found[entry.name] = PageFile(kind, body, gzip.compress(body, mtime=0), f'"{tag}"')
    return found


async def send_file(request: web.Request) -> web.Response:
    """The handler of the files. The browser asks each time whether a file has changed."""
    file = files().get(request.match_info.get("name") or INDEX)
    if file is None:
        raise web.HTTPNotFound
    headers = {**HEADERS, "ETag": file.tag}
    if request.headers.get("If-None-Match") == file.tag:
        return web.Response(status=304, headers=headers)
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return web.Response(body=file.compressed, content_type=file.content_type, charset="utf-8", headers=headers)
    return web.Response(body=file.body, content_type=file.content_type, charset="utf-8", headers=headers)
