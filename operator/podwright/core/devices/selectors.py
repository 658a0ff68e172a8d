"""CEL selectors of device classes and requests, evaluated once for each distinct device.

A `Matcher` keeps a result for each number of a device shape (see `core.state.devices.shapes`), so as one byte, and for as long as a slice has a device
of that shape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from podwright.core.objects.compaction import RecentCache
from podwright.core.objects.devices.slices import DeviceShape
from podwright.core.state.devices.shapes import ShapeNumbers

UNKNOWN: Final = 0
YES: Final = 1
NO: Final = 2
FAILS: Final = 3

MAX_MATCHERS: Final = 512


class SelectorError(Exception):
    """A selector cannot be compiled, or fails on a device. The message is kube-scheduler's, without the object that has the selector."""


Pause = Callable[[], object]
Evaluate = Callable[[DeviceShape, Pause], bool]
"""Whether a device matches. Calls `pause` now and then. Raises SelectorError."""
Compile = Callable[[str], Evaluate]
"""Compiles an expression. Raises SelectorError."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The selector at `index` of the class (`of_class`) or of the request fails: `text` says how. `compiling`: on every device."""

    of_class: bool
    index: int
    text: str
    compiling: bool


class Matcher:
    """Whether devices match the selectors of a class and then those of a request."""

    __slots__ = ("_failures", "_numbers", "_pause", "_results", "_selectors", "_seq", "evaluations")

    def __init__(
        self, selectors: tuple[tuple[bool, int, Evaluate | SelectorError], ...], numbers: ShapeNumbers, pause: Pause
    ) -> None:
        """`selectors`: (of the class, index, what evaluates it, or why it cannot be compiled)."""
        self._selectors = selectors
        self._numbers = numbers
        self._results = bytearray(numbers.size)
        self._failures: dict[int, Failure] = {}
        self._seq = numbers.reused.seq
        self._pause = pause
        self.evaluations = 0
        """How many devices were evaluated."""

    @property
    def takes_all(self) -> bool:
        """Whether there is no selector."""
        return not self._selectors

    def results(self) -> bytearray:
        """By number of the shape: YES, NO, FAILS, or UNKNOWN until `match` is called. Valid until the slices change."""
        numbers, results = self._numbers, self._results
        if self._seq != numbers.reused.seq:
            changed = numbers.reused.since(self._seq)
            self._seq = numbers.reused.seq
            if changed is None:
                self._results = results = bytearray(numbers.size)
                self._failures.clear()
            else:
                for number in changed:
                    if number < len(results):
                        results[number] = UNKNOWN
                        self._failures.pop(number, None)
        if len(results) < numbers.size:
            results.extend(bytes(numbers.size - len(results)))
        return results

    def match(self, number: int) -> int:
        """Evaluates the selectors on the shape with this number. May pause."""
        if self._selectors:
            self._pause()
        result = self._evaluate(number)
        self._results[number] = result
        return result

    def failure(self, number: int) -> Failure:
        """Why the result for this number is FAILS."""
        return self._failures[number]

    def _evaluate(self, number: int) -> int:
        shape = self._numbers.shape(number)
        self.evaluations += 1
        for of_class, index, evaluate in self._selectors:
            try:
                if isinstance(evaluate, SelectorError):
                    raise evaluate.with_traceback(None)  # a kept one would keep frames of each raise
                if not evaluate(shape, self._pause):
                    return NO
            except SelectorError as error:
                compiling = isinstance(evaluate, SelectorError)
                self._failures[number] = Failure(of_class, index, str(error), compiling)
                return FAILS
        return YES


class Selectors:
    """The matchers in use. `compile_expression`: see `Compile`; `pause`: called in long evaluations."""

    def __init__(self, compile_expression: Compile, numbers: ShapeNumbers, pause: Pause) -> None:
        self._compile = compile_expression
        self._numbers = numbers
        self._pause = pause
        self._compiled: RecentCache[str, Evaluate | SelectorError] = RecentCache(MAX_MATCHERS)
        self._matchers: RecentCache[tuple[tuple[str, ...], tuple[str, ...]], Matcher] = RecentCache(MAX_MATCHERS)

    def matcher(self, of_class: tuple[str, ...], of_request: tuple[str, ...]) -> Matcher:
        """The matcher for these expressions."""
        key = of_class, of_request
        found = self._matchers.get(key)
        if found is None:
            selectors = [(True, i, self._evaluator(text)) for i, text in enumerate(of_class)]
            selectors += [(False, i, self._evaluator(text)) for i, text in enumerate(of_request)]
            found = Matcher(tuple(selectors), self._numbers, self._pause)
            self._matchers.put(key, found)
        return found

    def _evaluator(self, text: str) -> Evaluate | SelectorError:
        found = self._compiled.get(text)
        if found is None:
            try:
                found = self._compile(text)
            except SelectorError as error:
                found = error
            self._compiled.put(text, found)
        return found
