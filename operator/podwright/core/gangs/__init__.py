"""Gangs: the pods of one PodGroup are planned together, all or nothing. `plan` decides, `preemption` says who could go."""
