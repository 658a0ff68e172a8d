"""Errors that kube-scheduler does not show, because the answer has no field for them, are in the extender's log."""

from __future__ import annotations

import pytest

from podwright.engine.records.log_fields import fields_of
from support.engine.kit import ours
from support.extender.kit import ExtenderRig

ARGS = {"Pod": ours("asks"), "Nodes": None, "NodeNames": ["a"]}


@pytest.mark.parametrize("repeated", [False, True], ids=["first request", "repeated request"])
@pytest.mark.parametrize(("verb", "logged"), [("filter", 0), ("bind", 0), ("prioritize", 1), ("preempt", 1)])
async def test_the_log_has_what_kube_scheduler_does_not_show(verb, logged, repeated, caplog):
    async with ExtenderRig("a").serving() as caller:
        if repeated:
            await caller.post(f"/policies/none/{verb}", ARGS)
            caplog.clear()
        await caller.post(f"/policies/none/{verb}", ARGS)
    lines = [fields_of(record) for record in caplog.records]
    assert (
        lines
        == [
            {
                "verb": verb,
                "policy": "none",
                "status": 404,
                "err": 'there is no SchedulerPolicy "none", which the URL of the extender names',
            }
        ]
        * logged
    )
