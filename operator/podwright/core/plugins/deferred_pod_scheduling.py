"""DeferredPodScheduling: known by name only; a profile that enables it is refused.

In kube-scheduler, where it is off by default, it makes room for a pod whose node cannot grant an in-place resize yet.
"""

from __future__ import annotations

from podwright.core.framework.interface import Plugin


class DeferredPodScheduling(Plugin):
    """See the module."""

    name = "DeferredPodScheduling"
    not_supported = "deferred resizes are left to the kubelet"
