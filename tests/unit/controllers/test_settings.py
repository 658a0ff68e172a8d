"""Kopf's settings."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path
from types import SimpleNamespace

import kopf
import pytest

from podwright.controllers.settings import EndlessBackoffs, configure


def configured(pending_selector="spec.nodeName=", crds_watchable=True):
    settings = kopf.OperatorSettings()
    configure(settings, SimpleNamespace(pending_selector=pending_selector, crds_watchable=crds_watchable))
    return settings


def test_kopf_writes_nothing_to_objects():
    settings = configured()
    body, patch = kopf.Body({"metadata": {"annotations": {"a": "b"}}, "spec": {"x": 1}}), kopf.Patch()
    diffs, progress = settings.persistence.diffbase_storage, settings.persistence.progress_storage
    diffs.store(body=body, patch=patch, essence=diffs.build(body=body))
    progress.store(key="k", record={}, body=body, patch=patch)
    progress.touch(body=body, patch=patch, value="now")
    progress.purge(key="k", body=body, patch=patch)
    assert not patch
    assert diffs.fetch(body=body) is None
    assert progress.fetch(key="k", body=body) is None
    assert not settings.posting.enabled


def test_the_server_filters_pending_pods():
    selector = "spec.nodeName=,spec.schedulerName!=default-scheduler"
    pods = kopf.Resource("", "v1", "pods", "Pod", "pod", frozenset(), frozenset(), frozenset(), True, True)
    assert configured(selector).watching.field_selectors.collect(pods) == [selector]


def test_workers_are_not_limited_and_there_is_no_peering():
    settings = configured()
    assert settings.queueing.worker_limit is None
    assert settings.peering.standalone


QUIET = [
    ("kopf.activities.authentication", "INFO", "Activity 'login' succeeded."),
    ("kopf._core.engines.activities", "INFO", "Initial authentication has finished."),
    ("kopf._core.reactor.running", "INFO", "Stop-flag is set to True. Operator is stopping."),
    ("kopf._core.reactor.observation", "WARNING", "Unresolved resources cannot be served (try creating their CRDs): x"),
]
HEARD = [
    ("kopf.activities.authentication", "ERROR", "Activity 'login' failed."),
    ("kopf._core.reactor.observation", "WARNING", "Not enough permissions to watch for resources: x"),
]


def test_kopfs_own_lines_are_left_out_unless_something_is_wrong(caplog):
    caplog.set_level("INFO")
    configured()
    configured()
    for name, level, text in (*QUIET, *HEARD):
        logging.getLogger(name).log(logging.getLevelNamesMapping()[level], text)
    assert [(record.name, record.levelname, record.getMessage()) for record in caplog.records] == HEARD
    assert len(logging.getLogger("kopf._core.reactor.observation").filters) == 1


def test_the_lines_that_are_left_out_are_kopfs():
    """Another version of Kopf may have other ones."""
    sources = "".join(path.read_text() for path in Path(kopf.__file__).parent.glob("_core/**/*.py"))
    for text in ("Unresolved resources", "Stop-flag is set to", "kopf.activities."):
        assert text in sources


@pytest.mark.parametrize("watchable", [True, False])
def test_kopf_scans_for_new_kinds_only_where_rbac_allows_it(watchable):
    assert configured(crds_watchable=watchable).scanning.disabled is not watchable


def test_backoffs_never_end_and_can_be_iterated_again():
    backoffs = EndlessBackoffs()
    for _ in range(2):
        pauses = list(itertools.islice(backoffs, 1_000))
        assert pauses == sorted(pauses)
        assert pauses[0] < 1
        assert pauses[-1] == 10.0
