"""Compiles the active policies for other plugin classes while the old ones decide, and then replaces all of them at
once.

    steps: built-in policies ─► SchedulerPolicies ─► local policies ─► finish, with no pause after the last step

Only policies that use a changed plugin are compiled. Policies that are added or changed between the steps are compiled
in further steps. If one of them cannot be compiled, nothing has changed.
"""

from __future__ import annotations

from collections.abc import Collection

from podwright.api.compile import CompiledPolicy
from podwright.api.policy_result import problem_of
from podwright.core.framework.errors import ReportException
from podwright.core.framework.framework import Framework
from podwright.core.framework.profile import Classes
from podwright.core.objects.control_flow import passes_through
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.process.steps import Steps


class RecompilationError(Exception):
    """A policy cannot be compiled for these plugins. The message names the policy, and the file and line where a plugin
    raised an exception.
    """


class Recompilation:
    """See the module. `changed`: the names of plugins that were added, removed or replaced in `classes`."""

    def __init__(self, policies: ActivePolicies, *, classes: Classes, changed: Collection[str]) -> None:
        self._policies = policies
        self._classes = classes
        self._changed = changed
        self._fresh: dict[CompiledPolicy, CompiledPolicy] = {}
        self._frameworks: dict[CompiledPolicy, Framework] = {}
        self._finished = False

    def steps(self) -> Steps[None]:
        """Compiles one policy in each step. Raises RecompilationError."""
        while todo := [each for each in self._policies.using(self._changed, self._classes) if each not in self._fresh]:
            for policy in todo:
                if self._policies.is_known(policy):
                    self._prepare(policy)
                    yield

    def _prepare(self, policy: CompiledPolicy) -> None:
        plugins = self._policies.plugins
        try:
            with plugins.building():
                fresh = self._policies.policy_set.recompiled(policy, self._classes, self._fresh)
                if not policy.refusal:
                    self._frameworks[policy] = plugins.framework_of(
                        policy,
                        fresh.profile,
                        classes=self._classes,
                        report=self._reporting(plugins.reporter(policy)),
                        on_again=self._changed,
                    )
            self._fresh[policy] = fresh
        except BaseException as error:
            if passes_through(error):
                raise
            raise RecompilationError(f"policy {policy.name}: {problem_of(error)}") from error

    def _reporting(self, report: ReportException) -> ReportException:
        """Exceptions of the new plugins end the compilation. They are counted for the policy only once its new plugins
        are in use.
        """

        def reporting(plugin: str, point: str, error: BaseException) -> None:
            if self._finished:
                report(plugin, point, error)

        return reporting

    def finish(self, gone: Collection[str]) -> int:
        """Puts the compiled policies into use. `gone`: the modules whose plugins are no longer used. Returns how many
        policies have changed.
        """
        known = {policy: fresh for policy, fresh in self._fresh.items() if self._policies.is_known(policy)}
        frameworks = {policy: each for policy, each in self._frameworks.items() if policy in known}
        self._finished = True
        self._policies.adopt(self._classes, known, frameworks, changed=self._changed, gone=gone)
        return len(frameworks)
