"""Accounts of policies: the time that local policies take (`local_budgets`), and what each policy has decided
(`policy_activity`).
"""
