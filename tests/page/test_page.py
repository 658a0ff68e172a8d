"""The page in a real browser, live on an operator."""

import pytest
from axe_playwright_python.sync_playwright import Axe


def test_a_pod_shows_up_where_it_goes_and_says_why(look, stage):
    page = look(stage.url)
    stage.pod("fits")
    decided = page.get_by_role("button", name="Placed: fits")
    decided.wait_for()
    decided.click()
    details = page.locator("#details")
    details.get_by_text("Placed on node-").wait_for()
    assert "built-in-default" in details.inner_text()
    page.keyboard.press("Escape")
    assert details.is_hidden()
    assert decided.evaluate("button => button === document.activeElement")
    stage.delete_pods("fits")


def test_a_pod_that_waits_is_in_the_queue_with_its_reasons(look, stage):
    page = look(stage.url)
    stage.pod("too-big", cpu="900")
    waiting = page.locator("#queue").get_by_role("button", name="too-big")
    waiting.click()
    page.get_by_role("cell", name="Insufficient cpu NodeResourcesFit").first.wait_for()
    assert page.get_by_role("button", name="Unschedulable").locator(".count").inner_text() == "1"
    stage.delete_pods("too-big")
    waiting.wait_for(state="detached")


def test_the_map_is_walked_by_keyboard(look, stage):
    stage.pod("tenant", nodeSelector={"kubernetes.io/hostname": "node-1"})
    page = look(stage.url)
    page.locator("#map").focus()
    said = page.locator("#map-live")

    def after(key):
        page.keyboard.press(key)
        return said.inner_text().split(" ")[0]

    keys = ("Home", "ArrowRight", "PageDown", "End", "Home", "ArrowDown", "ArrowUp")
    found = [after(key) for key in keys]
    assert found == ["node-1", "node-3", "node-5", "node-12", "node-1", "node-3", "node-1"]
    page.keyboard.press("Enter")
    details = page.locator("#details")
    details.get_by_role("button", name="tenant").wait_for()
    assert page.locator("#details-title").evaluate("title => title === document.activeElement")
    page.keyboard.press("Escape")
    assert page.locator("#map").evaluate("map => map === document.activeElement")
    stage.delete_pods("tenant")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_mend(look, stage, scheme):
    stage.pod("waits", cpu="900")
    page = look(stage.url, scheme=scheme)
    page.locator("#queue").get_by_role("button", name="waits").click()
    page.get_by_role("cell", name="Insufficient cpu NodeResourcesFit").first.wait_for()
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Table").click()
    page.get_by_role("rowheader", name="node-1", exact=True).wait_for()
    assert violations(page) == []
    stage.delete_pods("waits")


def violations(page):
    found = Axe().run(page).response["violations"]
    return [(each["id"], node["html"], node["failureSummary"]) for each in found for node in each["nodes"]]


def test_a_phone_scrolls_down_only(look, stage):
    page = look(stage.url, width=360, height=740)
    wide = "document.documentElement.scrollWidth"
    assert page.evaluate(wide) <= 360
    page.get_by_role("button", name="Table").click()
    page.get_by_role("rowheader", name="node-1", exact=True).get_by_role("button").click()
    page.locator("#details").get_by_text("What is requested").wait_for()
    assert page.evaluate(wide) <= 360
