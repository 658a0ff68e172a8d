"""Reads: what an expression reads of the cluster. It says when a kept result is out of date, and which events may
change it.
"""

from __future__ import annotations

from enum import IntFlag


class Reads(IntFlag):
    """Parts of a node, the pods on it, and pods elsewhere."""

    NAME = 1
    LABELS = 2
    ANNOTATIONS = 4
    TAINTS = 8
    CONDITIONS = 16
    IMAGES = 32
    ALLOCATABLE = 64
    UNSCHEDULABLE = 128
    USAGE = 256
    """The requests of the pods on the node, and the number of pods."""
    PLACED = 512
    """Pods on other nodes."""
    SIGNALS = 1024
    """Numbers from outside, which change while the node object stays the same."""

    @property
    def usage(self) -> bool:
        """True if pods that come and go can change the result."""
        return bool(self & (Reads.USAGE | Reads.PLACED))


NOTHING = Reads(0)
FIELDS = {
    "name": Reads.NAME,
    "labels": Reads.LABELS,
    "annotations": Reads.ANNOTATIONS,
    "taints": Reads.TAINTS,
    "conditions": Reads.CONDITIONS,
    "images": Reads.IMAGES,
    "allocatable": Reads.ALLOCATABLE,
    "unschedulable": Reads.UNSCHEDULABLE,
    "requested": Reads.USAGE,
    "free": Reads.USAGE,
    "podCount": Reads.USAGE,
}
"""The fields of `node`, with what each reads."""
EVERYTHING = Reads(sum(Reads)) & ~Reads.SIGNALS
"""All of the node itself, and of pods."""
