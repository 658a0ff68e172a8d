"""Over generated histories, no limit is exceeded, each pod's bound really holds, and shares and order are as counted
again from all pods.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podwright.core.queues import tree
from support.properties import examples
from support.queues.worlds import QueuedWorld

STEPS = examples(120)


@pytest.fixture(autouse=True, scope="module")
def _shares_at_once():
    """The order follows shares at once, instead of when computing them again costs little."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree, "CLAIMS_PER_STEP", 10**9)
        yield


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32))
def test_what_queues_say_holds_after_each_step(seed):
    world = QueuedWorld(seed)
    for _ in range(STEPS):
        world.step()
        world.check()
