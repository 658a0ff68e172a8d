"""A pod that is read from its text is the pod of the parsed JSON, and any other text than expected is left alone."""

from __future__ import annotations

import orjson
import pytest

from podwright.core.objects import pod as module
from podwright.core.objects.pod import SPEC_CACHE, PodInfo, PodText, parse_pod
from podwright.core.objects.pod_text import read_pod
from support.objects.builders import make_pod

MANAGED = [{"manager": "kubelet", "fieldsV1": {"f:spec": {}, 'k:{"type":"Ready"}': {}}}]
FIELDS = [name for name in PodInfo.__dataclass_fields__ if name != "raw"]


@pytest.fixture(autouse=True)
def _nothing_known():
    SPEC_CACHE.clear()


def with_token(suffix):
    volume = {"name": f"kube-api-access-{suffix}", "projected": {"sources": []}}
    return {"volumes": [volume], "containers": [{"name": "a", "volumeMounts": [{"name": volume["name"]}]}]}


def text_of(raw):
    """As the API server writes it: managed fields last in metadata, and `&` escaped."""
    return orjson.dumps(raw).replace(b"&", b"\\u0026")


def made(number=0, *, managed=None, **options):
    raw = make_pod(f"p-{number}", node=f"node-{number}", labels={"app": "a"}, **options)
    return raw if managed is None else {**raw, "metadata": {**raw["metadata"], "managedFields": managed}}


def same(one, other):
    assert {name: getattr(one, name) for name in FIELDS} == {name: getattr(other, name) for name in FIELDS}


PODS = [
    pytest.param({}, id="plain"),
    pytest.param({"managed": MANAGED}, id="managed fields"),
    pytest.param({"spec": with_token("ab1cd"), "managed": MANAGED}, id="a token"),
    pytest.param({"spec": {"priority": 3, "schedulingGroup": {"podGroupName": "g"}}}, id="a group"),
    pytest.param({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}}, id="a claim"),
    pytest.param({"spec": {"containers": [{"name": "a", "args": ["a && b > c"]}]}}, id="escapes"),
    pytest.param({"status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}}, id="a status"),
    pytest.param(
        {"status": {"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "3"}}]}}, id="resized"
    ),
    pytest.param({"metadata": {"annotations": {"a": '},"status":{,"spec":{"nodeName":"x"'}}}, id="misleading text"),
]


@pytest.mark.parametrize("options", PODS)
def test_it_is_the_pod_of_the_parsed_json(options):
    for number in range(2):  # the first makes the template known
        text = text_of(made(number, **options))
        read = read_pod(text)
        assert type(read) is PodText
        same(parse_pod(read), parse_pod(orjson.loads(text)))
        assert read.whole() == orjson.loads(text)
        assert read["spec"] == orjson.loads(text)["spec"]


@pytest.mark.parametrize("options", [each for each in PODS if each.id != "a claim"])
def test_the_spec_of_a_known_template_is_not_parsed_again(options, monkeypatch):
    assert read_pod(text_of(made(0, **options))) is not None
    monkeypatch.setattr(module, "_parse_spec", lambda *_: pytest.fail("parsed again"))
    assert read_pod(text_of(made(1, **options))).node_name == "node-1"


def test_the_tokens_of_two_pods_are_of_one_template():
    one, other = (read_pod(text_of(made(spec=with_token(suffix)))) for suffix in ("ab1cd", "x2y3z"))
    assert one.spec is other.spec
    assert other.whole()["spec"]["volumes"][0]["name"] == "kube-api-access-x2y3z"


def test_pods_of_two_namespaces_are_of_two_templates():
    one, other = (read_pod(text_of(made(namespace=name))) for name in "ab")
    assert one.spec is not other.spec


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda text: text.replace(b'"status":', b'"state":'), id="no status"),
        pytest.param(lambda text: text.replace(b'"nodeName"', b'"node"'), id="no node"),
        pytest.param(lambda text: text.replace(b'"nodeName":"node-0"', b'"nodeName":7'), id="a node that is a number"),
        pytest.param(lambda text: text.replace(b'"spec":{', b'"spec":{{'), id="a broken spec"),
        pytest.param(lambda text: text.replace(b'"containers":[', b'"containers":7,"others":['), id="a wrong spec"),
        pytest.param(lambda text: text.replace(b'"labels":{', b'"labels":{{'), id="broken metadata"),
        pytest.param(lambda text: text.replace(b'"namespace":"default",', b""), id="no namespace"),
        pytest.param(lambda text: text.replace(b'"status":{', b'"status":{{'), id="a broken status"),
        pytest.param(lambda text: text[:-2], id="an end that is missing"),
        pytest.param(lambda text: text.replace(b"}]},", b'}],"finalizers":[]},'), id="more after the managed fields"),
    ],
)
def test_other_texts_are_left_alone(change):
    text = orjson.dumps(made(managed=MANAGED, status={"phase": "Running"}))
    changed = change(text)
    assert changed != text
    assert read_pod(changed) is None
