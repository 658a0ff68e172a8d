from pathlib import Path

import pytest

import podwright.core
from podwright.core.framework.features import GATES, Features


def test_gates_have_the_defaults_of_1_37_unless_overridden():
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
        pytest.param(34, {name for name, gate in GATES.items() if gate.needs_minor}, id="1.34, the oldest supported"),
    ],
)  # fmt: skip
def test_gates_that_an_older_api_server_lacks_are_off_and_listed(minor, lacking):
    features = Features(server_minor=minor)
    assert set(features.lacking) == lacking
    assert {name for name, gate in GATES.items() if gate.default and not features.enabled(name)} == lacking


def test_an_override_wins_over_the_version_of_the_api_server():
    assert Features({"VolumeLimitScaling": True}, server_minor=34).enabled("VolumeLimitScaling")


def test_gates_have_no_effect_exactly_if_no_code_reads_them():
    (package,) = podwright.core.__path__
    sources = [path for path in Path(package).parent.rglob("*.py") if path.name != "features.py"]
    code = "".join(path.read_text() for path in sources)
    assert {name for name in GATES if f'"{name}"' not in code} == {
        name for name, gate in GATES.items() if not gate.has_effect
    }


def test_only_overrides_that_differ_from_the_default_are_listed_as_without_effect():
    features = Features(
        {"SchedulerAsyncAPICalls": True, "ImageVolume": True, "VolumeLimitScaling": False}, server_minor=34
    )
    assert features.without_effect == ("SchedulerAsyncAPICalls",)
