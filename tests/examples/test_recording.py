"""The recording in the README is what the commands print."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from podwright.testing import ControlPlane
from podwright.testing.control_plane import DEFAULT_CONTROLLERS
from support.control_plane import operator_process as kit
from support.examples.recording import SECONDS, STEPS, record, svg

SHOWN = kit.CHECKOUT / "docs" / "first-policy.svg"


def test_the_edited_policy_moves_the_next_pods_and_the_waiting_pod_is_explained(binaries, tmp_path):
    with ControlPlane(binaries=binaries) as cluster:
        cluster.start_controller_manager(DEFAULT_CONTROLLERS)
        steps = record(cluster, tmp_path)
    before, after = (
        re.findall(r"node-(.)\d$", output, re.MULTILINE) for text, output, _ in steps if "get pods" in text
    )
    assert (before, sorted(after)) == (["a"] * 3, ["a"] * 3 + ["b"] * 3)
    assert "the pod requests 10 CPU" in steps[-1][1]
    assert "proved by a decision" in steps[-1][1]
    texts = [each.text for each in ET.fromstring(svg(steps)).iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in texts if text and text.startswith("$")][-1] == f"$ {STEPS[-1][0]}"


def test_the_recording_shows_the_same_commands_for_as_long_as_it_says():
    texts = {each.text for each in ET.fromstring(SHOWN.read_text()).iter("{http://www.w3.org/2000/svg}text")}
    assert {f"$ {command}" for command, _, _ in STEPS} <= texts
    assert sum(seconds for _, seconds, _ in STEPS) == SECONDS
