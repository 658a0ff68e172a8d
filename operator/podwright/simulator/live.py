"""Takes a snapshot from an API server, with the caller's own credentials and permissions.

A kind that the server does not serve, or that RBAC does not let the caller list, is left out, and the snapshot says so.
Nothing is written.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import field, replace
from glob import escape
from multiprocessing.pool import ThreadPool
from typing import TYPE_CHECKING, Any, Final

from podwright.api.configuration.signals import Signals
from podwright.api.permissions import INSTALLED_NAMESPACE
from podwright.core.framework.interface import ClusterError
from podwright.core.groupings import POD as POD_OWNER
from podwright.core.groupings import Kind
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.watched_kinds import NODE_KIND
from podwright.core.plugins.rules.params import ConfigMap
from podwright.kube.client import access
from podwright.kube.client.credentials import credentials
from podwright.kube.client.errors import ConfigError, status_of
from podwright.kube.kinds import (
    COMPOSITE_POD_GROUPS,
    GROUPING,
    HYPER_NODE,
    KAI_POD_GROUPS,
    KAI_QUEUE,
    KAI_TOPOLOGY,
    KUEUE_FLAVOR,
    KUEUE_TOPOLOGY,
    KUEUE_WORKLOAD,
    LOCAL_POLICY,
    PLUGINS_POD_GROUPS,
    POD_GANGS,
    POD_GROUPS,
    POLICY,
    QUEUE,
    REBALANCE_POLICY,
    REQUIRED,
    RESERVATION,
    TOPOLOGY,
    VOLCANO_POD_GROUPS,
    VOLCANO_QUEUE,
    WATCHED,
    Resource,
    params_in,
)
from podwright.simulator import params
from podwright.simulator.made_groups import ReadOwners
from podwright.simulator.redaction import Named, redacted
from podwright.simulator.snapshot import CLAIM_TEMPLATE, NOT_SERVED, Snapshot, SnapshotError

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from podwright.kube.client.api_client import ApiReader
    from podwright.kube.node_signals.numbers import Numbers

WORKLOADS: Final = (
    Resource("Deployment", "apps", "v1", "deployments", namespaced=True),
    Resource("DaemonSet", "apps", "v1", "daemonsets", namespaced=True),
    Resource("Job", "batch", "v1", "jobs", namespaced=True),
    CLAIM_TEMPLATE,
    KUEUE_WORKLOAD,
    KUEUE_FLAVOR,
)
"""Scheduling does not depend on these kinds. A simulation takes the templates of further pods, and of their claims,
from them; an explanation, the pods that Kueue would start.
"""
_KINDS: Final[Sequence[Sequence[Resource]]] = (
    *((resource,) for resource in WATCHED.values()),
    (POLICY,),
    (LOCAL_POLICY,),
    (QUEUE,),
    (KAI_QUEUE,),
    (VOLCANO_QUEUE,),
    (REBALANCE_POLICY,),
    (GROUPING,),
    (RESERVATION,),
    (TOPOLOGY,),
    KUEUE_TOPOLOGY,
    KAI_TOPOLOGY,
    (HYPER_NODE,),
    POD_GROUPS,
    PLUGINS_POD_GROUPS,
    VOLCANO_POD_GROUPS,
    KAI_POD_GROUPS,
    COMPOSITE_POD_GROUPS,
    POD_GANGS,
    *((resource,) for resource in WORKLOADS),
)
"""Each kind in its versions, the best first."""
NOT_ALLOWED: Final = "RBAC does not let you list it"
AT_ONCE: Final = 4
"""How many kinds are listed at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveConnection:
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
    named: Mapping[Kind, Named] = field(default_factory=dict)
    """The fields of pods' owners to keep, by kind."""
    client: ApiClient | None = None
    """Asked instead of a client with these credentials, and left open."""

    def credentials(self) -> credentials.CredentialSource:
        """Raises ConfigError."""
        if self.as_groups and not self.as_user:
            raise ConfigError("--as-group needs --as")
        user = (("Impersonate-User", self.as_user),) if self.as_user else ()
        headers = (*user, *(("Impersonate-Group", group) for group in self.as_groups))
        return credentials.load(self.kubeconfig, self.context, time.time, time.monotonic, impersonation=headers)

    @contextmanager
    def reader(self) -> Iterator[ApiReader]:
        """Raises ConfigError and OSError."""
        from podwright.kube.client.api_client import ApiReader, connected  # noqa: PLC0415 -- see there

        with connected(self.credentials().load()) if self.client is None else nullcontext(self.client) as client:
            yield ApiReader(client)

    @property
    def kept_annotations(self) -> Sequence[str]:
        """Patterns of all annotations to keep, in addition to those that scheduling itself reads."""
        definitions = [signal.definition for signal in self.signals.values()]
        keys = [key for each in definitions for key in (each.annotation, each.time_annotation) if key]
        return [*self.annotations, *map(escape, keys)]


def snapshot_of(connection: LiveConnection) -> Snapshot:
    """Takes a snapshot. Raises SnapshotError if the server cannot be reached, or lets us list no nodes or no pods."""
    try:
        taken = take_snapshot(connection)
        if not connection.signals:
            return taken
        numbers, unheard = asyncio.run(_numbers(connection, sum(1 for _ in taken.of_kind(NODE_KIND.kind))))
    except (ClusterError, ConfigError, OSError) as error:
        raise SnapshotError(f"cannot read the cluster: {error}") from error
    unread = {f"all numbers of signal {name}": problem for name, problem in unheard.items()}
    return replace(taken, signals=numbers, missing={**taken.missing, **unread})


def take_snapshot(connection: LiveConnection) -> Snapshot:
    """Lists all kinds that matter; asks no sources of signals. Raises ClusterError, ConfigError, OSError and
    SnapshotError.
    """
    with connection.reader() as reader, ThreadPool(AT_ONCE) as pool:
        minor = access.minor_of(reader.get("/version"))
        connection, owners = _knowing_owners(reader, connection)
        kinds = [*_KINDS, *((each,) for each in owners if all(each.kind != known[0].kind for known in _KINDS))]
        found = dict(pool.imap_unordered(lambda versions: _listed_first(reader, versions, connection), kinds))
        listed = {name: found[name] for name in map(_name, kinds)}
        missing = {name: problem for name, (problem, _) in listed.items() if problem}
        for resource in REQUIRED:
            if resource.kind in missing:
                raise SnapshotError(f"{resource.plural}: {missing[resource.kind]}")
        objects = [raw for _, found_here in listed.values() for raw in found_here]
        wanted = params.named_in(objects, connection.operator_namespace)
        read = list(pool.imap(lambda each: _config_map(reader, each, connection.operator_namespace), wanted))
    for config_map, (problem, raw) in zip(wanted, read, strict=True):
        if problem:
            missing[params.label_of(config_map)] = problem
        else:
            objects.append(params.kept_of(raw, wanted[config_map]))
    return Snapshot(objects=objects, missing=missing, taken_at=time.time(), minor=minor)


def knowing_owners(connection: LiveConnection) -> tuple[LiveConnection, Sequence[Resource]]:
    """The kinds of owners of pods that WorkloadGroupings read, and the connection that keeps what they read of these.
    Raises ClusterError, ConfigError and OSError.
    """
    with connection.reader() as reader:
        return _knowing_owners(reader, connection)


def _knowing_owners(reader: ApiReader, connection: LiveConnection) -> tuple[LiveConnection, Sequence[Resource]]:
    read = ReadOwners.by(_listed(reader, GROUPING, connection)[1])
    found = [_resource_of(reader, kind, versions) for kind, versions in read.kinds.items() if kind != POD_OWNER]
    return replace(connection, annotations=(*connection.annotations, *read.annotations), named=read.named), found


def _resource_of(reader: ApiReader, kind: Kind, versions: Sequence[str]) -> Resource:
    """The kind in the first of the versions that is served; in any, if none is."""
    for version in versions:
        resource = Resource(kind[1], kind[0], version, f"{kind[1].lower()}s", namespaced=True)
        try:
            served = reader.get(resource.root)["resources"]
        except ClusterError as error:
            if status_of(error) not in (403, 404):
                raise
            continue
        for item in served:
            if item.get("kind") == kind[1] and "/" not in str(item.get("name")):
                return replace(resource, plural=str(item["name"]), namespaced=bool(item.get("namespaced")))
    return resource


def _config_map(reader: ApiReader, config_map: ConfigMap, namespace: str) -> tuple[str, dict[str, Any]]:
    """Why a ConfigMap could not be read ("" if it could), and the ConfigMap. `namespace`: the operator's."""
    try:
        raw = reader.get(params_in(config_map[0]).path(config_map[1], config_map[0]))
    except ClusterError as error:
        if status_of(error) not in (403, 404):
            raise
        return params.NOT_ALLOWED if status_of(error) == 403 else params.DOES_NOT_EXIST, {}
    return params.problem_of(raw, namespace), raw


async def _numbers(connection: LiveConnection, nodes: int) -> tuple[Numbers, Mapping[str, str]]:
    from podwright.kube.client.http import Http  # noqa: PLC0415 -- see api_client
    from podwright.kube.node_signals.numbers import current_numbers  # noqa: PLC0415 -- likewise

    http = Http(connection.credentials())
    try:
        return await current_numbers(connection.signals, http, nodes)
    finally:
        await http.close()


def _name(versions: Sequence[Resource]) -> str:
    """The kind, with its group where two groups have a kind of this name."""
    kind, group = versions[0].kind, versions[0].group
    return f"{kind}.{group}" if kind in (POD_GROUPS[0].kind, KAI_QUEUE.kind) else kind


def _listed_first(
    reader: ApiReader, versions: Sequence[Resource], connection: LiveConnection
) -> tuple[str, tuple[str, list[dict[str, Any]]]]:
    """The kind's name; why it could not be listed ("" if it could), and the objects, in the first version that is
    served.
    """
    problem, found = NOT_SERVED, list[dict[str, Any]]()
    for resource in versions:
        problem, found = _listed(reader, resource, connection)
        if problem != NOT_SERVED:
            break
    return _name(versions), (problem, found)


def _listed(reader: ApiReader, resource: Resource, connection: LiveConnection) -> tuple[str, list[dict[str, Any]]]:
    within = connection.namespaces if resource.namespaced else ()
    paths = [resource.collection_in(namespace) for namespace in within] or [resource.collection]
    try:
        return "", [kept_of(resource, raw, connection) for path in paths for raw in reader.objects_at(path)]
    except ClusterError as error:
        if status_of(error) == 404:
            return NOT_SERVED, []
        if status_of(error) == 403:
            return NOT_ALLOWED, []
        raise


def kept_of(resource: Resource, raw: Mapping[str, Any], connection: LiveConnection) -> dict[str, Any]:
    """Returns the fields to keep of an object of this kind."""
    version = f"{resource.group}/{resource.version}" if resource.group else resource.version
    return redacted(
        resource.kind,
        {"apiVersion": version, "kind": resource.kind, **raw},
        connection.kept_annotations,
        messages=connection.messages,
        named=connection.named.get((resource.group, resource.kind)),
    )
