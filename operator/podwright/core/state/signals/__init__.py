"""Signals: numbers for each node from outside, such as its measured load. Start with `signals`."""

from __future__ import annotations

from podwright.core.state.signals.definition import SignalDefinition
from podwright.core.state.signals.signals import NO_SIGNALS, Signals, Taken

__all__ = ["NO_SIGNALS", "SignalDefinition", "Signals", "Taken"]
