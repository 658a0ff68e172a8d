"""Generates expressions over given variables: mostly well-typed, with values at their limits, and some that are refused
or fail.
"""

import random

from support.cel.calls import CALLS
from support.cel.device_tables import BROKEN_SELECTORS, DEVICE_CALLS, DEVICE_LITERALS
from support.cel.tables import BROKEN, LITERALS, VALUES, WORDS


class Generator:
    """Expressions from one seed: over `VARIABLES`, or with `devices` selectors of devices."""

    def __init__(self, seed: int, *, devices: bool = False) -> None:
        self._random = random.Random(seed)
        self._literals = DEVICE_LITERALS if devices else LITERALS
        self._calls = DEVICE_CALLS if devices else CALLS
        self._broken = BROKEN_SELECTORS if devices else BROKEN
        self._kinds = ("bool",) if devices else ("bool", *VALUES)

    def expression(self) -> str:
        """One expression."""
        if self._random.random() < 0.04:
            return self._fill(self._random.choice(self._broken), 2)
        kind = self._random.choices(self._kinds, (20, *[2] * (len(self._kinds) - 1)))[0]
        return self._make(kind, self._random.choice((1, 2, 2, 3, 3, 4)))

    def _make(self, kind: str, depth: int) -> str:
        if kind in WORDS:
            return self._random.choice(WORDS[kind])
        if kind == "any":
            kind = self._random.choice(VALUES)
        if kind in self._literals and (depth <= 0 or self._random.random() < 0.25 or kind not in self._calls):
            return self._random.choice(self._literals[kind])
        return self._fill(self._random.choice(self._calls[kind]), depth - 1)

    def _fill(self, template: str, depth: int) -> str:
        found, at = [], 0
        while at < len(template):
            if template.startswith(("{{", "}}"), at):
                found.append(template[at])
                at += 2
            elif template[at] == "{":
                end = template.index("}", at)
                found.append(self._make(template[at + 1 : end], depth))
                at = end + 1
            else:
                found.append(template[at])
                at += 1
        return "".join(found)

    def variables(self) -> dict[str, dict[str, object]]:
        """Values of all variables, in the oracle's JSON."""
        pick = self._random.choice
        words = pick(["a", "gold", "über", "", "zone", "1.2.3", "10Mi", "x" * 25, "A b"]), pick(["b", "c"])
        labels = {
            "map": [
                [{"string": key}, {"string": pick(words)}]
                for key in self._random.sample(["a", "b", "zone", "tier", "gold"], pick([0, 2, 3]))
            ]
        }
        taints = [
            {
                "map": [
                    [{"string": "key"}, {"string": pick(["k", "gpu", ""])}],
                    [{"string": "effect"}, {"string": pick(["NoSchedule", "NoExecute"])}],
                ]
            }
            for _ in range(pick([0, 1, 3]))
        ]
        node = {
            "name": {"string": pick(["n1", "node-17", ""])},
            "count": {"int": pick(["0", "5", "-3"])},
            "labels": labels,
            "free": {
                "map": [
                    [{"string": "cpu"}, {"quantity": pick(["4", "1500m", "0"])}],
                    [{"string": "memory"}, {"quantity": pick(["10Gi", "1k"])}],
                ]
            },
            "taints": {"list": taints},
        }
        return {
            "x": {"int": pick(["0", "5", "-7", "9223372036854775807"])},
            "u": {"uint": pick(["0", "3", "18446744073709551615"])},
            "d": {
                "double": pick(
                    [
                        "0",
                        "3ff8000000000000",
                        "7ff8000000000000",
                        "7ff0000000000000",
                        "c000000000000000",
                        "43e0000000000000",
                    ]
                )
            },
            "b": {"bool": pick([True, False])},
            "s": {"string": words[0]},
            "y": {"bytes": pick(["", "YWI=", "/w=="])},
            "any": pick(
                [
                    {"int": "1"},
                    {"string": "a"},
                    {"null": True},
                    {"double": "3ff0000000000000"},
                    {"list": [{"int": "1"}, {"string": "a"}]},
                    {"map": [[{"string": "k"}, {"map": [[{"string": "l"}, {"int": "1"}]]}]]},
                    {"map": [[{"string": "k"}, {"int": "5"}]]},
                    {"bool": True},
                    {"uint": "1"},
                    {"quantity": "1"},
                    {"duration": "1000000000"},
                ]
            ),
            "when": {
                "timestamp": pick(["2024-05-06T07:08:09.123456789Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
            },
            "span": {"duration": pick(["0", "3600000000000", "-1", "9223372036854775807"])},
            "q": {"quantity": pick(["1", "500m", "10Gi", "9223372036854775807", "-1"])},
            "v": {"semver": pick(["1.2.3", "1.10.0-rc.1", "2.0.0+build.5"])},
            "words": {
                "list": [
                    {"string": word}
                    for word in self._random.sample(["a", "b", "gold", "zone", "über", ""], pick([0, 1, 3]))
                ]
            },
            "numbers": {
                "list": [
                    {"int": number} for number in self._random.choices(["0", "1", "2", "-5", "7"], k=pick([0, 1, 3, 5]))
                ]
            },
            "labels": labels,
            "node": {"map": [[{"string": name}, value] for name, value in node.items()]},
        }

    def device(self) -> dict[str, object]:
        """A device, in the oracle's JSON."""
        pick = self._random.choice
        return {
            "driver": "gpu.example.com",
            "multiple": pick([True, False]),
            "attributes": {
                "model": {"string": pick(["a100", "h100", ""])},
                "gpu.example.com/ready": {"bool": pick([True, False])},
                "version": {"version": pick(["1.2.3", "2.0.0-rc.1"])},
                "other.io/cores": {"int": pick([0, 8, -1])},
                "other.io/links": {"strings": pick([["a", "b"], ["a100"]])},
                "other.io/sizes": {"ints": pick([[1, 2], [3]])},
            },
            "capacity": {"memory": pick(["40Gi", "1500m"]), "gpu.example.com/cores": pick(["108", "1k"])},
        }
