"""Fixtures for tests of options."""

import logging

import pytest

from podwright.kube.log_format import module_names


@pytest.fixture
def started(monkeypatch):
    """The options with which `podwright run` has started its scheduler."""
    options = []

    async def start(given):
        options.append(given)

    monkeypatch.setattr("podwright.cli.processes.scheduler.run", start)
    for handler in logging.getLogger().handlers:  # `podwright run` sets formatters, pytest's too
        monkeypatch.setattr(handler, "formatter", handler.formatter)
    loggers = [logging.getLogger(), *(logging.getLogger(name) for name in module_names())]
    levels = [logger.level for logger in loggers]
    yield options
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
