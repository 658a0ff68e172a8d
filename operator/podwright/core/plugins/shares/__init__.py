"""Shares of devices: which nodes have room for one on a single device, and where it leaves the fewest fragments."""
