"""`--signals`: a file that defines signals by name."""

import pytest

from podwright.kube.options.options import OPTIONS, Options
from podwright.kube.options.values import OptionsError


def test_signals_are_read_from_a_file(tmp_path):
    path = tmp_path / "signals.yaml"
    path.write_text("signals: [{name: load, values: {a: 1}}]\n")
    (option,) = (each for each in OPTIONS if each.name == "signals")
    found = Options(signals=option.parse(str(path)))
    assert found.policies.signal_definitions["load"].fixed == {"a": 1.0}
    assert Options().policies.signal_definitions == {}


def test_an_error_names_the_file_and_the_field(tmp_path):
    path = tmp_path / "signals.yaml"
    path.write_text("signals: [{name: load}]\n")
    (option,) = (each for each in OPTIONS if each.name == "signals")
    with pytest.raises(OptionsError) as raised:
        option.parse(str(path))
    assert str(path) in str(raised.value)
    assert "signals[0]: needs exactly one of" in str(raised.value)
