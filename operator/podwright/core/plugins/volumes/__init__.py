"""The plugins for volumes. Start with `volume_binding`, the largest one.

* `volume_binding` chooses and binds volumes. Its parts: `matching` plans the volumes for a node, `assumed_plan` assumes
  and writes the plan, `volume_node_affinity` says which nodes can reach a volume, `hints` requeues rejected pods.
* `volume_restrictions`, `volume_zone` and `node_volume_limits` are filters, one file each.
"""
