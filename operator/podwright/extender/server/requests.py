"""The arguments of requests, read from their bodies in steps, which raise GoJSONError. Only the text of a sent node is
kept, for the answer, and only the uid of a victim. Unknown fields are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import orjson

from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.node import Node
from podwright.engine.process.steps import Steps
from podwright.extender.go_json import GoJSONError, int64, mismatch, raw_object, string, strings, struct
from podwright.extender.server.body_text import MAX_FIELDS, BodyText, TooLargeError
from podwright.extender.wire import MetaVictims, RawObject

MAX_VICTIMS: Final = 100_000
"""Victims of one request. kube-scheduler proposes those of a tenth of the nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPod:
    """The pod of a request: its text and the parsed JSON, None without a pod."""

    text: str = ""
    raw: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The arguments of `filter` and `prioritize`. Without `texts`, the answer has names of nodes only."""

    pod: AskedPod
    names: Sequence[str]
    texts: Sequence[RawObject] | None = None
    """The nodes that the caller has sent, for the answer: in the order of `names`."""
    differing: Sequence[Node] = ()
    """The sent nodes that the cache does not have, or has in another version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedVictims:
    """The arguments of `preempt`: the victims by the name of their node."""

    pod: AskedPod
    victims: Mapping[str, MetaVictims]


class NodeReader(Protocol):
    """Returns the name of a sent node, and the node itself if the cache has none or another version. Raises
    InvalidObjectError.
    """

    def __call__(self, raw: Mapping[str, Any], /) -> tuple[str, Node | None]: ...


def read_asked(body: bytearray, read_node: NodeReader, most: int) -> Steps[Asked]:
    """The arguments of `filter` and `prioritize`. The body is empty afterwards. Raises TooLargeError for more than
    `most` nodes or names.
    """
    text = BodyText(body)
    pod, nodes = AskedPod(), None
    names: Sequence[str] | None = None
    for key in text.fields("ExtenderArgs"):
        match key.casefold():
            case "pod":
                pod = _read_pod(text, "ExtenderArgs")
            case "nodenames":
                names = _read_names(text, "ExtenderArgs.NodeNames", most)
            case "nodes" if text.next == "{":
                nodes = _Nodes(read_node, most)
                yield from nodes.read(text)
            case "nodes":
                raw_object("v1.NodeList")(text.value(), "ExtenderArgs.Nodes")
                nodes = None
            case _:
                text.skip()
        yield
    if names is not None or nodes is None:
        return Asked(pod=pod, names=names or ())
    return Asked(pod=pod, names=nodes.names, texts=nodes.texts, differing=nodes.differing)


def _read_pod(text: BodyText, message: str) -> AskedPod:
    raw = raw_object("v1.Pod")(text.value(), f"{message}.Pod")
    return AskedPod(text=text.last, raw=raw)


def _read_names(text: BodyText, where: str, most: int) -> Sequence[str] | None:
    names: Sequence[str] | None = text.plain_strings()
    if names is None:
        names = strings(text.value(), where)
    if names is not None and len(names) > most:
        raise _too_many(most, "names of nodes")
    return names


def _too_many(most: int, what: str) -> TooLargeError:
    return TooLargeError(f"there are more than {most} {what}")


class _Nodes:
    """The nodes of a request, as far as they have been read."""

    def __init__(self, read_node: NodeReader, most: int) -> None:
        self._read_node = read_node
        self._most = most
        self.names: list[str] = []
        self.texts: list[RawObject] = []
        self.differing: list[Node] = []

    def read(self, text: BodyText) -> Steps[None]:
        where = "NodeList.Nodes.items"
        for key in text.members(MAX_FIELDS, "fields"):
            if key.casefold() != "items":
                text.skip()
            elif text.next != "[":
                if (value := text.value()) is not None:
                    raise mismatch(value, where, "[]v1.Node")
            else:
                for item in text.items():
                    self._add(raw_object("v1.Node")(item, where) or {}, text.last)
                    yield
            yield

    def _add(self, raw: Mapping[str, Any], text: str) -> None:
        if len(self.names) >= self._most:
            raise _too_many(self._most, "nodes")
        try:
            name, node = self._read_node(raw)
        except InvalidObjectError as error:
            raise GoJSONError(str(error)) from error
        self.names.append(name)
        self.texts.append(orjson.Fragment(text.encode()))
        if node is not None:
            self.differing.append(node)


def read_victims(body: bytearray, most: int) -> Steps[AskedVictims]:
    """The arguments of `preempt`. The body is empty afterwards. Raises TooLargeError for more than `most` nodes, or too
    many victims.
    """
    text = BodyText(body)
    pod = AskedPod()
    found: dict[str, Mapping[str, MetaVictims] | None] = {}
    for key in text.fields("ExtenderPreemptionArgs"):
        folded = key.casefold()
        form = next((each for each in _FORMS if each.field.casefold() == folded), None)
        if folded == "pod":
            pod = _read_pod(text, "ExtenderPreemptionArgs")
        elif form is not None:
            found[form.field] = yield from _read_map(text, form, most)
        else:
            text.skip()
        yield
    meta, full = (found.get(form.field) for form in _FORMS)
    return AskedVictims(pod=pod, victims=meta if meta is not None else full or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """One of the two forms of victims: the field, its Go types, and how a victim gives its uid."""

    field: str
    type: str
    pod_type: str
    uid_of: Callable[[Any, str], str]


def _uid_of_meta(value: Any, where: str) -> str:
    uid: str = struct(value, where, "MetaPod", {"UID": string})["UID"]
    return uid


def _uid_of_pod(value: Any, where: str) -> str:
    metadata = (raw_object("v1.Pod")(value, where) or {}).get("metadata")
    return str(metadata.get("uid") or "") if isinstance(metadata, Mapping) else ""


_FORMS: Final = (
    _Form(field="NodeNameToMetaVictims", type="MetaVictims", pod_type="MetaPod", uid_of=_uid_of_meta),
    _Form(field="NodeNameToVictims", type="Victims", pod_type="Pod", uid_of=_uid_of_pod),
)


def _read_map(text: BodyText, form: _Form, most: int) -> Steps[Mapping[str, MetaVictims] | None]:
    where = f"ExtenderPreemptionArgs.{form.field}"
    if text.next != "{":
        if (value := text.value()) is not None:
            raise mismatch(value, where, f"map[string]*v1.{form.type}")
        return None
    found: dict[str, MetaVictims] = {}
    left = MAX_VICTIMS
    for node_name in text.members(most, "nodes with victims"):
        found[node_name] = yield from _read_victims_of(text, form, where, left)
        left -= len(found[node_name].uids)
        yield
    return found


def _read_victims_of(text: BodyText, form: _Form, where: str, most: int) -> Steps[MetaVictims]:
    if text.next != "{":
        value = text.value()
        if value is not None or form.type == "MetaVictims":  # a pointer, which its users do not expect to be nil
            raise mismatch({} if value is None else value, where, f"v1.{form.type}")
        return MetaVictims((), 0)
    uids: list[str] = []
    violations = 0
    inner = f"{form.type}.{form.field}"
    for key in text.members(MAX_FIELDS, "fields"):
        match key.casefold():
            case "pods" if text.next == "[":
                uids = []
                for item in text.items():
                    if len(uids) >= most:
                        raise _too_many(MAX_VICTIMS, "victims")
                    uids.append(form.uid_of(item, f"{inner}.Pods"))
                    yield
            case "pods":
                if (value := text.value()) is not None:
                    raise mismatch(value, f"{inner}.Pods", f"[]*v1.{form.pod_type}")
                uids = []
            case "numpdbviolations":
                violations = int64(text.value(), f"{inner}.NumPDBViolations")
            case _:
                text.skip()
    return MetaVictims(tuple(uids), violations)
