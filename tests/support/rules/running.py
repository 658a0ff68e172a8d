"""Runs the rules of a policy on a small cluster, through the whole core or in the plugin alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podwright.api.compile import CompiledPolicy, OperatorDefinitions, compile_policy
from podwright.api.scheduler_policy import parse_policy
from podwright.core.cycle import Decision, schedule
from podwright.core.framework.features import Features
from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins import PLUGINS
from podwright.core.plugins.rules.policy_rules import PolicyRules
from podwright.simulator.world import World

Raw = Mapping[str, Any]
NAMESPACE = "podwright-system"


def policy_of(
    filters: Sequence[Raw | str] = (), scores: Sequence[Raw | str] = (), namespace: str = NAMESPACE, **spec: Any
) -> CompiledPolicy:
    """A compiled policy. A rule that is a text is the expression of a rule named r0, r1, …"""

    def rules(given: Sequence[Raw | str]) -> list[Raw]:
        return [
            {"name": f"r{i}", "expression": each} if isinstance(each, str) else each for i, each in enumerate(given)
        ]

    whole = {"rules": {"filters": rules(filters), "scores": rules(scores)}, **spec}
    raw = {"metadata": {"name": "pol", "generation": 1}, "spec": whole}
    return compile_policy(parse_policy(raw), PLUGINS, Features(), defined=OperatorDefinitions(namespace=namespace))


def framework_of(world: World, policy: CompiledPolicy) -> Framework:
    return Framework(policy.profile, PLUGINS, world)


def plugin_of(world: World, policy: CompiledPolicy) -> PolicyRules:
    """The plugin that runs the policy's rules."""
    plugin = framework_of(world, policy).plugins[PolicyRules.name]
    assert isinstance(plugin, PolicyRules)
    return plugin


def decided(world: World, policy: CompiledPolicy | Framework, pod: PodInfo, *, preempt: bool = True) -> Decision:
    framework = policy if isinstance(policy, Framework) else framework_of(world, policy)
    return schedule(framework, world.cache, pod, lambda n: 0, preempt=preempt)
