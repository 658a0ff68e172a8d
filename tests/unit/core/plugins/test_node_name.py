from podwright.core.framework.interface import PreFilterResult
from podwright.core.plugins.node_name import NodeName
from support.objects.builders import make_node
from support.plugins.kit import build, make_cache, pending, pre_filter, verdicts


def test_a_pod_that_names_no_node_passes_everywhere():
    cache = make_cache([make_node("a"), make_node("b")])
    plugin = build(NodeName, cache)
    assert pre_filter(plugin, pending()) is None
    assert verdicts(plugin, pending()) == {"a": "", "b": ""}
    assert plugin.filter_all(None, pending(), cache.table) is None


def test_a_pod_that_names_its_node_passes_there_only():
    plugin = build(NodeName, make_cache([make_node("a"), make_node("b")]))
    pod = pending(node="b")
    assert pre_filter(plugin, pod) == PreFilterResult(frozenset("b"))
    assert verdicts(plugin, pod) == {"a": "node(s) didn't match the requested node name", "b": ""}
