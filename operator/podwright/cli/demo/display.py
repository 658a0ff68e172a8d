"""Shows the demo's state: live on a terminal, or as plain lines, for example in CI."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, RenderableType
from rich.live import Live

from podwright.cli.demo import picture
from podwright.cli.demo.state import CheckResult, DemoState, policy_of, reason


class Display(Protocol):
    """The interface to which the scenario reports. A display reads the state when it is called."""

    def say(self, text: str) -> None:
        """Shows a message."""

    def step(self, text: str) -> None:
        """A step of the scenario begins."""

    def update(self) -> None:
        """The state has changed."""

    def result(self, result: CheckResult) -> None:
        """A check has a result."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class LiveDisplay:
    """Draws on the terminal's alternate screen while the scenario runs, and prints the end state afterwards."""

    def __init__(self, console: Console, state: DemoState) -> None:
        self._console, self._state = console, state
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=10, screen=True)
        self._step = ""
        self._started = False

    def say(self, text: str) -> None:
        self._console.print(f"[dim]·[/] {text}", highlight=False)

    def step(self, text: str) -> None:
        self._step = text
        if not self._started:
            self._started = True
            self._live.start()

    def update(self) -> None:
        """Nothing to do: the screen refreshes ten times a second."""

    def result(self, result: CheckResult) -> None:
        """Nothing to do: results are part of the screen."""

    def _render(self) -> RenderableType:
        return picture.live(self._state, self._step, self._console.width, self._console.height)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._started:
            self._live.stop()
            self._console.print(picture.final(self._state))


class PlainDisplay:
    """Prints one line for each event."""

    def __init__(self, console: Console, state: DemoState) -> None:
        self._console, self._state = console, state
        self._printed: dict[str, tuple[str, str]] = {}
        self._edit_printed = False

    def say(self, text: str) -> None:
        self._line(text)

    def step(self, text: str) -> None:
        self._line(f"\n== {text}")

    def update(self) -> None:
        if self._state.edit and not self._edit_printed:
            self._edit_printed = True
            self._line(self._state.edit_title, *(f"    {line}" for line in self._state.edit))
        for pod in self._state.pods.values():
            outcome = (pod.node, pod.failure)
            if any(outcome) and self._printed.get(pod.name) != outcome:
                self._printed[pod.name] = outcome
                policy = f" [{policy_of(pod)}]" if pod.node else ""
                self._line(f"{pod.name} -> {pod.node or 'no node'}{policy}: {reason(pod)}")

    def result(self, result: CheckResult) -> None:
        self._line(picture.plain_result(result))

    def _line(self, *lines: str) -> None:
        for line in lines:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to do: all lines are printed."""
