"""Counts of placed pods by selector and by affinity term, updated with each pod. Start with `pod_index`.

`matches` counts the placed pods that a selector matches. `terms` counts the affinity terms of placed pods and finds
those that match a given pod. `domains` sums both over topology domains. A decision therefore need not count all pods:
each added or removed pod changes one row and one domain.

Where a pod has very many terms, or very many terms match it, they are evaluated together, and what was counted is not
kept: `tally` counts the terms of a pending pod, with `pod_columns`; `term_rows` holds the terms of placed pods.
"""

from podwright.core.state.podindex.domains import Domains, Eligibility, Sums
from podwright.core.state.podindex.matches import MatchCounter
from podwright.core.state.podindex.pod_index import PodIndex
from podwright.core.state.podindex.pod_selector import PodSelector
from podwright.core.state.podindex.selector_rows import SelectorList
from podwright.core.state.podindex.tally import Tally
from podwright.core.state.podindex.terms import Groups, MatchedTerms, TermGroup, TermKind

__all__ = [
    "Domains",
    "Eligibility",
    "Groups",
    "MatchCounter",
    "MatchedTerms",
    "PodIndex",
    "PodSelector",
    "SelectorList",
    "Sums",
    "Tally",
    "TermGroup",
    "TermKind",
]
