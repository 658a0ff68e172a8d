"""A pod group as preemptor: which pods are victims, and which messages it gets."""

from __future__ import annotations

import pytest

from podwright.core.framework.interface import FilterPlugin, Plugin
from podwright.core.framework.status import Code, unschedulable
from podwright.core.gangs.decisions import GangFault, GangPlacement, GangPreemption, GangRejection
from podwright.core.gangs.gang_preemption import REMOVAL_SECONDS
from podwright.core.gangs.plan import decide
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins import PLUGINS
from podwright.core.state.deadline import TookLongError
from podwright.core.state.transaction import CacheTransaction
from support.gangs.kit import HOST, NOW, ZONE, FullCluster, budget, group_of, one, room


def filtering(plugin: str) -> dict:
    return {"filter": {"enabled": [{"name": plugin}]}}


MOUNTS = {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}


def give_claim(cluster: FullCluster) -> None:
    """Adds the claim that MOUNTS names. Only one pod may use it."""
    claim = {
        "metadata": {
            "name": "data",
            "namespace": "default",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {"accessModes": ["ReadWriteOncePod"], "volumeName": "v"},
        "status": {"phase": "Bound"},
    }
    volume = {"metadata": {"name": "v"}, "spec": {"claimRef": {"name": "data", "namespace": "default"}}}
    cluster.cache.set_object("PersistentVolume", volume)
    cluster.cache.set_object("PersistentVolumeClaim", claim)


class TestVictims:
    @pytest.mark.parametrize(
        ("nodes", "placed", "options", "victims"),
        [
            pytest.param([room("n1", 1)], [one("low", "n1", 5)], {}, ["low"], id="a pod of lower priority"),
            pytest.param(
                [room("n1", 2)],
                [one("low", "n1", 1), one("mid", "n1", 50)],
                {},
                ["low"],
                id="the pod of the lowest priority",
            ),
            pytest.param(
                [room("n1", 2)],
                [one("alone", "n1"), one("member", "n1", group="g")],
                {"groups": [group_of("g", 0)]},
                ["alone"],
                id="a pod without a group before a member of a group",
            ),
            pytest.param(
                [room("n1", 2)],
                [
                    one("younger", "n1", group="g", start="2023-01-02T00:00:00Z"),
                    one("older", "n1", group="g", start="2023-01-01T00:00:00Z"),
                ],
                {"groups": [group_of("g", 0)]},
                ["younger"],
                id="of two members of a group with disruption mode single, the one that started later",
            ),
            pytest.param(
                [room("n1", 1), room("n2", 1)],
                [one("a", "n1", group="g"), one("b", "n2", group="g")],
                {"groups": [group_of("g", 0, whole=True)]},
                ["a", "b"],
                id="all members of a group with disruption mode all, on every node",
            ),
            pytest.param(
                [room("n1", 2), room("n2", 1)],
                [one("a", "n1", group="g"), one("b", "n2", group="g"), one("alone", "n1")],
                {"groups": [group_of("g", 0, whole=True)]},
                ["alone"],
                id="a pod without a group before a whole group",
            ),
            pytest.param(
                [room("n1", 2)],
                [one("guarded", "n1", labels={"app": "db"}), one("free", "n1", 50)],
                {"budgets": [budget("db", 0, {"app": "db"})]},
                ["free"],
                id="a pod of higher priority before one under a budget",
            ),
            pytest.param(
                [room("n1", 2), room("n2", 1)],
                [
                    one("a", "n1", group="g"),
                    one("b", "n2", group="g", labels={"app": "db"}),
                    one("free", "n1", 50),
                ],
                {"groups": [group_of("g", 0, whole=True)], "budgets": [budget("db", 0, {"app": "db"})]},
                ["free"],
                id="a budget for one member protects its whole group",
            ),
            pytest.param(
                [room("n1", 1), room("n2", 1)],
                [one("a", "n1", 100, group="g"), one("b", "n2", 100, group="g")],
                {"groups": [group_of("g", 50, whole=True)]},
                ["a", "b"],
                id="the priority of the group counts, not that of its pods",
            ),
            pytest.param(
                [room(f"n{i}", 1) for i in range(1, 5)],
                [one("p1", "n1"), one("p2", "n2"), one("p3", "n3", 100), one("p4", "n4", 100)],
                {"members": 3, "min_count": 1},
                ["p1", "p2"],
                id="victims for all members, not only for the minimum",
            ),
            pytest.param(
                [room(f"n{i}", 1) for i in range(1, 4)],
                [one("v1", "n1", 50, group="g"), one("v2", "n2", 50, group="g"), one("v3", "n3", 1)],
                {"members": 3, "min_count": 1, "groups": [group_of("g", 50, whole=True)]},
                ["v1", "v2", "v3"],
                id="a whole group is a victim for members beyond the minimum",
            ),
        ],
    )  # fmt: skip
    def test_the_least_important_units_are_victims(self, nodes, placed, options, victims):
        assert FullCluster(nodes, placed, **options).victims() == victims

    @pytest.mark.parametrize(
        ("min_resources", "message"),
        [
            ("Required", "no pod is evicted for minResources"),
            ("Ignored", "found a placement for podgroup, preempting 1 victims"),
        ],
    )
    def test_a_policy_may_ignore_min_resources_that_the_cluster_lacks(self, min_resources, message):
        cluster = FullCluster(
            [room("n1", 1)],
            [one("low", "n1")],
            group={"minResources": {"cpu": "2"}},
            config=[{"name": "GangScheduling", "args": {"minResources": min_resources}}],
        )
        assert cluster.preempt().message == f"pod group preemption: {message}"

    def test_the_result_names_whole_groups_and_counts_budget_violations(self):
        cluster = FullCluster(
            [room("n1", 1), room("n2", 1)],
            [one("a", "n1", group="g", labels={"app": "db"}), one("b", "n2", group="g")],
            members=2,
            groups=[group_of("g", 0, whole=True)],
            budgets=[budget("db", 0, {"app": "db"})],
        )
        found = cluster.preempt()
        assert found.message == "pod group preemption: found a placement for podgroup, preempting 2 victims"
        assert [group.name for group in found.disrupted] == ["g"]
        assert found.violations == 1
        assert found.nominations == {"default/m0": "n1", "default/m1": "n2"}

    def test_the_younger_of_two_equal_pods_is_the_victim_and_an_unstarted_pod_is_the_youngest(self):
        placed = [one("old", "n1", start="2023-01-01T00:00:00Z"), one("young", "n1", start="2023-06-01T00:00:00Z")]
        assert FullCluster([room("n1", 2)], placed).victims() == ["young"]
        placed[0] = one("unstarted", "n1")
        assert FullCluster([room("n1", 2)], placed).victims() == ["unstarted"]

    def test_a_start_time_that_was_reported_later_counts(self):
        cluster = FullCluster(
            [room("n1", 2)],
            [one("a", "n1", group="g", start="2023-06-01T00:00:00Z"), one("b", "n1", group="h")],
            groups=[group_of("g", 0, whole=True), group_of("h", 0, whole=True)],
        )
        assert cluster.victims() == ["b"]
        cluster.cache.set_pod(parse_pod(one("b", "n1", group="h", start="2023-01-01T00:00:00Z")))
        assert cluster.victims() == ["a"]


def test_more_potential_victims_than_a_slice_has_time_for_are_not_removed_in_the_loop(monkeypatch):
    cluster = FullCluster([room("n1", 6)], [one(f"p{i}", "n1") for i in range(6)])
    cluster.cache.deadline.check, cluster.cache.deadline.longest_step = lambda: None, 5.5 * REMOVAL_SECONDS
    monkeypatch.setattr(CacheTransaction, "remove", lambda *_: pytest.fail("removed"))
    with pytest.raises(TookLongError):
        cluster.preempt()


class TestInterPodConstraints:
    def apart(self, key: str, **labels: str) -> dict:
        term = {"topologyKey": key, "labelSelector": {"matchLabels": labels}}
        return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}

    def test_a_pod_whose_anti_affinity_excludes_members_from_its_zone_is_a_victim_on_any_node(self):
        nodes = [room("n1", 2, "a"), room("n2", 2, "a")]
        placed = [one("quiet", "n1"), one("jealous", "n2", spec=self.apart(ZONE, app="gang"))]
        cluster = FullCluster(nodes, placed, member={"labels": {"app": "gang"}})
        assert isinstance(cluster.planner.plan(cluster.members), GangRejection)
        assert cluster.victims() == ["jealous"]

    def test_a_pod_that_the_anti_affinity_of_members_selects_is_a_victim(self):
        nodes = [room("n1", 2, "a"), room("n2", 2, "a")]
        placed = [one("quiet", "n1"), one("noisy", "n2", labels={"app": "noisy"})]
        cluster = FullCluster(nodes, placed, member={"spec": self.apart(ZONE, app="noisy")})
        assert cluster.victims() == ["noisy"]

    def test_members_with_anti_affinity_to_each_other_get_a_node_each(self):
        nodes = [room("n1", 2), room("n2", 2)]
        placed = [one(f"p{i}", f"n{1 + i // 2}") for i in range(4)]
        cluster = FullCluster(
            nodes, placed, members=2, member={"labels": {"app": "gang"}, "spec": self.apart(HOST, app="gang")}
        )
        found = cluster.preempt()
        assert sorted(found.nominations.values()) == ["n1", "n2"]
        assert len(found.victims) == 2

    def test_pods_that_violate_the_spread_constraint_are_victims(self):
        spread = {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "gang"}},
        }
        nodes = [room("n1", 4, "a"), room("n2", 4, "b")]
        placed = [one(f"a{i}", "n1", labels={"app": "gang"}) for i in range(4)] + [
            one(f"b{i}", "n2", 100) for i in range(4)
        ]
        cluster = FullCluster(
            nodes, placed, member={"labels": {"app": "gang"}, "spec": {"topologySpreadConstraints": [spread]}}
        )
        # Zone b is full and has no pod that the constraint selects. So zone a may have only one: the member.
        assert len(cluster.victims()) == 4

    def test_one_pod_of_a_unit_matters_for_its_labels_and_another_for_its_node(self):
        spread = {
            "maxSkew": 5,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
        nodes = [room("n1", 1, "a"), room("n2", 1, "b"), room("n3", 1, "a")]
        placed = [
            one("marked", "n3", 50, group="g", labels={"app": "x"}),
            one("there", "n2", 50, group="g"),
            one("low", "n1"),
            one("high", "n3", 200),
        ]
        member = {"spec": {"topologySpreadConstraints": [spread]}}
        cluster = FullCluster(nodes, placed, members=2, groups=[group_of("g", 50, whole=True)], member=member)
        assert cluster.victims() == ["marked", "there", "low"]

    def test_the_user_of_a_claim_for_one_pod_is_a_victim_on_any_node(self):
        cluster = FullCluster(
            [room("n1", 2), room("n2", 2)],
            [one("quiet", "n1"), one("holder", "n2", spec=MOUNTS)],
            member={"spec": MOUNTS},
        )
        give_claim(cluster)
        assert cluster.victims() == ["holder"]

    def test_a_filter_that_depends_on_more_than_it_declares_runs_for_every_unit(self):
        class Lonely(Plugin, FilterPlugin):
            """Rejects all nodes while more than one pod is on other nodes."""

            name = "Lonely"

            def filter(self, state, pod, node):
                others = sum(len(info.pods) for info in self.handle.cache.nodes.values() if info.name != node.name)
                return unschedulable("not lonely") if others > 1 else None

        nodes = [room(f"n{i}", 1) for i in range(4)]
        placed = [one(f"p{i}", f"n{i}", i) for i in range(1, 4)]
        cluster = FullCluster(nodes, placed, plugins=filtering("Lonely"), classes={**PLUGINS, "Lonely": Lonely})
        # The member gets the free node. Only one other pod may stay: the most important one.
        assert cluster.victims() == ["p2", "p1"]


class Watchful(Plugin, FilterPlugin):
    """Rejects all nodes while a pod named `far` exists."""

    name = "Watchful"

    def filter(self, state, pod, node):
        there = any(other.name == "far" for info in self.handle.cache.nodes.values() for other in info.pods.values())
        return unschedulable("far is there") if there else None


def apart_from(app: str) -> dict:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


class TestVictimsOnNodesThatAreTooSmall:
    @pytest.mark.parametrize(
        ("far", "member", "options"),
        [
            pytest.param(apart_from("gang"), {}, {}, id="its anti-affinity excludes members from its zone"),
            pytest.param({}, apart_from("far"), {}, id="the anti-affinity of members selects it"),
            pytest.param(
                {},
                {
                    "topologySpreadConstraints": [
                        {
                            "maxSkew": 1,
                            "topologyKey": ZONE,
                            "whenUnsatisfiable": "DoNotSchedule",
                            "labelSelector": {"matchLabels": {"kind": "same"}},
                        }
                    ]
                },
                {},
                id="it violates the spread constraint of members",
            ),
            pytest.param(
                MOUNTS,
                MOUNTS,
                {},
                id="it uses a claim for one pod that members need",
            ),
            pytest.param(
                {},
                {},
                {"plugins": filtering("Watchful"), "classes": {**PLUGINS, "Watchful": Watchful}},
                id="an out-of-tree filter notices it",
            ),
        ],
    )
    def test_a_pod_that_affects_other_nodes_is_a_victim(self, far, member, options):
        cluster = FullCluster(
            [room("large", 4), room("small", 1), room("other", 1, "y")],
            [one("far", "small", labels={"app": "far", "kind": "same"}, spec=far)],
            member={"requests": {"cpu": "3"}, "labels": {"app": "gang", "kind": "same"}, "spec": member},
            **options,
        )
        give_claim(cluster)
        assert cluster.victims() == ["far"]


class TestNoVictims:
    @pytest.mark.parametrize(
        ("placed", "groups"),
        [
            pytest.param([], [], id="an empty cluster"),
            pytest.param([one("equal", "n1", 100)], [], id="equal priority"),
            pytest.param([one("high", "n1", 200)], [], id="higher priority"),
            pytest.param(
                [one("low", "n1", 0, group="g")], [group_of("g", 100, whole=True)], id="a group of equal priority"
            ),
        ],
    )
    def test_without_units_of_lower_priority(self, placed, groups):
        found = FullCluster([room("n1", 1)], placed, groups=groups, members=2).preempt()
        assert found.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert found.message == "pod group preemption: No preemption victims found for incoming preemptor"

    def test_a_group_too_large_for_an_empty_cluster_gets_the_message_of_its_minimum(self):
        found = FullCluster([room("n1", 1)], [one("low", "n1")], members=2).preempt()
        assert found.code is Code.UNSCHEDULABLE
        assert found.message == ("pod group preemption: minCount (2) cannot be satisfied: 1 scheduled, 0 remaining")

    @pytest.mark.parametrize(
        ("group", "member"),
        [
            pytest.param({"preemptionPolicy": "Never"}, {}, id="of the group"),
            pytest.param({}, {"spec": {"preemptionPolicy": "Never"}}, id="of its pods, if the group has none"),
        ],
    )
    def test_preemption_policy_never(self, group, member):
        found = FullCluster([room("n1", 1)], [one("low", "n1")], group=group, member=member).preempt()
        assert found == unschedulable("pod group preemption: not eligible due to preemptionPolicy=Never.")

    def test_the_policy_of_the_group_overrides_that_of_its_pods(self):
        cluster = FullCluster(
            [room("n1", 1)],
            [one("low", "n1")],
            group={"preemptionPolicy": "PreemptLowerPriority"},
            member={"spec": {"preemptionPolicy": "Never"}},
        )
        found = cluster.preempt()
        # Planning finds that the members disagree with their group.
        assert found.code is Code.ERROR
        assert "same preemption policy" in found.message

    def test_a_profile_without_default_preemption(self):
        without = {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}
        found = FullCluster([room("n1", 1)], [one("low", "n1")], plugins=without).preempt()
        assert found == unschedulable()


class TestOngoing:
    def terminating(self, name: str, node: str, priority: int = 0, group: str = "") -> dict:
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        return one(
            name,
            node,
            priority,
            group,
            metadata={"deletionTimestamp": "2023-01-01T00:00:00Z"},
            status={"conditions": [condition]},
        )

    def nominated(self, node: str) -> dict:
        return {"status": {"nominatedNodeName": node}}

    def test_a_group_waits_for_victims_that_are_still_terminating(self):
        cluster = FullCluster([room("n1", 1)], [self.terminating("low", "n1")], member=self.nominated("n1"))
        found = cluster.preempt()
        assert found.message == "pod group preemption: ongoing preemption on nominated nodes"
        assert (found.nominations, found.victims) == ({"default/m0": "n1"}, ())

    def test_a_nomination_counts_before_the_api_server_returns_it(self):
        cluster = FullCluster([room("n1", 1)], [self.terminating("low", "n1")])
        cluster.cache.nominator.add(cluster.members[0], "n1")
        assert cluster.preempt().victims == ()

    @pytest.mark.parametrize(
        ("terminating", "groups"),
        [
            pytest.param(("elsewhere", "n2", 0), [], id="on another node"),
            pytest.param(("high", "n1", 200), [], id="of higher priority"),
            pytest.param(("low", "n1", 0, "g"), [group_of("g", 200)], id="of a group of higher priority"),
        ],
    )
    def test_a_group_does_not_wait_for_other_terminating_pods(self, terminating, groups):
        nodes = [room("n1", 2), room("n2", 1)]
        placed = [one("low1", "n1"), one("low2", "n1"), self.terminating(*terminating)]
        found = FullCluster(nodes, placed, groups=groups, member=self.nominated("n1")).preempt()
        assert "found a placement" in found.message


class TestWholeDecision:
    def test_the_groups_message_ends_with_that_of_preemption(self):
        cluster = FullCluster([room("n1", 1)], [one("low", "n1")])
        decision = decide(cluster.planner, cluster.members, NOW)
        assert isinstance(decision, GangRejection)
        assert decision.message == (
            "minCount (1) cannot be satisfied: 0 scheduled, 0 remaining, "
            "pod group preemption: found a placement for podgroup, preempting 1 victims"
        )
        assert isinstance(decision.preemption, GangPreemption)

    def test_a_group_that_fits_without_victims_after_all_is_placed(self):
        cluster = FullCluster([room("n1", 1), room("n2", 1)], [one("low", "n1")])
        planner = cluster.planner
        answers = [GangRejection(planner.group, "not this time"), planner.plan(cluster.members)]

        class Fickle:
            """A planner whose second plan succeeds."""

            framework, cache, group, solve = planner.framework, planner.cache, planner.group, None

            def plan(self, _pods):
                return answers.pop(0)

        assert isinstance(decide(Fickle(), cluster.members, NOW), GangPlacement)

    def test_a_plugin_that_fails_during_reprieve_is_a_fault_and_all_pods_are_restored(self):
        class Breaks(Plugin, FilterPlugin):
            """Works until it has seen the cluster empty."""

            name = "Breaks"
            emptied = False

            def filter(self, state, pod, node):
                if not self.handle.cache.pod_count:
                    type(self).emptied = True
                    return None
                if self.emptied:
                    raise RuntimeError("by accident")
                return unschedulable("no")

        placed = [one("a", "n1"), one("b", "n2")]
        cluster = FullCluster(
            [room("n1", 1), room("n2", 1)], placed, plugins=filtering("Breaks"), classes={**PLUGINS, "Breaks": Breaks}
        )
        decision = decide(cluster.planner, cluster.members, NOW)
        assert isinstance(decision, GangFault)
        assert decision.plugin == "Breaks"
        assert cluster.cache.pod_count == 2
