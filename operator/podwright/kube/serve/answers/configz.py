"""/configz: the configuration that is in use, in the form in which kube-scheduler shows its own.

`componentconfig` is a KubeSchedulerConfiguration whose profiles are the built-in policies, with all defaults.
`podwright` has what kube-scheduler does not have: the options of the process, and the active policies. Files with
credentials are named, but not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from podwright.api.compile import CompiledPolicy
from podwright.api.configuration.extenders import shown_url
from podwright.api.configuration.schema import SchedulerConfiguration
from podwright.api.kube_scheduler_configuration import POD_GROUP_POINTS, POINTS
from podwright.core.framework.args import API_VERSION, encode
from podwright.core.framework.profile import PluginSet, Profile
from podwright.core.plugins import PLUGINS
from podwright.core.plugins.rules.rule_set import RuleSet
from podwright.kube.options.options import OPTIONS, Options

_SECRET: Final = ("certData", "keyData")
"""Fields of extenders that are left out."""
_OMITTED: Final = ("delayCacheUntilActive", "extenders")
"""Fields of the configuration that Kubernetes omits if they are empty."""
_URL: Final = "urlPrefix"
"""The URL of an extender, which may have a password."""
_KEPT: Final = (_URL, "nodeSelectorTerms")
"""Fields that Kubernetes shows also if they are empty."""


def component_configuration(options: Options, profiles: Sequence[Profile]) -> Mapping[str, Any]:
    """The configuration in use, as a KubeSchedulerConfiguration v1 with all defaults, and without fields that
    Kubernetes omits if empty.
    """
    settings = SchedulerConfiguration() if options.config is None else options.config.settings
    backoffs = options if options.config is None else settings
    percentages = {each.scheduler_name: each.percentage_of_nodes_to_score for each in settings.profiles}
    found = {
        "apiVersion": API_VERSION,
        "kind": "KubeSchedulerConfiguration",
        **encode(settings),
        "leaderElection": encode(options.leader_election),
        "clientConnection": {**encode(settings.client_connection), "kubeconfig": options.kubeconfig_file or ""},
        "percentageOfNodesToScore": settings.percentage_of_nodes_to_score or 0,
        "podInitialBackoffSeconds": backoffs.pod_initial_backoff_seconds,
        "podMaxBackoffSeconds": backoffs.pod_max_backoff_seconds,
        "profiles": [_profile(each, percentages.get(each.scheduler_name)) for each in profiles],
        "extenders": [_without_empty(encode(each), ("", [], {}, 0)) for each in settings.extenders],
    }
    return {key: value for key, value in found.items() if key not in _OMITTED or value}


def configuration(
    options: Options, built_in: Sequence[CompiledPolicy], active: Sequence[CompiledPolicy]
) -> Mapping[str, Any]:
    """The answer of /configz, as JSON values. `active`: the active SchedulerPolicies."""
    return {
        "componentconfig": _without_secrets(component_configuration(options, [each.profile for each in built_in])),
        "podwright": {
            # The file of --config is above.
            "options": _without_secrets(
                {option.name: encode(getattr(options, option.name)) for option in OPTIONS if option.name != "config"}
            ),
            "policies": [
                {
                    "name": policy.name,
                    "generation": policy.generation,
                    "precedence": policy.spec.precedence,
                    "profile": _profile(policy.profile),
                }
                for policy in active
            ],
        },
    }


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: shown_url(item) if key == _URL else _without_secrets(item)
            for key, item in value.items()
            if key not in _SECRET
        }
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return value


def _profile(profile: Profile, percentage: int | None = None) -> dict[str, Any]:
    enabled = {each.name for plugins in profile.plugins.values() for each in plugins.enabled}
    types = {name: plugin.args_type for name, plugin in PLUGINS.items() if name in enabled}
    args = {**{name: args_type() for name, args_type in types.items() if args_type is not None}, **profile.args}
    return {
        "schedulerName": profile.scheduler_name,
        **({} if percentage is None else {"percentageOfNodesToScore": percentage}),
        "plugins": {
            point: _plugin_set(profile.plugins.get(point, PluginSet())) for point in (*POINTS, *POD_GROUP_POINTS)
        },
        "pluginConfig": [{"name": name, "args": _args(name, value)} for name, value in sorted(args.items())],
    }


def _plugin_set(plugins: PluginSet) -> dict[str, Any]:
    found = {
        "enabled": [encode(each) for each in plugins.enabled],
        "disabled": [{"name": name, "weight": 0} for name in plugins.disabled],
    }
    return {key: entries for key, entries in found.items() if entries}


def _args(name: str, args: Any) -> dict[str, Any]:
    """The args of a plugin. Compiled rules are shown as the policy has them."""
    if not isinstance(args, RuleSet):
        usual = {key: encode(type(args)())[key] for key in getattr(args, "OWN_KEYS", ())}
        shown = {key: value for key, value in encode(args).items() if value != usual.get(key)}
        return {"apiVersion": API_VERSION, "kind": f"{name}Args", **_without_empty(shown)}
    return {
        "filters": [
            {"name": rule.name, "expression": rule.expression.text, "message": rule.reason} for rule in args.filters
        ],
        "scores": [
            {
                "name": rule.name,
                "expression": rule.expression.text,
                "weight": rule.weight,
                "normalize": rule.normalize,
            }
            for rule in args.scores
        ],
    }


def _without_empty(value: Any, empty: Sequence[Any] = ("", [], {})) -> Any:
    """The value without the fields that are empty, at every level."""
    if isinstance(value, list):
        return [_without_empty(item, empty) for item in value]
    if isinstance(value, Mapping):
        return {key: _without_empty(item, empty) for key, item in value.items() if item not in empty or key in _KEPT}
    return value
