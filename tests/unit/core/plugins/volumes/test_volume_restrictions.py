import pytest

from podwright.core.framework.cluster_events import Hint
from podwright.core.framework.interface import CycleState
from podwright.core.framework.status import SKIP
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.volumes.volume_restrictions import VolumeRestrictions
from support.costs.call_counts import calls_of
from support.objects.builders import make_node
from support.plugins.kit import build
from support.plugins.volumes import asking, cluster, ephemeral, make_claim, mounting, outcome, resolvable

DISK = "node(s) had no available disk"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
EXCLUSIVE_CLAIM = make_claim("solo", modes=["ReadWriteOncePod"])


def gce(name, *, read_only=False):
    return {"name": "v", "gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(volume_id, *, read_only=False):
    return {"name": "v", "awsElasticBlockStore": {"volumeID": volume_id, "readOnly": read_only}}


def iscsi(iqn, *, read_only=False):
    return {"name": "v", "iscsi": {"targetPortal": "10.0.0.1", "iqn": iqn, "lun": 0, "readOnly": read_only}}


def rbd(*monitors, image="image", pool="rbd", read_only=False):
    return {"name": "v", "rbd": {"monitors": list(monitors), "image": image, "pool": pool, "readOnly": read_only}}


@pytest.mark.parametrize(
    "wanted, mounted, conflict",
    [
        pytest.param(gce("d"), gce("d"), True, id="one GCE disk twice"),
        pytest.param(gce("d"), gce("e"), False, id="two GCE disks"),
        pytest.param(
            gce("d", read_only=True), gce("d", read_only=True), False, id="a GCE disk mounted read-only by both"
        ),
        pytest.param(gce("d", read_only=True), gce("d"), True, id="a GCE disk that the other pod writes"),
        pytest.param(gce("d"), gce("d", read_only=True), True, id="a GCE disk that this pod writes"),
        pytest.param(ebs("d", read_only=True), ebs("d", read_only=True), True, id="an EBS volume, even read-only"),
        pytest.param(ebs("d"), gce("d"), False, id="volumes of different kinds with the same name"),
        pytest.param(iscsi("q"), iscsi("q"), True, id="one iSCSI target twice"),
        pytest.param(
            iscsi("q", read_only=True),
            iscsi("q", read_only=True),
            False,
            id="an iSCSI target mounted read-only by both",
        ),
        pytest.param(rbd("a", "b"), rbd("b", "c"), True, id="an RBD image with a common monitor"),
        pytest.param(rbd("a"), rbd("b"), False, id="RBD images of different monitors"),
        pytest.param(rbd("a", pool="p"), rbd("a", pool="q"), False, id="RBD images of different pools"),
        pytest.param(rbd("a", image="i"), rbd("a", image="j"), False, id="different RBD images"),
        pytest.param(
            rbd("a", read_only=True), rbd("a", read_only=True), False, id="an RBD image mounted read-only by both"
        ),
        pytest.param(rbd("a", "a"), rbd("a"), True, id="a monitor that is listed twice"),
    ],
)
def test_disks_with_exclusive_use(wanted, mounted, conflict):
    cache = cluster([make_node("a"), make_node("b")], [mounting(name="there", node="a", volumes=[mounted])])
    plugin = build(VolumeRestrictions, cache)

    assert outcome(plugin, asking(volumes=[wanted])) == {"a": DISK if conflict else "", "b": ""}


def test_a_disk_is_free_after_its_pod_leaves():
    cache = cluster([make_node("a")], [mounting(name="there", node="a", volumes=[gce("d")])])
    plugin = build(VolumeRestrictions, cache)
    assert outcome(plugin, asking(volumes=[gce("d")])) == {"a": DISK}
    assert resolvable(plugin, asking(volumes=[gce("d")]), "a")

    cache.remove_pod("default/there")

    assert outcome(plugin, asking(volumes=[gce("d")])) == {"a": ""}


def test_a_writer_leaves_and_readers_stay():
    readers = [mounting(name=f"reader-{i}", node="a", volumes=[gce("d", read_only=True)]) for i in range(2)]
    cache = cluster([make_node("a")], [*readers, mounting(name="writer", node="a", volumes=[gce("d")])])
    plugin = build(VolumeRestrictions, cache)

    cache.remove_pod("default/writer")

    assert outcome(plugin, asking(volumes=[gce("d", read_only=True)])) == {"a": ""}
    assert outcome(plugin, asking(volumes=[gce("d")])) == {"a": DISK}


@pytest.mark.parametrize(
    "pod, answer",
    [
        pytest.param(asking(), "Skip", id="no volumes"),
        pytest.param(asking("shared"), "Skip", id="a claim that may be shared"),
        pytest.param(asking("solo"), "Skip", id="an exclusive claim that no pod uses"),
        pytest.param(asking(volumes=[ephemeral()]), "Skip", id="an ephemeral volume, whose claim may be missing"),
        pytest.param(asking("shared", "absent"), 'persistentvolumeclaim "absent" not found', id="a missing claim"),
        pytest.param(asking(volumes=[gce("d")]), {"a": ""}, id="a disk to check"),
    ],
)
def test_pre_filter(pod, answer):
    cache = cluster([make_node("a")], PersistentVolumeClaim=[make_claim("shared"), EXCLUSIVE_CLAIM])

    assert outcome(build(VolumeRestrictions, cache), pod) == answer


def _used_on(node):
    return cluster(
        [make_node("a"), make_node("b")],
        [mounting("solo", name="user", node=node)],
        PersistentVolumeClaim=[EXCLUSIVE_CLAIM],
    )


def test_a_claim_for_one_pod_is_in_use_everywhere():
    plugin = build(VolumeRestrictions, _used_on("a"))

    assert outcome(plugin, asking("solo")) == {"a": IN_USE, "b": IN_USE}


def test_a_pod_on_an_unknown_node_uses_no_claim_until_the_node_is_added():
    cache = _used_on("gone")
    plugin = build(VolumeRestrictions, cache)

    assert outcome(plugin, asking("solo")) == "Skip"
    cache.set_node(parse_node(make_node("gone")))
    assert outcome(plugin, asking("solo")) == {"a": IN_USE, "b": IN_USE, "gone": IN_USE}


@pytest.mark.parametrize(
    "user_node",
    [pytest.param("a", id="on a node"), pytest.param("gone", id="the pod is on an unknown node")],
)
def test_a_claim_of_that_name_in_another_namespace_is_another_claim(user_node):
    cache = cluster(
        [make_node("a")],
        PersistentVolumeClaim=[EXCLUSIVE_CLAIM, make_claim("solo", namespace="other", modes=["ReadWriteOncePod"])],
    )
    other = mounting("solo", name="user", node=user_node)
    other["metadata"]["namespace"] = "other"
    cache.set_pod(parse_pod(other))

    assert outcome(build(VolumeRestrictions, cache), asking("solo")) == "Skip"


def test_the_disk_is_reported_before_the_claim():
    cache = cluster(
        [make_node("a"), make_node("b")],
        [mounting("solo", name="user", node="a", volumes=[gce("d")])],
        PersistentVolumeClaim=[EXCLUSIVE_CLAIM],
    )

    found = outcome(build(VolumeRestrictions, cache), asking("solo", volumes=[gce("d")]))

    assert found == {"a": DISK, "b": IN_USE}


def test_removing_the_user_in_a_dry_run_frees_the_claim():
    cache = cluster(
        [make_node("a")], [mounting("solo", name="user", node="a")], PersistentVolumeClaim=[EXCLUSIVE_CLAIM]
    )
    plugin = build(VolumeRestrictions, cache)
    pod, state, node = asking("solo"), CycleState(), cache.present("a")
    user = node.pods["default/user"]
    plugin.pre_filter(state, pod)

    dry_run = state.clone()
    plugin.remove_pod(dry_run, pod, user, node)
    assert plugin.filter(dry_run, pod, node) is None
    plugin.add_pod(dry_run, pod, user, node)

    assert plugin.filter(dry_run, pod, node).message == IN_USE
    assert plugin.filter(state, pod, node).message == IN_USE


def test_hints():
    plugin = build(VolumeRestrictions, cluster())
    deleted, _, claim_added = (hint.function for hint in plugin.hints())
    pod = asking("solo", volumes=[gce("d")])

    def gone(**parts):
        return parse_pod(mounting(**parts))

    assert deleted(pod, gone(volumes=[gce("d")]), None) is Hint.QUEUE
    assert deleted(pod, parse_pod(mounting("solo")), None) is Hint.QUEUE
    assert deleted(pod, gone(volumes=[gce("e")]), None) is Hint.SKIP
    foreign = mounting("solo")
    foreign["metadata"]["namespace"] = "other"
    assert deleted(pod, parse_pod(foreign), None) is Hint.SKIP
    assert claim_added(pod, None, EXCLUSIVE_CLAIM) is Hint.QUEUE
    assert claim_added(pod, None, make_claim("another")) is Hint.SKIP
    assert claim_added(pod, None, make_claim("solo", namespace="other")) is Hint.SKIP


def test_the_cost_of_comparing_disks_is_linear_in_their_number():
    def calls(size):
        cache = cluster([make_node("a")], [mounting(node="a", volumes=[gce(f"mounted-{i}") for i in range(size)])])
        plugin = build(VolumeRestrictions, cache)
        pod, state, node = asking(volumes=[gce(f"own-{i}") for i in range(size)]), CycleState(), cache.present("a")
        plugin.pre_filter(state, pod)
        return calls_of(lambda: plugin.filter(state, pod, node))

    assert calls(400) <= 2.2 * calls(200)


def test_a_pod_without_volumes_is_skipped_without_reading_objects():
    plugin = build(VolumeRestrictions, cluster())
    plugin.handle = None

    assert plugin.pre_filter(CycleState(), asking()) is SKIP
