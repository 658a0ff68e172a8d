"""A policy that decides about pods, with its plugins built, or lets its pods wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from podwright.api.compile import BUILT_IN, CompiledPolicy
from podwright.api.local_policies import UNCHECKED
from podwright.core.framework.cluster_events import EventHint
from podwright.core.framework.framework import Framework
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.pod import POLICY_ANNOTATION, PodInfo
from podwright.engine.policies.policy_plugins import Conduct
from podwright.engine.records.local_budgets import Account
from podwright.engine.records.policy_activity import Activity

WAITS_FOR_POLICY: Final = "SchedulerPolicy"
"""The name that stands for a rejecting plugin if only another policy can help a pod, such as a pod of a refused policy.
No event of the cluster helps these pods.
"""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ActivePolicy:
    """A policy that takes pods, and the framework that runs its plugins.

    With a `refusal`, its pods wait: no generation of the policy was accepted, the pods name a policy that does not take
    them, or a plugin is switched off. In the first two cases the framework is the built-in policy's, whose PreEnqueue
    plugins gate the pods. `hints`: the queueing hints by plugin, in an object of this policy's own. `label`: name and
    generation. `extenders`: the names of the extenders that are called for its pods. `account`: the time that a local
    policy takes; None if it adds nothing.
    """

    compiled: CompiledPolicy
    framework: Framework
    hints: Mapping[str, Sequence[EventHint]]
    label: str
    refusal: str
    extenders: tuple[str, ...]
    activity: Activity
    account: Account | None = None

    @staticmethod
    def of(
        compiled: CompiledPolicy,
        framework: Framework,
        conduct: Conduct,
        *,
        account: Account | None = None,
        refusal: str = "",
    ) -> ActivePolicy:
        """Makes an ActivePolicy of an accepted or refused policy. `framework`: of this policy, or of the built-in one
        if the policy was refused.

        `refusal`: why the pods of an accepted policy wait.
        """
        label = f"{compiled.name}@{compiled.generation}"
        hints, extenders = framework.hints, compiled.profile.extenders
        if extenders or compiled.refusal or refusal:
            hints = {**hints, WAITS_FOR_POLICY: ()}
        if compiled.misnamed:
            label, refusal = "", compiled.refusal
        elif compiled.refusal:
            what = UNCHECKED if compiled.refusal == UNCHECKED else f"was not accepted: {compiled.refusal}"
            refusal = f"policy {compiled.name}, generation {compiled.generation}, {what}"
        return ActivePolicy(
            compiled=compiled,
            framework=framework,
            hints=hints,
            label=label,
            refusal=refusal,
            extenders=extenders,
            activity=conduct.activities.of(compiled.name or BUILT_IN),
            account=account,
        )

    def why_waits(self, pod: PodInfo) -> str:
        """Why the pod waits, if the policy has a refusal."""
        if self.compiled.misnamed:
            return f"its annotation {POLICY_ANNOTATION} names policy {pod.policy!r}, which {self.refusal}"
        return self.refusal
