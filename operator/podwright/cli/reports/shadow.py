"""The text of `podwright shadow report`, from the operator's answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from podwright.api.policy_status import percent
from podwright.core.objects.raw import Raw
from podwright.core.objects.times import rfc3339
from podwright.core.objects.wording import counted

GROUPS_SHOWN: Final = 10
"""The last of the pod groups whose pods were not compared."""

_OUTCOMES: Final = {
    "agreed": "the same node",
    "waitsToo": "neither finds a node",
    "tied": "tie: several nodes have the best score, the actual one among them",
    "lower": "the policy prefers another node",
    "rejected": "the policy rejects the actual node",
    "unplaced": "only the other scheduler finds a node",
    "placeable": "only the policy finds a node",
    "failed": "a plugin failed",
}
_SKIPPED: Final = {
    "podGroup": "in a pod group",
    "preemption": "placed after a preemption on that node",
    "nodeGone": "the node was deleted too soon",
    "unseen": "with claims or costly, and placed before the policy decided",
    "late": "too many others waited",
    "gone": "deleted before their turn",
    "changing": "the cluster changed too fast",
}


def lines_of(answer: Raw, shown: int) -> Iterator[str]:
    """The lines of the report. `shown`: how many disagreements of each policy are listed."""
    policies = answer.get("policies") or ()
    if answer.get("standby"):
        yield "This instance stands by, or has just started: ask the one that leads."
    elif not policies:
        yield "No policy is in shadow mode."
    for number, policy in enumerate(policies):
        if number:
            yield ""
        yield from _policy(policy, shown)
    if waiting := answer.get("waiting"):
        yield f"\n{counted(waiting, 'pod')} with a node still {'waits' if waiting == 1 else 'wait'} to be compared."


def _policy(policy: Raw, shown: int) -> Iterator[str]:
    outcomes: Mapping[str, int] = policy["outcomes"]
    decided = sum(outcomes.values()) - outcomes.get("tied", 0) - outcomes.get("failed", 0)
    yield (
        f"Policy {policy['name']}, generation {policy['generation']}, beside scheduler {policy['schedulerName']}, "
        f"since {rfc3339(policy['since'])}"
    )
    agreement = policy.get("agreement")
    share = "nothing to compare yet" if agreement is None else f"{percent(agreement)} of {decided:,}"
    yield f"  Agreement, without ties: {share}"
    for name, words in _OUTCOMES.items():
        if count := outcomes.get(name, 0):
            only = policy.get("onlyChoice", 0) if name == "agreed" else 0
            yield f"  {count:>9,}  {words}{f' ({only:,} of them had only one feasible node)' if only else ''}"
    for name, words in _SKIPPED.items():
        if count := policy["skipped"].get(name, 0):
            yield f"  {count:>9,}  not compared: {words}"
    groups = policy["groups"]
    yield from (f"             {group}" for group in groups[-GROUPS_SHOWN:])
    if len(groups) > GROUPS_SHOWN:
        yield f"             and {len(groups) - GROUPS_SHOWN} more pod groups"
    if changed := policy["changed"]:
        yield f"  In {changed:,} comparisons, the cluster had changed between the two decisions."
    unplaced: Mapping[str, int] = policy["unplaced"]
    if any(unplaced.values()):
        waits = unplaced["fits"] + unplaced["waits"]
        yield f"  Now: {counted(waits, 'pod')} without a node; the policy would place {unplaced['fits']:,}."
    yield from _world(policy["world"])
    yield from _disagreements(policy["disagreements"], shown)


def _world(world: Raw) -> Iterator[str]:
    """The utilisation of the cluster, and what it would be under the policy."""
    if missing := world.get("missing"):
        yield f"  The utilisation under the policy is not known: {missing}."
        return
    cluster, ours = world["cluster"], world["shadow"]
    yield "  Utilisation in the cluster, and if the policy had placed its pods:"
    yield f"    nodes in use: {cluster['inUse']:,} and {ours['inUse']:,} of {cluster['nodes']:,}"
    for resource, share in cluster["utilisation"].items():
        yield f"    {resource} on nodes in use: {percent(share)} and {percent(ours['utilisation'].get(resource, 0.0))}"
    notes = [
        f"{counted(world['elsewhere'], 'pod')} on other nodes" if world["elsewhere"] else "",
        f"{counted(world['waiting'], 'pod')} without a node" if world["waiting"] else "",
        f"{counted(world['unplaced'], 'pod')} placed that {'has' if world['unplaced'] == 1 else 'have'} no node in the cluster"
        if world["unplaced"]
        else "",
        f"{counted(world['undecided'], 'pod')} left where {'it is' if world['undecided'] == 1 else 'they are'}"
        if world["undecided"]
        else "",
        "" if world["settled"] else "the last changes are not included yet",
    ]
    if shown := ", ".join(filter(None, notes)):
        yield f"    under the policy: {shown}"


def _disagreements(found: Sequence[Raw], shown: int) -> Iterator[str]:
    if found and shown:
        yield f"  The last {'disagreement' if len(found[:shown]) == 1 else f'{len(found[:shown]):,} disagreements'}:"
    for each in found[:shown]:
        words = _OUTCOMES.get(each["outcome"], each["outcome"])
        changes = f"; {each['changes']:,} other changes between" if each["changes"] else ""
        yield f"    {each['pod']} at {rfc3339(each['at'])}: {words}{changes}"
        yield f"      policy: {_side(each['ours'])}"
        yield f"      actual: {_side(each['theirs'])}"
        difference = [pair for pair in each["plugins"] if pair["ours"] != pair["theirs"]]
        if difference:
            parts = (f"{pair['plugin']} {pair['weight'] * (pair['ours'] - pair['theirs']):+d}" for pair in difference)
            yield f"      by plugin: {', '.join(parts)}"


def _side(side: Raw) -> str:
    node, score = side.get("node"), side.get("score")
    text = "no node" if not node else node if score is None else f"{node}, score {score}"
    why = side.get("why") or side.get("message")
    return f"{text}: {why}" if why else text
