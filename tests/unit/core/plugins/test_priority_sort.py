from podwright.core.plugins.priority_sort import PrioritySort
from support.plugins.kit import build, make_cache, pending


def test_higher_priority_goes_first_then_the_earlier_pod():
    plugin = build(PrioritySort, make_cache())
    queued = [("late", 0, 3.0), ("early", 0, 1.0), ("urgent", 1000, 9.0), ("humble", -5, 0.5)]
    keys = {plugin.sort_key(pending(name=name, priority=priority), at): name for name, priority, at in queued}
    assert [keys[key] for key in sorted(keys)] == ["urgent", "early", "late", "humble"]
