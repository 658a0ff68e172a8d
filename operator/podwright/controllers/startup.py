"""Kopf's start, end and login. Under `podwright run` the runtime is there already and outlives Kopf."""

from __future__ import annotations

from typing import Any

import kopf

from podwright.controllers.process import process


@kopf.on.startup()
async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
    await process.kopf_starts(settings)


@kopf.on.cleanup()
async def stop(**_: Any) -> None:
    await process.kopf_ends()


@kopf.on.login()
async def login(**_: Any) -> kopf.AiohttpSession:
    return await process.login()
