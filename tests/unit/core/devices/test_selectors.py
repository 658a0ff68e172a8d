import pytest

from podwright.core.devices.compiling import compile_expression
from podwright.core.devices.meter import SearchMeter
from podwright.core.devices.selectors import FAILS, SelectorError, Selectors
from podwright.core.objects.devices.slices import parse_slice
from podwright.core.state.deadline import Deadline
from podwright.core.state.devices.shapes import ShapeNumbers
from support.objects.devices import make_slice

DEVICES = [{"name": f"gpu-{i}", "attributes": {"index": {"int": i}}} for i in range(50)]


def shapes():
    return [device.shape for device in parse_slice(make_slice("s", DEVICES, node="a")).devices]


def frames_of(error):
    count, traceback = 0, error.__traceback__
    while traceback is not None:
        count, traceback = count + 1, traceback.tb_next
    return count


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(
            "device.drver == 'a'",
            "compilation failed: ERROR: <input>:1:7: undefined field 'drver'\n | device.drver == 'a'\n | ......^",
            id="a misspelt field",
        ),
        pytest.param("device.driver", "must evaluate to bool or the unknown type, not string", id="no bool"),
    ],
)
def test_a_selector_that_cannot_be_compiled_fails_with_the_text_of_kube_scheduler(text, error):
    with pytest.raises(SelectorError) as raised:
        compile_expression(text)
    assert str(raised.value) == error


def test_a_selector_that_fails_on_many_devices_keeps_no_frame_for_each():
    evaluate = compile_expression('device.attributes["gpu.example.com"].missing == 1')
    frames = []
    for shape in shapes():
        with pytest.raises(SelectorError) as raised:
            evaluate(shape, lambda: None)
        frames.append(frames_of(raised.value))
    assert frames[-1] == frames[1], "the failure is the same for all devices, and kept"


def test_a_selector_that_cannot_be_compiled_keeps_no_frame_for_each_device():
    error = SelectorError("compilation failed: no")

    def compile_nothing(_text):
        raise error

    numbers = ShapeNumbers()
    matcher = Selectors(compile_nothing, numbers, SearchMeter(Deadline())).matcher((), ("no",))
    for shape in shapes():
        numbers.add(shape)
    matcher.results()
    frames = []
    for shape in shapes():
        assert matcher.match(numbers.number(shape)) == FAILS
        frames.append(frames_of(error))
    assert frames[-1] == frames[0]
