"""The in-tree plugins. A new plugin needs a file in this package, and its class in the table below.

`core/framework/interface.py` is the contract of plugins. What others must know of a plugin, such as its scope, its
costs and why it rejects a node, the plugin says itself. `DEFAULT_PLUGINS` in `core/framework/profile.py` lists the
plugins that are enabled by default.

Plugins with helpers have packages. What a plugin says for explanations is in `explained` of its package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podwright.core.framework.interface import Plugin
from podwright.core.plugins.affinity.inter_pod_affinity import InterPodAffinity
from podwright.core.plugins.default_binder import DefaultBinder
from podwright.core.plugins.default_preemption import DefaultPreemption
from podwright.core.plugins.deferred_pod_scheduling import DeferredPodScheduling
from podwright.core.plugins.devices.dynamic_resources import DynamicResources
from podwright.core.plugins.gang_scheduling import GangScheduling
from podwright.core.plugins.image_locality import ImageLocality
from podwright.core.plugins.load_aware import LoadAware
from podwright.core.plugins.node_affinity import NodeAffinity
from podwright.core.plugins.node_declared_features import NodeDeclaredFeatures
from podwright.core.plugins.node_name import NodeName
from podwright.core.plugins.node_name_score import NodeNameScore
from podwright.core.plugins.node_ports import NodePorts
from podwright.core.plugins.node_unschedulable import NodeUnschedulable
from podwright.core.plugins.pod_group_pods_count import PodGroupPodsCount
from podwright.core.plugins.priority_sort import PrioritySort
from podwright.core.plugins.queue_quota import QueueQuota
from podwright.core.plugins.random_score import RandomScore
from podwright.core.plugins.resources.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from podwright.core.plugins.resources.node_resources_fit import NodeResourcesFit
from podwright.core.plugins.rules.local_rules import LocalRules
from podwright.core.plugins.rules.policy_rules import PolicyRules
from podwright.core.plugins.scheduling_gates import SchedulingGates
from podwright.core.plugins.shares.device_shares import DeviceShares
from podwright.core.plugins.spread.pod_topology_spread import PodTopologySpread
from podwright.core.plugins.taint_toleration import TaintToleration
from podwright.core.plugins.topology_placement_generator import TopologyPlacementGenerator
from podwright.core.plugins.volumes.node_volume_limits import NodeVolumeLimits
from podwright.core.plugins.volumes.volume_binding import VolumeBinding
from podwright.core.plugins.volumes.volume_restrictions import VolumeRestrictions
from podwright.core.plugins.volumes.volume_zone import VolumeZone

_CLASSES: Final[tuple[type[Plugin], ...]] = (
    DefaultBinder,
    DefaultPreemption,
    DeferredPodScheduling,
    DeviceShares,
    DynamicResources,
    GangScheduling,
    ImageLocality,
    InterPodAffinity,
    LoadAware,
    LocalRules,
    NodeAffinity,
    NodeDeclaredFeatures,
    NodeName,
    NodeNameScore,
    NodePorts,
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
    NodeUnschedulable,
    NodeVolumeLimits,
    PodGroupPodsCount,
    PodTopologySpread,
    PolicyRules,
    PrioritySort,
    QueueQuota,
    RandomScore,
    SchedulingGates,
    TaintToleration,
    TopologyPlacementGenerator,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
)

PLUGINS: Final[Mapping[str, type[Plugin]]] = {plugin.name: plugin for plugin in _CLASSES}
