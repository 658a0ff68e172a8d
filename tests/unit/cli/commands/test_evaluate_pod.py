"""`podwright evaluate --pod` as a user runs it: policies, kinds, gates and plugins of a dumped cluster."""

import json
from typing import ClassVar

import pytest
import yaml
from click.testing import CliRunner

from podwright.cli.main import main
from podwright.core.objects.watched_kinds import WATCHED_KINDS
from support.objects.builders import make_node, make_pod, make_policy
from support.objects.devices import claiming, exactly, make_claim, make_class, make_device, make_slice


def policy(name, precedence=0, generation=1, status=None, **spec):
    return {**make_policy(name, generation, precedence=precedence, **spec), "status": status or {}}


def item(kind, raw):
    return {"kind": kind, **raw}


def named(kind, name, **fields):
    return {"kind": kind, "metadata": {"name": name, "namespace": "default"}, **fields}


NODES = [item("Node", make_node(name, labels={"kubernetes.io/hostname": name})) for name in ("a", "b")]
NAMESPACE = {"kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "gold"}}}
COMPLETE = [
    *NODES,
    item("Pod", make_pod("running", node="a")),
    NAMESPACE,
    named("Service", "kubernetes", spec={}),
    policy("other", schedulerName="other"),
]
BY_NAME = {"strategy": {"type": "NodeName"}}
INVALID = {"strategy": {"type": "Custom"}, "plugins": {"score": {"enabled": [{"name": "Nope"}]}}}


@pytest.fixture
def asked(tmp_path):
    """Runs `evaluate --pod` on these items."""

    def ask(items, *args, pod=None, manifest=None, spec=None, color=False, snapshot=None):
        dump, path = tmp_path / "dump.json", tmp_path / "pod.yaml"
        about = {} if snapshot is None else {"podwright": {"takenAt": "2026-01-01T00:00:00+00:00", **snapshot}}
        dump.write_text(json.dumps({"kind": "List", **about, "items": items}))
        raw = pod or make_pod("p", spec={"schedulerName": "podwright", **(spec or {})})
        path.write_text(manifest or yaml.safe_dump({**raw, "kind": "Pod"}))
        result = CliRunner().invoke(main, ["evaluate", str(dump), "--pod", str(path), *map(str, args)], color=color)
        assert result.exit_code == 0, result.output
        return result.stdout

    return ask


@pytest.fixture
def answered(asked):
    """The same, as JSON."""
    return lambda *args, **more: json.loads(asked(args[0], "--output", "json", *args[1:], **more))


class TestPolicies:
    def test_the_matching_policy_of_the_greatest_precedence_decides(self, asked, answered):
        match = {"namespaceSelector": {"matchLabels": {"team": "gold"}}}
        policies = [
            policy("gold", 10, generation=3, match=match, **BY_NAME),
            policy("low", 1),
            policy("elsewhere", 20, match={"podSelector": {"matchLabels": {"x": "y"}}}),
        ]
        answer = answered([*COMPLETE, *policies])
        assert answer["policy"] == {"name": "gold", "generation": 3}
        assert answer["best"] == ["a"]
        assert "Policy gold, generation 3, takes the pod." in asked([*COMPLETE, *policies])

    def test_the_built_in_policy_decides_if_no_policy_matches(self, asked, answered):
        assert answered(COMPLETE)["policy"] == {"name": "built-in-default", "generation": 0}
        assert "No SchedulerPolicy in the dump takes the pod, so the built-in policy decides." in asked(COMPLETE)

    def test_a_policy_that_is_not_accepted_is_reported(self, asked, answered):
        items = [*COMPLETE, policy("broken", 10, **INVALID)]
        (broken,) = answered(items)["policiesNotAccepted"]
        assert broken["name"] == "broken"
        assert "plugin 'Nope' does not exist" in broken["message"]
        text = asked(items)
        assert "Policy broken, generation 1, is not accepted: spec.plugins.score.enabled[0].name: plugin 'Nope'" in text
        assert "No generation of policy broken was accepted, so the pod would wait." in text
        assert "Without that, it would go to" in text
        answer = answered(items)
        assert answer["policy"]["name"] == "built-in-default"
        assert answer["waitsForPolicy"] == {"name": "broken", "generation": 1}
        answer = answered([*items, policy("next")], "--when-policy-is-bad=default")
        assert (answer["policy"]["name"], "waitsForPolicy" in answer) == ("next", False)

    def test_the_last_accepted_generation_decides_as_in_the_operator(self, answered):
        status = {"lastAccepted": {"generation": 4, "spec": BY_NAME}}
        answer = answered([*COMPLETE, policy("gold", 10, generation=5, status=status, **INVALID)])
        assert answer["policy"] == {"name": "gold", "generation": 4}
        assert answer["best"] == ["a"]

    def test_a_pod_of_another_scheduler_is_said_to_be_ignored(self, asked, answered):
        other = make_pod("p")
        assert answered(COMPLETE, pod=other)["schedulerNameNotServed"] == "default-scheduler"
        text = asked(COMPLETE, pod=other)
        assert "No policy serves the pod's scheduler name default-scheduler, so Podwright would ignore the pod." in text
        replaced = answered(COMPLETE, "--scheduler-name", "default-scheduler", pod=other)
        assert "schedulerNameNotServed" not in replaced

    def test_policies_may_do_what_the_flags_of_the_operator_allow(self, answered):
        unsafe = {"strategy": {"type": "Custom"}, "plugins": {"filter": {"disabled": [{"name": "NodeName"}]}}}
        items = [*COMPLETE, policy("unsafe", **unsafe), policy("taken", schedulerName="default-scheduler")]
        assert [each["name"] for each in answered(items)["policiesNotAccepted"]] == ["unsafe", "taken"]
        flags = ("--allow-unsafe-policies", "--allowed-scheduler-names", "default-scheduler,other")
        assert "policiesNotAccepted" not in answered(items, *flags)
        flags = ("--allow-unsafe-policies", "--scheduler-name=default-scheduler", "--allowed-scheduler-names=podwright")
        assert [each["name"] for each in answered(items, *flags)["policiesNotAccepted"]] == ["other"]

    def test_plugins_of_a_directory_can_be_used(self, answered, tmp_path):
        (tmp_path / "only_b.py").write_text(
            "from podwright.core.framework.interface import FilterPlugin, Plugin\n"
            "from podwright.core.framework.status import unresolvable\n"
            "class OnlyB(Plugin, FilterPlugin):\n"
            "    name = 'OnlyB'\n"
            "    def filter(self, state, pod, node):\n"
            "        return None if node.present.name == 'b' else unresolvable('not b')\n"
        )
        spec = {"strategy": {"type": "Custom"}, "plugins": {"filter": {"enabled": [{"name": "OnlyB"}]}}}
        items = [*COMPLETE, policy("only-b", **spec)]
        assert answered(items, "--plugin-dir", tmp_path)["best"] == ["b"]
        assert "'OnlyB' does not exist" in answered(items)["policiesNotAccepted"][0]["message"]


class TestMissingKinds:
    @pytest.mark.parametrize(
        ("items", "pod", "missing"),
        [
            pytest.param(COMPLETE, {}, [], id="nothing is missing"),
            pytest.param(NODES, {}, ["Namespace", "Pod", "SchedulerPolicy", "Service"], id="only nodes"),
            pytest.param(
                COMPLETE,
                {"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}]}},
                ["ReplicaSet"],
                id="the controller of the pod",
            ),
            pytest.param(COMPLETE, {"spec": {"schedulingGroup": {"podGroupName": "train"}}}, ["PodGroup"], id="the group of the pod"),
            pytest.param(
                COMPLETE,
                {"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}},
                ["CSIDriver", "CSINode", "CSIStorageCapacity", "PersistentVolume", "PersistentVolumeClaim", "StorageClass", "VolumeAttachment"],
                id="everything about volumes, for a pod with a claim",
            ),
            pytest.param(
                COMPLETE, {"requests": {"example.com/gpu": "1"}}, ["DeviceClass", "PodDisruptionBudget"], id="the class of an extended resource that no node offers"
            ),
            pytest.param(
                [*COMPLETE, *(item("Pod", make_pod(f"low-{node}", node=node, priority=-5, requests={"cpu": "8"})) for node in "ab")],
                {"requests": {"cpu": "8"}, "priority": 9},
                ["PodDisruptionBudget"],
                id="the budgets of victims",
            ),
        ],
    )  # fmt: skip
    def test_kinds_that_the_answer_depends_on(self, answered, items, pod, missing):
        spec = {"schedulerName": "podwright", **pod.get("spec", {})}
        answer = answered(items, pod=make_pod("p", **{**pod, "spec": spec}))
        assert answer.get("missingKinds", []) == missing

    @pytest.mark.parametrize(
        ("unread", "missing"),
        [
            ({}, []),
            ({"Service": "the API server does not serve it"}, []),
            ({"Service": "no right to list it", "Lease": "no right to list it"}, ["Service"]),
            ({"PodGroup.scheduling.x-k8s.io": "no right to list it"}, ["PodGroup"]),
        ],
    )
    def test_a_snapshot_says_itself_what_it_lacks(self, answered, unread, missing):
        spec = {"schedulingGroup": {"podGroupName": "train"}} if "PodGroup" in missing else None
        answer = answered([*NODES, NAMESPACE], spec=spec, snapshot={"missing": unread})
        assert answer.get("missingKinds", []) == missing

    def test_the_report_names_them_and_how_to_dump_them(self, asked):
        text = asked(NODES)
        assert "missing from the dump: Namespace, Pod, SchedulerPolicy, Service." in text
        assert "`podwright evaluate --kinds`" in text

    def test_kinds_prints_every_kind_that_is_watched_the_policies_and_the_templates_of_claims(self):
        (line,) = CliRunner().invoke(main, ["evaluate", "--kinds"]).stdout.splitlines()
        custom = ["podgroups.scheduling.k8s.io", "compositepodgroups.scheduling.k8s.io", "podgroups.scheduling.x-k8s.io", "podgroups.scheduling.volcano.sh", "podgroups.scheduling.run.ai", "podgangs.scheduler.grove.io", "schedulerpolicies", "localschedulerpolicies", "resourceclaimtemplates", "schedulingqueues", "workloadgroupings", "queues.scheduling.run.ai", "queues.scheduling.volcano.sh", "reservations.podwright.dev", "workloads.kueue.x-k8s.io", "resourceflavors.kueue.x-k8s.io"]  # fmt: skip
        assert line.split(",") == [*(watched.plural for watched in WATCHED_KINDS), *custom]

    def test_kinds_that_the_api_server_does_not_serve_can_be_left_out(self):
        served = "pods\nnodes\ncsinodes.storage.k8s.io\npods.metrics.k8s.io\npodgroups.scheduling.x-k8s.io\nschedulerpolicies.podwright.dev\n"
        result = CliRunner().invoke(main, ["evaluate", "--kinds", "-"], input=served)
        assert result.stdout.strip().split(",") == ["nodes", "pods", "csinodes", "podgroups.scheduling.x-k8s.io", "schedulerpolicies"]  # fmt: skip


def test_a_gated_pod_is_said_to_be_gated(asked, answered):
    spec = {"schedulingGates": [{"name": "example.com/quota"}]}
    assert answered(COMPLETE, spec=spec)["gated"] == {
        "plugin": "SchedulingGates",
        "reasons": ["waiting for scheduling gates: [example.com/quota]"],
    }
    text = asked(COMPLETE, spec=spec)
    assert (
        "The pod is gated, and not scheduled: SchedulingGates: waiting for scheduling gates: [example.com/quota]."
        in text
    )
    assert "The pod would go to" not in text


def test_a_pod_of_a_pod_group_is_answered_alone_and_the_report_says_so(asked):
    text = asked(COMPLETE, spec={"schedulingGroup": {"podGroupName": "train"}})
    assert "The pod belongs to the PodGroup default/train, whose pods are placed all together or not at all." in text


class TestGroups:
    """The pod `p` is of the group `gang` of each API whose groups name a PriorityClass; `low` of priority 5 fills node
    a, and other pods of priority 1,000 fill b.
    """

    GROUPS: ClassVar = {
        "scheduling.volcano.sh/v1beta1": ("PodGroup", {"annotations": {"scheduling.k8s.io/group-name": "gang"}}, {"minMember": 1}),
        "scheduling.run.ai/v2alpha2": ("PodGroup", {"annotations": {"pod-group-name": "gang"}}, {"minMember": 1}),
        "scheduler.grove.io/v1alpha1": (
            "PodGang",
            {"labels": {"grove.io/podgang": "gang", "grove.io/podclique": "c"}},
            {"podgroups": [{"name": "c", "minReplicas": 1}]},
        ),
    }  # fmt: skip
    CLASS: ClassVar = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}

    def ask(self, answered, version, items, *, least=1, **more):
        kind, metadata, spec = self.GROUPS[version]
        if "minMember" in spec:
            spec = {"minMember": least}
        group = named(kind, "gang", apiVersion=version, spec={**spec, "priorityClassName": "high"})
        full = [item("Pod", make_pod(f"on-{node}", node=node, requests={"cpu": "8"}, priority=5 if node == "a" else 1000)) for node in "ab"]  # fmt: skip
        spec = {"schedulerName": "podwright"}
        pod = make_pod("p", requests={"cpu": "8"}, metadata=metadata, spec=spec, **more)
        return answered([*COMPLETE[:2], *full, *COMPLETE[3:], group, *items], pod=pod)

    @pytest.mark.parametrize("version", GROUPS)
    def test_the_pod_has_the_priority_of_the_class_that_its_group_names(self, answered, version):
        answer = self.ask(answered, version, [self.CLASS])
        assert answer["preemption"]["victims"] == ["default/on-a"]
        assert answer["podGroup"] == "default/gang"
        assert "PriorityClass" not in answer.get("missingKinds", [])

    @pytest.mark.parametrize("version", GROUPS)
    def test_without_the_class_it_has_its_own_and_the_class_is_said_to_be_missing(self, answered, version):
        answer = self.ask(answered, version, [])
        assert answer["preemption"]["victims"] == []
        assert "PriorityClass" in answer["missingKinds"]

    def test_members_that_run_have_it_too(self, answered):
        version, (kind, metadata, spec) = next(iter(self.GROUPS.items()))
        group = named(kind, "gang", apiVersion=version, spec={**spec, "priorityClassName": "high"})
        running = [item("Pod", make_pod(f"m{node}", node=node, requests={"cpu": "8"}, metadata=metadata)) for node in "ab"]  # fmt: skip
        pod = make_pod("p", requests={"cpu": "8"}, priority=50, spec={"schedulerName": "podwright"})
        for items, victims in (([group], 1), ([group, self.CLASS], 0)):
            assert len(answered([*COMPLETE, *running, *items], pod=pod)["preemption"]["victims"]) == victims

    def test_the_pod_waits_for_the_minimum_of_its_group(self, answered):
        version = "scheduling.volcano.sh/v1beta1"
        other = make_pod("q", metadata=self.GROUPS[version][1])
        assert self.ask(answered, version, [], least=2)["gated"]["plugin"] == "GangScheduling"
        assert "gated" not in self.ask(answered, version, [item("Pod", other)], least=2)

    def test_a_group_is_a_victim_as_a_whole(self, answered):
        version, (kind, metadata, _) = next(iter(self.GROUPS.items()))
        group = named(kind, "gang", apiVersion=version, spec={"minMember": 2})
        running = [item("Pod", make_pod(f"m{node}", node=node, requests={"cpu": "8"}, metadata=metadata)) for node in "ab"]  # fmt: skip
        pod = make_pod("p", requests={"cpu": "8"}, priority=50, spec={"schedulerName": "podwright"})
        answer = answered([*COMPLETE, *running, group], pod=pod)
        assert sorted(answer["preemption"]["victims"]) == ["default/ma", "default/mb"]

    def test_an_invalid_group_harms_no_other_pod(self, answered):
        bad = named("PodGroup", "bad", apiVersion="scheduling.volcano.sh/v1beta1", spec={"minMember": -1})
        assert answered([*COMPLETE, bad])["best"] == answered(COMPLETE)["best"]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        pytest.param({"kind": "Service"}, "Service ?: metadata.name: a name is required", id="an object has no name"),
        pytest.param({"kind": "Node", "metadata": 1}, "Node ?: metadata", id="metadata of a node is a number"),
        pytest.param(named("PodGroup", "g", apiVersion="none/v1"), "'none/v1' is no API of pod groups", id="a group"),
    ],
)
def test_an_object_that_cannot_be_understood_is_named_and_affects_no_other(asked, answered, wrong, problem):
    (told,) = answered([*COMPLETE, wrong])["problems"]
    assert problem in told
    assert answered([*COMPLETE, wrong])["best"] == answered(COMPLETE)["best"]
    assert f"Problem: {told}" in asked([*COMPLETE, wrong])


def test_a_manifest_with_separators_around_it_is_read(asked):
    manifest = "---\n# a comment\n---\nkind: Pod\nmetadata: {name: p}\nspec: {schedulerName: podwright}\n---\n"
    assert "The pod would go to" in asked(COMPLETE, manifest=manifest)


def test_top_limits_the_table(asked):
    text = asked(COMPLETE, "--top", 1)
    assert "and 1 more feasible node\n" in text


class TestDevices:
    ITEMS = (
        *COMPLETE,
        item("DeviceClass", make_class("gpu", extendedResourceName="example.com/gpu")),
        item("ResourceSlice", make_slice("s", [make_device(f"g{i}") for i in range(3)], node="a")),
        item("ResourceClaim", make_claim("two", exactly(count=2))),
        item("ResourceClaim", make_claim("one", exactly())),
    )
    EXTENDED: ClassVar = {"containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]}

    @pytest.mark.parametrize(
        "spec, sentences",
        [
            pytest.param(claiming("two"), ["On a, claim two would get gpu.example.com/a/g0, gpu.example.com/a/g1."], id="a claim"),
            pytest.param(
                claiming("one", "two"),
                ["On a, claim one would get gpu.example.com/a/g0.", "On a, claim two would get gpu.example.com/a/g1, gpu.example.com/a/g2."],
                id="two claims",
            ),
            pytest.param(EXTENDED, ["On a, the claim for its extended resources would get gpu.example.com/a/g0."], id="extended resources"),
            pytest.param(
                {"resourceClaims": [{"name": name, "resourceClaimName": "one"} for name in "xy"]},
                ["On a, claim one would get gpu.example.com/a/g0."],
                id="a claim that the pod names twice",
            ),
        ],
    )  # fmt: skip
    def test_the_devices_of_each_claim_are_named(self, asked, spec, sentences):
        assert [line for line in asked(self.ITEMS, spec=spec).splitlines() if "would get" in line] == sentences

    def test_the_report_says_that_a_pod_waits_for_its_devices(self, asked):
        slow = make_slice("s", [make_device("g0", bindingConditions=["x"])], node="a")
        claim = item("ResourceClaim", make_claim("one", exactly()))
        printed = asked(
            (*COMPLETE, item("DeviceClass", make_class("gpu")), item("ResourceSlice", slow), claim),
            spec=claiming("one"),
        )
        assert "The pod would wait until the binding conditions of its devices on a are met." in printed

    def test_limits_are_requests_where_there_are_none_as_in_the_api_server(self, asked):
        resources = {"limits": {"example.com/gpu": "2", "cpu": "1"}, "requests": {"cpu": "100m"}}
        printed = asked(self.ITEMS, spec={"containers": [{"name": "c", "resources": resources}]})
        assert "the claim for its extended resources would get gpu.example.com/a/g0, gpu.example.com/a/g1." in printed

    def test_a_pod_without_claims_gets_no_devices(self, asked):
        assert "would get" not in asked(self.ITEMS)


def test_the_table_has_its_colours_on_a_terminal_only(asked):
    assert "\\x1b" not in asked(COMPLETE)
    assert "\x1b[1mNODE" in asked(COMPLETE, color=True)
    assert "\x1b" not in asked(COMPLETE)
