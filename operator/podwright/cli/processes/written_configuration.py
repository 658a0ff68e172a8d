"""`--write-config-to`: the configuration that is in use, in a file that `--config` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from podwright.core.framework.errors import PluginError
from podwright.core.framework.profile import ProfileError
from podwright.core.framework.registry import RegistryError
from podwright.kube.options.options import Options
from podwright.kube.parts import check_profiles, enabled_features
from podwright.kube.plugins.guarded import load_in_time
from podwright.kube.serve.answers.configz import component_configuration

_Dumper: Final = yaml.CSafeDumper if yaml.__with_libyaml__ else yaml.SafeDumper


def write_configuration(options: Options, path: Path) -> None:
    """Writes the file, without asking the API server. Raises OSError, and RegistryError for plugins or profiles that cannot be used."""
    classes = load_in_time(tuple(map(Path, options.plugin_dirs)))
    check_profiles(options, classes)
    try:
        built_in = options.policies.built_in(classes, enabled_features(options, None))
    except (PluginError, ProfileError) as error:
        raise RegistryError([f"the built-in policy cannot be built: {error}"]) from error
    path.write_text(
        yaml.dump(component_configuration(options, built_in), Dumper=_Dumper, sort_keys=False), encoding="utf-8"
    )
