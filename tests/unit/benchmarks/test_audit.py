"""How long pods waited, out of an audit log."""

import json

import pytest
from benchmarks.audit import AuditLog, percentiles_ms


def line(name, received, answered, subresource=None, code=201):
    target = {"resource": "pods", "namespace": "default", "name": name}
    if subresource:
        target["subresource"] = subresource
    stamps = {
        "requestReceivedTimestamp": f"2026-01-01T00:00:{received}Z",
        "stageTimestamp": f"2026-01-01T00:00:{answered}Z",
    }
    return json.dumps({"objectRef": target, "responseStatus": {"code": code}, **stamps})


@pytest.mark.parametrize(
    "lines, waits",
    [
        pytest.param(
            [line("measured-1", "01.000000", "01.250000"), line("measured-1", "01.750000", "01.900000", "binding")],
            {"measured-1": 0.5},
            id="from the answer to the creation until the Binding arrives",
        ),
        pytest.param(
            [
                line("measured-1", "01.000000", "01.250000"),
                line("measured-1", "01.300000", "01.400000", "binding", 409),
                line("measured-1", "01.750000", "01.900000", "binding"),
            ],
            {"measured-1": 0.5},
            id="a Binding that was refused is none",
        ),
        pytest.param(
            [line("measured-1", "01.750000", "01.900000", "binding"), line("measured-1", "01.000000", "01.250000")],
            {"measured-1": 0.5},
            id="lines may come in any order",
        ),
        pytest.param([line("measured-1", "01.000000", "01.250000")], {}, id="a pod that was never bound has no wait"),
        pytest.param(
            [line("churn-1", "01.000000", "01.250000"), line("churn-1", "01.750000", "01.900000", "binding")],
            {},
            id="pods that are not measured do not count",
        ),
    ],
)
def test_waits(tmp_path, lines, waits):
    log = AuditLog(tmp_path)
    (tmp_path / "audit.log").write_text("".join(f"{each}\n" for each in lines))
    assert log.waits() == pytest.approx(waits)


def test_without_a_log_there_are_no_waits_yet(tmp_path):
    assert AuditLog(tmp_path).waits() == {}


def test_percentiles_are_those_of_the_sorted_waits():
    waits = {f"measured-{number}": number / 1000 for number in range(200, 0, -1)}
    assert percentiles_ms(waits) == pytest.approx({"p50_ms": 101, "p99_ms": 199})


def test_percentiles_of_nothing_are_refused():
    with pytest.raises(ValueError, match="nothing has waited"):
        percentiles_ms({})
