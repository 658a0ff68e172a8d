"""The API server is asked in Kubernetes' own terms, and its answers are read strictly."""

from __future__ import annotations

import pytest

from podwright.kube.client.errors import ApiError
from podwright.kube.serve.access.delegation import ANONYMOUS, AccessDelegation, User
from support.http.kit import api, says

REVIEWER = {"username": "prometheus", "uid": "7", "groups": ["a"], "extra": {"k": ["v"]}}


async def test_a_token_is_reviewed():
    async with api(says(201, {"status": {"authenticated": True, "user": REVIEWER}})) as (http, script):
        user = await AccessDelegation(http, http).user_of("secret")
        assert user == User("prometheus", ("a", "system:authenticated"), "7", {"k": ["v"]})
        (request,) = script.requests
        assert (request.method, request.path) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews")
        assert request.body["kind"] == "TokenReview"
        assert request.body["spec"] == {"token": "secret"}


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"status": {"authenticated": False, "error": "expired"}}, id="not authenticated"),
        pytest.param({"status": {"user": REVIEWER}}, id="not said to be authenticated"),
        pytest.param({"status": {"authenticated": "true", "user": REVIEWER}}, id="said in a text"),
        pytest.param({"status": {"authenticated": True}}, id="no user"),
        pytest.param({"status": {"authenticated": True, "user": {"username": ""}}}, id="no name"),
        pytest.param({"status": None}, id="no status"),
        pytest.param([], id="no object"),
    ],
)
async def test_any_other_answer_is_no_user(answer):
    async with api(says(201, answer)) as (http, _):
        assert await AccessDelegation(http, http).user_of("secret") is None


async def test_access_is_reviewed_as_a_request_for_a_path():
    async with api(says(201, {"status": {"allowed": True}})) as (http, script):
        user = User("prometheus", ("a",), "7", {"k": ["v"]})
        assert await AccessDelegation(http, http).allows(user, "get", "/metrics")
        (request,) = script.requests
        assert (request.method, request.path) == ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")
        assert request.body["spec"] == {
            "user": "prometheus",
            "groups": ["a"],
            "uid": "7",
            "extra": {"k": ["v"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        }


@pytest.mark.parametrize(
    "status", [{}, {"allowed": False}, {"allowed": True, "denied": True}, {"allowed": "yes"}, None]
)
async def test_any_other_answer_allows_nothing(status):
    async with api(says(201, {"status": status})) as (http, _):
        assert not await AccessDelegation(http, http).allows(ANONYMOUS, "get", "/metrics")


async def test_each_question_has_its_own_client_and_errors_are_raised():
    async with api(says(403)) as (one, first), api(says(403)) as (two, second):
        delegation = AccessDelegation(one, two)
        with pytest.raises(ApiError):
            await delegation.user_of("secret")
        with pytest.raises(ApiError):
            await delegation.allows(ANONYMOUS, "get", "/metrics")
        assert [len(first.requests), len(second.requests)] == [1, 1]


async def test_the_authorities_of_clients_come_from_the_clusters_config_map():
    async with api(says(200, {"data": {"client-ca-file": "PEM"}}), says(200, {"data": {}}), says(404)) as (
        http,
        script,
    ):
        assert await AccessDelegation(http, http).authentication() == {"client-ca-file": "PEM"}
        assert await AccessDelegation(http, http).authentication() == {}
        assert await AccessDelegation(http, http).authentication() == {}
        assert set(script.asked) == {"GET /api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"}
