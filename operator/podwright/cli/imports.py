"""Imports that cost less: without garbage collection, because what modules define stays until the process ends, and
without certificates that only later connections need.
"""

from __future__ import annotations

import gc
import ssl
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """A context without garbage collection. All objects that exist at its end are excluded from later collections. For
    imports, which leave no garbage: the collector would examine some 80,000 objects again and again, which takes a
    tenth of the start.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


class _LateAuthorities(ssl.SSLContext):
    """Loads the system's certificate authorities at its first connection."""

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        self.__class__ = ssl.SSLContext  # type: ignore[assignment]  # the same layout
        self.set_default_verify_paths()
        return self.wrap_bio(incoming, outgoing, server_side, server_hostname, session)


def import_aiohttp() -> None:
    """Imports aiohttp, whose two TLS contexts load the system's certificate authorities meanwhile: a fifteenth of the
    start. Connections to the API server have contexts of their own, so these two load them when they are used.
    """
    late: list[ssl.SSLContext] = []

    def note(context: ssl.SSLContext) -> None:
        late.append(context)

    ssl.SSLContext.set_default_verify_paths = note  # type: ignore[assignment, method-assign]
    try:
        import aiohttp  # noqa: F401, PLC0415 -- see above
    finally:
        del ssl.SSLContext.set_default_verify_paths  # what the class inherits stays
    for context in late:
        context.__class__ = _LateAuthorities
