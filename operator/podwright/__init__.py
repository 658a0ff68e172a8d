"""Podwright: a Kubernetes scheduler that people program instead of compile.

The names of the library are imported when they are first used, so that the operator starts without them. `__init__.pyi`
has their types.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_LIBRARY = {
    "Change": "podwright.simulator.explain.results",
    "Cluster": "podwright.simulator.library",
    "Explanation": "podwright.simulator.explain.results",
    "Picture": "podwright.simulator.library",
    "Policy": "podwright.simulator.library",
    "Scorecard": "podwright.simulator.replay.scorecard",
    "SimulationResult": "podwright.simulator.results",
    "WorkloadExplanation": "podwright.simulator.explain.results",
    "explain": "podwright.simulator.library",
    "plots": "podwright.simulator.library",
    "replay": "podwright.simulator.library",
    "simulate": "podwright.simulator.library",
}
"""By name: the module that defines it."""

__all__ = ["__version__", *_LIBRARY]  # noqa: PLE0604 -- these are names


def __getattr__(name: str) -> Any:
    module = _LIBRARY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(module), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LIBRARY})
