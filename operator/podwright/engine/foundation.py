"""What the engine's parts are built on: the shared state, the policies, and what watches over plugins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from podwright.api.compile import Classes
from podwright.core.framework.errors import PluginError
from podwright.core.framework.features import Features
from podwright.core.objects.pod import PodInfo
from podwright.core.queue import SchedulingQueue
from podwright.core.state.cache import Cache
from podwright.engine.accounting.local_budgets import LocalBudgets
from podwright.engine.accounting.policy_activity import Activities
from podwright.engine.arrivals import Arrivals
from podwright.engine.binding.cycle import BindingCycles
from podwright.engine.binding.limiter import BindLimiter
from podwright.engine.binding.plugin_cluster import plugin_handle
from podwright.engine.decisions.recent_decisions import RecentDecisions
from podwright.engine.engine_options import EngineOptions
from podwright.engine.intake.unreadable_devices import report_unreadable_devices
from podwright.engine.invalid_objects import InvalidObjects
from podwright.engine.planning.elsewhere import Elsewhere
from podwright.engine.planning.messages import Messages
from podwright.engine.planning.planning import Planning
from podwright.engine.plugins.exceptions import PluginExceptions
from podwright.engine.plugins.guard import PluginGuard, ThreadTimes
from podwright.engine.plugins.slow_plugins import SlowPlugins
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.policies.policy_plugins import Conduct
from podwright.engine.ports import SCHEDULER_ERROR, Ports, Verdict
from podwright.engine.process.quiet import Quiet
from podwright.engine.process.slice import Slice
from podwright.engine.raw_objects import raw_objects_for
from podwright.engine.state import EngineState, Sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """See the module."""

    state: EngineState
    policies: ActivePolicies
    binding_cycles: BindingCycles
    limiter: BindLimiter
    activities: Activities
    budgets: LocalBudgets
    plugin_exceptions: PluginExceptions
    plugin_guard: PluginGuard
    planning: Planning
    elsewhere: Elsewhere


def _gate_failed(ports: Ports, pod: PodInfo, error: PluginError) -> None:
    """A PreEnqueue plugin has failed: no attempt will tell the pod's user why it waits."""
    ports.recorder.record(pod, "Warning", "FailedScheduling", "Scheduling", str(error))
    ports.status.write(pod, Verdict(SCHEDULER_ERROR, str(error)), None)


def lay_foundation(
    classes: Classes,
    features: Features,
    *,
    ports: Ports,
    sources: Sources,
    options: EngineOptions,
    wake: Callable[[], None],
) -> Foundation:
    """Raises ProfileError or PluginError if the built-in policy cannot be built. `wake`: see EngineState."""
    metrics, clock = ports.metrics, sources.clock
    invalid_objects = InvalidObjects(metrics)
    cache = Cache(invalid_objects.report, signals=sources.signals(options.policies))
    report_unreadable_devices(cache, invalid_objects.report)
    binding_cycles, limiter = BindingCycles(), BindLimiter(clock, options.bindings_at_once)
    activities, budgets = Activities(metrics, wall=sources.wall), LocalBudgets(clock, cpu=sources.cpu)
    exceptions = PluginExceptions(metrics, activities=activities)
    cache.contain_indexes(exceptions.index_failed)
    times = ThreadTimes(clock=clock, cpu=sources.cpu, waits=sources.waits)
    guard = PluginGuard(times, metrics, budget=options.plugin_budget)
    handle = plugin_handle(cache, features, ports, wall=sources.wall, binding_cycles=binding_cycles, limiter=limiter)
    policies = ActivePolicies(
        classes,
        handle,
        settings=options.policies,
        invalid_objects=invalid_objects,
        conduct=Conduct(
            observer=metrics,
            exceptions=exceptions,
            budgets=budgets,
            activities=activities,
            guard=guard,
            disabled=options.disabled_plugins,
        ),
        gate_failed=partial(_gate_failed, ports),
    )
    queue = SchedulingQueue(
        clock,
        policies.sort_key,
        pre_enqueue=policies.pre_enqueue,
        hints_of=policies.hints_of,
        estimate=policies.estimate,
        observer=metrics,
        waits=options.waits,
    )
    budgets.charge_to(queue.charge_lane)
    cache.deadline.others_wait = True
    slices, quiet = Slice(cache, clock=clock, cpu=sources.cpu), Quiet(ports.intake.hold_back, ports.intake.go_on)
    messages = Messages(cache, queue, shared=(handle,))
    planning = Planning(
        cache,
        queue,
        children=ports.children,
        messages=messages,
        slices=slices,
        quiet=quiet,
        budgets=budgets,
        exceptions=exceptions,
        metrics=metrics,
        clock=clock,
        cpu=sources.cpu,
        wake=wake,
    )
    state = EngineState(
        cache=cache,
        queue=queue,
        binding_cycles=binding_cycles,
        invalid_objects=invalid_objects,
        slow_plugins=SlowPlugins(metrics),
        slices=slices,
        quiet=quiet,
        decisions=RecentDecisions(sources.wall),
        features=features,
        sources=sources,
        instance=options.instance,
        arrivals=Arrivals(),
        raw_objects=raw_objects_for([each.defined.settings for each in ports.extenders.values()], cache.placement),
        wake=wake,
    )
    return Foundation(
        state=state,
        policies=policies,
        binding_cycles=binding_cycles,
        limiter=limiter,
        activities=activities,
        budgets=budgets,
        plugin_exceptions=exceptions,
        plugin_guard=guard,
        planning=planning,
        elsewhere=Elsewhere(slices, cache.deadline, children=ports.children, messages=messages),
    )
