"""How the engine loads, runs and watches the plugins of policies.

loading (from files) ─► policy_plugins builds them for each policy ─► guard times and stops their calls
what they raise ─► exceptions; which one made an attempt slow ─► slow_plugins
"""
