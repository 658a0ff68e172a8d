"""Nodes labelled with a team take only that team's pods."""

from podwright.core.framework.interface import FilterPlugin, Plugin
from podwright.core.framework.status import unresolvable


class TeamNodes(Plugin, FilterPlugin):
    name = "TeamNodes"

    def filter(self, state, pod, node):
        team = node.present.labels.get("team")
        if team is None or team == pod.labels.get("team"):
            return None
        return unresolvable("node(s) belonged to another team")
