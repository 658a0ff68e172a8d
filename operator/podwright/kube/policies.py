"""SchedulerPolicies: taken in, put in force, and told about in their status, which we patch ourselves.

Events may come in any order and again; `apply` and `remove` are idempotent. Status is written by a task of its own, anew for
all policies whenever what is in force changed, since one policy can shadow another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from podwright.api.policy_set import ApplyResult
from podwright.api.policy_status import status_of
from podwright.core.framework.interface import ClusterError
from podwright.engine.engine import Engine
from podwright.kube.client import access
from podwright.kube.client.errors import is_not_found
from podwright.kube.client.http import Http
from podwright.kube.client.media_types import JSON_PATCH
from podwright.kube.client.pages import list_objects
from podwright.kube.client.retry import RetryPolicy
from podwright.kube.client.times import rfc3339
from podwright.kube.kinds import POLICY

log = logging.getLogger(__name__)

STATUS_RETRY: Final = RetryPolicy(shortest=1.0, longest=1.0)
RECONCILE_SECONDS: Final = 10.0
ASK_SECONDS: Final = 30.0
"""How often it is asked whether RBAC lets us read policies by now."""


class PolicyKeeper:
    """See the module. `names_served` is called with scheduler names that are newly served."""

    def __init__(
        self,
        http: Http,
        engine: Engine,
        clock: Callable[[], float],
        names_served: Callable[[frozenset[str]], None],
    ) -> None:
        self._http = http
        self._engine = engine
        self._clock = clock
        self._names_served = names_served
        self._statuses: dict[str, Mapping[str, Any]] = {}
        self._outcomes: dict[str, ApplyResult] = {}
        self._uids: dict[str, str] = {}
        self._gone_meanwhile: set[str] = set()
        """Uids of policies that went while a list was under way, which may be older than that."""
        self._changed = asyncio.Event()
        self.appeared = asyncio.Event()
        """Set when the kind is served, or may be read, that was not before: who watches should look again."""
        self._served: bool | None = None

    def take_event(self, event: Mapping[str, Any]) -> None:
        """A watch event as it came; its type is None for what a list brought."""
        if event["type"] == "DELETED":
            name, uid = str(event["object"]["metadata"]["name"]), _uid_of(event["object"])
            self._gone_meanwhile.add(uid)
            if self._uids.get(name, uid) == uid:  # else a list has brought the next one of its name already
                self.remove(name)
        else:
            self.apply(event["object"])

    def apply(self, raw: Mapping[str, Any]) -> None:
        """The policy is there, or changed. Never raises for what is in the object."""
        policies = self._engine.policies.policy_set
        version, names = policies.version, policies.scheduler_names
        outcome = self._engine.policies.apply(raw)
        status = raw.get("status")
        self._statuses[outcome.name] = status if isinstance(status, Mapping) else {}
        self._uids[outcome.name] = _uid_of(raw)
        known = self._outcomes.get(outcome.name)
        self._outcomes[outcome.name] = outcome
        if known != outcome:
            log.log(
                logging.INFO if outcome.accepted else logging.WARNING,
                "policy %s, generation %d: %s",
                outcome.name,
                outcome.generation,
                outcome.message,
            )
        self._follow(version, names)

    def remove(self, name: str) -> None:
        """The policy is gone."""
        policies = self._engine.policies.policy_set
        version, names = policies.version, policies.scheduler_names
        self._engine.policies.remove(name)
        self._statuses.pop(name, None)
        self._uids.pop(name, None)
        if self._outcomes.pop(name, None) is not None:
            log.info("policy %s is gone", name)
        self._follow(version, names)

    def _follow(self, version: int, names: frozenset[str]) -> None:
        self._changed.set()
        policies = self._engine.policies.policy_set
        if policies.version == version:
            return
        self._engine.activate_all()
        if added := policies.scheduler_names - names:
            self._names_served(added)

    async def load(self) -> None:
        """Takes in all policies as they are now, and forgets those that are no more. Raises ClusterError.

        What a watch brought meanwhile may be newer than the list, and stays.
        """
        before = dict.fromkeys(self._outcomes, "") | self._uids
        self._gone_meanwhile.clear()
        try:
            items = [raw async for raw in list_objects(self._http, POLICY.collection)]
        except ClusterError as error:
            if not is_not_found(error):
                raise
            items, self._served = [], False
        else:
            if self._served is False:
                self.appeared.set()
            self._served = True
        for raw in items:
            name, uid = raw["metadata"]["name"], _uid_of(raw)
            if uid in self._gone_meanwhile:
                continue
            known = self._outcomes.get(name)
            older = known is not None and known.generation > raw["metadata"].get("generation", 0)
            if not older or self._uids.get(name) != uid:
                self.apply(raw)
            before.pop(name, None)
        for name, uid in before.items():
            if self._uids.get(name, "") == uid:  # else another one has come since
                self.remove(name)

    async def allowed(self) -> bool:
        """Whether RBAC lets us read policies, be their kind there or not. Raises ClusterError."""
        return all([await access.is_allowed(self._http, POLICY, verb) for verb in access.READ])

    async def until_allowed(self) -> None:
        """Returns when RBAC lets us read policies; asks now and then."""
        while True:
            await asyncio.sleep(ASK_SECONDS)
            try:
                if await self.allowed():
                    return
            except ClusterError as error:
                log.info("cannot ask whether policies may be read: %s", error)

    async def reconcile(self) -> None:
        """Loads again now and then: Kopf neither tells what vanished while a watch was broken nor, at times, that the kind
        has come.
        """
        while True:
            await asyncio.sleep(RECONCILE_SECONDS)
            try:
                await self.load()
            except ClusterError as error:
                log.info("cannot list policies: %s", error)

    async def run(self) -> None:
        """Writes statuses, until it is cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not await self._write_all():
                await asyncio.sleep(STATUS_RETRY.pause(1))
                self._changed.set()

    async def _write_all(self) -> bool:
        """Whether every status is as it should be."""
        done = True
        for name, outcome in list(self._outcomes.items()):
            before = self._statuses.get(name)
            policies = self._engine.policies.policy_set
            status = status_of(policies, outcome, before, rfc3339(self._clock()))
            if status == before or name not in self._outcomes:
                continue
            try:
                await self._http.call(
                    "PATCH", POLICY.path(name, subresource="status"), self._change(name, status), JSON_PATCH
                )
            except ClusterError as error:
                if not is_not_found(error):
                    log.warning("cannot write the status of policy %s: %s", name, error)
                    done = done and error.status in (403, 422)
                continue
            if self._outcomes.get(name) is outcome:
                self._statuses[name] = status
        return done

    def _change(self, name: str, status: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The patch that puts the status in place of what is there, fields of an older lastAccepted included.

        It fails where another policy has taken the name: what one remembers is nothing for its namesake.
        """
        same = [{"op": "test", "path": "/metadata/uid", "value": uid}] if (uid := self._uids.get(name)) else []
        return [*same, {"op": "add", "path": "/status", "value": status}]


def _uid_of(raw: Mapping[str, Any]) -> str:
    return str((raw.get("metadata") or {}).get("uid") or "")
