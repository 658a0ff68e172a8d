"""LocalRules: the rules of a LocalSchedulerPolicy, beside those of the SchedulerPolicy that bounds it.

It is a separate plugin, so that the time of a team's rules can be measured apart from that of the cluster's.
"""

from __future__ import annotations

from podwright.core.plugins.rules.policy_rules import PolicyRules


class LocalRules(PolicyRules):
    """See the module. Only a local policy's `rules` enable it, with a RuleSet as its args."""

    name = "LocalRules"
