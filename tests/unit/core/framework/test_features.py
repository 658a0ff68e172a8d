from pathlib import Path

import pytest

import podwright.core
from podwright.core.framework.features import AUTOMATIC, GATES, NEWEST_MINOR, OLDEST_MINOR, Features, expand_groups


def test_gates_have_the_defaults_of_1_37_unless_overridden():
    features = Features({"GenericWorkload": True, "ImageVolume": False})
    assert features.enabled("VolumeLimitScaling")
    assert features.enabled("GenericWorkload")
    assert not features.enabled("ImageVolume")
    assert features.off_by_version == features.missing_api == ()


def test_an_unknown_gate_is_refused_by_name():
    with pytest.raises(KeyError, match="unknown feature gate: Nonsense"):
        Features({"Nonsense": True})


IN_37 = {"StorageCapacityScoring", "VolumeLimitScaling"}
IN_36 = {"NodeDeclaredFeatures", "DRAExtendedResource"}
IN_35 = {"NominatedNodeNameForExpectation"}
CSI = "CSIDriver.spec.preventPodSchedulingIfMissing"


@pytest.mark.parametrize(
    ("minor", "off", "some_missing", "some_present"),
    [
        pytest.param(None, set(), set(), {CSI}, id="no API server: 1.37"),
        pytest.param(38, set(), set(), {CSI}, id="newer than 1.37"),
        pytest.param(37, set(), set(), {CSI}, id="1.37 has everything"),
        pytest.param(36, IN_37, {CSI}, {"PodGroup", "Node.status.declaredFeatures"}, id="1.36"),
        pytest.param(35, IN_37 | IN_36, {"PodGroup", CSI}, {"Node.status.declaredFeatures"}, id="1.35"),
        pytest.param(34, IN_37 | IN_36 | IN_35, {CSI, "Pod.spec.volumes.image"}, set(), id="1.34, the oldest supported"),
    ],
)  # fmt: skip
def test_gates_have_the_defaults_of_an_older_version(minor, off, some_missing, some_present):
    features = Features(AUTOMATIC, minor)
    assert set(features.off_by_version) == off
    assert not any(features.enabled(name) for name in off)
    assert some_missing <= set(features.missing_api)
    assert not some_present & set(features.missing_api)


def test_gates_that_are_on_in_1_37_are_off_before_their_version_even_if_they_have_no_effect():
    for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1):
        features = Features(server_minor=minor)
        for name, gate in GATES.items():
            assert features.enabled(name) == (gate.default and minor >= gate.since)


def test_an_override_wins_over_the_version_of_the_api_server():
    features = Features({"VolumeLimitScaling": True}, server_minor=34)
    assert features.enabled("VolumeLimitScaling")
    assert "VolumeLimitScaling" not in features.off_by_version


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


def test_gates_of_other_components_are_known_and_have_no_effect():
    features = Features({"KubeletTracing": True, "WatchList": False, "AtomicFIFO": True})
    assert features.without_effect == ("WatchList",)


def test_all_gates_of_a_stage_can_be_set_at_once_unless_they_are_set_by_name():
    expanded = expand_groups({"AllAlpha": True, "AllBeta": False, "GenericWorkload": True})
    assert expanded["TaintTolerationComparisonOperators"] is True
    assert expanded["VolumeLimitScaling"] is False
    assert expanded["GenericWorkload"] is True
    assert "NodeDeclaredFeatures" not in expanded, "a gate that is GA"
    assert not {"AllAlpha", "AllBeta"} & expanded.keys()
