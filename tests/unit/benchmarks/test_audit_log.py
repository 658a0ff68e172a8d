"""Waiting times are read from the API server's audit log."""

import json

import pytest
from benchmarks.audit_log import AuditLog, percentiles_ms


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
            id="a wait lasts from the response to the creation to the arrival of the Binding",
        ),
        pytest.param(
            [
                line("measured-1", "01.000000", "01.250000"),
                line("measured-1", "01.300000", "01.400000", "binding", 409),
                line("measured-1", "01.750000", "01.900000", "binding"),
            ],
            {"measured-1": 0.5},
            id="rejected Bindings do not count",
        ),
        pytest.param(
            [line("measured-1", "01.750000", "01.900000", "binding"), line("measured-1", "01.000000", "01.250000")],
            {"measured-1": 0.5},
            id="lines may be in any order",
        ),
        pytest.param([line("measured-1", "01.000000", "01.250000")], {}, id="an unbound pod has no wait"),
        pytest.param(
            [line("churn-1", "01.000000", "01.250000"), line("churn-1", "01.750000", "01.900000", "binding")],
            {},
            id="only measured pods count",
        ),
    ],
)
def test_waits_are_read_from_the_log(tmp_path, lines, waits):
    log = AuditLog(tmp_path)
    (tmp_path / "audit.log").write_text("".join(f"{each}\n" for each in lines))
    assert log.waits() == pytest.approx(waits)


def test_a_missing_log_has_no_waits(tmp_path):
    assert AuditLog(tmp_path).waits() == {}


def test_percentiles_are_computed_from_sorted_waits():
    waits = {f"measured-{number}": number / 1000 for number in range(200, 0, -1)}
    assert percentiles_ms(waits) == pytest.approx({"p50_ms": 101, "p99_ms": 199})


def test_percentiles_need_at_least_one_wait():
    with pytest.raises(ValueError, match="no waits"):
        percentiles_ms({})
