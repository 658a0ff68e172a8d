"""Errors that lie in the claims: the whole attempt fails, whatever other nodes offer."""

from __future__ import annotations

from collections.abc import Sequence


class AllocationError(Exception):
    """`claim`: the position of the claim that the text is about, or None. The texts are kube-scheduler's."""

    def __init__(self, text: str, claim: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.claim = claim

    def message(self, claims: Sequence[str]) -> str:
        """The text with the claim's name. `claims`: namespace/name of each claim of the problem."""
        return self.text if self.claim is None else f"claim {claims[self.claim]}{self.text}"


class SearchTimeoutError(Exception):
    """The search on one node has taken longer than the filter's timeout."""
