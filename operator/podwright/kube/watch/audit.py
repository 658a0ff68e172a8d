"""The audit of a watch: whatever it has failed to tell comes to light within some minutes.

A watch that loses an event goes on as if nothing had been; a pod that is gone would hold its room, and a node that shrank be
filled, for as long as the process lives. So the metadata of all objects is listed now and then, page by page, and compared with
what the reflector knows. What still differs when the watch is past the list was not told, and the reflector lists anew. The more objects
there are, the rarer that is, so that it costs the API server about the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Mapping
from typing import Any, Final, Protocol

from podwright.core.framework.interface import ClusterError
from podwright.kube.client.media_types import METADATA_LIST
from podwright.kube.kinds import Resource

log = logging.getLogger(__name__)

LEAST_SECONDS: Final = 60.0
SECONDS_AN_OBJECT: Final = 0.01
LOOK_SECONDS: Final = 5.0
LATE_SECONDS: Final = 90.0
"""How late an event may be. Mostly the watch is known to be past the list sooner: bookmarks come about every minute."""


class Audited(Protocol):
    """What the audit needs of a reflector: see there."""

    resource: Resource
    synced: asyncio.Event
    known: dict[str, int]
    departed: set[str] | None
    lists: int

    @property
    def version(self) -> int: ...

    def held(self) -> set[str]: ...

    def key(self, raw: Mapping[str, Any]) -> str: ...

    async def page(self, following: str, accept: str) -> Any: ...

    def doubt(self) -> None: ...


async def audit_for_ever(reflector: Audited) -> None:
    """Audits until it is cancelled, from the first list on."""
    await reflector.synced.wait()
    while True:
        pause = max(LEAST_SECONDS, SECONDS_AN_OBJECT * len(reflector.known))
        await asyncio.sleep(pause * random.uniform(0.75, 1.25))
        try:
            missed = await audit(reflector)
        except ClusterError as error:
            log.debug("%s: cannot be audited now: %s", reflector.resource.collection, error)
            continue
        except Exception:
            log.exception("%s: the audit failed", reflector.resource.collection)
            continue
        if missed:
            log.warning(
                "%s: the watch did not tell of %d objects (%s%s); listing again",
                reflector.resource.collection,
                len(missed),
                ", ".join(missed[:3]),
                ", ..." if len(missed) > 3 else "",
            )
            reflector.doubt()


async def audit(reflector: Audited) -> list[str]:
    """Once: the keys of what the watch has not told of. Raises ClusterError."""
    before, held, lists = dict(reflector.known), reflector.held(), reflector.lists
    reflector.departed = set()
    try:
        listed, version = await _listed(reflector)
        gone = {key: before.get(key) for key in held - listed.keys()}
        newer = {key: at for key, at in listed.items() if before.get(key, -1) < at}
        missed = _still(reflector, gone, newer)
        waited = 0.0
        while missed and waited < LATE_SECONDS and reflector.version < version:
            await asyncio.sleep(LOOK_SECONDS)
            waited += LOOK_SECONDS
            missed = _still(reflector, gone, newer)
        # A list made since then has found out everything itself.
        return missed if reflector.lists == lists else []
    finally:
        reflector.departed = None


def _still(reflector: Audited, gone: Mapping[str, int | None], newer: Mapping[str, int]) -> list[str]:
    """What the reflector still does not know: of `gone`, with the version of before; of `newer`, with that of the list."""
    known, departed = reflector.known, reflector.departed or ()
    held = reflector.held() if gone else set()
    unnoticed = [key for key, version in gone.items() if key in held and known.get(key) == version]
    missing = [key for key, version in newer.items() if known.get(key, -1) < version and key not in departed]
    return unnoticed + missing


async def _listed(reflector: Audited) -> tuple[dict[str, int], int]:
    """The versions of all objects by their keys, and that of the list."""
    found: dict[str, int] = {}
    following = ""
    while True:
        page = await reflector.page(following, METADATA_LIST)
        for raw in page.get("items") or ():
            # What has no usable metadata is left out here as in the list.
            with contextlib.suppress(KeyError, TypeError, AttributeError):
                found[reflector.key(raw)] = version_of(raw)
        following = page["metadata"].get("continue") or ""
        if not following:
            return found, version_of(page)
        await asyncio.sleep(0)


def version_of(raw: Mapping[str, Any]) -> int:
    """The resourceVersion of an object or a list, which grows within a kind since Kubernetes 1.35; 0 where it is no number."""
    version = str((raw.get("metadata") or {}).get("resourceVersion") or "")
    return int(version) if version.isdecimal() else 0
