"""`--write-config-to`: the configuration that is in use, in a file that `--config` takes."""

from __future__ import annotations

from pathlib import Path

import yaml

from podwright.core.framework.errors import PluginError
from podwright.core.framework.profile import ProfileError
from podwright.core.framework.registry import RegistryError
from podwright.engine.plugin_loading import load_plugins
from podwright.kube.options import Options
from podwright.kube.parts import enabled_features
from podwright.kube.serve.configz import component_configuration


def write_configuration(options: Options, path: Path) -> None:
    """Writes the file, without asking the API server. Raises OSError, and RegistryError for plugins or profiles that cannot be used."""
    classes = load_plugins(tuple(map(Path, options.plugin_dirs)))
    try:
        built_in = options.policies.built_in(classes, enabled_features(options, None))
    except (PluginError, ProfileError) as error:
        raise RegistryError([f"the configuration cannot be used: {error}"]) from error
    path.write_text(yaml.safe_dump(component_configuration(options, built_in), sort_keys=False), encoding="utf-8")
