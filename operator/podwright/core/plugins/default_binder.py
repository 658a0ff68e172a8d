"""DefaultBinder: binds the pod by posting a Binding to the API server."""

from __future__ import annotations

from collections.abc import Mapping

from podwright.core.framework.interface import BindPlugin, ClusterError, CycleState, Plugin
from podwright.core.framework.status import Code, Status
from podwright.core.objects.pod import PodInfo


class DefaultBinder(Plugin, BindPlugin):
    """See the module."""

    name = "DefaultBinder"

    async def bind(
        self, _state: CycleState, pod: PodInfo, node_name: str, annotations: Mapping[str, str]
    ) -> Status | None:
        try:
            await self.handle.cluster.bind(pod, node_name, annotations)
        except ClusterError as error:
            return Status(Code.ERROR, (str(error),))
        return None
