"""CEL selectors of device classes and requests, evaluated once for each distinct device.

A `Matcher` keeps a result for each number of a device shape (see `core.state.devices.shapes`), so as one byte, and for
as long as a slice has a device of that shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from podwright.core.devices.meter import SearchMeter
from podwright.core.objects.compaction import RecentCache
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.devices.slices import DeviceShape
from podwright.core.state.devices.shapes import ShapeNumbers

UNKNOWN: Final = 0
YES: Final = 1
NO: Final = 2
FAILS: Final = 3

MAX_MATCHERS: Final = 512
_COSTLY_SECONDS: Final = 1e-3
"""Selectors that are estimated to take at most this long on a device are tried. Ordinary ones take some 10 us."""


class SelectorError(Exception):
    """A selector cannot be compiled, or fails on a device. The message is kube-scheduler's, without the object that has
    the selector.
    """


Pause = Callable[[], object]


class Evaluate(Protocol):
    """A compiled selector. `seconds`: estimated for a device."""

    @property
    def seconds(self) -> float: ...

    def __call__(self, shape: DeviceShape, pause: Pause) -> bool:
        """True if a device matches. Calls `pause` now and then. Raises SelectorError."""


Compile = Callable[[str], Evaluate]
"""Compiles an expression. Raises SelectorError."""


@dataclass(frozen=True, slots=True)
class SelectorFailure:
    """The selector at `index` of the class (`of_class`) or of the request fails: `text` says how. `compiling`: on every
    device.
    """

    of_class: bool
    index: int
    text: str
    compiling: bool


class Matcher:
    """True if devices match the selectors of a class and then those of a request."""

    __slots__ = (
        "_failures",
        "_meter",
        "_numbers",
        "_passed",
        "_results",
        "_seconds",
        "_selectors",
        "_seq",
        "evaluations",
    )

    def __init__(
        self,
        selectors: tuple[tuple[bool, int, Evaluate | SelectorError], ...],
        numbers: ShapeNumbers,
        meter: SearchMeter,
    ) -> None:
        """`selectors`: (of the class, index, what evaluates it, or why it cannot be compiled)."""
        self._selectors = selectors
        self._numbers = numbers
        self._results = bytearray(numbers.size)
        self._failures: dict[int, SelectorFailure] = {}
        self._passed: dict[int, int] = {}
        """By number of the shape: how many selectors a device has passed in an evaluation that was interrupted."""
        self._seq = numbers.reused.seq
        self._meter = meter
        seconds = sum(each.seconds for _, _, each in selectors if not isinstance(each, SelectorError))
        self._seconds = seconds if seconds > _COSTLY_SECONDS else 0.0
        self.evaluations = 0
        """How many devices were evaluated."""

    @property
    def costly(self) -> bool:
        """True if a device may take long to evaluate."""
        return self._seconds > 0

    def results(self) -> bytearray:
        """By number of the shape: YES, NO, FAILS, or UNKNOWN until `match` is called. Valid until the slices change."""
        numbers, results = self._numbers, self._results
        if self._seq != numbers.reused.seq:
            changed = numbers.reused.since(self._seq)
            self._seq = numbers.reused.seq
            if changed is None:
                self._results = results = bytearray(numbers.size)
                self._failures.clear()
                self._passed.clear()
            else:
                for number in changed:
                    if number < len(results):
                        results[number] = UNKNOWN
                        self._failures.pop(number, None)
                    self._passed.pop(number, None)
        if len(results) < numbers.size:
            results.extend(bytes(numbers.size - len(results)))
        return results

    def match(self, number: int) -> int:
        """Evaluates the selectors on the shape with this number. May pause. Raises SearchTimeoutError; the next call
        goes on from there.
        """
        result = self._evaluate(number)
        self._passed.pop(number, None)
        self._results[number] = result
        return result

    def failure(self, number: int) -> SelectorFailure:
        """Why the result for this number is FAILS."""
        return self._failures[number]

    def _evaluate(self, number: int) -> int:
        shape = self._numbers.shape(number)
        self.evaluations += 1
        ahead = self._seconds * self._results.count(UNKNOWN) if self._seconds else 0.0
        for position in range(self._passed.get(number, 0), len(self._selectors)):
            of_class, index, evaluate = self._selectors[position]
            self._passed[number] = position
            self._meter.evaluation(ahead)
            try:
                if isinstance(evaluate, SelectorError):
                    raise evaluate.with_traceback(None)  # a kept one would keep frames of each raise
                if not evaluate(shape, self._meter.point):
                    return NO
            except SelectorError as error:
                compiling = isinstance(evaluate, SelectorError)
                self._failures[number] = SelectorFailure(of_class, index, str(error), compiling)
                return FAILS
        return YES


class Selectors:
    """The matchers in use. `compile_expression`: see `Compile`."""

    def __init__(self, compile_expression: Compile, numbers: ShapeNumbers, meter: SearchMeter) -> None:
        self._compile = compile_expression
        self._numbers = numbers
        self._meter = meter
        self._compiled: RecentCache[str, Evaluate | SelectorError] = RecentCache(MAX_MATCHERS)
        self._matchers: RecentCache[tuple[tuple[str, ...], tuple[str, ...]], Matcher] = RecentCache(MAX_MATCHERS)

    def matcher(self, of_class: tuple[str, ...], of_request: tuple[str, ...]) -> Matcher:
        """The matcher for these expressions."""
        key = of_class, of_request
        found = self._matchers.get(key)
        if found is None:
            selectors = [(True, i, self._evaluator(text)) for i, text in enumerate(of_class)]
            selectors += [(False, i, self._evaluator(text)) for i, text in enumerate(of_request)]
            found = Matcher(tuple(selectors), self._numbers, self._meter)
            self._matchers.put(key, found)
        return found

    def _evaluator(self, text: str) -> Evaluate | SelectorError:
        found = self._compiled.get(text)
        if found is None:
            self._meter.pause()
            try:
                found = self._compile(text)
            except SelectorError as error:
                found = error
            self._compiled.put(text, found)
        return found
