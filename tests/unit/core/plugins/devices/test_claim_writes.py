import asyncio
from dataclasses import replace

import pytest

from podwright.core.framework.interface import ClusterError, CycleState
from podwright.core.framework.status import SKIP, Code
from podwright.core.objects.devices.claims import FINALIZER
from podwright.core.objects.pod_group import KIND, WORKLOAD_API
from podwright.core.plugins.devices.claim_writes import Deallocation
from podwright.core.plugins.devices.dynamic_resources import DynamicResources
from podwright.engine.records.metrics import Metrics
from support.objects.builders import in_group, make_node, make_pod_group
from support.objects.devices import (
    DRIVER,
    allocated,
    claiming,
    exactly,
    make_claim,
    make_class,
    make_device,
    make_slice,
)
from support.plugins.claim_server import ClaimServer
from support.plugins.kit import build, make_cache, pending

DEVICE = (DRIVER, "a", "gpu-0")
WAITED_FOR = "scheduler_dra_bindingconditions_allocations_total"
WAITS = "scheduler_dra_bindingconditions_wait_duration_seconds_count"
CREATIONS = "dynamic_resource_allocation_resourceclaim_creates_total"


class Scheduler:
    """The plugin on a node with one device, and the API server."""

    def __init__(self, *claims, **device):
        self.cache = make_cache([make_node("a")])
        self.cache.set_object("DeviceClass", make_class("gpu", extendedResourceName="example.com/gpu"))
        self.cache.set_object("ResourceSlice", make_slice("s", [make_device("gpu-0", **device)], node="a"))
        self.plugin = build(DynamicResources, self.cache)
        self.metrics = self.plugin.handle.observer = Metrics(lambda: 0.0)
        self.server = self.plugin.handle.cluster = ClaimServer(self.cache)
        for claim in claims:
            self.server.add(claim)
        self.state = CycleState()

    def reserve(self, pod):
        assert self.plugin.pre_filter(self.state, pod) is None
        assert self.plugin.reserve(self.state, pod, "a") is None

    async def bind(self, pod):
        self.reserve(pod)
        return await self.plugin.pre_bind(self.state, pod, "a")

    async def unreserve(self, pod):
        self.plugin.unreserve(self.state, pod, "a")
        for follow_up in self.state.follow_ups:
            await follow_up()

    def metric(self, name):
        """The samples of a metric that are not 0, by its labels."""
        samples = (sample for family in self.metrics.registry.collect() for sample in family.samples)
        return {tuple(each.labels.values()): each.value for each in samples if each.name == name and each.value}

    @property
    def in_use(self):
        return self.cache.devices.claims.usage.in_use(DEVICE)


POD = pending(name="p", spec=claiming("mine"))


async def test_the_allocation_and_the_reservation_are_written():
    scheduler = Scheduler(make_claim("mine", exactly()))
    assert await scheduler.bind(POD) is None
    written = scheduler.server.claims["mine"]
    assert written["metadata"]["finalizers"] == [FINALIZER]
    allocation = written["status"]["allocation"]
    assert [result["device"] for result in allocation["devices"]["results"]] == ["gpu-0"]
    assert allocation["allocationTimestamp"] == "2023-11-14T22:13:20Z"
    assert written["status"]["reservedFor"] == [{"resource": "pods", "name": "p", "uid": POD.uid}]
    assert scheduler.server.writes == ["update mine", "update mine/status"]
    assert scheduler.in_use, "before the watch delivers it"
    scheduler.server.deliver()
    assert scheduler.in_use


async def test_an_allocated_claim_only_gets_the_reservation():
    scheduler = Scheduler(make_claim("mine", exactly(), status=allocated("gpu-0", node="a", reserved_for=["other"])))
    assert await scheduler.bind(POD) is None
    assert scheduler.server.writes == ["update mine/status"]
    assert [e["uid"] for e in scheduler.server.claims["mine"]["status"]["reservedFor"]] == ["other", POD.uid]


async def test_a_pod_that_is_entered_already_writes_nothing():
    scheduler = Scheduler(make_claim("mine", exactly(), status=allocated("gpu-0", node="a", reserved_for=[POD.uid])))
    assert await scheduler.bind(POD) is None
    assert scheduler.server.writes == []


async def test_a_conflict_is_tried_again_with_the_newest_version():
    scheduler = Scheduler(make_claim("mine", exactly()))
    scheduler.reserve(POD)
    scheduler.server.change("mine", lambda raw: raw["metadata"].update(labels={"new": "label"}))
    assert await scheduler.plugin.pre_bind(scheduler.state, POD, "a") is None
    written = scheduler.server.claims["mine"]
    assert written["metadata"]["labels"] == {"new": "label"}
    assert written["status"]["allocation"]


@pytest.mark.parametrize(
    "change, text",
    [
        pytest.param(
            lambda raw: raw.update(status=allocated("gpu-9", node="b")),
            "claim default/mine got allocated elsewhere in the meantime",
            id="somebody else has allocated it",
        ),
        pytest.param(
            lambda raw: raw["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"),
            "claim default/mine got deleted in the meantime",
            id="it is being deleted",
        ),
        pytest.param(
            lambda raw: raw["metadata"].update(uid="another"),
            "claim default/mine got deleted in the meantime",
            id="it is another claim of the same name",
        ),
    ],
)
async def test_what_happened_meanwhile_fails_the_pod_and_gives_the_devices_back(change, text):
    scheduler = Scheduler(make_claim("mine", exactly()))
    scheduler.reserve(POD)
    scheduler.server.change("mine", change)
    status = await scheduler.plugin.pre_bind(scheduler.state, POD, "a")
    assert (status.code, status.message) == (Code.ERROR, text)
    await scheduler.unreserve(POD)
    assert not scheduler.in_use


async def test_a_failed_write_gives_the_devices_back():
    scheduler = Scheduler(make_claim("mine", exactly()))

    def fail(_what):
        raise ClusterError("gone")

    scheduler.server.before_write = fail
    status = await scheduler.bind(POD)
    assert (status.code, status.message) == (Code.ERROR, "gone")
    assert scheduler.in_use, "until Unreserve"
    await scheduler.unreserve(POD)
    assert not scheduler.in_use


async def test_a_pod_that_is_not_bound_leaves_the_reservation():
    scheduler = Scheduler(make_claim("mine", exactly()))
    assert await scheduler.bind(POD) is None
    await scheduler.unreserve(POD)
    assert scheduler.server.claims["mine"]["status"]["reservedFor"] == []
    assert scheduler.server.claims["mine"]["status"]["allocation"], "as in kube-scheduler, it keeps its devices"
    assert scheduler.in_use


async def test_the_claim_for_extended_resources_is_created_and_named_in_the_pod():
    scheduler, pod = Scheduler(), pending(name="p", requests={"example.com/gpu": "1"})
    assert await scheduler.bind(pod) is None
    (name,) = scheduler.server.claims
    created = scheduler.server.claims[name]
    assert name.startswith("p-extended-resources-")
    assert created["metadata"]["ownerReferences"][0]["uid"] == pod.uid
    assert created["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert created["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
    assert scheduler.server.writes == ["create", f"update {name}/status", "patch Pod p"]
    assert created["metadata"]["finalizers"] == [FINALIZER]
    ((kind, pod_name, change),) = scheduler.server.patches
    assert (kind, pod_name) == ("Pod", "p")
    assert change["status"]["extendedResourceClaimStatus"]["resourceClaimName"] == name
    await scheduler.unreserve(pod)
    assert scheduler.server.claims == {}
    scheduler.server.deliver()
    assert not scheduler.in_use


async def test_a_claim_that_an_earlier_attempt_has_left_is_deleted():
    scheduler, pod = Scheduler(), pending(name="p", requests={"example.com/gpu": "1"})
    assert await scheduler.bind(pod) is None
    scheduler.server.deliver()
    scheduler.state = state = CycleState()
    assert scheduler.plugin.pre_filter(state, pod) is None
    result = scheduler.plugin.filter_all(state, pod, scheduler.cache.table)
    assert result.explain()[1][result.explain()[0][0]].message == "cannot schedule extended resource claim"
    assert scheduler.plugin.post_filter(state, pod, None)[1].message == "deletion of ResourceClaim completed"
    (follow_up,) = state.follow_ups
    await follow_up()
    assert scheduler.server.claims == {}


async def test_a_claim_that_is_of_no_use_loses_its_devices():
    claim = make_claim("mine", exactly(), status=allocated("gpu-0", node="gone", reserved_for=[POD.uid]))
    scheduler, state = Scheduler(claim), CycleState()
    assert scheduler.plugin.pre_filter(state, POD) is None
    scheduler.plugin.filter_all(state, POD, scheduler.cache.table)
    scheduler.plugin.post_filter(state, POD, None)
    (follow_up,) = state.follow_ups
    await follow_up()
    assert scheduler.server.claims["mine"]["status"] == {}


async def test_the_pod_waits_until_its_devices_are_ready():
    conditions = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    scheduler = Scheduler(make_claim("mine", exactly()), **conditions)
    looks = []

    def driver(what):
        if what == "wait":
            looks.append(what)
            if len(looks) == 3:
                status = {
                    "driver": DRIVER,
                    "pool": "a",
                    "device": "gpu-0",
                    "conditions": [{"type": "ready", "status": "True"}],
                }
                scheduler.server.change("mine", lambda raw: raw["status"].update(devices=[status]))

    scheduler.server.before_write = driver
    assert await scheduler.bind(POD) is None
    assert len(looks) == 3
    assert scheduler.metric(WAITED_FOR) == {(POD.scheduler_name, DRIVER, "success"): 1}
    assert scheduler.metric(WAITS) == {(POD.scheduler_name, DRIVER, "success"): 1}


async def test_a_device_that_fails_to_become_ready_fails_the_pod():
    conditions = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    scheduler = Scheduler(make_claim("mine", exactly()), **conditions)

    def driver(what):
        if what == "wait":
            broken = {"type": "broken", "status": "True", "reason": "R", "message": "m"}
            status = {"driver": DRIVER, "pool": "a", "device": "gpu-0", "conditions": [broken]}
            scheduler.server.change("mine", lambda raw: raw["status"].update(devices=[status]))

    scheduler.server.before_write = driver
    status = await scheduler.bind(POD)
    assert status.message == 'device binding failed: claim=mine, reason=R, message="m"'
    event = ("p", "BindingConditionsPending", "waiting for binding conditions for device on node a")
    assert scheduler.plugin.handle.events == [event]
    assert scheduler.metric(WAITED_FOR) == {(POD.scheduler_name, DRIVER, "failure"): 1}


async def test_a_wait_for_devices_that_ends_without_them_is_counted():
    scheduler = Scheduler(
        make_claim("mine", exactly()), bindingConditions=["ready"], bindingFailureConditions=["broken"]
    )
    scheduler.plugin = build(DynamicResources, scheduler.cache, {"bindingTimeout": "1s"})
    scheduler.plugin.handle.cluster, scheduler.plugin.handle.observer = scheduler.server, scheduler.metrics
    status = await scheduler.bind(POD)
    assert status.message == "device binding timeout: claim=mine"
    assert scheduler.metric(WAITED_FOR) == {(POD.scheduler_name, DRIVER, "timeout"): 1}


async def test_devices_without_conditions_are_not_waited_for():
    scheduler = Scheduler(make_claim("mine", exactly()))
    assert await scheduler.bind(POD) is None
    assert scheduler.metric(WAITED_FOR) == scheduler.metric(WAITS) == {}


async def test_creations_of_claims_for_extended_resources_are_counted():
    scheduler, pod = Scheduler(), pending(name="p", requests={"example.com/gpu": "1"})

    def refuse(what):
        if what == "create":
            raise ClusterError("not now", 500)

    scheduler.server.before_write = refuse
    assert (await scheduler.bind(pod)).message == "not now"
    await scheduler.unreserve(pod)
    scheduler.server.before_write = lambda _what: None
    scheduler.state = CycleState()
    assert await scheduler.bind(pod) is None
    assert scheduler.metric(CREATIONS) == {("failure", "false", "", "Pod"): 1, ("success", "false", "", "Pod"): 1}


async def test_a_pod_that_names_a_claim_twice_gets_its_devices_in_the_second_attempt():
    """Each entry asks for devices, as in kube-scheduler; the claim keeps those of the first one."""
    scheduler, pod = Scheduler(make_claim("mine", exactly())), pending(name="p", spec=claiming("mine", "mine"))
    two = make_slice("s", [make_device(f"gpu-{i}") for i in range(2)], node="a")
    scheduler.cache.set_object("ResourceSlice", two)
    status = await scheduler.bind(pod)
    assert status.message == "claim default/mine got allocated elsewhere in the meantime"
    await scheduler.unreserve(pod)
    scheduler.server.deliver()
    assert len(scheduler.cache.devices.claims.usage) == 1
    scheduler.state = CycleState()
    assert await scheduler.bind(pod) is None
    (result,) = scheduler.server.claims["mine"]["status"]["allocation"]["devices"]["results"]
    assert result["device"] == "gpu-0"
    assert [each["name"] for each in scheduler.server.claims["mine"]["status"]["reservedFor"]] == ["p"]


async def test_pods_without_claims_need_no_pre_bind():
    scheduler, pod = Scheduler(), pending(name="q")
    scheduler.plugin.pre_filter(scheduler.state, pod)
    assert scheduler.plugin.pre_bind_pre_flight(scheduler.state, pod, "a") is SKIP
    assert await scheduler.plugin.pre_bind(scheduler.state, pod, "a") is None


# Other schedulers


class Rival:
    """Another scheduler gives the device to the claim `theirs`, right before (or after) our allocation is written to
    `mine`.
    """

    def __init__(self, after=False):
        self.scheduler = Scheduler(make_claim("mine", exactly()), make_claim("theirs", exactly()))
        self._after = after
        self.scheduler.server.before_write = self._allocates

    def _allocates(self, what):
        if what == ("wait" if self._after else "update mine/status"):
            self.scheduler.server.before_write = lambda _what: None
            self.scheduler.server.change("theirs", lambda raw: raw.update(status=allocated("gpu-0", node="a")))


async def test_a_device_that_another_claim_got_earlier_is_given_back_before_the_pod_is_bound():
    scheduler = Rival().scheduler
    status = await scheduler.bind(POD)
    text = f"claim default/mine: device {DRIVER}/a/gpu-0 is also allocated to claim default/theirs, by another scheduler at the same time"
    assert (status.code, status.message) == (Code.ERROR, text)
    await scheduler.unreserve(POD)
    assert scheduler.server.claims["mine"]["status"] == {}
    assert scheduler.server.claims["theirs"]["status"]["allocation"]
    scheduler.server.deliver()
    assert scheduler.in_use, "by theirs"


async def test_a_device_that_another_claim_got_later_is_kept():
    scheduler, found = Rival(after=True).scheduler, []
    scheduler.cache.devices.claims.on_rival = lambda claim, rival: found.append((claim.name, rival.claim))
    assert await scheduler.bind(POD) is None
    assert scheduler.server.claims["mine"]["status"]["allocation"]
    assert found == [("theirs", ("default", "mine"))]


async def test_a_claim_that_lost_its_device_is_found_again_if_it_could_not_be_given_back():
    scheduler = Rival().scheduler
    assert (await scheduler.bind(POD)).code is Code.ERROR

    def fail(_what):
        raise ClusterError("gone")

    scheduler.server.before_write = fail
    await scheduler.unreserve(POD)
    scheduler.server.before_write = lambda _what: None
    scheduler.state = CycleState()
    assert (await scheduler.bind(POD)).message.startswith("claim default/mine: device")
    await scheduler.unreserve(POD)
    assert scheduler.server.claims["mine"]["status"] == {}


async def test_the_pod_is_not_bound_before_the_watch_shows_its_claim():
    scheduler = Scheduler(make_claim("mine", exactly()))
    scheduler.server.deliver = lambda: None
    assert (await scheduler.bind(POD)).message == "the watch does not show what was written to claim default/mine"


async def test_the_devices_of_all_claims_are_named():
    scheduler = Scheduler(
        make_claim("mine", exactly()), make_claim("old", exactly(), status=allocated("gpu-7", node="a"))
    )
    scheduler.reserve(pending(name="p", spec=claiming("old", "mine")))
    assert scheduler.state.devices == (f"{DRIVER}/a/gpu-7", f"{DRIVER}/a/gpu-0")


async def test_a_reservation_that_was_taken_back_since_the_decision_is_written_again():
    scheduler = Scheduler(make_claim("mine", exactly()))
    assert await scheduler.bind(POD) is None
    scheduler.plugin.unreserve(scheduler.state, POD, "a")
    (undo,) = scheduler.state.follow_ups
    scheduler.server.deliver()
    scheduler.state = CycleState()
    scheduler.reserve(POD)
    await undo()
    assert await scheduler.plugin.pre_bind(scheduler.state, POD, "a") is None
    assert [entry["uid"] for entry in scheduler.server.claims["mine"]["status"]["reservedFor"]] == [POD.uid]


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(POD, id="a claim of its own"),
        pytest.param(pending(name="p", requests={"example.com/gpu": "1"}), id="extended resources"),
    ],
)
async def test_a_pod_that_another_process_has_bound_keeps_its_claim(pod):
    scheduler = Scheduler(*([make_claim("mine", exactly())] if pod is POD else []))
    assert await scheduler.bind(pod) is None
    scheduler.server.pods["p"] = {"metadata": {"uid": pod.uid}, "spec": {"nodeName": "a"}}
    await scheduler.unreserve(pod)
    (claim,) = scheduler.server.claims.values()
    assert [entry["uid"] for entry in claim["status"]["reservedFor"]] == [pod.uid]


@pytest.mark.parametrize(
    "there",
    [
        pytest.param({"metadata": {"uid": POD.uid}, "spec": {}}, id="pending"),
        pytest.param({"metadata": {"uid": "another"}, "spec": {"nodeName": "a"}}, id="another pod of this name"),
    ],
)
async def test_a_pod_without_a_node_leaves_the_reservation(there):
    scheduler = Scheduler(make_claim("mine", exactly()))
    assert await scheduler.bind(POD) is None
    scheduler.server.pods["p"] = there
    await scheduler.unreserve(POD)
    assert scheduler.server.claims["mine"]["status"]["reservedFor"] == []


async def test_nothing_is_taken_back_while_it_is_not_known_whether_the_pod_is_bound():
    scheduler = Scheduler(make_claim("mine", exactly()))
    assert await scheduler.bind(POD) is None
    writes, get = [*scheduler.server.writes], scheduler.server.get

    async def refuse(kind, *arguments):
        if kind == "Pod":
            raise ClusterError("gone")
        return await get(kind, *arguments)

    scheduler.server.get = refuse
    await scheduler.unreserve(POD)
    assert scheduler.server.writes == writes


def from_template(claim):
    """The pod that names this claim, which was made for it."""
    spec = {"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]}
    status = {"resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": claim}]}
    return pending(name="p", spec=spec, status=status)


async def test_a_claim_that_the_pod_no_longer_names_loses_its_devices():
    """kube-controller-manager made a second one, because it did not get the answer to the first creation."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": POD.uid, "controller": True}
    claims = [make_claim(name, exactly(), ownerReferences=[owner]) for name in ("first", "second")]
    scheduler = Scheduler(*claims)
    assert await scheduler.bind(from_template("first")) is None
    await scheduler.unreserve(from_template("second"))
    assert scheduler.server.claims["first"]["status"] == {}
    scheduler.state = CycleState()
    assert await scheduler.bind(from_template("second")) is None
    assert scheduler.server.claims["second"]["status"]["allocation"]


class Lossy:
    """Writes of this method are carried out, but their answers are lost."""

    def __init__(self, server, method):
        self._server = server
        self._carry_out = getattr(server, method)
        setattr(server, method, self)
        self._method = method

    async def __call__(self, *arguments):
        await self._carry_out(*arguments)
        raise ClusterError("no answer")

    def over(self):
        setattr(self._server, self._method, self._carry_out)


async def test_a_reservation_that_may_have_been_taken_back_is_looked_at_before_the_pod_is_bound():
    scheduler = Scheduler(make_claim("mine", exactly()))
    assert await scheduler.bind(POD) is None
    lossy = Lossy(scheduler.server, "patch")
    await scheduler.unreserve(POD)
    lossy.over()
    scheduler.state = CycleState()
    assert await scheduler.bind(POD) is None
    assert [entry["uid"] for entry in scheduler.server.claims["mine"]["status"]["reservedFor"]] == [POD.uid]
    assert not scheduler.cache.devices.claims.doubted


async def test_a_pod_is_not_bound_with_a_claim_that_may_have_been_deallocated():
    claim = make_claim("mine", exactly(), status=allocated("gpu-0", node="a", reserved_for=[POD.uid]))
    scheduler = Scheduler(claim)
    known = scheduler.cache.devices.claims.get("default", "mine")
    lossy = Lossy(scheduler.server, "update")
    await Deallocation(scheduler.plugin.handle, known)()
    lossy.over()
    scheduler.server.deliver = lambda: None
    status = await scheduler.bind(POD)
    assert status.message == "claim default/mine got deallocated elsewhere in the meantime"


async def test_nothing_is_kept_of_a_doubted_claim_that_is_gone():
    claim = make_claim("mine", exactly(), status=allocated("gpu-0", node="a", reserved_for=[POD.uid]))
    scheduler = Scheduler(claim)
    scheduler.server.before_write = lambda _what: (_ for _ in ()).throw(ClusterError("gone"))
    await Deallocation(scheduler.plugin.handle, scheduler.cache.devices.claims.get("default", "mine"))()
    assert scheduler.cache.devices.claims.doubted == {"uid-mine"}
    scheduler.server.claims.clear()
    scheduler.server.deliver()
    assert not scheduler.cache.devices.claims.doubted


async def test_a_claim_is_not_doubted_if_it_was_gone_before_the_write():
    claim = make_claim("mine", exactly(), status=allocated("gpu-0", node="a", reserved_for=[POD.uid]))
    scheduler = Scheduler(claim)
    known = scheduler.cache.devices.claims.get("default", "mine")
    scheduler.server.claims.clear()
    scheduler.server.deliver()
    scheduler.server.before_write = lambda _what: (_ for _ in ()).throw(ClusterError("gone"))
    await Deallocation(scheduler.plugin.handle, known)()
    assert not scheduler.cache.devices.claims.doubted


class TestClaimsOfGroups:
    """A claim that a pod group has is reserved for the group. Its members share what the first of them allocates."""

    def scheduler(self, *, names=("mine",), status=None):
        scheduler = Scheduler(make_claim("mine", exactly(), status=status))
        scheduler.cache.groups.serve(WORKLOAD_API)
        entries = [{"name": name, "resourceClaimName": name} for name in names]
        scheduler.cache.set_object(KIND, make_pod_group(resourceClaims=entries))
        return scheduler

    def members(self, count=3):
        return [pending(name=f"p{i}", spec={**in_group(), **claiming("mine")}) for i in range(count)]

    async def pre_bind(self, scheduler, members):
        states = [CycleState() for _ in members]
        for state, pod in zip(states, members, strict=True):
            assert scheduler.plugin.pre_filter(state, pod) is None
            assert scheduler.plugin.reserve(state, pod, "a") is None
        found = await asyncio.gather(
            *(scheduler.plugin.pre_bind(state, pod, "a") for state, pod in zip(states, members, strict=True))
        )
        return states, found

    async def test_the_first_member_writes_for_all(self):
        scheduler = self.scheduler()
        server = scheduler.server
        update = server.update

        async def slowly(*arguments):
            await asyncio.sleep(0)
            return await update(*arguments)

        async def wait_for(_kind, name, _namespace, done, _timeout):
            while not done(None):
                await asyncio.sleep(0)
                server.deliver()

        server.update, server.wait_for = slowly, wait_for
        _, found = await self.pre_bind(scheduler, self.members())
        assert found == [None] * 3
        assert scheduler.server.writes == ["update mine", "update mine/status"]
        (reference,) = scheduler.server.claims["mine"]["status"]["reservedFor"]
        group = {"apiGroup": WORKLOAD_API, "resource": "podgroups", "name": "gang", "uid": "group-gang"}
        assert reference == group
        assert scheduler.in_use
        assert scheduler.cache.devices.claims.in_flight("default/mine") is None, "nothing is in flight any more"

    async def test_a_claim_that_the_group_does_not_have_is_reserved_for_each_pod(self):
        scheduler = self.scheduler(names=("another",))
        members = self.members(2)
        _, found = await self.pre_bind(scheduler, members)
        assert found == [None] * 2
        references = scheduler.server.claims["mine"]["status"]["reservedFor"]
        assert {each["uid"] for each in references} == {pod.uid for pod in members}
        assert {each["resource"] for each in references} == {"pods"}

    async def test_the_reservation_stays_for_the_others_if_one_member_is_not_bound(self):
        scheduler = self.scheduler()
        members = self.members(2)
        states, _ = await self.pre_bind(scheduler, members)
        scheduler.plugin.unreserve(states[0], members[0], "a")
        assert states[0].follow_ups == []
        assert scheduler.server.claims["mine"]["status"]["reservedFor"]

    async def test_a_member_is_not_bound_if_the_claim_lost_its_devices_meanwhile(self):
        scheduler = self.scheduler()

        def deallocate(what):
            if what == "wait":
                scheduler.server.change("mine", lambda raw: raw.update(status={}))

        scheduler.server.before_write = deallocate
        _, (found,) = await self.pre_bind(scheduler, self.members(1))
        assert found.reasons == ("claim default/mine got deallocated elsewhere in the meantime",)

    @pytest.mark.parametrize("bound", [False, True])
    async def test_a_device_that_another_claim_got_earlier_is_given_back_unless_a_member_is_bound(self, bound):
        scheduler = self.scheduler()

        def steal(what):
            if what == "update mine":
                scheduler.server.add(make_claim("theirs", exactly(), status=allocated("gpu-0", node="a")))

        scheduler.server.before_write = steal
        (pod,) = self.members(1)
        if bound:
            scheduler.cache.set_pod(replace(pod, uid="bound", node_name="a"))
        (state,), (found,) = await self.pre_bind(scheduler, [pod])
        assert "is also allocated to claim default/theirs" in found.message
        scheduler.plugin.unreserve(state, pod, "a")
        for follow_up in state.follow_ups:
            await follow_up()
        assert bool(scheduler.server.claims["mine"]["status"].get("allocation")) is bound


@pytest.mark.parametrize(
    ("owner", "text"),
    [
        pytest.param({"kind": "PodGroup", "name": "gang"}, "", id="the pod's group"),
        pytest.param({"kind": "PodGroup", "name": "other"}, "was not created for Pod", id="another group"),
        pytest.param({"kind": "Pod", "name": "gang"}, "was not created for Pod", id="another pod"),
    ],
)
def test_a_generated_claim_belongs_to_the_pod_or_to_its_group(owner, text):
    scheduler = Scheduler()
    scheduler.cache.groups.serve(WORKLOAD_API)
    claim = make_claim("made", exactly())
    reference = {"apiVersion": f"{WORKLOAD_API}/v1beta1", "uid": "group-gang", "controller": True, **owner}
    claim["metadata"]["ownerReferences"] = [reference]
    scheduler.server.add(claim)
    entries = [{"name": "gpus", "resourceClaimTemplateName": "gpus"}]
    statuses = [{"name": "gpus", "resourceClaimName": "made"}]
    spec = {**in_group(), "resourceClaims": entries}
    refused = scheduler.plugin.pre_enqueue(pending(name="p", spec=spec, status={"resourceClaimStatuses": statuses}))
    assert (text in refused.message) if text else refused is None
