"""`--write-config-to`: the configuration that is in use, in a file that `--config` takes."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import yaml

from podwright.api.configuration.documents import Dumper
from podwright.core.framework.errors import PluginError
from podwright.core.framework.profile import MULTI_POINT, PluginSet, Profile, ProfileError
from podwright.core.framework.registry import RegistryError
from podwright.core.plugins.gang_scheduling import GangScheduling
from podwright.extender.clients import clients_of
from podwright.kube.options.options import Options
from podwright.kube.parts import check_profiles, enabled_features, log_configuration
from podwright.kube.plugins.guarded import load_in_time
from podwright.kube.serve.answers.configz import component_configuration

log = logging.getLogger(__name__)


def write_configuration(options: Options, path: Path) -> None:
    """Writes the file, without asking the API server, and logs what in the options and in `--config` has no effect.

    Raises OSError, RegistryError for plugins or profiles that cannot be used, and ConfigError for extenders that cannot
    be.
    """
    for warning in options.warnings:
        log.warning("%s", warning)
    classes = load_in_time(tuple(map(Path, options.plugin_dirs)))
    check_profiles(options, classes)
    log_configuration(options.config, classes)
    clients_of(options)
    try:
        built_in = options.policies.built_in(classes, enabled_features(options, None))
    except (PluginError, ProfileError) as error:
        raise RegistryError([f"the built-in policy cannot be built: {error}"]) from error
    served = options.feature_gates.get("GenericWorkload", False)
    profiles = [policy.profile if served else _without_gangs(policy.profile) for policy in built_in]
    path.write_text(yaml.dump(component_configuration(options, profiles), Dumper=Dumper), encoding="utf-8")


def _without_gangs(profile: Profile) -> Profile:
    """The profile without the default plugin that kube-scheduler has only with a feature gate. Podwright adds it again
    to what it reads.
    """
    own = profile.plugins[MULTI_POINT]
    if {"*", GangScheduling.name} & {*own.disabled}:
        return profile
    enabled = tuple(each for each in own.enabled if each.name != GangScheduling.name)
    return replace(profile, plugins={**profile.plugins, MULTI_POINT: PluginSet(enabled, own.disabled)})
