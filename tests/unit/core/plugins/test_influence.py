"""Where a placed pod can make the filters of scope DOMAIN reject a pending pod."""

from __future__ import annotations

import pytest

from podwright.core.objects.node import HOSTNAME
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.affinity.inter_pod_affinity import InterPodAffinity
from podwright.core.plugins.spread.args import ZONE
from podwright.core.plugins.spread.pod_topology_spread import PodTopologySpread
from podwright.core.plugins.volumes.volume_binding import VolumeBinding
from podwright.core.plugins.volumes.volume_restrictions import VolumeRestrictions
from support.objects.builders import make_pod
from support.plugins.kit import build, make_cache

EVERYWHERE = None
NOWHERE = frozenset()
SELECTOR = {"matchLabels": {"app": "web"}}
TERM = {"topologyKey": ZONE, "labelSelector": SELECTOR}
LISTED = {
    "defaultingType": "List",
    "defaultConstraints": [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}],
}


def pod(app="web", namespace="default", **spec):
    return parse_pod(make_pod("p", namespace=namespace, labels={"app": app}, spec=spec))


def affinity(kind):
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}


def spread(when):
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": SELECTOR}
    return {"topologySpreadConstraints": [constraint]}


CLAIM = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
OTHER_CLAIM = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "logs"}}]}
DISK = {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "disk"}}]}


@pytest.mark.parametrize(
    ("plugin", "args", "pending", "placed", "keys"),
    [
        pytest.param(InterPodAffinity, {}, pod(), pod(), NOWHERE, id="pods without affinity"),
        pytest.param(
            InterPodAffinity, {}, pod(**affinity("podAffinity")), pod(), EVERYWHERE, id="a pod that matches affinity"
        ),
        pytest.param(
            InterPodAffinity,
            {},
            pod(**affinity("podAffinity")),
            pod("db"),
            NOWHERE,
            id="a pod that does not match affinity",
        ),
        pytest.param(
            InterPodAffinity,
            {},
            pod("db", **affinity("podAffinity")),
            pod(),
            NOWHERE,
            id="a pod that matches affinity of one that is never the first of its group",
        ),
        pytest.param(
            InterPodAffinity,
            {},
            pod(**affinity("podAntiAffinity")),
            pod(),
            {ZONE},
            id="a pod that matches anti-affinity",
        ),
        pytest.param(
            InterPodAffinity,
            {},
            pod(),
            pod(**affinity("podAntiAffinity")),
            {ZONE},
            id="anti-affinity of the placed pod",
        ),
        pytest.param(
            PodTopologySpread,
            {},
            pod(**spread("DoNotSchedule")),
            pod(),
            {ZONE},
            id="a pod that a hard constraint counts",
        ),
        pytest.param(
            PodTopologySpread,
            {},
            pod(**spread("DoNotSchedule")),
            pod(namespace="other"),
            NOWHERE,
            id="a pod of another namespace",
        ),
        pytest.param(
            PodTopologySpread,
            {},
            pod(**spread("ScheduleAnyway")),
            pod(),
            NOWHERE,
            id="a soft constraint rejects no node",
        ),
        pytest.param(PodTopologySpread, LISTED, pod(), pod("db"), {ZONE}, id="a hard default constraint"),
        pytest.param(VolumeBinding, {}, pod(**CLAIM), pod(**CLAIM), EVERYWHERE, id="VolumeBinding: a shared claim"),
        pytest.param(VolumeBinding, {}, pod(**CLAIM), pod(**OTHER_CLAIM), NOWHERE, id="VolumeBinding: another claim"),
        pytest.param(
            VolumeRestrictions, {}, pod(**CLAIM), pod(**CLAIM), EVERYWHERE, id="VolumeRestrictions: a shared claim"
        ),
        pytest.param(VolumeRestrictions, {}, pod(**DISK), pod(**DISK), {HOSTNAME}, id="VolumeRestrictions: one disk"),
        pytest.param(
            VolumeRestrictions, {}, pod(**DISK), pod(**CLAIM), NOWHERE, id="VolumeRestrictions: nothing shared"
        ),
    ],
)
def test_influence(plugin, args, pending, placed, keys):
    built = build(plugin, make_cache(), args)
    assert built.influence(pending, placed) == keys


@pytest.mark.parametrize(
    ("plugin", "pending", "looks"),
    [
        pytest.param(InterPodAffinity, pod(**affinity("podAffinity")), True, id="affinity"),
        pytest.param(PodTopologySpread, pod(**spread("ScheduleAnyway")), True, id="a soft constraint"),
        pytest.param(VolumeBinding, pod(**CLAIM), True, id="a claim"),
        pytest.param(VolumeRestrictions, pod(**DISK), True, id="a disk"),
        pytest.param(InterPodAffinity, pod(), False, id="no affinity"),
        pytest.param(PodTopologySpread, pod(), False, id="no constraints"),
        pytest.param(VolumeBinding, pod(), False, id="no claims"),
        pytest.param(VolumeRestrictions, pod(), False, id="no volumes"),
    ],
)
def test_pods_for_which_a_plugin_looks_beyond_the_node(plugin, pending, looks):
    assert build(plugin, make_cache(), {}).looks_beyond_node(pending) is looks


def test_placed_pods_with_affinity_reach_beyond_their_node():
    plugin = build(InterPodAffinity, make_cache(), {})
    assert plugin.reaches_beyond_node(pod(**affinity("podAntiAffinity")))
    assert not plugin.reaches_beyond_node(pod())
