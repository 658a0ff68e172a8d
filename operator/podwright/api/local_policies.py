"""The LocalSchedulerPolicies: which of them stay within their delegation, and which of them applies to a pod. First a
policy is selected for the pod as if there were no local policies (podwright/api/policy_set.py). That policy is the
base. If it delegates something, the first local policy of the namespace that matches the pod applies, in the form that
was compiled for this base. A local policy that was refused makes these pods wait, as a SchedulerPolicy does; where
nothing is delegated, local policies have no effect at all.

What a local policy may do depends on its bases. So it is checked again when they change, and until then its pods wait:
none of its filters is ever left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final, Protocol

from podwright.api.compile import CompiledPolicy, refused_policy
from podwright.api.known_policy import KnownPolicies
from podwright.api.local_compile import bound_by
from podwright.api.local_policy import LocalPolicy, local_key_of, parse_local_claim, parse_local_policy
from podwright.api.policy_overlaps import KEPT, Overlap, may_take_the_same_pods, takes_all_pods_of
from podwright.api.policy_result import ApplyResult, problem_of, verdict
from podwright.api.scheduler_policy import (
    NAMELESS,
    LastAccepted,
    PolicyError,
    PolicySpec,
    SchedulerPolicy,
    identity_of,
    last_accepted_of,
    namespace_of,
    was_accepted,
)
from podwright.api.spec.match import CompiledMatch, Subject
from podwright.core.framework.profile import Profile
from podwright.core.objects.dataclass import dataclass

MAX_IN_NAMESPACE: Final = 16
"""How many local policies of a namespace count, the older first."""
MAX_BASES: Final = 16
"""How many policies may bound one local policy. It is compiled once for each."""
UNCHECKED: Final = "is being checked against a policy that has changed"


class Compose(Protocol):
    """`PolicyCompiler.composed`."""

    def __call__(self, base: CompiledPolicy, local: LocalPolicy, *, is_new: bool) -> CompiledPolicy: ...


Bases = Callable[[LocalPolicy], Sequence[CompiledPolicy]]


@dataclass(slots=True, eq=False)
class _Known:
    """A local policy. `newest`: decoded, None if that failed with `problem`. `claim`: which pods it selects, None if
    that cannot be read. `active`: the generation that applies, as it was written; `variants`: its compiled forms, by
    base. `refused`: what its pods get while no generation is active, `unchecked`: while none is compiled for their base
    yet.
    """

    key: str
    namespace: str
    uid: str
    generation: int
    raw: Mapping[str, Any]
    newest: LocalPolicy | None
    problem: PolicyError | None
    claim: LocalPolicy | None
    accepted: tuple[LocalPolicy, LastAccepted] | None = None
    active: LocalPolicy | None = None
    match: CompiledMatch = field(default_factory=CompiledMatch)
    variants: Mapping[CompiledPolicy, CompiledPolicy] = field(default_factory=dict)
    refused: CompiledPolicy | None = None
    unchecked: CompiledPolicy | None = None
    bases: tuple[str, ...] = ()
    shadow: str | None = None
    overlap: Overlap | None = None
    result: ApplyResult | None = None

    @property
    def spec(self) -> Any:
        """The spec as it was written."""
        return self.raw.get("spec")

    @property
    def was_accepted(self) -> bool:
        """True if this spec was accepted before."""
        return was_accepted(self.raw) or (self.accepted is not None and self.accepted[1].spec == self.spec)

    @property
    def last_accepted(self) -> LastAccepted | None:
        return self.accepted[1] if self.active is not None and self.accepted is not None else None

    @property
    def decides_as(self) -> LocalPolicy | None:
        return self.active or self.claim

    @property
    def served(self) -> tuple[str, int]:
        """The scheduler name and the precedence."""
        policy = self.decides_as
        return ("", 0) if policy is None else (policy.spec.scheduler_name, policy.spec.precedence)

    @property
    def rank(self) -> tuple[float, str]:
        """The order in which policies of a namespace count if there are too many: the older first."""
        policy = self.newest or self.claim
        return (0.0 if policy is None else policy.created), self.key

    @property
    def order(self) -> tuple[int, float, str]:
        policy = self.decides_as
        return (0 if policy is None else -policy.spec.precedence), *self.rank


class LocalPolicies(KnownPolicies[_Known]):
    """See the module. `version` rises whenever another policy may apply to a pod. `due`: the keys of policies that are
    to be checked.
    """

    def __init__(
        self, bases: Bases, compose: Compose, profile: Profile, *, waits: bool, changed: Callable[[], None]
    ) -> None:
        """`bases`: the policies that may otherwise decide about the pods of a local policy, each in force or refused.
        `compose`: raises PolicyError, or whatever a plugin raises. `profile`: of the built-in policy, for pods that
        wait. `waits`: the pods of refused policies do. `changed` is called when `version` rises.
        """
        super().__init__()
        self._bases = bases
        self._compose = compose
        self._profile = profile
        self._waits = waits
        self._changed = changed
        self.namespaces: dict[str, list[_Known]] = {}
        """The policies of each namespace, in their order."""
        self.version = 0
        self.due: dict[str, None] = {}
        self.urgent: dict[str, None] = {}
        """The keys of due policies for which a pod waits."""

    def _make_due(self, keys: Iterable[str]) -> None:
        self.due.update(dict.fromkeys(keys))
        if self.due:
            self._wake()

    def _checked(self, key: str) -> None:
        self.due.pop(key, None)
        self.urgent.pop(key, None)

    def next_due(self) -> str | None:
        """Returns the next policy to check, first policies for which a pod waits; None if no policy is due."""
        return next(iter(self.urgent or self.due), None)

    def apply(self, raw: Mapping[str, Any]) -> ApplyResult:
        """Accepts or rejects a local policy. Idempotent, and never raises for the content of the object."""
        name, uid, generation = identity_of(raw)
        namespace, key = namespace_of(raw), local_key_of(raw)
        before, same = self._before(key, raw)
        if same is not None:
            return same
        newest, problem = None, None
        try:
            newest = parse_local_policy(raw)
        except PolicyError as error:
            problem = error
        known = _Known(key, namespace, uid, generation, raw, newest, problem, newest or _claim(raw))
        known.accepted = before.accepted if before is not None else _last_accepted(raw)
        if before is not None:
            known.active, known.variants = before.active, before.variants
        if name == NAMELESS or not namespace:
            return self._examined(known)
        others = [each for each in self.namespaces.get(namespace, ()) if each.key != key]
        self._known[key] = known
        self.namespaces[namespace] = [*others, known]
        result = self.check(key)
        if len(others) >= MAX_IN_NAMESPACE:
            self._recheck_crowd(others)
        return result

    def remove(self, key: str) -> None:
        """Forgets a local policy. Does nothing if it is not known."""
        known = self._known.pop(key, None)
        self._checked(key)
        if known is None:
            return
        left = [each for each in self.namespaces[known.namespace] if each is not known]
        if left:
            self.namespaces[known.namespace] = left
        else:
            del self.namespaces[known.namespace]
        self._relate(left)
        self.version += 1
        self._changed()
        if len(left) >= MAX_IN_NAMESPACE:
            self._recheck_crowd(left)

    def _recheck_crowd(self, others: Sequence[_Known]) -> None:
        """Marks for a check the policies that begin or cease to count."""
        crowd = sorted(others, key=lambda known: known.rank)
        self._make_due(each.key for each in crowd[MAX_IN_NAMESPACE - 1 :])

    def recheck_all(self) -> None:
        """Marks every local policy for a check, because a SchedulerPolicy has changed."""
        self._make_due(self._known)

    def recheck_namespace(self, namespace: str) -> None:
        """Marks the local policies of the namespace for a check, because its labels have changed."""
        self._make_due(known.key for known in self.namespaces.get(namespace, ()))

    def plugins_changed(self, profile: Profile) -> None:
        """Uses other plugin classes, for which the active policies are already compiled. Marks policies that were not
        accepted for a check.

        `profile`: see the constructor.
        """
        self._profile = profile
        for known in self._known.values():
            for waiting in (known.refused, known.unchecked):
                if waiting is not None:
                    waiting.profile = profile
        self._make_due(key for key, known in self._known.items() if known.result is None or not known.result.accepted)

    def source_of(self, compiled: CompiledPolicy) -> LocalPolicy:
        """The local policy from which this variant of an active generation was compiled."""
        active = self._known[compiled.name].active
        assert active is not None, "it has no active generation"
        return active

    def check(self, key: str) -> ApplyResult:
        """Checks a local policy against its present delegation."""
        self._checked(key)
        known = self._known[key]
        before = (known.active, known.refused, tuple(known.variants.values()), known.match)
        result = self._examined(known)
        if before != (known.active, known.refused, tuple(known.variants.values()), known.match):
            self.namespaces[known.namespace].sort(key=lambda each: each.order)
            self._relate(self.namespaces[known.namespace])
            self.version += 1
            self._changed()
        return result

    def _examined(self, known: _Known) -> ApplyResult:
        refusal, consequence = None, ""
        try:
            if known.newest is None:
                raise known.problem or PolicyError(known.key, "Invalid", [("spec", "expected an object")])
            self._activate(known, known.newest)
            known.accepted = known.newest, LastAccepted(known.generation, known.raw["spec"])
        except Exception as error:  # noqa: BLE001 -- plugins validate their args, and may raise anything
            refusal, consequence = error, self._fall_back(known)
        active = None if known.active is None else known.active.generation
        result = verdict(known.key, known.generation, refusal, consequence=consequence, active_generation=active)
        self._prepare(known, result.message)
        known.result = result
        return result

    @staticmethod
    def _relate(policies: Sequence[_Known]) -> None:
        """Sets `shadow` and `overlap` of the policies of a namespace, which are given in their order. Only active ones
        count: at most MAX_IN_NAMESPACE.
        """
        active = [known for known in policies if known.active is not None]
        for known in policies:
            known.shadow, known.overlap = None, None
        for i, known in enumerate(active):
            same = [other for other in active if other.served == known.served]
            earlier = (other for other in active[:i] if other.served[0] == known.served[0])
            known.shadow = next((each.key for each in earlier if takes_all_pods_of(each.match, known.match)), None)
            alike = [other for other in same if other is not known and may_take_the_same_pods(other.match, known.match)]
            if alike:
                before = tuple(other.key for other in alike if other.order < known.order)
                after = tuple(other.key for other in alike if other.order > known.order)
                known.overlap = Overlap(
                    known.served[1], before[:KEPT], after[:KEPT], len(before) > KEPT or len(after) > KEPT
                )

    def _fall_back(self, known: _Known) -> str:
        """Activates the last accepted generation, if it is valid. Returns a sentence about the generation that
        decides.
        """
        problem, last = "", known.accepted
        if last is not None and last[0].generation != known.generation:
            try:
                self._activate(known, last[0])
                return f"Generation {last[0].generation} stays in force"
            except Exception as error:  # noqa: BLE001 -- as above
                problem = f"; generation {last[0].generation} is not acceptable any more: {problem_of(error)}"
        known.active, known.variants = None, {}
        return f"No generation of this policy is in force{problem}"

    def _activate(self, known: _Known, policy: LocalPolicy) -> None:
        """Activates this generation. Raises PolicyError and what plugins raise, and then changes nothing but
        `bases`.
        """
        older = [each for each in self.namespaces.get(known.namespace, ()) if each.rank < known.rank]
        if len(older) >= MAX_IN_NAMESPACE:
            problem = (
                f"a namespace may have {MAX_IN_NAMESPACE} of these policies, and {len(older)} of this one are older"
            )
            raise PolicyError(known.key, "NotAllowed", [("metadata.namespace", problem)])
        bases = self._bases(policy)
        delegating = [base for base in bases if base.spec.delegation is not None and not base.refusal]
        known.bases = tuple(base.name for base in delegating[:MAX_BASES])
        if not bases:
            problem = f"no policy serves the scheduler name {policy.spec.scheduler_name!r}"
            raise PolicyError(known.key, "NotAllowed", [("spec.schedulerName", problem)])
        if not delegating:
            raise PolicyError(known.key, "NotAllowed", [("spec", nothing_delegated(bases))])
        if len(delegating) > MAX_BASES:
            problem = (
                f"{len(delegating)} SchedulerPolicies may decide about these pods: at most {MAX_BASES} may bound one "
                "local policy"
            )
            raise PolicyError(known.key, "NotAllowed", [("spec.match", problem)])
        is_new = policy is known.newest and not known.was_accepted
        kept = known.variants if known.active == policy else {}
        known.variants = {base: kept.get(base) or self._compose(base, policy, is_new=is_new) for base in delegating}
        known.active = policy

    def _prepare(self, known: _Known, message: str) -> None:
        """Builds what the policy's pods get while they wait."""
        policy = known.decides_as
        waiting = known.refused if known.active is None else known.unchecked
        wanted = message if known.active is None else UNCHECKED
        if (
            policy is not None
            and waiting is not None
            and (waiting.refusal, waiting.generation) == (wanted, policy.generation)
        ):
            return
        known.refused = known.unchecked = None
        if policy is None:
            return
        known.match = policy.spec.match.compiled(known.namespace)
        spec = PolicySpec(scheduler_name=policy.spec.scheduler_name, precedence=policy.spec.precedence)
        source = SchedulerPolicy(known.key, policy.generation, spec, policy.created)
        compiled = replace(refused_policy(source, self._profile, wanted), match=known.match)
        known.refused, known.unchecked = (compiled, None) if known.active is None else (None, compiled)

    # Which one applies

    def select(self, base: CompiledPolicy, subject: Subject, *, waits: bool | None = None) -> CompiledPolicy:
        """The policy for a pod about which `base` would decide: a local policy, one with a refusal if the pod waits, or
        `base`.

        `waits`: whether the pods of refused policies wait, if not as given to the constructor.
        """
        waits = self._waits if waits is None else waits
        if base.spec.delegation is None or base.refusal:
            return base
        for known in self.namespaces.get(subject.namespace, ()):
            policy = known.decides_as
            if (
                policy is None
                or policy.spec.scheduler_name != base.spec.scheduler_name
                or not known.match.matches(subject)
            ):
                continue
            if known.active is None:
                if waits and known.refused is not None:
                    return known.refused
                continue
            found = known.variants.get(base)
            if found is not None:
                return found
            self.urgent[known.key] = None
            self._make_due((known.key,))
            if known.unchecked is not None:
                return known.unchecked
        return base

    # For the status and events

    def compiled(self, key: str) -> Sequence[CompiledPolicy]:
        """The compiled forms of the active generation, one for each base."""
        known = self._known.get(key)
        return () if known is None else tuple(known.variants.values())

    def decider(self, key: str) -> object:
        """An object that stands for what decides about the policy's pods. It is another object whenever that
        changes.
        """
        known = self._known.get(key)
        return None if known is None else (known.refused, *known.variants.values())

    def shadowed_by(self, key: str) -> str | None:
        """The active policy of the same namespace that hides this one, because it takes every pod that this one
        matches. None if no policy does.
        """
        known = self._known.get(key)
        return None if known is None else known.shadow

    def overlapping(self, key: str) -> Overlap | None:
        """The active policies of the same namespace and precedence that may match the same pods; None without such
        policies.
        """
        known = self._known.get(key)
        return None if known is None else known.overlap

    @property
    def config_maps(self) -> set[tuple[str, str]]:
        """Namespace and name of each ConfigMap that an active generation takes params from."""
        return {
            (known.namespace, known.active.spec.params_from.config_map_ref.name)
            for known in self._known.values()
            if known.active is not None and known.active.spec.params_from is not None
        }

    def bases_of(self, key: str) -> Sequence[str]:
        """The names of the policies that bound this one."""
        known = self._known.get(key)
        return () if known is None else known.bases

    def makes_pods_wait(self, key: str) -> bool:
        """True if the policy was refused, and its pods wait for it."""
        known = self._known.get(key)
        return known is not None and known.refused is not None and self._waits and bool(known.bases)


def nothing_delegated(bases: Sequence[CompiledPolicy]) -> str:
    owners = list(dict.fromkeys(map(bound_by, bases)))
    shown = ", ".join(owners[:3]) + (f" and {len(owners) - 3} more" if len(owners) > 3 else "")
    return (
        f"{shown} decide{'s' if len(owners) == 1 else ''} about these pods, and nothing is delegated (spec.delegation)"
    )


def _claim(raw: Mapping[str, Any]) -> LocalPolicy | None:
    try:
        return parse_local_claim(raw)
    except PolicyError:
        return None


def _last_accepted(raw: Mapping[str, Any]) -> tuple[LocalPolicy, LastAccepted] | None:
    """Returns the generation in the object's `status.lastAccepted`; None if it is missing or cannot be decoded."""
    try:
        found = last_accepted_of(raw)
        return None if found is None else (parse_local_policy(found[0]), found[1])
    except PolicyError:
        return None
