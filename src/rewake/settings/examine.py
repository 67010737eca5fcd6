"""Everything that can be said against settings files, all at once.

The rule kept here: looking changes nothing, and one file that can't be read hides no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rewake.errors import SettingsError
from rewake.settings import check
from rewake.settings.load import FILE_SOURCES, STEM, Loaded, Places, load
from rewake.settings.migrations import CURRENT, migrate, version_of
from rewake.settings.source import (
    Source,
    SourceName,
    find_file,
    is_toml,
    parsed,
    read_text,
    text_in,
)
from rewake.settings.spots import TextError, dotted

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about one file. `line` and `column` are from 1, 0 where there is no place."""

    level: Level
    file: str
    line: int
    column: int
    key: str
    message: str
    remedy: str = ""


def examine(places: Places) -> tuple[list[Finding], list[Source]]:
    """What there is to say, and the sources that can be used."""
    findings: list[Finding] = []
    sources: list[Source] = []
    names: list[SourceName] = [name for name in FILE_SOURCES if name in places.only]
    if places.managed is not None:
        names.append("managed")
    for name in names:
        try:
            source = _source(places, name, findings)
        except SettingsError as error:
            findings.append(of_error(error))
            continue
        if source is not None:
            sources.append(source)
            findings.extend(_about(source))
    return findings, sources


def of_error(error: SettingsError) -> Finding:
    """An error as a finding."""
    return Finding(
        "error", error.file, error.line, error.column, error.key, error.message, error.remedy
    )


def trust_findings(places: Places) -> Iterator[Finding]:
    """What doesn't count for want of trust or can't be used, and what loading it all together refuses."""
    try:
        loaded: Loaded = load(places, may_leave_out=False)
    except SettingsError as error:
        yield of_error(error)
        return
    for source in loaded.sources:
        for sentence in source.told:
            yield Finding("warning", source.label, 0, 0, "", sentence)
    for item in loaded.untrusted:
        file, _, line = item.where.rpartition(":")
        yield Finding(
            "warning",
            file,
            int(line),
            1,
            item.key,
            f"{item.where}: {item.key} doesn't count, because this project isn't trusted with it.",
            "Decide with `rewake config trust`.",
        )


def _source(places: Places, name: SourceName, findings: list[Finding]) -> Source | None:
    if name == "managed" and places.managed is not None:
        file = find_file(places.managed, STEM)
    elif name in {"user", "project", "local"}:
        file = find_file(places.directory(name), places.stem(name))
    else:
        file = None
    if file is None:
        return None
    text = text_in(file)
    try:
        return parsed(name, str(file), text, file)
    except SettingsError as error:
        try:
            data, spots = read_text(text, is_toml=is_toml(file))
        except TextError:
            raise error from None
        source = Source(name, str(file), data, file, text, spots, version_of(data))
        migrate(source.data, source.spots)
        findings.extend(of_error(source.error(*one)) for one in check.problems(source.data))
        findings.extend(_about(source))
        return None


def _about(source: Source) -> Iterator[Finding]:
    for unknown in check.unknown_keys(source.data):
        line, column = source.place(unknown.path)
        near = f" Did you mean {unknown.nearest}?" if unknown.nearest else ""
        yield Finding(
            "warning",
            source.label,
            line,
            column,
            dotted(unknown.path),
            f"{source.label}:{line}:{column}: {dotted(unknown.path)} is no key that this version"
            " knows; it is left alone.",
            near.strip(),
        )
    for change in source.changes:
        message = f"{source.label}: {change}."
        yield Finding(
            "note", source.label, 1, 1, "", message, "`rewake config migrate` writes that."
        )
    if source.version > CURRENT:
        message = f"{source.label} is of a newer Rewake (settings_version {source.version})."
        yield Finding("warning", source.label, 1, 1, "", message, "It is read, and never changed.")
        for key in source.left_out:
            yield Finding(
                "warning", source.label, 1, 1, key, f"{source.label}: {key} isn't understood.", ""
            )
