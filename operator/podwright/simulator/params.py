"""ConfigMaps from which policies take params, in snapshots and simulations.

A snapshot has the ConfigMaps that policies name, with the keys that their rules read. A simulation takes them as the
operator does. `notes_of` names those that are missing. Secrets are never read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from podwright.api.compile import CompiledPolicy
from podwright.api.local_policy import LOCAL_KIND
from podwright.api.scheduler_policy import GROUP, KIND
from podwright.api.spec.rules import MAX_EXPRESSION, MAX_RULES, config_map_problem
from podwright.api.spec.signals import MAX_SIGNALS, SIGNAL_NAME
from podwright.core.cel.errors import CelError
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.raw import Raw, value_at
from podwright.core.plugins.rules.known_expressions import expression_of
from podwright.core.plugins.rules.params import CONFIG_MAP, ConfigMap
from podwright.core.plugins.rules.rule_set import RuleSet
from podwright.core.plugins.rules.subject import Input
from podwright.core.state.cache import Cache
from podwright.core.state.object_store import ObjectStore, key_of
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.simulator.snapshot import Snapshot

Keys = frozenset[str] | None
"""The keys of `data` that rules read; None: any."""

ABSENT: Final = "is not in the snapshot"
DOES_NOT_EXIST: Final = "does not exist"
NOT_ALLOWED: Final = "cannot be read (RBAC does not let you get it)"
SHOWN: Final = 20
"""How many policies the notes name."""
_LABEL: Final = f"{CONFIG_MAP} "
_ALL: Final[Keys] = None


def label_of(config_map: ConfigMap) -> str:
    """The name of the ConfigMap in a snapshot's `missing`."""
    return f"{_LABEL}{'/'.join(config_map)}"


def split_missing(missing: Mapping[str, str]) -> tuple[dict[str, str], dict[ConfigMap, str]]:
    """Splits a snapshot's `missing` into the kinds and the ConfigMaps, each with the reason."""
    kinds: dict[str, str] = {}
    config_maps: dict[ConfigMap, str] = {}
    for name, why in missing.items():
        namespace, slash, own = name.removeprefix(_LABEL).partition("/")
        if slash and name.startswith(_LABEL):
            config_maps[namespace, own] = why
        else:
            kinds[name] = why
    return kinds, config_maps


# What a snapshot has


def named_in(objects: Iterable[Raw], namespace: str) -> dict[ConfigMap, Keys]:
    """The ConfigMaps that policies among the objects name, with the keys that they read. `namespace`: the
    operator's.
    """
    found: dict[ConfigMap, Keys] = {}
    for config_map, spec in _references(objects, namespace):
        known, keys = found.get(config_map, frozenset()), _keys_read(spec)
        found[config_map] = _ALL if known is None or keys is None else known | keys
    return found


def relevant_in(objects: Iterable[Raw], namespace: str) -> Callable[[ConfigMap], bool]:
    """True if a ConfigMap may matter: because a policy names it, or because it is in the operator's `namespace`, so
    that a policy that is tried later may name it.
    """
    named = {config_map for config_map, _ in _references(objects, namespace)}
    return lambda config_map: config_map[0] == namespace or config_map in named


def _references(objects: Iterable[Raw], namespace: str) -> Iterator[tuple[ConfigMap, Any]]:
    """Each ConfigMap that a spec names, with the spec."""
    for raw in objects:
        kind = raw.get("kind")
        if kind not in (KIND, LOCAL_KIND) or str(raw.get("apiVersion") or "").partition("/")[0] != GROUP:
            continue
        own = namespace if kind == KIND else _text(raw, "metadata", "namespace")
        for spec in (value_at(raw, "spec"), value_at(raw, "status", "lastAccepted", "spec")):
            name = _text(spec, "paramsFrom", "configMapRef", "name")
            if name and own:
                yield (own, name), spec


def kept_of(raw: Raw, keys: Keys) -> dict[str, Any]:
    """Cuts a ConfigMap to what a snapshot keeps: its name, and these keys of its data."""
    namespace, name = key_of(raw)
    data = raw.get("data")
    texts = data.items() if isinstance(data, Mapping) else ()
    return {
        "apiVersion": "v1",
        "kind": CONFIG_MAP,
        "metadata": {"name": name, "namespace": namespace},
        "data": {key: value for key, value in texts if keys is None or key in keys},
    }


def kept_in(snapshot: Snapshot, namespace: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The ConfigMaps that a copy of this snapshot keeps, and its `missing`. `namespace`: the operator's."""
    missing, known = split_missing(snapshot.missing)
    given: dict[ConfigMap, Raw] = {}
    for raw in snapshot.of_kind(CONFIG_MAP):
        with suppress(InvalidObjectError):  # no policy can name it
            given[key_of(raw)] = raw
    kept: list[dict[str, Any]] = []
    for config_map, keys in named_in(snapshot.objects, namespace).items():
        found = given.get(config_map)
        if found is None:
            missing[label_of(config_map)] = known.get(config_map, "is not in the dump")
        elif problem := problem_of(found, namespace):
            missing[label_of(config_map)] = problem
        else:
            kept.append(kept_of(found, keys))
    return kept, missing


def problem_of(raw: Raw, namespace: str) -> str:
    """Why the operator refuses the ConfigMap; "" if it accepts it. `namespace`: the operator's, whose ConfigMaps may
    have any size.
    """
    return "" if key_of(raw)[0] == namespace else config_map_problem(raw)


def _keys_read(spec: Any) -> Keys:
    signals = value_at(spec, "signals")
    listed = islice(signals, MAX_SIGNALS) if isinstance(signals, list) else ()
    names = tuple(sorted({each for each in listed if isinstance(each, str) and re.fullmatch(SIGNAL_NAME, each)}))
    found: set[str] = set()
    for text, score in _expressions(spec):
        try:
            inputs = expression_of(text, score=score, signals=names).inputs
        except CelError:
            return _ALL  # the operator may know more names than this process
        for part in inputs:
            if isinstance(part, Input) and part.root == "params":
                if part.key is None:
                    return _ALL
                found.add(part.key)
    return frozenset(found)


def _expressions(spec: Any) -> Iterator[tuple[str, bool]]:
    """The expressions of a spec that may contain anything, and whether each is a score."""
    for kind, score in (("filters", False), ("scores", True)):
        rules = value_at(spec, "rules", kind)
        for rule in islice(rules, MAX_RULES) if isinstance(rules, list) else ():
            text = value_at(rule, "expression")
            if isinstance(text, str) and len(text) <= MAX_EXPRESSION:
                yield text, score


def _text(raw: Any, *path: str) -> str:
    found = value_at(raw, *path)
    return found if isinstance(found, str) else ""


# What a simulation takes


def take(raw: Raw, cache: Cache, namespace: str) -> str:
    """Adds a ConfigMap to the cluster. Returns why the operator would refuse it; "" if it would not. `namespace`: the
    operator's.
    """
    problem = problem_of(raw, namespace)
    if not problem:
        cache.set_object(CONFIG_MAP, kept_of(raw, _ALL))
    return problem


def config_maps_of(policy: CompiledPolicy) -> set[ConfigMap]:
    """The ConfigMaps from which the policy's rules take params."""
    sets = [args for args in policy.profile.args.values() if isinstance(args, RuleSet)]
    owners = [rule.owner for each in sets for rules in (each.filters, each.scores) for rule in rules]
    return {owner.params_from for owner in owners if owner.params_from is not None}


def lacking(
    policies: Iterable[CompiledPolicy], store: ObjectStore, unread: Mapping[ConfigMap, str]
) -> dict[ConfigMap, str]:
    """The ConfigMaps that these policies lack, each with the reason. `unread`: the reasons that are known."""
    wanted = {config_map for policy in policies for config_map in config_maps_of(policy)}
    return {each: unread.get(each, ABSENT) for each in wanted if store.get(CONFIG_MAP, each[1], each[0]) is None}


def note_of(name: str, policies: ActivePolicies, store: ObjectStore, unread: Mapping[ConfigMap, str]) -> str:
    """A note that the named policy decides without its ConfigMap; "" if it does not."""
    active = policies.policy_set.active_generation_of(name)
    compiled = (active,) if active is not None else policies.policy_set.local.compiled(name)
    lacked = lacking(compiled, store, unread)
    if not lacked:
        return ""
    for config_map, why in lacked.items():
        policies.note_config_map(config_map, why)
    problem = policies.work_of(name).missing_params
    return f"policy {name}: {problem}" if problem else ""


def notes_of(policies: ActivePolicies, store: ObjectStore, unread: Mapping[ConfigMap, str]) -> Sequence[str]:
    """Notes about the policies that decide without their ConfigMaps, as `note_of`."""
    names = [*sorted(policies.policy_set.keys()), *sorted(policies.policy_set.local.keys())]
    found = [note for name in names if (note := note_of(name, policies, store, unread))]
    more = len(found) - SHOWN
    return [*found[:SHOWN], *([f"{more:,} more policies lack ConfigMaps"] if more > 0 else [])]
