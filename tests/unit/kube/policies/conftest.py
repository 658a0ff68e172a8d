"""Statuses are compared without a pause."""

from __future__ import annotations

import pytest

from podwright.kube.write import object_status


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(object_status, "STATUS_SECONDS", 0.005)
