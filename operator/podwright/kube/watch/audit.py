"""The audit of a watch: finds events that the watch has missed, and has the reflector relist.

A watch that loses an event notices nothing. A deleted pod would keep its resources, and a node that shrank would be
overcommitted, until the process ends. So an audit lists the metadata of all objects from time to time and compares it
with what the reflector knows. A difference that remains once the watch has passed the list's resourceVersion is a
missed event. The more objects there are, the rarer the audits, which keeps their cost to the API server about constant.
Run by `reflector`; pending pods have another audit, `pending_audit`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any, Final, Protocol

from podwright.core.framework.interface import ClusterError
from podwright.core.objects.dataclass import dataclass
from podwright.engine.records.log_fields import V6
from podwright.kube.client.media_types import METADATA_LIST
from podwright.kube.client.object_metadata import resource_version
from podwright.kube.kinds import Resource

log = logging.getLogger(__name__)

SHORTEST_SECONDS: Final = 60.0
"""The shortest time between two audits."""
SECONDS_PER_OBJECT: Final = 0.01
POLL_SECONDS: Final = 5.0
"""How often a difference is checked again."""
LATE_SECONDS: Final = 90.0
"""How late an event may be. Bookmarks come about every minute and usually show sooner that the watch has passed the
list.
"""


class Audited(Protocol):
    """The part of a reflector that an audit uses."""

    resource: Resource
    synced: asyncio.Event
    known: dict[str, int]
    list_count: int

    @property
    def resource_version(self) -> int: ...

    def held(self) -> set[str]: ...

    def key(self, raw: Mapping[str, Any]) -> str: ...

    def pages(self, accept: str) -> AsyncIterator[Mapping[str, Any]]: ...

    def deletions(self) -> AbstractContextManager[Collection[str]]: ...

    def request_relist(self) -> None: ...


async def audit_for_ever(reflector: Audited) -> None:
    """Audits after the first list, until the task is cancelled."""
    await reflector.synced.wait()
    while True:
        pause = max(SHORTEST_SECONDS, SECONDS_PER_OBJECT * len(reflector.known))
        await asyncio.sleep(pause * random.uniform(0.75, 1.25))
        try:
            missed = await audit(reflector)
        except ClusterError as error:
            log.log(V6, "%s: the audit failed: %s", reflector.resource.collection, error)
            continue
        except Exception:
            log.exception("%s: the audit failed", reflector.resource.collection)
            continue
        if missed:
            log.warning(
                "%s: the watch missed events of %d objects (%s%s); relisting",
                reflector.resource.collection,
                len(missed),
                ", ".join(missed[:3]),
                ", ..." if len(missed) > 3 else "",
            )
            reflector.request_relist()


async def audit(reflector: Audited) -> list[str]:
    """One audit: the keys of the objects whose events the watch has missed. Raises ClusterError."""
    list_count = reflector.list_count
    async with compared_with_list(reflector) as comparison:
        missed = comparison.missed()
        waited = 0.0
        while missed and waited < LATE_SECONDS and reflector.resource_version < comparison.version:
            await asyncio.sleep(POLL_SECONDS)
            waited += POLL_SECONDS
            missed = comparison.missed()
        # A relist since then has corrected everything itself.
        return missed if reflector.list_count == list_count else []


@dataclass(frozen=True, slots=True)
class AuditComparison:
    """The differences between a list and a reflector's objects when the list began.

    `version`: the list's version. `gone`: objects that the list lacks, with the version known before; `newer`: objects
    with a newer listed version.
    """

    reflector: Audited
    version: int
    gone: Mapping[str, int | None]
    newer: Mapping[str, int]
    deleted: Collection[str]

    def missed(self) -> list[str]:
        """Returns the keys of the objects whose event has not come yet."""
        known = self.reflector.known
        held = self.reflector.held() if self.gone else set()
        not_deleted = [key for key, version in self.gone.items() if key in held and known.get(key) == version]
        not_updated = [
            key for key, version in self.newer.items() if known.get(key, -1) < version and key not in self.deleted
        ]
        return not_deleted + not_updated


@asynccontextmanager
async def compared_with_list(reflector: Audited) -> AsyncIterator[AuditComparison]:
    """Lists the metadata of all objects. Raises ClusterError. The comparison is valid within the context only."""
    before, held = dict(reflector.known), reflector.held()
    with reflector.deletions() as deleted:
        listed, version = await _list(reflector)
        gone = {key: before.get(key) for key in held - listed.keys()}
        newer = {key: at for key, at in listed.items() if before.get(key, -1) < at}
        yield AuditComparison(reflector, version, gone, newer, deleted)


async def _list(reflector: Audited) -> tuple[dict[str, int], int]:
    """The versions of all objects by key, and the version of the list."""
    versions: dict[str, int] = {}
    list_version = 0
    async for page in reflector.pages(METADATA_LIST):
        for raw in page.get("items") or ():
            # The reflector leaves out objects without usable metadata too.
            with contextlib.suppress(KeyError, TypeError, AttributeError):
                versions[reflector.key(raw)] = resource_version(raw)
        list_version = resource_version(page)
    return versions, list_version
