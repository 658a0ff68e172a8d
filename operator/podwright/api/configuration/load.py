"""Loads a KubeSchedulerConfiguration file: its settings, and a core Profile for each of its profiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from podwright.api.configuration.documents import read_document
from podwright.api.configuration.extenders import Extenders, extenders_of, with_extenders
from podwright.api.configuration.schema import ConfiguredProfile, SchedulerConfiguration
from podwright.api.configuration.versions import to_v1
from podwright.api.kube_scheduler_configuration import decode_entry, merged_plugins, plugin_sets_of
from podwright.core.framework.args import ArgsError, decode
from podwright.core.framework.features import Features
from podwright.core.framework.profile import Classes, PluginSets, Profile, ProfileError
from podwright.core.framework.validation import Problem
from podwright.core.objects.dataclass import dataclass
from podwright.core.objects.similar_names import similar_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A valid file. `warnings`: the fields that have no effect, or whose effect has changed. `path`: for messages."""

    settings: SchedulerConfiguration
    warnings: tuple[str, ...]
    path: str = ""

    @property
    def scheduler_names(self) -> Sequence[str]:
        """The scheduler name of each profile."""
        return [str(profile.scheduler_name) for profile in self.settings.profiles]

    @property
    def extenders(self) -> Extenders:
        """The extenders, which are for all profiles."""
        return extenders_of(self.settings.extenders)

    def profiles(self, classes: Classes, features: Features) -> Sequence[Profile]:
        """The profiles for the plugins in `classes`. Raises ArgsError with the path of each field that is wrong."""
        problems: list[Problem] = []
        profiles: list[Profile] = []
        merged: dict[tuple[Any, ...], PluginSets] = {}
        """By the profile's own sets: most profiles of a long file have the same."""
        extenders = [*self.extenders.values()]
        for i, configured in enumerate(self.settings.profiles):
            where = f"profiles[{i}]"
            args = _decoded_args(configured, classes, f"{where}.pluginConfig", problems)
            try:
                sets = plugin_sets_of(configured.plugins, f"{where}.plugins")
                key = tuple(sets.items())
                plugins = merged.get(key) or merged_plugins(sets, classes, features, where)
                merged[key] = plugins
            except ArgsError as error:
                problems += error.problems
            except ProfileError as error:
                problems.append((error.where, error.problem))
            else:
                profile = Profile(str(configured.scheduler_name), plugins, args)
                profiles.append(with_extenders(profile, extenders, classes))
        if problems:
            raise ArgsError(problems)
        return profiles

    def unused_args(self, classes: Classes) -> Sequence[str]:
        """Warnings for args that no plugin uses. kube-scheduler ignores them silently."""
        return [
            f"profiles[{i}].pluginConfig[{j}]: {_why_unused(entry.name, classes)}; its args are ignored"
            for i, configured in enumerate(self.settings.profiles)
            for j, entry in enumerate(configured.plugin_config)
            if not _takes_args(entry.name, classes)
        ]


def load_configuration(content: bytes, *, path: str = "") -> Configuration:
    """The settings of the file at `path`. Raises ProfileError, or ArgsError with all problems, each with the path of
    its field.
    """
    warnings: list[str] = []
    settings = decode(SchedulerConfiguration, to_v1(read_document(content), warnings.append), "")
    return Configuration(settings=settings, warnings=(*warnings, *_without_effect(settings)), path=path)


def _takes_args(name: str, classes: Classes) -> bool:
    return getattr(classes.get(name), "args_type", None) is not None


def _why_unused(name: str, classes: Classes) -> str:
    if name in classes:
        return f"plugin {name!r} takes no args"
    close = similar_name(name, classes)
    return f"plugin {name!r} does not exist" + (f" (did you mean {close!r}?)" if close else "")


def _decoded_args(
    configured: ConfiguredProfile, classes: Classes, where: str, problems: list[Problem]
) -> Mapping[str, Any]:
    """Args by plugin name. Appends what is wrong to `problems`."""
    args: dict[str, Any] = {}
    for i, entry in enumerate(configured.plugin_config):
        if _takes_args(entry.name, classes):
            try:
                args[entry.name] = decode_entry(classes[entry.name], entry, f"{where}[{i}].args")
            except ArgsError as error:
                problems += error.problems
    return args


def _without_effect(settings: SchedulerConfiguration) -> Iterator[str]:
    """Warnings about fields without effect, because Podwright works in another way."""
    default = SchedulerConfiguration()
    if settings.parallelism != default.parallelism:
        yield "parallelism: has no effect; each decision looks at all nodes in one thread"
    percentages = {"percentageOfNodesToScore": settings.percentage_of_nodes_to_score} | {
        f"profiles[{i}].percentageOfNodesToScore": profile.percentage_of_nodes_to_score
        for i, profile in enumerate(settings.profiles)
    }
    yield from (f"{where}: has no effect; all nodes are scored" for where, value in percentages.items() if value)
    connection, usual = settings.client_connection, default.client_connection
    if (connection.qps, connection.burst) != (usual.qps, usual.burst):
        yield "clientConnection.qps and burst: have no effect; the API server's answers set the pace"
    if (connection.content_type, connection.accept_content_types) != (usual.content_type, usual.accept_content_types):
        yield "clientConnection.contentType and acceptContentTypes: have no effect; requests are JSON"
    if settings.delay_cache_until_active:
        yield "delayCacheUntilActive: has no effect; standbys keep their caches, for a fast takeover"
