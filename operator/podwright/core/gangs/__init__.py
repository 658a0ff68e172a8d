"""Gangs: the pods of one PodGroup are planned together, all or nothing. `plan` decides; `gang_preemption` finds
victims.
"""
