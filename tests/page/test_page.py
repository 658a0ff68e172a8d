"""The page in a real browser, live on an operator."""

import re
from dataclasses import replace

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from podwright.core.cycle import Fault
from podwright.core.objects.node import parse_node
from podwright.core.objects.pod import parse_pod
from podwright.core.queues.queues import QueueRules, queues_of
from podwright.core.queues.tree import Quota
from podwright.core.rebalance.exact import NOTHING_BETTER
from podwright.engine.view.waiting import PendingPod
from podwright.kube.serve.page import routes
from podwright.testing import pod
from support.objects.builders import make_node, make_pod
from support.page.cluster import backstage
from support.page.plans import plans
from support.page.stage import RACK, ZONE, nodes, simulated
from support.page.teams import teams

pytestmark = pytest.mark.slow


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
    expect(page.get_by_role("button", name="Unschedulable").locator(".count")).to_have_text("1")
    stage.delete_pods("too-big")
    waiting.wait_for(state="detached")


def test_a_pod_and_a_gang_are_found_by_a_part_of_their_names(look, stage):
    stage.pod("needle-1")
    page = look(stage.url)
    page.get_by_role("button", name="Placed: needle-1").wait_for()
    page.get_by_label("Pod or gang").fill("needle")
    page.keyboard.press("Enter")
    details = page.locator("#details")
    details.get_by_role("button", name="needle-1").click()
    details.get_by_text("Placed on node-").wait_for()
    assert violations(page) == []
    page.get_by_label("Pod or gang").fill("haystack")
    page.keyboard.press("Enter")
    details.get_by_text("No pod or gang").wait_for()
    stage.delete_pods("needle-1")


def test_a_banner_says_that_what_is_shown_is_old(look):
    with backstage() as stage:
        stage.call(lambda: stage.cache.set_node(parse_node(make_node("a", labels={"tier": "gold"}))))
        page = look(stage.url)
        page.wait_for_selector("[data-state=live]")
        banner = page.locator("#stale")
        expect(banner).to_be_hidden()
        stage.stale = (42.0, "the API server does not answer: connection refused")
        expect(banner).to_contain_text("The API server does not answer: connection refused. What you see is 4")
        expect(page.locator("#state")).to_have_text("Not current")
        assert violations(page) == []
        stage.stale = (0.0, "")
        expect(banner).to_be_hidden()
        expect(page.locator("#state")).to_have_text("Live")
        page.get_by_role("button", name="Table").click()
        page.get_by_role("rowheader", name="a", exact=True).get_by_role("button").click()
        page.locator("#details").get_by_text("tier=gold").wait_for()
        page.close()


def test_the_last_hour_is_a_line_under_each_figure(look):
    with backstage() as stage:
        stage.call(lambda: sample(stage))
        stage.call(lambda: stage.cache.set_node(parse_node(make_node("a"))))
        stage.call(lambda: sample(stage))
        page = look(stage.url)
        page.get_by_role("img", name="Nodes in the last 1 min: from 0 to 1").wait_for()
        assert page.locator("#figures svg").count() == 5
        assert violations(page) == []
        page.close()


def sample(stage):
    stage.rig.now += 10
    stage.rig.engine.history.sample()


def test_the_map_is_walked_by_keyboard(look, stage):
    stage.pod("tenant", nodeSelector={"kubernetes.io/hostname": "node-1"})
    page = look(stage.url)
    page.locator("#map").focus()
    said = page.locator("#map-live")

    keys = ("Home", "ArrowRight", "PageDown", "End", "Home", "ArrowDown", "ArrowUp")
    for key, name in zip(keys, (1, 3, 5, 12, 1, 3, 1), strict=True):
        page.keyboard.press(key)
        expect(said).to_have_text(re.compile(rf"^node-{name} "))
    page.keyboard.press("Enter")
    details = page.locator("#details")
    details.get_by_role("button", name="tenant").wait_for()
    assert page.locator("#details-title").evaluate("title => title === document.activeElement")
    page.keyboard.press("Escape")
    assert page.locator("#map").evaluate("map => map === document.activeElement")
    stage.delete_pods("tenant")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violations(look, stage, scheme):
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


def test_buttons_stay_where_they_are_once_the_nodes_are_there(look):
    with backstage() as stage:
        stage.call(lambda: stage.cache.set_node(parse_node(make_node("a"))))
        for _ in range(2):
            stage.call(lambda: sample(stage))
        page = look(
            stage.url,
            width=360,
            height=740,
            script="""addEventListener("DOMContentLoaded", () => {
                const [map, table] = ["#map", "#as-table"].map((each) => document.querySelector(each));
                const top = () => table.getBoundingClientRect().top;
                window.moved = () => top() - window.arranged;
                new MutationObserver(() => { if (map.dataset.nodes > 0) window.arranged ??= top(); })
                    .observe(map, { attributeFilter: ["data-nodes"] });
            })""",
        )
        page.locator("#figures svg").first.wait_for()
        assert page.evaluate("moved()") == 0
        page.close()


def test_a_phone_scrolls_down_only(look, stage):
    page = look(stage.url, width=360, height=740)
    wide = "document.documentElement.scrollWidth"
    assert page.evaluate(wide) <= 360
    page.get_by_role("button", name="Table").click()
    page.get_by_role("rowheader", name="node-1", exact=True).get_by_role("button").click()
    details = page.locator("#details")
    details.get_by_text("What is requested").wait_for()
    assert page.evaluate(wide) <= 360
    assert details.evaluate("drawer => drawer.scrollWidth <= drawer.clientWidth")


def test_five_thousand_nodes_paint_only_what_changes(look):
    with backstage() as stage:
        stage.call(lambda: [stage.cache.set_node(parse_node(raw)) for raw in nodes(5000, 5, racks=10)])
        page = look(stage.url)
        page.locator("#figures").get_by_text("5,000").wait_for()
        arranged, cells = painted(page)
        assert cells == 0
        for number in range(4):
            pods = [parse_pod(make_pod(f"p{number}-{each}", requests={"cpu": "1"})) for each in range(10)]
            stage.call(lambda pods=pods: [stage.cache.assume(pod, f"node-{10 * pods.index(pod) + 1}") for pod in pods])
            page.locator("#figures").get_by_text(f"{10 * (number + 1)}", exact=True).first.wait_for()
            expect(page.locator("#map")).to_have_attribute("data-painted", f"{arranged} {10 * (number + 1)}")
        assert painted(page) == (arranged, 40)
        frame = page.evaluate(
            """async () => {
                const frame = () => new Promise(requestAnimationFrame);
                document.querySelector("#resource").value = "memory";
                await frame();
                const started = performance.now();
                document.querySelector("#resource").dispatchEvent(new Event("change"));
                await frame();
                return performance.now() - started;
            }"""
        )
        print(f"5,000 nodes are arranged and painted in {frame:.0f} ms")
        assert painted(page)[0] == arranged + 1
        page.close()


@pytest.mark.parametrize("scale", [1, 3])
def test_a_map_that_is_higher_than_a_canvas_is_painted_where_it_is_seen(look, scale):
    with backstage() as stage:
        stage.call(lambda: [stage.cache.set_node(parse_node(raw)) for raw in nodes(5000, 1, racks=5000)])
        page = look(stage.url, width=360, height=740, scale=scale)
        page.locator("#figures").get_by_text("5,000").wait_for()
        page.locator("#map").focus()
        for key in ("Home", "End", "Home"):
            page.keyboard.press(key)
            page.wait_for_function(
                """() => {
                    const [canvas, box] = ["canvas", "map"].map((id) => document.getElementById(id));
                    const [inner, outer] = [canvas, box].map((each) => each.getBoundingClientRect());
                    const seen = canvas.getContext("2d").getImageData(4, canvas.height - 40, 1, 1).data[3];
                    const covers = inner.top <= outer.top + 2 && inner.bottom >= outer.bottom - 2;
                    return box.scrollHeight > 16384 && covers && seen === 255 && canvas.height <= 16384;
                }"""
            )
        page.close()


def painted(page):
    """How often everything was painted, and how many cells were painted by themselves."""
    everything, cells = page.locator("#map").get_attribute("data-painted").split()
    return int(everything), int(cells)


def test_texts_of_objects_are_never_markup(look):
    evil = "<img src=x onerror=alert(1)>"
    with backstage() as stage:
        stage.call(lambda: fill_with(stage, evil))
        page = look(stage.url)
        page.locator("#queue").get_by_text(evil).first.wait_for()
        page.locator("#decisions").get_by_text(evil).first.wait_for()
        page.locator("#policies").get_by_text(evil).first.wait_for()
        page.locator("#queues").get_by_text(evil).first.wait_for()
        page.get_by_role("button", name="Table").click()
        page.locator("#table-view").get_by_role("button", name=evil).click()
        page.locator("#details").get_by_text(f"{evil}=").wait_for()
        page.locator("#details").get_by_role("button", name=evil).click()
        page.locator("#details").get_by_text(f"{evil} reason").wait_for()
        page.keyboard.press("Escape")
        page.locator("#policies").get_by_role("button", name=evil).click()
        page.locator("#details").get_by_text(evil).nth(1).wait_for()
        assert page.locator("img").count() == 1  # the page's own
        assert page.locator("script").count() == 1
        assert page.locator("option", has_text=evil).count() == 2  # resources of nodes, and of queues
        page.close()


def test_queues_of_teams_are_a_tree_with_bars_and_numbers(look):
    with backstage() as stage:
        stage.call(lambda: stage.cache.set_node(parse_node(make_node("n"))))
        page = look(stage.url)
        page.locator("#policies").get_by_role("button", name="built-in-default").wait_for()
        assert page.locator("#queues-card").is_hidden()
        stage.call(lambda: teams(stage.cache))
        table = page.locator("#queues")
        rows = table.get_by_role("row")
        expect(rows).to_have_count(8)
        expect(rows.nth(5)).to_have_text(
            re.compile("ml-research.*24.*12 borrowed.*10 from ml-products.*6 above its share.*18.*12", re.DOTALL)
        )
        expect(rows.nth(2)).to_have_text(re.compile("ml-products.*6.*10 lent to ml-research.*22.*16", re.DOTALL))
        expect(rows.nth(3)).to_contain_text("Hold")
        expect(rows.nth(7)).to_contain_text("spec.parent: queue 'nowhere' does not exist")
        indents = [rows.nth(row).locator(".branch").bounding_box()["x"] for row in (1, 2, 3)]
        assert indents == sorted(set(indents)), "queues below others are indented"
        within, above = (rows.nth(5).locator(f".use .{kind}").bounding_box()["width"] for kind in ("within", "above"))
        assert within == pytest.approx(2 * above, abs=1), "12 within the guarantee, 6 above the share"
        page.locator("#queue-resource").select_option("cpu")
        expect(rows.nth(6)).to_have_text(re.compile("web.*2.*64"))
        assert violations(page) == []
        stage.call(lambda: [queues_of(stage.cache).remove(name) for name in [*queues_of(stage.cache).declared]])
        expect(page.locator("#queues-card")).to_be_hidden()
        page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_plan_of_rebalancing_is_shown_with_its_moves_and_the_racks_before_and_after(look, scheme):
    with backstage() as stage:
        stage.call(lambda: stage.cache.set_node(parse_node(make_node("n"))))
        page = look(stage.url, scheme=scheme)
        page.locator("#policies").get_by_role("button", name="built-in-default").wait_for()
        assert page.locator("#plans-card").is_hidden()
        stage.call(lambda: plans(stage.rig))
        row = page.locator("#plans").get_by_role("row").nth(1)
        expect(row).to_have_text(re.compile(r"tidyPlan\d\d:\d\d:\d\d"))
        progress = stage.rig.engine.rebalancing.known["tidy"].progress
        stage.call(lambda: setattr(progress, "plan", replace(progress.plan, exact=NOTHING_BETTER)))
        row.get_by_role("button", name="tidy").click()
        details = page.locator("#details")
        picture = details.locator(".picture svg")
        expect(picture.locator("text", has_text="nvidia.com/gpu that pods request")).to_be_visible()
        assert picture.locator("text", has_text="rack-3").count() == 2
        background = picture.locator(".back").evaluate("each => getComputedStyle(each).fill")
        assert background == ("rgb(244, 246, 247)" if scheme == "light" else "rgb(14, 20, 23)")
        expect(details).to_contain_text("empties node node-")
        expect(details).to_contain_text(NOTHING_BETTER)
        assert violations(page) == []
        details.get_by_label("Resource").select_option("cpu")
        expect(picture.locator("text", has_text="cpu that pods request")).to_be_visible()
        page.keyboard.press("Escape")
        assert row.get_by_role("button").evaluate("button => button === document.activeElement")
        stage.call(lambda: stage.rig.engine.rebalancing.remove("tidy"))
        expect(page.locator("#plans-card")).to_be_hidden()
        evil = "<img src=x onerror=alert(1)>"
        stage.call(lambda: plans(stage.rig, evil, evil))
        page.locator("#plans").get_by_role("button", name=evil).click()
        picture.get_by_text("rack-0<img src=x").first.wait_for()
        details.locator(".step").get_by_text(f"web-1-0{evil}").first.wait_for()
        assert page.locator("img").count() == 1  # the page's own
        page.close()


def decide(stage, *names):
    """The scheduler decides about these pods."""
    pods = [parse_pod(make_pod(name)) for name in names]
    stage.call(lambda: [stage.decisions.add(Fault(pod=pod, message="", plugin="P"), "") for pod in pods])


def test_decisions_are_listed_once_though_the_stream_begins_anew(look, monkeypatch):
    monkeypatch.setattr(routes, "STREAM_SECONDS", 1.0)
    with backstage() as stage:
        stage.call(lambda: stage.cache.set_node(parse_node(make_node("a"))))
        decide(stage, "first")
        page = look(stage.url)
        listed = page.locator("#decisions").get_by_role("button")
        for name in ("second", "third"):
            page.wait_for_selector("[data-state=waiting]")
            page.wait_for_selector("[data-state=live]")
            decide(stage, name)
            listed.filter(has_text=name).wait_for()
        assert listed.count() == 3
        page.close()


def test_the_focus_stays_on_lines_that_would_go(look):
    with backstage() as stage:
        stage.call(lambda: stage.cache.set_node(parse_node(make_node("a"))))
        stage.pods = [PendingPod("default", name, "active", 0.0) for name in ("here", "gone")]
        decide(stage, "old")
        page = look(stage.url)
        waiting = page.locator("#queue").get_by_role("button", name="gone")
        waiting.focus()
        stage.pods = [PendingPod("default", name, "active", 0.0) for name in ("new", "here")]
        page.locator("#queue").get_by_text("waits no more").wait_for(state="attached")
        assert waiting.evaluate("button => button === document.activeElement")
        old = page.locator("#decisions").get_by_role("button", name="old")
        old.focus()
        waiting.wait_for(state="detached")
        for number in range(5):
            decide(stage, *(f"p{number}-{each}" for each in range(20)))
            page.locator("#decisions").get_by_text(f"p{number}-19", exact=True).wait_for()
        assert page.locator("#decisions li").count() == 81
        assert old.evaluate("button => button === document.activeElement")
        page.close()


def fill_with(stage, evil):
    """Everything that users can write says the same."""
    taint = {"key": evil, "value": evil, "effect": "NoSchedule"}
    raw = make_node(evil, labels={RACK: evil, ZONE: evil}, taints=[taint])
    raw["status"]["allocatable"][evil] = "1"
    stage.cache.set_node(parse_node(raw))
    pod = replace(parse_pod(make_pod("p")), name=evil, namespace=evil, key=f"{evil}/{evil}")
    stage.cache.assume(pod, evil)
    stage.pods = [PendingPod(evil, evil, "active", 0.0, 1, evil, evil)]
    stage.decisions.add(Fault(pod=pod, message=evil, plugin=evil), evil)
    queues_of(stage.cache).set(QueueRules(evil, quotas={evil: Quota()}))
    queues_of(stage.cache).set(QueueRules("lost", evil))
    stage.rig.engine.policies.apply(
        {
            "apiVersion": "podwright.dev/v1alpha1",
            "kind": "SchedulerPolicy",
            "metadata": {"name": evil, "uid": "u", "generation": 1},
            "spec": {"strategy": {"type": evil}},
        }
    )
    reasons = {evil: {f"{evil} reason": 1}}
    stage.explanation = {
        "queue": {"place": evil, "attempts": evil, "waited": 1, "rejectedBy": [evil], "gatedBy": evil},
        "policy": {"name": evil, "generation": evil},
        "nominated": evil,
        "refusal": evil,
        "decisions": [
            {
                "outcome": evil,
                "at": 1,
                "node": evil,
                "message": evil,
                "reasons": reasons,
                "victims": [evil],
                "victimCount": 1,
            }
        ],
    }


def test_a_simulation_is_shown_before_and_after(look, tmp_path):
    pods = (("waits", "9"), ("small", "1"))
    with simulated(tmp_path, [*nodes(6, 2), *(pod(name, scheduler="podwright", cpu=cpu) for name, cpu in pods)]) as url:
        page = look(url)
        assert page.locator("#decisions-card").is_hidden()
        page.locator("#queue").get_by_role("button", name="waits").click()
        page.locator("#details").get_by_text("What would help").wait_for()
        page.keyboard.press("Escape")
        page.get_by_label("Drain").fill("node-1")
        page.get_by_label("Add nodes").fill("2")
        page.get_by_label("like", exact=True).fill("node-2")
        page.get_by_role("button", name="Simulate").click()
        page.get_by_text("1 pod gets a node, 1 pod stays pending.").wait_for()
        count = page.locator("#figures dd").first
        expect(count).to_have_text("8")
        wait = page.locator("#figures div", has_text="Pods that wait").locator("dd").first
        expect(wait).to_have_text("1")
        page.get_by_role("button", name="Pause").click()
        before = page.locator("#map").get_attribute("data-painted")
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("#map")).not_to_have_attribute("data-painted", before)
        slider = page.get_by_role("slider")
        expect(slider).to_have_value("100")
        slider.focus()
        for key, node_count, pod_count in (("Home", "6", "2"), ("End", "8", "1"), ("Home", "6", "2")):
            page.keyboard.press(key)
            expect(count).to_have_text(node_count)
            expect(wait).to_have_text(pod_count)
        assert slider.get_attribute("aria-valuetext") == "before"
        assert violations(page) == []
        page.get_by_label("Drain").fill("nothing")
        page.get_by_role("button", name="Simulate").click()
        page.get_by_text("there is no node 'nothing'").wait_for()
        expect(count).to_have_text("6")
        assert slider.is_hidden()
        page.close()
