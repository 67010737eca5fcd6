"""Settings from all sources as one value, with what was left out and why.

The rules kept here:

- managed > command line > local > project > user. How each key combines stands in `keys.py`.
- What comes with a project never widens what runs before the user trusts it (`trust.py`), and never
  switches permissions off at all. What it forbids always counts.
- A source that can't be used is an error. Where the user sits at a terminal it may be left out
  instead; since rules that deny may have been in it, then everything is asked and nothing is widened.
- An administrator's file that can't be used is always an error.
- Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from rewake.errors import SettingsError
from rewake.log.git import is_repository, is_tracked
from rewake.settings.check import lookup
from rewake.settings.keys import KEYS, Key
from rewake.settings.mcp_json import read_mcp_json
from rewake.settings.migrations import CURRENT
from rewake.settings.schema import Settings
from rewake.settings.source import RISING, Source, SourceName, given, parsed, read_source
from rewake.settings.spots import dotted
from rewake.settings.trust import content_hash, narrows, read_answers, widening

FileSource = Literal["user", "project", "local"]
FILE_SOURCES: Final[tuple[FileSource, ...]] = ("user", "project", "local")
PROJECT_DIRECTORY: Final = ".rewake"
STEM: Final = "settings"
LOCAL_STEM: Final = "settings.local"


@dataclass(frozen=True, slots=True)
class Places:
    """Where settings come from. `managed` is the directory of the administrator's file.

    `only` limits the three sources of files; `flags` is what the command line says, by the settings'
    own shape; `extra` is the file or the text of `--settings`, with what to call it.
    """

    home: Path
    root: Path
    managed: Path | None = None
    only: Sequence[FileSource] = FILE_SOURCES
    flags: Mapping[str, Any] = field(default_factory=dict)
    extra: tuple[str, Path | None, str] | None = None

    def directory(self, name: FileSource) -> Path:
        """Where the source's file is."""
        return self.home if name == "user" else self.root / PROJECT_DIRECTORY

    @staticmethod
    def stem(name: FileSource) -> str:
        """The file's name without its ending."""
        return LOCAL_STEM if name == "local" else STEM


class LeftOut(NamedTuple):
    """A value that doesn't count because the project isn't trusted with it."""

    key: str
    value: Any
    where: str


class Said(NamedTuple):
    """What one source says of a key. `status`: whether it counts, and why if not."""

    source: SourceName
    where: str
    value: Any
    status: Literal["counts", "overridden", "not trusted"]


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings in force, and everything there is to say about how they came about.

    `values` are the settings as they were written, without what nobody has set.
    `sources` are in rising order. `problems` are those of sources that were left out; `is_guarded`
    says that rules may be missing, so that nothing may run without being asked. `content` names what
    needs trust (empty: nothing), `answer` is what the user said to it (None: nobody was asked).
    """

    settings: Settings
    sources: tuple[Source, ...]
    values: dict[str, Any] = field(default_factory=dict)
    untrusted: tuple[LeftOut, ...] = ()
    problems: tuple[SettingsError, ...] = ()
    is_guarded: bool = False
    content: str = ""
    answer: bool | None = None

    def said(self, name: str) -> tuple[Said, ...]:
        """What each source says of the key `name`, in falling order of precedence."""
        key = KEYS[name]
        trusted = self.answer is True
        found: list[Said] = []
        for source in reversed(self.sources):
            value = lookup(source.data, key.path)
            if value is None:
                continue
            status: Literal["counts", "overridden", "not trusted"] = "counts"
            if not _counts(source, key, value, trusted=trusted):
                status = "not trusted"
            elif key.merge == "nearest" and any(item.status == "counts" for item in found):
                status = "overridden"
            found.append(Said(source.name, source.where(key.path), value, status))
        return tuple(found)

    def managed(self, name: str) -> Source | None:
        """The administrator's source if it sets this key, so that nothing else can."""
        return next(
            (
                source
                for source in self.sources
                if source.name == "managed" and lookup(source.data, KEYS[name].path) is not None
            ),
            None,
        )

    def notices(self) -> Iterator[str]:
        """What the user should know about these settings, a sentence or two each."""
        for problem in self.problems:
            yield f"A settings file is left out: {problem.message} {problem.remedy}"
        if self.is_guarded:
            yield (
                "Rules that forbid something may be missing, so everything is asked:"
                " permission mode default, no rule that allows, no MCP servers."
            )
        for source in self.sources:
            yield from source.told
            for path in source.unknown_rules():
                yield (
                    f"{source.where(path)}: {dotted(path)} is no key that this version knows, so it allows"
                    " and forbids nothing."
                )
            if source.version > CURRENT:
                ignored = ", ".join(source.left_out)
                yield (
                    f"{source.label} is of a newer Rewake (settings_version {source.version})"
                    + (f"; what isn't understood is left out: {ignored}." if ignored else ".")
                )
        if self.untrusted:
            keys = ", ".join(dict.fromkeys(item.key for item in self.untrusted))
            yield (
                f"This project's own settings don't count until you trust them: {keys}."
                " Look at them and decide with `rewake config trust`."
            )


def load_settings(
    home: Path, project: Path, overrides: Mapping[str, Any] | None = None
) -> Settings:
    """The settings of a run. `overrides` win; those that are None don't count.

    Raises SettingsError for a file or a value that can't be used.
    """
    flags = {key: value for key, value in (overrides or {}).items() if value is not None}
    return load(Places(home, project, flags=flags)).settings


def load(places: Places, *, may_leave_out: bool = False) -> Loaded:
    """Read every source. Raises SettingsError for the first that can't be used.

    With `may_leave_out`, a file of the user, the project or the local one that can't be used is left
    out and among `problems`, and what remains is narrowed.
    """
    sources, problems = _sources(places, may_leave_out=may_leave_out)
    content = content_hash(sources)
    answer = read_answers(places.home).to(places.root, content) if content else None
    merged, untrusted = _merged(sources, trusted=answer is True)
    is_guarded = bool(problems) or any(source.hides_guards for source in sources)
    if is_guarded:
        _guard(merged)
    return Loaded(
        settings=msgspec.convert(merged, Settings),
        values=merged,
        sources=tuple(sources),
        untrusted=untrusted,
        problems=tuple(problems),
        is_guarded=is_guarded,
        content=content,
        answer=answer,
    )


def _sources(places: Places, *, may_leave_out: bool) -> tuple[list[Source], list[SettingsError]]:
    found: list[Source] = []
    problems: list[SettingsError] = []

    def take(read: Callable[[], Source | None], *, may_fail: bool) -> None:
        try:
            source = read()
        except SettingsError as error:
            if not may_fail:
                raise
            problems.append(error)
            return
        if source is not None:
            found.append(source)

    for name in FILE_SOURCES:
        if name in places.only:
            take(lambda name=name: _file_source(places, name), may_fail=may_leave_out)  # type: ignore[misc]
    if places.extra is not None:
        label, file, text = places.extra
        take(lambda: parsed("flags", label, text, file), may_fail=False)
    if places.flags:
        take(lambda: given("flags", "the command line", places.flags), may_fail=False)
    managed = places.managed
    if managed is not None:
        take(lambda: read_source("managed", managed, STEM), may_fail=False)
    servers = read_mcp_json(places.root) if "project" in places.only else None
    found += [] if servers is None else [servers]
    found.sort(
        key=lambda source: RISING.index(source.name)
    )  # stable: the command line over --settings
    return found, problems


def _file_source(places: Places, name: FileSource) -> Source | None:
    source = read_source(name, places.directory(name), places.stem(name))
    if source is None or source.file is None or name == "user":
        return source
    if name == "local" and not widening(source):
        return source  # it doesn't matter whether it came with the project
    if name == "project" or is_tracked(places.root, source.file):
        source.is_foreign = True
        refuse_bypass(source)
    elif not is_repository(places.root):
        source.is_foreign = True  # an unpacked archive has everything that somebody put into it
    return source


def refuse_bypass(source: Source) -> None:
    """Raises SettingsError where a source that comes with a project switches permissions off."""
    if lookup(source.data, ("permissions", "mode")) != "bypass":
        return
    error = source.error(("permissions", "mode"), "another mode", "bypass")
    error.message = (
        f"{error.message.removesuffix('.')}: that file comes with the project and can't switch"
        " permissions off."
    )
    error.remedy = (
        f"Remove it there; set it in an untracked {LOCAL_STEM}.json or by --permission-mode."
    )
    raise error


def _counts(source: Source, key: Key, value: Any, *, trusted: bool) -> bool:
    return trusted or not (source.is_foreign and key.needs_trust and not narrows(key, value))


def _merged(
    sources: Sequence[Source], *, trusted: bool
) -> tuple[dict[str, Any], tuple[LeftOut, ...]]:
    merged: dict[str, Any] = {}
    untrusted: list[LeftOut] = []
    for key in KEYS.values():
        values = []
        for source in sources:
            value = lookup(source.data, key.path)
            if value is None:
                continue
            if _counts(source, key, value, trusted=trusted):
                values.append(value)
            elif value not in ([], {}):
                untrusted.append(LeftOut(key.name, value, source.where(key.path)))
        if values:
            holder = merged
            for name in key.path[:-1]:
                holder = holder.setdefault(name, {})
            holder[key.path[-1]] = combined(key, values)
    return merged, tuple(untrusted)


def combined(key: Key, values: Sequence[Any]) -> Any:
    """What values of several sources, in rising order, make together. There is at least one."""
    match key.merge:
        case "nearest":
            return values[-1]
        case "together":
            return list(dict.fromkeys(item for value in values for item in value))
        case "by_name":
            return _by_name(values)


def _by_name(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for value in values:
        for name, one in value.items():
            before = found.get(name)
            # Of hooks, each event has a list, and no source's hooks switch another's off.
            both = isinstance(before, list) and isinstance(one, list)
            found[name] = [*before, *one] if both and before is not None else one
    return found


def _guard(merged: dict[str, Any]) -> None:
    """Let nothing be allowed by itself: what would forbid it may be missing."""
    permissions = merged.setdefault("permissions", {})
    for name in ("allow", "additional_directories"):
        permissions.pop(name, None)
    if permissions.get("mode") != "plan":
        permissions["mode"] = "default"
    for name in ("mcp_servers", "telemetry", "instructions"):
        merged.pop(name, None)
    merged["redact_transcript"] = True
