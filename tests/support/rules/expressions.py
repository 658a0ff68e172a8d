"""Generates expressions of rules: every operator, over every kind of column, with errors in all places."""

from __future__ import annotations

import random
from collections.abc import Callable

Part = Callable[[], str]


class Expressions:
    """Random expressions by type. `depth`: how many operators stand inside each other."""

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def any(self) -> str:
        """An expression of any type, mostly bool."""
        kind = self._source.choice((self.bool, self.bool, self.bool, self.int, self.double, self.text, self.uint))
        return kind(self._source.choice((1, 2, 3)))

    def _one(self, leaves: tuple[str, ...], deeper: tuple[Part, ...], depth: int) -> str:
        if depth <= 0:
            return self._source.choice(leaves)
        picked = self._source.choice((*leaves, *deeper))
        return picked if isinstance(picked, str) else picked()

    def _word(self, *words: str) -> str:
        return self._source.choice(words)

    def text(self, depth: int = 0) -> str:
        below = depth - 1
        return self._one(
            (
                "node.name", "node.labels.tier", "node.labels.zone", "node.labels['n']", "node.annotations.a",
                "node.conditions.Ready", "node.conditions.Nope", "node.labels[params.tier]", "node.labels[pod.labels.app]",
                "domainOf(node, 'zone')", "domainOf(node, 'tier')", "pod.labels.tier", "pod.labels.nope", "pod.name",
                "pod.annotations.x", "pod.owner.kind", "params.tier", "params.n", "policy.name", "policy.params.tier",
                "namespaceObject.labels.team", "namespaceObject.name", "'gold'", "'5'", "''", "'n3'",
            ),
            (
                lambda: f"({self.text(below)} + {self.text(below)})",
                lambda: f"({self.bool(below)} ? {self.text(below)} : {self.text(below)})",
                lambda: f"string({self.int(below)})",
                lambda: f"node.labels[?'tier'].orValue({self.text(below)})",
                lambda: "node.labels.?n.orValue('q')",
                lambda: f"node.labels[{self.text(below)}]",
                lambda: f"node.taints[{self.int(below)}].key",
            ),
            depth,
        )  # fmt: skip

    def int(self, depth: int = 0) -> str:
        below = depth - 1
        return self._one(
            (
                "node.free.cpu", "node.allocatable.cpu", "node.requested['memory']", "node.allocatable['x/gpu']",
                "node.free.pods", "node.podCount", "node.images['img:1']", "pod.priority", "pod.requests.cpu", "0", "1", "-3",
                "9223372036854775807", "5000", "size(node.taints)", "size(node.labels)", "podsOnNode('app=a1')",
                "podsInDomain('zone', 'app in (a1,a2)')", "podsInDomain('tier', '!app')", "podsOnNode(pod.labels.app)",
                "now.getHours('Asia/Tokyo')", "now.getMinutes(node.labels.zone)",
            ),
            (
                lambda: f"({self.int(below)} {self._word('+', '-', '*', '/', '%')} {self.int(below)})",
                lambda: f"(-{self.int(below)})",
                lambda: f"size({self.text(below)})",
                lambda: f"int({self.text(below)})",
                lambda: f"int({self.double(below)})",
                lambda: f"({self.bool(below)} ? {self.int(below)} : {self.int(below)})",
                lambda: f"podsOnNode('app=' + {self.text(below)})",
            ),
            depth,
        )  # fmt: skip

    def double(self, depth: int = 0) -> str:
        below = depth - 1
        return self._one(
            ("1.5", "0.0", "-2.0", "1e300", "signals.load", "signals.io"),
            (
                lambda: f"double({self.int(below)})",
                lambda: f"double({self.text(below)})",
                lambda: f"double(string({self.double(below)}))",
                lambda: f"({self.double(below)} {self._word('+', '-', '*', '/')} {self.double(below)})",
                lambda: f"(-{self.double(below)})",
                lambda: f"({self.bool(below)} ? {self.double(below)} : {self.double(below)})",
            ),
            depth,
        )

    def uint(self, depth: int = 0) -> str:
        below = depth - 1
        return self._one(
            ("3u", "0u", "18446744073709551615u"),
            (
                lambda: f"uint({self.int(below)})",
                lambda: f"({self.uint(below)} {self._word('+', '-', '*', '/', '%')} {self.uint(below)})",
            ),
            depth,
        )

    def bool(self, depth: int = 0) -> str:
        below = depth - 1
        return self._one(
            (
                "node.unschedulable", "true", "false", "has(node.labels.tier)", "'n' in node.labels",
                "'img:1' in node.images", "has(node.allocatable.cpu)", "'x/gpu' in node.allocatable",
                "pod.labels.app in node.labels", "has(pod.labels.nope)", "has(signals.load)", "[1.0].exists(x, x > signals.io)",
            ),
            (
                lambda: f"({self.bool(below)} {self._word('&&', '||')} {self.bool(below)})",
                lambda: f"!{self.bool(below)}",
                lambda: f"({self.bool(below)} ? {self.bool(below)} : {self.bool(below)})",
                lambda: f"({self.bool(below)} == {self.bool(below)})",
                lambda: f"({self.int(below)} {self._order()} {self.int(below)})",
                lambda: f"({self.text(below)} {self._order()} {self.text(below)})",
                lambda: f"({self.double(below)} {self._order()} {self.double(below)})",
                lambda: f"({self.uint(below)} {self._order()} {self.uint(below)})",
                lambda: f"({self.int(below)} {self._word('<', '>=')} {self.double(below)})",
                lambda: f"({self.double(below)} {self._word('<=', '>')} {self.uint(below)})",
                lambda: f"({self.uint(below)} >= {self.int(below)})",
                lambda: f"({self.text(below)} in ['gold', {self.text()}, 'n3'])",
                lambda: f"({self.text(below)} in params.list.split(','))",
                lambda: f"({self.int(below)} in [1, {self.int()}])",
                lambda: f"{self.text(below)}.{self._word('startsWith', 'endsWith', 'contains')}({self.text(below)})",
                lambda: f"{self.text(below)}.matches('^g.*d$')",
                lambda: f"quantity({self.text(below)}).isGreaterThan(quantity('3'))",
                lambda: "node.labels[?'n'].hasValue()",
                *self._macros(below),
            ),
            depth,
        )  # fmt: skip

    def _order(self) -> str:
        return self._word("<", "<=", ">", ">=", "==", "!=")

    def _macros(self, below: int) -> tuple[Part, ...]:
        def macro() -> str:
            return self._word("exists", "all", "exists_one")

        return (
            lambda: f"node.taints.{macro()}(t, t.key == {self.text(below)} || {self.bool(below)})",
            lambda: f"pod.tolerations.{macro()}(t, t.key == {self.text(below)} || {self.bool(below)})",
            lambda: f"['tier', 'n', {self.text()}].{macro()}(k, k in node.labels && {self.bool(below)})",
            lambda: f"node.taints.{macro()}(t, pod.tolerations.{macro()}(x, x.key == t.key))",
            lambda: f"pod.tolerations.{macro()}(x, node.taints.{macro()}(t, x.key == t.key && {self.bool(below)}))",
            lambda: (
                f"['a', 'b'].{macro()}(x, ['tier', 'n'].{macro()}(y, node.labels[y] == {self.text(below)} || x == 'c'))"
            ),
            lambda: f"node.labels.{macro()}(k, k.startsWith('t') && {self.bool(below)})",
            lambda: f"node.labels.{macro()}(k, node.labels[k] == {self.text(below)})",
            lambda: f"['zone'].exists(node, node == {self.text(0)})",
            lambda: (
                f"['zone'].exists(params, params in {self._word('pod', 'namespaceObject')}.labels || {self.bool(below)})"
            ),
            lambda: f"cel.bind(v, {self.text(below)}, v == 'gold' || {self.bool(below)} && v != {self.text()})",
            lambda: (
                f"cel.bind(v, {self.text()}, v in ['gold', 'a1'] || v in params.list.split(',') || {self.bool(below)})"
            ),
            lambda: f"[{self.int()}, {self.int()}].map(v, v + {self.int()}).exists(v, v > {self.int(below)})",
            lambda: f"node.taints.filter(t, t.effect == {self.text(below)}).size() > {self.int()}",
        )
