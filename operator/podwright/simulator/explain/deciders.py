"""Which policy decides about a pod of a World, and the framework that runs the policy's plugins on the World's cache."""

from __future__ import annotations

from podwright.api.compile import Classes, CompiledPolicy
from podwright.api.policy_set import PolicySet
from podwright.core.framework.framework import Framework
from podwright.core.objects.pod import PodInfo
from podwright.simulator.world import World


class Deciders:
    """See the module. Frameworks are built when they are first needed."""

    def __init__(self, world: World, policies: PolicySet, classes: Classes) -> None:
        self.world = world
        self.policies = policies
        self._classes = classes
        self._frameworks: dict[CompiledPolicy, Framework] = {}

    def policy_of(self, pod: PodInfo) -> CompiledPolicy | None:
        """None if no policy serves the pod's scheduler name."""
        return self.policies.select(pod, self.world.cache.namespace_labels(pod.namespace))

    def framework(self, policy: CompiledPolicy) -> Framework:
        """Raises ProfileError or PluginError."""
        found = self._frameworks.get(policy)
        if found is None:
            found = self._frameworks[policy] = Framework(policy.profile, self._classes, handle=self.world)
        return found

    def framework_of(self, pod: PodInfo) -> Framework:
        """The framework of the policy that decides about the pod; that of the built-in policy if none does."""
        policy = self.policy_of(pod)
        return self.framework(self.policies.default if policy is None or policy.refusal else policy)
