"""The plugins that are not Podwright's own, as a process finds them when it starts."""

import sys
import zipfile
from textwrap import dedent

from podwright.kube.plugins.third_party import ThirdPartyPlugins

PLUGIN = """
    from podwright.core.framework.interface import FilterPlugin, Plugin

    class Zipped(Plugin, FilterPlugin):
        name = "Zipped"

        def filter(self, state, pod, node):
            return None
"""


def test_a_plugin_whose_file_cannot_be_read_runs(tmp_path, monkeypatch):
    archive = tmp_path / "plugins.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped_plugin.py", dedent(PLUGIN))
        file.writestr(
            "zipped_plugin-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: zipped-plugin\nVersion: 1.0\n"
        )
        file.writestr(
            "zipped_plugin-1.0.dist-info/entry_points.txt", "[podwright.plugins]\nzipped = zipped_plugin:Zipped\n"
        )
    monkeypatch.syspath_prepend(archive)
    try:
        plugins = ThirdPartyPlugins([], str(tmp_path))
        assert "Zipped" in plugins.classes
        assert not plugins.disabled()
        plugins.stop()
    finally:
        sys.modules.pop("zipped_plugin", None)
