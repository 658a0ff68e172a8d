"""sample-plugin: logs its args at three extension points, and accepts every pod and node.

The keys of its args are snake_case in pluginConfig, because the metadata of each field says so.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from podwright.core.framework.interface import (
    CycleState,
    FilterPlugin,
    Plugin,
    PreBindPlugin,
    PreFilterPlugin,
    Scope,
)
from podwright.core.framework.status import Code, Status
from podwright.core.objects.pod import PodInfo
from podwright.core.state.nodeinfo import NodeInfo

logger = logging.getLogger("podwright.plugins.sample-plugin")


@dataclass(frozen=True)
class SamplePluginArgs:
    """The `pluginConfig` of the plugin."""

    favorite_color: str = field(
        default="", metadata={"name": "favorite_color", "description": "A colour, for example #326CE5."}
    )
    favorite_number: int = field(default=0, metadata={"name": "favorite_number"})
    thanks_to: str = field(default="", metadata={"name": "thanks_to"})


class SamplePlugin(Plugin, PreFilterPlugin, FilterPlugin, PreBindPlugin):
    """See the module."""

    name = "sample-plugin"
    scope = Scope.NODE
    args_type = SamplePluginArgs

    def pre_filter(self, _state: CycleState, pod: PodInfo) -> None:
        args: SamplePluginArgs = self.args
        logger.info(
            "PreFilter of pod %s: favorite_color %s, favorite_number %d, thanks_to %s",
            pod.key,
            args.favorite_color,
            args.favorite_number,
            args.thanks_to,
        )

    def filter(self, _state: CycleState, pod: PodInfo, node: NodeInfo) -> None:
        logger.info("Filter of pod %s on node %s: favorite_color %s", pod.key, node.name, self.args.favorite_color)

    async def pre_bind(self, _state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        if self.handle.cache.present(node_name) is None:
            return Status(Code.ERROR, (f"node {node_name} is gone",))
        logger.info("PreBind of pod %s on node %s: thanks_to %s", pod.key, node_name, self.args.thanks_to)
        return None
