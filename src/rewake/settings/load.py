"""Settings from three files, later ones over earlier ones: user, project, local.

The rules kept here:

- A key that this version doesn't know is left alone, so that one file serves several versions.
- Lists of permission rules add up; everything else is overridden by the nearer file.
- An error names the file and the key. Nothing is guessed and nothing is written.
- A project's shared file comes with a clone, so it can't switch permissions off; nor can a local file
  that somebody has put under version control.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from rewake.errors import SettingsError
from rewake.log.git import is_tracked
from rewake.model.content import JsonObject
from rewake.settings.schema import Settings

FILE_NAME: Final = "settings.json"
LOCAL_FILE_NAME: Final = "settings.local.json"
_FILE_BYTES_MAX: Final = 1 << 20
_LISTS: Final = ("allow", "deny", "additional_directories")


_POSITIVE: Final = ("max_steps", "max_cost_usd", "compact_at_tokens")


def settings_files(home: Path, project: Path) -> tuple[Path, ...]:
    """The files that are read, in rising order of precedence."""
    own = project / ".rewake"
    return home / FILE_NAME, own / FILE_NAME, own / LOCAL_FILE_NAME


def load_settings(
    home: Path, project: Path, overrides: Mapping[str, object] | None = None
) -> Settings:
    """The settings of a run. `overrides` (from the command line) win; those that are None don't count.

    Raises SettingsError for a file or a value that can't be used.
    """
    merged: JsonObject = {}
    files = settings_files(home, project)
    _, shared, local = files
    for file in files:
        given = _read(file)
        _check(given, str(file))
        if file == shared or (
            file == local and given.get("permissions") and is_tracked(project, file)
        ):
            _check_shared(given, file)
        merged = _merge(merged, given)
    if overrides:
        given = {key: value for key, value in overrides.items() if value is not None}
        _check(given, "the command line")
        merged = _merge(merged, given)
    return msgspec.convert(merged, Settings)


def _read(file: Path) -> JsonObject:
    try:
        with file.open("rb") as opened:
            data = opened.read(_FILE_BYTES_MAX + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise SettingsError(
            f"The settings file {file} can't be read: {error.strerror or error}.",
            remedy="Make it readable or move it away.",
        ) from error
    if len(data) > _FILE_BYTES_MAX:
        raise SettingsError(
            f"The settings file {file} is larger than {_FILE_BYTES_MAX} bytes.",
            remedy="Move it away and write a new one.",
        )
    return _decode(data, file)


def _decode(data: bytes, file: Path) -> JsonObject:
    text = data.removeprefix(b"\xef\xbb\xbf")
    if not text.strip():
        return {}  # an empty file sets nothing
    try:
        decoded = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsError(
            f"The settings file {file} is no JSON: {error}.",
            remedy="Correct it; comments and trailing commas are not allowed.",
        ) from error
    if not isinstance(decoded, dict):
        raise SettingsError(
            f"The settings file {file} holds no JSON object.",
            remedy='Write it as an object, such as {"model": "…"}.',
        )
    return decoded


def _check(given: Mapping[str, object], source: str) -> None:
    """Check one source by itself, so that the error can name it."""
    try:
        settings = msgspec.convert(given, Settings)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$.")
        key = where.rstrip("`") or "a key"
        raise SettingsError(
            f"In {source}, {key} can't be used: {what[:1].lower()}{what[1:]}.",
            remedy="Correct the value or remove the key.",
        ) from error
    for key in _POSITIVE:
        value: int | float | None = getattr(settings, key)
        if value is not None and not value > 0:
            raise SettingsError(
                f"In {source}, {key} can't be used: expected a number above 0, got {value}.",
                remedy="Correct the value or remove the key.",
            )


def _check_shared(given: JsonObject, file: Path) -> None:
    if msgspec.convert(given, Settings).permissions.mode == "bypass":
        raise SettingsError(
            f"In {file}, permissions.mode can't be bypass: that file comes with the project.",
            remedy=f"Remove it there; set it in an untracked {LOCAL_FILE_NAME} or by "
            "--permission-mode.",
        )


def _merge(under: JsonObject, over: Mapping[str, object]) -> JsonObject:
    merged = {**under, **over}
    first, second = under.get("permissions"), over.get("permissions")
    if isinstance(first, dict) and isinstance(second, dict):
        merged["permissions"] = {**first, **second, **_joined(first, second)}
    return merged


def _joined(first: JsonObject, second: JsonObject) -> JsonObject:
    return {key: _unique(first.get(key, []), second.get(key, [])) for key in _LISTS}


def _unique(first: Sequence[object], second: Sequence[object]) -> list[object]:
    return list(dict.fromkeys([*first, *second]))
