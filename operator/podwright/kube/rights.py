"""Every right that the scheduler uses on the API server, with what is lost without it, and the check that names those
it lacks.

The table is complete: the roles of manifests/base grant these rights and no others (a test compares them, and another
one compares both with the requests that the API server sees). To use another right, add it here and there. `access`
asks the API server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from podwright.core.framework.features import OLDEST_MINOR, Features
from podwright.core.framework.interface import ClusterError
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.watched_kinds import STORED_KINDS
from podwright.kube.client import access
from podwright.kube.client.errors import ConfigError, UnreachableError
from podwright.kube.client.http import Http
from podwright.kube.client.wire import BeforeWrite
from podwright.kube.deadline import wait_at_most
from podwright.kube.kinds import (
    COMPOSITE_POD_GROUPS,
    CRD,
    EVENT,
    GROUPING,
    HYPER_NODE,
    KAI_POD_GROUPS,
    KAI_QUEUE,
    KAI_TOPOLOGY,
    KUEUE_TOPOLOGY,
    LOCAL_POLICY,
    NODE_METRICS,
    PLUGINS_POD_GROUPS,
    POD,
    POD_GANGS,
    POD_GROUPS,
    POLICY,
    PRIORITY_CLASSES,
    QUEUE,
    QUEUE_VIEW,
    REBALANCE_POLICY,
    REQUIRED,
    RESERVATION,
    STORED,
    TOPOLOGY,
    VOLCANO_POD_GROUPS,
    VOLCANO_QUEUE,
    WATCHED,
    Resource,
)
from podwright.kube.options.options import Options

log = logging.getLogger(__name__)

FIRST_SECONDS: Final = 1.0
"""The pause before the first question, so that the first Bindings do not wait for answers about rights."""
CHECK_SECONDS: Final = 600.0
"""How often the rights are asked for."""
MISSING_SECONDS: Final = 30.0
"""How often while one is missing."""
REFUSED_SECONDS: Final = 3.0
"""The shortest pause between two checks, if the API server refuses writes. It doubles, up to MISSING_SECONDS, while no
right is found missing: admission and namespaces that end refuse writes, too.
"""

LEASE: Final = Resource("Lease", "coordination.k8s.io", "v1", "leases", namespaced=True)
TOKEN_REVIEW: Final = Resource("TokenReview", "authentication.k8s.io", "v1", "tokenreviews", namespaced=False)
ACCESS_REVIEW: Final = Resource(
    "SubjectAccessReview", "authorization.k8s.io", "v1", "subjectaccessreviews", namespaced=False
)
CONFIG_MAP: Final = Resource("ConfigMap", "", "v1", "configmaps", namespaced=True)


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a kind or on one of its subresources, perhaps only in one namespace, perhaps only for one name.

    `without`: what does not work without it. `announced`: another module logs at the start that it is missing.
    `gate`: the feature gate that needs it. `since`: the first minor version of Kubernetes 1 that asks for it.
    `only_with`: the kind that needs it, if it is not needed where the API server does not serve that kind.
    """

    resource: Resource
    verb: str
    without: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    announced: bool = False
    gate: str = ""
    since: int = OLDEST_MINOR
    only_with: Resource | None = None

    def used_with(self, features: Features) -> bool:
        """True if the scheduler uses it with these feature gates, on their version of Kubernetes."""
        return features.minor >= self.since and (not self.gate or features.enabled(self.gate))

    @property
    def plural(self) -> str:
        """The resource as RBAC writes it, such as `pods/status`."""
        return f"{self.resource.plural}/{self.subresource}" if self.subresource else self.resource.plural

    def __str__(self) -> str:
        group = f".{self.resource.group}" if self.resource.group else ""
        where = f" {self.namespace}/{self.name}".rstrip("/") if self.namespace else ""
        return f"{self.verb} {self.resource.plural}{group}{f'/{self.subresource}' if self.subresource else ''}{where}"


def _reads(resources: Iterable[Resource], without: str, *, announced: bool = False) -> Iterator[Right]:
    for resource in resources:
        for verb in access.READ:
            yield Right(resource, verb, without, announced=announced)


CLAIM: Final = WATCHED["ResourceClaim"]
_UPDATED: Final = tuple(WATCHED[kind.kind] for kind in STORED_KINDS if kind.updated)
_GROUPS: Final = (POD_GROUPS[0], PLUGINS_POD_GROUPS[0], VOLCANO_POD_GROUPS[0], KAI_POD_GROUPS[0], POD_GANGS[0])
_COMPOSITES: Final = COMPOSITE_POD_GROUPS[0]
_QUEUES: Final = (QUEUE, KAI_QUEUE, VOLCANO_QUEUE)
_TOPOLOGIES: Final = (TOPOLOGY, KUEUE_TOPOLOGY[0], KAI_TOPOLOGY[0], HYPER_NODE)
_OPTIONAL: Final[Mapping[Resource, Sequence[Resource]]] = {
    POLICY: (POLICY,),
    LOCAL_POLICY: (LOCAL_POLICY,),
    **{kind: (kind,) for kind in _QUEUES},
    QUEUE_VIEW: (QUEUE_VIEW,),
    RESERVATION: (RESERVATION,),
    REBALANCE_POLICY: (REBALANCE_POLICY,),
    GROUPING: (GROUPING,),
    **dict(zip(_TOPOLOGIES, ((TOPOLOGY,), KUEUE_TOPOLOGY, KAI_TOPOLOGY, (HYPER_NODE,)), strict=True)),
    _GROUPS[0]: POD_GROUPS,
    _GROUPS[1]: PLUGINS_POD_GROUPS,
    _GROUPS[2]: VOLCANO_POD_GROUPS,
    _GROUPS[3]: KAI_POD_GROUPS,
    _GROUPS[4]: POD_GANGS,
    _COMPOSITES: COMPOSITE_POD_GROUPS,
    PRIORITY_CLASSES: (*VOLCANO_POD_GROUPS, *KAI_POD_GROUPS, *POD_GANGS),
}
"""Kinds that a cluster may lack, with all their versions, and PriorityClasses with the kinds that name one. Without a
served version, no right is needed.
"""
_OWN_WRITES: Final = (f"{TOKEN_REVIEW.root}/", f"{ACCESS_REVIEW.root}/", f"{LEASE.root}/")
"""The paths of writes that change nothing for anybody else."""
_EXTRAS: Final = frozenset({*_OPTIONAL, CRD})
"""Kinds that may be missing from kube-scheduler's roles."""
_GATHERED: Final = (
    "room that is held for large gangs of queues is not seen, and forgotten at a restart, and no pod is moved"
)
_NO_VIEWS: Final = "who may read only a namespace does not see its queues"

SCHEDULING: Final = (
    *_reads(REQUIRED, "nothing can be scheduled", announced=True),
    *_reads(STORED, "pods are scheduled as if there were none", announced=True),
    *_reads([POLICY], "the built-in policies decide about all pods", announced=True),
    *_reads([LOCAL_POLICY], "policies of namespaces have no effect", announced=True),
    *_reads(_GROUPS, "the pods of groups are scheduled one by one"),
    *_reads([_COMPOSITES], "each pod group is scheduled alone"),
    *_reads([PRIORITY_CLASSES], "PriorityClasses that pod groups name do not count"),
    *_reads(_QUEUES, "pods have no queues"),
    *_reads([QUEUE_VIEW], _NO_VIEWS),
    *_reads([RESERVATION], "no room is held for reservations"),
    *_reads([REBALANCE_POLICY], "no pod is moved to a better place"),
    *_reads([GROUPING], "pods without a pod group of their own are scheduled one by one"),
    *_reads(_TOPOLOGIES, "pod groups wait whose topology is named, and others go by labels alone"),
    *_reads([CRD], "a kind that is installed later is noticed up to half a minute later"),
    Right(POD, "create", "no pod is bound", "binding"),
    Right(POD, "get", "a Binding whose answer is lost counts as failed"),
    Right(POD, "delete", "no pod is preempted"),
    Right(
        POD,
        "create",
        "queues take no room back and are not drained, no pod is moved, and stale gangs run on",
        "eviction",
        only_with=QUEUE,
    ),
    Right(POD, "patch", "pods do not show why they wait, and none is preempted", "status"),
    *(Right(kind, "update", "no volume is bound to a claim") for kind in _UPDATED),
    *(Right(kind, "get", "an update whose answer is lost counts as failed") for kind in _UPDATED),
    *(Right(CLAIM, verb, "pods with resource claims wait") for verb in ("get", "update")),
    *(
        Right(CLAIM, verb, "pods wait that get devices for extended resources", gate="DRAExtendedResource")
        for verb in ("create", "delete")
    ),
    *(Right(CLAIM, verb, "pods with resource claims wait", "status") for verb in ("update", "patch")),
    *(Right(CLAIM, verb, "pods with resource claims wait", "binding", since=36) for verb in ("update", "patch")),
    Right(EVENT, "create", "there are no events"),
    Right(EVENT, "patch", "repeated events are not counted"),
    Right(POLICY, "patch", "policies show no status", "status"),
    Right(LOCAL_POLICY, "patch", "policies of namespaces show no status", "status"),
    *(Right(kind, "patch", "pod groups show no status", "status") for kind in _GROUPS),
    *(Right(kind, "patch", "queues show no status", "status") for kind in _QUEUES),
    *(Right(QUEUE_VIEW, verb, _NO_VIEWS) for verb in ("create", "delete")),
    Right(QUEUE_VIEW, "patch", _NO_VIEWS, "status"),
    *(Right(RESERVATION, verb, _GATHERED) for verb in ("create", "patch", "delete")),
    Right(RESERVATION, "patch", "reservations show no status", "status"),
    Right(REBALANCE_POLICY, "patch", "rebalance policies show no status", "status"),
    Right(GROUPING, "patch", "groupings show no status", "status"),
    Right(TOPOLOGY, "patch", "topologies show no status", "status"),
)
"""The rights of every instance."""
SHADOWING: Final = (
    *(
        each
        for each in SCHEDULING
        if each.verb in access.READ
        and each.resource
        not in (
            *(LOCAL_POLICY, QUEUE_VIEW, RESERVATION, REBALANCE_POLICY, GROUPING),
            *(*_TOPOLOGIES, *_GROUPS, _COMPOSITES, PRIORITY_CLASSES),
        )
    ),
    next(each for each in SCHEDULING if each.resource is POLICY and each.verb == "patch"),
)
"""The rights of an instance with --shadow-only. The only right to write is that to the status of policies."""
TOKENS: Final = Right(TOKEN_REVIEW, "create", "nobody can read metrics with a token")
AUTHORITIES: Final = Right(
    CONFIG_MAP,
    "get",
    "nobody can read metrics with a certificate of the cluster",
    namespace="kube-system",
    name="extension-apiserver-authentication",
)
REVIEWS: Final = Right(ACCESS_REVIEW, "create", "nobody can read metrics")


def reviews(options: Options) -> tuple[tuple[Right, ...], tuple[Right, ...]]:
    """The rights to authenticate and to authorize those who read metrics from --secure-port."""
    if not options.secure_port:
        return (), ()
    looks_up = options.client_ca_file is None and not options.authentication_skip_lookup
    return (TOKENS, AUTHORITIES) if looks_up else (TOKENS,), (REVIEWS,)


NODE_LOADS: Final = (Right(NODE_METRICS, "list", "signals from metrics.k8s.io have their defaults"),)
"""The right to read what metrics.k8s.io says about nodes."""


class ForbiddenWriteError(UnreachableError):
    """A request that writes was not sent, because the process is for policies in shadow mode only."""


def refuse_writes(then: BeforeWrite | None) -> BeforeWrite:
    """Returns a check for an instance with --shadow-only. Call it before each request that is not a GET; it calls
    `then`.

    The check raises ForbiddenWriteError unless the request is a review, or writes the status of a policy or a Lease.
    RBAC should forbid all others, too.
    """

    def check(path: str) -> None:
        own = path.startswith(f"{POLICY.collection}/") and path.endswith("/status")
        if not own and not path.startswith(_OWN_WRITES):
            raise ForbiddenWriteError(f"{path}: with --shadow-only, nothing is written but the status of policies")
        if then is not None:
            then(path)

    return check


def params(namespace: str) -> tuple[Right, ...]:
    """The rights to take params of policies from ConfigMaps in this namespace."""
    without = "policies take no params from ConfigMaps"
    return tuple(Right(CONFIG_MAP, verb, without, namespace=namespace) for verb in access.READ)


def election(namespace: str, name: str) -> tuple[Right, ...]:
    """The rights of an instance with leader election by this Lease."""
    return (
        # RBAC cannot bound creation by name.
        Right(LEASE, "create", "no instance can lead if there is no Lease yet", namespace=namespace),
        Right(LEASE, "get", "no instance can lead", namespace=namespace, name=name),
        Right(LEASE, "update", "no instance can lead", namespace=namespace, name=name),
        Right(LEASE, "watch", "a standby takes over seconds later", namespace=namespace, name=name),
    )


class RightsCheck:
    """Asks the API server regularly which rights are missing, logs each, and says so to those who read /readyz."""

    def __init__(self, needed: Sequence[tuple[Http, Sequence[Right]]]) -> None:
        """`needed`: rights, with the API client that uses them. The first client's refused writes start checks."""
        self._needed = needed
        self._missing: Mapping[Right, None] = {}

    def problem(self) -> str:
        """The missing rights and what does not work without them; empty if none is known to be missing."""
        return "; ".join(f"RBAC does not let us {right}: {right.without}" for right in self._missing)

    async def run(self) -> None:
        """Checks until it is cancelled."""
        await asyncio.sleep(FIRST_SECONDS)
        refused, shortest = self._needed[0][0].refused_write, REFUSED_SECONDS
        while True:
            in_vain = refused.is_set()
            refused.clear()
            try:
                await self.check()
            except (ClusterError, ConfigError, OSError) as error:
                log.info("cannot ask which rights are missing: %s", error)
            shortest = min(2 * shortest, MISSING_SECONDS) if in_vain and not self._missing else REFUSED_SECONDS
            await asyncio.sleep(shortest)
            await wait_at_most(MISSING_SECONDS if self._missing else CHECK_SECONDS, refused.wait())

    async def check(self) -> None:
        """Asks once, one question after the other. Raises ClusterError, ConfigError and OSError."""
        missing: dict[Right, None] = {}
        for http, rights in self._needed:
            needed = {right.only_with or right.resource for right in rights}
            unserved = {kind for kind in needed & _OPTIONAL.keys() if not await self._served(http, kind)}
            for right in rights:
                if (right.only_with or right.resource) not in unserved and not await self._granted(http, right):
                    missing[right] = None
        for right in missing:
            if right not in self._missing and not right.announced:
                level = logging.INFO if (right.only_with or right.resource) in _EXTRAS else logging.WARNING
                log.log(level, "RBAC does not let us %s: %s", right, right.without)
        for right in self._missing:
            if right not in missing:
                log.info("RBAC lets us %s now", right)
        self._missing = missing

    async def _served(self, http: Http, kind: Resource) -> bool:
        return any([await access.is_served(http, version) for version in _OPTIONAL[kind]])

    async def _granted(self, http: Http, right: Right) -> bool:
        return await access.is_allowed(
            http, right.resource, right.verb, right.subresource, namespace=right.namespace, name=right.name
        )
