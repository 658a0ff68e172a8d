"""An hour of history: a sample every ten seconds, and no more than an hour of them."""

from podwright.engine.view.history import SAMPLES, History, UsageSample
from support.engine.kit import Rig, on_node, ours


def test_a_sample_says_what_there_is():
    rig = Rig()
    history = History(rig.engine.cache, rig.engine.queue, lambda: rig.now)
    history.sample()
    rig.now += 10
    rig.node("a", allocatable={"cpu": "8", "memory": "8Gi"})
    rig.engine.assigned.put(on_node(ours("p", requests={"cpu": "2", "memory": "4Gi"}), "a"))
    rig.pod("waits")
    history.sample()
    assert history.since(0) == [UsageSample(1000.0, 0, 0, 0, 0.0, 0.0), UsageSample(1010.0, 1, 1, 1, 0.25, 0.5)]


def test_samples_are_ten_seconds_apart_and_of_an_hour_at_most():
    rig = Rig()
    history = History(rig.engine.cache, rig.engine.queue, lambda: rig.now)
    for _ in range(2 * SAMPLES + 10):
        history.sample()
        rig.now += 5
    assert history.count == SAMPLES + 5
    assert len(history.since(0)) == SAMPLES
    assert [sample.at for sample in history.since(history.count - 2)] == [rig.now - 20, rig.now - 10]
    rig.now = 0.0  # the clock is set back
    history.sample()
    assert len(history.since(history.count - 1)) == 1
