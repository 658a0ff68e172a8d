"""PodGroupPodsCount: known by name only, so that profiles of kube-scheduler that enable it are valid.

In all profiles the gang planner (core/gangs) does its work: it prefers the domain that takes most pods of a group.
"""

from __future__ import annotations

from podwright.core.framework.interface import Plugin


class PodGroupPodsCount(Plugin):
    """See the module."""

    name = "PodGroupPodsCount"
