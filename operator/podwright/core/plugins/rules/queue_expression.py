"""QueueExpression: an expression of a policy that names the queue of a pod.

A pod keeps its queue while it runs, also after a restart, so the expression reads only what is known of placed pods,
too.
"""

from __future__ import annotations

from typing import Final

from podwright.core.cel import types
from podwright.core.cel.cost.bound import greatest_cost
from podwright.core.cel.errors import CelError, EvaluationError, Issue
from podwright.core.cel_columns.compiler import free_variables
from podwright.core.cel_columns.limits import COST_LIMIT
from podwright.core.objects.pod import PodInfo
from podwright.core.plugins.rules.environment import environment, variables_with
from podwright.core.plugins.rules.expression import check_cost, evaluator_of
from podwright.core.plugins.rules.owner import RuleOwner
from podwright.core.plugins.rules.params import Params
from podwright.core.plugins.rules.subject import NAMESPACE, Input, RuleSubject, inputs_of
from podwright.core.state.cache import Cache

_VARIABLES: Final = frozenset(("pod", NAMESPACE, "params", "policy"))
_POD_FIELDS: Final = frozenset(("name", "namespace", "labels", "priority", "schedulerName", "requests", "owner"))
"""The fields of `pod` that are known of placed pods as well."""


class QueueExpression:
    """See the module."""

    def __init__(self, text: str, owner: RuleOwner) -> None:
        """Raises CelError if the text is no expression of type string, or reads what it may not read."""
        self._program = environment().compile(text)
        self._owner = owner
        self._params: tuple[Cache, Params] | None = None
        tree = self._program.tree
        if self._program.result_type.name != types.STRING.name:
            raise CelError(Issue(0, 0, f"the name of a queue must be a string, not {self._program.result_type}"))
        free = free_variables(tree)
        if unknown := sorted(free[id(tree)] - _VARIABLES):
            raise CelError(Issue(0, 0, f"the name of a queue cannot depend on {unknown[0]!r}"))
        inputs = inputs_of(tree, free, evaluator_of)
        for part in inputs:
            if isinstance(part, Input) and part.root == "pod" and part.field not in _POD_FIELDS:
                read = f"pod.{part.field}" if part.field else "pod as a whole"
                raise CelError(Issue(0, 0, f"the name of a queue cannot depend on {read!r}"))
        check_cost(greatest_cost(tree, variables_with(())))
        self._variables = tuple(dict.fromkeys(part.root for part in inputs))

    def choose(self, pod: PodInfo, cache: Cache) -> str:
        """The name of the pod's queue, "" for none. If the expression fails, a text in parentheses that no queue has as
        its name, so that the pod waits.
        """
        if self._params is None or self._params[0] is not cache:
            self._params = cache, Params(self._owner, cache.store)
        subject = RuleSubject(pod, self._owner, self._params[1].current(), cache)
        try:
            return str(self._program.evaluate(subject.variables(self._variables), COST_LIMIT))
        except EvaluationError as error:
            return f"({error})"
