"""Chooses a pod's extenders: the ones of its policy that are interested in it. Each call is measured.

Source: `IsInterested` in kube-scheduler's extender.go.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from podwright.core.objects.pod import PodInfo
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.engine.ports import Extender, ExtenderError, FilterAnswer, NodeVictims, Ports
from podwright.engine.raw_objects import RawObjects, raw_of
from podwright.engine.records.log_fields import fields
from podwright.engine.records.metrics import EXTENDER_CALL_SECONDS, Metrics

log = logging.getLogger(__name__)

T = TypeVar("T")


class PolicyExtenders:
    """See the module. Raises MissingRawError for a pod whose raw object is not known: it is unknown whether an extender
    is interested.
    """

    def __init__(self, ports: Ports) -> None:
        self._extenders = {name: _Measured(extender, ports.metrics) for name, extender in ports.extenders.items()}

    def deciding(self, policy: ActivePolicy, pod: PodInfo) -> Sequence[Extender]:
        """The extenders that are called before a node is chosen, in the order of the calls."""
        return [
            extender
            for extender in self._of(policy, pod)
            if (settings := extender.defined.settings).filter_verb or settings.prioritize_verb or settings.preempt_verb
        ]

    def binding(self, policy: ActivePolicy, pod: PodInfo) -> Extender | None:
        """The extender that binds the pod; None if a plugin binds it."""
        return next((each for each in self._of(policy, pod) if each.defined.settings.bind_verb), None)

    def _of(self, policy: ActivePolicy, pod: PodInfo) -> Sequence[Extender]:
        extenders = (self._extenders[name] for name in policy.extenders)
        return [extender for extender in extenders if _is_interested(extender, pod)]


class _Measured:
    """An extender whose calls are measured."""

    def __init__(self, extender: Extender, metrics: Metrics) -> None:
        self.defined = extender.defined
        self._extender = extender
        self._metrics = metrics

    async def filter(self, pod: PodInfo, nodes: Sequence[str], raw: RawObjects) -> FilterAnswer:
        return await self._call("filter", self._extender.filter(pod, nodes, raw))

    async def prioritize(self, pod: PodInfo, nodes: Sequence[str], raw: RawObjects) -> Mapping[str, int]:
        return await self._call("prioritize", self._extender.prioritize(pod, nodes, raw))

    async def preempt(
        self, pod: PodInfo, victims: Mapping[str, NodeVictims], raw: RawObjects
    ) -> Mapping[str, NodeVictims]:
        return await self._call("preempt", self._extender.preempt(pod, victims, raw))

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        await self._call("bind", self._extender.bind(pod, node_name))

    async def close(self) -> None:
        await self._extender.close()

    async def _call(self, verb: str, answer: Awaitable[T]) -> T:
        started, result = self._metrics.start(), "error"
        try:
            found = await answer
            result = "success"
        except ExtenderError as error:
            # What pods' events say need not name the extender. Nothing about the pod: equal lines are counted.
            log.warning("an extender failed", extra=fields(extender=self.defined.name, verb=verb, err=str(error)))
            raise
        finally:
            seconds = self._metrics.start() - started
            self._metrics.observe(EXTENDER_CALL_SECONDS, seconds, self.defined.name, verb, result)
        return found


def _is_interested(extender: Extender, pod: PodInfo) -> bool:
    managed = {resource.name for resource in extender.defined.settings.managed_resources}
    return not managed or not managed.isdisjoint(_named_resources(raw_of(pod)))


def _named_resources(raw: Mapping[str, Any]) -> set[str]:
    """The resources in requests and limits of containers and init containers."""
    spec = raw.get("spec") or {}
    containers = (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
    amounts = [
        (container.get("resources") or {}).get(key) for container in containers for key in ("requests", "limits")
    ]
    return {name for each in amounts for name in each or ()}
