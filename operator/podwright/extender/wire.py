"""The messages between a scheduler and its extenders, as k8s.io/kube-scheduler/extender/v1 defines them.

One dataclass per message. `encode` writes any of them; `decode_…` reads one, from untrusted bytes: it returns the
message or raises GoJSONError, in time linear in the bytes. Callers bound the size first. Both sides of the protocol use
this module: client.py and server/. The arguments of `filter`, `prioritize` and `preempt` may be long:
server/requests.py reads them in steps. Pods and nodes stay raw objects here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from podwright.core.objects.dataclass import dataclass
from podwright.extender.go_json import int64, list_of, map_of, mismatch, raw_object, read, string, strings, struct

MAX_EXTENDER_PRIORITY: Final = 10
"""The greatest score that an extender should give. Source: `MaxExtenderPriority`."""

RawObject = Mapping[str, Any] | orjson.Fragment
"""A Kubernetes object, or its JSON, which is written as it is. Decoded messages hold mappings only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderArgs:
    """The arguments of `filter` and `prioritize`. One of `nodes` and `node_names` is None: `node_names` is set with
    nodeCacheCapable.
    """

    pod: RawObject | None
    nodes: Sequence[RawObject] | None = None
    node_names: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderFilterResult:
    """The answer of `filter`: the nodes kept, and why others were not. The failed ones map node names to messages."""

    nodes: Sequence[RawObject] | None = None
    node_names: Sequence[str] | None = None
    failed_nodes: Mapping[str, str]
    failed_and_unresolvable_nodes: Mapping[str, str]
    """Nodes on which preemption would not help either. They take precedence over `failed_nodes`."""
    error: str = ""


class HostPriority(NamedTuple):
    """The score of one node."""

    host: str
    score: int


HostPriorityList = tuple[HostPriority, ...]
"""The answer of `prioritize`."""


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods to evict from one node, most important first."""

    pods: Sequence[RawObject]
    num_pdb_violations: int


@dataclass(frozen=True, slots=True)
class MetaVictims:
    """The uids of the pods to evict from one node, most important first."""

    uids: Sequence[str]
    num_pdb_violations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionArgs:
    """The arguments of `preempt`: the victims by node name. `meta_victims` is set with nodeCacheCapable, otherwise
    `victims` is.
    """

    pod: RawObject | None
    victims: Mapping[str, Victims] | None = None
    meta_victims: Mapping[str, MetaVictims] | None = None


@dataclass(frozen=True, slots=True)
class PreemptionResult:
    """The answer of `preempt`: the nodes kept, and their victims."""

    meta_victims: Mapping[str, MetaVictims]


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingArgs:
    """The arguments of `bind`."""

    pod_name: str
    pod_namespace: str
    pod_uid: str
    node: str


@dataclass(frozen=True, slots=True)
class BindingResult:
    """The answer of `bind`. An empty error means success."""

    error: str = ""


Message = (
    ExtenderArgs
    | ExtenderFilterResult
    | HostPriorityList
    | PreemptionArgs
    | PreemptionResult
    | BindingArgs
    | BindingResult
)


# Writing


def encode(message: Message) -> bytes:
    """The message as JSON, as Go writes it. Raises orjson.JSONEncodeError if a raw object in it cannot be written."""
    return orjson.dumps(_plain(message))


def _plain(message: Message) -> Any:
    match message:
        case ExtenderArgs():
            return {"Pod": message.pod, "Nodes": _node_list(message.nodes), "NodeNames": message.node_names}
        case ExtenderFilterResult():
            return {
                "Nodes": _node_list(message.nodes),
                "NodeNames": message.node_names,
                "FailedNodes": message.failed_nodes,
                "FailedAndUnresolvableNodes": message.failed_and_unresolvable_nodes,
                "Error": message.error,
            }
        case PreemptionArgs():
            victims, meta = message.victims, message.meta_victims
            full = None if victims is None else {node: _plain_victims(each) for node, each in victims.items()}
            return {
                "Pod": message.pod,
                "NodeNameToVictims": full,
                "NodeNameToMetaVictims": None if meta is None else _plain_meta(meta),
            }
        case PreemptionResult():
            return {"NodeNameToMetaVictims": _plain_meta(message.meta_victims)}
        case BindingArgs():
            return {
                "PodName": message.pod_name,
                "PodNamespace": message.pod_namespace,
                "PodUID": message.pod_uid,
                "Node": message.node,
            }
        case BindingResult():
            return {"Error": message.error}
        case _:
            return [{"Host": each.host, "Score": each.score} for each in message]


def _node_list(nodes: Sequence[RawObject] | None) -> Any:
    return None if nodes is None else {"metadata": {}, "items": nodes}


def _plain_victims(victims: Victims) -> Any:
    return {"Pods": victims.pods, "NumPDBViolations": victims.num_pdb_violations}


def _plain_meta(victims: Mapping[str, MetaVictims]) -> Any:
    return {
        node: {"Pods": [{"UID": uid} for uid in each.uids], "NumPDBViolations": each.num_pdb_violations}
        for node, each in victims.items()
    }


# Reading


def decode_filter_result(body: bytes) -> ExtenderFilterResult:
    """Raises GoJSONError."""
    found = struct(
        read(body),
        "",
        "ExtenderFilterResult",
        {
            "Nodes": _read_node_list,
            "NodeNames": strings,
            "FailedNodes": _FAILED,
            "FailedAndUnresolvableNodes": _FAILED,
            "Error": string,
        },
    )
    return ExtenderFilterResult(
        nodes=found["Nodes"],
        node_names=found["NodeNames"],
        failed_nodes=found["FailedNodes"],
        failed_and_unresolvable_nodes=found["FailedAndUnresolvableNodes"],
        error=found["Error"],
    )


def decode_host_priorities(body: bytes) -> HostPriorityList:
    """Raises GoJSONError."""
    return list_of(_read_host_priority, "v1.HostPriorityList")(read(body), "") or ()


def decode_preemption_result(body: bytes) -> PreemptionResult:
    """Raises GoJSONError."""
    found = struct(read(body), "", "ExtenderPreemptionResult", {"NodeNameToMetaVictims": _META_VICTIMS})
    return PreemptionResult(found["NodeNameToMetaVictims"])


def decode_binding_args(body: bytes) -> BindingArgs:
    """Raises GoJSONError."""
    fields = dict.fromkeys(("PodName", "PodNamespace", "PodUID", "Node"), string)
    found = struct(read(body), "", "ExtenderBindingArgs", fields)
    return BindingArgs(
        pod_name=found["PodName"], pod_namespace=found["PodNamespace"], pod_uid=found["PodUID"], node=found["Node"]
    )


def decode_binding_result(body: bytes) -> BindingResult:
    """Raises GoJSONError."""
    return BindingResult(struct(read(body), "", "ExtenderBindingResult", {"Error": string})["Error"])


def _item(value: Any, where: str) -> Mapping[str, Any]:
    return raw_object("v1.Node")(value, where) or {}


_FAILED: Final = map_of(string, "v1.FailedNodesMap")
_ITEMS: Final = list_of(_item, "[]v1.Node")


def _read_node_list(value: Any, where: str) -> tuple[Mapping[str, Any], ...] | None:
    if value is None:
        return None
    items: tuple[Mapping[str, Any], ...] | None = struct(value, where, "NodeList", {"items": _ITEMS})["items"]
    return items or ()


def _read_host_priority(value: Any, where: str) -> HostPriority:
    if type(value) is dict and len(value) == 2:  # as Go writes it: a tenth of the time
        host, score = value.get("Host"), value.get("Score")
        if type(host) is str and host.isascii() and type(score) is int and score.bit_length() < 64:
            return HostPriority(host, score)
    found = struct(value, where, "HostPriority", {"Host": string, "Score": int64})
    return HostPriority(found["Host"], found["Score"])


def _read_uid(value: Any, where: str) -> str:
    uid: str = struct(value, where, "MetaPod", {"UID": string})["UID"]
    return uid


_UIDS: Final = list_of(_read_uid, "[]*v1.MetaPod")


def _read_meta_victims(value: Any, where: str) -> MetaVictims:
    if value is None:  # the Go type is a pointer, which its users do not expect to be nil
        raise mismatch({}, where, "v1.MetaVictims")
    found = struct(value, where, "MetaVictims", {"Pods": _UIDS, "NumPDBViolations": int64})
    return MetaVictims(found["Pods"] or (), found["NumPDBViolations"])


_META_VICTIMS: Final = map_of(_read_meta_victims, "map[string]*v1.MetaVictims")
