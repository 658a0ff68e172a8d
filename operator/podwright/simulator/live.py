"""Takes a snapshot from an API server, with the caller's own credentials and permissions.

A kind that the server does not serve, or that RBAC does not let the caller list, is left out, and the snapshot says so.
Nothing is written.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from glob import escape
from typing import Any, Final

from podwright.api.configuration.signals import Signals
from podwright.api.permissions import INSTALLED_NAMESPACE
from podwright.core.framework.interface import ClusterError
from podwright.core.objects.watched_kinds import NODE_KIND
from podwright.core.plugins.rules.params import ConfigMap
from podwright.kube.client import access
from podwright.kube.client.credentials import credentials
from podwright.kube.client.errors import ConfigError, status_of
from podwright.kube.client.http import Http
from podwright.kube.client.pages import list_objects
from podwright.kube.kinds import (
    LOCAL_POLICY,
    PLUGINS_POD_GROUPS,
    POD_GROUPS,
    POLICY,
    REQUIRED,
    WATCHED,
    Resource,
    params_in,
)
from podwright.kube.node_signals.numbers import current_numbers
from podwright.simulator import params
from podwright.simulator.redaction import redacted
from podwright.simulator.snapshot import NOT_SERVED, Snapshot, SnapshotError, group_kind

WORKLOADS: Final = (
    Resource("Deployment", "apps", "v1", "deployments", namespaced=True),
    Resource("DaemonSet", "apps", "v1", "daemonsets", namespaced=True),
    Resource("Job", "batch", "v1", "jobs", namespaced=True),
    Resource("ResourceClaimTemplate", "resource.k8s.io", "v1", "resourceclaimtemplates", namespaced=True),
)
"""Scheduling does not depend on these kinds. A simulation takes the templates of further pods, and of their claims,
from them.
"""
_KINDS: Final[Sequence[Sequence[Resource]]] = (
    *((resource,) for resource in WATCHED.values()),
    (POLICY,),
    (LOCAL_POLICY,),
    POD_GROUPS,
    PLUGINS_POD_GROUPS,
    *((resource,) for resource in WORKLOADS),
)
"""Each kind in its versions, the best first."""
NOT_ALLOWED: Final = "RBAC does not let you list it"
AT_ONCE: Final = 4
"""How many kinds are listed at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How to reach the API server, as with kubectl's flags. `namespaces`: the only ones to read; empty: all."""

    kubeconfig: str | None = None
    context: str | None = None
    namespaces: Sequence[str] = ()
    annotations: Sequence[str] = ()
    """Patterns of further annotations to keep."""
    as_user: str = ""
    """The user to impersonate, as with kubectl's --as; `as_groups`: the groups of that user."""
    as_groups: Sequence[str] = ()
    messages: bool = False
    """True to keep the messages of `redaction.redacted`."""
    operator_namespace: str = INSTALLED_NAMESPACE
    """The namespace of the ConfigMaps from which SchedulerPolicies take params."""
    signals: Signals = field(default_factory=dict)
    """The signals whose sources are asked."""

    def credentials(self) -> credentials.Source:
        """Raises ConfigError."""
        if self.as_groups and not self.as_user:
            raise ConfigError("--as-group needs --as")
        user = (("Impersonate-User", self.as_user),) if self.as_user else ()
        headers = (*user, *(("Impersonate-Group", group) for group in self.as_groups))
        return credentials.load(self.kubeconfig, self.context, time.time, time.monotonic, impersonation=headers)

    @property
    def kept_annotations(self) -> Sequence[str]:
        """Patterns of all annotations to keep, in addition to those that scheduling itself reads."""
        definitions = [signal.definition for signal in self.signals.values()]
        keys = [key for each in definitions for key in (each.annotation, each.time_annotation) if key]
        return [*self.annotations, *map(escape, keys)]


def snapshot_of(connection: Connection) -> Snapshot:
    """Takes a snapshot. Raises SnapshotError if the server cannot be reached, or lets us list no nodes or no pods."""
    return asyncio.run(_take(connection))


async def _take(connection: Connection) -> Snapshot:
    try:
        http = Http(connection.credentials())
        try:
            return await take_snapshot(http, connection)
        finally:
            await http.close()
    except (ClusterError, ConfigError, OSError) as error:
        raise SnapshotError(f"cannot read the cluster: {error}") from error


async def take_snapshot(http: Http, connection: Connection) -> Snapshot:
    """Lists all kinds that matter. Raises ClusterError and SnapshotError."""
    missing: dict[str, str] = {}
    objects: dict[int, list[dict[str, Any]]] = {}
    free = asyncio.Semaphore(AT_ONCE)

    async def take(index: int, versions: Sequence[Resource]) -> None:
        async with free:
            for resource in versions:
                problem, found = await _listed(http, resource, connection)
                if problem != NOT_SERVED:
                    break
            objects[index] = found
            if problem:
                missing[_name(versions[0])] = problem

    minor = await access.server_minor(http)
    await asyncio.gather(*(take(index, versions) for index, versions in enumerate(_KINDS)))
    for resource in REQUIRED:
        if resource.kind in missing:
            raise SnapshotError(f"{resource.plural}: {missing[resource.kind]}")
    listed = [raw for _, found in sorted(objects.items()) for raw in found]
    config_maps, unread = await _params(http, listed, connection.operator_namespace, free)
    nodes = sum(raw["kind"] == NODE_KIND.kind for raw in listed)
    numbers, unheard = await current_numbers(connection.signals, http, nodes)
    unread |= {f"all numbers of signal {name}": problem for name, problem in unheard.items()}
    kinds = [name for versions in _KINDS if (name := _name(versions[0])) in missing]
    return Snapshot(
        objects=[*listed, *config_maps],
        missing={**{kind: missing[kind] for kind in kinds}, **unread},
        taken_at=time.time(),
        minor=minor,
        signals=numbers,
    )


async def _params(
    http: Http, objects: Sequence[dict[str, Any]], namespace: str, free: asyncio.Semaphore
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The ConfigMaps that policies name, and why others could not be read. `namespace`: the operator's."""
    wanted = params.named_in(objects, namespace)
    found: dict[ConfigMap, dict[str, Any]] = {}
    missing: dict[ConfigMap, str] = {}

    async def read(config_map: ConfigMap) -> None:
        async with free:
            try:
                raw = await http.call("GET", params_in(config_map[0]).path(config_map[1], config_map[0]))
            except ClusterError as error:
                if status_of(error) not in (403, 404):
                    raise
                missing[config_map] = params.NOT_ALLOWED if status_of(error) == 403 else params.DOES_NOT_EXIST
                return
        if problem := params.problem_of(raw, namespace):
            missing[config_map] = problem
        else:
            found[config_map] = params.kept_of(raw, wanted[config_map])

    await asyncio.gather(*map(read, wanted))
    return (
        [found[each] for each in wanted if each in found],
        {params.label_of(each): missing[each] for each in wanted if each in missing},
    )


def _name(resource: Resource) -> str:
    """The kind, with its group where two groups have a kind of this name."""
    return group_kind(resource.group) if resource.kind == POD_GROUPS[0].kind else resource.kind


async def _listed(http: Http, resource: Resource, connection: Connection) -> tuple[str, list[dict[str, Any]]]:
    """Why the kind could not be listed ("" if it could), and the objects."""
    version = f"{resource.group}/{resource.version}" if resource.group else resource.version
    within = connection.namespaces if resource.namespaced else ()
    paths = [resource.collection_in(namespace) for namespace in within] or [resource.collection]
    found: list[dict[str, Any]] = []
    try:
        for path in paths:
            async for raw in list_objects(http, path):
                known = {"apiVersion": version, "kind": resource.kind, **raw}
                found.append(redacted(resource.kind, known, connection.kept_annotations, messages=connection.messages))
    except ClusterError as error:
        if status_of(error) == 404:
            return NOT_SERVED, []
        if status_of(error) == 403:
            return NOT_ALLOWED, []
        raise
    return "", found
