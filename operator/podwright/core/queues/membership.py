"""Membership: the queue to which a pod belongs.

A pod names a queue by its label, else by those of other APIs that are in use, else its pod group does, else its policy,
else the label of its namespace. It belongs to that queue if its namespace may use it, and otherwise to none: it may not
start, and what it holds counts for no queue. Of a pod with a node, the labels with which it got the node count, so that
nobody escapes a quota, or fills that of others, by a new label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final, Literal

from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.pod import QUEUE_ANNOTATION, LabelSet, PodInfo
from podwright.core.objects.pod_group import PodGroup
from podwright.core.objects.selectors import EVERYTHING, LabelSelector
from podwright.core.objects.volcano_groups import VOLCANO_DEFAULT_QUEUE
from podwright.core.state.cache import Cache

LABEL: Final = "podwright.dev/queue"
"""On a pod or a namespace: the name of its queue."""
USER_LABEL: Final = "podwright.dev/user"
"""On a pod: the user whose pod it is."""
OUTSIDE: Final = "/"
"""Ends the name of the set of pods that name a queue that their namespace may not use. No queue's name has it."""

_NO_LABELS: Final[Mapping[str, str]] = {}
Source = Literal["", "label", "annotation", "group", "policy", "namespace"]


class Membership:
    """See the module."""

    def __init__(self, cache: Cache, is_declared: Callable[[str], bool]) -> None:
        """`is_declared`: whether there is a queue of this name, valid or not."""
        self.is_declared = is_declared
        self.choice_by_policy: Callable[[PodInfo], str] | None = None
        """The queue that a pod's policy chooses, or ""."""
        self.policy_of: Callable[[PodInfo], str] = lambda _: ""
        """The name of that policy."""
        self.keys: Sequence[str] = (LABEL,)
        """The labels by which pods name their queues, and QUEUE_ANNOTATION if it does. The first that a pod has counts.
        """
        self._cache = cache
        self._of_namespace: dict[str, Mapping[str, str]] = {}
        """The labels of namespaces that have any."""
        self._selectors: dict[str, LabelSelector] = {}
        """By queue that not all namespaces may use: those that it and all queues above it admit."""
        self.first_labels: dict[str, tuple[LabelSet, str, str]] = {}
        """By uid of pods with a node whose labels, QUEUE_ANNOTATION or POLICY_ANNOTATION have changed there: those with
        which they got it.
        """
        self._left: PodInfo | None = None
        """The pod that left its node last. If it comes back at once, it has changed."""
        compact_regularly(self)

    def named_by(self, pod: PodInfo) -> tuple[str, Source]:
        """The queue that the pod, its policy or its namespace names, which may not exist, and which of them does."""
        if self.first_labels:
            pod = self.as_first(pod)
        for key in self.keys:
            if key == QUEUE_ANNOTATION:
                if name := pod.queue.rstrip(OUTSIDE):
                    return name, "annotation"
            elif name := pod.labels.get(key, ""):
                return name, "label"
        if pod.group and (name := self.of_group(self._cache.groups.of(pod))):
            return name, "group"
        if self.choice_by_policy is not None and (name := self.choice_by_policy(pod)):
            return name, "policy"
        name = self._of_namespace.get(pod.namespace, _NO_LABELS).get(LABEL, "")
        return name, "namespace" if name else ""

    def as_first(self, pod: PodInfo) -> PodInfo:
        """The pod with what it said when it got its node."""
        kept = self.first_labels.get(pod.uid) if self.first_labels and pod.node_name else None
        return pod if kept is None else replace(pod, labels=kept[0], queue=kept[1], policy=kept[2])

    def contradiction(self, pod: PodInfo) -> str:
        """Which field of the pod, or its group, names another queue than that to which it belongs; empty if none
        does.
        """
        named = self._named_in(pod)
        return next(
            (
                f"{field} names queue {name}, but {named[0][0]} names queue {named[0][1]}, which counts"
                for field, name in named
                if name != named[0][1]
            ),
            "",
        )

    def naming(self, pod: PodInfo) -> str:
        """Returns the field that names the queue of a pod that has one, and its object if that is not the pod."""
        if named := self._named_in(pod):
            return named[0][0]
        if self.named_by(pod)[1] == "policy":
            return f"spec.queue of SchedulerPolicy {self.policy_of(pod)}"
        return f"metadata.labels[{LABEL}] of namespace {pod.namespace}"

    def _named_in(self, pod: PodInfo) -> list[tuple[str, str]]:
        """Returns the fields of the pod, or its group, that name queues, with these. The first one counts."""
        named = [
            (f"metadata.labels[{key}]", pod.labels.get(key, ""))
            if key != QUEUE_ANNOTATION
            else (f"metadata.annotations[{key}]", pod.queue.rstrip(OUTSIDE))
            for key in self.keys
        ]
        if pod.group:
            named.append(
                (f"spec.queue of pod group {pod.group.partition(':')[2]}", self.of_group(self._cache.groups.of(pod)))
            )
        return [(field, name) for field, name in named if name]

    def of_group(self, group: PodGroup | None) -> str:
        """The queue that a group names; "" for none. Volcano's default queue need not exist."""
        name = "" if group is None else group.queue
        return "" if name == VOLCANO_DEFAULT_QUEUE and not self.is_declared(name) else name

    def of(self, pod: PodInfo) -> str:
        """The pod's queue; with OUTSIDE at its end if the pod's namespace may not use it. Empty if it has none."""
        name = self.named_by(pod)[0]
        selector = self._selectors.get(name) if self._selectors else None
        if selector is not None and not selector.matches(self._of_namespace.get(pod.namespace, _NO_LABELS)):
            return name + OUTSIDE
        return name

    def allows(self, queue: str, namespace: str) -> bool:
        """True if pods of the namespace may use the queue, as far as selectors are concerned."""
        selector = self._selectors.get(queue)
        return selector is None or selector.matches(self._of_namespace.get(namespace, _NO_LABELS))

    def labels_of(self, namespace: str) -> Mapping[str, str]:
        """The labels of a namespace."""
        return self._of_namespace.get(namespace, _NO_LABELS)

    def labelled(self) -> Iterator[tuple[str, str]]:
        """The namespaces whose label names a queue, with its name."""
        return ((namespace, labels[LABEL]) for namespace, labels in self._of_namespace.items() if LABEL in labels)

    def user_of(self, pod: PodInfo) -> str:
        """The user whose pod it is; empty if nobody is named."""
        return self.as_first(pod).labels.get(USER_LABEL, "")

    def select(self, queue: str, namespaces: LabelSelector) -> bool:
        """Sets the namespaces that may use the queue. Returns whether this changes anything."""
        if same_selector(self._selectors.get(queue, EVERYTHING), namespaces):
            return False
        if same_selector(namespaces, EVERYTHING):
            del self._selectors[queue]
        else:
            self._selectors[queue] = namespaces
        return True

    @property
    def restricted(self) -> AbstractSet[str]:
        """The queues that not all namespaces may use."""
        return self._selectors.keys()

    def label(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Tells the labels of a namespace. Returns whether its pods may belong to other queues now."""
        before = self._of_namespace.get(namespace, _NO_LABELS)
        if labels:
            self._of_namespace[namespace] = labels
        else:
            self._of_namespace.pop(namespace, None)
        read = bool(self._selectors) or self.choice_by_policy is not None
        return before.get(LABEL) != labels.get(LABEL) or (read and before != labels)

    def waits(self, pod: PodInfo) -> None:
        """The pod has no node. Its labels may have changed since it was assumed on one."""
        if self._left is not None and self._left.uid == pod.uid:
            self._left = None

    def arrives(self, pod: PodInfo) -> None:
        """The pod has a node."""
        left = self._left
        if left is None or left.uid != pod.uid:
            return
        if left.labels is not pod.labels or (left.queue, left.policy) != (pod.queue, pod.policy):
            self.first_labels.setdefault(pod.uid, (left.labels, left.queue, left.policy))

    def leaves(self, pod: PodInfo) -> None:
        """The pod has no node any more, or changes there."""
        self._left = pod

    def clear(self) -> None:
        """Forgets all pods, namespaces and queues."""
        for known in (self._of_namespace, self._selectors, self.first_labels):
            known.clear()
        self._left = None

    def compact(self) -> None:
        """Drops what is known of pods that are gone."""
        self._left = None
        for uid in [uid for uid in self.first_labels if self._cache.placement(uid) is None]:
            del self.first_labels[uid]


def same_selector(one: LabelSelector, other: LabelSelector) -> bool:
    """True if two selectors require the same."""
    return (one.nothing, one.requirements) == (other.nothing, other.requirements)
