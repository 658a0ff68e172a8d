"""TopologyPlacementGenerator: known by name and off by default, as in kube-scheduler. It would propose topology domains for a whole pod group; a profile that enables it is refused."""

from __future__ import annotations

from podwright.core.framework.interface import Plugin


class TopologyPlacementGenerator(Plugin):
    """See the module."""

    name = "TopologyPlacementGenerator"
    not_supported = "pod groups are not placed by topology yet"
