"""The parts of generated selectors of devices, as in `tables.py`."""

import re

from support.cel.tables import LITERALS

DEVICE_LITERALS = {
    **{
        kind: [
            text
            for text in texts
            if not re.match(r"(x|u|d|b|s|y|any|when|span|q|v|words|numbers|labels|node)\\b", text)
            and "s]" not in text
            and "[x" not in text
            and ": s" not in text
        ]
        for kind, texts in LITERALS.items()
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
DEVICE_CALLS = {
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
BROKEN_SELECTORS = [
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
