"""Counts of placed pods, by selector and by affinity term, kept while pods come and go: start at `index`.

`matches` counts the placed pods that a selector picks; `terms` counts the affinity terms that placed pods carry and finds
those that pick a given pod; `domains` sums either over topology domains. What a decision asks is thus not counted over
all pods again: one pod more changes one row and one domain.
"""

from podwright.core.state.podindex.domains import Domains, Eligibility, Sums
from podwright.core.state.podindex.matches import MatchCounter, Picker
from podwright.core.state.podindex.pod_index import PodIndex
from podwright.core.state.podindex.terms import Groups, Kind, MatchedTerms, TermGroup

__all__ = [
    "Domains",
    "Eligibility",
    "Groups",
    "Kind",
    "MatchCounter",
    "MatchedTerms",
    "Picker",
    "PodIndex",
    "Sums",
    "TermGroup",
]
