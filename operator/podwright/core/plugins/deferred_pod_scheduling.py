"""DeferredPodScheduling: known by name and off by default, as in kube-scheduler. It would make room for a pod whose in-place resize its node cannot grant yet; a profile that enables it is refused."""

from __future__ import annotations

from podwright.core.framework.interface import Plugin


class DeferredPodScheduling(Plugin):
    """See the module."""

    name = "DeferredPodScheduling"
    not_supported = "deferred resizes are left to the kubelet"
