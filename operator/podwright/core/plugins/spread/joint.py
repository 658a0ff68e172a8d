"""The rules of hard spread constraints for all members of a gang."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from podwright.core.framework.joint_rules import Barred, Even, JointRule
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.spread.constraints import ActiveConstraint
from podwright.core.plugins.spread.filtering import SpreadCounts
from podwright.core.state.podindex.domains import Sums


def joint_rules(counted: Sequence[SpreadCounts | None], members: Sequence[PodInfo]) -> Iterator[JointRule]:
    """See JointFilter. `counted` for each: None without hard constraints."""
    alike: dict[tuple[str, ActiveConstraint, Sums], list[int]] = {}
    for one, (pod, counts) in enumerate(zip(members, counted, strict=True)):
        if counts is None:
            continue
        if counts.impossible:
            yield Barred(one, np.ones(counts.nodes, np.bool_))
            continue
        for constraint, sums in zip(counts.constraints, counts.sums, strict=True):
            yield Barred(one, sums.domains.of_node == sums.domains.count)
            alike.setdefault((pod.namespace, constraint, sums), []).append(one)
    for (namespace, constraint, sums), those in alike.items():
        counting = [
            other
            for other, pod in enumerate(members)
            if pod.namespace == namespace and constraint.selector.matches(pod.labels)
        ]
        yield Even(
            members=those,
            themselves=[each for each in those if each in counting],
            counting=counting,
            domains=sums.domains.counted,
            ids=sums.domains.ids,
            counts=np.asarray(sums.values[: sums.domains.count], np.int64),
            skew=constraint.max_skew,
            from_zero=sums.domains.present < constraint.min_domains,
        )
