"""Clusters that change between decisions, for tests of what resource plugins cache between them."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import PodInfo, parse_pod
from podwright.core.state.cache import Cache
from support.objects.builders import make_node, make_pod
from support.plugins.kit import make_cache

SIZE = 96
"""Nodes at the start: enough that single rows are updated instead of whole columns."""

_AMOUNTS: dict[str, st.SearchStrategy[str]] = {
    "cpu": st.sampled_from(["0", "3", "100m", "1500m", "7", "99u"]),
    "memory": st.sampled_from(["0", "1Gi", "777Mi", "3G", "80Ti"]),
    "ephemeral-storage": st.sampled_from(["0", "1Gi"]),
    "example.com/gpu": st.sampled_from(["0", "1", "2", "5"]),
    "example.com/fpga": st.sampled_from(["0", "1"]),
    "hugepages-2Mi": st.sampled_from(["0", "4Mi"]),
}
_ALLOCATABLE_AMOUNTS: dict[str, st.SearchStrategy[str]] = {
    "cpu": st.sampled_from(["0", "4", "8", "16", "9007199254740993m"]),
    "memory": st.sampled_from(["0", "4Gi", "31Gi", "64Ti", "100Ti", "8Ei"]),
    "pods": st.sampled_from(["0", "2", "110"]),
    "ephemeral-storage": st.sampled_from(["0", "10Gi"]),
    "example.com/gpu": st.sampled_from(["0", "4", "8"]),
    "example.com/fpga": st.sampled_from(["0", "1"]),
    "hugepages-2Mi": st.sampled_from(["0", "64Mi"]),
}
_requests = st.fixed_dictionaries({}, optional=_AMOUNTS)
_allocatable = st.fixed_dictionaries({}, optional=_ALLOCATABLE_AMOUNTS)
_numbers = st.integers(0, SIZE + 3)
_changes = st.one_of(
    st.tuples(st.just("node"), _numbers, _allocatable),
    st.tuples(st.just("no node"), _numbers, st.none()),
    st.tuples(st.just("pod"), _numbers, _requests),
    st.tuples(st.just("no pod"), _numbers, st.none()),
    st.tuples(st.just("many pods"), st.integers(2, 40), _requests),
)

History = tuple[list[dict[str, str]], list[dict[str, str]], list[tuple[list[Any], int]]]


def histories() -> st.SearchStrategy[History]:
    """(allocatable resources of nodes, requests of pending pods, bursts of changes, each with the pending pod to check
    after it).
    """
    bursts = st.lists(st.tuples(st.lists(_changes, max_size=12), st.integers(0, 4)), min_size=1, max_size=8)
    return st.tuples(
        st.lists(_allocatable, min_size=1, max_size=4),
        st.lists(_requests, min_size=5, max_size=5, unique_by=str),
        bursts,
    )


def play(make: Callable[[Cache], Any], history: History, check: Callable[[Any, PodInfo], Any]) -> None:
    """Applies a history to the plugin's cache, and calls `check(plugin, pod)` for each pending pod."""
    allocatable, requests_of_pods, bursts = history
    cache = make_cache(make_node(f"n{i}", allocatable=allocatable[i % len(allocatable)]) for i in range(SIZE))
    plugin = make(cache)
    pods = [parse_pod(make_pod(f"pending-{i}", requests=requests)) for i, requests in enumerate(requests_of_pods)]
    for pod in pods:
        check(plugin, pod)
    for changes, which in bursts:
        for change in changes:
            _apply(cache, *change)
        check(plugin, pods[which])


def _apply(cache: Cache, what: str, number: int, amounts: dict[str, str] | None) -> None:
    if what == "node":
        cache.set_node(parse_node(make_node(f"n{number}", allocatable=amounts)))
    elif what == "no node":
        cache.remove_node(f"n{number}")
    elif what == "pod":
        cache.set_pod(parse_pod(make_pod(f"p{number}", node=f"n{number % 7}", requests=amounts)))
    elif what == "no pod":
        cache.remove_pod(f"default/p{number}")
    else:
        for i in range(number):
            cache.set_pod(parse_pod(make_pod(f"p{i}", node=f"n{2 * i}", requests=amounts)))
