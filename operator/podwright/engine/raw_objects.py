"""RawObjects: nodes and placed pods as JSON, for extenders that have no cache of their own.

Nothing is kept unless an extender needs it, because this is several times what the scheduler itself needs of these
objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from podwright.api.configuration.schema import Extender
from podwright.core.objects.compaction import compact_regularly
from podwright.core.objects.pod import PodInfo, body_of
from podwright.core.state.nodeinfo import NodeInfo


class RawObjects:
    """See the module. `keep_nodes`, `keep_pods`: which of them to keep. `placement`: the node of a pod, as the cache
    has it.
    """

    def __init__(
        self,
        *,
        keep_nodes: bool = False,
        keep_pods: bool = False,
        placement: Callable[[str], NodeInfo | None] = lambda _uid: None,
    ) -> None:
        self._placement = placement
        self.keep_nodes = keep_nodes
        self.keep_pods = keep_pods
        self.nodes: dict[str, bytes] = {}
        """By name."""
        self.pods: dict[str, bytes] = {}
        """Pods that have a node, by uid, without those that are only assumed."""
        compact_regularly(self)

    def put_node(self, raw: Mapping[str, Any]) -> None:
        """Keeps this version of a node."""
        if self.keep_nodes:
            self.nodes[str(raw["metadata"]["name"])] = as_sent(raw)

    def remove_node(self, name: str) -> None:
        """An unknown name is not an error, as with pods."""
        self.nodes.pop(name, None)

    def put_pod(self, raw: Mapping[str, Any]) -> None:
        """Keeps this version of a pod."""
        if self.keep_pods:
            self.pods[str(raw["metadata"]["uid"])] = as_sent(raw)

    def pod(self, uid: str) -> bytes | None:
        """A pod that has a node, also if it is only assumed; None if it is gone."""
        kept = self.pods.get(uid)
        if kept is not None or (node := self._placement(uid)) is None or (raw := body_of(node.pods[uid])) is None:
            return kept
        return as_sent({**raw, "spec": {**raw["spec"], "nodeName": node.name}})

    def remove_pod(self, uid: str) -> None:
        self.pods.pop(uid, None)


def raw_objects_for(settings: Iterable[Extender], placement: Callable[[str], NodeInfo | None]) -> RawObjects:
    """Returns RawObjects that keeps the objects these extenders need. `placement`: see RawObjects."""
    plain = [each for each in settings if not each.node_cache_capable]
    return RawObjects(
        keep_nodes=any(each.filter_verb or each.prioritize_verb for each in plain),
        keep_pods=any(each.preempt_verb for each in plain),
        placement=placement,
    )


class MissingRawError(Exception):
    """A pending pod is known without its raw object. That is a bug in the scheduler, and fails the attempt at the
    pod.
    """


def raw_of(pod: PodInfo) -> Mapping[str, Any]:
    """A pending pod as the API server sent it. Raises MissingRawError."""
    if (body := body_of(pod)) is None:
        raise MissingRawError(f"pod {pod.key} cannot be sent to extenders, because its object was not kept")
    return body


def as_sent(raw: Mapping[str, Any]) -> bytes:
    """An object's JSON without managed fields, which kube-scheduler does not keep either. Copied: orjson's bytes keep a
    larger buffer.
    """
    metadata = raw.get("metadata")
    if isinstance(metadata, Mapping) and "managedFields" in metadata:
        raw = {**raw, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}
    return bytes(memoryview(orjson.dumps(raw)))
