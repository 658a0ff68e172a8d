"""Takes raw objects in: parses them, updates cache and queue, and moves waiting pods on cluster events.

One class for each stream, with the shape of a reflector's sink (`key`, `put`, `drop`). No stream ever raises, whatever
the object is: an invalid object is reported once, and its last valid version stays. The readable parts of an assigned
pod and of a node count.
"""
