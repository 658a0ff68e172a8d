"""Converts older versions of KubeSchedulerConfiguration to v1.

A file gives the same profiles in every version that can express them: those of kube-scheduler 1.37. Source: the types
of k8s.io/kube-scheduler 0.17 (v1alpha1) and 0.25 (v1beta2, v1beta3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from podwright.core.framework.args import ArgsError
from podwright.core.framework.profile import ProfileError
from podwright.core.framework.validation import Problem

GROUP: Final = "kubescheduler.config.k8s.io"
KIND: Final = "KubeSchedulerConfiguration"

Warn = Callable[[str], None]


def to_v1(document: Mapping[str, Any], warn: Warn) -> dict[str, Any]:
    """The fields of the document as in v1, without apiVersion and kind.

    Calls `warn` for fields whose meaning changes. Raises ProfileError for another kind or version, and for fields that
    v1 cannot express.
    """
    kind, version = document.get("kind"), document.get("apiVersion")
    if kind != KIND:
        raise ProfileError("kind", f"{kind!r} should be {KIND!r}" if kind else f"a value is required: {KIND}")
    if not isinstance(version, str) or version not in _CONVERSIONS:
        known = ", ".join(_CONVERSIONS)
        raise ProfileError("apiVersion", f"{version!r} is not one of {known}")
    fields = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
    fields = _CONVERSIONS[version](fields, warn)
    return _with_v1_args(fields, version)


def _same(fields: dict[str, Any], _warn: Warn) -> dict[str, Any]:
    return fields


# v1beta2, v1beta3


def _from_v1beta3(fields: dict[str, Any], warn: Warn) -> dict[str, Any]:
    _refuse(("delayCacheUntilActive",), fields, "")
    for i, profile in enumerate(_objects(fields.get("profiles"))):
        where = f"profiles[{i}]"
        _refuse(("percentageOfNodesToScore",), profile, where)
        plugins = profile.get("plugins")
        if isinstance(plugins, dict):
            _refuse(("placementGenerate", "placementScore", "podGroupPostFilter"), plugins, f"{where}.plugins")
    return _with_leases(fields, warn)


def _from_v1beta2(fields: dict[str, Any], warn: Warn) -> dict[str, Any]:
    rest = dict(fields)
    problems = [
        (key, "only an empty address or port 0 is possible; --bind-address and --secure-port say where to serve")
        for key in ("healthzBindAddress", "metricsBindAddress")
        if not _is_off(rest.pop(key, None))
    ]
    if problems:
        raise ArgsError(problems)
    return _from_v1beta3(rest, warn)


def _is_off(address: object) -> bool:
    return address is None or address == "" or (isinstance(address, str) and address.rpartition(":")[2] == "0")


_OLD_LOCKS: Final = ("endpoints", "configmaps", "endpointsleases", "configmapsleases")


def _with_leases(fields: dict[str, Any], warn: Warn) -> dict[str, Any]:
    """Replaces the locks of older versions: leader election is by Lease."""
    election = fields.get("leaderElection")
    if isinstance(election, dict) and election.get("resourceLock") in _OLD_LOCKS:
        warn(f"leaderElection.resourceLock: a Lease is used instead of {election['resourceLock']!r}")
        return fields | {"leaderElection": election | {"resourceLock": "leases"}}
    return fields


# v1alpha1: a single profile, spread over the fields of the file


_OWN: Final = frozenset(
    (
        "schedulerName",
        "algorithmSource",
        "hardPodAffinitySymmetricWeight",
        "disablePreemption",
        "bindTimeoutSeconds",
        "healthzBindAddress",
        "metricsBindAddress",
        "plugins",
        "pluginConfig",
    )
)
_V1ALPHA1_POINTS: Final = {"postFilter": "preScore", "unreserve": "reserve"}
"""Extension points that have another name today."""
_SHARED: Final = frozenset(
    (
        "leaderElection",
        "clientConnection",
        "enableProfiling",
        "enableContentionProfiling",
        "percentageOfNodesToScore",
        "podInitialBackoffSeconds",
        "podMaxBackoffSeconds",
    )
)
_ADDRESSES: Final = ("healthzBindAddress", "metricsBindAddress")


def _from_v1alpha1(fields: dict[str, Any], warn: Warn) -> dict[str, Any]:
    unknown = [(key, "unknown field") for key in fields if key not in _OWN and key not in _SHARED]
    if unknown:
        raise ArgsError(unknown)
    for key in _ADDRESSES:
        if not _is_off(fields.get(key)):
            warn(f"{key}: has no effect; --bind-address and --secure-port say where to serve, by HTTPS only")
    converted = {key: value for key, value in fields.items() if key in _SHARED}
    converted = _with_leases(_with_lock_names(converted), warn)
    profile: dict[str, Any] = {"schedulerName": fields["schedulerName"]} if fields.get("schedulerName") else {}
    plugins = _plugins_of_v1alpha1(fields)
    if plugins != {}:
        profile["plugins"] = plugins
    config = _plugin_config_of_v1alpha1(fields)
    if config != []:
        profile["pluginConfig"] = config
    return converted | {"profiles": [profile]}


def _with_lock_names(fields: dict[str, Any]) -> dict[str, Any]:
    election = fields.get("leaderElection")
    if not isinstance(election, dict):
        return fields
    renamed = dict(election)
    for old, new in (("lockObjectName", "resourceName"), ("lockObjectNamespace", "resourceNamespace")):
        value = renamed.pop(old, None)
        if value and not renamed.get(new):
            renamed[new] = value
    return fields | {"leaderElection": renamed}


def _plugins_of_v1alpha1(fields: Mapping[str, Any]) -> Any:
    plugins = {} if fields.get("plugins") is None else fields["plugins"]
    if not isinstance(plugins, dict):
        return plugins
    found: dict[str, Any] = {}
    for key, plugin_set in plugins.items():
        if plugin_set is not None:
            name = _V1ALPHA1_POINTS.get(key, key)
            found[name] = _joined(found.get(name), plugin_set)
    for where, disabled, enabled in _provider_changes(fields):
        change = {"disabled": [{"name": disabled}], "enabled": [{"name": name} for name in enabled]}
        found[where] = _joined(found.get(where), change)
    return found


def _joined(first: Any, second: Any) -> Any:
    """Both plugin sets, each plugin once: `reserve` and `unreserve` are one extension point today."""
    if not isinstance(first, dict) or not isinstance(second, dict):
        return second
    joined: dict[str, Any] = {}
    for key in dict.fromkeys((*first, *second)):
        entries = [*(first.get(key) or ()), *(second.get(key) or ())]
        joined[key] = [entry for i, entry in enumerate(entries) if entry not in entries[:i]]
    return joined


def _provider_changes(fields: Mapping[str, Any]) -> list[tuple[str, str, list[str]]]:
    """(extension point, plugin disabled, plugins enabled) of `disablePreemption`. Checks `algorithmSource`."""
    source = fields.get("algorithmSource") or {}
    if not isinstance(source, dict):
        raise ProfileError("algorithmSource", "expected an object")
    if source.get("policy") is not None:
        problem = "scheduling policies were removed in Kubernetes 1.23; write `plugins` and `pluginConfig` instead"
        raise ProfileError("algorithmSource.policy", problem)
    provider = source.get("provider")
    if provider not in (None, "", "DefaultProvider", "ClusterAutoscalerProvider"):
        raise ProfileError("algorithmSource.provider", f"{provider!r} is not a provider; write `plugins` instead")
    if fields.get("disablePreemption") not in (None, True, False):
        raise ProfileError("disablePreemption", "expected true or false")
    return [("postFilter", "DefaultPreemption", [])] if fields.get("disablePreemption") else []


def _plugin_config_of_v1alpha1(fields: Mapping[str, Any]) -> Any:
    config = [] if fields.get("pluginConfig") is None else fields["pluginConfig"]
    if not isinstance(config, list):
        return config
    source = fields.get("algorithmSource")
    packs = isinstance(source, dict) and source.get("provider") == "ClusterAutoscalerProvider"
    for value, plugin, args in (
        (fields.get("hardPodAffinitySymmetricWeight"), "InterPodAffinity", "hardPodAffinityWeight"),
        (fields.get("bindTimeoutSeconds"), "VolumeBinding", "bindTimeoutSeconds"),
        ({"type": "MostAllocated"} if packs else None, "NodeResourcesFit", "scoringStrategy"),
    ):
        if value is not None and not any(_is_of(plugin, entry) for entry in config):
            config = [*config, {"name": plugin, "args": {args: value}}]
    return config


def _is_of(plugin: str, entry: object) -> bool:
    return isinstance(entry, dict) and entry.get("name") == plugin


# All


_CONVERSIONS: Final[Mapping[str, Callable[[dict[str, Any], Warn], dict[str, Any]]]] = {
    f"{GROUP}/v1": _same,
    f"{GROUP}/v1beta3": _from_v1beta3,
    f"{GROUP}/v1beta2": _from_v1beta2,
    f"{GROUP}/v1alpha1": _from_v1alpha1,
}


def _with_v1_args(fields: dict[str, Any], version: str) -> dict[str, Any]:
    """The fields with the apiVersion of args, which names the file's version, changed to v1."""
    latest = f"{GROUP}/v1"
    if version == latest:
        return fields
    profiles = []
    for profile in fields.get("profiles") or ():
        config = profile.get("pluginConfig") if isinstance(profile, dict) else None
        if isinstance(config, list):
            versioned = [_with_version(entry, version, latest) for entry in config]
            profile = profile | {"pluginConfig": versioned}  # noqa: PLW2901 -- a copy with one field changed
        profiles.append(profile)
    return fields | {"profiles": profiles} if profiles else fields


def _with_version(entry: Any, version: str, latest: str) -> Any:
    args = entry.get("args") if isinstance(entry, dict) else None
    if isinstance(args, dict) and args.get("apiVersion") == version:
        return entry | {"args": args | {"apiVersion": latest}}
    return entry


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _refuse(keys: tuple[str, ...], fields: Mapping[str, Any], where: str) -> None:
    problems: list[Problem] = [
        (f"{where}.{key}" if where else key, "unknown field: this apiVersion does not have it")
        for key in keys
        if key in fields
    ]
    if problems:
        raise ArgsError(problems)
