import re

import pytest

from podwright.core.framework.errors import PluginError
from podwright.core.framework.interface import CycleState
from podwright.core.framework.status import SKIP, Code, Status
from support.objects.builders import make_node
from support.plugins.volumes import (
    ZONE,
    asking,
    ephemeral,
    in_zones,
    make_capacity,
    make_claim,
    make_class,
    make_csi_node,
    make_driver,
    make_volume,
    outcome,
    resolvable,
)
from support.plugins.volumes import binding_plugin as plugin_for

OUT_OF_REACH = "node(s) didn't match PersistentVolume's node affinity"
NO_MATCH = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
STATIC = make_class(provisioner="kubernetes.io/no-provisioner")


def passing(found):
    return {name for name, reason in found.items() if not reason}


class TestPreFilter:
    @pytest.mark.parametrize(
        "pod, answer",
        [
            pytest.param(asking(), "Skip", id="no volumes"),
            pytest.param(asking(volumes=[{"name": "v", "iscsi": {"iqn": "q"}}]), "Skip", id="no claims"),
            pytest.param(asking("absent"), 'persistentvolumeclaim "absent" not found', id="a missing claim"),
            pytest.param(
                asking(volumes=[ephemeral()]),
                'waiting for ephemeral volume controller to create the persistentvolumeclaim "pod-scratch"',
                id="a missing claim of an ephemeral volume",
            ),
            pytest.param(
                asking(volumes=[ephemeral("foreign")]),
                "PVC default/pod-foreign was not created for pod default/pod (pod is not owner)",
                id="an ephemeral volume's claim that belongs to another pod",
            ),
            pytest.param(
                asking("lost"),
                'persistentvolumeclaim "lost" bound to non-existent persistentvolume "gone"',
                id="a claim that lost its volume",
            ),
            pytest.param(
                asking("ending"), 'persistentvolumeclaim "ending" is being deleted', id="a claim that is being deleted"
            ),
            pytest.param(
                asking("immediate"), "pod has unbound immediate PersistentVolumeClaims", id="an immediate claim"
            ),
            pytest.param(
                asking("prebound"),
                "pod has unbound immediate PersistentVolumeClaims",
                id="a claim that names a volume but is not bound yet",
            ),
            pytest.param(
                asking("classless"), "pod has unbound immediate PersistentVolumeClaims", id="a claim without a class"
            ),
            pytest.param(
                asking("unknown"), "pod has unbound immediate PersistentVolumeClaims", id="a claim of a missing class"
            ),
        ],
    )
    def test_pre_filter_checks_the_claims(self, pod, answer):
        plugin = plugin_for(
            StorageClass=[STATIC, make_class("now", mode="Immediate")],
            PersistentVolumeClaim=[
                make_claim("pod-foreign", owner="somebody"),
                make_claim("lost", volume="gone", status={"phase": "Lost"}),
                make_claim("ending", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
                make_claim("immediate", storage_class="now"),
                make_claim("prebound", volume="pv", bound=False),
                make_claim("classless", storage_class=""),
                make_claim("unknown", storage_class="nowhere"),
            ],
        )

        assert outcome(plugin, pod) == answer

    def test_a_class_without_a_binding_mode_is_a_fault(self):
        plugin = plugin_for(StorageClass=[make_class(mode=None)], PersistentVolumeClaim=[make_claim()])

        status = plugin.pre_filter(CycleState(), asking("claim"))

        assert status == Status(Code.ERROR, ('VolumeBindingMode not set for StorageClass "std"',))

    def test_an_attempt_may_pause_before_each_class_is_parsed(self, monkeypatch):
        names = [f"c{number}" for number in range(5)]
        plugin = plugin_for(
            StorageClass=[make_class(name) for name in names],
            PersistentVolumeClaim=[make_claim(name, storage_class=name) for name in names],
        )
        index, steps = plugin.handle.cache.volumes.index, []
        parse = index.storage_class
        monkeypatch.setattr(index, "storage_class", lambda name: steps.append(name) or parse(name))
        plugin.handle.cache.deadline.check = lambda: steps.append("pause")

        assert plugin.pre_filter(CycleState(), asking(*names)) is None

        assert steps[:10] == [step for name in names for step in ("pause", name)]

    def test_a_pod_without_volumes_is_skipped_without_reading_objects(self):
        plugin = plugin_for()
        plugin.handle = None

        assert plugin.pre_filter(CycleState(), asking()) is SKIP


class TestBoundClaims:
    @pytest.mark.parametrize(
        "affinity, names",
        [
            pytest.param(None, {"n1", "n2", "n3"}, id="a volume without affinity"),
            pytest.param(in_zones("z1"), {"n1"}, id="a zone"),
            pytest.param(in_zones("z1", "z3"), {"n1", "n3"}, id="two zones"),
            pytest.param({"required": {"nodeSelectorTerms": []}}, set(), id="no terms"),
            pytest.param({"required": {"nodeSelectorTerms": [{}]}}, set(), id="an empty term"),
            pytest.param(
                {
                    "required": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": ZONE, "operator": "Sometimes"}]},
                            {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["z1"]}]},
                        ]
                    }
                },
                {"n2", "n3"},
                id="an invalid term and a valid one",
            ),
            pytest.param(
                {
                    "required": {
                        "nodeSelectorTerms": [
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
                        ]
                    }
                },
                {"n1", "n2", "n3"},
                id="requirements on fields do not count",
            ),
        ],
    )
    def test_node_affinity(self, affinity, names):
        spec = {} if affinity is None else {"nodeAffinity": affinity}
        plugin = plugin_for(
            PersistentVolume=[make_volume("pv", claim="claim", spec=spec)],
            PersistentVolumeClaim=[make_claim(volume="pv")],
        )

        found = outcome(plugin, asking("claim"))

        assert passing(found) == names
        assert set(found.values()) <= {"", OUT_OF_REACH}

    def test_the_rejection_is_unresolvable(self):
        plugin = plugin_for(
            PersistentVolume=[make_volume("pv", zones=["z1"])], PersistentVolumeClaim=[make_claim(volume="pv")]
        )

        assert not resolvable(plugin, asking("claim"), "n2")

    def test_a_volume_that_does_not_exist(self):
        plugin = plugin_for(
            PersistentVolume=[make_volume("pv", zones=["z1"])],
            PersistentVolumeClaim=[make_claim("here", volume="pv"), make_claim("there", volume="gone")],
        )

        assert outcome(plugin, asking("here", "there")) == {"n1": GONE, "n2": OUT_OF_REACH, "n3": OUT_OF_REACH}
        assert set(outcome(plugin, asking("there", "here")).values()) == {GONE}

    def test_an_in_tree_volume_has_the_topology_of_its_csi_driver_on_migrated_nodes(self):
        nodes = [
            make_node("migrated", labels={ZONE: "z1", "topology.ebs.csi.aws.com/zone": "z2"}),
            make_node("not-yet", labels={ZONE: "z1", "topology.ebs.csi.aws.com/zone": "z2"}),
            make_node("both", labels={ZONE: "z1", "topology.ebs.csi.aws.com/zone": "z1"}),
        ]
        plugin = plugin_for(
            nodes=nodes,
            CSINode=[
                make_csi_node("migrated", migrated=["kubernetes.io/gce-pd", "kubernetes.io/aws-ebs"]),
                make_csi_node("not-yet", migrated=["kubernetes.io/gce-pd"]),
                make_csi_node("both", migrated=["kubernetes.io/aws-ebs"]),
            ],
            PersistentVolume=[make_volume("pv", zones=["z1"], source={"awsElasticBlockStore": {"volumeID": "vol-1"}})],
            PersistentVolumeClaim=[make_claim(volume="pv")],
        )

        assert outcome(plugin, asking("claim")) == {"migrated": OUT_OF_REACH, "not-yet": "", "both": ""}

    def test_an_in_tree_volume_that_cannot_be_translated_is_a_fault_on_migrated_nodes(self):
        disk = make_volume("pv", labels={ZONE: "a__b"}, source={"gcePersistentDisk": {"pdName": "d"}})
        objects = {"PersistentVolume": [disk], "PersistentVolumeClaim": [make_claim(volume="pv")]}
        plugin = plugin_for(CSINode=[make_csi_node("n1", migrated=["kubernetes.io/gce-pd"])], **objects)
        problem = (
            'running "VolumeBinding" filter plugin: could not translate pv: failed to get region from zones: zone in '
            "unexpected format, expected: {locale}-{region}-{zone}, got: a"
        )

        with pytest.raises(PluginError, match=re.escape(problem)):
            outcome(plugin, asking("claim"))
        assert set(outcome(plugin_for(**objects), asking("claim")).values()) == {""}


class TestStaticVolumes:
    @pytest.mark.parametrize(
        "claim, volume, fits",
        [
            pytest.param({}, {}, True, id="a volume that fits"),
            pytest.param({"size": "10Gi"}, {"size": "10240Mi"}, True, id="a volume of exactly the requested size"),
            pytest.param({"size": "10Gi"}, {"size": "10G"}, False, id="a volume that is slightly too small"),
            pytest.param({}, {"storage_class": "other"}, False, id="another class"),
            pytest.param({}, {"phase": "Released"}, False, id="not available"),
            pytest.param({"modes": ["ReadWriteMany"]}, {}, False, id="an access mode that the volume lacks"),
            pytest.param(
                {"modes": ["ReadOnlyMany"]},
                {"modes": ["ReadWriteOnce", "ReadOnlyMany"]},
                True,
                id="one of the volume's access modes",
            ),
            pytest.param({"spec": {"volumeMode": "Block"}}, {}, False, id="a claim for a block device"),
            pytest.param(
                {"spec": {"volumeMode": "Block"}},
                {"spec": {"volumeMode": "Block"}},
                True,
                id="a block device for a block device",
            ),
            pytest.param({"spec": {"volumeMode": "Filesystem"}}, {}, True, id="Filesystem is the default"),
            pytest.param(
                {"spec": {"volumeAttributesClassName": "fast"}}, {}, False, id="another volume attributes class"
            ),
            pytest.param({}, {"claim": "other"}, False, id="a volume of another claim"),
            pytest.param(
                {}, {"claim": "claim", "phase": "Released"}, True, id="a volume that is reserved for the claim"
            ),
            pytest.param(
                {},
                {"spec": {"claimRef": {"namespace": "default", "name": "claim"}}},
                True,
                id="a volume that a user reserved for the claim",
            ),
            pytest.param(
                {},
                {"spec": {"claimRef": {"namespace": "default", "name": "claim", "uid": "older"}}},
                False,
                id="a volume that was reserved for an earlier claim with the same name",
            ),
            pytest.param(
                {},
                {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
                False,
                id="a volume that is being deleted",
            ),
            pytest.param(
                {"spec": {"selector": {"matchLabels": {"tier": "gold"}}}},
                {"labels": {"tier": "gold"}},
                True,
                id="a label that the claim selects",
            ),
            pytest.param({"spec": {"selector": {"matchLabels": {"tier": "gold"}}}}, {}, False, id="without that label"),
            pytest.param(
                {"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "std"}}},
                {},
                True,
                id="a class by annotation",
            ),
        ],
    )
    def test_which_volumes_fit_a_claim(self, claim, volume, fits):
        plugin = plugin_for(
            PersistentVolume=[make_volume("pv", **volume)], PersistentVolumeClaim=[make_claim("claim", **claim)]
        )

        assert set(outcome(plugin, asking("claim")).values()) == {"" if fits else NO_MATCH}

    def test_the_node_must_reach_the_volume(self):
        plugin = plugin_for(
            PersistentVolume=[make_volume("one", zones=["z1"]), make_volume("two", zones=["z2"])],
            PersistentVolumeClaim=[make_claim()],
        )

        assert outcome(plugin, asking("claim")) == {"n1": "", "n2": "", "n3": NO_MATCH}

    def test_all_requirements_of_a_term_must_match(self):
        picky = in_zones("z1", "z2")
        picky["required"]["nodeSelectorTerms"][0]["matchExpressions"].append(
            {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n1"]}
        )
        plugin = plugin_for(
            PersistentVolume=[make_volume("pv", spec={"nodeAffinity": picky})], PersistentVolumeClaim=[make_claim()]
        )

        assert outcome(plugin, asking("claim")) == {"n1": NO_MATCH, "n2": "", "n3": NO_MATCH}

    def test_the_smaller_claim_chooses_first_even_if_no_volume_is_left_for_the_larger(self):
        plugin = plugin_for(
            PersistentVolume=[
                make_volume("gold", size="10Gi", labels={"tier": "gold"}),
                make_volume("any", size="20Gi"),
            ],
            PersistentVolumeClaim=[
                make_claim("small", size="5Gi"),
                make_claim("large", size="10Gi", spec={"selector": {"matchLabels": {"tier": "gold"}}}),
            ],
        )

        assert set(outcome(plugin, asking("large", "small")).values()) == {NO_MATCH}

    def test_a_claim_takes_no_other_volume_than_the_one_reserved_for_it(self):
        plugin = plugin_for(
            PersistentVolume=[make_volume("any"), make_volume("mine", claim="claim", zones=["z2"])],
            PersistentVolumeClaim=[make_claim()],
        )

        assert outcome(plugin, asking("claim")) == {"n1": NO_MATCH, "n2": "", "n3": NO_MATCH}

    def test_a_claim_that_the_pod_mounts_twice_needs_a_volume_beside_the_one_reserved_for_it(self):
        claim, reserved = make_claim(size="5Gi"), make_volume("mine", claim="claim")
        alone = plugin_for(PersistentVolume=[reserved], PersistentVolumeClaim=[claim])
        plugin = plugin_for(
            PersistentVolume=[reserved, make_volume("other", zones=["z2"])], PersistentVolumeClaim=[claim]
        )

        assert set(outcome(alone, asking("claim")).values()) == {""}
        assert set(outcome(alone, asking("claim", "claim")).values()) == {NO_MATCH}
        assert outcome(plugin, asking("claim", "claim")) == {"n1": NO_MATCH, "n2": "", "n3": NO_MATCH}

    def test_two_claims_need_two_volumes(self):
        plugin = plugin_for(
            PersistentVolume=[
                make_volume("wide", size="20Gi"),
                make_volume("local", size="10Gi", zones=["z1"]),
            ],
            PersistentVolumeClaim=[make_claim("small", size="5Gi"), make_claim("large", size="15Gi")],
        )

        assert outcome(plugin, asking("large", "small")) == {"n1": "", "n2": NO_MATCH, "n3": NO_MATCH}

    def test_bound_and_unbound_claims_both_count(self):
        plugin = plugin_for(
            PersistentVolume=[make_volume("pv", claim="bound", zones=["z1"]), make_volume("free", zones=["z3"])],
            PersistentVolumeClaim=[make_claim("bound", volume="pv"), make_claim("unbound")],
        )

        assert outcome(plugin, asking("bound", "unbound")) == {
            "n1": NO_MATCH,
            "n2": f"{OUT_OF_REACH}, {NO_MATCH}",
            "n3": OUT_OF_REACH,
        }

    def test_a_volume_that_is_assumed_for_another_claim_is_taken(self):
        volume = make_volume("pv")
        plugin = plugin_for(PersistentVolume=[volume], PersistentVolumeClaim=[make_claim()])
        assumed = make_volume("pv", claim="other")

        plugin.handle.cache.volumes.index.assumed_volumes.assume(assumed)
        assert set(outcome(plugin, asking("claim")).values()) == {NO_MATCH}

        plugin.handle.cache.volumes.index.assumed_volumes.restore(assumed)
        assert set(outcome(plugin, asking("claim")).values()) == {""}


class TestProvisioning:
    def test_a_missing_volume_is_provisioned(self):
        plugin = plugin_for(StorageClass=[make_class()], PersistentVolumeClaim=[make_claim()])

        assert set(outcome(plugin, asking("claim")).values()) == {""}

    @pytest.mark.parametrize(
        "topologies, names",
        [
            pytest.param([], {"n1", "n2", "n3"}, id="no topologies"),
            pytest.param(
                [{"matchLabelExpressions": [{"key": ZONE, "values": ["z1", "z2"]}]}], {"n1", "n2"}, id="zones"
            ),
            pytest.param(
                [
                    {"matchLabelExpressions": [{"key": ZONE, "values": ["z1"]}]},
                    {"matchLabelExpressions": [{"key": ZONE, "values": ["z3"]}]},
                ],
                {"n1", "n3"},
                id="one of two terms",
            ),
            pytest.param(
                [
                    {
                        "matchLabelExpressions": [
                            {"key": ZONE, "values": ["z1"]},
                            {"key": "kubernetes.io/hostname", "values": ["n2"]},
                        ]
                    }
                ],
                set(),
                id="all labels of a term",
            ),
            pytest.param([{}], set(), id="an empty term"),
            pytest.param([{"matchLabelExpressions": [{"key": ZONE}]}], set(), id="a label without values"),
        ],
    )
    def test_allowed_topologies(self, topologies, names):
        plugin = plugin_for(
            StorageClass=[make_class(allowedTopologies=topologies)], PersistentVolumeClaim=[make_claim()]
        )

        assert passing(outcome(plugin, asking("claim"))) == names

    def test_a_static_volume_needs_no_topology(self):
        plugin = plugin_for(
            StorageClass=[make_class(zones=["z1"])],
            PersistentVolume=[make_volume("pv", zones=["z2"])],
            PersistentVolumeClaim=[make_claim()],
        )

        assert outcome(plugin, asking("claim")) == {"n1": "", "n2": "", "n3": NO_MATCH}

    def test_only_the_selected_node_fits(self):
        plugin = plugin_for(
            StorageClass=[make_class(zones=["z1", "z2"])], PersistentVolumeClaim=[make_claim(selected_node="n2")]
        )
        assert outcome(plugin, asking("claim")) == {"n1": NO_MATCH, "n2": "", "n3": NO_MATCH}

        plugin.handle.cache.set_object("PersistentVolumeClaim", make_claim(selected_node="n3"))
        assert set(outcome(plugin, asking("claim")).values()) == {NO_MATCH}

    def test_claims_with_different_selected_nodes_fit_no_node(self):
        plugin = plugin_for(
            StorageClass=[make_class()],
            PersistentVolumeClaim=[make_claim("a", selected_node="n1"), make_claim("b", selected_node="n2")],
        )

        assert set(outcome(plugin, asking("a", "b")).values()) == {NO_MATCH}

    @pytest.mark.parametrize(
        "driver, capacities, names",
        [
            pytest.param([], [], {"n1", "n2", "n3"}, id="without a CSIDriver capacity is not tracked"),
            pytest.param([make_driver()], [], {"n1", "n2", "n3"}, id="the driver does not track capacity"),
            pytest.param([make_driver(storageCapacity=True)], [], set(), id="no free capacity"),
            pytest.param(
                [make_driver(storageCapacity=True)],
                [make_capacity(zone="z1", capacity="5Gi")],
                {"n1"},
                id="enough in one zone",
            ),
            pytest.param(
                [make_driver(storageCapacity=True)],
                [make_capacity(zone="z1", capacity="4Gi"), make_capacity("more", zone="z1", capacity="6Gi")],
                {"n1"},
                id="enough in the second of two",
            ),
            pytest.param(
                [make_driver(storageCapacity=True)],
                [make_capacity(zone="z1", capacity="50Gi", largest="4Gi")],
                set(),
                id="the maximum volume size counts before the capacity",
            ),
            pytest.param(
                [make_driver(storageCapacity=True)],
                [make_capacity(capacity="5Gi")],
                {"n1", "n2", "n3"},
                id="an empty selector matches every node",
            ),
            pytest.param(
                [make_driver(storageCapacity=True)],
                [{**make_capacity(capacity="5Gi"), "nodeTopology": None}],
                set(),
                id="without a selector it matches no node",
            ),
            pytest.param(
                [make_driver(storageCapacity=True)],
                [make_capacity(capacity="5Gi", storage_class="other")],
                set(),
                id="another class",
            ),
            pytest.param(
                [make_driver(storageCapacity=True)],
                [make_capacity(capacity="lots"), make_capacity("sound", capacity="5Gi")],
                {"n1", "n2", "n3"},
                id="an invalid capacity does not count",
            ),
        ],
    )
    def test_storage_capacity(self, driver, capacities, names):
        plugin = plugin_for(
            StorageClass=[make_class()],
            PersistentVolumeClaim=[make_claim(size="5Gi")],
            CSIDriver=driver,
            CSIStorageCapacity=capacities,
        )

        found = outcome(plugin, asking("claim"))

        assert passing(found) == names
        assert set(found.values()) <= {"", NO_SPACE}

    def test_growing_capacity_counts(self):
        plugin = plugin_for(
            StorageClass=[make_class()],
            PersistentVolumeClaim=[make_claim(size="5Gi")],
            CSIDriver=[make_driver(storageCapacity=True)],
            CSIStorageCapacity=[make_capacity(capacity="1Gi")],
        )
        assert set(outcome(plugin, asking("claim")).values()) == {NO_SPACE}

        plugin.handle.cache.set_object("CSIStorageCapacity", make_capacity(capacity="5Gi"))

        assert set(outcome(plugin, asking("claim")).values()) == {""}
