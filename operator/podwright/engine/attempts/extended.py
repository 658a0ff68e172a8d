"""Attempts at pods that are sent to extenders. The loop does not wait for them: each such attempt is a task of its own.

    begin ─► filter of each extender in turn ─► prioritize of all at once ─► finish ─┬─► a decision: `outcomes`
      ▲                                                                              ├─► victims ─► preempt of each
      └──────────── at once, without backoff, at most ROUNDS times ◄─────────────────┴─► Changed: the room is taken

Other pods are scheduled meanwhile. `finish` is a plain call in the loop, on the current state (core/extended_cycle.py),
so no pod is assumed on a node that no longer fits. The limit of an extender bounds the attempts that wait for it. Other
pods that need it are held in the queue, and the first of them in the queue's order comes next. With a limit of 1 each
attempt sees what the one before it has assumed, as in kube-scheduler.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import field
from typing import Final

from podwright.core.cycle import Decision, Fault, Rejection
from podwright.core.extended_cycle import Changed, Question, begin, finish, preempting
from podwright.core.framework.extenders import EXTENDER, ExtenderAnswers
from podwright.core.framework.status import Code, Status
from podwright.core.objects.control_flow import passes_through
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.errors import described
from podwright.core.preemption.evaluator import Candidate, DryRun
from podwright.core.queue import QueuedPod
from podwright.engine.extenders import PolicyExtenders
from podwright.engine.outcomes.binding.limiter import BindLimiter
from podwright.engine.plugins.slow_plugins import SLOW_SECONDS
from podwright.engine.policies.active_policies import ActivePolicies
from podwright.engine.policies.active_policy import ActivePolicy
from podwright.engine.ports import Extender, ExtenderError, NodeVictims, Ports
from podwright.engine.process.interruption import cancel, is_interruption
from podwright.engine.records.log_fields import V5, fields
from podwright.engine.state import EngineState

log = logging.getLogger(__name__)

ROUNDS: Final = 10
"""How often a pod whose room is taken asks its extenders again, before the attempt counts as failed."""
TAKEN: Final = f"the nodes that the extenders kept were taken {ROUNDS} times while they were asked"

CarryOut = Callable[[QueuedPod, ActivePolicy, Decision, float], None]
"""`carry_out(queued, policy, decision, started)`: does what the decision says."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The state of a node on which its victims depend. `pods`: by uid, whether the pod is terminating, and its
    priority; `nominated`: the uids of nominated pods that have precedence there.
    """

    pods: Mapping[str, tuple[bool, int]]
    nominated: AbstractSet[str]

    def without(self, uids: AbstractSet[str]) -> _Seen:
        """Returns a copy without these pods."""
        return _Seen({uid: seen for uid, seen in self.pods.items() if uid not in uids}, self.nominated)


@dataclass(slots=True, eq=False, kw_only=True)
class _Attempt:
    """One attempt that waits for extenders. `started` in seconds of the engine's clock."""

    queued: QueuedPod
    policy: ActivePolicy
    extenders: Sequence[Extender]
    started: float
    answers: ExtenderAnswers | None = field(default=None)
    """The answers of `filter` and `prioritize` in this round; None before they are asked."""
    seen: Mapping[str, _Seen] = field(default_factory=dict)
    """The candidates for preemption as they were when their victims were chosen."""
    out: bool = False
    """True if its task has begun."""
    slow: bool = False
    """True if a call of the core took much CPU time."""

    @property
    def names(self) -> Sequence[str]:
        return [extender.defined.name for extender in self.extenders]


class ExtendedAttempts:
    """See the module."""

    def __init__(
        self,
        state: EngineState,
        ports: Ports,
        policies: ActivePolicies,
        limiter: BindLimiter,
        carry_out: CarryOut,
        at_once: int,
    ) -> None:
        """`at_once`: how many attempts may wait for an extender that has no limit of its own."""
        self._state = state
        self._cache = state.cache
        self._queue = state.queue
        self._policies = policies
        self._extenders = ports.extenders
        self._chosen = PolicyExtenders(ports)
        self._limiter = limiter
        self._carry_out = carry_out
        self._at_once = at_once
        self._out: Counter[str] = Counter()
        """How many attempts wait for each extender."""
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """The number of attempts that wait for extenders."""
        return len(self._tasks)

    def start(self, queued: QueuedPod, policy: ActivePolicy, started: float) -> bool:
        """Starts an attempt at a popped pod, or holds it in the queue. False if no extender decides about it."""
        extenders = self._chosen.deciding(policy, queued.pod)
        if not extenders:
            return False
        attempt = _Attempt(queued=queued, policy=policy, extenders=extenders, started=started)
        names = tuple(attempt.names)
        if self._full(names):
            self._queue.hold(queued, names)
            return True
        outcome = self._begin(attempt)
        if isinstance(outcome, Fault) or (
            isinstance(outcome, Rejection) and not self._asks_for_victims(attempt, outcome)
        ):
            self._end(attempt, outcome)
            return True
        self._out.update(names)
        attempt.out = True
        task = asyncio.create_task(self._run(attempt, outcome), name="podwright extended attempt")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    def release(self) -> bool:
        """Lets the queue return a pod of each lane that an attempt may start for. False if no lane has such a pod."""
        lanes = [lane for lane in self._queue.held_lanes if not self._full(lane)]  # type: ignore[arg-type]  # are names
        return any([self._queue.release(lane) for lane in lanes])  # noqa: C419 -- all of them

    def release_all(self) -> None:
        """Lets the queue return all held pods, because other policies may decide about them."""
        for lane in self._queue.held_lanes:
            while self._queue.release(lane):
                pass

    async def stop(self) -> None:
        """Cancels all attempts that wait for extenders. Nothing was assumed for them."""
        await cancel(self._tasks)

    def _full(self, names: Sequence[str]) -> bool:
        return any(self._out[name] >= (self._extenders[name].defined.attempts or self._at_once) for name in names)

    # One attempt

    async def _run(self, attempt: _Attempt, outcome: Question | Rejection) -> None:
        queued = attempt.queued
        try:
            await self._decide(attempt, outcome)
        except ExtenderError as error:
            if self._is_wanted(attempt):
                self._end(attempt, Fault(queued.pod, EXTENDER, str(error)))
        except BaseException as error:
            if passes_through(error) or is_interruption(error):
                raise
            log.exception("an attempt failed", extra=fields(pod=queued.pod))
            self._end(attempt, Fault(queued.pod, "", described(error)))
        finally:
            self._out.subtract(attempt.names)
            self._out += Counter()  # drops what is 0
            self.release()
            self._limiter.wake_next()  # the pod may not have used the capacity that it has waited for
            self._state.wake()

    async def _decide(self, attempt: _Attempt, outcome: Question | Decision | Changed) -> None:
        """Asks and decides until the answers lead to a decision. Raises ExtenderError."""
        for _ in range(ROUNDS):
            if isinstance(outcome, Changed):
                outcome = self._begin(attempt)
            if isinstance(outcome, Question):
                attempt.answers = await self._ask(attempt, outcome)
                if outcome.nominated and not attempt.answers.kept:
                    outcome = self._begin(attempt, take_nominated=False)
                    continue
                await self._capacity()
                if not self._is_wanted(attempt):
                    return
                outcome = self._finish(attempt, preempt=True)
            if isinstance(outcome, Rejection) and self._asks_for_victims(attempt, outcome):
                agreed = await self._with_victims(attempt, outcome)
                if agreed is None:
                    return
                outcome = agreed
            if not isinstance(outcome, Question | Changed):
                self._end(attempt, outcome)
                return
        if self._is_wanted(attempt):
            self._end(attempt, Fault(attempt.queued.pod, EXTENDER, TAKEN))

    def _begin(
        self, attempt: _Attempt, *, take_nominated: bool = True, preempt: bool = True
    ) -> Question | Rejection | Fault:
        policy, pod = attempt.policy, attempt.queued.pod
        attempt.answers = None
        observer = self._state.slow_plugins.observer_for(policy.compiled.name)
        framework = policy.framework
        with self._timed(attempt):
            found = begin(
                framework, self._cache, pod, take_nominated=take_nominated, preempt=preempt, observer=observer
            )
        self._note_candidates(attempt, found)
        return found

    def _finish(self, attempt: _Attempt, *, preempt: bool) -> Decision | Changed:
        """The decision with the answers of this round, on the current state."""
        policy, pod, below = attempt.policy, attempt.queued.pod, self._state.sources.below
        if attempt.answers is None:
            again = self._begin(attempt, preempt=preempt)
            return Changed() if isinstance(again, Question) else again
        observer = self._state.slow_plugins.observer_for(policy.compiled.name)
        answers = attempt.answers
        with self._timed(attempt):
            found = finish(policy.framework, self._cache, pod, below, answers, preempt=preempt, observer=observer)
        self._note_candidates(attempt, found)
        return found

    @contextmanager
    def _timed(self, attempt: _Attempt) -> Iterator[None]:
        """Times a call of the core, which is not interrupted. After a slow call, the attempt counts as slow."""
        sources = self._state.sources
        started, cpu_started = sources.clock(), sources.cpu()
        yield
        seconds = sources.clock() - started
        if seconds >= SLOW_SECONDS and sources.cpu() - cpu_started >= SLOW_SECONDS:
            attempt.slow = True
        if attempt.out and attempt.queued.costly:  # otherwise the loop counts the time
            self._queue.charge_lane(seconds)

    async def _capacity(self) -> None:
        await self._state.quiet.over()
        if self._limiter.full:
            await self._limiter.wait_for_capacity()

    def _is_wanted(self, attempt: _Attempt) -> bool:
        """True if the pod still waits for this attempt. If another policy decides about it now, it goes back to the
        queue.
        """
        queued = attempt.queued
        if self._queue.get(queued.uid) is not queued:
            return False
        if self._cache.placement(queued.uid) is not None:
            self._queue.done(queued.uid)
            return False
        if queued.pod.terminating or self._policies.of(queued.pod) is not attempt.policy:
            lane = tuple(attempt.names)
            self._queue.hold(queued, lane)
            self._queue.release(lane)
            return False
        return True

    def _end(self, attempt: _Attempt, decision: Decision) -> None:
        attempt.queued.slow = attempt.slow
        self._carry_out(attempt.queued, attempt.policy, decision, attempt.started)

    # Asking

    async def _ask(self, attempt: _Attempt, question: Question) -> ExtenderAnswers:
        """Asks the extenders to filter and prioritize. Raises ExtenderError. Source: `findNodesThatPassExtenders` and
        `prioritizeNodes`.
        """
        pod, raw = attempt.queued.pod, self._state.raw_objects
        kept: Sequence[str] = question.nodes
        failed: dict[str, Status] = {}
        for extender in attempt.extenders:
            if not kept or not extender.defined.settings.filter_verb:
                continue
            try:
                answer = await extender.filter(pod, kept, raw)
            except ExtenderError as error:
                if question.nominated and not extender.defined.settings.ignorable:
                    kept = ()  # as in kube-scheduler, all nodes are examined then
                    break
                self._ignore_or_raise(extender, error)
                continue
            failed |= {name: _status(Code.UNSCHEDULABLE, text) for name, text in answer.failed.items()}
            for name, text in answer.unresolvable.items():
                failed[name] = _status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, text)
            kept = answer.kept
        scores: Mapping[str, int] = {}
        if len(kept) > 1:
            prioritizers = [each for each in attempt.extenders if each.defined.settings.prioritize_verb]
            answers = await asyncio.gather(*(self._scores(each, attempt, kept) for each in prioritizers))
            scores = _sum(answers)
        return ExtenderAnswers(asked=frozenset(question.nodes), kept=frozenset(kept), failed=failed, scores=scores)

    async def _scores(self, extender: Extender, attempt: _Attempt, nodes: Sequence[str]) -> Mapping[str, int]:
        """The extender's scores; none if the call fails."""
        try:
            return await extender.prioritize(attempt.queued.pod, nodes, self._state.raw_objects)
        except ExtenderError as error:
            log.log(V5, "an extender gives no scores", extra=fields(extender=extender.defined.name, error=error))
            return {}

    @staticmethod
    def _ignore_or_raise(extender: Extender, error: ExtenderError) -> None:
        if not extender.defined.settings.ignorable:
            raise error
        skipped = fields(extender=extender.defined.name, error=error)
        log.info("an extender failed, and is skipped, because it is ignorable", extra=skipped)

    # Preemption

    @staticmethod
    def _asks_for_victims(attempt: _Attempt, rejection: Rejection) -> bool:
        return (
            bool(rejection.victims)
            and _dry_run(rejection) is not None
            and any(extender.defined.settings.preempt_verb for extender in attempt.extenders)
        )

    async def _with_victims(self, attempt: _Attempt, rejection: Rejection) -> Decision | Changed | None:
        """The rejection with the victims to which the extenders agree, or the decision that the current state leads to
        instead. None: the pod is gone.
        """
        run = _dry_run(rejection)
        assert run is not None
        victims = {
            name: NodeVictims([victim.uid for victim in candidate.victims], candidate.violations)
            for name, candidate in run.candidates.items()
        }
        failure = ""
        try:
            victims = await self._agreed(attempt, victims)
        except ExtenderError as error:
            failure = str(error)
        if not self._is_wanted(attempt):
            return None
        outcome = self._finish(attempt, preempt=False)
        if not isinstance(outcome, Rejection):
            return outcome
        if failure:
            return preempting(outcome, (), Status(Code.ERROR, (failure,)), self._state.sources.wall())
        found = [self._candidate(attempt, name, each) for name, each in victims.items()]
        candidates = [candidate for candidate in found if candidate is not None]
        if victims and not candidates:
            return Changed()
        return preempting(outcome, candidates, None, self._state.sources.wall())

    async def _agreed(self, attempt: _Attempt, victims: Mapping[str, NodeVictims]) -> dict[str, NodeVictims]:
        """The victims that all extenders agree to. Raises ExtenderError. Source: `callExtenders` in kube-scheduler's
        preemption.go.
        """
        agreed = dict(victims)
        for extender in attempt.extenders:
            if not agreed or not extender.defined.settings.preempt_verb:
                continue
            try:
                answer = dict(await extender.preempt(attempt.queued.pod, agreed, self._state.raw_objects))
                self._check_placed(extender, answer, agreed)
            except ExtenderError as error:
                self._ignore_or_raise(extender, error)
                continue
            without = [name for name, each in answer.items() if not each.uids]
            if without and not extender.defined.settings.ignorable:
                raise ExtenderError(f'expected at least one victim pod on node "{without[0]}"')
            for name in without:
                del answer[name]
            agreed = answer
        return agreed

    def _check_placed(
        self, extender: Extender, victims: Mapping[str, NodeVictims], asked: Mapping[str, NodeVictims]
    ) -> None:
        """Raises ExtenderError unless each victim is on its node, or was when the extender was `asked`."""
        for name, each in victims.items():
            info = self._cache.present(name)
            were = asked[name].uids if name in asked else ()
            if info is None and not were:
                raise ExtenderError(f'nodeinfo not found for node name "{name}"')
            for uid in each.uids:
                if uid not in were and (info is None or uid not in info.pods):
                    raise ExtenderError(
                        f"extender: {extender.defined.shown_url} claims to preempt pod (UID: &{{{uid}}}) on node: "
                        f"{name}, "
                        "but the pod is not found on that node"
                    )

    def _candidate(self, attempt: _Attempt, name: str, victims: NodeVictims) -> Candidate | None:
        """Returns the victims that still have a node. None if all are gone, or if the node has changed: it may need
        other victims now.

        Above all, another preemptor may have taken the same victims.
        """
        placed = [(uid, node) for uid in victims.uids if (node := self._cache.placement(uid)) is not None]
        pods = tuple(node.pods[uid] for uid, node in placed)
        if not pods or self._cache.present(name) is None:
            return None
        before = attempt.seen.get(name)
        if before is not None:
            gone = set(victims.uids).difference(pod.uid for pod in pods)
            if before.without(gone) != self._see(attempt, name, before.pods):
                return None
        return Candidate(name, pods, victims.violations)

    def _note_candidates(self, attempt: _Attempt, outcome: Question | Decision | Changed) -> None:
        if isinstance(outcome, Rejection) and self._asks_for_victims(attempt, outcome):
            run = _dry_run(outcome)
            assert run is not None
            attempt.seen = {
                name: self._see(attempt, name, [victim.uid for victim in candidate.victims])
                for name, candidate in run.candidates.items()
            }

    def _see(self, attempt: _Attempt, name: str, uids: Iterable[str]) -> _Seen:
        """The node, its pods, and these pods of any node."""
        info, cache = self._cache.present(name), self._cache
        pods = {} if info is None else {uid: (pod.terminating, pod.priority) for uid, pod in info.pods.items()}
        for uid in uids:
            if uid not in pods and (node := cache.placement(uid)) is not None:
                pods[uid] = node.pods[uid].terminating, node.pods[uid].priority
        nominated = attempt.policy.framework.nominated_before(attempt.queued.pod, name)
        return _Seen(pods, frozenset(pod.uid for pod in nominated))


def _dry_run(rejection: Rejection) -> DryRun | None:
    """How DefaultPreemption found the victims; None if another plugin did, which only says what it wants."""
    details = None if rejection.post_filter is None else rejection.post_filter.details
    return details if isinstance(details, DryRun) else None


def _status(code: Code, text: str) -> Status:
    return Status(code, (text,), EXTENDER)


def _sum(answers: Sequence[Mapping[str, int]]) -> Mapping[str, int]:
    """The sum of the scores of each node."""
    if len(answers) == 1:
        return answers[0]
    total: Counter[str] = Counter()
    for scores in answers:
        total.update(scores)
    return total
