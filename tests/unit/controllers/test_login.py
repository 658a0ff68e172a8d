"""Kopf's logins with the credentials of the runtime."""

from __future__ import annotations

import asyncio

from podwright.controllers.login import KopfLogin
from podwright.kube.client.credentials import Credentials


class FakeSource:
    def __init__(self):
        self.forgotten = 0

    async def current(self):
        return Credentials("http://127.0.0.1:1", None, (("Authorization", "Bearer t"),), "team")

    def forget(self):
        self.forgotten += 1


async def test_a_session_has_the_credentials_of_the_runtime():
    source = FakeSource()
    info = await KopfLogin(source).session()
    assert (info.server, info.default_namespace) == ("http://127.0.0.1:1", "team")
    assert info.aiohttp_session.headers["Authorization"] == "Bearer t"
    assert info.aiohttp_session.trust_env is False
    await info.aiohttp_session.close()
    assert source.forgotten == 0


async def test_a_second_login_right_after_the_first_waits_and_reads_the_credentials_again(monkeypatch):
    monkeypatch.setattr("podwright.controllers.login.LOGIN_SECONDS", 0.05)
    source = FakeSource()
    login = KopfLogin(source)
    started = asyncio.get_running_loop().time()
    for _ in range(2):
        await (await login.session()).aiohttp_session.close()
    assert asyncio.get_running_loop().time() - started >= 0.05
    assert source.forgotten == 1
