"""What the event loop complains of is passed on, but for Kopf's watches that are closed in the midst of an event."""

import asyncio
import logging

import kopf._cogs.clients.watching as kopf_watching

from podwright.controllers.supervisor import _complain


async def test_only_kopfs_own_generators_are_passed_over(caplog):
    caplog.set_level(logging.DEBUG)
    loop = asyncio.get_running_loop()

    async def ours():
        yield 1

    theirs = kopf_watching.infinite_watch.__wrapped__ if hasattr(kopf_watching.infinite_watch, "__wrapped__") else None
    generator = (theirs or kopf_watching.infinite_watch)(settings=None, resource=None, namespace=None)
    _complain(loop, {"message": "closing Kopf's", "asyncgen": generator})
    _complain(loop, {"message": "closing ours", "asyncgen": ours()})
    _complain(loop, {"message": "something else"})
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert [text.splitlines()[0] for text in told] == ["closing ours", "something else"]
