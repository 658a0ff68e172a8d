"""The policies of one scheduler name: in their order, and prepared for finding the one that decides about a pod.

They are prepared when they are needed, so that a thousand policies that are applied one after the other cost no more than a thousand times one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from podwright.api.compile import CompiledPolicy
from podwright.api.policy_index import PolicyIndex


def order(policy: CompiledPolicy) -> tuple[int, str]:
    """Which policy goes first: the greatest precedence, then the first name."""
    return -policy.spec.precedence, policy.name


class ServedName:
    """See the module. The policies are active or refused; the built-in policy is not among them."""

    def __init__(self, built_in: CompiledPolicy, *, always: bool, waits: bool) -> None:
        """`built_in`: the policy for pods that no other takes. `always`: the name is served without any policy.

        `waits`: the pods of refused policies wait for them; otherwise refused policies are passed over.
        """
        self._built_in = built_in
        self._always = always
        self._waits = waits
        self._policies: list[CompiledPolicy] = []
        self._prepared: _Prepared | None = None

    @property
    def served(self) -> bool:
        """Whether pods may ask for the name."""
        return self._always or bool(self._policies)

    def add(self, policy: CompiledPolicy) -> None:
        self._policies.insert(bisect_left(self._policies, order(policy), key=order), policy)
        self._prepared = None

    def remove(self, policy: CompiledPolicy) -> None:
        del self._policies[bisect_left(self._policies, order(policy), key=order)]
        self._prepared = None

    @property
    def takes_all(self) -> CompiledPolicy | None:
        """The first policy that takes every pod, whether it decides or makes them wait; None if there is none."""
        return self._prepare().takes_all

    @property
    def only(self) -> CompiledPolicy | None:
        """The policy that takes all pods of the name, whatever their labels; None if that depends on the labels."""
        return self._prepare().only

    def first(self, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> CompiledPolicy:
        """The policy for a pod with these labels: one that decides, or a refused one if its pods wait for it."""
        prepared = self._prepare()
        return prepared.deciding.first(labels, namespace_labels) or prepared.rest

    def passed_over(self, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> CompiledPolicy | None:
        """The refused policy that would take such a pod if its pods waited; None if there is none."""
        prepared = self._prepare()
        if self._waits or prepared.all is None:
            return None
        found = prepared.all.first(labels, namespace_labels)
        if found is None and prepared.only_refused:
            found = self._policies[0]
        return found if found is not None and found.refusal else None

    def _prepare(self) -> _Prepared:
        if self._prepared is None:
            self._prepared = _Prepared(self._policies, self._built_in, always=self._always, waits=self._waits)
        return self._prepared


class _Prepared:
    """What follows from the policies of a name."""

    def __init__(
        self, policies: Sequence[CompiledPolicy], built_in: CompiledPolicy, *, always: bool, waits: bool
    ) -> None:
        refused = [policy for policy in policies if policy.refusal]
        deciding = policies if waits else [policy for policy in policies if not policy.refusal]
        self.only_refused = bool(refused) and len(refused) == len(policies) and not always
        self.rest = refused[0] if waits and self.only_refused else built_in
        """The policy for pods that no other takes."""
        self.takes_all = next((policy for policy in deciding if policy.matches_all), None)
        first = deciding[0] if deciding else self.rest
        self.only = first if first.matches_all or not deciding else None
        self.deciding = PolicyIndex(deciding)
        self.all = PolicyIndex(policies) if refused and not waits else None
