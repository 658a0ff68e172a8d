"""Which extenders a pod is sent to: those of its policy that are interested in it.

Source: `IsInterested` in kube-scheduler's extender.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podwright.core.objects.pod import PodInfo
from podwright.engine.active_policies import ActivePolicy
from podwright.engine.ports import Extender


class PolicyExtenders:
    """See the module."""

    def __init__(self, extenders: Mapping[str, Extender]) -> None:
        """`extenders`: all that are defined, by name."""
        self._extenders = extenders

    def deciding(self, policy: ActivePolicy, pod: PodInfo) -> Sequence[Extender]:
        """Those that are asked before a node is chosen, in the order in which they are asked."""
        return [
            extender
            for extender in self._of(policy, pod)
            if (settings := extender.defined.settings).filter_verb or settings.prioritize_verb or settings.preempt_verb
        ]

    def binding(self, policy: ActivePolicy, pod: PodInfo) -> Extender | None:
        """The one that binds the pod; None if a plugin does."""
        return next((each for each in self._of(policy, pod) if each.defined.settings.bind_verb), None)

    def _of(self, policy: ActivePolicy, pod: PodInfo) -> Sequence[Extender]:
        extenders = (self._extenders[name] for name in policy.extenders)
        return [extender for extender in extenders if _is_interested(extender, pod)]


def _is_interested(extender: Extender, pod: PodInfo) -> bool:
    managed = {resource.name for resource in extender.defined.settings.managed_resources}
    return not managed or not managed.isdisjoint(_named_resources(pod.raw or {}))


def _named_resources(raw: Mapping[str, Any]) -> set[str]:
    """The resources in requests and limits of containers and init containers."""
    spec = raw.get("spec") or {}
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    amounts = [
        (container.get("resources") or {}).get(key) for container in containers for key in ("requests", "limits")
    ]
    return {name for each in amounts for name in each or ()}
