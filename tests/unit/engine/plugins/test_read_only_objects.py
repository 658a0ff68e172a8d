"""Third-party plugins cannot change the objects of the cluster. One that tries fails its own pods only, and is
named.
"""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import pytest

from podwright.core.framework.cluster_events import Action, ClusterEvent, EventHint
from podwright.core.framework.interface import EnqueueExtensions, FilterPlugin, Plugin, PreFilterPlugin, Scope
from podwright.core.framework.read_only import ReadOnlyCache, ReadOnlyNodeInfo
from podwright.core.framework.status import unschedulable
from podwright.core.objects.pod import parse_pod
from podwright.core.state.cache import Cache
from podwright.core.state.nodeinfo import NodeInfo
from support.engine.kit import Rig, custom_policy, deciding, settle
from support.objects.builders import make_pod


class Writing(Plugin, PreFilterPlugin, FilterPlugin):
    """Changes what it can reach, the way that a test says."""

    name = "Writing"
    scope = Scope.NODE_PODS
    write = None
    once = None

    def pre_filter(self, _state, pod):
        if type(self).once is not None:
            type(self).once(self.handle, pod)

    def filter(self, _state, pod, node):
        if type(self).write is not None:
            type(self).write(node, pod)


def _set(path, value=None):
    """Sets an attribute: of the node, or of what `path` names."""
    *owners, name = path.split(".")

    def write(node, pod):
        target = {"node": node, "pod": pod}[owners[0]]
        for owner in owners[1:]:
            target = getattr(target, owner)
        setattr(target, name, value)

    return write


def _item(of):
    def write(node, pod):
        of(node, pod)["x"] = "y"

    return write


WRITES = [
    pytest.param(_set("node.requested"), id="the sums of a node"),
    pytest.param(_set("node.node"), id="the node of a NodeInfo"),
    pytest.param(_set("node.node.unschedulable", value=True), id="a field of a node"),
    pytest.param(lambda node, _pod: node.pods.clear(), id="the pods of a node"),
    pytest.param(lambda node, pod: node.add(pod), id="a pod added to a node"),
    pytest.param(lambda node, pod: node.ports.add(pod), id="the ports of a node"),
    pytest.param(_item(lambda node, _pod: node.requested), id="one sum of a node"),
    pytest.param(_item(lambda node, _pod: node.present.labels), id="the labels of a node"),
    pytest.param(_item(lambda node, _pod: node.present.annotations), id="the annotations of a node"),
    pytest.param(_item(lambda node, _pod: node.present.allocatable), id="what is allocatable on a node"),
    pytest.param(_item(lambda _node, pod: pod.labels), id="the labels of a pod"),
    pytest.param(lambda _node, pod: pod.labels.update(x="y"), id="labels that pods share"),
    pytest.param(_set("pod.priority", 9), id="the priority of a pod"),
    pytest.param(_item(lambda _node, pod: pod.raw), id="the raw object of a pod"),
    pytest.param(_item(lambda _node, pod: pod.raw["metadata"]["labels"]), id="the raw labels of a pod"),
    pytest.param(lambda _node, pod: pod.raw["spec"]["containers"].append({}), id="the raw containers of a pod"),
    pytest.param(lambda _node, pod: pod.raw["spec"]["containers"][0].clear(), id="one raw container of a pod"),
    pytest.param(_item(lambda _node, pod: pod.generated_claims), id="the generated claims of a pod"),
    pytest.param(_item(lambda _node, pod: pod.requests.amounts), id="the requests that pods share"),
    pytest.param(_item(lambda _node, pod: pod.requests.spec_scoring), id="the requests that are scored"),
    pytest.param(_item(lambda _node, pod: pod.node_affinity.node_selector), id="the node selector that pods share"),
    pytest.param(lambda _node, pod: delattr(pod, "priority"), id="the priority of a pod, deleted"),
    pytest.param(lambda node, _pod: delattr(node, "requested"), id="the sums of a node, deleted"),
    pytest.param(lambda node, _pod: delattr(node, "_info"), id="the node behind a view, deleted"),
]
REACHED = [
    pytest.param(lambda handle, _pod: handle.cache.nodes["a"].pods.clear(), id="a node of the cache"),
    pytest.param(lambda handle, _pod: setattr(handle.cache.present("a"), "requested", None), id="a present node"),
    pytest.param(lambda handle, _pod: handle.cache.nodes.pop("a"), id="the nodes of the cache"),
    pytest.param(lambda handle, pod: handle.cache.assume(pod, "a"), id="an assumed pod"),
    pytest.param(lambda handle, _pod: setattr(handle.cache, "nodes", {}), id="the cache"),
    pytest.param(lambda handle, _pod: delattr(handle.cache, "_cache"), id="the cache behind a view, deleted"),
    pytest.param(lambda handle, _pod: handle.cache.store.remove("Namespace", "default"), id="the raw objects"),
    pytest.param(lambda handle, _pod: space(handle).update(x="y"), id="a raw object"),
    pytest.param(lambda handle, _pod: space(handle)["metadata"]["labels"].update(x="y"), id="a part of a raw object"),
    pytest.param(lambda handle, _pod: space(handle)["spec"]["finalizers"].clear(), id="a list in a raw object"),
    pytest.param(lambda handle, _pod: named(handle)["metadata"].pop("name"), id="a listed raw object"),
]
SPACE = {"metadata": {"name": "default", "labels": {"a": "b"}}, "spec": {"finalizers": ["kubernetes", {"x": 1}]}}


def space(handle):
    return handle.cache.store.get("Namespace", "default")


def named(handle):
    (found,) = handle.cache.store.list("Namespace")
    return found


async def tried(monkeypatch, **how):
    """Schedules a pod with the plugin, and one without it. The rig, and the message of the first one's event."""
    for name, value in how.items():
        monkeypatch.setattr(Writing, name, staticmethod(value))
    rig = Rig({"Writing": Writing})
    rig.node("a")
    rig.engine.cache.set_object("Namespace", copy.deepcopy(SPACE))
    policy = custom_policy("multiPoint", "Writing")
    policy["spec"]["match"] = {"podSelector": {"matchLabels": {"policy": "custom"}}}
    rig.engine.policies.apply(policy)
    rig.pod("web", labels={"policy": "custom"})
    async with deciding(rig):
        await settle()
        monkeypatch.undo()
        rig.pod("other")
        await settle()
        assert rig.cluster.bound == [("other", "a")]
        assert rig.placed_on("other") == "a"
    return rig, rig.recorder.notes("FailedScheduling")


@pytest.mark.parametrize(
    ("where", "how"), [("write", each.values[0]) for each in WRITES], ids=[each.id for each in WRITES]
)
async def test_a_plugin_that_changes_what_it_is_given_is_named_and_changes_nothing(monkeypatch, where, how):
    rig, (note,) = await tried(monkeypatch, **{where: how})
    assert 'running "Writing" filter plugin: ' in note
    assert "Writing" in rig.engine.policies.plugin_exceptions_of("custom")
    info = rig.engine.cache.present("a")
    assert (list(info.pods), info.requested["cpu"], info.present.labels.get("x")) == (["default/other"], 0, None)


@pytest.mark.parametrize("how", REACHED)
async def test_a_plugin_that_changes_the_cache_is_named_and_changes_nothing(monkeypatch, how):
    rig, (note,) = await tried(monkeypatch, once=how)
    assert 'running PreFilter plugin "Writing": ' in note
    assert list(rig.engine.cache.nodes) == ["a"]
    assert list(rig.engine.cache.store.list("Namespace")) == [SPACE]


def test_raw_objects_read_as_ever_and_their_copies_can_be_changed():
    cache = Cache()
    cache.set_object("Namespace", copy.deepcopy(SPACE))
    store = ReadOnlyCache(cache).store
    found = store.get("Namespace", "default")
    assert (found, [*store.list("Namespace", "")], store.get("Namespace", "x")) == (SPACE, [SPACE], None)
    assert (found["spec"]["finalizers"], repr(found)) == (["kubernetes", {"x": 1}], repr(SPACE))
    assert (store.version("Namespace"), store.changes) == (1, 1)
    copied = copy.deepcopy(found)
    copied["metadata"]["labels"]["a"] = copied["spec"]["finalizers"][1]["x"] = 2
    assert store.get("Namespace", "default") == SPACE


class WritingHint(Plugin, FilterPlugin, EnqueueExtensions):
    """Changes the object of an event."""

    name = "WritingHint"
    scope = Scope.NODE

    def filter(self, _state, _pod, _node):
        return unschedulable("never")

    def hints(self):
        return [EventHint(ClusterEvent("StorageClass", Action.ALL), self.changed)]

    def changed(self, _pod, _before, after):
        after["metadata"]["name"] = "other"


async def test_a_hint_that_changes_the_object_of_an_event_is_named_and_changes_nothing():
    rig = Rig({"WritingHint": WritingHint})
    rig.node("a")
    assert rig.engine.policies.apply(custom_policy("filter", "WritingHint")).accepted
    rig.pod("web")
    async with deciding(rig):
        await settle()
        rig.engine.objects("StorageClass").put(raw := {"metadata": {"name": "fast"}})
        await settle()
    assert raw == {"metadata": {"name": "fast"}}
    assert "WritingHint" in rig.engine.policies.plugin_exceptions_of("custom")


def test_a_clone_of_a_read_only_node_can_be_changed():
    info, pod = NodeInfo("a"), parse_pod(make_pod("p", requests={"cpu": "1"}))
    info.add(pod)
    copied = ReadOnlyNodeInfo(info).clone()
    copied.remove(pod)
    assert (dict(copied.pods), list(info.pods)) == ({}, ["default/p"])


def test_copies_of_frozen_parts_are_cheap_and_equal():
    labels = parse_pod(make_pod("p", labels={"a": "b"})).labels
    assert copy.deepcopy(labels) is labels
    assert copy.copy(labels) is labels


def test_a_pod_can_be_copied_replaced_and_pickled():
    pod = parse_pod(make_pod("p", labels={"a": "b"}, priority=3))
    for other in (copy.copy(pod), replace(pod, node_name="a"), pickle.loads(pickle.dumps(pod)), pod.on("a")):
        assert (other.key, other.priority, dict(other.labels)) == ("default/p", 3, {"a": "b"})
        with pytest.raises(AttributeError, match="pod default/p is read-only: priority cannot be set"):
            other.priority = 4


def test_copies_of_a_raw_pod_can_be_changed():
    pod = parse_pod(make_pod("p", labels={"a": "b"}), keep_raw=True)
    for copied in (copy.deepcopy(pod.raw), copy.deepcopy(dict(pod.raw)), pickle.loads(pickle.dumps(pod.raw))):
        assert copied == pod.raw
    copied = copy.deepcopy(pod.raw)
    copied["metadata"]["labels"]["a"] = "c"
    copied["spec"]["containers"].append({})
    copy.copy(pod.raw)["x"] = "y"
    copy.copy(pod.raw["spec"]["containers"]).append({})
    assert pod.raw == make_pod("p", labels={"a": "b"})
    assert pod.on("a").raw is pod.raw


def test_the_volumes_of_a_pod_cannot_be_changed():
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    (volume,) = parse_pod(make_pod("p", spec={"volumes": [claim]})).volumes
    with pytest.raises(TypeError, match="read-only"):
        volume["persistentVolumeClaim"]["claimName"] = "other"
