"""Compiles a checked tree to Python closures, once. A closure evaluates one node and counts what cel-go counts for it.

cel-go's optimizations change what an expression costs, so they are here, too: constant lists and conversions cost
nothing, `in` with a constant list costs nothing of its own. Sources: `interpreter/planner.go`, `decorators.go` and
`interpretable.go`.
"""

from __future__ import annotations

from dataclasses import field

from podwright.core.cel.checking.tree import Call, Comprehension, Const, Ident, ListExpr, MapExpr, Select, TreeNode
from podwright.core.cel.errors import CelError, EvaluationError, Issue
from podwright.core.cel.evaluation.attributes import KEYS, Attribute, Conditional, Qualifier, Step
from podwright.core.cel.evaluation.calls import Functions, compile_call
from podwright.core.cel.evaluation.loops import binding, finished, fresh, loop
from podwright.core.cel.evaluation.scopes import NameScope, accumulator, global_variable, variable
from podwright.core.cel.evaluation.steps import (
    build_list,
    build_map,
    choose_optional,
    logic,
    membership,
    not_strictly_false,
)
from podwright.core.cel.library.conversions import CONVERSIONS, go_type
from podwright.core.cel.values import Value, to_key
from podwright.core.objects.dataclass import dataclass


@dataclass(frozen=True)
class CompiledNode:
    """A compiled node: its closure, its attribute if it is one, its value if it is constant."""

    step: Step
    attribute: Attribute | Conditional | None = None
    is_constant: bool = False
    value: Value = None

    def as_attribute(self) -> Attribute | Conditional:
        """The node as the start of an attribute."""
        return self.attribute if self.attribute is not None else Attribute(self.step)


def _constant(value: Value) -> CompiledNode:
    return CompiledNode(lambda _frame: value, is_constant=True, value=value)


def _attribute(attribute: Attribute | Conditional) -> CompiledNode:
    return CompiledNode(attribute.step(), attribute)


@dataclass(slots=True)
class Compiler:
    """Compiles one tree. `functions` has the functions of the environment."""

    functions: Functions
    scope: NameScope = field(default_factory=NameScope)

    def compile(self, node: TreeNode) -> CompiledNode:
        """Raises CelError if a constant part of the tree fails, as cel-go does."""
        if isinstance(node, Const):
            return _constant(node.value)
        if isinstance(node, Ident):
            return _attribute(Attribute(self.scope.names.get(node.name) or global_variable(node.name)))
        if isinstance(node, Select):
            operand = self.compile(node.operand).as_attribute()
            return _attribute(operand.then(Qualifier(node.field, is_test=node.is_test)))
        if isinstance(node, Call):
            return self._call(node)
        if isinstance(node, ListExpr):
            return self._list(node)
        if isinstance(node, MapExpr):
            return self._map(node)
        if isinstance(node, Comprehension):
            return self._comprehension(node)
        raise CelError(Issue(0, 0, "the expression has a part of an unknown kind"))

    def _call(self, node: Call) -> CompiledNode:
        if node.function in ("_&&_", "_||_"):
            return CompiledNode(
                logic([self.compile(term).step for term in _terms(node)], until=node.function == "_||_")
            )
        plans = [self.compile(argument) for argument in node.args]
        match node.function:
            case "_?_:_":
                return _attribute(Conditional(plans[0].step, plans[1].as_attribute(), plans[2].as_attribute()))
            case "_[_]" | "_?._" | "_[?_]":
                index = _index(node, plans[1], is_optional=node.function != "_[_]")
                return _attribute(plans[0].as_attribute().then(index))
            case "@not_strictly_false" | "__not_strictly_false__":
                return CompiledNode(not_strictly_false(plans[0].step))
            case "or" | "orValue" if node.overload in ("", "optional_or_optional", "optional_orValue_value"):
                return CompiledNode(choose_optional(plans[0].step, plans[1].step, unwrap=node.function == "orValue"))
        if node.function in CONVERSIONS and len(plans) == 1 and plans[0].is_constant:
            return _folded(node, plans[0].value)
        if node.overload == "in_list" and plans[1].is_constant:
            elements = plans[1].value
            if not elements:
                return _constant(False)
            step = membership(plans[0].step, elements)
            if step is not None:
                return CompiledNode(step)
        constants = {i: plan.value for i, plan in enumerate(plans) if plan.is_constant}
        return CompiledNode(compile_call(node, [plan.step for plan in plans], constants, self.functions))

    def _list(self, node: ListExpr) -> CompiledNode:
        plans = [self.compile(element) for element in node.elements]
        if all(plan.is_constant for plan in plans) and not node.optional:
            return _constant([plan.value for plan in plans])
        return CompiledNode(build_list(tuple(plan.step for plan in plans), node.optional))

    def _map(self, node: MapExpr) -> CompiledNode:
        plans = [(self.compile(entry.key), self.compile(entry.value), entry.is_optional) for entry in node.entries]
        if all(key.is_constant and value.is_constant and not optional for key, value, optional in plans):
            return _constant({to_key(key.value): value.value for key, value, _ in plans})
        return CompiledNode(build_map(tuple((key.step, value.step, optional) for key, value, optional in plans)))

    def _comprehension(self, node: Comprehension) -> CompiledNode:
        range_, init = self.compile(node.range), self.compile(node.init)
        grows = init.is_constant and init.value in ([], {}) and node.accumulator[:1] in "@_"
        place, first, second = self.scope.place(), self.scope.place(), self.scope.place()
        outer = dict(self.scope.names)
        self.scope.names[node.accumulator] = accumulator(place, fresh(init.value) if grows else init.step)
        inner = dict(self.scope.names)
        self.scope.names[node.variable] = variable(first)
        if node.second:
            self.scope.names[node.second] = variable(second)
        condition, step = self.compile(node.condition), self.compile(node.step)
        self.scope.names = inner
        result = self.compile(node.result).step
        self.scope.names = outer
        if range_.is_constant and range_.value in ([], {}):
            return CompiledNode(binding(place, result))
        places = (place, first, second if node.second else None)
        always = condition.is_constant and condition.value is True
        body = loop(places, range_.step, None if always else condition.step, step.step)
        return CompiledNode(finished(body, result, grows=grows))


def _terms(node: Call) -> list[TreeNode]:
    """The terms of a chain of the same logical operator, however it is nested."""
    found: list[TreeNode] = []
    stack: list[TreeNode] = [node]
    while stack:
        term = stack.pop()
        if isinstance(term, Call) and term.function == node.function:
            stack += reversed(term.args)
        else:
            found.append(term)
    return found


def _folded(node: Call, value: Value) -> CompiledNode:
    try:
        return _constant(CONVERSIONS[node.function](value))
    except EvaluationError as error:
        raise CelError(Issue(0, node.offset, str(error))) from None


def _index(node: Call, plan: CompiledNode, *, is_optional: bool) -> Qualifier:
    if plan.is_constant:
        if plan.value.__class__ not in KEYS:
            raise CelError(Issue(0, node.offset, f"invalid qualifier type: {go_type(plan.value)}"))
        return Qualifier(plan.value, is_optional=is_optional)
    step = plan.attribute.resolver() if plan.attribute is not None else plan.step
    return Qualifier(step=step, is_optional=is_optional)
