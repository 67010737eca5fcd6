"""The settings of a run: what the command line says joined with the files, and what to tell of them.

The rules kept here: an option that an administrator's setting forbids is refused, never ignored; a
rule that can't be read is told with its place; and a project's own rules are shown before anybody
is asked to trust them.
"""

from __future__ import annotations

import sys
from typing import Any

from rewake.agent.rules import parse_rule
from rewake.cli.options import AgentChoices
from rewake.cli.terminal import one_line, say, style_for
from rewake.compose.place import Place, place
from rewake.compose.settings import answer, load_for
from rewake.errors import SettingsError, UsageError
from rewake.model.content import JsonObject
from rewake.settings.check import lookup, shown
from rewake.settings.keys import KEYS
from rewake.settings.load import Loaded
from rewake.settings.source import Source

_YES, _NO = frozenset({"y", "yes"}), frozenset({"n", "no"})


def settings_of(choices: AgentChoices, at: Place) -> Loaded:
    """The settings of a run with these choices. Raises SettingsError, UsageError."""
    loaded = load_for(
        at,
        sources=choices.setting_sources,
        extra=choices.settings,
        flags=_flags(choices),
        may_leave_out=choices.interactive,
    )
    _refuse_overridden(loaded)
    for source in loaded.sources:
        _check_rules(source)
    return loaded


def _flags(choices: AgentChoices) -> JsonObject:
    said: JsonObject = {
        "model": choices.model,
        "max_steps": choices.max_steps,
        "max_cost_usd": choices.max_cost or None,
    }
    found = {name: value for name, value in said.items() if value is not None}
    if choices.permission_mode is not None:
        found["permissions"] = {"mode": choices.permission_mode}
    return found


def _refuse_overridden(loaded: Loaded) -> None:
    for flags in loaded.sources:
        if flags.name != "flags":
            continue
        for key in KEYS.values():
            said, managed = lookup(flags.data, key.path), loaded.managed(key.name)
            if managed is None or said is None or key.merge != "nearest":
                continue
            wanted = lookup(managed.data, key.path)
            if wanted != said:
                raise SettingsError(
                    f"{flags.label} can't set {key.name} to {shown(said)}:"
                    f" {managed.where(key.path)} sets it to {shown(wanted)} for everybody here.",
                    remedy="Leave it out, or ask whoever administers this machine.",
                    key=key.name,
                    expected=shown(wanted),
                    found=shown(said),
                )


def _check_rules(source: Source) -> None:
    for name in ("permissions.allow", "permissions.deny"):
        path = KEYS[name].path
        for number, rule in enumerate(lookup(source.data, path) or ()):
            try:
                parse_rule(rule)
            except SettingsError as error:
                raise source.error((*path, number), "Tool or Tool(what)", shown(rule)) from error


# --- trust -----------------------------------------------------------------------------------


def ask_for_trust(choices: AgentChoices) -> None:
    """Ask once whether this project's own settings may count, if there is a terminal to ask on.

    The answer is kept for exactly that content. Raises what `settings_of` does, and StorageError.
    """
    if not has_terminal():
        return
    from rewake.cli.opening import working_directory

    at = place(working_directory(choices))
    loaded = settings_of(choices, at)
    if not loaded.untrusted or loaded.answer is not None:
        return
    show_untrusted(loaded, at)
    said = _asked("Trust these settings of the project? [y]es, [n]o: ")
    if said is not None:
        answer(at, loaded, trusted=said)
    if not said:
        when = "next time you are asked again" if said is None else "until they change"
        say(f"They don't count ({when}). `rewake config trust` decides anew.", stream=sys.stderr)


def show_untrusted(loaded: Loaded, at: Place) -> None:
    """What the project's own settings would allow, each with its place."""
    style = style_for(sys.stderr)
    say(style.yellow(f"{one_line(str(at.root))} brings settings of its own:"), stream=sys.stderr)
    for item in loaded.untrusted:
        for line in _lines(item.value):
            # In full, however long: what is cut off is what somebody wants to hide.
            text = one_line(f"{item.key}: {line}")
            say(f"  {text}  {style.dim(one_line(item.where))}", stream=sys.stderr)


def _lines(value: Any) -> list[str]:
    """A list by its items and an object by its members, so that nothing hides in a long line."""
    import json

    if isinstance(value, list):
        return [item if isinstance(item, str) else json.dumps(item) for item in value]
    if isinstance(value, dict):
        return [f"{name}: {json.dumps(one)}" for name, one in value.items()]
    return [value if isinstance(value, str) else json.dumps(value)]


def _asked(question: str) -> bool | None:
    """The user's answer; None where it is none, such as a prompt that was typed ahead."""
    say(question, stream=sys.stderr, end="")
    said = sys.stdin.readline().strip().lower()
    return True if said in _YES else False if said in _NO else None


def has_terminal() -> bool:
    """Whether a question can be asked on stderr and answered on stdin."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def ask_yes_or_no(question: str, *, remedy: str) -> bool:
    """Whether the user says yes. Raises UsageError where nobody can be asked."""
    said = _asked(question) if has_terminal() else None
    if said is None:
        raise UsageError("There is nobody to ask.", remedy=remedy)
    return said
