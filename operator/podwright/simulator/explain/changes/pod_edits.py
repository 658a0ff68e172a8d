"""Changes of a pod, by the plugin that rejects it: smaller requests, tolerations, other selectors. An editor yields changed manifests, the
smallest change first, each with a text. It may guess, because each change is tried before it is shown.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from podwright.core.objects.errors import InvalidObjectError
from podwright.core.objects.pod import parse_pod
from podwright.simulator.explain.causes import lifecycle
from podwright.simulator.explain.changes.affinity_edits import pod_affinity, select, spread
from podwright.simulator.explain.changes.place import Option, Place, Raw, spec_of
from podwright.simulator.explain.changes.request_edits import less
from podwright.simulator.explain.details import untolerated, written
from podwright.simulator.explain.verdicts import FIT

OPTIONS: Final = 6
"""How many changes are tried for one plugin and one node."""


def combined(place: Place, plugins: Sequence[str]) -> Iterator[Option]:
    """Changes of the pod for all plugins that reject the node."""
    options: list[Option] = [("", copy.deepcopy(place.raw))]
    for plugin in plugins:
        options = [
            (f"{text} and {more}" if text else more, changed)
            for text, made in options
            for more, changed in islice(_options(place, made, plugin), OPTIONS)
        ][:OPTIONS]
    return (option for option in options if option[0])


def _options(place: Place, raw: Raw, plugin: str) -> Iterator[Option]:
    """Changes after which the plugin may accept the node. Ends at a field of a wrong type."""
    editor = _EDITORS.get(plugin)
    if editor is None:
        return
    try:
        yield from editor(replace(place, raw=raw, pod=parse_pod(raw, keep_raw=True)))
    except (InvalidObjectError, AttributeError, KeyError, TypeError, IndexError):
        return


# Taints


def _tolerate(place: Place) -> Iterator[Option]:
    taints = untolerated(place.framework, place.pod, place.node.present.taints)
    if not taints or any(lifecycle(taint.key) for taint in taints):
        return
    made = spec_of(place.raw)
    added = [
        {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
        if taint.value
        else {"key": taint.key, "operator": "Exists", "effect": taint.effect}
        for taint in taints
    ]
    made["spec"]["tolerations"] = [*(made["spec"].get("tolerations") or ()), *added]
    yield f"tolerate {' and '.join(map(written, taints))}", made


# Ports


def _no_port(place: Place) -> Iterator[Option]:
    made, taken = spec_of(place.raw), []
    for field in ("containers", "initContainers"):
        for container in made["spec"].get(field) or ():
            for port in container.get("ports") or ():
                if port.get("hostPort") and _is_taken(port, place):
                    taken.append(f"{port['hostPort']}/{port.get('protocol') or 'TCP'}")
                    del port["hostPort"]
                    port.pop("hostIP", None)
    if taken:
        yield f"do without host port {', '.join(dict.fromkeys(taken))}", made


def _is_taken(port: Mapping[str, Any], place: Place) -> bool:
    return any(
        each.port == port["hostPort"]
        and each.protocol == (port.get("protocol") or "TCP")
        and place.node.ports.conflicts(each)
        for each in place.pod.ports
    )


_EDITORS: Final[Mapping[str, Callable[[Place], Iterator[Option]]]] = {
    FIT: less,
    "TaintToleration": _tolerate,
    "NodeAffinity": select,
    "NodePorts": _no_port,
    "PodTopologySpread": spread,
    "InterPodAffinity": pod_affinity,
}
