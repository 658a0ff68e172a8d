from podwright.core.state.cache import Cache
from podwright.engine.outcomes.binding.device_rivals import DeviceRivals
from podwright.engine.records.device_metrics import DEVICE_RIVALS
from podwright.engine.records.log_fields import ObjectRef, fields_of
from podwright.engine.records.metrics import Metrics
from support.engine.kit import FakeRecorder
from support.objects.devices import DRIVER, allocated, exactly, make_claim


def test_the_later_of_two_claims_with_one_device_gets_an_event(caplog):
    cache, recorder, metrics = Cache(), FakeRecorder(), Metrics(lambda: 0.0)
    DeviceRivals(cache, recorder, metrics=metrics)
    for name, version in (("early", "1"), ("late", "2")):
        cache.set_object("ResourceClaim", make_claim(name, exactly(), resourceVersion=version))
        status = allocated("gpu-0", node="a")
        cache.set_object("ResourceClaim", make_claim(name, exactly(), resourceVersion=f"1{version}", status=status))
    text = f"device {DRIVER}/a/gpu-0 is also allocated to claim default/early, by another scheduler"
    assert recorder.events == [("late", "DeviceAllocatedTwice", text)]
    (record,) = caplog.records
    assert fields_of(record) == {"claim": ObjectRef("late", "default"), "err": text}
    assert metrics.counter(DEVICE_RIVALS).of("device")[0] == 1
