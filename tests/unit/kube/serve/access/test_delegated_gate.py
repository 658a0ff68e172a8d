"""Over HTTPS, the API server decides who may read what."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from podwright.kube.client.errors import AccessError, UnreachableError
from podwright.kube.serve.access import delegated_gate
from podwright.kube.serve.access.delegated_gate import MOST_RESULTS, REVIEWS, REVIEWS_OF_A_PEER, Results
from podwright.kube.serve.access.delegation import User
from support.serve.certificates import Authority
from support.serve.kit import Delegate, client_context, get, secure, serving
from support.waiting import until

CA = Authority()
BEARER = "Authorization: Bearer secret"


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(delegated_gate, "REFUSED_SECONDS", 0.0)


@pytest.fixture
def delegate():
    found = Delegate()
    found.users["secret"] = User("prometheus", ("monitors",))
    found.allowed.add(("prometheus", "get", "/metrics"))
    return found


async def ask(server, path, *headers, issued=None, **others):
    status, _, body = await get(server, path, *headers, context=client_context(issued), **others)
    return status, body


async def test_health_is_for_everybody_and_asks_nobody(delegate):
    async with serving(delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
        for path in ("/livez", "/readyz", "/healthz"):
            assert (await ask(server, path))[0] == 200
        assert delegate.asked == []


async def test_an_unknown_token_is_refused_for_health_too(delegate):
    """As with kube-scheduler: a path that is open to everybody needs no right, but a token must be one."""
    async with serving(delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
        assert (await ask(server, "/livez", "Authorization: Bearer other"))[0] == 401
        assert (await ask(server, "/livez", BEARER))[0] == 200
        assert delegate.asked == [("token", "other"), ("token", "secret")]


async def test_a_user_who_may_reads_metrics(delegate):
    async with serving(delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
        status, body = await ask(server, "/metrics", BEARER)
        assert status == 200
        assert b"podwright_build_info" in body
        assert delegate.asked == [("token", "secret"), ("prometheus", "get", "/metrics")]


REFUSED = [
    pytest.param("/metrics", (), 403, 'forbidden: User "system:anonymous" cannot get path "/metrics"', id="nobody"),
    pytest.param("/metrics", ("Authorization: Basic eDp5",), 403, "system:anonymous", id="another scheme"),
    pytest.param("/metrics", ("Authorization: Bearer ",), 403, "system:anonymous", id="an empty token"),
    pytest.param("/metrics", ("Authorization: Bearer other",), 401, "Unauthorized", id="an unknown token"),
    pytest.param("/configz", (BEARER,), 403, 'User "prometheus" cannot get path "/configz"', id="another path"),
    pytest.param("/readyz/ping", (BEARER,), 403, 'cannot get path "/readyz/ping"', id="one check"),
    pytest.param("/metrics/", (BEARER,), 403, 'cannot get path "/metrics/"', id="a path that ends otherwise"),
    pytest.param("//metrics", (BEARER,), 403, "", id="a path that begins otherwise"),
    pytest.param("/livez/../metrics", (), 403, "", id="a path with dots"),
    pytest.param("/%6detrics", (), 403, 'cannot get path "/metrics"', id="an encoded path"),
    pytest.param("/no/such", (BEARER,), 403, "", id="a path that is not served"),
]


@pytest.mark.parametrize(("path", "headers", "code", "message"), REFUSED)
async def test_others_are_refused_in_the_api_servers_words(delegate, path, headers, code, message):
    async with serving(delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
        status, body = await ask(server, path, *headers)
        found = json.loads(body)
        assert (status, found["code"], found["kind"], found["status"]) == (code, code, "Status", "Failure")
        assert message in found["message"]
        assert b"secret" not in body


async def test_the_verb_is_that_of_the_request(delegate):
    async with serving(delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
        assert (await ask(server, "/metrics", BEARER, method="HEAD"))[0] == 403
        assert (await ask(server, "/metrics", BEARER, method="POST"))[0] == 403
        delegate.allowed.add(("prometheus", "head", "/configz"))
        assert (await ask(server, "/configz", BEARER, method="HEAD"))[0] == 200


async def test_paths_can_be_opened_to_everybody(delegate):
    options = secure(authorization_always_allow_paths=("/metrics*",), authentication_skip_lookup=True)
    async with serving(delegate=delegate, **options) as server:
        assert (await ask(server, "/metrics"))[0] == 200
        assert (await ask(server, "/metrics/resources"))[0] == 200
        assert (await ask(server, "/livez"))[0] == 403


class TestClientCertificates:
    @pytest.fixture
    def options(self, tmp_path):
        path = tmp_path / "ca.crt"
        path.write_text(CA.certificate)
        return secure(client_ca_file=str(path), authentication_skip_lookup=True)

    async def test_a_certificate_names_its_user_and_groups(self, delegate, options):
        async with serving(delegate=delegate, **options) as server:
            assert (await ask(server, "/metrics", issued=CA.client("prometheus", ["a", "b"])))[0] == 200
            assert delegate.asked == [("prometheus", "get", "/metrics")]
            status, body = await ask(server, "/metrics", issued=CA.client("other"))
            assert (status, json.loads(body)["message"]) == (403, 'forbidden: User "other" cannot get path "/metrics"')

    async def test_masters_may_do_everything_and_the_api_server_is_not_asked(self, delegate, options):
        async with serving(delegate=delegate, **options) as server:
            assert (await ask(server, "/configz", issued=CA.client("admin", ["system:masters"])))[0] == 200
            assert delegate.asked == []

    @pytest.mark.parametrize(
        "issued",
        [
            pytest.param(Authority().client("admin", ["system:masters"]), id="another authority"),
            pytest.param(CA.client("admin", ["system:masters"], days=-1), id="an expired certificate"),
            pytest.param(CA.client("admin", ["system:masters"], server=True), id="a server's certificate"),
        ],
    )
    async def test_a_bad_certificate_gets_no_answer(self, delegate, options, issued):
        async with serving(delegate=delegate, **options) as server:
            with pytest.raises((OSError, IndexError)):
                await ask(server, "/configz", issued=issued)
            assert delegate.asked == []

    async def test_a_certificate_without_a_name_is_nobodys(self, delegate, options):
        async with serving(delegate=delegate, **options) as server:
            status, body = await ask(server, "/configz", issued=CA.client("", ["system:masters"]))
            assert status == 403
            assert b"system:anonymous" in body

    async def test_without_authorities_certificates_mean_nothing(self, delegate):
        async with serving(delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
            status, body = await ask(server, "/configz", issued=CA.client("admin", ["system:masters"]))
            assert status == 403
            assert b"system:anonymous" in body

    async def test_the_clusters_authorities_are_looked_up_and_change(self, delegate, monkeypatch):
        monkeypatch.setattr("podwright.kube.serve.tls.secure_port.CHECK_SECONDS", 0.002)
        other = Authority()
        delegate.authorities = CA.certificate
        first, second = (authority.client("prometheus") for authority in (CA, other))
        async with serving(delegate=delegate, **secure()) as server:

            async def accepted(issued):
                try:
                    return (await ask(server, "/metrics", issued=issued))[0] == 200
                except (OSError, IndexError):
                    return False

            while not await accepted(first):
                await asyncio.sleep(0.005)
            assert not await accepted(second)
            delegate.authorities = other.certificate
            while not await accepted(second):
                await asyncio.sleep(0.005)
            assert not await accepted(first)
            delegate.authorities = "garbage"
            before = len(delegate.asked)
            await until(lambda: len(delegate.asked) > before + 3)
            assert await accepted(second)

    async def test_a_failed_look_up_is_tolerated_or_not(self, delegate, caplog):
        delegate.error = UnreachableError("connection refused")
        async with serving(delegate=delegate, **secure()) as server:
            await server.require_authentication()
            await until(
                lambda: "the issuers of client certificates stay as they are: connection refused" in caplog.text
            )
            assert (await ask(server, "/livez"))[0] == 200
        async with serving(delegate=delegate, **secure(authentication_tolerate_lookup_failure=False)) as server:
            with pytest.raises(AccessError, match="connection refused"):
                await server.require_authentication()


class TestReviews:
    @pytest.fixture(autouse=True)
    def patient(self, monkeypatch):
        """On a busy machine, many handshakes take longer than a review may."""
        monkeypatch.setattr(delegated_gate, "REVIEW_SECONDS", 3600.0)
        monkeypatch.setattr(delegated_gate, "TURN_SECONDS", 3600.0)

    async def test_results_are_kept_for_ten_seconds(self, delegate):
        async with serving(delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
            for _ in range(3):
                assert (await ask(server, "/metrics", BEARER))[0] == 200
                assert (await ask(server, "/configz", BEARER))[0] == 403
                assert (await ask(server, "/metrics", "Authorization: Bearer other"))[0] == 401
            assert len(delegate.asked) == len(set(delegate.asked)) == 4

    async def test_results_are_not_kept_at_all_if_the_options_say_so(self, delegate):
        never = dict.fromkeys(
            (
                "authentication_token_webhook_cache_ttl",
                "authorization_webhook_cache_authorized_ttl",
                "authorization_webhook_cache_unauthorized_ttl",
            ),
            0.0,
        )
        async with serving(delegate=delegate, **secure(authentication_skip_lookup=True, **never)) as server:
            for path in ("/metrics", "/configz"):
                for _ in range(3):
                    await ask(server, path, BEARER)
            assert len(delegate.asked) == 12

    def test_a_result_ends_and_the_number_of_results_is_bounded(self):
        now = 0.0
        kept = Results(lambda: now)
        kept.put("a", True, 10)
        assert kept.get("a") is True
        now = 9.9
        assert kept.get("a") is True
        now = 10.0
        assert kept.get("a") is None
        for number in range(3 * MOST_RESULTS):
            kept.put(number, False, 10)
        assert len(kept) == MOST_RESULTS
        assert kept.get(3 * MOST_RESULTS - 1) is False

    async def test_errors_of_the_api_server_refuse_and_are_not_kept(self, delegate):
        delegate.error = UnreachableError("connection refused")
        async with serving(delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
            assert (await ask(server, "/metrics", BEARER))[0] == 401
            assert (await ask(server, "/metrics"))[0] == 500
            delegate.error = None
            assert (await ask(server, "/metrics", BEARER))[0] == 200
            assert (await ask(server, "/metrics"))[0] == 403

    async def test_a_peer_has_few_reviews_at_a_time(self, delegate):
        delegate.held.clear()
        async with serving(delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
            waiting = [
                asyncio.create_task(ask(server, "/metrics", f"Authorization: Bearer {number}"))
                for number in range(REVIEWS_OF_A_PEER)
            ]
            await until(lambda: len(delegate.asked) == REVIEWS_OF_A_PEER)
            status, body = await ask(server, "/metrics", BEARER)
            assert (status, json.loads(body)["reason"]) == (429, "TooManyRequests")
            assert (await ask(server, "/livez"))[0] == 200
            delegate.held.set()
            assert {status for status, _ in await asyncio.gather(*waiting)} == {401}
            assert (await ask(server, "/metrics", BEARER))[0] == 200

    async def test_results_that_are_kept_need_no_turn(self, delegate):
        async with serving(delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
            expected = {BEARER: 200, "Authorization: Bearer other": 401, "Accept: */*": 403}
            for header, status in expected.items():
                assert (await ask(server, "/metrics", header))[0] == status
            async with reviewing(delegate, server, ["127.0.0.1"]):
                for header, status in expected.items():
                    assert (await ask(server, "/metrics", header))[0] == status
                assert (await ask(server, "/configz", BEARER))[0] == 429

    async def test_a_peer_waits_for_its_turn_behind_many_peers(self, delegate):
        async with serving(delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
            async with reviewing(delegate, server, OTHERS):
                waiting = asyncio.create_task(ask(server, "/metrics", BEARER))
                assert (await ask(server, "/livez"))[0] == 200
                assert ("token", "secret") not in delegate.asked
            assert (await waiting)[0] == 200

    async def test_a_turn_that_does_not_come_is_not_awaited_for_ever(self, delegate, monkeypatch):
        monkeypatch.setattr(delegated_gate, "TURN_SECONDS", 0.0)
        async with serving(delegate=delegate, **secure(authentication_skip_lookup=True)) as server:
            for _ in range(2):
                async with reviewing(delegate, server, OTHERS):
                    status, body = await ask(server, "/metrics", BEARER)
                    assert (status, json.loads(body)["reason"]) == (429, "TooManyRequests")
            assert (await ask(server, "/metrics", BEARER))[0] == 200


OTHERS = [f"127.0.0.{2 + number}" for number in range(REVIEWS // REVIEWS_OF_A_PEER)]


@asynccontextmanager
async def reviewing(delegate, server, peers):
    """Meanwhile, each of these peers has as many requests under review as it may have."""
    delegate.held.clear()
    before = len(delegate.asked)
    waiting = []
    for peer in peers:
        for _ in range(
            REVIEWS_OF_A_PEER
        ):  # one by one: many TLS handshakes at once may take longer than the server waits
            token = before + len(waiting)
            waiting.append(asyncio.create_task(ask(server, "/metrics", f"Authorization: Bearer {token}", peer=peer)))
            await until(lambda: len(delegate.asked) == before + len(waiting))
    yield
    delegate.held.set()
    assert {status for status, _ in await asyncio.gather(*waiting)} == {401}
