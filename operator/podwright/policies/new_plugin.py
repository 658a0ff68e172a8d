"""The files of a new plugin: its code, a policy that enables it, and a test of both. `podwright plugin new` writes
them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from podwright.core.plugins import PLUGINS as IN_TREE

NAME: Final = re.compile(r"[A-Z][A-Za-z0-9]{1,62}")
PLUGINS: Final = "plugins"
"""The directory for --plugin-dir. It has nothing but plugins, because every file there is loaded."""
TESTS: Final = "test_policies.yaml"
_POLICY: Final = "policy.yaml"

_HEAD: Final = '''\
"""{name}: {what}.

Change {methods} to what you need.
"""

from dataclasses import dataclass
{numpy}
{imports}

@dataclass(frozen=True)
class {name}Args:
    """The arguments that a policy may set in `pluginConfig`. Every field has a default."""

    label: str = "team"


class {name}({bases}):
    name = "{name}"
    args_type = {name}Args
    scope = Scope.NODE  # the answer depends on the node and the pod alone; if not, see Scope
'''
_FILTER: Final = '''
    def filter(self, state, pod, node):
        """None if the pod may run on the node; otherwise why not."""
        team = node.present.labels.get(self.args.label)
        if team is None or team == pod.labels.get(self.args.label):
            return None
        return self._other_team()

    def verdict_key(self, pod):
        """All that `filter` reads of the pod: pods that are alike in it get the same answers. Leave it out if you are not sure."""
        return (pod.labels.get(self.args.label),)

    def _other_team(self):
        return unresolvable(f"node(s) had another {{self.args.label}}")
'''
_FILTER_ALL: Final = '''
    def filter_all(self, state, pod, table):
        """The same as `filter`, for all nodes at once."""
        teams = table.labels(self.args.label)  # int32[nodes]: ids of values, ABSENT without the label
        mine = table.label_values(self.args.label).get(pod.labels.get(self.args.label), ABSENT)
        return rejected_alike((teams == ABSENT) | (teams == mine), self._other_team())
'''
_SCORE: Final = '''
    def score(self, state, pod, node):
        """How well the node suits the pod: 0 to 100."""
        mine = pod.labels.get(self.args.label)
        return MAX_SCORE if mine is not None and node.present.labels.get(self.args.label) == mine else 0
'''
_SCORE_ALL: Final = '''
    def score_all(self, state, pod, feasible):
        """The same as `score`, for all feasible nodes at once: int64[feasible], or one number for all of them."""
        mine = feasible.table.label_values(self.args.label).get(pod.labels.get(self.args.label))
        if mine is None:
            return 0
        teams = feasible.take(feasible.table.labels(self.args.label))
        return np.where(teams == mine, MAX_SCORE, 0).astype(np.int64)
'''

_POLICY_TEXT: Final = """\
# The pods of schedulerName podwright in the namespace default, with {name} besides the default plugins.
apiVersion: podwright.dev/v1alpha1
kind: SchedulerPolicy
metadata:
  name: {dashed}
spec:
  match:
    namespaces: [default]
  # What becomes of these pods when the plugin is switched off, because it takes too long: Reject lets them wait, Ignore
  # schedules them without it.
  onPluginFailure: Reject
  strategy:
    type: Custom
  plugins:
    multiPoint:
      enabled:
        - name: {name}
  pluginConfig:
    - name: {name}
      args:
        label: team
"""

_TESTS_TEXT: Final = """\
# Run it with `podwright plugin test`.
policies: [policy.yaml]
nodes:
  - metadata: {{name: blue, labels: {{team: blue}}}}
  - metadata: {{name: open}}
tests:
"""
_FILTER_TESTS: Final = """\
  - name: {name} keeps pods off the nodes of other teams
    pods:
      - metadata: {{name: red, labels: {{team: red}}}}
      - metadata: {{name: nobody}}
    expect:
      red: {{node: open, policy: {dashed}, rejected: {{blue: node(s) had another team}}}}
      nobody: {{node: open, rejected: {{blue: node(s) had another team}}}}
  - name: a pod gets a node of its team, or one of nobody
    pods:
      - metadata: {{name: blue, labels: {{team: blue}}}}
    expect:
      blue: [blue, open]
"""
_SCORE_TESTS: Final = """\
  - name: {name} prefers the nodes of the pod's own team
    pods:
      - metadata: {{name: blue, labels: {{team: blue}}}}
    expect:
      blue: blue
"""


def files_of(name: str, *, filters: bool = True, scores: bool = False, vectors: bool = False) -> Mapping[Path, str]:
    """The files of a new plugin, relative to its directory. `vectors`: with the versions for all nodes at once. Raises
    ValueError.
    """
    if NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r:.80} is not a name such as TeamNodes: letters and digits, the first a capital")
    if name in IN_TREE:
        raise ValueError(f"{name!r} is a plugin of Podwright itself: choose another name")
    texts = {"name": name, "dashed": dashed(name)}
    tests = _TESTS_TEXT + (_FILTER_TESTS if filters else "") + (_SCORE_TESTS if scores else "")
    return {
        Path(PLUGINS, f"{dashed(name).replace('-', '_')}.py"): _code(name, filters, scores, vectors),
        Path(_POLICY): _POLICY_TEXT.format(**texts),
        Path(TESTS): tests.format(**texts),
    }


def _code(name: str, filters: bool, scores: bool, vectors: bool) -> str:
    helper = "from podwright.core.framework.helpers import rejected_alike"
    absent = "from podwright.core.state.columns.table import ABSENT"
    classes = [*(["FilterPlugin"] if filters else []), "Plugin", *(["ScorePlugin"] if scores else [])]
    constants = ["MAX_SCORE"] if scores else []
    imports = [
        *([helper] if filters and vectors else []),
        f"from podwright.core.framework.interface import {', '.join([*constants, *sorted([*classes, 'Scope'])])}",
        *(["from podwright.core.framework.status import unresolvable"] if filters else []),
        *([absent] if filters and vectors else []),
    ]
    what = ["keeps pods off the nodes of other teams"]
    what = [*(what if filters else []), *(["prefers the nodes of the pod's own team"] if scores else [])]
    names = [each for each, wanted in (("filter", filters), ("score", scores)) if wanted]
    names = [each for name in names for each in ([name, f"{name}_all"] if vectors else [name])]
    parts = [
        *((_FILTER, *((_FILTER_ALL,) if vectors else ())) if filters else ()),
        *((_SCORE, *((_SCORE_ALL,) if vectors else ())) if scores else ()),
    ]
    return (_HEAD + "".join(parts)).format(
        name=name,
        what=", and ".join(what),
        methods=", ".join(f"`{each}`" for each in names),
        numpy="\nimport numpy as np\n" if scores and vectors else "",
        imports="\n".join(imports) + "\n",
        bases=", ".join(["Plugin", *(each for each in classes if each != "Plugin")]),
    )


def dashed(name: str) -> str:
    """`team-nodes` for `TeamNodes`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()
