"""Hierarchies of pod groups: however groups and pods come and go, the group at the top has the pods of all."""

from __future__ import annotations

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from podwright.core.gangs.branches import branch_of
from podwright.core.objects.closeness import ANYWHERE
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import COMPOSITE_API, COMPOSITE_KIND, KIND, WORKLOAD_API, group_key
from podwright.core.objects.sub_groups import MAX_LEVELS
from podwright.core.state import levels
from podwright.core.state.cache import Cache
from support.costs.call_counts import calls_of
from support.objects.builders import in_group, make_node, make_pod
from support.properties import examples


def composite(name, parent="", groups=1):
    policy = {"gang": {"minGroupCount": groups}}
    return raw(name, parent, policy)


def leaf(name, parent="", pods=1):
    return raw(name, parent, {"gang": {"minCount": pods}})


def raw(name, parent, policy):
    above = {"parentCompositePodGroupName": parent} if parent else {}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"schedulingPolicy": policy, **above},
    }


def member(name, group, node=""):
    return parse_pod(make_pod(name, node=node, spec=in_group(group)), keep_raw=True)


def key(name, api=COMPOSITE_API):
    return group_key(api, "default", name)


@pytest.fixture
def groups():
    cache = Cache()
    for api in (WORKLOAD_API, COMPOSITE_API):
        cache.groups.serve(api)
    cache.groups.cache = cache
    return cache.groups


def put(groups, *objects):
    for each in objects:
        composite_one = "minGroupCount" in str(each)
        groups.cache.set_object(COMPOSITE_KIND if composite_one else KIND, each)


def test_a_hierarchy_says_how_many_pods_it_needs_by_the_name_of_its_workload(groups):
    top = composite("top", groups=2)
    top["metadata"]["ownerReferences"] = [{"kind": "JobSet", "name": "train", "controller": True}]
    put(groups, top, leaf("a", "top", pods=1), leaf("b", "top", pods=2), leaf("alone", pods=2))
    said = lambda: [groups.placed_text(key("top")), *groups.waiting()]
    waits = "JobSet default/train: 0 of 3 pods that start together have a node"
    groups.cache.set_node(parse_node(make_node("n")))
    for name, group in (("p", "a"), ("q", "b"), ("r", "b")):
        groups.add_waiting(member(name, group))
    assert said() == [waits, f"{waits}, 3 exist"]
    for name, group in (("p", "a"), ("q", "b")):
        groups.cache.set_pod(member(name, group, node="n"))
        groups.remove_waiting(f"default/{name}")
    waits = "JobSet default/train: 2 of 3 pods that start together have a node"
    assert said() == [waits, f"{waits}, 3 exist"]
    groups.cache.set_pod(member("r", "b", node="n"))
    assert said() == ["JobSet default/train: 3 pods have a node"]


def test_gangs_below_a_hierarchy_that_has_started_or_is_not_there_say_that_they_wait_themselves(groups):
    put(groups, composite("top"), leaf("a", "top"), leaf("b", "top", pods=2), leaf("c", "gone"))
    groups.cache.set_node(parse_node(make_node("n")))
    for name, group in (("p", "a"), ("q", "b"), ("r", "c")):
        groups.add_waiting(member(name, group))
    names = lambda: [text.partition(":")[0] for text in groups.waiting()]
    assert names() == ["default/c", "default/top"]
    groups.cache.set_pod(member("p", "a", node="n"))
    assert names() == ["default/b", "default/c"]


def test_members_wait_for_the_group_at_the_top_whichever_comes_last(groups):
    pod = member("p", "leaf")
    groups.add_waiting(pod)
    assert groups.of(pod) is None
    put(groups, leaf("leaf", "middle"))
    assert (groups.of(pod), groups.key_of(pod)) == (None, key("middle"))
    put(groups, composite("middle", "top"))
    assert (groups.of(pod), groups.key_of(pod)) == (None, key("top"))
    put(groups, composite("top"))
    assert groups.of(pod).name == "top"
    assert groups.complete(pod)
    groups.cache.remove_object(COMPOSITE_KIND, "middle", "default")
    assert groups.key_of(pod) == key("middle")
    assert groups.members(key("top")).total == 0


def test_only_what_can_still_reach_its_minimum_counts(groups):
    put(groups, composite("top", groups=2), leaf("a", "top", 2), leaf("b", "top"), leaf("c", "top"))
    top = groups.get(key("top"))
    for name, group in (("a0", "a"), ("b0", "b")):
        groups.add_waiting(member(name, group))
    assert not groups.has_minimum(top)
    groups.add_waiting(member("c0", "c"))
    assert groups.has_minimum(top)
    assert groups.just_completed(member("c0", "c"))
    assert not groups.just_completed(member("a0", "a"))
    put(groups, leaf("b", "top", 3))
    assert not groups.has_minimum(top), "it now needs more pods"
    groups.cache.remove_object(KIND, "b", "default")
    put(groups, leaf("a", "top", 1))
    assert groups.has_minimum(top)


def test_a_circle_is_no_group_and_can_be_mended(groups):
    put(groups, composite("a", "b"), composite("b", "a"), leaf("leaf", "a"))
    pod = member("p", "leaf")
    groups.add_waiting(pod)
    assert groups.of(pod) is None
    assert groups.key_of(pod) == f"{key('a')}, whose parents form a circle"
    put(groups, composite("b"))
    assert groups.of(pod).name == "b"


def test_too_many_levels_are_no_group(groups):
    put(groups, composite("c0"), *(composite(f"c{i}", f"c{i - 1}") for i in range(1, MAX_LEVELS + 2)))
    put(groups, leaf("leaf", f"c{MAX_LEVELS + 1}"))
    pod = member("p", "leaf")
    groups.add_waiting(pod)
    assert groups.of(pod) is None
    assert "more than" in groups.key_of(pod)


@pytest.mark.parametrize("order", [1, -1], ids=["from the top", "from the bottom"])
def test_beside_too_many_levels_a_group_is_placed(groups, order):
    chain = [composite(f"c{i}", f"c{i - 1}" if i else "top") for i in range(600)]
    put(groups, *[composite("top"), leaf("leaf", "top", 2), *chain][::order])
    pods = [member(f"p{i}", "leaf") for i in range(2)]
    for pod in pods:
        groups.add_waiting(pod)
    top = groups.of(pods[0])
    branch = branch_of(groups.cache, top, pods, ANYWHERE)
    assert (groups.has_minimum(top), groups.lacking(top) > 0, branch.reach) == (True, True, 2)
    assert not groups.has_close_parts(top)
    assert groups.members(top.key).levels.root.why_unmet(levels.PLACED)


def test_levels_count_again_when_fewer_are_above_them(groups):
    put(groups, *(composite(f"c{i}", f"c{i - 1}" if i else "") for i in range(MAX_LEVELS + 1)))
    put(groups, leaf("leaf", f"c{MAX_LEVELS}"))
    pod = member("p", "leaf")
    groups.add_waiting(pod)
    assert groups.of(pod) is None
    put(groups, composite("c1"))
    assert groups.has_minimum(groups.of(pod))


def test_without_composite_groups_each_pod_group_stands_alone(groups):
    put(groups, leaf("leaf", "top", 2))
    pod = member("p", "leaf")
    groups.add_waiting(pod)
    assert groups.of(pod) is None
    groups.withdraw(COMPOSITE_API)
    assert groups.of(pod).name == "leaf"
    groups.serve(COMPOSITE_API)
    assert groups.of(pod) is None


def test_a_group_of_another_namespace_is_another_group(groups):
    put(groups, composite("top"), leaf("leaf", "top"))
    pod = parse_pod(
        {**make_pod("p", spec=in_group("leaf")), "metadata": {"name": "p", "namespace": "other", "uid": "p"}}
    )
    groups.add_waiting(pod)
    assert groups.of(pod) is None


def test_a_pod_costs_as_much_as_the_hierarchy_is_deep(groups, monkeypatch):
    steps = []
    is_met = levels.Level.is_met
    monkeypatch.setattr(levels.Level, "is_met", lambda level, which: (steps.append(level), is_met(level, which))[1])
    costs = []
    for count in (10, 1_000):
        put(groups, composite(f"top{count}"), *(leaf(f"l{count}-{i}", f"top{count}") for i in range(count)))
        steps.clear()
        groups.add_waiting(member(f"p{count}", f"l{count}-0"))
        costs.append(len(steps))
    assert costs[1] == costs[0] < 50


def test_of_a_tree_with_10_000_leaves_a_pod_that_comes_and_one_that_is_placed_cost_no_look_at_all_of_them(groups):
    leaves = 10_000
    put(groups, composite("top", groups=leaves), *(leaf(f"l{i}", "top") for i in range(leaves)))
    group = groups.get(key("top"))

    def come(number):
        pod = member(f"p{number}", f"l{number}", node="n")
        groups.add_waiting(pod)
        assert not groups.has_minimum(group)
        assert groups.lacking(group) == leaves
        return pod

    come(0)
    assert calls_of(lambda: [come(number) for number in range(1, 101)]) < 100 * 1_000, "so many pods come"
    whole = calls_of(lambda: groups.pod_added(come(101), 0)) + calls_of(lambda: groups.lacking(group))
    assert groups.lacking(group) == leaves - 1
    assert whole < 10 * leaves


def test_a_pod_that_has_left_its_group_since_it_was_popped_is_in_none_of_its_parts(groups):
    put(groups, composite("top"), leaf("l0", "top"), leaf("l1", "top"))
    pods = [member("p0", "l0"), member("p1", "l1")]
    for pod in pods:
        groups.add_waiting(pod)
    groups.cache.remove_object(KIND, "l1", "default")
    branch = branch_of(groups.cache, groups.get(key("top")), pods, ANYWHERE)
    assert [pod.name for pod in branch.all_untried] == ["p0"]


PARENTS = ("", "c0", "c1", "c2")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("composite"), st.sampled_from(PARENTS[1:]), st.sampled_from(PARENTS), st.integers(1, 2)),
        st.tuples(st.just("leaf"), st.sampled_from(("l0", "l1", "l2")), st.sampled_from(PARENTS), st.integers(1, 3)),
        st.tuples(st.just("gone"), st.sampled_from(("c0", "c1", "c2", "l0", "l1", "l2")), st.just(""), st.just(0)),
        st.tuples(
            st.sampled_from(("waits", "placed", "unqueued", "removed")), st.just(""), st.just(""), st.integers(0, 8)
        ),
        st.tuples(st.sampled_from(("serve", "withdraw")), st.just(""), st.just(""), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=examples(200), deadline=None)
@given(STEPS)
def test_the_result_does_not_depend_on_the_order_of_events(steps):
    """After any events, the groups are those of a cache that sees the objects first and then the pods."""
    cache = Cache()
    for api in (WORKLOAD_API, COMPOSITE_API):
        cache.groups.serve(api)
    objects, waiting, placed, served = {}, {}, {}, True
    for what, name, parent, number in steps:
        pod = member(f"p{number}", f"l{number % 3}", node="n")
        if what in ("composite", "leaf"):
            kind = COMPOSITE_KIND if what == "composite" else KIND
            objects[kind, name] = composite(name, parent, number) if what == "composite" else leaf(name, parent, number)
            cache.set_object(kind, objects[kind, name])
            served = served or what == "composite"  # where there is one, they are served
        elif what == "gone":
            kind = COMPOSITE_KIND if name.startswith("c") else KIND
            if objects.pop((kind, name), None) is not None:
                cache.remove_object(kind, name, "default")
        elif what == "waits":
            waiting[pod.uid] = pod
            cache.groups.add_waiting(pod)
        elif what == "unqueued":
            waiting.pop(pod.uid, None)
            cache.groups.remove_waiting(pod.uid)
        elif what == "placed":
            placed[pod.uid] = pod
            cache.groups.pod_added(pod, 0)
        elif what == "removed":
            if placed.pop(pod.uid, None) is not None:
                cache.groups.pod_removed(pod, 0)
        else:
            served = what == "serve"
            (cache.groups.serve if served else cache.groups.withdraw)(COMPOSITE_API)
        summary(cache.groups)  # what is kept of it must not outlive the next event
    fresh = Cache()
    fresh.groups.serve(WORKLOAD_API)
    for (kind, _), each in objects.items():
        fresh.set_object(kind, each)
    (fresh.groups.serve if served else fresh.groups.withdraw)(COMPOSITE_API)
    for pod in waiting.values():
        fresh.groups.add_waiting(pod)
    for pod in placed.values():
        fresh.groups.pod_added(pod, 0)
    assert summary(cache.groups) == summary(fresh.groups)


def lacking(groups, group):
    return groups.lacking(group), groups.lacking(group, levels.EXISTING)


def summary(groups):
    found = {}
    for pod in [member(f"p{i}", f"l{i % 3}") for i in range(9)]:
        group = groups.of(pod)
        told = None
        if group is not None:
            told = (group.key, groups.has_minimum(group), groups.minimum_placed(group), *lacking(groups, group))
        members = groups.members(groups.key_of(pod))
        found[pod.name] = groups.key_of(pod), told, sorted(members.waiting), sorted(members.placed), members.total
    note(str(found))
    return found, sorted(group.key for group in groups.partially_placed)
