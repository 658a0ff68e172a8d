"""/debug/explain: who may ask about which pod, and what the server answers."""

import json

import pytest

from podwright.kube.serve.access import delegated_gate
from podwright.kube.serve.access.delegation import User
from support.serve.kit import Delegate, Told, client_context, get, secure, serving

BEARER = "Authorization: Bearer secret"
WEB = "/debug/explain?namespace=team&pod=web"


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(delegated_gate, "REFUSED_SECONDS", 0.0)


def told(answer):
    asked = []

    def about(namespace, name):
        asked.append((namespace, name))
        yield
        return answer

    return Told(about_pod=about), asked


async def ask(content, path, *headers, delegate=None):
    options = secure(authentication_skip_lookup=True) if delegate else {}
    async with serving(content, delegate=delegate, **options) as server:
        context = client_context() if delegate else None
        status, _, body = await get(server, path, *headers, context=context)
        return status, body


async def test_what_the_steps_return_is_the_answer():
    content, asked = told({"pod": "team/web"})
    status, body = await ask(content, WEB)
    assert (status, json.loads(body), asked) == (200, {"pod": "team/web"}, [("team", "web")])


async def test_a_pod_of_which_nothing_is_known_is_not_found():
    content, _ = told({})
    assert (await ask(content, WEB))[0] == 404


@pytest.mark.parametrize("query", ["", "?pod=", "?pod=A", "?pod=a/b", "?namespace=..&pod=a", f"?pod={'a' * 300}"])
async def test_a_query_without_names_is_refused(query):
    content, asked = told({"pod": "x"})
    status, body = await ask(content, f"/debug/explain{query}")
    assert (status, asked) == (400, [])
    assert b"namespace=NAMESPACE&pod=NAME" in body


async def test_without_answers_the_path_does_not_exist():
    assert (await ask(Told(), WEB))[0] == 404


ACCESS = [
    pytest.param((), 403, 'cannot get path "/debug/explain"', id="neither right"),
    pytest.param((("ann", "get", "/debug/explain"),), 403, 'pods "web" is forbidden', id="the path alone"),
    pytest.param((("ann", "team", "web"),), 403, 'cannot get path "/debug/explain"', id="the pod alone"),
    pytest.param(
        (("ann", "get", "/debug/explain"), ("ann", "other", "web")), 403, 'namespace "team"', id="another pod"
    ),
    pytest.param((("ann", "get", "/debug/explain"), ("ann", "team", "web")), 200, "team/web", id="both rights"),
]


@pytest.mark.parametrize(("allowed", "status", "says"), ACCESS)
async def test_a_user_needs_the_right_to_the_path_and_to_the_pod(allowed, status, says):
    content, asked = told({"pod": "team/web"})
    delegate = Delegate()
    delegate.users["secret"] = User("ann", ())
    delegate.allowed.update(allowed)
    found, body = await ask(content, WEB, BEARER, delegate=delegate)
    assert found == status
    assert says in body.decode().replace('\\"', '"')
    assert bool(asked) == (status == 200)
