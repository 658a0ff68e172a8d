"""The table of all in-tree plugins. A new one is one file here and one line below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podwright.core.framework.interface import Plugin
from podwright.core.plugins.default_binder import DefaultBinder
from podwright.core.plugins.node_affinity import NodeAffinity
from podwright.core.plugins.node_name import NodeName
from podwright.core.plugins.node_name_score import NodeNameScore
from podwright.core.plugins.node_unschedulable import NodeUnschedulable
from podwright.core.plugins.priority_sort import PrioritySort
from podwright.core.plugins.random_score import RandomScore
from podwright.core.plugins.scheduling_gates import SchedulingGates
from podwright.core.plugins.taint_toleration import TaintToleration

_CLASSES: Final[tuple[type[Plugin], ...]] = (
    DefaultBinder,
    NodeAffinity,
    NodeName,
    NodeNameScore,
    NodeUnschedulable,
    PrioritySort,
    RandomScore,
    SchedulingGates,
    TaintToleration,
)

PLUGINS: Final[Mapping[str, type[Plugin]]] = {plugin.name: plugin for plugin in _CLASSES}
