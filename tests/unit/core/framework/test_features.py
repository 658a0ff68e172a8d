from pathlib import Path

import pytest

import podwright.core
from podwright.core.framework.features import DEFAULTS, NEEDED_MINOR, WITHOUT_EFFECT, Features


def test_gates_have_the_defaults_of_1_37_unless_said_otherwise():
    features = Features({"GenericWorkload": True, "ImageVolume": False})
    assert features.enabled("VolumeLimitScaling")
    assert features.enabled("GenericWorkload")
    assert not features.enabled("ImageVolume")
    assert features.lacking == ()


def test_an_unknown_gate_is_refused_by_name():
    with pytest.raises(KeyError, match="unknown feature gate: Nonsense"):
        Features({"Nonsense": True})


@pytest.mark.parametrize(
    "minor, lacking",
    [
        pytest.param(37, set(), id="1.37 has everything"),
        pytest.param(36, {"VolumeLimitScaling"}, id="1.36"),
        pytest.param(35, {"VolumeLimitScaling", "NodeDeclaredFeatures", "InPlacePodLevelResourcesVerticalScaling"}, id="1.35"),
        pytest.param(34, set(NEEDED_MINOR), id="1.34, the oldest supported"),
    ],
)  # fmt: skip
def test_what_an_older_api_server_lacks_is_off_and_named(minor, lacking):
    features = Features(server_minor=minor)
    assert set(features.lacking) == lacking
    assert {name for name, on in DEFAULTS.items() if on and not features.enabled(name)} == lacking


def test_an_explicit_choice_goes_before_the_servers_age():
    assert Features({"VolumeLimitScaling": True}, server_minor=34).enabled("VolumeLimitScaling")


def test_gates_that_do_nothing_here_are_those_that_no_code_asks_for():
    (package,) = podwright.core.__path__
    sources = [path for path in Path(package).parent.rglob("*.py") if path.name != "features.py"]
    code = "".join(path.read_text() for path in sources)
    assert {gate for gate in DEFAULTS if f'"{gate}"' not in code} == WITHOUT_EFFECT


def test_only_gates_that_would_have_to_do_something_are_said_to_do_nothing():
    features = Features(
        {"SchedulerAsyncAPICalls": True, "ImageVolume": True, "VolumeLimitScaling": False}, server_minor=34
    )
    assert features.without_effect == ("SchedulerAsyncAPICalls",)
