"""`podwright convert-manifest`: every static pod of kube-scheduler, and other files."""

from __future__ import annotations

import json
import subprocess

import pytest
import yaml
from click.testing import CliRunner

from podwright.cli.main import main
from support.control_plane import operator_process as kit
from support.control_plane.static_pod import STATIC_POD

IMAGE = "registry.example.com/podwright:0.1.0"
PATCHES = kit.CHECKOUT / "manifests" / "overlays" / "replace-default" / "kubeadm-patches"


def invoke(*arguments, text=None):
    return CliRunner().invoke(main, ["convert-manifest", *arguments, f"--image={IMAGE}"], input=text)


def manifest(spec=None, **container):
    raw = yaml.safe_load(STATIC_POD)
    raw["spec"]["containers"][0] |= container
    return raw | {"spec": {key: value for key, value in {**raw["spec"], **(spec or {})}.items() if value is not None}}


def converted(raw):
    done = invoke("-", text=yaml.safe_dump(raw))
    assert done.exit_code == 0, done.output
    return yaml.safe_load(done.output)


@pytest.mark.parametrize(
    ("spec", "container", "expected"),
    [
        pytest.param({}, {}, 0, id="kubeadm's manifest"),
        pytest.param({"securityContext": None}, {}, 0, id="no securityContext"),
        pytest.param({}, {"command": ["/usr/local/bin/kube-scheduler", "--v=2"]}, 0, id="a command with its path"),
        pytest.param({}, {"command": ["podwright", "kube-scheduler", "--v=2"]}, 0, id="Podwright already"),
        pytest.param({"securityContext": {"runAsUser": 991}}, {}, 991, id="a user"),
        pytest.param(
            {"securityContext": None}, {"securityContext": {"runAsUser": 991}}, None, id="the container's user"
        ),
        pytest.param({"securityContext": {"runAsNonRoot": True}}, {}, None, id="no root"),
    ],
)
def test_only_the_image_the_first_word_and_the_user_change(spec, container, expected):
    raw = manifest(spec, **container)
    found = converted(raw)
    (changed,) = found["spec"]["containers"]
    words = raw["spec"]["containers"][0]["command"]
    assert changed["command"] == ["podwright", "kube-scheduler", *words[1 + (words[0] == "podwright") :]]
    assert changed["image"] == IMAGE
    assert (found["spec"].get("securityContext") or {}).get("runAsUser") == expected
    changed |= {key: raw["spec"]["containers"][0][key] for key in ("image", "command")}
    found["spec"]["securityContext"] = raw["spec"]["securityContext"] = None
    assert found == raw


def test_labels_that_look_like_other_values_stay_texts():
    raw = manifest()
    raw["metadata"]["labels"] = {"a": "y", "b": "1e3", "c": "0o10"}
    written = invoke("-", text="---\n" + json.dumps(raw)).output
    for text in ("a: 'y'", "b: '1e3'", "c: '0o10'"):
        assert text in written


def test_a_command_in_args_moves():
    found = converted(manifest(command=None, args=["kube-scheduler", "--v=2"]))
    (container,) = found["spec"]["containers"]
    assert (container["command"], container["args"]) == (["podwright", "kube-scheduler"], ["--v=2"])


def test_the_container_is_found_among_others_and_json_stays_json():
    raw = manifest()
    raw["spec"]["containers"].insert(0, {"name": "sidecar", "image": "log", "command": ["tail"]})
    found = json.loads(invoke("-", text=json.dumps(raw)).output)
    assert [each["command"][0] for each in found["spec"]["containers"]] == ["tail", "podwright"]


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        pytest.param({"kind": "Deployment"}, "kind: 'Deployment' should be 'Pod'", id="a Deployment"),
        pytest.param({"kind": "Pod"}, "spec.containers: expected a list of containers", id="no spec"),
        pytest.param(
            manifest(command=["/go-runner", "kube-scheduler"]),
            "spec.containers: no container has kube-scheduler as the first word of its command",
            id="a wrapper",
        ),
    ],
)
def test_what_cannot_be_converted_is_an_error_and_leaves_no_file(raw, problem, tmp_path):
    before, after = tmp_path / "before.yaml", tmp_path / "after.yaml"
    before.write_text(yaml.safe_dump(raw))
    done = invoke(str(before), f"--output={after}")
    assert done.exit_code == 1
    assert f"Error: {before}: {problem}" in done.output
    assert list(tmp_path.iterdir()) == [before]


def test_the_file_is_replaced_and_there_is_no_other(tmp_path):
    file = tmp_path / "kube-scheduler.yaml"
    file.write_text(STATIC_POD)
    assert invoke(str(file), f"--output={file}").exit_code == 0
    assert yaml.safe_load(file.read_text()) == converted(yaml.safe_load(STATIC_POD))
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("security", [{}, {"securityContext": None}], ids=["kubeadm's", "no securityContext"])
def test_the_patches_for_kubeadm_give_the_same(binaries, tmp_path, security):
    text = yaml.safe_dump(manifest(security))
    for patch in sorted(PATCHES.iterdir()):
        command = [binaries.path("kubectl"), "patch", "--local", "-f", "-", "-o", "yaml", f"--patch-file={patch}"]
        kind = f"--type={patch.stem.rpartition('+')[2]}"
        text = subprocess.run(
            [*command, kind], input=text, check=True, capture_output=True, text=True, timeout=60
        ).stdout
    found = yaml.safe_load(text)
    found["spec"]["containers"][0]["image"] = IMAGE
    assert found == converted(manifest(security))
