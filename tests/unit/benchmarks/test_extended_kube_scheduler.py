"""The table of what extenders cost kube-scheduler."""

from benchmarks.backlog import Backlog
from benchmarks.extended_kube_scheduler import BY_DEFAULT, SERIES, table


def backlog(rate, extender=0.0):
    cpu = {"API server": 1.5, "etcd": 0.5, "scheduler": 2.0}
    return Backlog(rate, cpu | ({"extender": extender} if extender else {}), 0.9, 0.02)


def test_rates_are_compared_with_kube_scheduler_alone_and_with_the_null_extender():
    lines = table(
        {
            "alone": [backlog(400), backlog(500), backlog(600)],
            "podwright": [backlog(200, 1.0), backlog(300, 3.0), backlog(250, 1.5)],
            "null": [backlog(250, 0.2)],
        }
    ).splitlines()
    cells = {line[:32].strip(): line[32:].split() for line in reversed(lines)}
    assert cells["alone"] == ["500", "1.00", "1.50", "2.00", "0.50", "0.00", "4.00", "90%", "2%"]
    assert cells["Podwright"] == ["250", "0.50", "1.00", "1.50", "2.00", "0.50", "1.50", "5.50", "90%", "2%"]
    assert cells["null extender"] == ["250", "0.50", "1.50", "2.00", "0.50", "0.20", "4.20", "90%", "2%"]


def test_a_series_is_compared_with_the_null_extender_that_gets_the_same_calls():
    for name, series in SERIES.items():
        if series.beside:
            assert series.changed == SERIES[series.beside].changed, name
            assert series.beside in BY_DEFAULT
