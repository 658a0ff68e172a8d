"""The parts of a policy's spec, one per file: fields with their bounds and rules. Parser and CRD are both derived from
them.

Next: podwright/api/scheduler_policy.py and local_policy.py, which combine these parts.
"""
