import pytest

from podwright.core.framework.args import ArgsError, decode_args
from podwright.core.framework.cluster_events import Hint
from podwright.core.framework.interface import CycleState, Feasible
from podwright.core.framework.profile import ProfileError
from podwright.core.framework.status import SKIP
from podwright.core.objects.node import parse_node
from podwright.core.plugins.volumes.volume_binding import VolumeBindingArgs
from support.objects.builders import make_node
from support.plugins.volumes import (
    ZONE,
    asking,
    ephemeral,
    make_capacity,
    make_claim,
    make_class,
    make_csi_node,
    make_driver,
    make_volume,
    scored,
)
from support.plugins.volumes import binding_plugin as plugin_for

STATIC = make_class(provisioner="kubernetes.io/no-provisioner")


class TestScores:
    def test_bound_claims_score_0(self):
        plugin = plugin_for(PersistentVolume=[make_volume("pv")], PersistentVolumeClaim=[make_claim(volume="pv")])

        assert scored(plugin, asking("claim")) == {"n1": 0, "n2": 0, "n3": 0}
        assert scored(plugin, asking()) == {"n1": 0, "n2": 0, "n3": 0}

    def test_by_default_less_utilization_is_better(self):
        plugin = plugin_for(
            PersistentVolume=[
                make_volume("exact", size="5Gi", zones=["z1"]),
                make_volume("half", size="10Gi", zones=["z2"]),
                make_volume("vast", size="500Gi", zones=["z3"]),
            ],
            PersistentVolumeClaim=[make_claim(size="5Gi")],
        )

        assert scored(plugin, asking("claim")) == {"n1": 0, "n2": 50, "n3": 99}

    def test_the_smallest_volume_that_fits_is_scored(self):
        plugin = plugin_for(
            PersistentVolume=[make_volume("vast", size="100Gi"), make_volume("half", size="10Gi")],
            PersistentVolumeClaim=[make_claim(size="5Gi")],
        )

        assert set(scored(plugin, asking("claim")).values()) == {50}

    @pytest.mark.parametrize(
        "near, far",
        [
            pytest.param("10Gi", "100Gi", id="the smaller volume is in the zone only"),
            pytest.param("100Gi", "10Gi", id="the smaller volume is reachable from everywhere"),
        ],
    )
    def test_volumes_with_and_without_a_zone_compete_by_size(self, near, far):
        plugin = plugin_for(
            PersistentVolume=[make_volume("near", size=near, zones=["z1"]), make_volume("far", size=far)],
            PersistentVolumeClaim=[make_claim(size="5Gi")],
        )

        assert scored(plugin, asking("claim"))["n1"] == 50

    def test_classes_are_averaged_and_rounded_half_up(self):
        plugin = plugin_for(
            StorageClass=[STATIC, make_class("other", provisioner="kubernetes.io/no-provisioner")],
            PersistentVolume=[
                make_volume("a", size="10Gi"),
                make_volume("b", size="10Gi"),
                make_volume("c", size="100Gi", storage_class="other"),
            ],
            PersistentVolumeClaim=[
                make_claim("a", size="5Gi"),
                make_claim("b", size="10Gi"),
                make_claim("c", size="50Gi", storage_class="other"),
            ],
        )

        # std: 15 of 20 GiB, 25; other: 50 of 100 GiB, 50; together 37.5
        assert set(scored(plugin, asking("a", "b", "c")).values()) == {38}

    def test_capacity_is_scored_if_there_is_no_static_volume(self):
        plugin = plugin_for(
            StorageClass=[make_class()],
            PersistentVolume=[make_volume("pv", size="10Gi", zones=["z1"])],
            PersistentVolumeClaim=[make_claim(size="5Gi")],
            CSIDriver=[make_driver(storageCapacity=True)],
            CSIStorageCapacity=[
                make_capacity("two", zone="z2", capacity="20Gi"),
                make_capacity("three", zone="z3", largest="20Gi"),
            ],
        )

        assert scored(plugin, asking("claim")) == {"n1": 50, "n2": 75, "n3": 0}

    def test_two_new_volumes_share_one_capacity(self):
        plugin = plugin_for(
            StorageClass=[make_class()],
            PersistentVolumeClaim=[make_claim("a", size="10Gi"), make_claim("b", size="30Gi")],
            CSIDriver=[make_driver(storageCapacity=True)],
            CSIStorageCapacity=[make_capacity(capacity="100Gi")],
        )

        assert set(scored(plugin, asking("a", "b")).values()) == {60}

    def test_untracked_capacity_scores_0(self):
        plugin = plugin_for(StorageClass=[make_class()], PersistentVolumeClaim=[make_claim()])

        assert set(scored(plugin, asking("claim")).values()) == {0}

    def test_the_shape_is_configurable(self):
        shape = [{"utilization": 0, "score": 0}, {"utilization": 50, "score": 2}, {"utilization": 100, "score": 10}]
        plugin = plugin_for(
            args={"shape": shape},
            PersistentVolume=[
                make_volume("a", size="20Gi", zones=["z1"]),
                make_volume("b", size="10Gi", zones=["z2"]),
                make_volume("c", size="6Gi", zones=["z3"]),
            ],
            PersistentVolumeClaim=[make_claim(size="5Gi")],
        )

        assert scored(plugin, asking("claim")) == {"n1": 10, "n2": 20, "n3": 72}

    def test_nodes_that_changed_since_the_filter_are_planned_again(self):
        plugin = plugin_for(
            PersistentVolume=[make_volume("half", size="10Gi", zones=["z1"]), make_volume("vast", size="500Gi")],
            PersistentVolumeClaim=[make_claim(size="5Gi")],
        )
        cache, pod, state = plugin.handle.cache, asking("claim"), CycleState()
        plugin.pre_filter(state, pod)
        plugin.filter_all(state, pod, cache.table)

        cache.set_node(parse_node(make_node("n1", labels={ZONE: "z9"})))

        slots = [cache.present(name).slot for name in ("n1", "n2")]
        assert list(plugin.score_all(state, pod, Feasible(cache.table, slots))) == [99, 99]

    def test_without_the_feature_it_does_not_score(self):
        plugin = plugin_for(gates={"StorageCapacityScoring": False})

        assert plugin.pre_score(CycleState(), asking(), Feasible(plugin.handle.cache.table, [])) is SKIP
        assert plugin_for().pre_score(CycleState(), asking(), Feasible(plugin.handle.cache.table, [])) is None


class TestArgs:
    def test_defaults(self):
        args = decode_args(VolumeBindingArgs, None, "args")

        assert args.bind_timeout_seconds == 600
        assert [(point.utilization, point.score) for point in args.shape] == [(0, 10), (100, 0)]
        assert decode_args(VolumeBindingArgs, {"shape": []}, "args") == args

    @pytest.mark.parametrize(
        "args, where",
        [
            pytest.param({"bindTimeoutSeconds": -1}, "args.bindTimeoutSeconds", id="a negative timeout"),
            pytest.param({"shape": [{"utilization": 0, "score": 11}]}, "args.shape[0].score", id="a score over 10"),
            pytest.param(
                {"shape": [{"utilization": 50, "score": 1}, {"utilization": 50, "score": 2}]},
                "args.shape[1].utilization",
                id="utilization that does not increase",
            ),
            pytest.param({"shape": [{"utilization": 101, "score": 1}]}, "args.shape[0].utilization", id="over 100 %"),
        ],
    )
    def test_invalid_args_are_refused_with_their_field(self, args, where):
        with pytest.raises(ArgsError) as refused:
            decode_args(VolumeBindingArgs, args, "args")
        assert refused.value.where == where

    def test_a_shape_without_the_feature_is_refused(self):
        with pytest.raises(ProfileError, match="StorageCapacityScoring"):
            plugin_for(args={"shape": [{"utilization": 0, "score": 1}]}, gates={"StorageCapacityScoring": False})


def test_hints():
    plugin = plugin_for()
    by_kind = {hint.event.resource: hint.function for hint in plugin.hints()}
    pod = asking("claim", volumes=[ephemeral(), {"name": "c", "csi": {"driver": "csi.example.com"}}])
    tracking, not_tracking = make_driver(storageCapacity=True), make_driver(storageCapacity=False)

    assert by_kind["PersistentVolume"] is None
    assert by_kind["Node"] is None
    assert by_kind["StorageClass"](pod, None, make_class()) is Hint.QUEUE
    assert by_kind["StorageClass"](pod, make_class(), make_class(zones=["z1"])) is Hint.QUEUE
    assert by_kind["StorageClass"](pod, make_class(), make_class(parameters={"a": "b"})) is Hint.SKIP
    assert by_kind["PersistentVolumeClaim"](pod, None, make_claim("claim")) is Hint.QUEUE
    assert by_kind["PersistentVolumeClaim"](pod, None, make_claim("pod-scratch")) is Hint.QUEUE
    assert by_kind["PersistentVolumeClaim"](pod, None, make_claim("claim", namespace="other")) is Hint.SKIP
    assert by_kind["CSINode"](pod, None, make_csi_node("n")) is Hint.QUEUE
    assert by_kind["CSINode"](pod, make_csi_node("n"), make_csi_node("n", migrated=["a"])) is Hint.QUEUE
    assert by_kind["CSINode"](pod, make_csi_node("n"), make_csi_node("n", d=1)) is Hint.SKIP
    assert by_kind["CSIDriver"](pod, tracking, not_tracking) is Hint.QUEUE
    assert by_kind["CSIDriver"](pod, not_tracking, tracking) is Hint.SKIP
    assert by_kind["CSIDriver"](asking("claim"), tracking, not_tracking) is Hint.SKIP
    grown, shrunk = make_capacity(capacity="2Gi"), make_capacity(capacity="1Gi")
    assert by_kind["CSIStorageCapacity"](pod, None, grown) is Hint.QUEUE
    assert by_kind["CSIStorageCapacity"](pod, shrunk, grown) is Hint.QUEUE
    assert by_kind["CSIStorageCapacity"](pod, grown, shrunk) is Hint.SKIP
