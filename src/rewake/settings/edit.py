"""Changes a settings text and leaves everything else in it as it is: comments, order, layout.

The rule kept here: the new text is read again, and it must say what the old one said with the change
and nothing else; else it is refused, and nothing was written.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from rewake.errors import SettingsError
from rewake.settings.jsonc import JsonReader
from rewake.settings.source import read_text
from rewake.settings.spots import Path, dotted

_INDENT: Final = "  "
_REST_OF_LINE: Final = re.compile(r"(?:[ \t\r]++|//[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*\*/)*")


@dataclass(frozen=True, slots=True)
class Edit:
    """One change at `path`, a way of names.

    `put` sets `value`; `remove` takes the key away; `add` and `take` put a list's item in or out, an
    item that is there already (or isn't) changes nothing; `rename` gives the key the name `value`.
    """

    kind: Literal["put", "remove", "add", "take", "rename"]
    path: tuple[str, ...]
    value: Any = None


def edited(text: str, edits: Sequence[Edit], *, is_toml: bool) -> str:
    """The text with the changes. Raises SettingsError where they can't be made, TextError for a text
    that can't be read.
    """
    for edit in edits:
        data, _ = read_text(text, is_toml=is_toml)
        wanted = applied(data, edit)
        if wanted == data:
            continue
        changed = _toml(text, edit, wanted) if is_toml else _json(text, edit, data, wanted)
        if read_text(changed, is_toml=is_toml)[0] != wanted:
            raise SettingsError(
                f"{dotted(edit.path)} can't be changed in place without losing how the file is written.",
                remedy="Change it by hand: `rewake config edit` checks it afterwards.",
                key=dotted(edit.path),
            )
        text = changed
    return text


def applied(data: dict[str, Any], edit: Edit) -> dict[str, Any]:
    """A copy of the values with the change. Raises SettingsError where a list is needed."""
    wanted = copy.deepcopy(data)
    holder = wanted
    for name in edit.path[:-1]:
        inner = holder.get(name)
        if not isinstance(inner, dict):
            if edit.kind in {"remove", "take", "rename"}:
                return wanted
            inner = holder[name] = {}
        holder = inner
    _change(holder, edit)
    return wanted


def _change(holder: dict[str, Any], edit: Edit) -> None:
    name, before = edit.path[-1], holder.get(edit.path[-1])
    match edit.kind:
        case "put":
            holder[name] = edit.value
        case "remove":
            holder.pop(name, None)
        case "add":
            items = _items(edit, before)
            holder[name] = items if edit.value in items else [*items, edit.value]
        case "take" if before is not None:
            holder[name] = [item for item in _items(edit, before) if item != edit.value]
        case "rename" if name in holder:
            renamed = {edit.value if key == name else key: holder[key] for key in holder}
            holder.clear()
            holder.update(renamed)
        case _:
            return


def difference(
    before: dict[str, Any], after: dict[str, Any], path: tuple[str, ...] = ()
) -> list[Edit]:
    """The edits that lead from one to the other; a key with the same value under another name is renamed."""
    gone = [name for name in before if name not in after]
    new = [name for name in after if name not in before]
    edits: list[Edit] = []
    for name in list(new):
        old = next((one for one in gone if before[one] == after[name]), None)
        if old is not None:
            gone.remove(old)
            new.remove(name)
            edits.append(Edit("rename", (*path, old), name))
    edits += [Edit("remove", (*path, name)) for name in gone]
    for name, now in after.items():
        was = before.get(name)
        if name in new:
            edits.append(Edit("put", (*path, name), now))
        elif isinstance(was, dict) and isinstance(now, dict):
            edits += difference(was, now, (*path, name))
        elif name in before and was != now:
            edits.append(Edit("put", (*path, name), now))
    return edits


def _items(edit: Edit, value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise SettingsError(
            f"{dotted(edit.path)} is no list.",
            remedy="Set it as a whole, without --add or --remove.",
            key=dotted(edit.path),
        )
    return value


def _at(data: dict[str, Any], path: Sequence[str]) -> Any:
    value: Any = data
    for name in path:
        value = value[name]
    return value


# --- JSON: only the bytes that change --------------------------------------------------------


class _Json:
    """A JSON text with the places of everything in it."""

    def __init__(self, text: str) -> None:
        self.reader = JsonReader(text)
        self.reader.read()
        self.text = text
        self.spots = self.reader.spots

    def members(self, path: Path) -> list[Path]:
        depth = len(path) + 1
        found = [at for at in self.spots if len(at) == depth and at[:-1] == path]
        return sorted(found, key=lambda at: self.spots[at].key)


def _json(text: str, edit: Edit, data: dict[str, Any], wanted: dict[str, Any]) -> str:
    if not data and JsonReader(text).read() is None:  # nothing, or comments alone
        return (text.rstrip("\n") + "\n" if text.strip() else "") + _dumped(wanted, "") + "\n"
    document = _Json(text)
    match edit.kind:
        case "rename":
            start = document.spots[edit.path].key
            _, end = json.JSONDecoder().raw_decode(text, start)
            return text[:start] + json.dumps(edit.value, ensure_ascii=False) + text[end:]
        case "remove":
            return _without(document, edit.path)
        case "add" if _is_list(document, edit.path):
            return _behind_last(document, edit.path, json.dumps(edit.value, ensure_ascii=False))
        case "take" if _at(data, edit.path).count(edit.value) == 1:
            return _without(document, (*edit.path, _at(data, edit.path).index(edit.value)))
        case _:
            return _written(document, *_deepest(document, edit.path, wanted))


def _written(document: _Json, path: tuple[str, ...], value: Any) -> str:
    spot, text = document.spots.get(path), document.text
    if spot is None:
        return _inserted(document, path, value)
    return text[: spot.start] + _dumped(value, _indent_at(text, spot.key)) + text[spot.end :]


def _deepest(
    document: _Json, path: tuple[str, ...], wanted: dict[str, Any]
) -> tuple[tuple[str, ...], Any]:
    """The outermost place on the way that must be written, and its value."""
    for length in range(1, len(path) + 1):
        spot = document.spots.get(path[:length])
        is_object = spot is not None and document.text.startswith("{", spot.start)
        if not is_object or length == len(path):
            return path[:length], _at(wanted, path[:length])
    return path, _at(wanted, path)


def _is_list(document: _Json, path: Path) -> bool:
    return path in document.spots and document.text.startswith("[", document.spots[path].start)


def _inserted(document: _Json, path: tuple[str, ...], value: Any) -> str:
    holder = path[:-1]
    members = document.members(holder)
    text = document.text
    indent = _indent_at(text, document.spots[members[-1]].key) if members else ""
    name = json.dumps(path[-1], ensure_ascii=False)
    if not members:
        outer = _indent_at(text, document.spots[holder].key)
        indent = outer + _INDENT
    return _behind_last(document, holder, f"{name}: {_dumped(value, indent)}")


def _behind_last(document: _Json, holder: Path, new: str) -> str:
    """The text with `new` as the last member or item of what is at `holder`."""
    text, spot = document.text, document.spots[holder]
    members = document.members(holder)
    if not members:
        return _as_first(document, holder, new)
    last = document.spots[members[-1]]
    behind = document.reader.skip(last.end)
    comma = behind + 1 if text.startswith(",", behind) else 0
    is_on_own_line = "\n" in text[spot.start : last.key]
    between = f"\n{_indent_at(text, last.key)}" if is_on_own_line else " "
    if comma:
        end = _line_end(text, comma) if is_on_own_line else comma
        return f"{text[:end]}{between}{new},{text[end:]}"
    # The comma goes right behind the value, so that a comment behind that stays one.
    end = _line_end(text, last.end) if is_on_own_line else last.end
    return f"{text[: last.end]},{text[last.end : end]}{between}{new}{text[end:]}"


def _as_first(document: _Json, holder: Path, new: str) -> str:
    text, spot = document.text, document.spots[holder]
    close = spot.end - 1
    outer = _indent_at(text, spot.key)
    if text[spot.start + 1 : close].strip():  # comments: they stay, before it
        return f"{text[:close].rstrip()}\n{outer}{_INDENT}{new}\n{outer}{text[close:]}"
    if text[spot.start] == "[":
        return f"{text[: spot.start + 1]}{new}{text[close:]}"
    return f"{text[: spot.start + 1]}\n{outer}{_INDENT}{new}\n{outer}{text[close:]}"


def _line_end(text: str, start: int) -> int:
    """Behind what is left of the line, if that is only comments."""
    found = _REST_OF_LINE.match(text, start)
    end = found.end() if found else start
    return end if text.startswith("\n", end) else start


def _without(document: _Json, path: Path) -> str:
    text, spot = document.text, document.spots[path]
    start, end = spot.key, spot.end
    behind = document.reader.skip(end)
    members = document.members(path[:-1])
    if text.startswith(",", behind):
        end = behind + 1
        while text[end : end + 1] in {" ", "\t"}:
            end += 1
    elif len(members) > 1:
        before = document.spots[members[-2]]
        comma = document.reader.skip(before.end)
        return _without_line(text[:comma] + text[comma + 1 :], start - 1, end - 1)
    return _without_line(text, start, end)


def _without_line(text: str, start: int, end: int) -> str:
    """Cut a piece out; a line of which nothing else is left goes, too."""
    line = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    line_end = len(text) if line_end < 0 else line_end
    if not text[line:start].strip() and not text[end:line_end].strip() and line > 0:
        return text[: line - 1] + text[line_end:]
    while start > line and text[start - 1] == " " and text[end : end + 1] in {"", " ", "}", "]"}:
        start -= 1
    return text[:start] + text[end:]


def _indent_at(text: str, offset: int) -> str:
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _dumped(value: Any, indent: str) -> str:
    """JSON over several lines where it has members; short lists on one line."""
    if isinstance(value, dict) and value:
        inner = indent + _INDENT
        members = [
            f"{inner}{json.dumps(name, ensure_ascii=False)}: {_dumped(one, inner)}"
            for name, one in value.items()
        ]
        return "{\n" + ",\n".join(members) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        inner = indent + _INDENT
        items = [inner + _dumped(item, inner) for item in value]
        return "[\n" + ",\n".join(items) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)


# --- TOML: by the library that keeps the layout ----------------------------------------------


def _toml(text: str, edit: Edit, wanted: dict[str, Any]) -> str:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        holder: Any = document
        for name in edit.path[:-1]:
            if not isinstance(holder.get(name), dict):
                holder[name] = tomlkit.table()
            holder = holder[name]
        name = edit.path[-1]
        match edit.kind:
            case "remove":
                del holder[name]
            case "rename":
                holder[edit.value] = _at(wanted, (*edit.path[:-1], edit.value))
                del holder[name]
            case "add" if isinstance(holder.get(name), list):
                holder[name].append(edit.value)
            case _:
                holder[name] = _at(wanted, edit.path)
        return tomlkit.dumps(document)
    except (TOMLKitError, ValueError, TypeError, KeyError) as error:
        raise SettingsError(
            f"{dotted(edit.path)} can't be changed in place: {error}.",
            remedy="Change it by hand: `rewake config edit` checks it afterwards.",
            key=dotted(edit.path),
        ) from error
