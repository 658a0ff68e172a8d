"""ConfigMapReader: reads the ConfigMaps that LocalSchedulerPolicies take params from, each with a `get` of its own.

A namespace decides which of its ConfigMaps the operator may read, by a Role that names them. So there is no list and no
watch: each one is asked for again after `AGAIN_SECONDS`, and all together `READS_PER_SECOND` times a second at most.
While one is unchanged, only its metadata is transferred. A ConfigMap that is too large is not taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from podwright.api.spec.rules import config_map_problem
from podwright.core.framework.interface import ClusterError
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.raw import Raw
from podwright.core.plugins.rules.params import CONFIG_MAP, ConfigMap
from podwright.engine.engine import Engine
from podwright.kube.client.errors import is_not_found, status_of
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import JSON, METADATA
from podwright.kube.kinds import params_in

AGAIN_SECONDS: Final = 10.0
"""How long after a read a ConfigMap is read again."""
READS_PER_SECOND: Final = 5.0
UNREAD: Final = "has not been read yet"
FORBIDDEN: Final = (
    "a Role of the namespace has to let the operator's service account `get` it, see docs/policies.md#params-of-teams"
)


@dataclass(slots=True)
class _Known:
    """`version`: of what was taken, "" if nothing is. `due`: when it is read again, by the clock of the event loop."""

    version: str = ""
    due: float = 0.0


class ConfigMapReader:
    """See the module. `is_watched`: whether all ConfigMaps of a namespace are watched anyway."""

    def __init__(self, http: Http, engine: Engine, is_watched: Callable[[str], bool]) -> None:
        self._http = http
        self._engine = engine
        self._is_watched = is_watched
        self._known: dict[ConfigMap, _Known] = {}
        self._version = -1
        self._sink = engine.objects(CONFIG_MAP)

    async def run(self) -> None:
        """Reads them until it is cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            self._look_at_policies()
            due = min(self._known.items(), key=lambda item: item[1].due, default=None)
            if due is not None and due[1].due <= clock():
                config_map, known = due
                await self._read(config_map, known)
                known.due = clock() + AGAIN_SECONDS
            await asyncio.sleep(1 / READS_PER_SECOND)

    def _look_at_policies(self) -> None:
        local = self._engine.policies.policy_set.local
        if local.version == self._version:
            return
        self._version = local.version
        wanted = {config_map for config_map in local.config_maps if not self._is_watched(config_map[0])}
        for config_map in self._known.keys() - wanted:
            del self._known[config_map]
            self._drop(config_map)
            self._engine.policies.note_config_map(config_map, "")
        for config_map in wanted - self._known.keys():
            self._known[config_map] = _Known()
            self._engine.policies.note_config_map(config_map, UNREAD)

    async def _read(self, config_map: ConfigMap, known: _Known) -> None:
        path = params_in(config_map[0]).path(config_map[1], config_map[0])
        try:
            if known.version and _version_of(await self._http.call("GET", path, accept=METADATA)) == known.version:
                return
            raw = await self._http.call("GET", path, accept=JSON)
            problem, version = config_map_problem(raw), _version_of(raw)
        except ClusterError as error:
            raw, version, problem = None, "", "" if is_not_found(error) else _why(error)
            if problem and status_of(error) != 403:
                version = known.version  # it may still be there
        if config_map not in self._known:
            return  # no policy wants it any more
        known.version = version
        if raw is not None and not problem:
            self._sink.put({"metadata": raw["metadata"], "data": raw.get("data") or {}})
        elif not version or raw is not None:
            self._drop(config_map)
        self._engine.policies.note_config_map(config_map, problem)

    def _drop(self, config_map: ConfigMap) -> None:
        self._sink.drop("/".join(config_map), None)


def _why(error: ClusterError) -> str:
    return f"cannot be read ({error}{f'; {FORBIDDEN}' if status_of(error) == 403 else ''})"


def _version_of(raw: Raw) -> str:
    return str(raw["metadata"]["resourceVersion"])
