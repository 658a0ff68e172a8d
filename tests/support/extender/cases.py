"""Generated answers of extenders, for a comparison of two schedulers: what becomes of a pod, and in which words.

Each case is for one pod, whose name has the case's number. The answer depends on the pod and the nodes alone, so that
it is the same however often it is asked for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from support.extender.server import Reply, node_names

NODES: Final = ("node-a", "node-b", "node-c", "node-d")
GHOST: Final = "node-that-does-not-exist"
HTTP_TIMEOUT: Final = 2.0
SLOW: Final = Reply({}, delay=2 * HTTP_TIMEOUT)
WEIGHT: Final = 7
EXTENDERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "names": {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": WEIGHT, "nodeCacheCapable": True},
    "nodes": {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": WEIGHT},
    "ignorable": {"filterVerb": "filter", "nodeCacheCapable": True, "ignorable": True},
    "victims": {"preemptVerb": "preempt", "nodeCacheCapable": True},
    "whole-victims": {"preemptVerb": "preempt"},
    "binder": {"bindVerb": "bind"},
}
"""Extenders by the path of their URL. Each manages a resource of its name, so that a pod's requests choose its
extender.
"""
HIGH: Final = "high"
"""The PriorityClass of pods that preempt."""

Answer = Callable[[Mapping[str, Any]], Reply]


@dataclass(frozen=True)
class Case:
    """`kind`: what the answers are about. `exact`: which node the pod gets is decided, not left to chance."""

    name: str
    extender: str
    kind: str
    answers: Mapping[str, Answer]
    exact: bool = True
    spec: Mapping[str, Any] = field(default_factory=dict)


def resource_of(extender: str) -> str:
    return f"example.com/{extender}"


def settings(url: str) -> list[dict[str, Any]]:
    """The extenders of a KubeSchedulerConfiguration."""
    return [
        {
            "urlPrefix": f"{url}/{name}",
            "httpTimeout": f"{HTTP_TIMEOUT}s",
            "managedResources": [{"name": resource_of(name), "ignoredByScheduler": True}],
            **each,
        }
        for name, each in EXTENDERS.items()
    ]


def cases(count: int, seed: int = 7) -> list[Case]:
    """The same list for the same arguments."""
    chance = random.Random(seed)
    makers = [maker for maker, weight in _MAKERS for _ in range(weight)]
    order = makers.copy()
    chance.shuffle(order)
    order = [maker for maker, _ in _MAKERS] + order
    found = []
    for number in range(count):
        maker = order[number] if number < len(order) else chance.choice(makers)
        found.append(maker(f"case-{number}", chance))
    return found


def always(body: Any, **more: Any) -> Answer:
    """The same answer to every question."""
    return lambda _args: Reply(body, **more)


# Filters


def _lists(args: Mapping[str, Any], kept: Sequence[str]) -> dict[str, Any]:
    """The kept nodes in the form of the question, unknown ones as well."""
    if args["NodeNames"] is not None:
        return {"NodeNames": list(kept)}
    return {"Nodes": {"items": [{"metadata": {"name": name}} for name in kept]}}


def _one_of_both(chance: random.Random) -> str:
    return chance.choice(("names", "nodes"))


def _keeps_one(name: str, chance: random.Random) -> Case:
    kept = chance.choice(NODES)
    texts = {node: chance.choice(("too hot", "no such device", "")) for node in NODES if node != kept}
    return Case(name, _one_of_both(chance), "keeps one node", {
        "filter": lambda args: Reply({**_lists(args, [kept]), "FailedNodes": texts}),
    })  # fmt: skip


def _keeps_some(name: str, chance: random.Random) -> Case:
    kept = chance.sample(NODES, chance.choice((2, 3, 4)))
    best = chance.choice(kept)
    scores = [{"Host": node, "Score": 100 * (node == best)} for node in kept]
    return Case(name, _one_of_both(chance), "keeps several nodes and scores them", {
        "filter": lambda args: Reply(_lists(args, kept)), "prioritize": always(scores),
    })  # fmt: skip


def _keeps_none(name: str, chance: random.Random) -> Case:
    reasons = ("too hot", "no such device", "licence, expired", "Ünïcode\N{SNOWMAN}")
    failed = {node: chance.choice(reasons) for node in chance.sample(NODES, chance.choice((0, 2, 4)))}
    never = {node: chance.choice(reasons) for node in chance.sample(NODES, chance.choice((0, 1, 4)))}
    if chance.random() < 0.3:
        failed[GHOST] = "haunted"
    return Case(name, _one_of_both(chance), "keeps no node", {
        "filter": lambda args: Reply({**_lists(args, []), "FailedNodes": failed, "FailedAndUnresolvableNodes": never}),
    })  # fmt: skip


def _says_error(name: str, chance: random.Random) -> Case:
    extender, text = chance.choice(("names", "nodes", "ignorable")), chance.choice(("out of order", "x" * 500, "a\nb"))
    return Case(name, extender, "filter with an error", {
        "filter": lambda args: Reply({**_lists(args, NODES), "Error": text}), "prioritize": always([]),
    }, exact=extender != "ignorable")  # fmt: skip


def _bad_status(name: str, chance: random.Random) -> Case:
    status = chance.choice((201, 202, 400, 404, 405, 429, 500, 503))
    extender = chance.choice(("names", "nodes", "ignorable"))
    return Case(name, extender, "filter with another status", {
        "filter": lambda args: Reply(_lists(args, NODES), status=status),
    }, exact=extender != "ignorable")  # fmt: skip


def _slow(name: str, chance: random.Random) -> Case:
    extender = chance.choice(("names", "ignorable"))
    return Case(name, extender, "filter without an answer", {"filter": lambda _: SLOW}, exact=extender != "ignorable")


def _drops(name: str, chance: random.Random) -> Case:
    extender = chance.choice(("names", "nodes", "ignorable"))
    return Case(name, extender, "filter that closes the connection", {
        "filter": lambda _: Reply(drop=True),
    }, exact=extender != "ignorable")  # fmt: skip


GARBAGE: Final = (
    b"", b" ", b"nope", b"garbage", b"<html></html>", b"{", b'{"NodeNames": ["node-a"', b'{"a":1,}', b"[]", b"5", b'"x"', b"true",
    b'{"NodeNames": 5}', b'{"NodeNames": [5]}', b'{"Nodes": []}', b'{"Nodes": {"items": {}}}', b'{"FailedNodes": []}',
    b'{"FailedNodes": {"node-a": 5}}', b'{"Error": {}}', b'{"Error": 5}', b"\x00\x01", b"{a: 1}", b"[1 2]", b"nul", b"NaN",
    b'{"NodeNames": ["\xff"]}', b'{"nodenames": {}}',
)  # fmt: skip
"""Bodies that are no filter result."""


def _garbage(name: str, chance: random.Random) -> Case:
    body, extender = chance.choice(GARBAGE), chance.choice(("names", "nodes", "ignorable"))
    return Case(name, extender, f"filter that answers {body!r}", {
        "filter": always(body), "prioritize": always([]),
    }, exact=extender != "ignorable")  # fmt: skip


NOTHING: Final = (
    b"{}",
    b"null",
    b'{"NodeNames": null, "Nodes": null}',
    b'{"unknown": 1} trailing',
    b'{"NodeNames": []}',
)


def _nothing(name: str, chance: random.Random) -> Case:
    body = chance.choice(NOTHING)
    return Case(name, _one_of_both(chance), f"filter that answers {body!r}", {"filter": always(body)})


def _unknown(name: str, chance: random.Random) -> Case:
    kept = [GHOST, *chance.sample(NODES, chance.choice((0, 1)))]
    chance.shuffle(kept)
    return Case(name, "names", "filter with an unknown node", {
        "filter": lambda args: Reply(_lists(args, kept)), "prioritize": always([]),
    })  # fmt: skip


def _both_fields(name: str, chance: random.Random) -> Case:
    by_name, by_node = chance.sample(NODES, 2)
    body = {"NodeNames": [by_name], "Nodes": {"items": [{"metadata": {"name": by_node}}]}}
    return Case(name, _one_of_both(chance), "filter with both fields of nodes", {"filter": always(body)})


def _other_field(name: str, chance: random.Random) -> Case:
    extender, kept = _one_of_both(chance), chance.choice(NODES)
    body = {"Nodes": {"items": [{"metadata": {"name": kept}}]}} if extender == "names" else {"NodeNames": [kept]}
    return Case(name, extender, "filter with the other field of nodes", {"filter": always(body)})


def _key_case(name: str, chance: random.Random) -> Case:
    kept = chance.choice(NODES)
    body = {chance.choice(("nodenames", "NODENAMES", "nodeNames")): [kept], "failednodes": {"node-a": "x"}}
    return Case(name, "names", "filter with keys in another case", {"filter": always(body)})


# Scores


def _scores(name: str, chance: random.Random) -> Case:
    best = chance.choice(NODES)
    low, high = chance.choice(((0, 10), (-500, 1000), (0, 10**9), (-(10**12), -1000), (-(2**62), 100)))
    answer = [{"Host": node, "Score": high if node == best else low} for node in (*NODES, GHOST)]
    if chance.random() < 0.3:  # a node that is listed twice has both scores
        half = high // 2
        answer = [
            *(each for each in answer if each["Host"] != best),
            {"Host": best, "Score": half},
            {"Host": best, "Score": high - half},
        ]
    exact = low != -(2**62)
    return Case(name, _one_of_both(chance), f"scores from {low} to {high}", {
        "filter": lambda args: Reply(_lists(args, NODES)), "prioritize": always(answer),
    }, exact=exact)  # fmt: skip


BAD_SCORES: Final = (
    b"", b"{}", b"[5]", b"null", b"[]", b'[{"Host": "node-a", "Score": "9"}]', b'[{"Host": "node-a", "Score": 1.5}]', b"garbage",
    b'[{"Host": "node-a", "Score": 99999999999999999999}]',
)  # fmt: skip


def _bad_scores(name: str, chance: random.Random) -> Case:
    reply = chance.choice((*(Reply(body) for body in BAD_SCORES), Reply([], status=500), SLOW, Reply(drop=True)))
    return Case(name, _one_of_both(chance), "scores that cannot be used", {
        "filter": lambda args: Reply(_lists(args, NODES)), "prioritize": lambda _: reply,
    }, exact=False)  # fmt: skip


# Preemption: answers that evict nobody, so that cases do not disturb each other


def _victims(name: str, chance: random.Random) -> Case:
    replies = (
        Reply({"NodeNameToMetaVictims": {}}),
        Reply({}),
        Reply(b"null"),
        Reply({"NodeNameToMetaVictims": {"node-a": {"Pods": []}}}),
        Reply({"NodeNameToMetaVictims": {"node-b": {"Pods": None, "NumPDBViolations": 3}}}),
        Reply({"NodeNameToMetaVictims": {GHOST: {"Pods": [{"UID": "u"}]}}}),
        Reply({"NodeNameToMetaVictims": {"node-a": {"Pods": [{"UID": "nobody"}]}}}),
        Reply({"NodeNameToMetaVictims": {"node-a": {"Pods": 5}}}),
        Reply({"NodeNameToMetaVictims": {"node-a": 5}}),
        Reply({"NodeNameToMetaVictims": []}),
        Reply(b"garbage"),
        Reply(b""),
        Reply({}, status=500),
        Reply(drop=True),
        SLOW,
    )
    reply, extender = chance.choice(replies), chance.choice(("victims", "whole-victims"))
    return Case(name, extender, "victims that nobody agrees to", {
        "preempt": lambda _: reply,
    }, spec={"priorityClassName": HIGH, "cpu": "3"})  # fmt: skip


# Bindings


def _binds(name: str, chance: random.Random) -> Case:
    replies = (
        Reply({"Error": "cannot bind"}),
        Reply({"error": "lower case"}),
        Reply(b"garbage"),
        Reply(b"[]"),
        Reply({}, status=500),
        Reply({}, status=201),
        Reply(drop=True),
        SLOW,
        None,
        None,
    )
    reply = chance.choice(replies)
    return Case(name, "binder", "a binding", {"bind": lambda _: reply or BIND}, exact=False)  # fmt: skip


BIND: Final = Reply({})
"""The server binds the pod before it answers so."""

_MAKERS: Final = (
    (_keeps_one, 4), (_keeps_some, 5), (_keeps_none, 7), (_says_error, 4), (_bad_status, 4), (_slow, 2), (_drops, 2), (_garbage, 9),
    (_nothing, 3), (_unknown, 3), (_both_fields, 3), (_other_field, 2), (_key_case, 1), (_scores, 6), (_bad_scores, 4), (_victims, 6),
    (_binds, 5),
)  # fmt: skip
"""How often each kind comes. Each comes once before any comes twice."""

__all__ = ["BIND", "EXTENDERS", "HIGH", "NODES", "Case", "cases", "node_names", "resource_of", "settings"]
