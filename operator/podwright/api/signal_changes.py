"""True if an active policy could go on with other definitions of signals."""

from __future__ import annotations

from podwright.api.compile import CompiledPolicy
from podwright.api.spec.signals import Definitions
from podwright.core.plugins.load_aware import LoadAware, LoadAwareArgs


def lacking_signals(policy: CompiledPolicy, definitions: Definitions) -> list[str]:
    """Returns a text for each signal that the policy needs and these definitions lack."""
    spec, args = policy.spec, policy.profile.args.get(LoadAware.name)
    loads = [load.name for load in args.signals] if isinstance(args, LoadAwareArgs) else []
    named = [*spec.signals, *(spec.delegation.signals if spec.delegation is not None else ()), *loads]
    problems = []
    for name in dict.fromkeys(named):
        if name not in definitions:
            problems.append(f"signal {name!r} is not defined")
        elif name in loads and not definitions[name].resource:
            problems.append(f"signal {name!r} measures no resource")
    return problems
