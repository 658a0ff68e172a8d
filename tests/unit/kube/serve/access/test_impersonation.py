"""A client is answered as another user if it may impersonate that user, as by the API server."""

from __future__ import annotations

import pytest

from podwright.kube.serve.access import delegated_gate
from podwright.kube.serve.access.delegation import AccessDelegation, User
from support.http.kit import api, says
from support.serve.certificates import Authority
from support.serve.kit import Delegate, client_context, get, secure, serving

CA = Authority()
BEARER = "Authorization: Bearer secret"
ANN = "Impersonate-User: ann"
ACCOUNT = "system:serviceaccount:team:builder"


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(delegated_gate, "REFUSED_SECONDS", 0.0)


@pytest.fixture
def delegate():
    found = Delegate()
    found.users["secret"] = User("me", ())
    return found


async def ask(delegate, *headers, issued=None, **options):
    async with serving(delegate=delegate, **secure(authentication_skip_lookup=True, **options)) as server:
        status, _, body = await get(server, "/configz", BEARER, *headers, context=client_context(issued))
    return status, body.decode().replace('\\"', '"')


@pytest.mark.parametrize(
    ("headers", "asked"),
    [
        pytest.param([ANN], [("users", "", "ann")], id="a user"),
        pytest.param(["impersonate-user: ann"], [("users", "", "ann")], id="in small letters"),
        pytest.param([ANN, "Impersonate-Group: a", "Impersonate-Group: b"], [("users", "", "ann"), ("groups", "", "a"), ("groups", "", "b")], id="with groups"),
        pytest.param([f"Impersonate-User: {ACCOUNT}"], [("serviceaccounts", "team", "builder")], id="a service account"),
        pytest.param([f"Impersonate-User: {ACCOUNT}:x"], [("users", "", f"{ACCOUNT}:x")], id="a user with a similar name"),
    ],
)  # fmt: skip
async def test_each_of_whom_the_client_impersonates_has_to_be_allowed(delegate, headers, asked):
    name = headers[0].partition(": ")[2]
    path = (name, "get", "/configz")
    for missing in (*(("me", *each) for each in asked), path):
        delegate.allowed = {*(("me", *each) for each in asked), path} - {missing}
        status, body = await ask(delegate, *headers)
        assert status == 403
        assert f'User "{missing[0]}" cannot' in body
    delegate.allowed, delegate.asked = {*(("me", *each) for each in asked), path}, []
    assert (await ask(delegate, *headers))[0] == 200
    assert delegate.asked == [("token", "secret"), *(("me", *each) for each in asked), path]


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(["Impersonate-Group: system:masters"], id="a group without a user"),
        pytest.param(["Impersonate-User: "], id="an empty name"),
        pytest.param([ANN, "Impersonate-Uid: 1"], id="a uid"),
        pytest.param([ANN, "impersonate-extra-scopes: view"], id="further values"),
    ],
)
async def test_what_cannot_be_followed_is_refused(delegate, headers):
    delegate.allowed.add(("me", "get", "/configz"))
    status, body = await ask(delegate, *headers)
    assert (status, delegate.asked) == (400, [("token", "secret")])
    assert "only a user, with groups, can be impersonated here" in body


async def test_masters_may_impersonate_everybody_and_lose_their_own_rights(delegate, tmp_path):
    authority = tmp_path / "ca.crt"
    authority.write_text(CA.certificate)
    issued = CA.client("admin", ["system:masters"])
    status, body = await ask(delegate, ANN, issued=issued, client_ca_file=str(authority))
    assert status == 403
    assert 'User "ann" cannot get path' in body
    assert ("admin", "users", "", "ann") not in delegate.asked


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("ann", ["system:authenticated"]),
        ("system:anonymous", ["system:unauthenticated"]),
        (ACCOUNT, ["system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"]),
    ],
)
async def test_the_groups_are_those_that_the_api_server_gives(delegate, monkeypatch, name, groups):
    seen = []

    async def allows(user, _verb, _path):
        seen.append([*user.groups])
        return False

    monkeypatch.setattr(delegate, "allows", allows)
    monkeypatch.setattr(delegate, "allows_impersonation", allows_all)
    await ask(delegate, f"Impersonate-User: {name}")
    assert seen == [groups]


async def allows_all(*_):
    return True


async def test_the_api_server_is_asked_for_the_verb_impersonate():
    async with api(says(201, {"status": {"allowed": True}})) as (http, script):
        assert await AccessDelegation(http, http).allows_impersonation(
            User("me", ()), "serviceaccounts", "team", "builder"
        )
        (request,) = script.requests
    attributes = request.body["spec"]["resourceAttributes"]
    assert attributes == {"verb": "impersonate", "version": "v1", "resource": "serviceaccounts", "namespace": "team", "name": "builder"}  # fmt: skip
