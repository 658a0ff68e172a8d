"""Compiles a checked tree to operations over columns.

    does not depend on the node ─────────────────────────► Fixed: evaluated once
    reads a field of the node ───────────────────────────► Entry, Taints, Counted, …: a column
    an operator on numbers, bools, texts ────────────────► an operation over columns
    `exists`, `all` and `exists_one` over a fixed list ──► Unrolled
    anything else ───────────────────────────────────────► Lift: evaluated once for all nodes with the same inputs

A part that reads a whole map of the node has different inputs on each node, so it is evaluated for each: it is
`interpreted`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Final

from podwright.core.cel import types
from podwright.core.cel.checking.tree import Call, Comprehension, Const, Ident, ListExpr, Select, TreeNode, children
from podwright.core.cel.types import Type
from podwright.core.cel_columns.arithmetic import ARITHMETIC
from podwright.core.cel_columns.attributes import (
    AMOUNT_MAPS,
    TEXT_MAPS,
    Counted,
    MapEntryColumn,
    Name,
    PodCount,
    Signal,
    Taints,
    Unschedulable,
    Whole,
)
from podwright.core.cel_columns.lifting import MAX_UNROLLED, Lift, Loop, Unrolled
from podwright.core.cel_columns.operations import (
    TEXT_TESTS,
    Arithmetic,
    ConditionalColumn,
    Equality,
    ListMembership,
    Logic,
    Not,
    NumberComparison,
    TextTest,
    Unary,
)
from podwright.core.cel_columns.reads import EVERYTHING, FIELDS, Reads
from podwright.core.cel_columns.run import Evaluate, Fixed, Kept, Operation, Variable
from podwright.core.cel_columns.vectors import VecKind
from podwright.core.objects.dataclass import dataclass

NODE: Final = "node"
"""The variable whose columns are read."""
SIGNALS: Final = "signals"
"""The variable with the signals of the node that is being judged. It is read only as `signals.name`."""
PODS_ON_NODE: Final = "podsOnNode"
PODS_IN_DOMAIN: Final = "podsInDomain"
DOMAIN_OF: Final = "domainOf"
COUNTING: Final[Mapping[str, Reads]] = {PODS_ON_NODE: Reads.USAGE, PODS_IN_DOMAIN: Reads.PLACED | Reads.LABELS}
"""Functions of the node that is being judged, which is not among their arguments, with what they read."""

_KINDS: Final = {
    types.BOOL: VecKind.BOOL,
    types.INT: VecKind.INT,
    types.UINT: VecKind.UINT,
    types.DOUBLE: VecKind.DOUBLE,
}
_COUNTING_SHARES: Final = 32
"""The evaluator counts at least so small a part of a selector's length as the cost of counting pods."""
_COMPARISONS: Final = ("_<_", "_<=_", "_>_", "_>=_")
_NUMBERS: Final = frozenset(
    (
        *((kind, kind) for kind in (VecKind.INT, VecKind.UINT, VecKind.DOUBLE)),
        *((kind, VecKind.DOUBLE) for kind in (VecKind.INT, VecKind.UINT)),
        *((VecKind.DOUBLE, kind) for kind in (VecKind.INT, VecKind.UINT)),
    )
)
"""The pairs of numbers that are compared as columns."""


def kind_of_type(type_: Type) -> VecKind:
    """How values of a type are held."""
    return _KINDS.get(type_, VecKind.TABLE)


@dataclass(frozen=True, slots=True)
class Compiled:
    """`operation`: the whole expression. `interpreted`: why parts are evaluated for each node, in words; "" if the
    whole is compiled.
    """

    operation: Operation
    interpreted: str
    shares: int = 1
    """A part of an expression gets at least 1/shares of the cost that is allowed on a node."""
    inputs: tuple[Operation, ...] = ()
    """The inputs of the parts that are evaluated once for all nodes with equal inputs."""

    @property
    def reads(self) -> Reads:
        """The data of nodes and placed pods that the expression reads."""
        return self.operation.reads


@dataclass(frozen=True)
class _Scope:
    """The macros around a part that are unrolled: their variables, which are fixed, and their accumulators with what
    these read.
    """

    fixed: frozenset[str] = frozenset()
    accumulators: Mapping[str, Reads] = field(default_factory=dict)
    depth: int = 0


class _AccumulatorError(Exception):
    """A part that only the evaluator can evaluate uses an accumulator, which only operations know."""


class ColumnCompiler:
    """Compiles one tree. `evaluator` makes a function that evaluates a part of it."""

    def __init__(self, tree: TreeNode, evaluator: Callable[[TreeNode], Evaluate]) -> None:
        self._tree = tree
        self._evaluator = evaluator
        self._free = free_variables(tree)
        self._of_node = frozenset((NODE, SIGNALS)) & {NODE, *self._free[id(tree)]}
        """The variables that differ from node to node."""
        self._interpreted: list[str] = []
        self._lifts: list[Lift] = []
        self._depth = 0
        """The greatest number of loops around a part whose cost is limited."""
        self._counts = False
        """True if a loop counts pods."""

    def compile(self) -> Compiled:
        tree = self._tree
        hidden = next((name for name in sorted(self._of_node) if _binds(tree, name)), None)
        operation = self._compile(tree, _Scope()) if hidden is None else self._everything(tree, hidden)
        for lift in self._lifts:
            lift.parts = len(self._lifts)
        shares = max(len(self._lifts), 1) * MAX_UNROLLED**self._depth * (_COUNTING_SHARES if self._counts else 1)
        inputs = tuple(each for lift in self._lifts for each in lift.inputs)
        return Compiled(operation, "; ".join(dict.fromkeys(self._interpreted)), shares, inputs)

    def _everything(self, tree: TreeNode, hidden: str) -> Operation:
        self._interpreted.append(f"a macro has a variable {hidden!r}")
        reads = EVERYTHING | (Reads.SIGNALS if SIGNALS in self._of_node else Reads(0))
        lift = Lift(self._evaluator(tree), [Whole(reads)], kind_of_type(tree.type), reads)
        self._lifts.append(lift)
        return lift

    def _depends(self, node: TreeNode, scope: _Scope) -> bool:
        """True if the part depends on the node, on an accumulator, or on a variable of a macro that is not unrolled."""
        free = self._free[id(node)]
        return any(name not in scope.fixed and self._varies(name, scope) for name in free)

    def _varies(self, name: str, scope: _Scope) -> bool:
        return name in self._of_node or name in scope.accumulators or name not in self._free[id(self._tree)]

    def _compile(self, node: TreeNode, scope: _Scope) -> Operation:
        if not self._depends(node, scope):
            return self._fixed(node)
        found = self._attribute(node, scope) or self._native(node, scope)
        return found or self._lift(node, scope)

    def _fixed(self, node: TreeNode) -> Fixed:
        return Fixed(self._evaluator(node))

    # Fields of the node

    def _attribute(self, node: TreeNode, scope: _Scope) -> Operation | None:
        match node:
            case Ident() if node.name in scope.accumulators:
                return Variable(node.name, scope.accumulators[node.name])
            case Select() if self._is_signals(node.operand):
                return Signal(node.field, test=node.is_test)
            case Select() if _is_node(node.operand):
                return None if node.is_test else _field(node.field)
            case Select() if (map_ := _map_of_node(node.operand)) is not None:
                return MapEntryColumn(map_, self._fixed(Const(types.STRING, -1, node.field)), test=node.is_test)
            case Call():
                return self._call(node, scope)
        return None

    def _is_signals(self, node: TreeNode) -> bool:
        return isinstance(node, Ident) and node.name == SIGNALS and SIGNALS in self._of_node

    def _call(self, node: Call, scope: _Scope) -> Operation | None:
        fixed = [not self._depends(argument, scope) for argument in node.args]  # the call itself may depend on the node
        match node.function, node.args, fixed:
            case "_[_]", (operand, key), [_, True] if (map_ := _map_of_node(operand)) is not None:
                return MapEntryColumn(map_, self._fixed(key))
            case "@in", (key, operand), [True, _] if (map_ := _map_of_node(operand)) is not None:
                return MapEntryColumn(map_, self._fixed(key), test=True)
            case "domainOf", (operand, key), [_, True] if _is_node(operand):
                return MapEntryColumn("labels", self._fixed(key), default="")
            case "podsOnNode", (selector,), [True]:
                return self._counted(scope, selector)
            case "podsInDomain", (key, selector), [True, True]:
                return self._counted(scope, selector, key)
        return None

    def _counted(self, scope: _Scope, selector: TreeNode, key: TreeNode | None = None) -> Counted:
        if scope.depth:
            self._depth, self._counts = max(self._depth, scope.depth), True
        return Counted(self._fixed(selector), None if key is None else self._fixed(key))

    # Operators

    def _native(self, node: TreeNode, scope: _Scope) -> Operation | None:
        if isinstance(node, Comprehension):
            return self._macro(node, scope)
        if not isinstance(node, Call):
            return None
        kinds = [kind_of_type(argument.type) for argument in node.args]
        match node.function, kinds:
            case "_&&_" | "_||_", [VecKind.BOOL, VecKind.BOOL]:
                left, right = self._all(node.args, scope)
                return Logic(left, right, until=node.function == "_||_")
            case "!_", [VecKind.BOOL]:
                return Not(self._compile(node.args[0], scope))
            case "_?_:_", [VecKind.BOOL, _, _] if _is_choice(node.args):
                return ConditionalColumn(*self._all(node.args, scope))
            case "@in", [_, _] if _is_among_texts(node.args) and not self._depends(node.args[1], scope):
                return ListMembership(*self._all(node.args, scope))
            case function, [VecKind.TABLE, VecKind.TABLE] if function in TEXT_TESTS and self._tests_text(node, scope):
                test = TextTest(function, *self._all(node.args, scope))
                return Kept(test) if self._is_of_nodes(node, test) else test
            case "-_", [VecKind.INT | VecKind.DOUBLE as kind]:
                return Unary(self._compile(node.args[0], scope), "-_", (kind, kind))
            case "int" | "double", [VecKind.INT | VecKind.UINT | VecKind.DOUBLE as kind]:
                return Unary(self._compile(node.args[0], scope), node.function, (kind, kind_of_type(node.type)))
            case _, [left_kind, right_kind]:
                return self._binary(node, (left_kind, right_kind), scope)
        return None

    def _tests_text(self, node: Call, scope: _Scope) -> bool:
        texts = all(argument.type == types.STRING for argument in node.args)
        return texts and not self._depends(node.args[1], scope)

    def _binary(self, node: Call, kinds: tuple[VecKind, VecKind], scope: _Scope) -> Operation | None:
        numbers = kinds in _NUMBERS
        if node.function in ("_==_", "_!=_"):
            texts = node.args[0].type == node.args[1].type == types.STRING
            if not texts and not numbers and kinds != (VecKind.BOOL, VecKind.BOOL):
                return None
            left, right = self._all(node.args, scope)
            return Equality(left, right, kinds, negated=node.function == "_!=_")
        if node.function in _COMPARISONS and numbers:
            left, right = self._all(node.args, scope)
            return NumberComparison(node.function, left, right, kinds)
        if kinds[0] is kinds[1] and (node.function, kinds[0]) in ARITHMETIC:
            left, right = self._all(node.args, scope)
            return Arithmetic(node.function, left, right, kinds[0])
        return None

    def _all(self, nodes: Sequence[TreeNode], scope: _Scope) -> list[Operation]:
        return [self._compile(node, scope) for node in nodes]

    def _macro(self, node: Comprehension, scope: _Scope) -> Operation | None:
        """`exists`, `all` and `exists_one` over a list that does not depend on the node, and `cel.bind`."""
        if self._depends(node.range, scope):
            return None
        bind = isinstance(node.range, ListExpr) and not node.range.elements
        if not bind and (kind_of_type(node.init.type) not in (VecKind.BOOL, VecKind.INT) or not _runs_to_the_end(node)):
            return None
        before = len(self._interpreted)
        whole = self._lift(node, scope)
        noted, self._interpreted[before:] = self._interpreted[before:], []
        known = {**scope.accumulators, node.accumulator: whole.reads}
        outer, inner = (
            _Scope(scope.fixed, known, scope.depth),
            _Scope(scope.fixed | {node.variable, node.second}, known, scope.depth + 1),
        )
        try:
            init, result = self._compile(node.init, scope), self._compile(node.result, outer)
            step = result if bind else self._compile(node.step, inner)
        except _AccumulatorError:
            self._interpreted[before:] = noted
            return whole
        return Unrolled(
            Loop(node.variable, node.second, self._fixed(node.range), node.accumulator), init, step, result, whole
        )

    # The rest

    def _lift(self, node: TreeNode, scope: _Scope) -> Operation:
        """The part as it is, for the evaluator. Raises _AccumulatorError."""
        found: dict[object, Operation] = {}
        reads = self._inputs(node, scope, frozenset(), found)
        lift = Lift(self._evaluator(node), list(found.values()), kind_of_type(node.type), reads)
        self._lifts.append(lift)
        self._depth = max(self._depth, scope.depth)
        if self._is_of_nodes(node, lift):
            return Kept(lift)
        self._interpreted += [f"it reads {name} as a whole" for name, each in found.items() if isinstance(each, Whole)]
        return lift

    def _is_of_nodes(self, node: TreeNode, operation: Operation) -> bool:
        """True if the result is the same for all pods, and stays the same as long as the nodes do."""
        return self._free[id(node)] <= self._of_node and not operation.reads.usage

    def _inputs(self, node: TreeNode, scope: _Scope, bound: frozenset[str], found: dict[object, Operation]) -> Reads:
        """Adds the columns that a part depends on, and returns what they read. `bound`: the variables of macros within
        the part.
        """
        if isinstance(node, Ident) and node.name in bound:
            return Reads(0)
        if not self._depends(node, scope):
            return Reads(0)
        if isinstance(node, Ident) and node.name in scope.accumulators:
            raise _AccumulatorError
        if self._free[id(node)].isdisjoint(bound) and (input_ := self._input(node, scope)) is not None:
            found[_identity(node)] = input_
            return input_.reads
        if (whole := _whole(node)) is not None:
            found[str(_identity(node))] = whole
            return whole.reads
        if isinstance(node, Call) and node.function in COUNTING:
            found[f"{node.function}()"] = Whole(COUNTING[node.function])
            return COUNTING[node.function] | self._inputs_of(node.args, scope, bound, found)
        if isinstance(node, Comprehension):
            inner = bound | {node.variable, node.second, node.accumulator}
            reads = self._inputs_of((node.range, node.init), scope, bound, found)
            return reads | self._inputs_of((node.condition, node.step, node.result), scope, inner, found)
        return self._inputs_of(children(node), scope, bound, found)

    def _inputs_of(
        self, nodes: Sequence[TreeNode], scope: _Scope, bound: frozenset[str], found: dict[object, Operation]
    ) -> Reads:
        reads = Reads(0)
        for node in nodes:
            reads |= self._inputs(node, scope, bound, found)
        return reads

    def _input(self, node: TreeNode, scope: _Scope) -> Operation | None:
        """A column that says all that a part depends on. An optional entry depends on the entry."""
        if isinstance(node, Call) and node.function in ("_[?_]", "_?._"):
            operand, key = node.args
            map_ = _map_of_node(operand)
            return None if map_ is None or self._depends(key, scope) else MapEntryColumn(map_, self._fixed(key))
        return self._attribute(node, scope)


def free_variables(tree: TreeNode) -> Mapping[int, frozenset[str]]:
    """The free variables of each part of a tree, by the part's id."""
    found: dict[int, frozenset[str]] = {}

    def visit(node: TreeNode) -> frozenset[str]:
        names = frozenset((node.name,)) if isinstance(node, Ident) else frozenset().union(*map(visit, children(node)))
        if isinstance(node, Call) and node.function in COUNTING:
            names |= {NODE}
        if isinstance(node, Comprehension):
            inner = {node.variable, node.second, node.accumulator}
            result = found[id(node.result)] - {node.accumulator}
            loop = (found[id(node.condition)] | found[id(node.step)]) - inner
            names = found[id(node.range)] | found[id(node.init)] | loop | result
        found[id(node)] = names
        return names

    visit(tree)
    return found


def _binds(node: TreeNode, name: str) -> bool:
    if isinstance(node, Comprehension) and name in (node.variable, node.second, node.accumulator):
        return True
    return any(_binds(child, name) for child in children(node))


def _is_node(node: TreeNode) -> bool:
    return isinstance(node, Ident) and node.name == NODE


def _map_of_node(node: TreeNode) -> str | None:
    """The name of a map that is a field of the node."""
    if isinstance(node, Select) and not node.is_test and _is_node(node.operand):
        return node.field if node.field in TEXT_MAPS | AMOUNT_MAPS else None
    return None


def _field(name: str) -> Operation | None:
    match name:
        case "name":
            return Name()
        case "taints":
            return Taints()
        case "podCount":
            return PodCount()
        case "unschedulable":
            return Unschedulable()
    return None


def _whole(node: TreeNode) -> Whole | None:
    if _is_node(node):
        return Whole(EVERYTHING)
    map_ = _map_of_node(node)
    return None if map_ is None else Whole(FIELDS[map_])


def _identity(node: TreeNode) -> object:
    """Equal for parts that read the same, as far as that can be told."""
    match node:
        case Ident():
            return node.name
        case Const():
            return (node.type.name, str(node.value))
        case Select():
            return ("has" if node.is_test else "", _identity(node.operand), node.field)
        case Call():
            return (node.function, *map(_identity, node.args))
    return id(node)


def _is_choice(args: Sequence[TreeNode]) -> bool:
    """True if both sides have one type, which is known."""
    return args[1].type == args[2].type and not _is_dynamic(args[1].type)


def _is_dynamic(type_: Type) -> bool:
    return type_.name in ("dyn", "any", "null_type") or any(map(_is_dynamic, type_.parameters))


def _is_among_texts(args: Sequence[TreeNode]) -> bool:
    return args[0].type == types.STRING and args[1].type == types.list_of(types.STRING)


def _runs_to_the_end(node: Comprehension) -> bool:
    """True if the steps that the loop's condition would skip change nothing: in `exists` and `all`, or if it is always
    true.
    """
    condition, step = node.condition, node.step
    if isinstance(condition, Const):
        return condition.value is True
    return (
        isinstance(condition, Call)
        and condition.function.strip("_@") == "not_strictly_false"
        and isinstance(step, Call)
        and step.function in ("_&&_", "_||_")
        and isinstance(step.args[0], Ident)
        and step.args[0].name == node.accumulator
    )
