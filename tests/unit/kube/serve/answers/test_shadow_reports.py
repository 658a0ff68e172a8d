"""/debug/shadow: who may read it, and what the server answers."""

import json

import pytest

from podwright.kube.serve.access import delegated_gate
from podwright.kube.serve.access.delegation import User
from support.serve.kit import Delegate, Told, client_context, get, secure, serving

PATH = "/debug/shadow"
BEARER = "Authorization: Bearer secret"
RIGHTS = {("ann", "get", PATH), ("ann", "list", "")}


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(delegated_gate, "REFUSED_SECONDS", 0.0)


def told(answer):
    asked = []

    def answers(policy):
        asked.append(policy)
        yield
        return answer

    return Told(shadow=answers), asked


async def ask(content, path=PATH, *headers, delegate=None):
    options = secure(authentication_skip_lookup=True) if delegate else {}
    async with serving(content, delegate=delegate, **options) as server:
        status, _, body = await get(server, path, *headers, context=client_context() if delegate else None)
        return status, body


@pytest.mark.parametrize(("query", "policy"), [("", ""), ("?policy=eye", "eye")])
async def test_what_the_steps_return_is_the_answer(query, policy):
    content, asked = told({"policies": []})
    status, body = await ask(content, PATH + query)
    assert (status, json.loads(body), asked) == (200, {"policies": []}, [policy])


async def test_a_policy_that_is_not_in_shadow_mode_is_not_found():
    content, _ = told({})
    assert await ask(content, f"{PATH}?policy=eye") == (404, b"policy eye is not in shadow mode here\n")


@pytest.mark.parametrize("name", ["A", "a/b", "a" * 300])
async def test_a_name_that_is_none_is_refused(name):
    content, asked = told({"policies": []})
    status, _ = await ask(content, f"{PATH}?policy={name}")
    assert (status, asked) == (400, [])


@pytest.mark.parametrize(
    ("allowed", "status"),
    [
        pytest.param(RIGHTS, 200, id="both rights"),
        pytest.param(RIGHTS - {("ann", "list", "")}, 403, id="only the path"),
        pytest.param(RIGHTS - {("ann", "get", PATH)}, 403, id="only the pods"),
    ],
)
async def test_over_https_users_need_the_path_and_the_right_to_list_all_pods(allowed, status):
    delegate = Delegate()
    delegate.users["secret"] = User("ann", ())
    delegate.allowed = set(allowed)
    content, asked = told({"policies": []})
    assert (await ask(content, PATH, BEARER, delegate=delegate))[0] == status
    assert bool(asked) is (status == 200)


async def test_the_right_to_get_one_pod_is_not_taken_for_the_right_to_list_all():
    delegate = Delegate()
    delegate.users["secret"] = User("ann", ())
    delegate.allowed = {("ann", "get", PATH), ("ann", "get", "/debug/explain"), ("ann", "list", "pods")}
    content, _ = told({"policies": []})

    def about(_namespace, _name):
        yield
        return {"pod": "list/pods"}

    content.about_pod = about
    one_pod = "/debug/explain?namespace=list&pod=pods"
    async with serving(content, delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
        assert (await get(server, one_pod, BEARER, context=client_context()))[0] == 200
        assert (await get(server, PATH, BEARER, context=client_context()))[0] == 403
