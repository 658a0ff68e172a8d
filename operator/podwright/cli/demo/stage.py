"""Where the scene is shown: on a terminal that is drawn again and again, or as plain lines, in CI, say."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, RenderableType
from rich.live import Live

from podwright.cli.demo import picture
from podwright.cli.demo.scene import Finding, Scene, whose, why


class Stage(Protocol):
    """What the story tells; the scene is read when something is told."""

    def say(self, text: str) -> None:
        """Something that is not an act of its own."""

    def act(self, text: str) -> None:
        """An act begins."""

    def update(self) -> None:
        """The scene has changed."""

    def finding(self, finding: Finding) -> None:
        """An expectation was checked."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class LiveStage:
    """A terminal: its alternate screen while the story runs, and what came of it afterwards."""

    def __init__(self, console: Console, scene: Scene) -> None:
        self._console, self._scene = console, scene
        self._live = Live(console=console, get_renderable=self._render, refresh_per_second=10, screen=True)
        self._begun = False

    def say(self, text: str) -> None:
        self._console.print(f"[dim]·[/] {text}", highlight=False)

    def act(self, text: str) -> None:
        self._scene.act = text
        if not self._begun:
            self._begun = True
            self._live.start()

    def update(self) -> None:
        """Drawn ten times a second anyway."""

    def finding(self, finding: Finding) -> None:
        """Drawn with the scene."""

    def _render(self) -> RenderableType:
        return picture.live(self._scene, self._console.width, self._console.height)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._begun:
            self._live.stop()
            self._console.print(picture.final(self._scene))


class PlainStage:
    """Lines that stay."""

    def __init__(self, console: Console, scene: Scene) -> None:
        self._console, self._scene = console, scene
        self._told: dict[str, tuple[str, str]] = {}
        self._edits = 0

    def say(self, text: str) -> None:
        self._line(text)

    def act(self, text: str) -> None:
        self._line(f"\n== {text}")

    def update(self) -> None:
        if self._scene.edit and not self._edits:
            self._edits = len(self._scene.edit)
            self._line(self._scene.edit_title, *(f"    {line}" for line in self._scene.edit))
        for pod in self._scene.pods.values():
            news = (pod.node, pod.why)
            if any(news) and self._told.get(pod.name) != news:
                self._told[pod.name] = news
                policy = f" [{whose(pod)}]" if pod.node else ""
                self._line(f"{pod.name} -> {pod.node or 'no node'}{policy}: {why(pod)}")

    def finding(self, finding: Finding) -> None:
        self._line(picture.plain_finding(finding))

    def _line(self, *lines: str) -> None:
        for line in lines:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Everything has been told."""
