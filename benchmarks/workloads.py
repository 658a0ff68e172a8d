"""Reads workloads: the objects that exist before the measurement, the measured pods, and the changes during it.

The files under `workloads/` have the format of scheduler_perf's `performance-config.yaml`: a template of operations,
and sizes that set its `$parameters`. The operation with `collectMetrics` creates the measured pods. Churn and deletions
run during the measurement, and all other operations before it. To add a workload, add it to one of the files; new
objects go to `templates/`.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import yaml

from podwright.testing import Versions, workload_api
from podwright.testing.objects import Json, node, pod

_HERE = Path(__file__).parent
SCHEDULER_NAME = "podwright"
MEASURED_PREFIX = "measured-"
_NODE_PREFIX = "node-"
_POD_GROUPS = "scheduling.k8s.io/v1beta1"
"""The API version of the templates of pod groups."""


@dataclass(frozen=True, slots=True)
class CreateNodes:
    """`count` nodes. Their labels of `levels`, the coarsest first, have these values in turn, the last one fastest."""

    count: int
    prefix: str
    template: Json
    levels: tuple[tuple[str, tuple[str, ...]], ...]

    def objects(self) -> Iterator[Json]:
        for number in range(self.count):
            name = self.template.get("metadata", {}).get("name") or f"{self.prefix}{number}"
            labels, rest = {**self.template.get("metadata", {}).get("labels", {})}, number
            for key, values in reversed(self.levels):
                rest, place = divmod(rest, len(values))
                labels[key] = values[place]
            body = node(name, labels=labels)
            status = self.template.get("status", {})
            for field in ("capacity", "allocatable"):
                body["status"][field] = {**body["status"][field], **status.get("capacity", {})}
            yield body


@dataclass(frozen=True, slots=True)
class CreateNamespaces:
    """Namespaces `prefix-0`, `prefix-1`, …"""

    count: int
    prefix: str

    def objects(self) -> Iterator[Json]:
        for number in range(self.count):
            yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{self.prefix}-{number}"}}


@dataclass(frozen=True, slots=True)
class CreatePods:
    """`count` pods from `template`. With `wait`, preparation continues once all of them are bound.

    With `bound_to`, they are created on that many nodes in turn and need no scheduler. `one_by_one`: each measured pod
    is created when the one before it is bound; `in_order`: when that is created. `unschedulable`: the measured pods are
    not to be bound, but told that they fit nowhere. `others`: after each `modulus` pods, the next of the templates is
    used. `sizes`: the sizes of the groups, repeated in this order; each group uses the next template. `{quotient}` and
    `{remainder}` are those of the group's number.
    """

    count: int
    prefix: str
    namespace: str
    template: Json
    wait: bool
    bound_to: int = 0
    modulus: int = 1
    one_by_one: bool = False
    unschedulable: bool = False
    others: tuple[Json, ...] = ()
    sizes: tuple[int, ...] = ()
    in_order: bool = False

    @property
    def needs_claims(self) -> bool:
        """True if a controller must make the pods' claims from templates."""
        return any(
            "resourceClaimTemplateName" in each for each in self.template.get("spec", {}).get("resourceClaims", ())
        )

    def objects(self) -> Iterator[Json]:
        return (self.object(number) for number in range(self.count))

    def object(self, number: int) -> Json:
        templates, group = (self.template, *self.others), number // self.modulus
        if self.sizes:
            whole, rest = divmod(number, sum(self.sizes))
            group = whole * len(self.sizes) + bisect_right([*accumulate(self.sizes)], rest)
        template = templates[group % len(templates)]
        if self.sizes:
            template = _replaced(template, {"{quotient}": group, "{remainder}": group % self.modulus})
        body = render_pod(numbered(template, number, self.modulus), f"{self.prefix}{number}", self.namespace)
        if self.bound_to:
            body["spec"]["nodeName"] = f"{_NODE_PREFIX}{number % self.bound_to}"
        return body


@dataclass(frozen=True, slots=True)
class CreateAny:
    """`count` objects of each of the `templates`, which may name their number (see `numbered`), and of `sizes` their
    own, in turn.
    """

    templates: tuple[Json, ...]
    count: int = 1
    modulus: int = 1
    sizes: tuple[int, ...] = ()

    def objects(self) -> Iterator[Json]:
        for number in range(self.count):
            for each in self.templates:
                template = _replaced(each, {"{size}": self.sizes[number % len(self.sizes)]}) if self.sizes else each
                yield numbered(template, number, self.modulus)


@dataclass(frozen=True, slots=True)
class Churn:
    """Creates one object of each template every `interval_s` during the measurement. Unless `keep`, deletes them at the
    next interval.
    """

    templates: tuple[Json, ...]
    interval_s: float
    keep: bool


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Deletes the pods of an earlier operation during the measurement, `per_second` of them."""

    prefix: str
    namespace: str
    per_second: float


SETS: Mapping[str, str] = {
    "smoke": "each workload on few nodes",
    "thin": "SchedulingBasic on 1,000 nodes",
    "quick": "six everyday workloads on 500 or 1,000 nodes",
    "full": "each workload at the sizes that a release publishes",
    "start": "the time to the first binding in a full cluster",
    "scale": "SchedulingBasic on 1,500 and on 15,000 nodes",
    "large": "SchedulingBasic on 5,000 and on 20,000 nodes",
    "devices": "pods with resource claims, on 500 and on 5,000 nodes",
    "queues": "queues of teams: 1,000 of them, and peers' shapes of reclaim and gangs",
    "gangs": "Kubernetes' pod groups: gangs of 3, 4 and 1,000 pods on 5,000 nodes, and gangs that preempt on 100",
}
"""The sets of workload sizes. A size belongs to the sets in its `labels`."""


Preparation = CreateNodes | CreateNamespaces | CreatePods | CreateAny
Operation = Preparation | Churn | DeletePods


@dataclass(frozen=True, slots=True)
class Workload:
    """One workload at one size.

    `kubelets`: kubelets and controllers are simulated during the measurement. `only_ours`: kube-scheduler and the null
    scheduler cannot do it. `pod_groups`: the control plane serves Kubernetes' pod groups, and kube-scheduler has their
    gates.
    """

    name: str
    size: str
    labels: frozenset[str]
    preparation: tuple[Preparation, ...]
    background: tuple[Churn | DeletePods, ...]
    measured: CreatePods
    only_live: bool = False
    only_ours: bool = False
    kubelets: bool = False
    pod_groups: bool = False

    @property
    def control_plane(self) -> Mapping[str, Any]:
        """The fields of `Options` for its control planes. Raises ValueError for a Kubernetes without what it needs."""
        if not self.pod_groups:
            return {}
        api = workload_api(Versions.from_environ().kubernetes_minor)
        if api is None or api.version != _POD_GROUPS:
            raise ValueError(f"{self.name} needs a version of Kubernetes with PodGroups of {_POD_GROUPS}")
        return api.options

    @property
    def title(self) -> str:
        return f"{self.name}/{self.size}"

    @property
    def nodes(self) -> int:
        return sum(operation.count for operation in self.preparation if isinstance(operation, CreateNodes))


def load(folder: Path = _HERE / "workloads") -> list[Workload]:
    """All workloads of all files, at all sizes. Raises ValueError or KeyError for an invalid file."""
    return [workload for file in sorted(folder.glob("*.yaml")) for test in _content(file) for workload in _sizes(test)]


def choose(
    workloads: Collection[Workload], label: str, names: Collection[str], sizes: Collection[str]
) -> list[Workload]:
    """The workloads of a set, or those of `sizes`. With `names`, only workloads of these names.

    Raises ValueError, which lists what exists, for an unknown name or size, and for a name that the set lacks.
    """
    _check_known("workload", names, (workload.name for workload in workloads))
    _check_known("size", sizes, (workload.size for workload in workloads if not names or workload.name in names))
    members = [workload for workload in workloads if (workload.size in sizes if sizes else label in workload.labels)]
    among = f"of size {', '.join(sizes)}" if sizes else f"in the set {label}"
    for name in names:
        if all(workload.name != name for workload in members):
            found = "".join(f"\n  {each.title}: {_sets_of(each)}" for each in workloads if each.name == name)
            raise ValueError(f"{name} has no size {among}. Choose another --set or --size:{found}")
    return [workload for workload in members if not names or workload.name in names]


def _check_known(kind: str, wanted: Collection[str], existing: Iterable[str]) -> None:
    known = dict.fromkeys(existing)
    for each in wanted:
        if each not in known:
            raise ValueError(f"no {kind} is named {each}. There are {', '.join(known)}. Sets: {', '.join(SETS)}")


def _sets_of(workload: Workload) -> str:
    return ", ".join(name for name in SETS if name in workload.labels) or "in no set"


def _sizes(test: Json) -> Iterator[Workload]:
    for size in test["workloads"]:
        reader = _Reader(test["name"], test.get("defaultPodTemplatePath"), size["params"])
        operations = [reader.read(number, raw) for number, raw in enumerate(test["workloadTemplate"])]
        measured = [op for op in operations if isinstance(op, CreatePods) and op.prefix == MEASURED_PREFIX]
        if len(measured) != 1:
            raise ValueError(f"{test['name']}: exactly one operation must have collectMetrics")
        yield Workload(
            test["name"],
            size["name"],
            frozenset(size.get("labels", ())),
            tuple(op for op in operations if not isinstance(op, Churn | DeletePods) and op is not measured[0]),
            tuple(op for op in operations if isinstance(op, Churn | DeletePods)),
            measured[0],
            test.get("onlyLive", False),
            test.get("onlyPodwright", False),
            test.get("simulateKubelets", False),
            any(test.get("featureGates", {}).values()),
        )


class _Reader:
    """Parses the operations of a file for one set of parameters."""

    def __init__(self, workload: str, pod_template: str | None, params: Mapping[str, Any]) -> None:
        self._workload = workload
        self._pod_template = pod_template
        self._params = params

    def read(self, number: int, raw: Json) -> Operation:
        match raw["opcode"]:
            case "createNodes":
                given = raw.get("labelNodePrepareStrategy", [])
                return CreateNodes(
                    self._count(raw),
                    f"{_NODE_PREFIX}{number}-" if number else _NODE_PREFIX,
                    self._template(raw.get("nodeTemplatePath", "node-default")),
                    tuple(
                        (each["labelKey"], tuple(each["labelValues"]))
                        for each in (given if isinstance(given, list) else [given])
                    ),
                )
            case "createNamespaces":
                return CreateNamespaces(self._count(raw), raw["prefix"])
            case "createPods":
                sizes, templates = self._sizes(raw), self._pods(raw)
                return CreatePods(
                    sum(sizes) * self._param(raw, "roundsParam", 1) or self._count(raw),
                    MEASURED_PREFIX if raw.get("collectMetrics") else f"prepared-{number}-",
                    raw.get("namespace", "default"),
                    templates[0],
                    not raw.get("skipWaitToCompletion", False),
                    self._param(raw, "boundToParam", 0),
                    self._param(raw, "moduloParam", 1),
                    raw.get("oneByOne", False),
                    raw.get("until") == "Unschedulable",
                    templates[1:],
                    sizes,
                    raw.get("inOrder", False),
                )
            case "createPodGroups":
                return self._any(raw, [raw["templatePath"]])
            case "createAny":
                return self._any(raw, raw["templatePaths"])
            case "churn":
                templates = tuple(map(self._template, raw["templatePaths"]))
                return Churn(templates, raw["intervalMilliseconds"] / 1000, raw["mode"] == "create")
            case "deletePods":
                prefix = f"prepared-{raw['createdByOperation']}-"
                return DeletePods(prefix, raw.get("namespace", "default"), raw["deletePodsPerSecond"])
            case unknown:
                raise ValueError(f"unknown opcode {unknown}")

    def _any(self, raw: Json, paths: Iterable[str]) -> CreateAny:
        sizes, templates = self._sizes(raw), tuple(self._with_params(raw, path) for path in paths)
        count = len(sizes) * self._param(raw, "roundsParam", 1) or self._param(raw, "countParam", 1)
        return CreateAny(templates, count, self._param(raw, "moduloParam", 1), sizes)

    def _count(self, raw: Json) -> int:
        times = self._param(raw, "countMultiplierParam", 1)
        return times * (self._param(raw, "countParam", 0) if "countParam" in raw else int(raw["count"]))

    def _param(self, raw: Json, field: str, default: int) -> int:
        return int(self._params[raw[field].removeprefix("$")]) if field in raw else default

    def _sizes(self, raw: Json) -> tuple[int, ...]:
        return tuple(self._params[raw["sizesParam"].removeprefix("$")]) if "sizesParam" in raw else ()

    def _pods(self, raw: Json) -> tuple[Json, ...]:
        """The templates of pods, in the order of a round. Of `podTemplates`, each comes so often, evenly spread."""
        rounds = raw.get("podTemplates", {raw.get("podTemplatePath") or self._pod_template: 1})
        places = sorted(((i + 0.5) / count, path) for path, count in rounds.items() for i in range(count))
        return tuple(self._with_params(raw, path) for _, path in places)

    def _with_params(self, raw: Json, path: str | None) -> Json:
        values = {f"{{{name}}}": self._params[name] for name in raw.get("templateParams", ())}
        body: Json = _replaced(self._template(path), values)
        return body

    def _template(self, path: str | None) -> Json:
        """The template `templates/PATH.yaml`."""
        if path is None:
            raise ValueError(f"{self._workload}: createPods needs podTemplatePath or defaultPodTemplatePath")
        file = _HERE / "templates" / f"{path}.yaml"
        if not file.exists():
            raise ValueError(f"{self._workload}: template {path} is missing: there is no file {file}")
        body: Json = _content(file)
        return body


@cache
def _content(file: Path) -> Any:
    return yaml.safe_load(file.read_text())


def numbered(template: Any, number: int, modulus: int = 1) -> Any:
    """The template with `{number}`, `{quotient}` and `{remainder}`, those of the division by `modulus`, replaced in all
    texts. A text that is nothing else becomes a number.
    """
    return _replaced(template, {"{number}": number, "{quotient}": number // modulus, "{remainder}": number % modulus})


def _replaced(template: Any, values: Mapping[str, int]) -> Any:
    match template:
        case dict():
            return {_replaced(k, values): _replaced(v, values) for k, v in template.items()}
        case list():
            return [_replaced(item, values) for item in template]
        case str() if template in values:
            return values[template]
        case str() if "{" in template:
            for name, value in values.items():
                template = template.replace(name, str(value))
    return template


def render_pod(body: Json, name: str, namespace: str) -> Json:
    """A pod from a template. Without containers in the template, it gets one that requests 100m CPU and 500Mi
    memory.
    """
    spec: dict[str, Any] = {"schedulerName": SCHEDULER_NAME, **body.get("spec", {})}
    metadata = body.get("metadata", {})
    rendered = pod(name, namespace, labels=metadata.get("labels", {}))
    rendered["metadata"] |= {key: metadata[key] for key in ("annotations", "ownerReferences") if key in metadata}
    rendered["spec"] |= spec
    return rendered
