"""The extenders, and their changes to a profile.

Only the operator's options define extenders. The extenders in the KubeSchedulerConfiguration of `--config` are for all
of its profiles, and are named by their URLs. The file of `--extenders` gives them names. A SchedulerPolicy only names
those to use. How they are called: see podwright/extender/client.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from podwright.api.configuration.documents import read_document
from podwright.api.configuration.schema import Extender, extender_problems
from podwright.core.framework.args import ArgsError, decode
from podwright.core.framework.profile import Classes, Profile
from podwright.core.framework.validation import Problem
from podwright.core.objects.dataclass import dataclass

NAME: Final = r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$"
_FIT: Final = "NodeResourcesFit"
_SCHEMES: Final = ("http", "https")


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinedExtender:
    """An extender and its name. `attempts`: how many attempts may wait for it at the same time; None: as the operator's
    option says.
    """

    name: str
    settings: Extender
    attempts: int | None = None

    @property
    def shown_url(self) -> str:
        """The extender's URL for messages."""
        return shown_url(self.settings.url_prefix)


def shown_url(url: str) -> str:
    """The URL without the password or token before its host, also if it is malformed. As in Go, a name beside a
    password is shown.
    """
    if "@" not in url:
        return url
    try:
        parts = urlsplit(url)
        if parts.scheme in _SCHEMES and parts.hostname and (parts.port or 0) >= 0:
            if "@" not in parts.netloc:
                return url
            host = parts.netloc.rpartition("@")[2]
            name = "" if parts.password is None else f"{parts.username}:"
            return urlunsplit(parts._replace(netloc=f"{name}***@{host}"))
    except ValueError:
        pass
    return f"***@{url.rpartition('@')[2]}"


Extenders = Mapping[str, DefinedExtender]
"""Extenders by name."""


@dataclass(frozen=True, slots=True)
class _Entry(Extender):
    """An entry of the file: the fields of a KubeSchedulerConfiguration's extender, its name, and its own limit."""

    name: str = field(default="", metadata={"schema": {"pattern": NAME}})
    attempts: int | None = field(default=None, metadata={"schema": {"minimum": 1}})


@dataclass(frozen=True, slots=True)
class _File:
    extenders: tuple[_Entry, ...] = ()

    def validate(self, where: str) -> Iterator[Problem]:
        counts = Counter(entry.name for entry in self.extenders)
        for i, entry in enumerate(self.extenders):
            if not entry.name:
                yield f"extenders[{i}].name", "Required value"
            elif counts[entry.name] > 1:
                yield f"extenders[{i}].name", f'Duplicate value: "{entry.name}"'
            for path, problem in extender_problems((entry,)):
                yield path.replace("extenders[0]", f"extenders[{i}]"), problem


def load_extenders(content: bytes) -> Extenders:
    """The file of `--extenders`. Raises ProfileError, or ArgsError with all problems, each with the path of its
    field.
    """
    return {
        entry.name: DefinedExtender(name=entry.name, settings=entry, attempts=entry.attempts)
        for entry in decode(_File, read_document(content), "").extenders
    }


def extenders_of(configured: Sequence[Extender]) -> Extenders:
    """A configuration's extenders by name: the urlPrefix as it is shown, with a number if several have the same.

    Names are in metrics, logs and the specs of policies.
    """
    found: dict[str, DefinedExtender] = {}
    for extender in configured:
        shown, number = shown_url(extender.url_prefix), 2
        name = shown
        while name in found:
            name, number = f"{shown}#{number}", number + 1
        found[name] = DefinedExtender(name=name, settings=extender)
    return found


def with_extenders(profile: Profile, extenders: Iterable[DefinedExtender], classes: Classes) -> Profile:
    """The profile with these extenders: those that may be ignored come last, and NodeResourcesFit ignores the resources
    that it is told to.

    Source: `buildExtenders` in kube-scheduler.
    """
    ordered = sorted(extenders, key=lambda extender: extender.settings.ignorable)
    if not ordered:
        return profile
    args = dict(profile.args)
    ignored = tuple(
        resource.name
        for extender in ordered
        for resource in extender.settings.managed_resources
        if resource.ignored_by_scheduler
    )
    if ignored:
        fit = args.get(_FIT) or decode(classes[_FIT].args_type, None, "")
        args[_FIT] = replace(fit, ignored_resources=ignored)
    return replace(profile, args=args, extenders=tuple(extender.name for extender in ordered))


def named_extenders(names: Sequence[str], defined: Extenders, where: str) -> Sequence[DefinedExtender]:
    """The extenders that a policy names. Raises ArgsError for a name that is not defined, and for a choice that cannot
    work.
    """
    unknown: list[Problem] = [
        (
            f"{where}[{i}]",
            f"extender {name!r} is not defined; only the operator's options --extenders and --config define extenders",
        )
        for i, name in enumerate(names)
        if name not in defined
    ]
    if unknown:
        raise ArgsError(unknown)
    found = [defined[name] for name in names]
    problems = [(where, problem) for _, problem in extender_problems([extender.settings for extender in found])]
    if problems:
        raise ArgsError(problems)
    return found
