"""The kubelet features that a pod requires. Source: KEP-5328 (node declared features)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from podwright.core.objects.raw import as_list, as_mapping, entries

NO_FEATURES: Final[frozenset[str]] = frozenset()
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")


def required_features(spec: Mapping[str, Any]) -> frozenset[str]:
    """The features that the node of a pod with this spec must declare. Raises InvalidObjectError naming the field."""
    return frozenset(_required(spec)) or NO_FEATURES


def _required(spec: Mapping[str, Any]) -> Iterator[str]:
    if spec.get("hostNetwork") and spec.get("hostUsers") is False:
        yield "UserNamespacesHostNetworkSupport"
    for kind in _CONTAINERS:
        for where, container in entries(spec.get(kind), f"spec.{kind}"):
            mounts = as_list(container.get("volumeMounts"), f"{where}.volumeMounts")
            if any(as_mapping(mount, f"{where}.volumeMounts").get("bindMountOptions") for mount in mounts):
                yield "VolumeBindMountOptions"
            if kind == "ephemeralContainers":
                continue
            rules = as_list(container.get("restartPolicyRules"), f"{where}.restartPolicyRules")
            if any(as_mapping(r, f"{where}.restartPolicyRules").get("action") == "RestartAllContainers" for r in rules):
                yield "RestartAllContainersOnContainerExits"
