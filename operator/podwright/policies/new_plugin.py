"""The files of a new plugin: its code, a policy that enables it, and a test of both. `podwright plugin new` writes them."""

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

_CODE: Final = '''\
"""{name} keeps pods off the nodes of other teams: a node with the label `team` takes only pods with the same label.

Change `filter` to what you need. To score nodes as well, inherit ScorePlugin and add `score`: 0 to 100 for a node.
"""

from dataclasses import dataclass

from podwright.core.framework.interface import FilterPlugin, Plugin, Scope
from podwright.core.framework.status import unresolvable


@dataclass(frozen=True)
class {name}Args:
    """What the policy may set in `pluginConfig`. Every field has a default."""

    label: str = "team"


class {name}(Plugin, FilterPlugin):
    name = "{name}"
    args_type = {name}Args
    scope = Scope.NODE  # the answer depends on the node and the pod alone; if not, see Scope

    def filter(self, state, pod, node):
        """None if the pod may run on the node; otherwise why not."""
        team = node.present.labels.get(self.args.label)
        if team is None or team == pod.labels.get(self.args.label):
            return None
        return unresolvable(f"node(s) had another {{self.args.label}}")

    def verdict_key(self, pod):
        """All that `filter` reads of the pod: pods that are alike in it get the same answers. Leave it out if you are not sure."""
        return (pod.labels.get(self.args.label),)
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


def files_of(name: str) -> Mapping[Path, str]:
    """The files of a new plugin, relative to its directory. Raises ValueError."""
    if NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r:.80} is not a name such as TeamNodes: letters and digits, the first a capital")
    if name in IN_TREE:
        raise ValueError(f"{name!r} is a plugin of Podwright itself: choose another name")
    texts = {"name": name, "dashed": dashed(name)}
    return {
        Path(PLUGINS, f"{dashed(name).replace('-', '_')}.py"): _CODE.format(**texts),
        Path(_POLICY): _POLICY_TEXT.format(**texts),
        Path(TESTS): _TESTS_TEXT.format(**texts),
    }


def dashed(name: str) -> str:
    """`team-nodes` for `TeamNodes`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()
