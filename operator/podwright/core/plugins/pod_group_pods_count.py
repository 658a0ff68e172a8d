"""PodGroupPodsCount: known by name and off by default, as in kube-scheduler. It would score placements of a pod group by how many of its pods they hold; a profile that enables it is refused."""

from __future__ import annotations

from podwright.core.framework.interface import Plugin


class PodGroupPodsCount(Plugin):
    """See the module."""

    name = "PodGroupPodsCount"
    not_supported = "pod groups are not placed by topology yet"
