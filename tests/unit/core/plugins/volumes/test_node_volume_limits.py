import pytest

from podwright.core.framework.cluster_events import Hint
from podwright.core.framework.errors import PluginError
from podwright.core.framework.interface import CycleState
from podwright.core.framework.status import SKIP, Code
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.volumes.node_volume_limits import NodeVolumeLimits
from support.objects.builders import make_node
from support.plugins.kit import build
from support.plugins.volumes import (
    asking,
    cluster,
    ephemeral,
    make_attachment,
    make_claim,
    make_class,
    make_csi_node,
    make_driver,
    make_volume,
    mounting,
    outcome,
    resolvable,
)

FULL = "node(s) exceed max volume count"
EBS = {"name": "disk", "awsElasticBlockStore": {"volumeID": "aws:///vol-1"}}
BOUND = [make_volume(f"pv{i}", claim=f"c{i}") for i in range(4)]
CLAIMS = [make_claim(f"c{i}", volume=f"pv{i}") for i in range(4)]


def limited(limit=1, pods=(), nodes=("n",), **objects):
    """A cluster whose nodes have this limit for csi.example.com, and claims c0 to c3 bound to pv0 to pv3."""
    known = {
        "CSINode": [make_csi_node(node, csi_example_com=limit) for node in nodes],
        "PersistentVolume": BOUND,
        "PersistentVolumeClaim": CLAIMS,
    }
    return cluster([make_node(node) for node in nodes], pods, **{**known, **objects})


def verdict(cache, pod, **gates):
    return outcome(build(NodeVolumeLimits, cache, gates=gates), pod)


@pytest.mark.parametrize(
    "pod, there, limit, reason",
    [
        pytest.param(["c0"], [], 1, "", id="the last place"),
        pytest.param(["c0"], [["c1"]], 1, FULL, id="no place left"),
        pytest.param(["c0"], [["c0"]], 1, "", id="a volume that is mounted on the node already"),
        pytest.param(["c0", "c1"], [["c0"]], 1, FULL, id="one volume mounted already and a new one"),
        pytest.param(["c0", "c1"], [["c0"]], 2, "", id="one volume mounted already and room for the new one"),
        pytest.param(["c0"], [["c1"], ["c1"]], 2, "", id="a volume that two pods mount counts once"),
        pytest.param(["c0", "c0"], [], 1, "", id="a claim that the pod mounts twice counts once"),
        pytest.param(["c0"], [], 0, FULL, id="a limit of 0"),
        pytest.param(["c0"], [["c1"], ["c2"]], None, "", id="no limit"),
        pytest.param(["c0"], [["c1"], ["c2"]], 1, FULL, id="over the limit already"),
        pytest.param(["c0"], [["c0"], ["c1"]], 1, "", id="over the limit, but no new volume"),
    ],
)
def test_limits(pod, there, limit, reason):
    pods = [mounting(*claims, name=f"there-{i}", node="n") for i, claims in enumerate(there)]

    assert verdict(limited(limit, pods), asking(*pod)) == {"n": reason}


def test_each_node_has_its_own_count():
    cache = limited(1, [mounting("c1", name="there", node="a")], nodes=("a", "b"))
    plugin = build(NodeVolumeLimits, cache)

    assert outcome(plugin, asking("c0")) == {"a": FULL, "b": ""}
    assert resolvable(plugin, asking("c0"), "a")


@pytest.mark.parametrize(
    "attachments, reason",
    [
        pytest.param([make_attachment("va", "n", "pv1")], FULL, id="an attachment without a pod"),
        pytest.param([make_attachment("va", "other", "pv1")], "", id="an attachment to another node"),
        pytest.param([make_attachment("va", "n", "gone")], "", id="an attachment of a deleted volume"),
        pytest.param([make_attachment("va", "n", "pv1", "else.example.com")], "", id="an attachment of another driver"),
        pytest.param([make_attachment("va", "n", "pv0")], FULL, id="an attachment of the same volume counts, too"),
        pytest.param(
            [{"metadata": {"name": "va"}, "spec": {"nodeName": "n"}}], "", id="an attachment without a volume"
        ),
    ],
)
def test_attachments(attachments, reason):
    assert verdict(limited(1, VolumeAttachment=attachments), asking("c0")) == {"n": reason}


def test_a_volume_that_is_mounted_and_attached_counts_once():
    pods = [mounting("c1", name="there", node="n")]

    assert verdict(limited(2, pods, VolumeAttachment=[make_attachment("va", "n", "pv1")]), asking("c0")) == {"n": ""}


def test_unbound_claims_count_for_the_driver_that_will_provision_them():
    claims = [make_claim("u0"), make_claim("u1"), make_claim("else", storage_class="none")]
    cache = limited(
        1, [mounting("u1", name="there", node="n")], PersistentVolumeClaim=claims, StorageClass=[make_class()]
    )

    assert verdict(cache, asking("u0")) == {"n": FULL}
    assert verdict(cache, asking("u1")) == {"n": ""}
    assert verdict(cache, asking("else")) == {"n": ""}


def test_a_claim_whose_volume_does_not_exist_counts_for_its_class():
    claims = [make_claim("u0", volume="gone"), make_claim("u1", volume="gone-too")]
    cache = limited(
        1, [mounting("u1", name="there", node="n")], PersistentVolumeClaim=claims, StorageClass=[make_class()]
    )

    assert verdict(cache, asking("u0")) == {"n": FULL}


@pytest.mark.parametrize(
    "pod, answer",
    [
        pytest.param(asking(), "Skip", id="no volumes"),
        pytest.param(asking(volumes=[{"name": "v", "image": {"reference": "x"}}]), "Skip", id="an image volume"),
        pytest.param(asking(volumes=[{"name": "v", "csi": {"driver": "d"}}]), "Skip", id="an inline CSI volume"),
        pytest.param(
            asking(volumes=[{"name": "v", "iscsi": {"iqn": "q"}}]), "Skip", id="an in-tree kind that no driver replaces"
        ),
        pytest.param(asking(volumes=[EBS]), {"n": ""}, id="an in-tree volume"),
        pytest.param(
            asking(volumes=[{"name": "v", "vsphereVolume": {"volumePath": "p"}}]),
            {"n": ""},
            id="an in-tree volume that is not translated is not skipped",
        ),
        pytest.param(
            asking("absent"),
            {"n": 'looking up PVC default/absent: persistentvolumeclaim "absent" not found'},
            id="a missing claim",
        ),
    ],
)
def test_which_volumes_are_checked(pod, answer):
    assert verdict(limited(), pod) == answer


def test_a_pod_without_volumes_is_skipped_without_reading_objects():
    plugin = build(NodeVolumeLimits, cluster())
    plugin.handle = None

    assert plugin.pre_filter(CycleState(), asking()) is SKIP


def test_in_tree_volumes_count_as_csi_volumes_on_nodes_with_a_csi_node():
    cache = cluster(
        [make_node("full"), make_node("other"), make_node("none")],
        [mounting(name="there", node="full", volumes=[{"name": "v", "awsElasticBlockStore": {"volumeID": "vol-2"}}])],
        CSINode=[make_csi_node(node, ebs_csi_aws_com=1) for node in ("full", "other")],
        PersistentVolume=[make_volume("pv", source={"awsElasticBlockStore": {"volumeID": "aws://z1/vol-2"}})],
        PersistentVolumeClaim=[make_claim("same", volume="pv"), make_claim("new", storage_class="gp2")],
        StorageClass=[make_class("gp2", provisioner="kubernetes.io/aws-ebs")],
    )

    assert verdict(cache, asking(volumes=[EBS])) == {"full": FULL, "other": "", "none": ""}
    assert verdict(cache, asking("same")) == {"full": "", "other": "", "none": ""}
    assert verdict(cache, asking("new")) == {"full": FULL, "other": "", "none": ""}


def test_an_in_tree_volume_that_cannot_be_translated_is_a_fault_on_nodes_with_a_csi_node():
    cache = cluster([make_node("n")])
    plugin = build(NodeVolumeLimits, cache)
    pod = asking(volumes=[{"name": "v", "awsElasticBlockStore": {"volumeID": "aws:///nonsense"}}])
    assert outcome(plugin, pod) == {"n": ""}

    cache.set_object("CSINode", make_csi_node("n", ebs_csi_aws_com=1))

    status = plugin.filter(CycleState(), pod, cache.present("n"))
    assert status.code is Code.ERROR
    assert "aws:///nonsense" in status.message
    with pytest.raises(PluginError, match="aws:///nonsense"):
        plugin.filter_all(CycleState(), pod, cache.table)


def test_an_ephemeral_volumes_claim_must_belong_to_the_pod():
    cache = limited(PersistentVolumeClaim=[make_claim("pod-scratch", volume="pv0", owner="somebody")])
    plugin = build(NodeVolumeLimits, cache)

    status = plugin.filter(CycleState(), asking(volumes=[ephemeral()]), cache.present("n"))

    assert status.code is Code.ERROR
    assert status.message == "PVC default/pod-scratch was not created for pod default/pod (pod is not owner)"


def test_an_ephemeral_volume_counts():
    claims = [make_claim("pod-scratch", volume="pv0", owner="default/pod"), *CLAIMS[1:]]
    cache = limited(1, [mounting("c1", name="there", node="n")], PersistentVolumeClaim=claims)

    assert verdict(cache, asking(volumes=[ephemeral()])) == {"n": FULL}


class TestDriversThatMustBeInstalled:
    missing = "csi.example.com CSI driver is not installed on the node"
    demanding = make_driver(preventPodSchedulingIfMissing=True)

    def cluster(self, *drivers, **more):
        return cluster(
            [make_node(name) for name in ("with", "without", "bare")],
            CSIDriver=drivers,
            CSINode=[make_csi_node("with", csi_example_com=None), make_csi_node("without", else_example_com=3)],
            PersistentVolume=BOUND,
            PersistentVolumeClaim=CLAIMS,
            **more,
        )

    @pytest.mark.parametrize(
        "drivers, gates, reason",
        [
            pytest.param([demanding], {}, missing, id="the driver requires it"),
            pytest.param(
                [make_driver(preventPodSchedulingIfMissing=False)], {}, "", id="the driver does not require it"
            ),
            pytest.param([make_driver()], {}, "", id="the driver does not set the field"),
            pytest.param([], {}, "", id="a driver that is not registered"),
            pytest.param([demanding], {"VolumeLimitScaling": False}, "", id="the feature is off"),
        ],
    )
    def test_the_driver_decides(self, drivers, gates, reason):
        found = verdict(self.cluster(*drivers), asking("c0"), **gates)

        assert found == {"with": "", "without": reason, "bare": reason}

    def test_the_rejection_is_resolvable(self):
        assert resolvable(build(NodeVolumeLimits, self.cluster(self.demanding)), asking("c0"), "bare")

    def test_an_in_tree_volume_passes_on_nodes_without_a_csi_node(self):
        demanding = make_driver("ebs.csi.aws.com", preventPodSchedulingIfMissing=True)

        found = verdict(self.cluster(demanding), asking(volumes=[EBS]))

        reason = "ebs.csi.aws.com CSI driver is not installed on the node"
        assert found == {"with": reason, "without": reason, "bare": ""}

    def test_a_missing_driver_is_reported_before_the_limit(self):
        cache = self.cluster(self.demanding, StorageClass=[make_class("else", provisioner="else.example.com")])
        cache.set_object("CSINode", make_csi_node("without", else_example_com=0))
        cache.set_object("PersistentVolumeClaim", make_claim("else", storage_class="else"))

        assert verdict(cache, asking("else", "c0")) == {"with": "", "without": self.missing, "bare": self.missing}
        assert verdict(cache, asking("else")) == {"with": "", "without": FULL, "bare": ""}


class TestCountsFollowEvents:
    def test_a_pod_leaves(self):
        cache = limited(1, [mounting("c1", name="there", node="n")])
        cache.remove_pod("default/there")
        assert verdict(cache, asking("c0")) == {"n": ""}

    def test_a_pod_is_assumed_and_forgotten(self):
        cache = limited(1)
        cache.assume(asking("c1", name="soon"), "n")
        assert verdict(cache, asking("c0")) == {"n": FULL}
        cache.forget("default/soon")
        assert verdict(cache, asking("c0")) == {"n": ""}

    def test_a_claim_becomes_bound(self):
        cache = limited(
            1,
            [mounting("late", name="there", node="n")],
            PersistentVolumeClaim=[make_claim("late"), *CLAIMS],
        )
        assert verdict(cache, asking("c0")) == {"n": ""}
        cache.set_object("PersistentVolumeClaim", make_claim("late", volume="pv1"))
        assert verdict(cache, asking("c0")) == {"n": FULL}
        cache.remove_object("PersistentVolumeClaim", "late", "default")
        assert verdict(cache, asking("c0")) == {"n": ""}

    def test_a_volume_is_added_and_removed(self):
        cache = limited(1, [mounting("c1", name="there", node="n")], PersistentVolume=[BOUND[0]])
        assert verdict(cache, asking("c0")) == {"n": ""}
        cache.set_object("PersistentVolume", BOUND[1])
        assert verdict(cache, asking("c0")) == {"n": FULL}
        cache.remove_object("PersistentVolume", "pv1")
        assert verdict(cache, asking("c0")) == {"n": ""}

    def test_a_class_appears(self):
        cache = limited(
            1, [mounting("late", name="there", node="n")], PersistentVolumeClaim=[make_claim("late"), *CLAIMS]
        )
        cache.set_object("StorageClass", make_class())
        assert verdict(cache, asking("c0")) == {"n": FULL}

    def test_an_attachment_is_added_and_removed(self):
        cache = limited(1)
        cache.set_object("VolumeAttachment", make_attachment("va", "n", "pv1"))
        assert verdict(cache, asking("c0")) == {"n": FULL}
        cache.remove_object("VolumeAttachment", "va")
        assert verdict(cache, asking("c0")) == {"n": ""}

    def test_an_attached_volume_is_added_late_and_removed(self):
        cache = limited(1, PersistentVolume=[BOUND[0]], VolumeAttachment=[make_attachment("va", "n", "pv1")])
        assert verdict(cache, asking("c0")) == {"n": ""}
        cache.set_object("PersistentVolume", BOUND[1])
        assert verdict(cache, asking("c0")) == {"n": FULL}
        cache.remove_object("PersistentVolume", "pv1")
        assert verdict(cache, asking("c0")) == {"n": ""}

    def test_a_limit_is_raised_and_removed(self):
        cache = limited(1, [mounting("c1", name="there", node="n")])
        cache.set_object("CSINode", make_csi_node("n", csi_example_com=2))
        assert verdict(cache, asking("c0")) == {"n": ""}
        cache.set_object("CSINode", make_csi_node("n", csi_example_com=1))
        assert verdict(cache, asking("c0")) == {"n": FULL}
        cache.remove_object("CSINode", "n")
        assert verdict(cache, asking("c0")) == {"n": ""}

    def test_a_node_returns_in_the_former_row_of_another_node(self):
        cache = limited(0, [mounting("c1", name="there", node="n")], nodes=("n",))
        cache.set_object("VolumeAttachment", make_attachment("va", "n", "pv2"))
        cache.remove_node("n")
        cache.set_node(parse_node(make_node("other")))
        assert verdict(cache, asking("c0")) == {"other": ""}
        cache.set_node(parse_node(make_node("n")))
        assert verdict(cache, asking("c0")) == {"other": "", "n": FULL}


def test_hints():
    plugin = build(NodeVolumeLimits, cluster())
    _, csi_node_updated, pod_deleted, claim_added, detached = (hint.function for hint in plugin.hints())
    pod = asking("claim", volumes=[ephemeral()])
    one, two = make_csi_node("n", csi_example_com=1), make_csi_node("n", csi_example_com=2)

    assert csi_node_updated(pod, one, two) is Hint.QUEUE
    assert csi_node_updated(pod, two, one) is Hint.SKIP
    assert csi_node_updated(pod, make_csi_node("n"), one) is Hint.QUEUE
    assert csi_node_updated(pod, one, one) is Hint.SKIP
    assert pod_deleted(pod, parse_pod(mounting("other", node="n")), None) is Hint.QUEUE
    assert pod_deleted(pod, parse_pod(mounting(node="n", volumes=[EBS])), None) is Hint.QUEUE
    assert pod_deleted(pod, parse_pod(mounting("other")), None) is Hint.SKIP
    assert pod_deleted(pod, parse_pod(mounting(node="n")), None) is Hint.SKIP
    assert claim_added(pod, None, make_claim("claim")) is Hint.QUEUE
    assert claim_added(pod, None, make_claim("pod-scratch")) is Hint.QUEUE
    assert claim_added(pod, None, make_claim("claim", namespace="other")) is Hint.SKIP
    assert claim_added(pod, None, make_claim("other")) is Hint.SKIP
    assert detached(pod, make_attachment("va", "n", "pv"), None) is Hint.QUEUE
    in_tree = asking(volumes=[EBS])
    assert detached(in_tree, make_attachment("va", "n", "pv", "ebs.csi.aws.com"), None) is Hint.QUEUE
    assert detached(in_tree, make_attachment("va", "n", "pv"), None) is Hint.SKIP
    assert detached(asking(volumes=[ephemeral()]), make_attachment("va", "n", "pv"), None) is Hint.SKIP
