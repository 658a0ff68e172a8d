"""The rules of required pod affinity and anti-affinity for all members of a gang."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from podwright.core.framework.joint_rules import Apart, Barred, JointRule, Near
from podwright.core.objects.affinity import PodAffinityTerm
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.affinity.filtering import AffinityCounts, AffinityPreFilterState
from podwright.core.state.podindex import PodIndex


def joint_rules(index: PodIndex, members: Sequence[PodInfo]) -> Iterator[JointRule]:
    """See JointFilter."""
    counted = [AffinityCounts(index, pod, index.matching_terms(pod).anti_required) for pod in members]
    alike: dict[tuple[PodAffinityTerm, ...], list[int]] = {}
    for one, counts in enumerate(counted):
        repelled = AffinityPreFilterState(counts).repelled()
        if repelled is not None:
            yield Barred(one, repelled)
        for other, pod in enumerate(members if members[one].pod_affinity.anti_required else ()):
            for key in counts.repelled_by(pod):
                domains = index.domains(key)
                yield Apart(one, other, key, domains.of_node, domains.count)
        if required := members[one].pod_affinity.required:
            alike.setdefault(required, []).append(one)
    for required, those in alike.items():
        counts = counted[those[0]]
        to = [
            other
            for other, pod in enumerate(members)
            if pod.pod_affinity.required != required and counts.is_attracted_by(pod)
        ]
        for (sums,) in counts.affinity.values():
            domains = sums.domains
            first = not sums.total and any(counted[each].matches_itself for each in those)
            for each in those:
                yield Barred(each, domains.of_node == domains.count)
            there = np.asarray(sums.values[: domains.count] > 0)
            yield Near(those, to, domains.of_node, there, first)
