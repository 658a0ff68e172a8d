"""Exceptions in the indexes of plugins are logged once and counted."""

import logging

from podwright.engine.metrics.metrics import Metrics
from podwright.engine.plugins.index_exceptions import IndexExceptions


class Ports:
    pass


def raised(text):
    try:
        raise KeyError(text)
    except KeyError as error:
        return error


def test_the_same_exception_is_logged_once_and_counted(caplog):
    metrics = Metrics(lambda: 0.0)
    exceptions = IndexExceptions(metrics)
    with caplog.at_level(logging.ERROR):
        for number in range(5):
            exceptions.report(Ports, "pod_added", raised(f"pod-{number}"))
        exceptions.report(Ports, "pod_removed", raised("other"))
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith("index Ports raised KeyError at pod_added (test_index_exceptions.py, line ")
    assert "at pod_removed" in second
    assert caplog.records[0].exc_info is not None
    counted = metrics.registry.get_sample_value(
        "podwright_plugin_exceptions_total", {"plugin": "Ports", "extension_point": "Index"}
    )
    assert counted == 6
