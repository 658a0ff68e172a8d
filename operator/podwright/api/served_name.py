"""The policies of one scheduler name: in their order, and prepared for finding the one that decides about a pod.

They are prepared when they are needed, so that applying a thousand policies in a row costs no more than a thousand
times one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from podwright.api.compile import CompiledPolicy, misnamed_policy
from podwright.api.policy_index import PolicyIndex
from podwright.api.policy_overlaps import may_take_the_same_pods, takes_all_pods_of
from podwright.api.spec.match import CompiledMatch, Subject

UNKNOWN_NAME: Final = "does not exist for the pod's scheduler name"
NOT_BY_NAME: Final = "does not let pods name it: its spec.byName is Never"
NOT_MATCHED: Final = "does not match the pod"
IN_SHADOW: Final = "is in shadow mode, so it takes no pods"


def order(policy: CompiledPolicy) -> tuple[int, float, str]:
    """The sort key of policies: the greatest precedence first, then the oldest policy, then the first name."""
    return -policy.spec.precedence, policy.source.created, policy.name


class ServedName:
    """See the module. The policies are active or refused; the built-in policy is not among them."""

    def __init__(self, built_in: CompiledPolicy, *, always: bool, waits: bool, shadows: Collection[str] = ()) -> None:
        """`built_in`: the policy for pods that no other takes. `shadows`: the names of the policies in shadow mode,
        kept up to date. `always`: the name is served without any policy.

        `waits`: the pods of refused policies wait for them; otherwise refused policies are passed over.
        """
        self._built_in = built_in
        self._shadows = shadows
        self._always = always
        self._waits = waits
        self._policies: list[CompiledPolicy] = []
        self._by_name: dict[str, CompiledPolicy] = {}
        self._misnamed = {
            reason: misnamed_policy(built_in.profile, reason)
            for reason in (UNKNOWN_NAME, NOT_BY_NAME, NOT_MATCHED, IN_SHADOW)
        }
        """The policies for pods that name a policy which does not take them, by the reason."""
        self._prepared: _Prepared | None = None

    def built_in_changed(self) -> None:
        """The built-in policy was compiled again."""
        for policy in self._misnamed.values():
            policy.adopt(self._built_in)

    @property
    def served(self) -> bool:
        """True if pods may ask for the name."""
        return self._always or bool(self._policies)

    def add(self, policy: CompiledPolicy) -> None:
        self._policies.insert(bisect_left(self._policies, order(policy), key=order), policy)
        self._by_name[policy.name] = policy
        self._prepared = None

    def remove(self, policy: CompiledPolicy) -> None:
        del self._policies[bisect_left(self._policies, order(policy), key=order)]
        del self._by_name[policy.name]
        self._prepared = None

    @property
    def takes_all(self) -> CompiledPolicy | None:
        """The first policy that takes every pod, whether it decides or makes them wait, or None."""
        return self._prepare().takes_all

    @property
    def only(self) -> CompiledPolicy | None:
        """The policy that takes all pods of the name that name no policy; None if that depends on the pod."""
        return (self._prepared or self._prepare()).only

    def first(self, subject: Subject) -> CompiledPolicy:
        """The policy for such a pod: one that decides, or one with a refusal if the pod waits."""
        prepared = self._prepare()
        if subject.policy:
            named = self._named(subject)
            if self._waits or not named.refusal:
                return named
        return prepared.deciding.first(subject) or prepared.rest

    def _named(self, subject: Subject) -> CompiledPolicy:
        """The policy that the pod names, if it takes the pod."""
        named = self._by_name.get(subject.policy)
        if named is None:
            return self._misnamed[IN_SHADOW if subject.policy in self._shadows else UNKNOWN_NAME]
        if named.spec.by_name == "Never":
            return self._misnamed[NOT_BY_NAME]
        return named if named.matches(subject) else self._misnamed[NOT_MATCHED]

    def bases_of(self, match: CompiledMatch, namespace: str, labels: Mapping[str, str]) -> Sequence[CompiledPolicy]:
        """The policies that may decide about pods of this namespace which `match` matches, refused ones included, in
        their order.
        """
        found, all_taken = [], False
        for policy in self._policies:
            own = policy.match
            if (all_taken and policy.spec.by_name == "Never") or not own.takes_namespace(namespace, labels):
                continue
            if may_take_the_same_pods(own, match):
                found.append(policy)
                all_taken = all_taken or (policy.spec.by_name != "Required" and takes_all_pods_of(own, match))
        return found if all_taken else [*found, self._built_in]

    def passed_over(self, subject: Subject) -> CompiledPolicy | None:
        """The policy with a refusal that such a pod would get if pods waited, or None."""
        prepared = self._prepare()
        if self._waits:
            return None
        if subject.policy and (named := self._named(subject)).refusal:
            return named
        if prepared.all is None:
            return None
        found = prepared.all.first(subject)
        if found is None and prepared.only_refused:
            found = prepared.first_refused
        return found if found is not None and found.refusal else None

    def _prepare(self) -> _Prepared:
        if self._prepared is None:
            self._prepared = _Prepared(self._policies, self._built_in, always=self._always, waits=self._waits)
        return self._prepared


class _Prepared:
    """Indexes over the policies of one scheduler name."""

    def __init__(
        self, policies: Sequence[CompiledPolicy], built_in: CompiledPolicy, *, always: bool, waits: bool
    ) -> None:
        policies = [policy for policy in policies if policy.spec.by_name != "Required"]
        refused = [policy for policy in policies if policy.refusal]
        deciding = policies if waits else [policy for policy in policies if not policy.refusal]
        self.only_refused = bool(refused) and len(refused) == len(policies) and not always
        self.first_refused = refused[0] if refused else None
        self.rest = refused[0] if waits and self.only_refused else built_in
        """The policy for pods that no other takes."""
        self.takes_all = next((policy for policy in deciding if policy.matches_all), None)
        first = deciding[0] if deciding else self.rest
        self.only = first if first.matches_all or not deciding else None
        self.deciding = PolicyIndex(deciding)
        self.all = PolicyIndex(policies) if refused and not waits else None
