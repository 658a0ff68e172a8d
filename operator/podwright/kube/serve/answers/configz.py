"""/configz: the configuration that is in use, in the form in which kube-scheduler shows its own.

`componentconfig` is a KubeSchedulerConfiguration whose profiles are the built-in policies, with all defaults. `podwright` has what
kube-scheduler does not have: the options of the process, and the active policies. Files with credentials are named, but not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from podwright.api.compile import CompiledPolicy
from podwright.api.configuration.extenders import shown_url
from podwright.api.configuration.schema import SchedulerConfiguration
from podwright.core.framework.args import encode
from podwright.core.framework.profile import Profile
from podwright.core.plugins.rules.rule_set import RuleSet
from podwright.kube.options.options import OPTIONS, Options

_SECRET: Final = ("certData", "keyData")
"""Fields of extenders that are left out."""
_URL: Final = "urlPrefix"
"""The URL of an extender, which may have a password."""


def component_configuration(options: Options, built_in: Sequence[CompiledPolicy]) -> Mapping[str, Any]:
    """The configuration in use, as a KubeSchedulerConfiguration v1 with all defaults."""
    settings = SchedulerConfiguration() if options.config is None else options.config.settings
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **encode(settings),
        "leaderElection": encode(options.leader_election),
        "clientConnection": {**encode(settings.client_connection), "kubeconfig": options.kubeconfig_file or ""},
        "podInitialBackoffSeconds": int(options.waits.initial_backoff),
        "podMaxBackoffSeconds": int(options.waits.max_backoff),
        "profiles": [_profile(policy.profile) for policy in built_in],
    }


def configuration(
    options: Options, built_in: Sequence[CompiledPolicy], active: Sequence[CompiledPolicy]
) -> Mapping[str, Any]:
    """The answer of /configz, as JSON values. `active`: the active SchedulerPolicies."""
    return {
        "componentconfig": _without_secrets(component_configuration(options, built_in)),
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


def _profile(profile: Profile) -> dict[str, Any]:
    return {
        "schedulerName": profile.scheduler_name,
        "plugins": {
            point: {
                "enabled": [_enabled(each.name, each.weight) for each in plugins.enabled],
                "disabled": [{"name": name} for name in plugins.disabled],
            }
            for point, plugins in profile.plugins.items()
            if plugins.enabled or plugins.disabled
        },
        "pluginConfig": [{"name": name, "args": _args(args)} for name, args in profile.args.items()],
    }


def _args(args: Any) -> Any:
    """The args of a plugin. Compiled rules are shown as the policy has them."""
    if not isinstance(args, RuleSet):
        return encode(args)
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


def _enabled(name: str, weight: int) -> dict[str, Any]:
    return {"name": name, "weight": weight} if weight else {"name": name}
