"""Resolved spread constraints are kept as long as they are in use."""

from podwright.core.framework.features import Features
from podwright.core.objects.compaction import compact_all
from podwright.core.objects.pod import parse_pod
from podwright.core.plugins.spread.args import PodTopologySpreadArgs
from podwright.core.plugins.spread.constraints import Resolver
from podwright.core.state.object_store import ObjectStore
from podwright.core.state.services import ServiceSelectors
from support.objects.builders import make_pod
from support.state.allocations import bytes_left_by


def test_constraints_with_labels_of_pods_that_are_gone_are_forgotten():
    store = ObjectStore()
    resolver = Resolver(PodTopologySpreadArgs(), Features(), store, ServiceSelectors(store))

    def come_and_go():
        for number in range(300):
            labels = {"build": f"value-{number}", "app": f"app-{number}"}
            constraint = {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": f"app-{number}"}},
                "matchLabelKeys": ["app", "build"][: 1 + number % 2],
            }
            pod = parse_pod(make_pod("p", labels=labels, spec={"topologySpreadConstraints": [constraint]}))
            assert resolver.hard(pod)
            del pod
        for _ in range(3):
            compact_all()

    come_and_go()
    assert bytes_left_by(come_and_go) < 300 * 32
