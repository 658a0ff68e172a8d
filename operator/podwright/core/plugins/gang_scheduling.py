"""GangScheduling: known by name and off by default, as in kube-scheduler. It would hold the pods of a group until enough of them fit; a profile that enables it is refused."""

from __future__ import annotations

from podwright.core.framework.interface import Plugin


class GangScheduling(Plugin):
    """See the module."""

    name = "GangScheduling"
    not_supported = "pod groups are not scheduled as gangs yet"
