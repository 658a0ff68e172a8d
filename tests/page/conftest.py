"""One browser for each module, one operator beside a sandbox, and pages of the browser that must not report errors.

The browser ends with its module: while it runs, Playwright keeps an event loop in this thread, which other tests do not
expect.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from support.page import chromium
from support.page.stage import Stage, nodes, staged

SECONDS = 60
"""For which an element is waited for. A busy machine gives Chromium little of it."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    try:
        found = chromium.find()
    except (OSError, subprocess.SubprocessError) as error:
        problem = f"no Chromium: {error}"
        if os.environ.get("CI", "").lower() in {"true", "1"}:
            pytest.fail(problem, pytrace=False)
        pytest.skip(problem)
    with chromium.launched(found) as launched:
        yield launched


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("stage"), nodes(12, 3)) as found:
        yield found


def is_error(message: ConsoleMessage) -> bool:
    """A refusal of the server is an error for Chromium's console, and not for the page."""
    return message.type == "error" and not re.search(r"status of 40[13] ", message.text)


@pytest.fixture
def look(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page of this size and scheme, after this script. At the end, no error may have been reported on any."""
    problems: list[str] = []
    with ExitStack() as opened:

        def open_page(
            url: str,
            *,
            width: int = 1280,
            height: int = 800,
            scheme: Any = "light",
            scale: int = 1,
            signed_in: bool = True,
            script: str = "",
        ) -> Page:
            context = browser.new_context(
                viewport={"width": width, "height": height},
                device_scale_factor=scale,
                color_scheme=scheme,
                reduced_motion="reduce",
                ignore_https_errors=True,
            )
            opened.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(SECONDS * 1000)
            expect.set_options(timeout=SECONDS * 1000)
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("console", lambda message: problems.append(message.text) if is_error(message) else None)
            page.on("dialog", lambda dialog: problems.append(f"a dialog: {dialog.message}"))
            page.add_init_script(script)
            page.goto(url)
            if not signed_in:
                page.wait_for_selector("dialog[open]")
                return page
            page.wait_for_selector("[data-state=live]")
            page.wait_for_selector("#map[data-nodes]:not([data-nodes='0'])")
            return page

        yield open_page
    assert not problems
