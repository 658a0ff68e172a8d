from podwright.core.framework.interface import ClusterError, CycleState
from podwright.core.framework.status import Code
from podwright.core.plugins.default_binder import DefaultBinder
from support.plugins.kit import build, make_cache, pending


class RecordingCluster:
    def __init__(self, error=None):
        self.bound = []
        self.error = error

    async def bind(self, pod, node_name, annotations):
        if self.error:
            raise self.error
        self.bound.append((pod.key, node_name, dict(annotations)))


async def test_the_binding_carries_the_annotations():
    plugin = build(DefaultBinder, make_cache())
    plugin.handle.cluster = RecordingCluster()
    assert await plugin.bind(CycleState(), pending(), "a", {"podwright.dev/decision": "{}"}) is None
    assert plugin.handle.cluster.bound == [("default/pod", "a", {"podwright.dev/decision": "{}"})]


async def test_a_refused_binding_is_an_error_with_the_servers_message():
    plugin = build(DefaultBinder, make_cache())
    plugin.handle.cluster = RecordingCluster(ClusterError('pods "pod" not found', 404))
    status = await plugin.bind(CycleState(), pending(), "a", {})
    assert (status.code, status.reasons) == (Code.ERROR, ('pods "pod" not found',))
