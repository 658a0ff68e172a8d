"""Runs calls that may not return in threads beside the event loop. They delay nothing, and the process can end while
they run.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Final, TypeVar

from podwright.core.framework.errors import StoppedError

log = logging.getLogger(__name__)

T = TypeVar("T")

END_SECONDS: Final = 1.0
"""How long a call may go on after it was told to end."""
MOST_LEFT: Final = 3
"""The default of how many calls may be left running that did not end. Each has a thread."""


class NoAnswerError(Exception):
    """A call did not return in time."""


class SideThread:
    """See the module. One call at a time, each in a daemon thread of its own: a thread that hangs is left behind."""

    def __init__(self, name: str, *, most_left: int = MOST_LEFT) -> None:
        """`most_left`: how many calls may be left behind that did not end."""
        self._name = name
        self._most_left = most_left
        self._left: list[threading.Thread] = []

    async def call(
        self, function: Callable[[], T], seconds: float | None = None, dispose: Callable[[T], None] | None = None
    ) -> T:
        """The function's result, or what it raises. After `seconds`, its stack is logged, and it is stopped.

        `dispose` gets the result of a call that returns later. If the caller is cancelled, the call is left running.
        Raises NoAnswerError.
        """
        self._left = [thread for thread in self._left if thread.is_alive()]
        if len(self._left) >= self._most_left:
            raise NoAnswerError(f"{len(self._left)} earlier ones have not ended; restart the operator")
        loop = asyncio.get_running_loop()
        result: asyncio.Future[T] = loop.create_future()

        def finish(value: T | None, error: BaseException | None) -> None:
            if result.done():
                if error is None and dispose is not None:
                    dispose(value)  # type: ignore[arg-type]  # without an error, it is the result
            elif error is not None:
                result.set_exception(error)
            else:
                result.set_result(value)  # type: ignore[arg-type]  # likewise

        def run() -> None:
            value: T | None = None
            error: BaseException | None = None
            try:
                value = function()
            except StoppedError:
                error = NoAnswerError("it was stopped")
            except BaseException as raised:  # noqa: BLE001 -- the caller gets it
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(finish, value, error)

        thread = threading.Thread(target=run, name=self._name, daemon=True)
        thread.start()
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(result)
        except TimeoutError:
            return await self._stop(thread, result, seconds or 0.0)
        except asyncio.CancelledError:
            result.cancel()
            self._left.append(thread)
            raise

    async def _stop(self, thread: threading.Thread, result: asyncio.Future[T], seconds: float) -> T:
        """Raises NoAnswerError, unless the call has returned after all."""
        where = "an unknown place"
        frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 -- there is no other way
        if frame is not None:
            stack = traceback.extract_stack(frame)
            where = f"line {stack[-1].lineno} of {stack[-1].filename}"
            log.error("%s: no answer for %g s\n%s", self._name, seconds, "".join(traceback.format_list(stack)))
        _raise_into(thread)
        with contextlib.suppress(TimeoutError, NoAnswerError):
            async with asyncio.timeout(END_SECONDS):
                return await asyncio.shield(result)
        if result.done():
            raise NoAnswerError(f"did not return within {seconds:g} s, and was stopped at {where}")
        result.cancel()
        self._left.append(thread)
        raise NoAnswerError(
            f"did not return within {seconds:g} s, and cannot be stopped at {where}: its thread is left behind"
        )


def _raise_into(thread: threading.Thread) -> None:
    """Raises the exception in the thread, as soon as that runs Python code again. Nothing else runs in the thread."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(StoppedError))
