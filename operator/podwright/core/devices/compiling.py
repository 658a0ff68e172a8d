"""Compiles CEL selectors for devices. The texts of failures are kube-scheduler's.

A device's values are made once for the selectors that are evaluated on it one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

from podwright.core.cel.cost.bound import greatest_cost
from podwright.core.cel.devices import VARIABLES, compile_selector, device_variables, matches, refusal
from podwright.core.cel.environment import COST_LIMIT, UNIT_SECONDS, Program
from podwright.core.cel.errors import CelError, EvaluationError
from podwright.core.devices.projection import projection_of
from podwright.core.devices.selectors import Evaluate, SelectorError
from podwright.core.objects.compaction import RecentCache
from podwright.core.objects.devices.slices import DeviceShape

_MISSING_KEY: Final = "no such key:"
_HINT: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional "
    "fields"
)
_MAX_VARIABLES: Final = 256
_MAX_RESULTS: Final = 1024
_variables: Final[RecentCache[DeviceShape, Mapping[str, Any]]] = RecentCache(_MAX_VARIABLES)


def compile_expression(text: str) -> Evaluate:
    """See `selectors.Compile`."""
    try:
        program = compile_selector(text)
    except CelError as error:
        raise SelectorError(refusal(error, text)) from None
    return _Compiled(program)


class _Compiled:
    """A selector with its results for devices that it can distinguish."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.seconds = UNIT_SECONDS * min(greatest_cost(program.tree, VARIABLES), COST_LIMIT)
        self._projection = projection_of(program.tree)
        self._results: RecentCache[Hashable, tuple[bool | SelectorError]] = RecentCache(_MAX_RESULTS)

    def __call__(self, shape: DeviceShape, pause: Callable[[], object]) -> bool:
        """See `selectors.Evaluate`."""
        if self._projection is None or not shape.readable:
            return _evaluate(self._program, shape, pause)
        key = self._projection(shape)
        known = self._results.get(key)
        if known is None:
            try:
                known = (_evaluate(self._program, shape, pause),)
            except SelectorError as error:
                known = (error,)
            self._results.put(key, known)
        (result,) = known
        if isinstance(result, SelectorError):
            raise result.with_traceback(None)  # a kept one would keep frames of each raise
        return result


def _evaluate(program: Program, shape: DeviceShape, pause: Callable[[], object]) -> bool:
    def interrupted() -> bool:
        pause()
        return False

    try:
        return matches(program, _variables_of(shape), interrupted=interrupted)
    except EvaluationError as error:
        text = str(error)
        raise SelectorError(text + _HINT if _MISSING_KEY in text else text) from None


def _variables_of(shape: DeviceShape) -> Mapping[str, Any]:
    found = _variables.get(shape)
    if found is None:
        capacity = {name: capacity.value.text for name, capacity in shape.capacity.items()}
        attributes = shape.raw.get("attributes") or {}
        found = device_variables(shape.driver, attributes, capacity, allow_multiple_allocations=shape.allow_multiple)
        _variables.put(shape, found)
    return found
