"""The pictures of strategies show what a simulation gives, and a picture that differs is found."""

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from podwright.api.spec.strategy import StrategyType
from podwright.cli.docs.strategy_pictures import (
    BUSY,
    HEIGHT,
    NODES,
    SPOT,
    STANDARD,
    WIDTH,
    draw,
    empty_cluster,
    main,
    policies_of,
    run,
)
from podwright.simulator.library import Policy
from support.objects.builders import make_policy

DOCS = Path(__file__).parents[4] / "docs"
PAGE = DOCS / "strategies.md"
TEXT = PAGE.read_text(encoding="utf-8")
PICTURED = {each.title: each for each in policies_of(TEXT)}
RULES = "Rules in CEL"
SVG = "{http://www.w3.org/2000/svg}"


def policy(**spec):
    return Policy(make_policy("mine", **spec))


@pytest.fixture(scope="module")
def results():
    return {title: run(each.policy) for title, each in PICTURED.items()}


def shares(result, resource):
    """By node: how much of the resource is requested."""
    changed = {each.node: each.requested_after[resource] / each.allocatable[resource] for each in result.changes}
    return {name: changed.get(name, 0.0) for name in NODES}


# The page


def test_the_page_has_each_strategy_in_the_order_of_the_api():
    assert list(PICTURED) == [*StrategyType.__args__, RULES]
    types = [(each.policy.raw["spec"].get("strategy") or {}).get("type") for each in PICTURED.values()]
    assert types == [*StrategyType.__args__, None]


def test_each_yaml_block_of_the_page_is_a_policy_that_is_accepted():
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)]
    assert blocks == [each.policy.raw for each in PICTURED.values()]
    assert [Policy(block).problem(empty_cluster()) for block in blocks] == [""] * len(blocks)


def test_each_picture_is_on_the_page():
    assert sorted(each.file for each in PICTURED.values()) == sorted(
        str(path.relative_to(DOCS)) for path in (DOCS / "strategies").iterdir()
    )


# What it says about the pictures


def test_every_pod_has_a_node(results):
    assert {title: (len(result.landed), len(result.pending)) for title, result in results.items()} == dict.fromkeys(
        PICTURED, (200, 0)
    )


def test_the_pods_request_half_of_the_cluster(results):
    assert {name: round(usage.allocation, 1) for name, usage in results["Default"].after.usage.items() if name != "pods"} == {
        "cpu": 0.5,
        "memory": 0.5,
    }  # fmt: skip


@pytest.mark.parametrize("title", ["Default", "LeastAllocated"])
def test_free_resources_are_spread(results, title):
    found = [*shares(results[title], "cpu").values(), *shares(results[title], "memory").values()]
    assert min(found) > 0.4
    assert max(found) < 0.65


@pytest.mark.parametrize("title", ["MostAllocated", "NodeName"])
def test_whole_nodes_stay_free(results, title):
    assert {name for name, share in shares(results[title], "cpu").items() if not share} == set(SPOT)


def test_nodes_are_taken_in_the_order_of_their_names(results):
    first = {landing.node: landing.pod for landing in reversed(results["NodeName"].landed)}
    assert [*sorted(first, key=first.__getitem__)] == [*STANDARD]


def test_cpu_and_memory_are_balanced(results):
    def apart(title):
        cpu, memory = (shares(results[title], resource) for resource in ("cpu", "memory"))
        return sorted(abs(cpu[name] - memory[name]) for name in NODES)[len(NODES) // 2]

    assert apart("BalancedAllocation") < 0.05
    assert apart("BalancedAllocation") < apart("Random")


def test_nodes_are_filled_to_the_level(results):
    found = shares(results["RequestedToCapacityRatio"], "cpu")
    assert max(found.values()) <= 0.8
    assert min(found[name] for name in STANDARD) > 0.75
    assert 0.0 in found.values()


def test_the_preferred_pool_is_filled_first(results):
    found = shares(results["Custom"], "memory")
    assert min(found[name] for name in SPOT) > 0.97
    assert max(found[name] for name in STANDARD) < 0.6


def test_pods_go_to_nodes_of_their_shape(results):
    assert max(each.pods_after for each in results[RULES].changes) == 20
    cpu, memory = shares(results[RULES], "cpu"), shares(results[RULES], "memory")
    assert all(memory[name] > cpu[name] for name in STANDARD)
    assert all(memory[name] < cpu[name] for name in SPOT)


def test_busy_nodes_get_little_and_the_others_share_the_rest(results):
    found = shares(results["LoadAware"], "cpu")
    assert max(found[name] for name in BUSY) < 0.3
    assert min(share for name, share in found.items() if name not in BUSY) > 0.6
    assert '<path d="M' in draw("LoadAware", results["LoadAware"], measured=True)
    assert "8 nodes used 60% of their CPU before" in draw("LoadAware", results["LoadAware"], measured=True)


# Drawing


@pytest.mark.parametrize("title", PICTURED)
def test_a_picture_is_accessible_text_within_its_frame(results, title):
    root = ET.fromstring(draw(title, results[title]))
    assert root.get("role") == "img"
    named = {each.get("id"): each.text for each in root if each.tag in (SVG + "title", SVG + "desc")}
    assert set(root.get("aria-labelledby", "").split()) == set(named)
    assert named["title"].startswith(title)
    texts = [*root.iter(SVG + "text")]
    assert [each.text for each in texts if each.text in {name.removeprefix("node-") for name in NODES}] != []
    assert all(0 <= float(each.get("x")) <= WIDTH and 0 <= float(each.get("y")) <= HEIGHT for each in texts)
    for bar in root.findall(f"{SVG}rect[@y]"):
        assert float(bar.get("x")) + float(bar.get("width")) <= WIDTH
        assert float(bar.get("y")) >= 0
        assert float(bar.get("y")) + float(bar.get("height")) <= HEIGHT


def test_a_bar_is_as_high_as_what_is_requested(results):
    result = results["MostAllocated"]
    root = ET.fromstring(draw("MostAllocated", result))
    heights = [float(each.get("height")) for each in root.iter(SVG + "rect")][3:]
    cpu, memory = (shares(result, resource) for resource in ("cpu", "memory"))
    drawn = [share for name in NODES for share in (cpu[name], memory[name]) if share]
    assert heights == [pytest.approx(130 * share, abs=0.06) for share in drawn]


def test_pods_that_wait_are_counted():
    never = {"name": "never", "expression": "false", "message": "node(s) were not wanted"}
    drawn = draw("<Nowhere>", run(policy(rules={"filters": [never]})))
    assert ">0 pods on 0 of 20 nodes, 200 wait<" in drawn
    assert '<title id="title">&lt;Nowhere&gt;: ' in drawn


def test_a_policy_that_is_not_accepted_is_named():
    with pytest.raises(ValueError, match=r"mine: .*spec\.strategy\.type"):
        run(policy(strategy={"type": "Best"}))


# The command


@pytest.fixture
def page(tmp_path):
    shutil.copytree(DOCS / "strategies", tmp_path / "strategies")
    one = PICTURED["NodeName"]
    section = TEXT[TEXT.index("## NodeName") : TEXT.index("## Custom")]
    assert one.file in section
    path = tmp_path / "page.md"
    path.write_text(section)
    return path


def test_the_pictures_are_up_to_date(capsys):
    assert (main(["--check", str(PAGE)]), capsys.readouterr().err) == (0, "")


def test_a_picture_that_differs_from_its_policy_is_reported_until_it_is_drawn_again(page, capsys):
    page.write_text(page.read_text().replace("type: NodeName", "type: MostAllocated"))
    assert main(["--check", str(page)]) == 1
    assert capsys.readouterr().err == f"{page.parent}/strategies/node-name.svg is out of date: run `make strategies`\n"
    assert main([str(page)]) == 0
    assert main(["--check", str(page)]) == 0


def test_a_missing_picture_is_reported(page, capsys):
    (page.parent / "strategies" / "node-name.svg").unlink()
    assert main(["--check", str(page)]) == 1
    assert "node-name.svg is out of date" in capsys.readouterr().err


def test_a_page_without_pictures_is_refused(page, capsys):
    page.write_text("# Nothing\n")
    assert main(["--check", str(page)]) == 1
    assert capsys.readouterr().err == f"{page}: no policy is followed by a picture\n"
