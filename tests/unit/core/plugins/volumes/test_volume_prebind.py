"""Reserve, PreBind and Unreserve of VolumeBinding, with a scripted cluster."""

import copy

import pytest

from podwright.core.framework.interface import ClusterError, ClusterTimeoutError, CycleState
from podwright.core.framework.status import SKIP, Code
from podwright.core.plugins.volumes.volume_binding import VolumeBinding
from support.objects.builders import make_node
from support.plugins.kit import build
from support.plugins.volumes import ZONE, asking, cluster, make_claim, make_class, make_volume, outcome

VOLUME, CLAIM = "PersistentVolume", "PersistentVolumeClaim"
NODES = [make_node("n1", labels={ZONE: "z1"}), make_node("n2", labels={ZONE: "z2"})]
NO_MATCH = "node(s) didn't find available persistent volumes to bind"


class ScriptedCluster:
    """Accepts writes. Each wait runs the next of `events`."""

    def __init__(self, cache):
        self.cache = cache
        self.time = 0.0
        self.writes = []
        self.fail_on = {}
        self.events = []
        self.waits = []
        self.watching = True

    def now(self):
        return self.time

    async def update(self, kind, raw):
        name = raw["metadata"]["name"]
        if name in self.fail_on:
            raise self.fail_on[name]
        written = copy.deepcopy(raw)
        written["metadata"]["resourceVersion"] = str(int(raw["metadata"]["resourceVersion"]) + 1)
        self.writes.append((kind, name))
        if self.watching:
            self.show(kind, written)
        return written

    async def wait_for(self, kind, name, namespace, done, timeout):
        self.waits.append((kind, name))
        while not done(self.cache.store.get(kind, name, namespace)):
            if not self.events:
                self.time += timeout
                raise ClusterTimeoutError("timed out")
            self.events.pop(0)()

    def show(self, kind, raw):
        """The watch delivers an object."""
        self.cache.set_object(kind, raw)

    def change(self, kind, name, *, annotations=None, drop=(), **spec):
        """The watch delivers a changed object."""
        namespace = "default" if kind == CLAIM else ""
        raw = copy.deepcopy(self.cache.store.get(kind, name, namespace))
        raw["metadata"]["resourceVersion"] = str(int(raw["metadata"]["resourceVersion"]) + 1)
        raw["metadata"]["annotations"] = {**raw["metadata"].get("annotations", {}), **(annotations or {})}
        for annotation in drop:
            raw["metadata"]["annotations"].pop(annotation)
        raw["spec"].update(spec)
        self.show(kind, raw)

    def bind(self, claim, volume):
        """Binds the claim, as the volume controller does."""
        self.change(CLAIM, claim, annotations={"pv.kubernetes.io/bind-completed": "yes"}, volumeName=volume)


class Attempt:
    """Runs the plugin for one pod, from PreFilter on."""

    def __init__(self, *claims, args=None, name="pod", plugin=None, **objects):
        static = make_class(provisioner="kubernetes.io/no-provisioner")
        if plugin is None:
            known = {"StorageClass": [static, make_class("made")], **objects}
            plugin = build(VolumeBinding, cluster(NODES, **known), args)
            plugin.handle.cluster = ScriptedCluster(plugin.handle.cache)
            plugin.handle.now = plugin.handle.cluster.now
        self.plugin = plugin
        self.cache = plugin.handle.cache
        self.cluster = plugin.handle.cluster
        self.pod = asking(*claims, name=name)
        self.state = CycleState()
        self.plugin.pre_filter(self.state, self.pod)

    def reserve(self, node="n1"):
        self.cache.assume(self.pod, node)
        status = self.plugin.reserve(self.state, self.pod, node)
        assert status is None
        return self

    async def pre_bind(self, node="n1"):
        return await self.plugin.pre_bind(self.state, self.pod, node)

    def unreserve(self, node="n1"):
        self.plugin.unreserve(self.state, self.pod, node)

    def assumed(self, kind, name):
        index = self.cache.volumes.index
        return index.volume(name) if kind == VOLUME else index.claim("default", name)


def static_attempt(**more):
    return Attempt("claim", PersistentVolume=[make_volume("pv")], PersistentVolumeClaim=[make_claim()], **more)


def dynamic_attempt(**more):
    return Attempt("claim", PersistentVolumeClaim=[make_claim(storage_class="made")], **more)


class TestReserve:
    def test_a_static_volume_is_assumed_bound(self):
        attempt = static_attempt().reserve()

        volume = attempt.assumed(VOLUME, "pv")

        assert volume.raw["spec"]["claimRef"] == {
            "apiVersion": "v1",
            "kind": CLAIM,
            "namespace": "default",
            "name": "claim",
            "uid": "uid-claim",
            "resourceVersion": "1",
        }
        assert volume.raw["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
        assert "claimRef" not in attempt.cache.store.get(VOLUME, "pv")["spec"]

    def test_a_volume_that_a_user_reserved_gets_the_claims_uid_and_no_annotation(self):
        reserved = make_volume("pv", spec={"claimRef": {"namespace": "default", "name": "claim"}})
        attempt = Attempt("claim", PersistentVolume=[reserved], PersistentVolumeClaim=[make_claim()]).reserve()

        volume = attempt.assumed(VOLUME, "pv")

        assert volume.claim.uid == "uid-claim"
        assert "annotations" not in volume.raw["metadata"]

    def test_a_claim_to_provision_is_assumed_with_its_selected_node(self):
        attempt = dynamic_attempt().reserve("n2")

        assert attempt.assumed(CLAIM, "claim").selected_node == "n2"
        assert "volume.kubernetes.io/selected-node" not in str(attempt.cache.store.get(CLAIM, "claim", "default"))

    def test_the_next_pod_sees_assumed_objects(self):
        first = Attempt(
            "claim",
            PersistentVolume=[make_volume("pv")],
            PersistentVolumeClaim=[make_claim(), make_claim("other"), make_claim("shared", storage_class="made")],
        ).reserve()
        assert set(outcome(first.plugin, asking("other")).values()) == {NO_MATCH}

        Attempt("shared", name="second", plugin=first.plugin).reserve("n2")

        assert outcome(first.plugin, asking("shared", name="third")) == {"n1": NO_MATCH, "n2": ""}

    def test_unreserve_reverts_all_assumptions_and_may_be_called_twice(self):
        attempt = Attempt(
            "claim",
            "made",
            PersistentVolume=[make_volume("pv")],
            PersistentVolumeClaim=[make_claim(), make_claim("made", storage_class="made")],
        ).reserve()

        attempt.unreserve()
        attempt.unreserve()

        assert attempt.assumed(VOLUME, "pv").claim is None
        assert attempt.assumed(CLAIM, "made").selected_node is None

    def test_unreserve_without_reserve_does_nothing(self):
        static_attempt().unreserve()

    def test_a_newer_version_from_the_watch_replaces_the_assumed_one(self):
        attempt = static_attempt().reserve()

        attempt.cluster.change(VOLUME, "pv", capacity={"storage": "11Gi"})

        assert attempt.assumed(VOLUME, "pv").claim is None

    def test_a_volume_that_changed_meanwhile_is_an_error_and_leaves_no_assumptions(self):
        attempt = Attempt(
            "small",
            "large",
            PersistentVolume=[make_volume("pv1", size="5Gi"), make_volume("pv2", size="10Gi")],
            PersistentVolumeClaim=[make_claim("small", size="5Gi"), make_claim("large", size="10Gi")],
        )
        attempt.cluster.change(VOLUME, "pv2", capacity={"storage": "11Gi"})

        status = attempt.plugin.reserve(attempt.state, attempt.pod, "n1")

        assert status.code is Code.ERROR
        assert "out of sync (stored: 2, assume: 1)" in status.message
        assert attempt.assumed(VOLUME, "pv1").claim is None

    def test_a_removed_node_is_an_error(self):
        attempt = static_attempt()
        attempt.cache.remove_node("n1")

        assert attempt.plugin.reserve(attempt.state, attempt.pod, "n1").code is Code.ERROR


class TestPreFlight:
    def skips(self, attempt):
        return attempt.plugin.pre_bind_pre_flight(attempt.state, attempt.pod, "n1") is SKIP

    def test_nothing_to_do_without_volumes(self):
        assert self.skips(Attempt().reserve())

    def test_nothing_to_do_for_bound_claims(self):
        bound = Attempt("claim", PersistentVolume=[make_volume("pv")], PersistentVolumeClaim=[make_claim(volume="pv")])
        assert self.skips(bound.reserve())

    def test_nothing_to_do_for_a_claim_that_was_bound_since(self):
        attempt = static_attempt()
        attempt.cluster.bind("claim", "pv")

        assert self.skips(attempt.reserve())
        assert attempt.assumed(VOLUME, "pv").claim is None

    def test_work_to_do(self):
        attempt = static_attempt().reserve()

        assert attempt.plugin.pre_bind_pre_flight(attempt.state, attempt.pod, "n1") is None

    def test_unbound_claims_that_were_never_reserved_are_an_error(self):
        attempt = static_attempt()

        assert attempt.plugin.pre_bind_pre_flight(attempt.state, attempt.pod, "n1").code is Code.ERROR


class TestPreBind:
    async def test_a_static_volume_is_written_and_waited_for(self):
        attempt = static_attempt().reserve()
        attempt.cluster.events = [lambda: attempt.cluster.bind("claim", "pv")]

        assert await attempt.pre_bind() is None

        assert attempt.cluster.writes == [(VOLUME, "pv")]
        assert attempt.cluster.waits == [(CLAIM, "claim")]
        assert attempt.assumed(VOLUME, "pv").claim.name == "claim"

    async def test_a_volume_is_provisioned_and_waited_for(self):
        attempt = dynamic_attempt().reserve()
        played = attempt.cluster
        played.events = [
            lambda: played.bind("claim", "made-pv"),
            lambda: played.show(VOLUME, make_volume("made-pv", zones=["z1"], claim="claim")),
        ]

        assert await attempt.pre_bind() is None

        assert played.writes == [(CLAIM, "claim")]
        assert attempt.cache.store.get(CLAIM, "claim", "default")["spec"]["volumeName"] == "made-pv"

    async def test_bound_claims_are_not_touched(self):
        attempt = Attempt(
            "claim", PersistentVolume=[make_volume("pv")], PersistentVolumeClaim=[make_claim(volume="pv")]
        ).reserve()

        assert await attempt.pre_bind() is None
        assert attempt.cluster.writes == []

    async def test_it_waits_for_the_watch_to_deliver_the_write(self):
        attempt = static_attempt().reserve()
        played = attempt.cluster
        played.watching = False
        written = copy.deepcopy(attempt.assumed(VOLUME, "pv").raw)
        written["metadata"]["resourceVersion"] = "2"
        played.events = [lambda: played.bind("claim", "pv"), lambda: played.show(VOLUME, written)]

        assert await attempt.pre_bind() is None

        assert played.waits == [(VOLUME, "pv")]

    async def test_a_wait_checks_again_every_second(self):
        attempt = static_attempt().reserve()
        played = attempt.cluster
        first = played.wait_for

        async def deaf(kind, name, namespace, done, timeout):
            played.time += timeout
            if played.time >= 3:
                played.bind("claim", "pv")
            if played.time >= 5:
                await first(kind, name, namespace, done, timeout)
            raise ClusterTimeoutError("timed out")

        played.wait_for = deaf

        assert await attempt.pre_bind() is None
        assert played.time == 3

    async def test_a_conflict_reverts_the_objects_that_were_not_written(self):
        attempt = Attempt(
            "small",
            "large",
            "made",
            PersistentVolume=[make_volume("pv1", size="5Gi"), make_volume("pv2", size="10Gi")],
            PersistentVolumeClaim=[
                make_claim("small", size="5Gi"),
                make_claim("large", size="10Gi"),
                make_claim("made", storage_class="made"),
            ],
        ).reserve()
        attempt.cluster.fail_on = {"pv2": ClusterError("the object has been modified", 409)}

        status = await attempt.pre_bind()

        assert status.code is Code.ERROR
        assert "the object has been modified" in status.message
        assert attempt.cluster.writes == [(VOLUME, "pv1")]
        assert attempt.assumed(VOLUME, "pv1").claim.name == "small"
        assert attempt.assumed(VOLUME, "pv2").claim is None
        assert attempt.assumed(CLAIM, "made").selected_node is None

    async def test_a_write_that_the_watch_has_not_delivered_stays_assumed_after_a_failure(self):
        attempt = static_attempt(args={"bindTimeoutSeconds": 1}).reserve()
        attempt.cluster.watching = False

        status = await attempt.pre_bind()
        attempt.unreserve()

        assert status.code is Code.ERROR
        assert attempt.assumed(VOLUME, "pv").claim.name == "claim"

    async def test_it_fails_after_the_timeout(self):
        attempt = static_attempt(args={"bindTimeoutSeconds": 7}).reserve()

        status = await attempt.pre_bind()

        assert status.code is Code.ERROR
        assert status.message == "binding volumes: context deadline exceeded"
        assert attempt.cluster.time == 7

    async def test_an_unreachable_api_server_ends_the_wait(self):
        attempt = static_attempt().reserve()

        async def refuse(*_args):
            raise ClusterError("connection refused")

        attempt.cluster.wait_for = refuse

        assert (await attempt.pre_bind()).message == "binding volumes: connection refused"

    @pytest.mark.parametrize(
        "attempt, event, problem",
        [
            pytest.param(
                static_attempt,
                lambda a: a.cluster.change(VOLUME, "pv", claimRef=None),
                'ClaimRef got reset for pv "pv"',
                id="the volume's claimRef was reset",
            ),
            pytest.param(
                static_attempt,
                lambda a: a.cache.remove_object(VOLUME, "pv"),
                "failed to check binding",
                id="the volume is gone",
            ),
            pytest.param(
                static_attempt,
                lambda a: a.cache.remove_object(CLAIM, "claim", "default"),
                "failed to check binding",
                id="the claim of a static volume is gone",
            ),
            pytest.param(
                static_attempt,
                lambda a: a.cluster.change(
                    VOLUME, "pv", nodeAffinity=make_volume(zones=["z2"])["spec"]["nodeAffinity"]
                ),
                'pv "pv" node affinity doesn\'t match node "n1"',
                id="the volume's affinity does not match the node",
            ),
            pytest.param(
                dynamic_attempt,
                lambda a: a.cluster.change(
                    CLAIM, "claim", annotations={"x": "y"}, drop=["volume.kubernetes.io/selected-node"]
                ),
                'provisioning failed for PVC "claim"',
                id="the provisioner gave up",
            ),
            pytest.param(
                dynamic_attempt,
                lambda a: a.cluster.change(CLAIM, "claim", drop=["volume.kubernetes.io/selected-node"]),
                'selectedNode annotation reset for PVC "claim"',
                id="the provisioner gave up and no annotation is left",
            ),
            pytest.param(
                dynamic_attempt,
                lambda a: a.cache.remove_object(CLAIM, "claim", "default"),
                "failed to check provisioning pvc",
                id="the claim to provision is gone",
            ),
            pytest.param(
                dynamic_attempt,
                lambda a: (
                    a.cluster.show(VOLUME, make_volume("made", zones=["z2"])),
                    a.cluster.change(CLAIM, "claim", volumeName="made"),
                ),
                'pv "made" node affinity doesn\'t match node "n1"',
                id="the new volume's affinity does not match the node",
            ),
            pytest.param(
                dynamic_attempt,
                lambda a: a.cache.remove_pod(a.pod.uid),
                "pod does not exist any more",
                id="the pod is gone",
            ),
            pytest.param(
                dynamic_attempt, lambda a: a.cache.remove_node("n1"), 'failed to get node "n1"', id="the node is gone"
            ),
        ],
    )
    async def test_events_that_end_the_wait(self, attempt, event, problem):
        attempt = attempt().reserve()
        attempt.cluster.events = [lambda: event(attempt)]

        status = await attempt.pre_bind()

        assert status.code is Code.ERROR
        assert status.message.startswith("binding volumes: ")
        assert problem in status.message
        assert attempt.cluster.time == 0
