import pytest

from podwright.core.framework.cluster_events import Hint
from podwright.core.framework.status import SKIP
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import node_ports
from podwright.core.plugins.node_ports import NodePorts, PortIndex
from support.objects.builders import make_node, make_pod
from support.plugins.kit import build, make_cache, pending, pre_filter, verdicts

TAKEN = "node(s) didn't have free ports for the requested pod ports"


def port(number, ip="", protocol="TCP"):
    return {"containerPort": 80, "hostPort": number, "protocol": protocol, **({"hostIP": ip} if ip else {})}


def container(*ports, **more):
    return {"name": "c", "image": "app", "ports": list(ports), **more}


def using(*ports):
    return {"containers": [container(*ports)]}


@pytest.mark.parametrize(
    "used, wanted, passes",
    [
        pytest.param(port(80), port(80), False, id="the same port on all addresses"),
        pytest.param(port(80), port(81), True, id="another port"),
        pytest.param(port(80), port(80, protocol="UDP"), True, id="another protocol"),
        pytest.param(port(80, "10.0.0.1"), port(80, "10.0.0.2"), True, id="another address"),
        pytest.param(port(80, "10.0.0.1"), port(80, "10.0.0.1"), False, id="the same address"),
        pytest.param(port(80, "10.0.0.1"), port(80), False, id="all addresses are requested and one is in use"),
        pytest.param(
            port(80, "0.0.0.0"), port(80, "10.0.0.2"), False, id="all addresses are in use and one is requested"
        ),
        pytest.param(port(80, "::"), port(80, "10.0.0.2"), True, id="the address :: is not a wildcard"),
        pytest.param(port(80, "::"), port(80, "::"), False, id="the address :: in use and requested"),
    ],
)
def test_filter(used, wanted, passes):
    cache = make_cache([make_node("a"), make_node("b")], [make_pod("user", node="a", spec=using(used))])
    plugin = build(NodePorts, cache)
    assert verdicts(plugin, pending(spec=using(wanted))) == {"a": "" if passes else TAKEN, "b": ""}


def test_a_pod_without_host_ports_skips_the_filter():
    plugin = build(NodePorts, make_cache())
    assert pre_filter(plugin, pending(spec=using({"containerPort": 80}))) == SKIP
    assert pre_filter(plugin, pending(spec=using(port(80)))) is None


def test_ports_of_sidecars_count_those_of_other_init_containers_do_not():
    plugin = build(NodePorts, make_cache())
    init = container(port(80))
    assert pre_filter(plugin, pending(spec={"initContainers": [init]})) == SKIP
    assert pre_filter(plugin, pending(spec={"initContainers": [{**init, "restartPolicy": "Always"}]})) is None


def test_a_port_is_free_after_its_last_pod_leaves():
    cache = make_cache([make_node("a")], [make_pod(name, node="a", spec=using(port(80))) for name in ("x", "y")])
    plugin = build(NodePorts, cache)
    pod = pending(spec=using(port(80)))
    assert verdicts(plugin, pod) == {"a": TAKEN}
    cache.remove_pod("default/x")
    assert verdicts(plugin, pod) == {"a": TAKEN}
    cache.remove_pod("default/y")
    assert verdicts(plugin, pod) == {"a": ""}


def test_the_pods_of_a_node_that_is_added_again_use_its_ports():
    cache = make_cache([make_node("a")], [make_pod("x", node="a", spec=using(port(80)))])
    plugin = build(NodePorts, cache)
    cache.remove_node("a")
    cache.set_node(parse_node(make_node("b")))
    cache.set_node(parse_node(make_node("a")))
    assert verdicts(plugin, pending(spec=using(port(80)))) == {"a": TAKEN, "b": ""}


def test_profiles_share_one_index(monkeypatch):
    built = []

    class Counted(PortIndex):
        def __init__(self) -> None:
            super().__init__()
            built.append(self)

    monkeypatch.setattr(node_ports, "PortIndex", Counted)
    cache = make_cache([make_node("a")], [make_pod("x", node="a", spec=using(port(80)))])
    plugins = [build(NodePorts, cache) for _ in range(2)]
    assert [verdicts(plugin, pending(spec=using(port(80)))) for plugin in plugins] == [{"a": TAKEN}] * 2
    assert len(built) == 1


def test_the_rows_of_many_pods_with_many_equal_ports_are_read_once():
    ports = [port(number) for number in range(1, 200)]
    cache = make_cache([make_node(name) for name in "abc"])
    plugin, index = build(NodePorts, cache), cache.observer(PortIndex)
    for name in "ab":
        cache.set_pod(parse_pod(make_pod(f"x-{name}", node=name, spec=using(*ports))))
    other = parse_pod(make_pod("other", node="b", spec=using(port(7, protocol="UDP"), port(80, "10.0.0.1", "UDP"))))
    cache.set_pod(other)
    wanted = pending(spec=using(*ports, port(80, protocol="UDP")))
    assert [len(rows) for rows in index.conflicting(wanted.ports)] == [2, 1]
    assert verdicts(plugin, wanted) == {"a": TAKEN, "b": TAKEN, "c": ""}
    for name in ("x-a", "x-b", "other"):
        cache.remove_pod(f"default/{name}")
    assert list(index.conflicting(wanted.ports)) == []
    assert verdicts(plugin, wanted) == {"a": "", "b": "", "c": ""}


@pytest.mark.parametrize(
    "deleted, expected",
    [
        pytest.param({"node": "a", "spec": using(port(80))}, Hint.QUEUE, id="a pod that used the requested port"),
        pytest.param({"node": "a", "spec": using(port(81))}, Hint.SKIP, id="a pod that used another port"),
        pytest.param({"node": "a"}, Hint.SKIP, id="a pod without ports"),
        pytest.param({"spec": using(port(80))}, Hint.SKIP, id="a pod without a node"),
        pytest.param(
            {"spec": using(port(80)), "status": {"nominatedNodeName": "a"}},
            Hint.QUEUE,
            id="a pod with a nominated node",
        ),
    ],
)
def test_hint_for_deleted_pods(deleted, expected):
    hint = build(NodePorts, make_cache()).hints()[0].function
    spec = dict(deleted.get("spec", {}), **({"nodeName": deleted["node"]} if "node" in deleted else {}))
    gone = parse_pod(make_pod("gone", spec=spec, status=deleted.get("status")))
    assert hint(pending(spec=using(port(80))), gone, None) is expected
