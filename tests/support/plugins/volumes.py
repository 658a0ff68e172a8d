"""Raw volumes, claims and related objects, and the verdicts of volume plugins on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from podwright.core.framework.interface import CycleState, Feasible
from podwright.core.framework.status import Code, Status
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.plugins.volumes.volume_binding import VolumeBinding
from podwright.core.state.cache import Cache
from support.objects.builders import make_node, make_pod
from support.plugins.kit import build, make_cache, verdicts

ZONE = "topology.kubernetes.io/zone"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
Raw = dict[str, Any]


def make_volume(
    name: str = "pv",
    *,
    size: str = "10Gi",
    storage_class: str = "std",
    claim: str = "",
    labels: Mapping[str, str] | None = None,
    zones: Sequence[str] = (),
    modes: Sequence[str] = ("ReadWriteOnce",),
    phase: str = "Available",
    version: str = "1",
    source: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Raw:
    """A PersistentVolume. `claim`: the claim in namespace default that it is bound to. `zones`: its node affinity."""
    made: Raw = {
        "capacity": {"storage": size},
        "accessModes": list(modes),
        "storageClassName": storage_class,
        **(source or {"csi": {"driver": "csi.example.com", "volumeHandle": f"handle-{name}"}}),
    }
    if claim:
        made["claimRef"] = {"namespace": "default", "name": claim, "uid": f"uid-{claim}"}
    if zones:
        made["nodeAffinity"] = in_zones(*zones)
    return {
        "metadata": {"name": name, "labels": labels or {}, "resourceVersion": version, **(metadata or {})},
        "spec": {**made, **(spec or {})},
        "status": {"phase": "Bound" if claim else phase},
    }


def in_zones(*zones: str) -> Raw:
    expression = {"key": ZONE, "operator": "In", "values": list(zones)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def make_claim(
    name: str = "claim",
    *,
    namespace: str = "default",
    size: str = "5Gi",
    storage_class: str = "std",
    volume: str = "",
    bound: bool = True,
    selected_node: str = "",
    modes: Sequence[str] = ("ReadWriteOnce",),
    owner: str = "",
    version: str = "1",
    spec: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Raw:
    """A PersistentVolumeClaim. `volume`: its volume, to which it is bound by default. `owner`: the uid of the
    controlling pod.
    """
    annotations = {}
    if volume and bound:
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
    if selected_node:
        annotations["volume.kubernetes.io/selected-node"] = selected_node
    made: Raw = {
        "accessModes": list(modes),
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
    }
    if volume:
        made["volumeName"] = volume
    references = [{"kind": "Pod", "name": "p", "uid": owner, "controller": True}] if owner else []
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": version,
            "annotations": annotations,
            "ownerReferences": references,
            **(metadata or {}),
        },
        "spec": {**made, **(spec or {})},
        "status": dict(status or {"phase": "Bound" if volume and bound else "Pending"}),
    }


def make_class(
    name: str = "std",
    *,
    provisioner: str = "csi.example.com",
    mode: str | None = "WaitForFirstConsumer",
    zones: Sequence[str] = (),
    **more: Any,
) -> Raw:
    made: Raw = {"metadata": {"name": name}, "provisioner": provisioner, **more}
    if mode is not None:
        made["volumeBindingMode"] = mode
    if zones:
        made["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}]
    return made


def make_csi_node(name: str, migrated: Sequence[str] = (), **limits: int | None) -> Raw:
    """A CSINode. `limits`: by driver, with `_` instead of `.`; None: no limit. `migrated`: in-tree plugins that CSI
    drivers replace.
    """
    drivers = [
        {"name": driver.replace("_", "."), "nodeID": name, **({} if n is None else {"allocatable": {"count": n}})}
        for driver, n in limits.items()
    ]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(migrated)} if migrated else {}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"drivers": drivers}}


def make_driver(name: str = "csi.example.com", **spec: Any) -> Raw:
    return {"metadata": {"name": name}, "spec": spec}


def make_capacity(
    name: str = "free", *, storage_class: str = "std", zone: str = "", capacity: str = "", largest: str = ""
) -> Raw:
    made: Raw = {"metadata": {"name": name, "namespace": "default"}, "storageClassName": storage_class}
    made["nodeTopology"] = {"matchLabels": {ZONE: zone}} if zone else {}
    if capacity:
        made["capacity"] = capacity
    if largest:
        made["maximumVolumeSize"] = largest
    return made


def make_attachment(name: str, node: str, volume: str, attacher: str = "csi.example.com") -> Raw:
    spec = {"nodeName": node, "attacher": attacher, "source": {"persistentVolumeName": volume}}
    return {"metadata": {"name": name}, "spec": spec}


def mounting(*claims: str, name: str = "pod", node: str = "", volumes: Sequence[Mapping[str, Any]] = ()) -> Raw:
    """A raw pod that mounts claims (by name) and other raw volumes."""
    mounts = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": claim}} for i, claim in enumerate(claims)]
    return make_pod(name, node=node, spec={"volumes": [*mounts, *volumes]})


def asking(*claims: str, name: str = "pod", volumes: Sequence[Mapping[str, Any]] = ()) -> PodInfo:
    """A pending pod that mounts claims."""
    return parse_pod(mounting(*claims, name=name, volumes=volumes), keep_raw=True)


def ephemeral(name: str = "scratch") -> Raw:
    return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


def cluster(
    nodes: Iterable[Mapping[str, Any]] = (),
    pods: Iterable[Mapping[str, Any]] = (),
    **objects: Iterable[Mapping[str, Any]],
) -> Cache:
    """A cache. `objects` by kind."""
    cache = make_cache(nodes, pods)
    for kind, raws in objects.items():
        for raw in raws:
            cache.set_object(kind, raw)
    return cache


def outcome(plugin: Any, pod: PodInfo) -> str | dict[str, str]:
    """ "Skip", the reason why PreFilter rejects the pod, or the verdicts by node name (checked against the vectorised
    filter).
    """
    answer = plugin.pre_filter(CycleState(), pod)
    if isinstance(answer, Status):
        assert answer.code in (Code.SKIP, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
        return answer.message or "Skip"
    return verdicts(plugin, pod)


def resolvable(plugin: Any, pod: PodInfo, node: str) -> bool:
    """True if evicting pods may resolve the rejection on a node."""
    state = CycleState()
    plugin.pre_filter(state, pod)
    status = plugin.filter(state, pod, plugin.handle.cache.present(node))
    assert status is not None
    return bool(status.code is Code.UNSCHEDULABLE)


def scored(plugin: Any, pod: PodInfo) -> dict[str, int]:
    """Scores of the feasible nodes by name. Asserts that scores per node, of all nodes and of some nodes agree."""
    cache = plugin.handle.cache
    grouped, single = CycleState(), CycleState()
    skipped = [plugin.pre_filter(state, pod) for state in (grouped, single)]
    ok = cache.table.valid
    if skipped[0] is None:
        result = plugin.filter_all(grouped, pod, cache.table)
        ok = ok if result is None else ok & result.ok
    rows = np.flatnonzero(ok)
    found = {cache.table.names[slot]: plugin.score(single, pod, cache.node_at(int(slot))) for slot in rows}
    for state in (grouped, single):
        for slots in (rows, rows[::2]):
            together = np.broadcast_to(plugin.score_all(state, pod, Feasible(cache.table, slots)), len(slots))
            assert together.tolist() == [found[cache.table.names[slot]] for slot in slots]
    return found


BINDING_NODES = [make_node(f"n{i}", labels={ZONE: f"z{i}", "kubernetes.io/hostname": f"n{i}"}) for i in (1, 2, 3)]


def binding_plugin(*, args=None, gates=None, nodes=BINDING_NODES, **objects):
    """VolumeBinding over three nodes in three zones, with a class that provisions nothing."""
    static = make_class(provisioner="kubernetes.io/no-provisioner")
    return build(VolumeBinding, cluster(nodes, **{"StorageClass": [static], **objects}), args, gates)
