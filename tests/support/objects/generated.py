"""Generates objects of the watched kinds from the API's schema, with every field at its limits.

Values are of the right type, but extreme: huge and negative numbers, odd quantities and times, long and strange
strings, null, empty lists and objects, duplicates. With `malformed`, some values also have a wrong type, as an API
server would never send them.
"""

from __future__ import annotations

import random
from typing import Any

from support.objects.api_schema import definition_of, definitions

QUANTITIES = (
    "0", "1", "100m", "1500m", "1n", "0.0000000001", "3u", "1Gi", "1.5Gi", "7E", "9223372036854775807", "9223372036854775808", "99Ei",
    "1e3", "1E3", "1e308", "1e-308", "-1", "-1e308", "+2", ".5", "5.", "000000000000000000001", "9" * 70, "0." + "0" * 70 + "1",
)  # fmt: skip
ODD_QUANTITIES = (
    "",
    "x",
    "1 Gi",
    "1e",
    "e3",
    "1.2.3",
    "NaN",
    "inf",
    "٣",
    "1e9223372036854775808",
    "0x10",
    "1_000",
    "9" * 4400,
)
TEXTS = (
    "", "x", "zone", "a" * 63, "b" * 253, "c" * 5000, "9" * 4400, "-5", "007", "9223372036854775807", "9223372036854775808", "1_0", "٣",
    "ünïcode", "\u202e", "\x00\x1b[31m\n", "🦊" * 20, "null", "true", "{}", "a/b/c", "/", "//", "%s%n{}", "1", "5",
)  # fmt: skip
TIMES = (
    "2024-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0000-12-31T10:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-14:00", "2024-02-30T00:00:00Z", "2024-01-01T00:00:00.123456789Z", "2024-06-30T23:59:60Z",
    "2024-01-01T00:00:00", "2024-01-01", "now",
)  # fmt: skip
INT32S = (0, 1, -1, 2, 3, 80, 65535, 65536, 2**31 - 1, -(2**31))
INT64S = (*INT32S, 2**53 + 1, 2**63 - 1, -(2**63))
KEYS = ("zone", "kubernetes.io/hostname", "topology.kubernetes.io/zone", "metadata.name", "cores", "app", "", "k" * 300)
RESOURCES = (
    "cpu",
    "memory",
    "ephemeral-storage",
    "pods",
    "hugepages-2Mi",
    "example.com/gpu",
    "attachable-volumes-csi-x",
    "storage",
    "odd",
    "",
)
NAMES = tuple(f"known-{number}" for number in range(3))
"""Names that objects have and refer to each other by."""
PLAUSIBLE: dict[str, tuple[str, ...]] = {
    "operator": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal", ""),
    "effect": ("NoSchedule", "PreferNoSchedule", "NoExecute", ""),
    "whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
    "nodeAffinityPolicy": ("Honor", "Ignore"),
    "nodeTaintsPolicy": ("Honor", "Ignore"),
    "topologyKey": KEYS,
    "key": KEYS,
    "restartPolicy": ("Always", "Never", "OnFailure"),
    "phase": ("Pending", "Running", "Running", "Bound", "Available", "Lost"),
    "type": ("Ready", "PodResizePending", "DisruptionTarget", "PodScheduled", "PodGroupScheduled"),
    "reason": ("Infeasible", "PreemptionByScheduler"),
    "status": ("True", "False"),
    "protocol": ("TCP", "UDP", "SCTP"),
    "hostIP": ("", "0.0.0.0", "127.0.0.1", "::"),
    "schedulerName": ("podwright", "default-scheduler"),
    "preemptionPolicy": ("Never", "PreemptLowerPriority"),
    "volumeBindingMode": ("Immediate", "WaitForFirstConsumer"),
    "accessModes": ("ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany"),
    "provisioner": ("kubernetes.io/no-provisioner", "kubernetes.io/aws-ebs", "known-0"),
    **dict.fromkeys(
        ("claimName", "volumeName", "storageClassName", "persistentVolumeName", "driver", "attacher"), NAMES
    ),
    **dict.fromkeys(("podGroupName", "name", "nodeName", "nominatedNodeName", "namespace"), NAMES),
}
"""Values that get past the first check of a field."""
COUNTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("maxSkew", "minDomains", "minCount", "weight"), (1, 2, 100, 2**31 - 1)),
    **dict.fromkeys(("hostPort", "containerPort"), (0, 80, 65535)),
    "priority": (0, -(2**31), 2**31 - 1),
}
"""Plausible numbers."""
MAPS: dict[str, tuple[str, ...]] = {
    "annotations": (
        "pv.kubernetes.io/bind-completed",
        "volume.kubernetes.io/selected-node",
        "volume.beta.kubernetes.io/storage-class",
    ),
    **dict.fromkeys(("labels", "matchLabels", "nodeSelector"), KEYS),
}
ANYTHING = (None, True, 0, -1, 2**70, 1.5, 1e308, "text", [], [None], [[]], ["x", 1], {}, {"x": None}, {"": []})
_DEEP = 12
_UNREAD = frozenset(
    (
        "managedFields",
        "template",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
        "securityContext",
        "env",
    )
)
"""Large parts that the scheduler does not read."""


class Generator:
    """Makes objects. The same seed makes the same ones."""

    def __init__(self, seed: int, malformed: float = 0.0) -> None:
        """`malformed`: the share of values that have a wrong type."""
        self._random = random.Random(seed)
        self._malformed = malformed

    def make(self, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
        """An object of this kind. Its metadata has this name and namespace, and a uid and resourceVersion."""
        found = self._fields(definitions()[definition_of(kind)[1:]], 0)
        metadata = self._fields(definitions()["apimachinery.pkg.apis.meta.v1.ObjectMeta"], 1)
        metadata |= {"name": name, "uid": f"uid-{name}", "resourceVersion": "7"}
        metadata.pop("namespace", None)
        if namespace:
            metadata["namespace"] = namespace
        return {**found, "apiVersion": "v1", "kind": kind, "metadata": metadata}

    def _fields(self, fields: dict[str, Any], depth: int) -> dict[str, Any]:
        share = self._random.choice((0.1, 0.3, 0.6, 0.9)) if depth > 1 else 0.8
        return {
            name: self._value(kind, name, depth + 1)
            for name, kind in fields.items()
            if name not in _UNREAD and self._random.random() < share
        }

    def _value(self, kind: Any, field: str, depth: int) -> Any:
        chosen = self._random
        if chosen.random() < self._malformed:
            return chosen.choice(ANYTHING)
        if isinstance(kind, list):
            return self._list(kind[0], field, depth)
        if isinstance(kind, dict):
            return self._map(kind["*"], field, depth) if "*" in kind else self._fields(kind, depth)
        if kind.startswith("#"):
            return self._reference(kind, field, depth)
        if field in COUNTS and chosen.random() < 0.85:
            return chosen.choice(COUNTS[field])
        match kind:
            case "int32":
                return chosen.choice(INT32S)
            case "int64":
                return chosen.choice(INT64S)
            case "boolean":
                return chosen.random() < 0.5
            case "number":
                return chosen.choice((0.5, -1e308))
            case "time":
                return chosen.choice(TIMES)
            case "any":
                return chosen.choice(({}, {"x": {"y": ["z"]}}))
        return self._text(field)

    def _reference(self, kind: str, field: str, depth: int) -> Any:
        if kind.endswith(".Quantity"):
            odd = self._random.random() < self._malformed * 5
            return self._random.choice(ODD_QUANTITIES if odd else QUANTITIES)
        if kind.endswith(".IntOrString"):
            return self._random.choice((*INT32S, "50%", "150%", "x"))
        if depth > _DEEP:
            return {}
        return self._value(definitions()[kind[1:]], field, depth)

    def _text(self, field: str) -> str:
        plausible = PLAUSIBLE.get(field)
        if plausible and self._random.random() < 0.85:
            return self._random.choice(plausible)
        return self._random.choice(TEXTS)

    def _list(self, kind: Any, field: str, depth: int) -> Any:
        length = self._random.choice((0, 1, 1, 2, 3, None))
        if length is None:
            return self._random.choice((None, [self._value(kind, field, depth)] * 20))
        return [self._value(kind, field, depth) for _ in range(length)]

    def _map(self, kind: Any, field: str, depth: int) -> Any:
        length = self._random.choice((0, 1, 2, 4, None))
        if length is None:
            return None
        quantities = isinstance(kind, str) and kind.endswith(".Quantity")
        keys = RESOURCES if quantities else MAPS.get(field, TEXTS)
        return {self._random.choice(keys): self._value(kind, field, depth) for _ in range(length)}
