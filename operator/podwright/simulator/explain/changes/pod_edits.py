"""Changes of a pod for all plugins that reject a node. Each plugin says which changes of the pod could satisfy it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

from podwright.core.framework.contract import said
from podwright.core.framework.explaining import PodChange, editable
from podwright.core.framework.framework import Framework
from podwright.core.framework.interface import Plugin
from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.state.nodeinfo import NodeInfo

OPTIONS: Final = 6
"""How many changes are tried for one plugin and one node."""


def combined(framework: Framework, pod: PodInfo, node: NodeInfo, plugins: Sequence[str]) -> Iterator[PodChange]:
    """Changes of the pod after which all these plugins may accept the node."""
    changes = [PodChange("", editable(pod))]
    for name in plugins:
        changes = [
            PodChange(f"{made.text} and {more.text}" if made.text else more.text, more.raw)
            for made in changes
            for more in _changes(framework.plugins.get(name), made, node)
        ][:OPTIONS]
    return (change for change in changes if change.text)


def _changes(plugin: Any, made: PodChange, node: NodeInfo) -> Sequence[PodChange]:
    """Changes after which the plugin may accept the node; none if a field of the pod has a wrong type."""
    if not isinstance(plugin, Plugin):
        return ()
    try:
        pod = parse_pod(made.raw, keep_raw=True)
        return said(
            plugin,
            "changes_of_pod",
            lambda: [PodChange(*each) for each in islice(plugin.changes_of_pod(pod, node), OPTIONS)],
            [],
        )
    except (InvalidObjectError, AttributeError, KeyError, TypeError, IndexError):
        return ()
