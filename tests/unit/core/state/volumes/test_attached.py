"""Columns of volumes by driver."""

from podwright.core.objects.compaction import compact_all
from podwright.core.state.object_store import ObjectStore
from podwright.core.state.volumes.attached import AttachedVolumes
from podwright.core.state.volumes.volume_index import VolumeIndex
from support.state.allocations import bytes_left_by


def csi_node(name, *drivers, count=5):
    listed = [{"name": driver, "nodeID": "a", "allocatable": {"count": count}} for driver in drivers]
    return {"metadata": {"name": name}, "spec": {"drivers": listed}}


def test_a_driver_that_no_node_has_any_more_has_no_limit():
    store = ObjectStore()
    attached = AttachedVolumes(store, VolumeIndex(store))
    attached.node_added("a", 0)
    attached.node_added("b", 1)
    store.set("CSINode", csi_node("a", "x", "y"))
    store.set("CSINode", csi_node("b", "x", count=3))
    assert list(attached.limits("x", 2)) == [5, 3]
    assert list(attached.installed("y", 2)) == [True, False]
    store.set("CSINode", csi_node("a", "x"))
    store.remove("CSINode", "b")
    assert attached.limits("y", 2) is None
    assert list(attached.installed("y", 2)) == [False, False]
    assert list(attached.known(2)) == [True, False]
    assert list(attached.counts("never seen", 2)) == [0, 0]


def test_drivers_that_come_and_go_leave_no_columns():
    store = ObjectStore()
    attached = AttachedVolumes(store, VolumeIndex(store))
    attached.node_added("a", 0)

    def come_and_go():
        for number in range(500):
            store.set("CSINode", csi_node("a", f"driver-{number}"))
            attached.counts(f"other-{number}", 1)
        store.remove("CSINode", "a")
        compact_all()

    come_and_go()
    # What else runs in the process may allocate meanwhile, but not each time.
    assert min(bytes_left_by(come_and_go) for _ in range(3)) < 500 * 32
