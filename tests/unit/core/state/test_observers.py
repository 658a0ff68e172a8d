"""The index of a third-party plugin: its exceptions reach neither the cache nor the other observers."""

import pytest

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.state.cache import Cache
from podwright.core.state.deadline import TookLongError
from support.objects.builders import make_node, make_pod
from support.state.placement_recorder import PlacementRecorder


class Fragile:
    """Raises for pods with the name `bad`."""

    def __init__(self):
        self.pods = []

    def pod_added(self, pod, _slot):
        if pod.name == "bad":
            raise ValueError("cannot count it")
        if pod.name == "worse":
            raise GeneratorExit("no Exception")
        if pod.name == "ours":
            raise TookLongError
        self.pods.append(pod.name)

    def pod_removed(self, pod, _slot):
        self.pods.remove(pod.name)

    def node_set(self, slot, before, after):
        pass

    def namespace_set(self, name, labels):
        pass


@pytest.fixture
def reported():
    return []


@pytest.fixture
def cache(reported):
    cache = Cache()
    cache.set_node(parse_node(make_node("n")))
    cache.contain_indexes(lambda kind, method, error: reported.append((kind, method, str(error))))
    return cache


def test_an_exception_of_an_index_is_reported_and_all_others_see_the_change(cache, reported):
    fragile = cache.observer(Fragile)
    recorder = PlacementRecorder()
    cache.attach(recorder)
    for name in ("first", "bad", "worse", "last"):
        cache.set_pod(parse_pod(make_pod(name, node="n")))
    cache.remove_pod(parse_pod(make_pod("bad", node="n")).uid)
    assert fragile.pods == ["first", "last"]
    assert {pod.name for pod in cache.nodes["n"].pods.values()} == {"first", "worse", "last"}
    assert reported == [
        (Fragile, "pod_added", "cannot count it"),
        (Fragile, "pod_added", "no Exception"),
        (Fragile, "pod_removed", "list.remove(x): x not in list"),
    ]


def test_an_attempt_that_starts_anew_is_let_through(cache, reported):
    cache.observer(Fragile)
    with pytest.raises(TookLongError):
        cache.set_pod(parse_pod(make_pod("ours", node="n")))
    assert reported == []


def test_plugins_share_an_index_that_is_contained_and_it_goes_with_its_code(cache, reported):
    fragile = cache.observer(Fragile)
    assert cache.observer(Fragile) is fragile
    cache.forget_kinds_of({__name__})
    assert cache.observer(Fragile) is not fragile
    cache.set_pod(parse_pod(make_pod("bad", node="n")))
    assert len(reported) == 1


def test_an_exception_of_our_own_observers_is_not_hidden(cache):
    cache.attach(Fragile())
    with pytest.raises(ValueError, match="cannot count it"):
        cache.set_pod(parse_pod(make_pod("bad", node="n")))
