"""Tests of TeamNodes without a cluster: only the cache and the plugin."""

from types import SimpleNamespace

import pytest
from team_nodes import OTHER_TEAM, TeamNodes, TeamNodesArgs

from podwright.core.framework.interface import CycleState
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.state.cache import Cache


def node(name, **labels):
    return parse_node({"metadata": {"name": name, "labels": labels}})


def pod(**labels):
    return parse_pod({"metadata": {"name": "p", "labels": labels}, "spec": {}})


@pytest.mark.parametrize(
    ("asking", "fitting"),
    [
        pytest.param(pod(team="ml"), {"open", "ml"}, id="a team's pod fits the nodes of its team and open nodes"),
        pytest.param(pod(team="web"), {"open"}, id="a pod of a team without nodes fits open nodes"),
        pytest.param(pod(), {"open"}, id="a pod without a team fits open nodes"),
    ],
)
def test_filter(asking, fitting):
    cache = Cache()
    for each in (node("open"), node("ml", team="ml"), node("db", team="db")):
        cache.set_node(each)
    plugin = TeamNodes(TeamNodesArgs(), SimpleNamespace(cache=cache))
    state = CycleState()
    plugin.pre_filter(state, asking)

    one_by_one = {info.name: plugin.filter(state, asking, info) for info in cache.nodes.values()}
    assert one_by_one == {name: None if name in fitting else OTHER_TEAM for name in ("open", "ml", "db")}

    at_once = plugin.filter_all(state, asking, cache.table)
    assert dict(zip(cache.table.names, at_once.ok, strict=True)) == {n: s is None for n, s in one_by_one.items()}
