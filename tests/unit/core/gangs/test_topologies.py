"""Gangs in the domains of all levels of a topology: the chosen domain, and the message without one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.api.kube_scheduler_configuration import default_profile
from podwright.core.framework.framework import Framework
from podwright.core.gangs import branches
from podwright.core.gangs.branches import Branch, Filling
from podwright.core.gangs.capacity_bounds import CapacityBounds, why_infeasible
from podwright.core.gangs.decisions import GangFault, GangPlacement, GangRejection
from podwright.core.gangs.plan import GangPlanner
from podwright.core.gangs.simulation import Simulation
from podwright.core.gangs.topology_domains import DomainSearch
from podwright.core.objects.closeness import Closeness, closeness_of, wish_of
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.objects.pod_group import KAI_API, KAI_KIND, group_key
from podwright.core.plugins import PLUGINS
from podwright.core.state.topologies import DomainLevel, DomainTree, Topologies, UnknownLevelError
from podwright.core.state.transaction import CacheTransaction
from podwright.simulator.world import World
from support.gangs.cluster import GangCluster, ported
from support.objects.builders import in_group, make_node, make_pod
from support.properties import examples

LEVELS = ("zone", "rack", "host")


def nodes(shape: Mapping[str, int | str]) -> list[dict[str, Any]]:
    """Nodes by `zone/rack/host`, with so many CPUs."""
    return [
        make_node(
            path.replace("/", "-"),
            labels=dict(zip(LEVELS, path.split("/"), strict=False)),
            allocatable={"cpu": str(cpu)},
        )
        for path, cpu in shape.items()
    ]


def near(*keys: str) -> dict[str, Any]:
    return {"schedulingConstraints": {"topology": [{"key": key} for key in keys]}}


def gang(
    shape: Mapping[str, int | str], members: int, *, levels: Iterable[str] = LEVELS, **options: Any
) -> GangCluster:
    cluster = GangCluster(nodes(shape), **{"min_count": members, "members": members, "cpu": "1", **options})
    cluster.cache.topologies.set("podwright.dev/default", tuple(levels))
    return cluster


def where(decision: Any) -> Counter[str]:
    assert isinstance(decision, GangPlacement), decision
    return Counter(placement.node_name for placement in decision.placements)


class TestLeastSpread:
    def test_as_few_domains_of_each_level_below_the_required_one(self):
        shape = {"z/a/1": 2, "z/a/2": 2, "z/b/1": 3, "z/b/2": 2, "z/c/1": 1, "z/c/2": 1, "z/c/3": 1}
        assert where(gang(shape, 5, **near("zone")).plan()) == {"z-b-1": 3, "z-b-2": 2}
        assert where(gang(shape, 2, **near("zone")).plan()) == {"z-c-1": 1, "z-c-2": 1}
        assert where(gang(shape, 8, **near("zone")).plan()).keys() == {"z-b-1", "z-b-2", "z-c-1", "z-c-2", "z-c-3"}

    def test_the_domains_are_asked_for_once(self, monkeypatch):
        cluster, asked, tree = gang({"z/a/1": 2}, 2, **near("zone")), [], Topologies.tree
        monkeypatch.setattr(Topologies, "tree", lambda *args: (asked.append(args), tree(*args))[1])
        assert where(cluster.plan()) == {"z-a-1": 2}
        assert len(asked) == 1

    def test_the_fullest_that_fits_comes_first(self):
        shape = {"y/a/1": 9, "z/b/1": 4, "z/c/1": 5}
        assert where(gang(shape, 4, **near("zone")).plan()) == {"y-a-1": 4}
        assert where(gang(shape, 4, **near("rack")).plan()) == {"z-b-1": 4}

    def test_what_counts_cannot_know_widens_the_domain_that_is_tried(self):
        """By requests, one host takes both members, but each uses its port."""
        shape = {"z/a/1": 4, "z/a/2": 4, "z/b/1": 4}
        assert where(gang(shape, 2, ports=True, **near("rack")).plan()) == {"z-a-1": 1, "z-a-2": 1}

    def test_preferred_levels_are_left_one_by_one(self):
        shape = {"y/a/1": 3, "y/b/1": 3, "z/a/1": 2, "z/b/1": 2}
        cluster = gang(shape, 3)
        assert where(cluster.plan(pack_by="rack")) == {"y-a-1": 3}
        assert where(gang(shape, 4).plan(pack_by="rack")) == {"z-a-1": 2, "z-b-1": 2}
        assert where(gang(shape, 9).plan(pack_by="rack")).keys() == {"y-a-1", "y-b-1", "z-a-1", "z-b-1"}


class TestRequired:
    def test_several_labels_hold_together(self):
        shape = {"y/a/1": 2, "z/a/1": 2, "z/b/1": 3}
        assert where(gang(shape, 3, levels=(), **near("zone", "rack")).plan()) == {"z-b-1": 3}
        decision = gang(shape, 4, levels=(), **near("zone", "rack")).plan()
        assert isinstance(decision, GangRejection)
        assert decision.message.endswith("; rack b: room for 3 of 4")

    def test_a_label_alone_goes_by_its_values_as_in_kube_scheduler(self):
        """The racks `a` of two zones are one domain for a group that names only the rack."""
        assert where(gang({"y/a/1": 2, "z/a/1": 2}, 4, **near("rack")).plan()) == {"y-a-1": 2, "z-a-1": 2}

    def test_nodes_with_half_of_the_labels_are_in_no_domain(self):
        decision = gang({"y": 9, "z/a/1": 2}, 3, levels=(), **near("zone", "rack")).plan()
        assert isinstance(decision, GangRejection)
        assert decision.message.startswith("0/1 placements are available")

    def test_labels_that_no_node_has_together_are_named(self):
        decision = gang({"y": 9}, 3, levels=(), **near("zone", "rack")).plan()
        assert decision.message == "0/0 placements are available; no node has the labels zone and rack"

    def test_nodes_with_room_for_any_number_of_pods_add_up(self):
        endless = [
            make_node(f"n{i}", labels={"zone": "y"}, allocatable={"cpu": "1", "pods": str(2**62)}) for i in range(2)
        ]
        assert isinstance(GangCluster(endless, min_count=2, members=2, cpu="0", **near("zone")).plan(), GangPlacement)

    def test_each_of_many_domains_is_looked_at_without_a_trial(self, monkeypatch):
        """One domain of 200 has room; none of the others is tried."""
        shape = {f"z/r{i}/1": 3 for i in range(199)} | {"z/last/1": 4}
        tried, schedule = [], Simulation.schedule
        monkeypatch.setattr(Simulation, "schedule", lambda *args: (tried.append(args), schedule(*args))[1])
        assert where(gang(shape, 4, **near("rack")).plan()) == {"z-last-1": 4}
        assert len(tried) == 4

    @pytest.mark.parametrize(
        ("hosts", "cpus", "room"),
        [
            pytest.param(1, (3, 2), "1 of 2", id="on one node"),
            pytest.param(2, (3, 3, 2, 2), "3 of 4", id="on two nodes, of which each takes two members"),
        ],
    )
    def test_members_that_no_domain_takes_together_are_refuted_by_counting(self, hosts, cpus, room, monkeypatch):
        cluster = gang({f"z/r{i}/{host}": 4 for i in range(2_000) for host in range(hosts)}, len(cpus), **near("rack"))
        for index, cpu in enumerate(cpus):
            pod = parse_pod(make_pod(f"p{index}", requests={"cpu": str(cpu)}, spec=in_group()), keep_raw=True)
            cluster.pods[index] = pod
            cluster.cache.groups.add_waiting(pod)
        tried, schedule = [], Simulation.schedule
        monkeypatch.setattr(Simulation, "schedule", lambda *args: (tried.append(args), schedule(*args))[1])
        decision = cluster.plan()
        assert isinstance(decision, GangRejection)
        assert decision.message.endswith(f"; rack r0: room for {room}")
        assert len(tried) <= len(cpus)

    def test_of_100_000_domains_only_those_that_are_tried_are_looked_at_one_by_one(self, monkeypatch):
        count, last, made = 100_000, 99_998, []
        nodes = DomainLevel.nodes
        monkeypatch.setattr(DomainLevel, "nodes", lambda *args: (made.append(args), nodes(*args))[1])
        level = DomainLevel("rack", np.arange(count), count=count, above=None, value_at=str)
        room = np.full(count, 3)
        room[last] = 4
        unused = [np.zeros(count, np.bool_)]
        search = DomainSearch(DomainTree([level], 0, 0, -1), [(level.sums(room), room)], 4, 4, unused)
        assert [np.flatnonzero(each.nodes).tolist() for each in search.attempts()] == [[last]]
        assert len(made) == 1
        room[last] = 2
        assert search.nearest_miss() == "; rack 0: room for 3 of 4"

    def test_many_domains_of_a_part_that_cannot_be_placed_take_steps_and_come_to_an_end(self, monkeypatch):
        """A part whose pods are too few fails before any is scheduled."""
        cluster = gang({f"z/r{i}/1": 3 for i in range(200)}, 2)
        points = []
        monkeypatch.setattr(cluster.cache.deadline, "check", lambda: points.append(1))

        def why():
            with CacheTransaction(cluster.cache) as transaction:
                simulation = Simulation(cluster.framework, transaction, lambda _n: 0)
                branch = Branch(3, untried=cluster.pods, near=Closeness(("host", "rack")))
                return Filling(simulation, minimums_first=False).fill(branch)

        assert "0/200 placements are available, first" in why()
        assert len(points) > 200
        monkeypatch.setattr(branches, "MOST_WORK", 300)
        assert "0/200 placements are available, of which 2 were tried within the bound on work" in why()
        monkeypatch.setattr(cluster.cache.deadline, "is_late", lambda: True)
        assert "0/200 placements are available, of which 1 were tried in the time given" in why()

    def test_a_member_that_died_is_replaced_in_the_domain_of_the_others(self):
        there = make_pod(
            "there",
            node="z-b-1",
            requests={"cpu": "1"},
            spec={"schedulingGroup": {"podGroupName": "gang"}},
            status={"phase": "Running"},
        )
        shape = {"z/a/1": 1, "z/b/1": 4, "z/b/2": 4}
        cluster = gang(shape, 1, min_count=2, placed=[there], **near("rack"))
        assert where(cluster.plan()) == {"z-b-1": 1}


REQUIRED, PREFERRED, SLICE, SLICE_SIZE = (
    f"kueue.x-k8s.io/podset-{each}"
    for each in (
        "required-topology",
        "preferred-topology",
        "slice-required-topology",
        "slice-size",
    )
)


class TestAnnotationsOfKueue:
    """Of the pods of a group that says nothing itself."""

    def wishing(self, shape: Mapping[str, int | str], *wishes: Mapping[str, str], served: bool = True, **options: Any):
        """A gang whose members have these annotations. `there`: placed members, by node."""
        there = [
            make_pod(f"on-{node}", node=node, requests={"cpu": "1"}, spec=in_group(), metadata={"annotations": wish})
            for node, wish in options.pop("there", {}).items()
        ]
        cluster = gang(shape, len(wishes), placed=there, levels=(), **options)
        for index, wish in enumerate(wishes):
            raw = make_pod(f"p{index}", requests={"cpu": "1"}, spec=in_group(), metadata={"annotations": wish})
            cluster.pods[index] = parse_pod(raw, keep_raw=True)
            cluster.cache.groups.add_waiting(cluster.pods[index])
        if served:
            cluster.cache.topologies.set("kueue.x-k8s.io/default", LEVELS)
        return cluster

    def test_all_members_are_in_the_required_domain(self):
        shape = {"z/a/1": 2, "z/b/1": 2, "z/c/1": 3}
        assert where(self.wishing(shape, *[{REQUIRED: "rack"}] * 3).plan()) == {"z-c-1": 3}
        decision = self.wishing(shape, *[{REQUIRED: "rack"}] * 4).plan()
        assert isinstance(decision, GangRejection)
        assert decision.message.endswith("; rack c: room for 3 of 4")

    def test_what_is_preferred_may_be_anywhere(self):
        shape = {"y/a/1": 2, "z/b/1": 2, "z/c/1": 2}
        assert where(self.wishing(shape, *[{PREFERRED: "rack"}] * 2).plan()).keys() == {"y-a-1"}
        assert where(self.wishing(shape, *[{PREFERRED: "rack"}] * 3).plan()).keys() == {"z-b-1", "z-c-1"}
        assert where(self.wishing(shape, *[{PREFERRED: "rack"}] * 6).plan()).total() == 6

    def test_each_slice_is_in_one_domain(self):
        shape = {"z/a/1": 3, "z/b/1": 1, "z/b/2": 1}
        sliced = {SLICE: "rack", SLICE_SIZE: "2"}
        assert where(self.wishing(shape, *[sliced] * 4).plan()) == {"z-a-1": 2, "z-b-1": 1, "z-b-2": 1}
        assert isinstance(self.wishing({"z/a/1": 3, "z/b/1": 1}, *[sliced] * 4).plan(), GangRejection)

    def test_members_with_different_wishes_are_apart(self):
        shape = {"z/a/1": 2, "z/b/1": 3, "y/c/1": 1}
        decision = self.wishing(shape, {}, *[{REQUIRED: "rack"}] * 3, *[{PREFERRED: "rack"}] * 2).plan()
        assert isinstance(decision, GangPlacement)
        of = {each.pod.name: each.node_name for each in decision.placements}
        assert {of[f"p{index}"] for index in (1, 2, 3)} == {"z-b-1"}
        assert len(of) == 6
        assert isinstance(self.wishing({"z/a/1": 2, "z/b/1": 2}, {}, *[{REQUIRED: "rack"}] * 3).plan(), GangRejection)

    def test_a_member_that_died_is_replaced_in_the_domain_of_those_with_its_wish(self):
        wish = {REQUIRED: "rack"}
        for others in ({}, {"z-a-1": {}}):
            cluster = self.wishing(
                {"z/a/1": 9, "z/b/1": 4, "z/b/2": 4}, wish, there={"z-b-1": wish, **others}, min_count=2
            )
            assert set(where(cluster.plan())) <= {"z-b-1", "z-b-2"}

    def test_the_wish_of_the_group_counts_first(self):
        assert (
            where(self.wishing({"z/a/1": 2, "z/b/1": 3}, *[{REQUIRED: "rack"}] * 5, **near("zone")).plan()).total() == 5
        )

    def test_they_count_while_there_are_topologies_of_kueue(self):
        assert (
            where(self.wishing({"z/a/1": 2, "z/b/1": 3}, *[{REQUIRED: "rack"}] * 5, served=False).plan()).total() == 5
        )

    @pytest.mark.parametrize("size", ["0", "-1", "two", "1.5", "٣", "99999999999", "9" * 5_000])
    def test_a_size_that_is_none_is_named_with_the_pod(self, size):
        decision = self.wishing({"z/a/1": 9}, {SLICE: "rack", SLICE_SIZE: size}).plan()
        assert isinstance(decision, GangFault)
        assert decision.message == (f"Pod default/p0: metadata.annotations[{SLICE_SIZE}]: expected a number from 1 on")

    @pytest.mark.parametrize(
        "annotations",
        [
            None,
            [],
            "text",
            {REQUIRED: 7},
            {SLICE: "rack"},
            {SLICE_SIZE: "2"},
            {"kueue.x-k8s.io/podset-unconstrained-topology": "true"},
        ],
    )
    def test_other_annotations_ask_for_nothing(self, annotations):
        assert not closeness_of(wish_of(annotations))


class TestSlices:
    """Of a group of KAI, which calls them segments."""

    def plan(
        self,
        shape: Mapping[str, int | str],
        members: int,
        size: int,
        placed: Mapping[str, str] = {},
        numbers: Sequence[int] = range(99),
        **options: Any,
    ):
        world = World()
        for raw in nodes(shape):
            world.cache.set_node(parse_node(raw))
        constraint = {"segmentSize": size, "segmentRequiredTopologyLevel": "rack", **options}
        spec = {"minMember": members, "topologyConstraint": constraint}
        world.cache.set_object(KAI_KIND, {"metadata": {"name": "gang", "namespace": "default"}, "spec": spec})
        for index in range(members):
            labels = {"batch.kubernetes.io/job-completion-index": str(numbers[index])}
            node = placed.get(f"p{index}", "")
            raw = make_pod(f"p{index}", requests={"cpu": "1"}, labels=labels, node=node)
            raw["metadata"]["annotations"] = {"pod-group-name": "gang"}
            pod = parse_pod(raw, keep_raw=True)
            if node:
                world.cache.set_pod(pod)
            else:
                world.cache.groups.add_waiting(pod)
        framework = Framework(default_profile("podwright", PLUGINS, world.features), PLUGINS, world)
        group = world.cache.groups.get(group_key(KAI_API, "default", "gang"))
        assert group is not None
        pods = world.cache.groups.members(group.key).unplaced()
        decision = GangPlanner(framework, world.cache, group, lambda _n: 0).plan(pods)
        if isinstance(decision, GangPlacement):
            assert why_infeasible(group, world.cache, CapacityBounds(framework, world.cache, pods)) is None
        return decision

    def slices(self, decision: Any, size: int) -> dict[int, set[str]]:
        assert isinstance(decision, GangPlacement), decision
        found: dict[int, set[str]] = {}
        for each in decision.placements:
            found.setdefault(int(each.pod.name[1:]) // size, set()).add(each.node_name[:3])
        return found

    def test_each_slice_is_in_one_domain(self):
        shape = {"z/a/1": 3, "z/b/1": 1, "z/b/2": 1, "z/c/1": 5}
        assert self.slices(self.plan(shape, 8, 2), 2) == {0: {"z-b"}, 1: {"z-a"}, 2: {"z-c"}, 3: {"z-c"}}

    def test_only_whole_slices_count(self):
        """Nine pods fit, but three slices of three do not."""
        decision = self.plan({"z/a/1": 5, "z/b/1": 4}, 9, 3, requiredTopologyLevel="zone")
        assert isinstance(decision, GangRejection)
        assert decision.message.endswith("; zone z: room for 6 of 9")
        assert isinstance(self.plan({"z/a/1": 6, "z/b/1": 4}, 9, 3, requiredTopologyLevel="zone"), GangPlacement)

    def test_slices_with_gaps_in_their_numbers_need_no_whole_ones(self):
        """A slice of two members and two of one."""
        shape = {"y/c/1": 1, "z/a/1": 3, "z/b/1": 1}
        decision = self.plan(shape, 4, 2, numbers=(0, 1, 2, 5), requiredTopologyLevel="zone")
        assert where(decision) == {"z-a-1": 3, "z-b-1": 1}

    def test_a_member_that_died_is_replaced_in_the_domain_of_its_slice(self):
        shape = {"z/a/1": 3, "z/b/1": 9}
        placed = {"p0": "z-b-1", "p2": "z-a-1", "p3": "z-a-1"}
        assert self.slices(self.plan(shape, 4, 2, placed), 2) == {0: {"z-b"}}


class TestLevels:
    def topologies(self) -> Topologies:
        world = World()
        for raw in nodes({"y/a/1": 1, "z/a/1": 1, "z/b/1": 1, "z/b/2": 1}):
            world.cache.set_node(parse_node(raw))
        world.cache.topologies.set("kai.scheduler/dc", LEVELS)
        return world.cache.topologies

    @pytest.mark.parametrize(
        ("asked", "labels", "positions"),
        [
            pytest.param(Closeness(("rack",), topology="kai.scheduler/dc"), LEVELS, (1, 1, -1), id="a level of a Topology"),
            pytest.param(Closeness(("zone",), "rack", "kai.scheduler/dc"), LEVELS, (0, 1, -1), id="and one below it"),
            pytest.param(Closeness(("rack",), "zone", "kai.scheduler/dc"), LEVELS, (1, 1, -1), id="and one above it, which holds anyway"),
            pytest.param(Closeness(("rack",)), LEVELS[1:], (0, 0, -1), id="a label, with the levels below it"),
            pytest.param(Closeness(("rack",), "zone"), LEVELS[1:], (0, 0, -1), id="a label, and one above it"),
            pytest.param(Closeness(("row",), "shelf"), ("row", "shelf"), (0, 1, -1), id="labels of no Topology"),
            pytest.param(Closeness((), "rack"), LEVELS, (-1, 1, -1), id="preferred only"),
            pytest.param(Closeness(("zone",), "", "", "rack", 2), LEVELS, (0, 0, 1), id="slices"),
        ],
    )  # fmt: skip
    def test_what_is_asked_for_becomes_levels(self, asked, labels, positions):
        tree = self.topologies().tree(asked)
        assert tuple(level.label for level in tree.levels) == labels
        assert (tree.required, tree.preferred, tree.sliced) == positions

    def test_domains_are_those_of_the_domain_above(self):
        zones, racks, hosts = self.topologies().levels(LEVELS)
        assert (len(zones), len(racks), len(hosts)) == (2, 3, 4)
        assert [racks.name(each) for each in range(3)] == ["rack a", "rack a", "rack b"]
        assert racks.above.tolist() == [0, 1, 1]

    @pytest.mark.parametrize(
        ("asked", "problem"),
        [
            (Closeness(("rack",), topology="kai.scheduler/none"), "there is no Topology none of kai.scheduler"),
            (Closeness(("row",), topology="kai.scheduler/dc"), "the Topology dc has no level row"),
        ],
    )
    def test_what_does_not_exist_is_named(self, asked, problem):
        with pytest.raises(UnknownLevelError, match=problem):
            self.topologies().tree(asked)

    def test_domains_are_found_again_only_when_their_labels_change(self, monkeypatch):
        world = World()
        monkeypatch.setattr(f"{__name__}.World", lambda: world)
        topologies = self.topologies()
        first, taint = topologies.levels(LEVELS), [{"key": "dedicated", "effect": "NoSchedule"}]
        (raw,) = nodes({"z/b/2": 1})
        raw["spec"] = {"taints": taint}
        raw["metadata"]["labels"]["other"] = "x"
        world.cache.set_node(parse_node(raw))
        assert topologies.levels(LEVELS) is first
        for label, value, racks in (("rack", "a", [0, 1, 2, 1]), ("zone", "y", [0, 1, 2, 0])):
            raw["metadata"]["labels"][label] = value
            world.cache.set_node(parse_node(raw))
            assert topologies.levels(LEVELS)[1].codes.tolist() == racks
        world.cache.remove_node("z-b-2")
        assert topologies.levels(LEVELS)[1].codes.tolist() == [0, 1, 2, -1]
        (raw,) = nodes({"x/a/1": 1, "z/c/1": 1})[1:]
        world.cache.set_node(parse_node(raw))
        assert topologies.levels(LEVELS)[1].codes.tolist() == [0, 1, 2, 3]

    def test_no_more_than_so_many_bytes_of_domains_are_kept(self, monkeypatch):
        def one_tree_kept(max_bytes: int) -> bool:
            monkeypatch.setattr("podwright.core.state.topologies.MAX_BYTES", max_bytes)
            topologies = self.topologies()
            first = topologies.levels(LEVELS)
            for number in range(5):
                topologies.levels((*LEVELS, f"key-{number}"))
            return topologies.levels(LEVELS) is first

        assert one_tree_kept(1 << 20)
        assert not one_tree_kept(1_000)


@settings(max_examples=examples(120), deadline=None)
@given(
    rooms=st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), min_size=1, max_size=5),
    taken=st.lists(st.integers(0, 11), max_size=4),
    members=st.integers(1, 6),
    ports=st.booleans(),
)
def test_a_domain_is_found_if_and_only_if_one_takes_all_and_it_is_the_fullest(rooms, taken, members, ports):
    """The oracle tries each rack as a cluster of its own."""
    shape = {f"z/r{rack}/{host}": cpu for rack, hosts in enumerate(rooms) for host, cpu in enumerate(hosts)}
    names = [path.replace("/", "-") for path in shape]
    busy = [
        make_pod(f"busy{index}", node=names[index % len(names)], spec={"containers": [ported("0")]}, status={"phase": "Running"})
        for index in dict.fromkeys(each % len(names) for each in taken)
    ]  # fmt: skip
    fitting = {}
    for rack, hosts in enumerate(rooms):
        own = {path: cpu for path, cpu in shape.items() if path.startswith(f"z/r{rack}/")}
        pods = [pod for pod in busy if pod["spec"]["nodeName"].startswith(f"z-r{rack}-")]
        if isinstance(gang(own, members, levels=(), ports=ports, placed=pods).plan(), GangPlacement):
            fitting[f"r{rack}"] = sum(hosts)
    decision = gang(shape, members, ports=ports, placed=busy, **near("rack")).plan()
    assert isinstance(decision, GangPlacement) == bool(fitting)
    if fitting:
        (rack,) = {name.split("-")[1] for name in where(decision)}
        assert fitting[rack] == min(fitting.values())
