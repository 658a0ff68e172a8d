"""The worlds of the policies in shadow mode: at most MOST, because each takes about as much memory as the cluster's
cache without its objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from podwright.core.framework.errors import PluginError
from podwright.core.framework.profile import ProfileError
from podwright.core.objects.pod import PodInfo
from podwright.core.objects.resources import CPU, MEMORY
from podwright.core.objects.watched_kinds import STORED_KINDS
from podwright.core.plugins.rules.params import CONFIG_MAP
from podwright.core.state.object_store import Object, key_of
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.shadow.tally import AgreementStats
from podwright.engine.shadow.used_nodes import ClusterUsage, UsedNodes, usage_of
from podwright.engine.shadow.world import ShadowCluster
from podwright.engine.state import EngineState

MOST: Final = 4
"""How many policies have a world: those that are first by name."""
_KINDS: Final = (*(kind.kind for kind in STORED_KINDS), CONFIG_MAP)
TOO_MANY: Final = f"only {MOST} policies have one"
SIGNALS: Final = "the policy reads signals, which measure the cluster as it is"


class Worlds:
    """See the module."""

    def __init__(self, state: EngineState, policies: ActivePolicies) -> None:
        self._cache = state.cache
        self._policies = policies
        self._used: UsedNodes | None = None
        """The usage of the cluster itself; None until the first world exists."""
        self._worlds: dict[AgreementStats, ShadowCluster] = {}
        self._missing: dict[AgreementStats, str] = {}
        """Why a policy has no world."""
        self._wanted: list[AgreementStats] = []
        """The policies whose worlds are still to be made."""

    def __len__(self) -> int:
        return len(self._worlds)

    def of(self, tally: AgreementStats) -> ShadowCluster | None:
        """The world of a policy, if it has one."""
        return self._worlds.get(tally)

    def keep(self, tallies: Iterable[AgreementStats]) -> None:
        """Call it when other policies are in shadow mode. Forgets the worlds of all others."""
        chosen = sorted(tallies, key=lambda tally: tally.name)
        self._missing = {}
        able = []
        for tally in chosen:
            if tally.policy.compiled.spec.signals:
                self._missing[tally] = SIGNALS
            else:
                able.append(tally)
        self._missing |= dict.fromkeys(able[MOST:], TOO_MANY)
        self._worlds = {tally: self._worlds[tally] for tally in able[:MOST] if tally in self._worlds}
        self._wanted = [tally for tally in able[:MOST] if tally not in self._worlds]
        self._listen()

    def _listen(self) -> None:
        if self._used is not None:
            self._used.listeners[:] = self._worlds.values()

    @property
    def has_work(self) -> bool:
        """True if a world is to be made, or has anything to do."""
        return bool(self._wanted) or any(world.has_work for world in self._worlds.values())

    def step(self) -> None:
        """One short step of the world whose turn it is."""
        if self._wanted:
            self._make(self._wanted[0])
            return
        for tally, world in self._worlds.items():
            if world.has_work:
                self._worlds[tally] = self._worlds.pop(tally)  # the others go first next time
                world.step()
                return

    def _make(self, tally: AgreementStats) -> None:
        """Makes the next world. The first one reads all pods, to follow changes."""
        if self._used is None:
            self._used = self._cache.observer(UsedNodes)
            for kind in _KINDS:
                self._cache.store.listen(kind, partial(self._object_changed, kind))
        self._wanted.remove(tally)
        try:
            self._worlds[tally] = ShadowCluster(
                self._cache, kinds=_KINDS, framework=lambda cache: self._policies.framework_on(tally.policy, cache)
            )
        except (PluginError, ProfileError) as error:
            self._missing[tally] = str(error)
        self._listen()

    # What changes

    def _object_changed(self, kind: str, before: Object | None, after: Object | None) -> None:
        raw = after if after is not None else before
        if raw is not None and self._worlds:
            key = key_of(raw)
            for world in self._worlds.values():
                world.object_changed(kind, *key)

    def pod_arrived(self, tally: AgreementStats, uid: str) -> None:
        """Notes that a scheduler has placed a pod that this policy selects."""
        if (world := self._worlds.get(tally)) is not None:
            world.pod_arrived(uid)

    def pod_fits(self, tally: AgreementStats, pod: PodInfo) -> None:
        """The other scheduler cannot place the pod, but this policy would."""
        if (world := self._worlds.get(tally)) is not None:
            world.pod_fits(pod)

    def pod_stopped_waiting(self, uid: str) -> None:
        """A pod without a node has got one, or is gone."""
        for world in self._worlds.values():
            world.pod_stopped_waiting(uid)

    # What they show

    def usage(self, tally: AgreementStats) -> tuple[ClusterUsage, ClusterUsage] | None:
        """Returns the usage of the cluster and of the policy's world; None if it has no world."""
        world = self._worlds.get(tally)
        if world is None or self._used is None:
            return None
        named = (each.name for each in tally.policy.compiled.spec.strategy.resources)
        resources = tuple(dict.fromkeys((CPU, MEMORY, *named)))
        return usage_of(self._cache, self._used, resources), usage_of(world.cache, world.used, resources)

    def why_missing(self, tally: AgreementStats) -> str:
        """Why the policy has no world; "" if it has one, or will have one soon."""
        return self._missing.get(tally, "")

    def ratios(self) -> Mapping[Any, float]:
        """The utilisation of the nodes in use, by policy, resource and `cluster` or `shadow`."""
        return {
            (tally.name, resource, where): share
            for tally in self._worlds
            for where, usage in zip(("cluster", "shadow"), self.usage(tally) or (), strict=False)
            for resource, share in usage.utilisation.items()
        }

    def nodes_in_use(self) -> Mapping[Any, float]:
        """How many nodes are in use, by policy and `cluster` or `shadow`."""
        return {
            (tally.name, where): usage.in_use
            for tally in self._worlds
            for where, usage in zip(("cluster", "shadow"), self.usage(tally) or (), strict=False)
        }
