"""Kubernetes' checks beyond types: for mixed elements in literals, and for constants that do not fit `format`.

Sources: `cel/validator.go` and `ext/formatting.go` of cel-go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from podwright.core.cel.checking.tree import Call, Const, ListExpr, MapExpr, TreeNode, children
from podwright.core.cel.errors import CelError, EvaluationError, Issue
from podwright.core.cel.library.formatting import CLAUSES, render, wrong_type
from podwright.core.cel.types import Type


def validate(root: TreeNode, *, is_exact: bool = True) -> None:
    """Raises CelError with the offset of each issue in its column, its line being 0. Without `is_exact`, `dyn` fits
    every type.
    """
    issues: list[Issue] = []
    stack: list[tuple[TreeNode, bool]] = [(root, False)]
    while stack:
        node, is_formatted = stack.pop()
        if not is_formatted:
            issues += _mixed(node, is_exact=is_exact)
        if isinstance(node, Call) and node.function == "format":
            issues += _wrong_format(node)
            is_formatted = True
        stack += ((child, is_formatted) for child in children(node))
    if issues:
        raise CelError(*sorted(issues, key=lambda issue: issue.column))


def _mixed(node: TreeNode, *, is_exact: bool) -> Iterator[Issue]:
    if isinstance(node, ListExpr):
        kinds = [(element, _kind(element, i in node.optional)) for i, element in enumerate(node.elements)]
        found = next(_mismatches(kinds, is_exact=is_exact), None)
        if found:
            yield found
    elif isinstance(node, MapExpr):
        keys = [(entry.key, entry.key.type) for entry in node.entries]
        values = [(entry.value, _kind(entry.value, entry.is_optional)) for entry in node.entries]
        yield from _mismatches(keys, is_exact=is_exact)
        yield from _mismatches(values, is_exact=is_exact)


def _mismatches(kinds: Sequence[tuple[TreeNode, Type]], *, is_exact: bool) -> Iterator[Issue]:
    for node, kind in kinds[1:]:
        expected = kinds[0][1]
        if kind != expected and (is_exact or "dyn" not in f"{kind} {expected}"):
            yield Issue(0, node.offset, f"expected type '{expected}' but found '{kind}'")


def _kind(node: TreeNode, is_optional: bool) -> Type:
    return node.type.parameters[0] if is_optional and node.type.parameters else node.type


def _wrong_format(node: Call) -> Iterator[Issue]:
    if len(node.args) != 2:
        return
    text, args = node.args
    if not isinstance(text, Const) or not isinstance(text.value, str) or not isinstance(args, ListExpr):
        return
    used = [0]
    place = [node.offset]

    def use(index: int, letter: str, _digits: int) -> str:
        used[0] += 1
        wrong = _misfit(args.elements[index], letter)
        if wrong is not None:
            place[0] = wrong.offset
            raise wrong_type(letter, wrong.type.name)
        return ""

    try:
        for _ in render(text.value, len(args.elements), use):
            pass
    except EvaluationError as error:
        yield Issue(0, place[0], str(error))
        return
    if len(args.elements) > used[0]:
        counts = f"(expected {used[0]}, got {len(args.elements)})"
        yield Issue(0, node.offset, f"too many arguments supplied to string.format {counts}")


def _misfit(node: TreeNode, letter: str) -> TreeNode | None:
    """The node, or one inside a literal, whose type the clause does not take."""
    if node.type.name != "dyn" and node.type.name not in CLAUSES[letter][0]:
        return node
    if letter != "s" or not isinstance(node, ListExpr | MapExpr):
        return None
    return next((found for found in (_misfit(child, letter) for child in children(node)) if found), None)
