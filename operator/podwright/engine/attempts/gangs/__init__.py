"""Attempts to schedule pod groups. Start with `attempts`.

`members` says which members an attempt takes, `room` which groups an event retries, and `group_changes` handles changes
of groups.
"""
