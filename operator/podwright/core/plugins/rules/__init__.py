"""The rules of policies: filters and scores in CEL. Start with `policy_rules`."""
