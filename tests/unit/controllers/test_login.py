"""Kopf's logins with the credentials of the runtime."""

from __future__ import annotations

import asyncio

from podwright.controllers.login import REFUSED_SECONDS, KopfLogin
from podwright.kube.client.credentials.credentials import Credentials
from podwright.kube.client.errors import ApiError


class FakeSource:
    def __init__(self, *refusals):
        self.forgotten = 0
        self.waits = []
        self.refusals = list(refusals)

    async def wait_while_refused(self, timeout):
        self.waits.append(timeout)

    async def current(self):
        if self.refusals:
            raise self.refusals.pop()
        return Credentials("http://127.0.0.1:1", None, (("Authorization", "Bearer t"),), "team")

    def forget(self):
        self.forgotten += 1


def ignore(_raw):
    pass


async def test_a_session_has_the_credentials_of_the_runtime():
    source = FakeSource()
    info = await KopfLogin(source, ignore).session()
    assert (info.server, info.default_namespace) == ("http://127.0.0.1:1", "team")
    assert info.aiohttp_session.headers["Authorization"] == "Bearer t"
    assert info.aiohttp_session.trust_env is False
    await info.aiohttp_session.close()
    assert source.forgotten == 0


async def test_a_second_login_right_after_the_first_waits_and_reads_the_credentials_again(monkeypatch):
    monkeypatch.setattr("podwright.controllers.login.LOGIN_SECONDS", 0.05)
    source = FakeSource()
    login = KopfLogin(source, ignore)
    started = asyncio.get_running_loop().time()
    for _ in range(2):
        await (await login.session()).aiohttp_session.close()
    assert asyncio.get_running_loop().time() - started >= 0.05
    assert source.forgotten == 1


async def test_a_login_waits_while_the_server_refuses_the_credentials():
    source = FakeSource(ApiError(401, "Unauthorized", "refused"), ApiError(401, "Unauthorized", "refused"))
    info = await KopfLogin(source, ignore).session()
    assert info.aiohttp_session.headers["Authorization"] == "Bearer t"
    await info.aiohttp_session.close()
    assert source.waits == [REFUSED_SECONDS] * 3
