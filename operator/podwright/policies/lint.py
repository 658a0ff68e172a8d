"""Checks policy files offline, with the operator's own code: what the operator would refuse is an error, with its place
in the file.

A queue, also one of KAI or Volcano, is checked by itself, and with those of the same files as a tree; a
RebalancePolicy, Reservation, Topology or WorkloadGrouping by itself.

A LocalSchedulerPolicy is checked against the SchedulerPolicies of the same files that would bound it. If there are
none, the delegation is not checked, and a note says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final, get_args

import yaml

from podwright.api.compile import CompiledPolicy, compile_policy
from podwright.api.local_policy import LOCAL_KIND, LocalPolicy, parse_local_policy
from podwright.api.policy_result import problem_of
from podwright.api.policy_set import PolicySet
from podwright.api.queue_view import VIEW_KIND
from podwright.api.rebalance_policy import REBALANCE_KIND, parse_rebalance_policy
from podwright.api.reservation import RESERVATION_KIND, parse_reservation
from podwright.api.scheduler_policy import GROUP, KIND, PolicyError, parse_policy
from podwright.api.scheduling_queue import QUEUE_KIND
from podwright.api.spec.delegation import NodeField
from podwright.api.spec.strategy import DelegatedStrategy
from podwright.api.topology import TOPOLOGY_KIND, parse_topology
from podwright.api.workload_grouping import GROUPING_KIND, parse_grouping
from podwright.core.framework.errors import PluginError
from podwright.core.framework.profile import ProfileError
from podwright.core.framework.validation import Problem
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.similar_names import did_you_mean, similar_name
from podwright.core.queues.amounts import amount_text
from podwright.core.queues.queues import QueueRules, Queues
from podwright.core.queues.shares import UNBOUNDED
from podwright.core.queues.shown import UNCOVERED
from podwright.core.queues.validity import uncovered
from podwright.core.state.cache import Cache
from podwright.kube.bounded_files import read_at_most
from podwright.kube.queues.kinds import QUEUE_KINDS, SCHEDULING_QUEUES, QueueKind
from podwright.kube.queues.names import counts_instead
from podwright.policies.findings import Finding, Level
from podwright.policies.positions import Place, Position, positions, repeated_keys
from podwright.simulator.loaded import LoadOptions
from podwright.simulator.manifests import Manifest, ManifestError, parse_manifests
from podwright.simulator.queue_objects import QUEUE_OBJECTS, queue_kind_of

LONGEST_FILE: Final = 16 << 20
"""Bytes of a policy file."""
_IN_TEXT: Final = re.compile(r"line (\d+), column (\d+): ")
_PLACE: Final = re.compile(r":(\d+): ")
_YAML_PLACE: Final = re.compile(r"line (\d+), column (\d+)")
_EXCEEDS: Final = "NotAllowed"
"""The reason of errors about what is not delegated."""
_PARSERS: Final[Mapping[str, Callable[[Manifest], object]]] = {
    REBALANCE_KIND: parse_rebalance_policy,
    RESERVATION_KIND: parse_reservation,
    TOPOLOGY_KIND: parse_topology,
    GROUPING_KIND: parse_grouping,
}
"""The parsers of kinds whose objects are each checked by themselves."""
_KINDS: Final = (KIND, LOCAL_KIND, QUEUE_KIND, *_PARSERS)
_UNBOUNDED: Final = {
    "strategies": list(get_args(DelegatedStrategy)),
    "plugins": ["*"],
    "rules": True,
    "nodeFields": list(get_args(NodeField)),
    "maxRules": 128,
    "maxWeight": 1_000_000,
}


class _Policy:
    """An object of one of our kinds in a file, with its position."""

    def __init__(self, raw: Manifest, file: str, position: Position) -> None:
        self.raw = raw
        self.file = file
        self.position = position

    @property
    def name(self) -> str:
        metadata = self.raw.get("metadata")
        return f"{self.raw['kind']} {metadata.get('name', '?') if isinstance(metadata, dict) else '?'}"

    def finding(self, level: Level, rule: str, path: str, problem: str) -> Finding:
        """A finding about the field at `path`."""
        at = self.position.at(path)
        place: Place | None = None
        if (found := _IN_TEXT.match(problem)) is not None:
            place = at.inside(int(found[1]), int(found[2]))
        if place is not None and found is not None:
            problem = problem[found.end() :]
        line, column = place or at.place
        return Finding(self.file, line, column, level, rule, f"{self.name}: {path}: {problem}")


def lint(files: Iterable[str], options: LoadOptions) -> Sequence[Finding]:
    """The findings about the policies and queues of these files, ordered by place. Objects of other API groups are
    ignored. Raises OSError and ProfileError.
    """
    findings: list[Finding] = []
    policies: list[_Policy] = []
    for file in files:
        _read(file, policies, findings)
    accepted = PolicySet(options.classes, options.features, settings=options.settings)
    given = Counter(policy.raw["kind"] for policy in policies)
    for policy in policies:
        if policy.raw["kind"] == KIND:
            findings += _cluster_findings(policy, accepted)
    for policy in policies:
        if policy.raw["kind"] == LOCAL_KIND:
            findings += _local_findings(policy, accepted, options, bounded=given[KIND] > 0)
        elif (parse := _PARSERS.get(policy.raw["kind"])) is not None:
            findings += _findings_alone(policy, parse)
    findings += _overlaps(policies, accepted)
    findings += _queue_findings([policy for policy in policies if policy.raw["kind"] in QUEUE_OBJECTS])
    return sorted(set(findings))


def _read(file: str, policies: list[_Policy], findings: list[Finding]) -> None:
    content = read_at_most(Path(file), LONGEST_FILE, pipes=True)
    try:
        objects = parse_manifests(content, file)
        found = [*positions(content.decode())]
    except ManifestError as error:
        findings.append(_unreadable(file, str(error)))
        return
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        findings.append(_unreadable(file, f"{file}: not YAML: {error}"))
        return
    for raw, position in zip(objects, found, strict=True):
        group = str(raw.get("apiVersion") or "").partition("/")[0]
        name, ours = raw["kind"], raw["kind"] in _KINDS
        if group == GROUP and not ours and name != VIEW_KIND:
            problem = f"kind {name!r:.80} does not exist in {GROUP}{did_you_mean(name, _KINDS)}"
            findings.append(Finding(file, *position.at("kind").place, "error", "Kind", problem))
        elif ours and group != GROUP and _is_meant(group):
            actual = f"not {group!r:.80}" if group else "and its apiVersion is missing"
            problem = f"the API group of kind {name} is {GROUP}, {actual}"
            findings.append(Finding(file, *position.at("apiVersion").place, "error", "Kind", problem))
        if (ours and group in (GROUP, "")) or queue_kind_of(raw) is not None:
            policies.append(_Policy(raw, file, position))
            for key, (line, column) in repeated_keys(position):
                findings.append(Finding(file, line, column, "error", "YAML", f"the key {key:.80} is there twice"))


def _is_meant(group: str) -> bool:
    """True if this API group of an object of our kind is a mistake: other projects' groups have a domain."""
    return "." not in group or group.startswith("podwright") or bool(similar_name(group, (GROUP,)))


def _unreadable(file: str, message: str) -> Finding:
    text = message.removeprefix(f"{file}:").strip()
    line, column = 1, 1
    if (found := _YAML_PLACE.findall(text)) != []:
        line, column = int(found[-1][0]), int(found[-1][1])
    elif (at := _PLACE.match(message.removeprefix(file))) is not None:
        line, text = int(at[1]), message.removeprefix(file)[at.end() :]
    return Finding(file, line, column, "error", "YAML", text)


def _cluster_findings(policy: _Policy, accepted: PolicySet) -> Iterator[Finding]:
    try:
        compiled = accepted.compiler.compiled(parse_policy(policy.raw))
    except (PolicyError, ProfileError, PluginError) as error:
        yield from _errors(policy, error)
        return
    accepted.apply(policy.raw)
    yield from _interpreted(policy, compiled)
    if not accepted.compiler.settings.asks_extenders:
        for i, name in enumerate(compiled.spec.extenders):
            problem = f"whether extender {name!r} exists is not checked: --extenders is not given"
            yield policy.finding("note", "Extenders", f"spec.extenders[{i}]", problem)


def _local_findings(policy: _Policy, accepted: PolicySet, options: LoadOptions, *, bounded: bool) -> Iterator[Finding]:
    try:
        local = parse_local_policy(policy.raw)
    except PolicyError as error:
        yield from _errors(policy, error)
        return
    if bounded:
        accepted.local.apply(policy.raw)
        found = [accepted.decider(name) for name in accepted.local.bases_of(local.key)]
        bases = [base for base in found if base is not None] or [
            accepted.compiler.built_in_for(local.spec.scheduler_name)
        ]
    else:
        bases = [_unbounded(local, accepted, options)]
        yield policy.finding("note", "Delegation", "spec", "what it may do is not checked: no SchedulerPolicy is given")
    for base in bases:
        try:
            compiled = accepted.compiler.composed(base, local)
        except (PolicyError, ProfileError, PluginError) as error:
            yield from _errors(policy, error)
            if isinstance(error, PolicyError) and error.reason == _EXCEEDS:
                yield from _errors_within(policy, local, accepted, options)
        else:
            yield from _interpreted(policy, compiled)


def _errors_within(policy: _Policy, local: LocalPolicy, accepted: PolicySet, options: LoadOptions) -> Iterator[Finding]:
    """Further errors of a policy that exceeds its bounds. The operator stops at the bounds."""
    base = _unbounded(local, accepted, options)
    try:
        accepted.compiler.composed(base, local)
    except (PolicyError, ProfileError, PluginError) as error:
        if not isinstance(error, PolicyError) or error.reason != _EXCEEDS:
            yield from _errors(policy, error)


def _unbounded(local: LocalPolicy, accepted: PolicySet, options: LoadOptions) -> CompiledPolicy:
    delegation = {**_UNBOUNDED, "signals": [*options.settings.signals]}
    spec = {"schedulerName": local.spec.scheduler_name, "delegation": delegation}
    source = parse_policy({"apiVersion": f"{GROUP}/v1alpha1", "kind": KIND, "metadata": {"name": "any"}, "spec": spec})
    defined = options.settings.definitions
    return compile_policy(source, options.classes, options.features, accepted.queue_sort, defined=defined)


def _queue_findings(given: Sequence[_Policy]) -> Iterator[Finding]:
    """The findings about the queues, each by itself, then as a tree. A parent that is in no file may be in the
    cluster.
    """
    rules: dict[str, QueueRules] = {}
    found: dict[str, tuple[_Policy, QueueKind]] = {}
    queues = [(each, queue_kind_of(each.raw) or SCHEDULING_QUEUES) for each in given]
    for each, kind in sorted(queues, key=lambda pair: QUEUE_KINDS.index(pair[1])):
        try:
            queue = kind.parse(each.raw)
        except InvalidObjectError as error:
            yield from _errors(each, error)
            continue
        if queue.name in found:
            first = found[queue.name][1]
            problem = "another queue of these files has this name" if first is kind else counts_instead(first, kind)
            yield each.finding("error", "Twice", "metadata.name", problem)
        if found.setdefault(queue.name, (each, kind))[1] is kind:
            rules[queue.name], found[queue.name] = queue, (each, kind)
    implied = [kind.implied for kind in {kind for _, kind in found.values()} if kind.implied is not None]
    rules = {**{each.name: each for each in implied}, **rules}
    known = {*rules}
    named = {str(each.raw["metadata"].get("name")) for each in given if isinstance(each.raw.get("metadata"), dict)}
    for queue in [*rules.values()]:
        if queue.parent and queue.parent not in rules:
            rules[queue.parent] = QueueRules(queue.parent)
            if queue.parent not in named:
                each, kind = found[queue.name]
                problem = f"whether queue {queue.parent!r} exists is not checked: it is in no file"
                yield each.finding("note", "Parent", kind.parent, problem)
    tree = Queues(Cache())
    for queue in rules.values():
        tree.set(queue)
    for name, (each, kind) in found.items():
        yield from _tree_findings(tree, name, each, kind, known=known)


def _tree_findings(
    tree: Queues, name: str, queue: _Policy, kind: QueueKind, *, known: AbstractSet[str]
) -> Iterator[Finding]:
    """Yields the findings about a queue in the tree. What other APIs allow is a warning. `known`: the queues whose
    parents and amounts are known.
    """
    if (problem := tree.structure.problem(name)) is not None:
        level: Level = "error" if kind.refuses(problem) else "warning"
        reason = "Invalid" if level == "error" else UNCOVERED
        yield queue.finding(level, reason, kind.place(problem.where), problem.problem)
    if tree.get(name) is None:
        return
    if known >= {*tree.path(name)} and (warning := uncovered(tree.queue(name))) is not None:
        yield queue.finding("warning", UNCOVERED, kind.place(warning.where), warning.problem)
    for resource, quota in tree.queue(name).spec.quotas.items():
        if UNBOUNDED != quota.limit < quota.guarantee:
            limit, guarantee = (amount_text(resource, amount) for amount in (quota.limit, quota.guarantee))
            text = f"this limit of {limit} is less than the guarantee of {guarantee}"
            yield queue.finding("warning", UNCOVERED, kind.amount(resource, "limit"), text)


def _findings_alone(policy: _Policy, parse: Callable[[Manifest], object]) -> Iterator[Finding]:
    try:
        parse(policy.raw)
    except InvalidObjectError as error:
        yield from _errors(policy, error)


def _errors(policy: _Policy, error: BaseException) -> Iterator[Finding]:
    if isinstance(error.__cause__, PolicyError):
        error = error.__cause__
    if isinstance(error, PolicyError):
        problems: Sequence[Problem] = error.problems
        reason: str = error.reason
    elif isinstance(error, (ProfileError, InvalidObjectError)):
        problems, reason = [(error.where, error.problem)], "Invalid"
    else:
        problems, reason = [("spec", problem_of(error))], "Invalid"
    for path, problem in problems:
        yield policy.finding("error", reason, path or "spec", problem)


def _interpreted(policy: _Policy, compiled: CompiledPolicy) -> Iterator[Finding]:
    """Notes about rules that cost more than others."""
    rules: dict[str, Any] = policy.raw["spec"].get("rules") or {}
    for points in ("filters", "scores"):
        for index, rule in enumerate(rules.get(points) or ()):
            if (why := compiled.interpreted.get(rule["name"])) is not None:
                path = f"spec.rules.{points}[{index}].expression"
                yield policy.finding("note", "Interpreted", path, f"is evaluated node by node: {why}")


def _overlaps(policies: Sequence[_Policy], accepted: PolicySet) -> Iterator[Finding]:
    for policy in policies:
        name = policy.raw["metadata"].get("name") if isinstance(policy.raw.get("metadata"), dict) else None
        if policy.raw["kind"] != KIND or not isinstance(name, str) or accepted.decider(name) is None:
            continue
        if (other := accepted.shadowed_by(name)) is not None:
            problem = f"never decides about a pod: {KIND} {other} takes all pods that it matches"
            yield policy.finding("warning", "Shadowed", "spec.match", problem)
        elif overlap := accepted.overlapping(name):
            names = ", ".join((*overlap.before, *overlap.after))
            problem = f"matches pods that {KIND} {names} of the same precedence matches too: the older policy decides"
            yield policy.finding("warning", "Overlapping", "spec.precedence", problem)
