"""The checked tree of an expression: every node with its type and its place, every call with its overloads.

Nodes are immutable. Macros are expanded: `list.all(x, p)` is a Comprehension. Where a name is a qualified variable of
the checker (`device.capacity`), the tree has the Select that it stands for.
"""

from __future__ import annotations

from podwright.core.cel.types import Type
from podwright.core.objects.dataclass import dataclass


@dataclass(frozen=True)
class TreeNode:
    """`offset` is the place in the text, in code points from 0, or -1 for what a macro added."""

    type: Type
    offset: int


@dataclass(frozen=True)
class Const(TreeNode):
    """A literal. `value` is None, bool, int, Uint, float, str or bytes, or a Type for the name of a type (`int`)."""

    value: object


@dataclass(frozen=True)
class Ident(TreeNode):
    """A variable of the environment or of a comprehension around it."""

    name: str


@dataclass(frozen=True)
class Select(TreeNode):
    """`operand.field`, or `has(operand.field)` if `is_test`."""

    operand: TreeNode
    field: str
    is_test: bool


@dataclass(frozen=True)
class Call(TreeNode):
    """A function or operator. `function` is CEL's name: `_&&_`, `_[_]`, `startsWith`. A method's target is the first of
    `args`.

    `overloads` has more than one id if only the values decide (arguments of type dyn).
    """

    function: str
    args: tuple[TreeNode, ...]
    overloads: tuple[str, ...]

    @property
    def overload(self) -> str:
        """The only overload, or an empty string."""
        return self.overloads[0] if len(self.overloads) == 1 else ""


@dataclass(frozen=True)
class ListExpr(TreeNode):
    """`[a, ?b]`. `optional` has the indices of elements with a question mark."""

    elements: tuple[TreeNode, ...]
    optional: frozenset[int]


@dataclass(frozen=True)
class Entry:
    """An entry of a map."""

    key: TreeNode
    value: TreeNode
    is_optional: bool


@dataclass(frozen=True)
class MapExpr(TreeNode):
    """`{key: value}`."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Comprehension(TreeNode):
    """A macro's loop. `accumulator` starts as `init` and becomes `step` for each element while `condition` holds. Its
    value is `result`.

    With `second` set, `variable` is the index or key, and `second` the element or value. `cel.bind(x, value, expr)` has
    an empty `range`, the accumulator x, `init` value and `result` expr.
    """

    variable: str
    second: str
    range: TreeNode
    accumulator: str
    init: TreeNode
    condition: TreeNode
    step: TreeNode
    result: TreeNode


def children(node: TreeNode) -> tuple[TreeNode, ...]:
    """The nodes directly below a node, in the order of their evaluation."""
    match node:
        case Select():
            return (node.operand,)
        case Call():
            return node.args
        case ListExpr():
            return node.elements
        case MapExpr():
            return tuple(part for entry in node.entries for part in (entry.key, entry.value))
        case Comprehension():
            return (node.range, node.init, node.condition, node.step, node.result)
    return ()
