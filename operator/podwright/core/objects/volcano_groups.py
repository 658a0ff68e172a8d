"""PodGroups of Volcano (`scheduling.volcano.sh/v1beta1`), and how their pods name their tasks.

Sources: Volcano's `staging/src/volcano.sh/apis/pkg/apis/scheduling/v1beta1/types.go` and
`pkg/scheduler/api/{job_info,sub_job_info}.go` at v1.16.0-alpha.1-42-ged72c7c81.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from podwright.core.objects.closeness import ANYWHERE, HYPER_NODES, LOWEST_TIER, Closeness
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.raw import as_count, as_list, as_mapping, as_optional_text, as_positive, as_texts, shortened
from podwright.core.objects.resources import PODS, is_counted_resource, resource_list
from podwright.core.objects.selectors import LabelSelector, parse_label_selector
from podwright.core.objects.sub_groups import BELOW, PartOf, SubGroup, Terms, count_of

MAX_POLICIES: Final = 64
"""How many policies a group of Volcano may have: each pod may have to be compared with all of them."""
TASK_KEY: Final = "volcano.sh/task-spec"
"""An annotation, or a label, by which pods name their task to Volcano."""
VOLCANO_DEFAULT_QUEUE: Final = "default"
"""Volcano's API server puts it into each group that names no queue."""


def volcano_terms(spec: Mapping[str, Any]) -> Terms:
    """Parses the minimums of a PodGroup; 1 pod if it sets no minimum."""
    count = spec.get("minMember", 0)
    tree, part_of = volcano_tree(spec, 0 if count == 0 else as_positive(count, "spec.minMember"))
    return (tree, part_of) if tree.least else (SubGroup(pods=1), None)


@dataclass(frozen=True, slots=True)
class _Policy:
    """An entry of `spec.subGroupPolicy`: the pods with these labels, in one part for each value of `keys`."""

    name: str
    selector: LabelSelector | None
    keys: Sequence[str]

    def part_of(self, labels: Mapping[str, str]) -> str:
        """Empty for a pod that does not belong to it."""
        if not self.keys or (self.selector is not None and not self.selector.matches(labels)):
            return ""
        values = [labels.get(key, "") for key in self.keys]
        return BELOW.join((self.name, *values)) if all(values) else ""


def volcano_closeness(entry: Mapping[str, Any], where: str) -> Closeness:
    """Parses `networkTopology` of a PodGroup, or of a policy for its sub-groups: one HyperNode of as low a tier as
    possible. As in Volcano, `hard` without a highest tier bounds nothing. Raises InvalidObjectError.
    """
    at = f"{where}.networkTopology"
    if entry.get("networkTopology") is None:
        return ANYWHERE
    asked = as_mapping(entry["networkTopology"], at)
    mode, highest = asked.get("mode") or "hard", asked.get("highestTierAllowed")
    name = as_optional_text(asked.get("highestTierName"), f"{at}.highestTierName")
    if mode not in ("hard", "soft"):
        raise InvalidObjectError(f"{at}.mode", f"{shortened(mode)} is neither hard nor soft")
    if name and highest is not None:
        raise InvalidObjectError(at, "highestTierAllowed and highestTierName exclude each other")
    tier = f"named {name}" if name else "" if highest is None else as_count(highest, f"{at}.highestTierAllowed")
    return Closeness((f"tier {tier}",) if mode == "hard" and tier != "" else (), LOWEST_TIER, HYPER_NODES)


def volcano_tree(spec: Mapping[str, Any], pods: int) -> tuple[SubGroup, PartOf | None]:
    """The parts of a group: those of `subGroupPolicy`, or else those of `minTaskMember`. `pods`: how many it needs to
    start. A group without parts has no PartOf. Raises InvalidObjectError.

    As in Volcano, tasks have no minimums if their sum is more than `minMember`.
    """
    policies: list[_Policy] = []
    parts: list[SubGroup] = []
    listed = as_list(spec.get("subGroupPolicy"), "spec.subGroupPolicy")
    if len(listed) > MAX_POLICIES:
        raise InvalidObjectError("spec.subGroupPolicy", f"has {len(listed)} entries, at most {MAX_POLICIES} are read")
    for index, raw in enumerate(listed):
        where = f"spec.subGroupPolicy[{index}]"
        entry = as_mapping(raw, where)
        selector = entry.get("labelSelector")
        policy = _Policy(
            name=as_optional_text(entry.get("name"), f"{where}.name") or str(index),
            selector=None if selector is None else parse_label_selector(selector, f"{where}.labelSelector"),
            keys=as_texts(entry.get("matchLabelKeys"), f"{where}.matchLabelKeys"),
        )
        if any(each.name == policy.name for each in parts):
            raise InvalidObjectError(f"{where}.name", f"{shortened(policy.name)} is there twice")
        size = entry.get("subGroupSize")
        groups = count_of(entry.get("minSubGroups"), f"{where}.minSubGroups") or 0
        policies.append(policy)
        each = 1 if size is None else as_positive(size, f"{where}.subGroupSize")
        parts.append(SubGroup(policy.name, groups=groups, each=each, near=volcano_closeness(entry, where)))
    if policies:
        tree = SubGroup(pods=pods, groups=len(parts), children=tuple(parts))
        return tree, lambda pod: next(filter(None, (policy.part_of(pod.labels) for policy in policies)), "")
    raw_tasks = as_mapping(spec.get("minTaskMember"), "spec.minTaskMember")
    counts = {name: count_of(count, f"spec.minTaskMember.{name}") or 0 for name, count in raw_tasks.items()}
    tasks = tuple(SubGroup(name, pods=count) for name, count in counts.items() if count)
    total = sum(task.pods for task in tasks)
    if not tasks or (pods and total > pods):
        return SubGroup(pods=pods), None
    names = frozenset(task.name for task in tasks)
    tree = SubGroup(pods=max(pods, total), groups=len(tasks), children=tasks)
    return tree, lambda pod: name if (name := pod.task or pod.labels.get(TASK_KEY, "")) in names else ""


def volcano_resources(raw: object, where: str) -> tuple[Mapping[str, int], str]:
    """The amounts of `spec.minResources`, or why they cannot be read.

    Volcano's controller writes what a quota counts. Its scheduler skips all names in that but those of resources
    (`NewResource` in `pkg/scheduler/api/resource_info.go`).
    """
    try:
        given = as_mapping(raw, where)
        counted = [name for name in given if name == PODS or is_counted_resource(name)]
        return resource_list({name: given[name] for name in counted if not name.startswith("count/")}, where), ""
    except InvalidObjectError as error:
        return {}, str(error)
