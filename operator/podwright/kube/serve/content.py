"""The server's questions to the scheduler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from podwright.core.objects.dataclass import dataclass
from podwright.engine.process.steps import Steps
from podwright.engine.records.families import Snapshot
from podwright.kube.serve.answers.checks import Problems
from podwright.kube.serve.answers.pod_resources import Pods
from podwright.kube.serve.page.shown import Shown

if TYPE_CHECKING:
    from podwright.kube.serve.answers.explanations import AnswersAboutPod
    from podwright.kube.serve.answers.shadow_reports import ShadowAnswers


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """All functions run in the scheduler's thread, and return quickly."""

    checks: Callable[[], Problems]
    """The named checks of /readyz."""
    metrics: Callable[[], Steps[Sequence[Snapshot]]]
    """Snapshots of all metrics, which are called in the server's thread."""
    pods: Pods
    """The pods for /metrics/resources."""
    configuration: Callable[[], Callable[[], Mapping[str, Any]]]
    """A snapshot of the configuration for /configz. It is called in the server's thread."""
    about_pod: AnswersAboutPod | None = None
    """The answers of /debug/explain, in short steps; None: the path is not served."""
    shown: Callable[[], Shown | None] | None = None
    """Returns what the page shows, None before the start. No function: there is no page."""
    shadow: ShadowAnswers | None = None
    """The answers of /debug/shadow, in short steps; None: the path is not served."""
