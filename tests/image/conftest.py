"""Tests of the image, which only `make image-test` runs: it names the image in PODWRIGHT_IMAGE. They need root and
buildah.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests without an image."""
    if os.environ.get("PODWRIGHT_IMAGE"):
        return
    here = Path(__file__).parent
    deselected = {item for item in items if here in item.path.parents}
    items[:] = [item for item in items if item not in deselected]
    config.hook.pytest_deselected(items=list(deselected))
