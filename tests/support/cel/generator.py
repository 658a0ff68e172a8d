"""Generates expressions over given variables: mostly well-typed, with values at their limits, and some that are refused or fail."""

import random
import re

VARIABLES = {
    "x": {"type": "int"},
    "u": {"type": "uint"},
    "d": {"type": "double"},
    "b": {"type": "bool"},
    "s": {"type": "string", "max": 30},
    "y": {"type": "bytes", "max": 30},
    "any": {"type": "dyn", "max": 30},
    "when": {"type": "timestamp"},
    "span": {"type": "duration"},
    "q": {"type": "quantity"},
    "v": {"type": "semver"},
    "words": {"type": "list", "items": {"type": "string", "max": 10}, "max": 6},
    "numbers": {"type": "list", "items": {"type": "int"}, "max": 6},
    "labels": {"type": "map", "items": {"type": "string", "max": 63}, "max": 8},
    "node": {
        "type": "object",
        "name": "podwright.Node",
        "fields": {
            "name": {"type": "string", "max": 63},
            "count": {"type": "int"},
            "labels": {"type": "map", "items": {"type": "string", "max": 63}, "max": 8},
            "free": {"type": "map", "items": {"type": "quantity"}, "max": 8},
            "taints": {
                "type": "list",
                "max": 4,
                "items": {
                    "type": "object",
                    "name": "podwright.Taint",
                    "fields": {"key": {"type": "string", "max": 63}, "effect": {"type": "string", "max": 20}},
                },
            },
        },
    },
}

_LITERALS = {
    "int": [
        "0",
        "1",
        "-1",
        "2",
        "3",
        "7",
        "10",
        "100",
        "9223372036854775807",
        "-9223372036854775808",
        "0x1F",
        "x",
        "node.count",
    ],
    "uint": ["0u", "1u", "2u", "3u", "18446744073709551615u", "u"],
    "double": ["0.0", "-0.0", "1.0", "1.5", "-2.25", "1e3", "1e-7", "1e21", "9223372036854775808.0", "d"],
    "bool": ["true", "false", "b"],
    "string": [
        "''",
        "'a'",
        "'b'",
        "'abc'",
        "'gold'",
        "'über'",
        "'a,b,c'",
        "'1.2.3'",
        "'10Mi'",
        "'12'",
        "' A b '",
        "s",
        "node.name",
        "r'\\d+'",
    ],
    "bytes": ["b''", "b'a'", "b'\\xff'", "b'abc'", "y"],
    "null": ["null"],
    "timestamp": [
        "timestamp('2020-02-29T23:59:59.5Z')",
        "timestamp('1969-12-31T00:00:00+05:30')",
        "timestamp(0)",
        "when",
    ],
    "duration": ["duration('1h30m')", "duration('-1.5s')", "duration('0')", "duration('250ms')", "span"],
    "quantity": [
        "quantity('1')",
        "quantity('1500m')",
        "quantity('10Mi')",
        "quantity('1e3')",
        "quantity('0')",
        "quantity('-2k')",
        "q",
        "node.free['cpu']",
        "node.free['memory']",
    ],
    "semver": ["semver('1.2.3')", "semver('1.10.0-rc.1')", "semver('v1.2', true)", "v"],
    "list_int": ["numbers", "[1, 2, 3]", "[3, 1, 2, 2]", "[x, 1]"],
    "list_string": ["words", "['a', 'b']", "['gold', s]", "['b', 'a', 'a']"],
    "map": ["labels", "node.labels", "{'a': '1', 'b': '2'}", "{'zone': s}"],
    "dyn": ["any", "any.k", "any[0]", "any['k']"],
    "taint": ["node.taints[0]"],
}
_VALUES = (
    "int",
    "uint",
    "double",
    "bool",
    "string",
    "bytes",
    "timestamp",
    "duration",
    "quantity",
    "semver",
    "list_int",
    "list_string",
    "map",
    "dyn",
)

_CALLS = {
    "int": [
        "({int} + {int})",
        "({int} - {int})",
        "({int} * {int})",
        "({int} / {int})",
        "({int} % {int})",
        "-({int})",
        "({bool} ? {int} : {int})",
        "size({string})",
        "{string}.size()",
        "size({list_int})",
        "size({map})",
        "int({double})",
        "int({uint})",
        "int({string})",
        "int({duration})",
        "int({timestamp})",
        "{list_int}[{int}]",
        "{list_int}.sum()",
        "{list_int}.max()",
        "{list_int}.min()",
        "{list_int}.indexOf({int})",
        "{list_string}.lastIndexOf({string})",
        "{timestamp}.getFullYear()",
        "{timestamp}.getMonth()",
        "{timestamp}.getDayOfYear()",
        "{timestamp}.getDayOfWeek()",
        "{timestamp}.getHours('-05:30')",
        "{timestamp}.getHours('America/New_York')",
        "{timestamp}.getDate()",
        "{timestamp}.getMilliseconds()",
        "{duration}.getSeconds()",
        "{duration}.getHours()",
        "{duration}.getMilliseconds()",
        "{quantity}.asInteger()",
        "{quantity}.compareTo({quantity})",
        "{semver}.major()",
        "sign({quantity})",
        "{semver}.compareTo({semver})",
        "cel.bind(z, {int}, z + z)",
        "{list_int}[?{int}].orValue({int})",
        "optional.of({int}).value()",
        "{map}.size()",
        "optional.ofNonZeroValue({int}).orValue(5)",
        "{string}.indexOf({string})",
        "{string}.lastIndexOf({string})",
        "{string}.indexOf({string}, {int})",
        "{list_int}.first().orValue({int})",
        "{list_int}.map(i, i * {int}).sum()",
        "{semver}.patch()",
    ],
    "uint": [
        "({uint} + {uint})",
        "({uint} - {uint})",
        "({uint} * {uint})",
        "({uint} / {uint})",
        "({uint} % {uint})",
        "uint({int})",
        "uint({double})",
        "uint({string})",
        "({bool} ? {uint} : {uint})",
    ],
    "double": [
        "({double} + {double})",
        "({double} * {double})",
        "({double} / {double})",
        "-({double})",
        "double({int})",
        "double({string})",
        "double({uint})",
        "{quantity}.asApproximateFloat()",
        "[{double}, {double}].max()",
    ],
    "bool": [
        "({int} {cmp} {int})",
        "({int} {cmp} {double})",
        "({uint} {cmp} {int})",
        "({double} {cmp} {uint})",
        "({string} {cmp} {string})",
        "({bytes} {cmp} {bytes})",
        "({bool} {cmp} {bool})",
        "({timestamp} {cmp} {timestamp})",
        "({duration} {cmp} {duration})",
        "({int} == {int})",
        "({string} != {string})",
        "({dyn} == {any})",
        "({any} == {dyn})",
        "({dyn} {cmp} {dyn})",
        "({quantity} == {quantity})",
        "({semver} == {semver})",
        "({list_int} == {list_int})",
        "({map} == {map})",
        "({string} == {string})",
        "({bool} && {bool})",
        "({bool} || {bool})",
        "!({bool})",
        "({bool} ? {bool} : {bool})",
        "({int} in {list_int})",
        "({string} in {list_string})",
        "({string} in {map})",
        "({int} in [1, 2, 3])",
        "({string} in ['a', 'gold'])",
        "({dyn} in [1, 'a', 2.0])",
        "({dyn} in {dyn})",
        "{string}.contains({string})",
        "{string}.startsWith({string})",
        "{string}.endsWith({string})",
        "{string}.matches('^[a-z]+$')",
        "{string}.matches({string})",
        "has({path})",
        "has(node.labels.zone)",
        "has(any.k)",
        "has(any.k.l)",
        "{list_int}.all(i, i {cmp} {int})",
        "{list_int}.exists(i, i == {int})",
        "{list_string}.exists_one(i, i == {string})",
        "{map}.all(k, k.size() < {int})",
        "{map}.exists(k, {map}[k] == {string})",
        "node.taints.exists(t, t.key == {string} && t.effect != {string})",
        "node.taints.all(t, t.key.startsWith({string}))",
        "{quantity}.isGreaterThan({quantity})",
        "{quantity}.isLessThan({quantity})",
        "{quantity}.isInteger()",
        "isQuantity({string})",
        "isSemver({string})",
        "isSemver({string}, true)",
        "{semver}.isLessThan({semver})",
        "{list_int}.isSorted()",
        "{list_string}.isSorted()",
        "bool({string})",
        "{list_int}[?{int}].hasValue()",
        "{map}[?{string}].hasValue()",
        "{map}.?zone.hasValue()",
        "{list_int}.all(i, v, i <= v)",
        "{map}.exists(k, v, k == v)",
        "type({any}) == {typename}",
        "sets.contains({list_int}, {list_int})",
        "sets.intersects({list_string}, {list_string})",
        "sets.equivalent({list_int}, {list_int})",
        "{list_int}.includes({int})",
        "{string}.includes({string})",
        "({any} == null)",
        "({null} == {dyn})",
        "{dyn}.exists(i, i == {any})",
        "({list_dyn} == {list_dyn})",
        "{bool} == {bool}",
        "node.taints.existsOne(t, v, t == 0 && v.key != '')",
    ],
    "string": [
        "({string} + {string})",
        "string({int})",
        "string({double})",
        "string({bool})",
        "string({uint})",
        "string({bytes})",
        "string({timestamp})",
        "string({duration})",
        "({bool} ? {string} : {string})",
        "{list_string}[{int}]",
        "{map}[{string}]",
        "node.labels.zone",
        "node.labels['zone']",
        "node.taints[{int}].key",
        "{map}.?zone.orValue({string})",
        "{map}[?{string}].orValue({string})",
        "{string}.find('[a-z]+')",
        "{string}.find({string})",
        "{list_string}.max()",
        "{list_string}.min()",
        "cel.bind(z, {string}, z + z)",
        "{list_string}.map(i, i + {string})[0]",
        "{string}.lowerAscii()",
        "{string}.upperAscii()",
        "{string}.trim()",
        "{string}.substring({int})",
        "{string}.substring({int}, {int})",
        "{string}.replace({string}, {string})",
        "{string}.replace({string}, {string}, {int})",
        "{list_string}.join({string})",
        "{list_string}.join()",
        "{string}.charAt({int})",
        "strings.quote({string})",
        "'%s and %d'.format([{any}, {int}])",
        "'%s'.format([{any}])",
        "'%.2f %e %x %o %b'.format([{double}, {double}, {int}, {int}, {int}])",
        "labels.transformMap(k, v, v + {string})['a']",
    ],
    "bytes": ["({bytes} + {bytes})", "bytes({string})", "({bool} ? {bytes} : {bytes})"],
    "timestamp": [
        "({timestamp} + {duration})",
        "({timestamp} - {duration})",
        "timestamp({int})",
        "timestamp({string})",
        "({duration} + {timestamp})",
    ],
    "duration": [
        "({duration} + {duration})",
        "({duration} - {duration})",
        "({timestamp} - {timestamp})",
        "-({duration})",
        "duration({string})",
        "[{duration}, {duration}].sum()",
    ],
    "quantity": [
        "{quantity}.add({quantity})",
        "{quantity}.sub({quantity})",
        "{quantity}.add({int})",
        "{quantity}.sub(5)",
        "quantity({string})",
        "({bool} ? {quantity} : {quantity})",
        "node.free[{string}]",
    ],
    "semver": ["semver({string})", "semver({string}, true)", "({bool} ? {semver} : {semver})"],
    "list_int": [
        "({list_int} + {list_int})",
        "{list_int}.map(i, i {arith} {int})",
        "{list_int}.filter(i, i {cmp} {int})",
        "{list_int}.map(i, i > 1, i * i)",
        "[{int}, {int}]",
        "[{int}, ?{list_int}[?{int}]]",
        "{list_int}.slice({int}, {int})",
        "{list_int}.reverse()",
        "{list_int}.sort()",
        "{list_int}.distinct()",
        "lists.range({int})",
        "[{list_int}, {list_int}].flatten()",
        "{list_int}.transformList(i, v, i + v)",
        "{list_int}.transformList(i, v, v > 1, i * v)",
        "{list_int}.sortBy(i, -i)",
        "{list_string}.map(i, i.size())",
        "({bool} ? {list_int} : {list_int})",
        "optional.unwrap([{list_int}[?0], optional.of({int})])",
    ],
    "list_string": [
        "({list_string} + {list_string})",
        "{list_string}.filter(i, i != {string})",
        "{list_string}.map(i, i + {string})",
        "{map}.map(k, k)",
        "{map}.map(k, {map}[k])",
        "{map}.filter(k, k != {string})",
        "{string}.findAll('[a-z]')",
        "{string}.findAll({string}, {int})",
        "{list_string}.reverse()",
        "{list_string}.sort()",
        "{list_string}.distinct()",
        "[{string}, {string}]",
        "node.taints.map(t, t.key)",
        "{string}.split({string})",
        "{string}.split(',')",
        "{string}.split({string}, {int})",
        "{list_string}.sortBy(i, i.size())",
        "{map}.transformList(k, v, k + v)",
    ],
    "map": [
        "{{'a': {string}, 'b': {string}}}",
        "{{{string}: {string}}}",
        "{map}.transformMap(k, v, v + {string})",
        "{map}.transformMap(k, v, k != {string}, v)",
        "{map}.transformMapEntry(k, v, {{v: k}})",
        "({bool} ? {map} : {map})",
        "{{?'a': {map}[?{string}], 'b': {string}}}",
    ],
    "dyn": [
        "dyn({any})",
        "any.k",
        "any[{int}]",
        "any['{word}']",
        "({bool} ? dyn({any}) : {dyn})",
        "any.k.l",
        "(dyn({any}) + {dyn})",
        "(dyn({int}) {arith} {dyn})",
        "dyn({list_int})[{any}]",
        "dyn({map})[{any}]",
    ],
    "list_dyn": ["[dyn({any}), {dyn}]", "any", "dyn({list_int})"],
}
_WORDS = {
    "cmp": ["<", "<=", ">", ">="],
    "arith": ["+", "-", "*", "/", "%"],
    "path": ["node.name", "node.labels.tier", "labels.a", "node.free.cpu", "any.k", "node.count", "node.taints"],
    "typename": [
        "int",
        "string",
        "bool",
        "double",
        "uint",
        "list",
        "map",
        "null_type",
        "type(null)",
        "bytes",
        "google.protobuf.Timestamp",
    ],
    "word": ["k", "a", "zone", "none"],
    "domain": ["gpu.example.com", "other.io", "none"],
    "id": ["model", "cores", "version", "links", "sizes", "ready", "none"],
}
_BROKEN = [
    "{int} + {string}",
    "node.nothing",
    "{string}.nothing()",
    "nothing",
    "{bool} && {int}",
    "{int} ? {int} : {int}",
    "{string} < {int}",
    "[1, 'a']",
    "{{1: 'a', 'b': 2}}",
    "{quantity} == {semver}",
    "{list_int}.all(i)",
    "has({int})",
    "{int} +",
    "({int}",
    "'{string}",
    "{int} == {string}",
    "{list_string}.sum()",
    "timestamp('x')",
    "duration('y')",
    "'a'.matches('a(')",
    "int('z')",
    "{map}.a.b.c",
    "{quantity} + {quantity}",
    "size({int})",
    "node.count.x",
]


_DEVICE_LITERALS = {
    **{
        kind: [
            text
            for text in texts
            if not re.match(r"(x|u|d|b|s|y|any|when|span|q|v|words|numbers|labels|node)\\b", text)
            and "s]" not in text
            and "[x" not in text
            and ": s" not in text
        ]
        for kind, texts in _LITERALS.items()
    },
    "string": ["device.driver", "'gpu.example.com'", "'a100'", "'model'", "'1.2.3'", "'40Gi'"],
    "quantity": [
        "quantity('40Gi')",
        "quantity('1')",
        "device.capacity['gpu.example.com'].memory",
        "device.capacity['gpu.example.com']['cores']",
        "device.capacity['none'].x",
    ],
    "bool": ["true", "false", "device.allowMultipleAllocations", "device.attributes['gpu.example.com'].ready"],
    "semver": ["semver('1.2.3')", "device.attributes['gpu.example.com'].version"],
    "list_int": ["[1, 2, 3]", "device.attributes['other.io'].sizes"],
    "list_string": ["['a', 'b']", "device.attributes['other.io'].links"],
    "map": ["{'a': '1', 'b': '2'}"],
    "dyn": [
        "device.attributes['gpu.example.com'].model",
        "device.attributes['other.io'].cores",
        "device.attributes['none'].x",
        "device.attributes[device.driver].version",
        "device.attributes[?'other.io'].cores",
    ],
    "list_dyn": ["device.attributes['other.io'].links"],
}
_DEVICE_CALLS = {
    "bool": [
        "({dyn} == {any})",
        "({dyn} {cmp} {any})",
        "({quantity} == {quantity})",
        "{quantity}.isGreaterThan({quantity})",
        "{quantity}.compareTo({quantity}) >= 0",
        "{semver}.isGreaterThan({semver})",
        "({semver}.major() {cmp} {int})",
        "({bool} && {bool})",
        "({bool} || {bool})",
        "!({bool})",
        "({bool} ? {bool} : {bool})",
        "({string} == {string})",
        "({string} in device.attributes)",
        "('model' in device.attributes['gpu.example.com'])",
        "has(device.attributes['gpu.example.com'].model)",
        "has(device.attributes['none'].model)",
        "has(device.capacity['gpu.example.com'].memory)",
        "device.attributes['gpu.example.com'].model.startsWith({string})",
        "device.attributes['gpu.example.com'].model.matches('^a[0-9]+$')",
        "device.attributes['other.io'].links.exists(l, l == {string})",
        "device.attributes['other.io'].links.includes({string})",
        "cel.bind(dra, device.attributes['gpu.example.com'], dra.model == {string} && dra.ready)",
        "device.attributes[?'none'].?x.hasValue()",
        "device.attributes['other.io'].?cores.orValue(0) {cmp} {int}",
        "device.attributes['gpu.example.com'].all(k, k != {string})",
        "device.capacity['gpu.example.com'].exists(k, v, v.isGreaterThan({quantity}))",
        "(size(device.attributes) {cmp} {int})",
        "(device.driver.size() {cmp} {int})",
        "({int} in {list_int})",
        "({string} in {list_string})",
        "{dyn}",
        "{string}.contains({string})",
        "has(device.driver)",
        "device == device",
        "device.attributes.exists(d, d == device.driver)",
    ],
    "int": [
        "{semver}.minor()",
        "device.attributes['other.io'].cores",
        "({int} + {int})",
        "{quantity}.asInteger()",
        "size({list_string})",
    ],
    "string": ["({string} + {string})", "device.attributes['gpu.example.com'].model", "{string}.lowerAscii()"],
    "quantity": ["{quantity}.add({quantity})", "quantity({string})"],
    "semver": ["semver({string})"],
    "dyn": [
        "device.attributes['{domain}'].{id}",
        "device.attributes[{string}].{id}",
        "device.attributes['{domain}']['{id}']",
    ],
}
_BROKEN_SELECTORS = [
    "device.model",
    "{int}",
    "{quantity}",
    "device.driver == 1",
    "device.driver.x",
    "device.capacity['a'].b == 1",
    "device.attributes",
    "nothing == 1",
    "[1, 'a'] == [1]",
    "device.driver &&",
]


class Generator:
    """Expressions from one seed: over `VARIABLES`, or with `devices` selectors of devices."""

    def __init__(self, seed: int, *, devices: bool = False) -> None:
        self._random = random.Random(seed)
        self._literals = _DEVICE_LITERALS if devices else _LITERALS
        self._calls = _DEVICE_CALLS if devices else _CALLS
        self._broken = _BROKEN_SELECTORS if devices else _BROKEN
        self._kinds = ("bool",) if devices else ("bool", *_VALUES)

    def expression(self) -> str:
        """One expression."""
        if self._random.random() < 0.04:
            return self._fill(self._random.choice(self._broken), 2)
        kind = self._random.choices(self._kinds, (20, *[2] * (len(self._kinds) - 1)))[0]
        return self._make(kind, self._random.choice((1, 2, 2, 3, 3, 4)))

    def _make(self, kind: str, depth: int) -> str:
        if kind in _WORDS:
            return self._random.choice(_WORDS[kind])
        if kind == "any":
            kind = self._random.choice(_VALUES)
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
