"""Environments: the variables and functions of expressions, and the compiled programs.

    environment = Environment({"node": NODE, "pod": POD})
    program = environment.compile("node.labels['tier'] == pod.labels['tier']")
    program.evaluate({"node": {...}, "pod": {...}})

An Environment and its programs are immutable and may be shared. See docs/cel.md for what differs from cel-go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from podwright.core.cel.checking.declarations import (
    ADDRESSES,
    LISTS,
    OPTIONAL,
    QUANTITY,
    REGEX,
    SEMVER,
    STRINGS,
    TEXTS,
    Overload,
)
from podwright.core.cel.checking.tree import TreeNode
from podwright.core.cel.checking.validation import validate
from podwright.core.cel.errors import CelError, CostLimitError, EvaluationError, Issue, StopError, fault
from podwright.core.cel.evaluation.attributes import Step
from podwright.core.cel.evaluation.calls import Functions
from podwright.core.cel.evaluation.compiler import Compiler
from podwright.core.cel.frame import Frame
from podwright.core.cel.library import (
    addresses,
    formats,
    kubernetes,
    lists,
    operators,
    optionals,
    regexes,
    strings,
    urls,
)
from podwright.core.cel.types import Type
from podwright.core.cel.values import Function
from podwright.core.objects.dataclass import dataclass

if TYPE_CHECKING:
    from podwright.core.cel.checking.checker import Checker

COST_LIMIT: Final = 1_000_000
"""The cost that one evaluation may have if its caller sets no limit: `PerCallLimit` of Kubernetes."""
UNIT_SECONDS: Final = 1e-6
"""About how long it takes to evaluate what costs 1."""


@dataclass(frozen=True)
class Library:
    """Functions of an environment: their signatures, and their implementations by name."""

    overloads: tuple[Overload, ...]
    plain: Mapping[str, Function]
    allocating: Mapping[str, Function]


_PARTS: Final = (operators, optionals, kubernetes, lists, strings, addresses, urls, formats)
KUBERNETES: Final = Library(
    (*QUANTITY, *SEMVER, *REGEX, *LISTS, *STRINGS, *OPTIONAL, *ADDRESSES, *TEXTS),
    {name: function for part in _PARTS for name, function in part.PLAIN.items()} | regexes.PLAIN,
    {
        name: function
        for part in (operators, optionals, lists, strings, urls)
        for name, function in part.ALLOCATING.items()
    }
    | regexes.ALLOCATING,
)
"""The functions of every environment of Kubernetes 1.37."""


@dataclass(frozen=True)
class Program:
    """A compiled expression."""

    text: str
    tree: TreeNode
    _step: Step
    _slots: int

    @property
    def result_type(self) -> Type:
        """The type of its value, `dyn` if only the evaluation shows it."""
        return self.tree.type

    def evaluate(
        self,
        variables: Mapping[str, object],
        limit: int = COST_LIMIT,
        interrupted: Callable[[], bool] | None = None,
    ) -> object:
        """The value. `limit` bounds the cost. Loops call `interrupted` every 100 elements, and stop if it returns True.

        Raises EvaluationError, with cel-go's text; CancelledError or CostLimitError if it was stopped.
        """
        return self.evaluate_with_cost(variables, limit, interrupted)[0]

    def evaluate_with_cost(
        self,
        variables: Mapping[str, object],
        limit: int = COST_LIMIT,
        interrupted: Callable[[], bool] | None = None,
    ) -> tuple[object, int]:
        """The value and its cost. Raises as `evaluate` does."""
        frame = Frame(variables, self._slots, limit, interrupted)
        try:
            try:
                value = self._step(frame)
            except EvaluationError:
                frame.check()
                raise
            if frame.cost > limit:
                frame.check()
        except EvaluationError:
            raise
        except StopError as stop:
            raise stop.error from None
        except RecursionError:
            raise CostLimitError("operation cancelled: the expression is nested too deeply") from None
        except Exception as error:
            raise EvaluationError(fault(error)) from error
        return value, frame.cost


class Environment:
    """Typed variables, and the functions of `libraries`.

    A variable of an object type refuses misspelt fields. Each library's functions are added to CEL's own.
    """

    def __init__(self, variables: Mapping[str, Type], libraries: Iterable[Library] = (KUBERNETES,)) -> None:
        found = tuple(libraries)
        self.variables = dict(variables)
        self._overloads = [overload for library in found for overload in library.overloads]
        self._functions = Functions(
            plain={name: function for library in found for name, function in library.plain.items()},
            allocating={name: function for library in found for name, function in library.allocating.items()},
            prepared={**regexes.PREPARED, **kubernetes.PREPARED},
        )

    @cached_property
    def _checker(self) -> Checker:
        from podwright.core.cel.checking.checker import Checker  # noqa: PLC0415 -- takes long to import

        return Checker(self.variables, self._overloads)

    def compile(self, text: str) -> Program:
        """Compiles an expression. Raises CelError, with line and column, if its syntax, its types or a constant part
        are wrong.
        """
        try:
            tree = self._checker.check(text)
            validate(tree, is_exact="sortBy(" not in text or "flatten(" not in text)
            compiler = Compiler(self._functions)
            step = compiler.compile(tree).step
        except RecursionError:
            raise CelError(Issue(0, 0, "the expression is nested too deeply")) from None
        except CelError as error:
            raise _placed(error, text) from None
        except Exception as error:
            raise CelError(Issue(0, 0, fault(error))) from error
        return Program(text, tree, step, compiler.scope.count)

    def part(self, tree: TreeNode) -> Program:
        """Compiles a part of a checked tree. Its evaluations take the variables of the macros around it from their
        `variables`.
        """
        compiler = Compiler(self._functions)
        step = compiler.compile(tree).step
        return Program("", tree, step, compiler.scope.count)


def _placed(error: CelError, text: str) -> CelError:
    """Gives issues that know only the offset, in `column`, their line."""
    return CelError(*(_place(issue, text) for issue in error.issues))


def _place(issue: Issue, text: str) -> Issue:
    if issue.line or not issue.column:
        return issue
    before = text[: issue.column]
    return Issue(before.count("\n") + 1, issue.column - (before.rfind("\n") + 1) + 1, issue.message)
