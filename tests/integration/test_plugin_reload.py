"""Plugins that change, break and hang while the operator runs on the real control plane."""

import logging
import time
from textwrap import dedent

import pytest

from podwright.testing import node, pod, wait_until
from support.control_plane import operator_process as kit

PLUGIN = """
    import time

    from podwright.core.framework.interface import FilterPlugin, Plugin
    from podwright.core.framework.status import unresolvable


    class Only(Plugin, FilterPlugin):
        name = "Only"

        def filter(self, state, pod, node):
            {body}
            return None if node.name == "{node}" else unresolvable("node(s) were not {node}")
"""
POLICY = """\
apiVersion: podwright.dev/v1alpha1
kind: SchedulerPolicy
metadata: {name: only}
spec:
  onPluginFailure: Ignore
  strategy: {type: Custom}
  plugins:
    filter:
      enabled: [{name: Only}]
"""
HANGS = "time.sleep(3600 if pod.name == 'hangs' else 0)"


class Mounted:
    """A directory as the kubelet mounts a ConfigMap: the files are links into a directory that is swapped."""

    def __init__(self, folder):
        self.folder = folder
        self.path = folder / "only.py"
        self._versions = 0
        folder.mkdir()

    def write(self, name, body="pass"):
        self._versions += 1
        data = self.folder / f"..version-{self._versions}"
        data.mkdir()
        (data / "only.py").write_text(dedent(PLUGIN).format(node=name, body=body))
        link = self.folder / "..data_tmp"
        link.symlink_to(data.name)
        link.rename(self.folder / "..data")
        if not self.path.is_symlink():
            self.path.symlink_to("..data/only.py")


@pytest.fixture
def cluster(empty_cluster):
    kit.stay_installed(empty_cluster)
    empty_cluster.bulk.create([node(name, cpu="4", memory="8Gi") for name in ("node-a", "node-b")])
    return empty_cluster


def condition(cluster, kind):
    return kit.condition(cluster.client.get("/apis/podwright.dev/v1alpha1/schedulerpolicies/only"), kind)


def events(cluster, reason):
    found = kit.events(cluster, "default", reason)
    return [event["note"] for event in found if event["regarding"]["kind"] == "SchedulerPolicy"]


def placed(cluster, namespace, name):
    """The node of a new pod."""
    raw = pod(name, namespace, scheduler="podwright")
    cluster.client.create(raw)
    wait_until(lambda: cluster.client.read(raw)["spec"].get("nodeName"), 60, f"{name} is bound")
    return cluster.client.read(raw)["spec"]["nodeName"]


def test_a_plugin_is_changed_broken_corrected_and_hangs_while_the_operator_runs(cluster, namespace, tmp_path):
    plugins, state = Mounted(tmp_path / "plugins"), tmp_path / "state"
    state.mkdir()
    plugins.write("node-a")
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    cluster.apply(policy)
    with kit.running(cluster, f"--plugin-dir={plugins.folder}", f"--plugin-state-dir={state}") as operator:
        assert placed(cluster, namespace, "first") == "node-a"

        changed = time.monotonic()
        plugins.write("node-b")
        wait_until(lambda: "Plugins were loaded again" in operator.log(), 30, "the change is live")
        logging.getLogger(__name__).info("live %.2f s after the change", time.monotonic() - changed)
        assert placed(cluster, namespace, "second") == "node-b"

        plugins.write("node-a", body="return (")
        wait_until(lambda: condition(cluster, "PluginOutdated"), 30, "the error is in the policy's status")
        message = condition(cluster, "PluginOutdated")["message"]
        assert f"file {plugins.path}: cannot be imported: SyntaxError: '(' was never closed" in message
        assert "(line 12)" in message
        wait_until(lambda: events(cluster, "PluginsNotReloaded"), 30, "the error is an event")
        assert message in operator.log()
        assert placed(cluster, namespace, "third") == "node-b", "what was loaded before goes on"

        plugins.write("node-a", body=HANGS)
        wait_until(lambda: not condition(cluster, "PluginOutdated"), 30, "the file can be loaded again")
        assert placed(cluster, namespace, "fourth") == "node-a"

        assert placed(cluster, namespace, "hangs") in ("node-a", "node-b"), "without the plugin in the end"
        assert operator.process.alive
        log = operator.log()
        assert "policy only: plugin Only did not return from filter" in log
        assert f'File "{plugins.path}", line 12, in filter\n        {HANGS}' in log
        wait_until(lambda: condition(cluster, "PluginSwitchedOff"), 30, "the status says that it is off")
        off = condition(cluster, "PluginSwitchedOff")
        assert off["status"] == "True"
        assert "plugin Only is switched off, and onPluginFailure is Ignore" in off["message"]
        wait_until(lambda: events(cluster, "PluginSwitchedOff"), 30, "that it is off is an event")

        plugins.write("node-b")
        wait_until(lambda: not condition(cluster, "PluginSwitchedOff"), 30, "the plugin is on again")
        assert placed(cluster, namespace, "fifth") == "node-b"
